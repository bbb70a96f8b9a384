/* The loss of action values, and the distance of two heads' values: operations q_loss and
 * q_distance. A warp works on a row. Three launches: the value that each row gives to returns which
 * end there; the steps; the windows' priorities and the sums over the blocks of steps. */
#include "learner/device/cuda/action_values.h"
#include "learner/device/cuda/cuda.h"
#include "learner/device/cuda/rewards.h"
#include "learner/device/cuda/warps.h"

/* h and its inverse, in forms that lose no digits where x or epsilon is small. */
DEVICE float rescale(float x, float epsilon) {
  return epsilon > 0 ? x * (1 / (sqrtf(fabsf(x) + 1) + 1) + epsilon) : x;
}

DEVICE float rescale_back(float x, float epsilon) {
  if (!(epsilon > 0)) return x;
  float root = sqrtf(1 + 4 * epsilon * (fabsf(x) + 1 + epsilon));
  float slope = (2 - 4 * epsilon / (root + 1 + 2 * epsilon)) / (root + 1);
  return x * slope * (2 + fabsf(x) * slope);
}

/* ---- scratch memory of q_loss */

struct q_room {
  float *value;    /* ((T+1) N) from row 1 on. Z = 1: v(x); Z > 1: of the action below, by the
                      network that chose it */
  int32_t *action; /* ((T+1) N): the best */
  float *part;     /* (Q_SUMS, blocks of the steps) */
  float *count;    /* (1): steps that count */
};

static struct q_room room_of(struct cuda *cuda, const struct device_q_loss *loss, unsigned blocks) {
  size_t rows = (size_t)(loss->T + 1) * (size_t)loss->N;
  float *memory =
      (float *)cuda_scratch(cuda, (2 * rows + (size_t)Q_SUMS * blocks + 1) * sizeof *memory);
  struct q_room room;
  room.value = memory;
  room.action = (int32_t *)(memory + rows);
  room.part = memory + 2 * rows;
  room.count = room.part + (size_t)Q_SUMS * blocks;
  return room;
}

DEVICE const float *row_at(const struct device_q_loss &loss, const real *heads, size_t i) {
  return (const float *)heads + i * (size_t)loss.stride;
}

/* ---- the rows' values */

DEVICE void row_value(const struct q_room &room, const struct device_q_loss &loss, size_t i,
                      float *offsets) {
  const struct device_action_values &v = loss.values;
  struct head head =
      head_of(v, row_at(loss, loss.double_q ? loss.online : loss.target, i), offsets);
  struct best best = best_action(v, head);
  float value = best.value;
  if (v.Z == 1 && loss.double_q && value == value)
    value = action_value(v, head_of(v, row_at(loss, loss.target, i), offsets), best.action);
  if (lane_of_warp() > 0) return;
  room.value[i] = rescale_back(value, loss.rescaling);
  room.action[i] = best.action;
}

/* Of the steps of the first `counted` rows; by a block. */
DEVICE void count_steps(const struct q_room &room, const struct device_q_loss &loss) {
  size_t steps = (size_t)(loss.counted < loss.T ? loss.counted : loss.T) * (size_t)loss.N;
  int count = 0;
  for (size_t i = threadIdx.x; i < steps; i += blockDim.x)
    count += !(loss.flags[i] & STEP_TRUNCATED);
  float sum = block_sum((float)count);
  if (threadIdx.x == 0) *room.count = sum;
}

/* The last block counts. */
KERNEL q_rows(struct q_room room, struct device_q_loss loss, size_t rows) {
  DYNAMIC_SHARED(float, offsets); /* (WARPS, Z) */
  if (blockIdx.x == gridDim.x - 1) {
    count_steps(room, loss);
    return;
  }
  size_t i = row_of_warp() + (size_t)loss.N;
  if (i < rows) row_value(room, loss, i, numbers_of_warp(offsets, loss.values.Z));
}

/* ---- returns: G_t = reward + discount * v(x_row); discount 0: without v */

struct q_return {
  float reward, discount;
  size_t row; /* of (T+1) N */
};

DEVICE struct q_return n_step_return(const struct device_q_loss &loss, int t, int n) {
  struct q_return g = {0, 1, 0};
  int row = t, end = loss.n_steps < loss.T - t ? t + loss.n_steps : loss.T;
  while (row < end) {
    size_t i = (size_t)++row * (size_t)loss.N + (size_t)n;
    uint8_t flags = loss.flags[i];
    g.reward += g.discount * learned_reward(loss.reward[i], loss.reward_scale, loss.reward_clip);
    g.discount *= flags & STEP_TERMINATED ? 0 : loss.discount;
    if (flags & (STEP_TERMINATED | STEP_TRUNCATED)) break;
  }
  g.row = (size_t)row * (size_t)loss.N + (size_t)n;
  return g;
}

