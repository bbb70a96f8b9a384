/* exp, log, tanh and the logistic function of W numbers at once. NaN in, NaN out, but for log,
 * which reads any bits as those of a positive normal number. The coefficients are our own minimax
 * fits (weighted least squares, iterated); test_cpu_math measures the errors over the whole range.
 * For cpu_kernels.c and its parts only. */
#ifndef ACORN_LEARNER_DEVICE_CPU_CPU_MATH_H
#define ACORN_LEARNER_DEVICE_CPU_CPU_MATH_H

#include "learner/device/cpu/cpu_vector.h"

/* exp(x), relative error below 2e-7; 0 below -87, and as at 88 above it. */
INLINE vf vexp(vf x) {
  const float magic =
      12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number, kept in the low bits */
  vf clamped = vmax(splat(-87.0f), vmin(splat(88.0f), x));
  vf shifted = clamped * 1.44269504f + magic;
  vf n = shifted - magic;
  vf r = clamped - n * 0.693145752f; /* ln 2 in two parts, the first with few bits */
  r -= n * 1.42860677e-6f;
  vf p = splat(0.0013813078719443598f);
  p = p * r + 0.008369424731274671f;
  p = p * r + 0.04166845817330106f;
  p = p * r + 0.16666514726714177f;
  p = p * r + 0.49999993043774543f;
  p = (p * r) * r + r + 1.0f;
  vf power = (vf)(((vi)shifted << 23) + (127 << 23)); /* 2^n: all but n is shifted out */
  return select_less(x, splat(-87.0f), splat(0), p * power);
}

/* log(x) of a positive normal number, relative error below 3e-7. */
INLINE vf vlog(vf x) {
  vi bits = (vi)x - 0x3f3504f3; /* sqrt(1/2), so that the mantissa lies in [sqrt(1/2), sqrt(2)) */
  vf n = __builtin_convertvector(bits >> 23, vf);
  vf m = (vf)((bits & 0x007fffff) + 0x3f3504f3);
  vf s = (m - 1.0f) / (m + 1.0f);
  vf s2 = s * s;
  vf p = splat(0.298979298951392f);
  p = p * s2 + 0.3997664364646666f;
  p = p * s2 + 0.6666678292205611f;
  return n * 0.693145752f + (n * 1.42860677e-6f + (p * s2) * s + 2.0f * s);
}

#define TANH_LIMIT 8.5f /* beyond it tanh is 1 to a float's precision */
#define EACH(i, n) _Pragma("GCC unroll 8") for (int i = 0; i < (n); i++)

/* n tanh (1, 2 or 4; a constant where this is expanded) in place: tanh(x) = x P(x^2) / Q(x^2),
 * error below 4e-7. The n chains run side by side, because each alone waits for its own last
 * result; two share one division. */
INLINE void vtanh_each(vf *y, const int n) {
  vf x[4], s[4], p[4], q[4];
  EACH(i, n) x[i] = vmax(splat(-TANH_LIMIT), vmin(splat(TANH_LIMIT), y[i]));
  EACH(i, n) s[i] = x[i] * x[i];
  EACH(i, n) q[i] = s[i] * 0.00023165594f + 0.0238658395f;
  EACH(i, n) q[i] = q[i] * s[i] + 0.462757111f;
  EACH(i, n) q[i] = q[i] * s[i] + 1.0f;
  EACH(i, n) p[i] = s[i] * 2.02803919e-11f - 1.35326594e-08f;
  EACH(i, n) p[i] = p[i] * s[i] + 9.50682988e-06f;
  EACH(i, n) p[i] = p[i] * s[i] + 0.00294609577f;
  EACH(i, n) p[i] = p[i] * s[i] + 0.129424393f;
  EACH(i, n) p[i] = p[i] * s[i] + 0.999999821f;
  EACH(i, n) p[i] = p[i] * x[i];
  EACH(i, n / 2) {
    vf inverse = 1.0f / (q[2 * i] * q[2 * i + 1]);
    y[2 * i] = p[2 * i] * q[2 * i + 1] * inverse;
    y[2 * i + 1] = p[2 * i + 1] * q[2 * i] * inverse;
  }
  if (n % 2) y[n - 1] = p[n - 1] / q[n - 1];
}

INLINE vf vtanh(vf x) {
  vtanh_each(&x, 1);
  return x;
}

/* The four gates of an LSTM cell in place: logistic, logistic, tanh, logistic; 1 / (1 + exp(-x))
 * = (1 + tanh(x / 2)) / 2. Absolute error below 3e-7. */
INLINE void vgates(vf gate[4]) {
  gate[0] *= 0.5f, gate[1] *= 0.5f, gate[3] *= 0.5f;
  vtanh_each(gate, 4);
  gate[0] = 0.5f + 0.5f * gate[0], gate[1] = 0.5f + 0.5f * gate[1], gate[3] = 0.5f + 0.5f * gate[3];
}

#endif
