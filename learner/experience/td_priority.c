#include "learner/experience/td_priority.h"
#include <math.h>
#include "common/base/step.h"
static double h(double x,double e){return e>0? copysign(sqrt(fabs(x)+1)-1,x)+e*x : x;}
static double hi(double x,double e){ if(!(e>0)) return x; double r=(sqrt(1+4*e*(fabs(x)+1+e))-1)/(2*e); return copysign(r*r-1,x);}
float td_priority(const struct td_priority_config *c, const float *value, const float *best, const float *reward, const uint8_t *flags){
  double mx=0,sum=0; int n=0;
  for(int t=0;t<c->counted;t++){ if(flags[t]&STEP_TRUNCATED) continue;
    double g=0,d=1; for(int k=0;;k++){ int r=t+1+k; double x=c->reward_scale*reward[r]; if(c->reward_clip>0) x=fmax(-c->reward_clip,fmin(c->reward_clip,x)); g+=d*x; d*=c->discount; if(flags[r]&STEP_TERMINATED) break; if((flags[r]&STEP_TRUNCATED)||k==c->n_steps-1||r==c->T){g+=d*hi(best[r],c->rescaling);break;} }
    double td=fabs(h(g,c->rescaling)-value[t]); if(!(td<=mx)) mx=td; sum+=td; n++; }
  return n? (float)(c->eta*mx+(1-c->eta)*sum/n):0;
}