/* ---- one step: its numbers (value and target as in enum q_sum), and the gradient of its row of
 * the head */

struct q_step {
  float td, loss, value, target;
};

/* Gradients of number z of each action, given that of the action's own: all lanes that have a z
 * write their column. */
DEVICE void write_gradients(float *drow, const struct device_action_values &v, int action, int z,
                            float gradient) {
  float shared = v.dueling ? gradient / (float)v.A : 0;
  for (int a = 0; a < v.A; a++) drow[a * v.Z + z] = (a == action ? gradient : 0) - shared;
  if (v.dueling) drow[v.A * v.Z + z] = gradient;
}

/* As write_gradients for Z = 1, with a lane for each action. */
DEVICE void write_gradient(float *drow, const struct device_action_values &v, int action,
                           float gradient) {
  float shared = v.dueling ? gradient / (float)v.A : 0;
  for (int a = lane_of_warp(); a < v.A; a += WARP) drow[a] = (a == action ? gradient : 0) - shared;
  if (v.dueling && lane_of_warp() == 0) drow[v.A] = gradient;
}

DEVICE struct q_step scalar_step(float *drow, const struct q_room &room,
                                 const struct device_q_loss &loss, const float *row, int action,
                                 const struct q_return &g, float scale) {
  float v = g.discount == 0 ? 0 : g.discount * room.value[g.row];
  struct q_step step;
  step.value = action_value(loss.values, head_of(loss.values, row, nullptr), action);
  step.target = rescale(g.reward + v, loss.rescaling);
  step.td = step.target - step.value;
  float slope = loss.huber > 0 ? clip(step.td, loss.huber) : step.td;
  step.loss = slope * (step.td - slope / 2);
  write_gradient(drow, loss.values, action, -scale * slope);
  return step;
}

/* ---- distributions. A warp's shared memory */

struct q_atoms {
  float *offsets;     /* (Z) */
  float *probability; /* (Z) of the atoms of the target network, and */
  float *place;       /* where each goes, in atoms from the lowest */
};

DEVICE struct q_atoms atoms_of_warp(float *shared, int Z) {
  float *numbers = numbers_of_warp(shared, 3 * Z);
  return {numbers, numbers + Z, numbers + 2 * Z};
}

/* A number's place among the atoms, moved inside. */
DEVICE float place_of(const struct device_action_values &v, float x) {
  float inside = x < v.low ? v.low : x > v.high ? v.high : x, last = (float)(v.Z - 1);
  float place = (inside - v.low) * (last / (v.high - v.low));
  return place > last ? last : place;
}

/* Fills probability and place. Returns the number of atoms: 1 where the return ends without v. */
DEVICE int target_atoms(const struct q_atoms &atoms, const struct q_room &room,
                        const struct device_q_loss &loss, const struct q_return &g) {
  const struct device_action_values &v = loss.values;
  int lane = lane_of_warp(), count = g.discount == 0 ? 1 : v.Z;
  if (g.discount == 0) {
    if (lane == 0) atoms.probability[0] = 1, atoms.place[0] = place_of(v, g.reward);
  } else {
    int action = room.action[g.row];
    float poison = room.value[g.row] == room.value[g.row] ? 0 : NAN;
    struct head head = head_of(v, row_at(loss, loss.target, g.row), atoms.offsets);
    struct head_softmax softmax = softmax_along(v, head, action);
    for (int z = lane; z < v.Z; z += WARP) {
      atoms.probability[z] = expf(logit_at(v, head, action, z) - softmax.largest) / softmax.total;
      atoms.place[z] = place_of(v, g.reward + poison + g.discount * atom_at(v, z));
    }
  }
  __syncwarp();
  return count;
}

/* The probability of atom z in the target's distribution: an atom's share of a number is what is
 * left of 1 by the distance between them, in atoms. NaN in, NaN out. */
DEVICE float projected(const struct q_atoms &atoms, int count, int z) {
  float sum = 0;
  for (int j = 0; j < count; j++) {
    float share = 1 - fabsf((float)z - atoms.place[j]);
    sum += atoms.probability[j] * (share < 0 ? 0 : share);
  }
  return sum;
}

DEVICE struct q_step distribution_step(float *drow, const struct q_room &room,
                                       const struct device_q_loss &loss, const float *row,
                                       int action, const struct q_return &g, float scale,
                                       const struct q_atoms &atoms) {
  const struct device_action_values &v = loss.values;
  int count = target_atoms(atoms, room, loss, g);
  struct head head = head_of(v, row, atoms.offsets);
  struct head_softmax softmax = softmax_along(v, head, action);
  struct q_step step = {0, 0, 0, 0};
  for (int z = lane_of_warp(); z < v.Z; z += WARP) {
    float log_q = logit_at(v, head, action, z) - softmax.normaliser, q = expf(log_q),
          p = projected(atoms, count, z);
    step.value += q * atom_at(v, z);
    step.target += p * atom_at(v, z);
    step.loss -= p * log_q;
    step.td += p == 0 ? 0 : p * (logf(p) - log_q);
    write_gradients(drow, v, action, z, scale * (q - p));
  }
  return {warp_sum(step.td), warp_sum(step.loss), warp_sum(step.value), warp_sum(step.target)};
}

/* ---- steps */

DEVICE bool step_counts(const struct device_q_loss &loss, int t, size_t i) {
  return t < loss.counted && !(loss.flags[i] & STEP_TRUNCATED);
}

/* Zeros in columns first .. stride of a row. */
DEVICE void zero_row(float *drow, int first, int stride) {
  for (int k = first + lane_of_warp(); k < stride; k += WARP) drow[k] = 0;
}

/* What step i, which counts, adds to the sums; its lanes get the same. */
DEVICE void q_step_sums(float sums[Q_SUMS], float *drow, float *td, const struct q_room &room,
                        const struct device_q_loss &loss, size_t i, float *shared) {
  const struct device_action_values &v = loss.values;
  int t = (int)(i / (size_t)loss.N), n = (int)(i % (size_t)loss.N),
      action = in_range(loss.action[i], v.A);
  float weight = loss.weight ? loss.weight[n] : 1, count = *room.count;
  float scale = loss.reduction == LOSS_SUM_OVER_TIME ? 1 / (float)loss.N : 1 / count;
  struct q_return g = n_step_return(loss, t, n);
  const float *row = row_at(loss, loss.online, i);
  struct q_step step = v.Z == 1 ? scalar_step(drow, room, loss, row, action, g, scale * weight)
                                : distribution_step(drow, room, loss, row, action, g,
                                                    scale * weight, atoms_of_warp(shared, v.Z));
  zero_row(drow, (v.A + v.dueling) * v.Z, loss.stride);
  if (lane_of_warp() == 0) td[i] = step.td;
  sums[Q_SUM_STEPS] = 1;
  sums[Q_SUM_LOSS] = weight * step.loss;
  sums[Q_SUM_TD] = fabsf(step.td);
  sums[Q_SUM_VALUE] = step.value;
  sums[Q_SUM_TARGET] = step.target;
  sums[Q_SUM_REWARD] =
      learned_reward(loss.reward[i + (size_t)loss.N], loss.reward_scale, loss.reward_clip);
}

KERNEL q_steps(float *dhead, float *td, struct q_room room, struct device_q_loss loss,
               size_t steps) {
  DYNAMIC_SHARED(float, shared); /* (WARPS, 3 Z) */
  SHARED float of_warps[WARPS][Q_SUMS];
  float sums[Q_SUMS] = {};
  size_t i = row_of_warp();
  if (i < steps) {
    float *drow = dhead + i * (size_t)loss.stride;
    if (step_counts(loss, (int)(i / (size_t)loss.N), i)) {
      q_step_sums(sums, drow, td, room, loss, i, shared);
    } else {
      zero_row(drow, 0, loss.stride);
      if (lane_of_warp() == 0) td[i] = 0;
    }
  }
  UNROLL
  for (int k = 0; k < Q_SUMS; k++)
    if (lane_of_warp() == k) of_warps[warp_of_block()][k] = sums[k];
  __syncthreads();
  if (threadIdx.x >= Q_SUMS) return;
  float sum = 0;
  for (int warp = 0; warp < WARPS; warp++) sum += of_warps[warp][threadIdx.x];
  room.part[threadIdx.x * gridDim.x + blockIdx.x] = sum;
}

/* ---- windows and sums */

/* A window's priority, by a warp. Steps that do not count have td 0. */
DEVICE float priority_of(const float *td, const struct device_q_loss &loss, int n) {
  float largest = 0, total = 0, count = 0;
  for (int t = lane_of_warp(); t < loss.T; t += WARP) {
    size_t i = (size_t)t * (size_t)loss.N + (size_t)n;
    float error = fabsf(td[i]);
    largest = fmaxf(largest, error);
    total += error;
    count += step_counts(loss, t, i);
  }
  largest = warp_max(largest), total = warp_sum(total), count = warp_sum(count);
  return count > 0 ? loss.eta * largest + (1 - loss.eta) * (total / count) : 0;
}

/* The first block adds up the parts (Q_SUMS, parts) of the sums, a warp each; the others have a
 * window for each warp. */
KERNEL q_windows(float *priority, float *sums, const float *td, struct q_room room,
                 struct device_q_loss loss, unsigned parts) {
  int lane = lane_of_warp(), warp = warp_of_block();
  if (blockIdx.x > 0) {
    size_t n = row_of_warp() - WARPS;
    float of_window = n < (size_t)loss.N ? priority_of(td, loss, (int)n) : 0;
    if (n < (size_t)loss.N && lane == 0) priority[n] = of_window;
  } else if (warp < Q_SUMS) {
    float sum = 0;
    for (unsigned i = (unsigned)lane; i < parts; i += WARP)
      sum += room.part[(size_t)warp * parts + i];
    sum = warp_sum(sum);
    if (lane == 0) sums[warp] = sum;
  }
}

void cuda_q_loss(struct device *d, real *dhead, real *td, float *priority, real *sums,
                 const struct device_q_loss *loss) {
  struct cuda *cuda = cuda_of(d);
  size_t steps = (size_t)loss->T * (size_t)loss->N, rows = steps + (size_t)loss->N;
  unsigned blocks = blocks_of_rows(steps);
  struct q_room room = room_of(cuda, loss, blocks);
  if (blocks == 0) return;
  LAUNCH_SHARED(q_rows, blocks + 1, BLOCK, warps_bytes(WARPS, loss->values.Z), cuda->stream, room,
                *loss, rows);
  LAUNCH_SHARED(q_steps, blocks, BLOCK, warps_bytes(WARPS, 3 * loss->values.Z), cuda->stream,
                (float *)dhead, (float *)td, room, *loss, steps);
  LAUNCH(q_windows, 1 + blocks_of_rows((size_t)loss->N), BLOCK, cuda->stream, priority,
         (float *)sums, (const float *)td, room, *loss, blocks);
}

/* ---- distance */

/* |q_a - q_b| / max |q_b| of a row; 0 where q_b is 0. Its lanes get the same. */
DEVICE float distance_of(const struct device_action_values &v, const struct head &a,
                         const struct head &b) {
  bool together = v.Z > 1; /* the lanes share an action; else each has its own */
  float squares = 0, total = 0, largest = 0;
  for (int k = together ? 0 : lane_of_warp(); k < v.A; k += together ? 1 : WARP) {
    float q = action_value(v, b, k), difference = action_value(v, a, k) - q;
    squares += difference * difference;
    total += fabsf(q);
    largest = fmaxf(largest, fabsf(q));
  }
  if (!together) squares = warp_sum(squares), total = warp_sum(total), largest = warp_max(largest);
  return total == 0 ? 0 : sqrtf(squares) / largest;
}

KERNEL distances(float *distance, const float *heads_a, const float *heads_b, int stride,
                 struct device_action_values v, int B) {
  DYNAMIC_SHARED(float, shared); /* (WARPS, 2 Z) */
  size_t i = row_of_warp();
  if (i >= (size_t)B) return;
  float *offsets = numbers_of_warp(shared, 2 * v.Z);
  struct head a = head_of(v, heads_a + i * (size_t)stride, offsets),
              b = head_of(v, heads_b + i * (size_t)stride, offsets + v.Z);
  float of_row = distance_of(v, a, b);
  if (lane_of_warp() == 0) distance[i] = of_row;
}

KERNEL mean_of(float *y, const float *x, int n) {
  double sum = 0;
  for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x) sum += (double)x[i];
  float all = block_sum((float)sum);
  if (threadIdx.x == 0) *y = all / (float)n;
}

void cuda_q_distance(struct device *d, real *distance, const real *head_a, const real *head_b,
                     int stride, const struct device_action_values *values, int B) {
  struct cuda *cuda = cuda_of(d);
  float *rows = (float *)cuda_scratch(cuda, (size_t)B * sizeof *rows);
  if (B == 0) return;
  LAUNCH_SHARED(distances, blocks_of_rows((size_t)B), BLOCK, warps_bytes(WARPS, 2 * values->Z),
                cuda->stream, rows, (const float *)head_a, (const float *)head_b, stride, *values,
                B);
  LAUNCH(mean_of, 1, BLOCK, cuda->stream, (float *)distance, rows, B);
}
