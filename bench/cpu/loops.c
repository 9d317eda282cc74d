// The loop programs of loop_programs.py as one would write them in C: one thread, sizes known to the compiler. Every function takes
// pointers to its arguments, then pointers to its results. Arithmetic is that of the JAX program, step by step.
#include <complex.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

void logistic(const float* start, const float* rate, float* result) {
  float x = *start, r = *rate;
  for (int i = 0; i < LOGISTIC_STEPS; ++i) x = r * x * (1.0f - x);
  *result = x;
}

void newton(const float* start, const float* target, float* result) {
  float x = *start, a = *target;
  for (int i = 0; i < NEWTON_STEPS; ++i) {
    x = x - (x * x * x - a) / (3.0f * x * x);
    a = a + 1e-4f;
  }
  *result = x;
}

static void rigid_body(const double* y, double* d) {
  d[0] = y[1] * y[2];
  d[1] = -y[0] * y[2];
  d[2] = -0.51 * y[0] * y[1];
}

void rk4(const double* start, double* states) {
  double y[3] = {start[0], start[1], start[2]}, h = 0.01;
  for (int i = 0; i < RK4_STEPS; ++i) {
    double a[3], b[3], c[3], d[3], t[3];
    rigid_body(y, a);
    for (int k = 0; k < 3; ++k) t[k] = y[k] + 0.5 * h * a[k];
    rigid_body(t, b);
    for (int k = 0; k < 3; ++k) t[k] = y[k] + 0.5 * h * b[k];
    rigid_body(t, c);
    for (int k = 0; k < 3; ++k) t[k] = y[k] + h * c[k];
    rigid_body(t, d);
    for (int k = 0; k < 3; ++k) states[3 * i + k] = y[k] += h / 6 * (a[k] + 2 * b[k] + 2 * c[k] + d[k]);
  }
}

void lorenz(const float* start, float* rx, float* ry, float* rz) {
  float x = start[0], y = start[1], z = start[2], h = 0.005f;
  for (int i = 0; i < LORENZ_STEPS; ++i) {
    float dx = 10.0f * (y - x), dy = x * (14.0f - z) - y, dz = x * y - (8.0f / 3.0f) * z;
    x += h * dx;
    y += h * dy;
    z += h * dz;
  }
  *rx = x;
  *ry = y;
  *rz = z;
}

void nested_matvec(const float* a, const float* start, float* result) {
  float x[8], y[8];
  memcpy(x, start, sizeof x);
  for (int i = 0; i < MATVEC_OUTER; ++i) {
    for (int j = 0; j < MATVEC_INNER; ++j) {
      for (int r = 0; r < 8; ++r) {
        float sum = 0;
        for (int c = 0; c < 8; ++c) sum += a[8 * r + c] * x[c];
        y[r] = sum;
      }
      memcpy(x, y, sizeof x);
    }
    float largest = 0;
    for (int r = 0; r < 8; ++r) largest = fmaxf(largest, fabsf(x[r]));
    for (int r = 0; r < 8; ++r) x[r] /= largest;
  }
  memcpy(result, x, sizeof x);
}

void collatz(int32_t* total, int32_t* longest) {
  int32_t sum = 0, most = 0;
  for (int32_t start = 1; start < COLLATZ_LAST; ++start) {
    int32_t n = start, steps = 0;
    while (n != 1) {
      n = n % 2 == 0 ? n / 2 : 3 * n + 1;
      ++steps;
    }
    sum += steps;
    most = steps > most ? steps : most;
  }
  *total = sum;
  *longest = most;
}

void gcd(const int32_t* a, const int32_t* b, int32_t* result) {
  for (int i = 0; i < GCD_PAIRS; ++i) {
    int32_t x = a[i], y = b[i];
    while (y != 0) {
      int32_t rest = x % y;
      x = y;
      y = rest;
    }
    result[i] = x;
  }
}

void xorshift(const uint32_t* seed, uint32_t* result) {
  uint32_t x = *seed;
  for (int i = 0; i < XORSHIFT_STEPS; ++i) {
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
  }
  *result = x;
}

void fill(const int32_t* seed, int32_t* array) {
  uint32_t value = (uint32_t)*seed;
  for (int i = 0; i < FILL_SIZE; ++i) {
    value = value * 1103515245u + 12345u + (uint32_t)i;
    array[i] = (int32_t)value;
  }
}

void sieve(uint8_t* prime) {
  memset(prime, 1, SIEVE_SIZE);
  prime[0] = prime[1] = 0;
  for (int i = 2; i * i < SIEVE_SIZE; ++i) {
    if (!prime[i]) continue;
    for (int j = i * i; j < SIEVE_SIZE; j += i) prime[j] = 0;
  }
}

void insertion_sort(const float* input, float* a) {
  memcpy(a, input, INSERTION_SIZE * sizeof(float));
  for (int i = 1; i < INSERTION_SIZE; ++i) {
    float value = a[i];
    int j = i;
    while (j > 0 && a[j - 1] > value) {
      a[j] = a[j - 1];
      --j;
    }
    a[j] = value;
  }
}

void bubble_sort(const float* input, float* a) {
  memcpy(a, input, BUBBLE_SIZE * sizeof(float));
  for (int i = 0; i < BUBBLE_SIZE - 1; ++i) {
    for (int j = 0; j < BUBBLE_SIZE - 1 - i; ++j) {
      float x = a[j], y = a[j + 1];
      a[j] = x < y ? x : y;
      a[j + 1] = x < y ? y : x;
    }
  }
}

void histogram(const int32_t* values, int32_t* counts) {
  memset(counts, 0, HISTOGRAM_BINS * sizeof(int32_t));
  for (int i = 0; i < HISTOGRAM_SIZE; ++i) ++counts[values[i]];
}

void oscillator(const double* start, double* end, int32_t* steps) {
  double t = 0, h = 0.01, y[2] = {start[0], start[1]};
  int32_t n = 0;
  while (t < OSCILLATOR_END) {
    double a[2] = {y[1], (1 - y[0] * y[0]) * y[1] - y[0]}, z[2] = {y[0] + h * a[0], y[1] + h * a[1]};
    double b[2] = {z[1], (1 - z[0] * z[0]) * z[1] - z[0]}, better[2], error = 0;
    for (int k = 0; k < 2; ++k) better[k] = y[k] + 0.5 * h * (a[k] + b[k]), error = fmax(error, fabs(better[k] - z[k]));
    if (error < 1e-3) t += h, y[0] = better[0], y[1] = better[1];
    h = fmin(fmax(0.9 * h * sqrt(1e-3 / (error + 1e-12)), 1e-4), 0.1);
    ++n;
  }
  *end = t;
  *steps = n;
}

void heat(const float* start, float* result) {
  float buffers[2][HEAT_SIZE];
  memcpy(buffers[0], start, sizeof buffers[0]);
  memcpy(buffers[1], start, sizeof buffers[1]);
  for (int step = 0; step < HEAT_STEPS; ++step) {
    const float* restrict u = buffers[step & 1];
    float* restrict next = buffers[~step & 1];
    for (int i = 1; i < HEAT_SIZE - 1; ++i) next[i] = u[i] + 0.25f * (u[i + 1] - 2.0f * u[i] + u[i - 1]);
  }
  memcpy(result, buffers[HEAT_STEPS & 1], sizeof buffers[0]);
}

void jacobi(const float* start, float* result) {
  enum { kN = JACOBI_SIZE };
  static float buffers[2][kN][kN];
  memcpy(buffers[0], start, sizeof buffers[0]);
  memcpy(buffers[1], start, sizeof buffers[1]);
  for (int step = 0; step < JACOBI_STEPS; ++step) {
    float(*restrict u)[kN] = buffers[step & 1];
    float(*restrict next)[kN] = buffers[~step & 1];
    for (int i = 1; i < kN - 1; ++i)
      for (int j = 1; j < kN - 1; ++j) next[i][j] = 0.25f * (u[i - 1][j] + u[i + 1][j] + u[i][j - 1] + u[i][j + 1]);
  }
  memcpy(result, buffers[JACOBI_STEPS & 1], sizeof buffers[0]);
}

void wave(const float* start, const float* speed, float* u_out, float* v_out) {
  enum { kN = WAVE_SIZE };
  static float buffers[2][kN][kN];
  float(*v)[kN] = (float(*)[kN])v_out;
  memcpy(buffers[0], start, sizeof buffers[0]);
  memcpy(v, speed, sizeof buffers[0]);
  for (int step = 0; step < WAVE_STEPS; ++step) {
    float(*restrict u)[kN] = buffers[step & 1];
    float(*restrict next)[kN] = buffers[~step & 1];
    for (int i = 0; i < kN; ++i) {
      const float *up = u[(i + kN - 1) % kN], *down = u[(i + 1) % kN], *here = u[i];
      v[i][0] += 0.1f * (up[0] + down[0] + here[kN - 1] + here[1] - 4 * here[0]);
      for (int j = 1; j < kN - 1; ++j) v[i][j] += 0.1f * (up[j] + down[j] + here[j - 1] + here[j + 1] - 4 * here[j]);
      v[i][kN - 1] += 0.1f * (up[kN - 1] + down[kN - 1] + here[kN - 2] + here[0] - 4 * here[kN - 1]);
      for (int j = 0; j < kN; ++j) next[i][j] = here[j] + 0.1f * v[i][j];
    }
  }
  memcpy(u_out, buffers[WAVE_STEPS & 1], sizeof buffers[0]);
}

void nbody(const float* position, const float* velocity, const float* mass, float* p_out, float* v_out) {
  float p[3][BODIES], v[3][BODIES], h = 0.001f;
  for (int i = 0; i < BODIES; ++i)
    for (int k = 0; k < 3; ++k) p[k][i] = position[3 * i + k], v[k][i] = velocity[3 * i + k];
  for (int step = 0; step < BODY_STEPS; ++step) {
    for (int i = 0; i < BODIES; ++i) {
      float ax = 0, ay = 0, az = 0;
      for (int j = 0; j < BODIES; ++j) {
        float dx = p[0][j] - p[0][i], dy = p[1][j] - p[1][i], dz = p[2][j] - p[2][i];
        float square = dx * dx + dy * dy + dz * dz + 0.01f, weight = mass[j] / (square * sqrtf(square));
        ax += weight * dx, ay += weight * dy, az += weight * dz;
      }
      v[0][i] += h * ax, v[1][i] += h * ay, v[2][i] += h * az;
    }
    for (int k = 0; k < 3; ++k)
      for (int i = 0; i < BODIES; ++i) p[k][i] += h * v[k][i];
  }
  for (int i = 0; i < BODIES; ++i)
    for (int k = 0; k < 3; ++k) p_out[3 * i + k] = p[k][i], v_out[3 * i + k] = v[k][i];
}

void life(const uint8_t* start, uint8_t* result) {
  enum { kN = LIFE_SIZE };
  static uint8_t buffers[2][kN + 2][kN + 2];
  for (int i = 0; i < kN; ++i) memcpy(&buffers[0][i + 1][1], start + kN * i, kN);
  for (int step = 0; step < LIFE_STEPS; ++step) {
    uint8_t(*restrict u)[kN + 2] = buffers[step & 1];
    uint8_t(*restrict next)[kN + 2] = buffers[~step & 1];
    for (int i = 1; i <= kN; ++i) u[i][0] = u[i][kN], u[i][kN + 1] = u[i][1];
    memcpy(u[0], u[kN], kN + 2);
    memcpy(u[kN + 1], u[1], kN + 2);
    for (int i = 1; i <= kN; ++i) {
      for (int j = 1; j <= kN; ++j) {
        uint8_t near = u[i - 1][j - 1] + u[i - 1][j] + u[i - 1][j + 1] + u[i][j - 1] + u[i][j + 1] + u[i + 1][j - 1] +
                       u[i + 1][j] + u[i + 1][j + 1];
        next[i][j] = (near == 3) | ((near == 2) & u[i][j]);
      }
    }
  }
  for (int i = 0; i < kN; ++i) memcpy(result + kN * i, &buffers[LIFE_STEPS & 1][i + 1][1], kN);
}

static inline int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }

void edit_distance(const int32_t* a, const int32_t* b, int32_t* result) {
  int32_t row[EDIT_SIZE + 1];
  for (int j = 0; j <= EDIT_SIZE; ++j) row[j] = j;
  for (int i = 0; i < EDIT_SIZE; ++i) {
    int32_t diagonal = row[0];
    row[0] = i + 1;
    for (int j = 0; j < EDIT_SIZE; ++j) {
      int32_t up = row[j + 1];
      row[j + 1] = least(least(up, row[j]) + 1, diagonal + (a[i] != b[j]));
      diagonal = up;
    }
  }
  memcpy(result, row, sizeof row);
}

void knapsack(const int32_t* weight, const int32_t* value, int32_t* best) {
  memset(best, 0, KNAPSACK_CAPACITY * sizeof(int32_t));
  static int32_t before[KNAPSACK_CAPACITY];
  for (int i = 0; i < KNAPSACK_ITEMS; ++i) {
    int32_t w = weight[i], v = value[i];
    memcpy(before, best, sizeof before);
    for (int c = w; c < KNAPSACK_CAPACITY; ++c) {
      int32_t taken = before[c - w] + v;
      best[c] = taken > before[c] ? taken : before[c];
    }
  }
}

// Small matrices, row by row.
static inline __attribute__((always_inline)) void product(int n, int m, int k, const float* restrict a, const float* restrict b,
                                                          float* restrict c) {
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < m; ++j) c[m * i + j] = 0;
    for (int l = 0; l < k; ++l)
      for (int j = 0; j < m; ++j) c[m * i + j] += a[k * i + l] * b[m * l + j];
  }
}

static inline __attribute__((always_inline)) void transpose(int n, int m, const float* restrict a, float* restrict b) {
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < m; ++j) b[n * j + i] = a[m * i + j];
}

// Solves a x = b in place by elimination with pivoting: a is n x n, b is n x m.
static inline __attribute__((always_inline)) void solve(int n, int m, float* a, float* b) {
  for (int k = 0; k < n; ++k) {
    int pivot = k;
    for (int i = k + 1; i < n; ++i)
      if (fabsf(a[n * i + k]) > fabsf(a[n * pivot + k])) pivot = i;
    if (pivot != k) {
      for (int j = 0; j < n; ++j) { float t = a[n * k + j]; a[n * k + j] = a[n * pivot + j]; a[n * pivot + j] = t; }
      for (int j = 0; j < m; ++j) { float t = b[m * k + j]; b[m * k + j] = b[m * pivot + j]; b[m * pivot + j] = t; }
    }
    float inverse = 1.0f / a[n * k + k];
    for (int i = k + 1; i < n; ++i) {
      float factor = a[n * i + k] * inverse;
      for (int j = k; j < n; ++j) a[n * i + j] -= factor * a[n * k + j];
      for (int j = 0; j < m; ++j) b[m * i + j] -= factor * b[m * k + j];
    }
  }
  for (int k = n - 1; k >= 0; --k) {
    for (int j = 0; j < m; ++j) {
      float sum = b[m * k + j];
      for (int i = k + 1; i < n; ++i) sum -= a[n * k + i] * b[m * i + j];
      b[m * k + j] = sum / a[n * k + k];
    }
  }
}

// State 4, observation 2. The gain is P Hᵀ S⁻¹, by the explicit inverse or by solving Sᵀ Kᵀ = H Pᵀ.
static inline __attribute__((always_inline)) void kalman(int by_solve, const float* f, const float* h, const float* q,
                                                         const float* r, const float* z, float* states, float* last) {
  float x[4] = {0}, p[16] = {0}, ft[16], ht[8];
  for (int i = 0; i < 4; ++i) p[5 * i] = 1;
  transpose(4, 4, f, ft);
  transpose(2, 4, h, ht);
  for (int step = 0; step < KALMAN_STEPS; ++step) {
    float t[16], u[16], x2[4], s[4], pht[8], gain[8], seen[2], kh[16];
    product(4, 1, 4, f, x, x2);
    product(4, 4, 4, f, p, t);
    product(4, 4, 4, t, ft, u);
    for (int i = 0; i < 16; ++i) u[i] += q[i];
    product(4, 2, 4, u, ht, pht);
    product(2, 2, 4, h, pht, s);
    for (int i = 0; i < 4; ++i) s[i] += r[i];
    if (by_solve) {
      float st[4], right[8];
      transpose(2, 2, s, st);
      transpose(4, 2, pht, right);
      solve(2, 4, st, right);
      transpose(2, 4, right, gain);
    } else {
      float scale = 1.0f / (s[0] * s[3] - s[1] * s[2]);
      float inverse[4] = {s[3] * scale, -s[1] * scale, -s[2] * scale, s[0] * scale};
      product(4, 2, 2, pht, inverse, gain);
    }
    product(2, 1, 4, h, x2, seen);
    for (int i = 0; i < 2; ++i) seen[i] = z[2 * step + i] - seen[i];
    for (int i = 0; i < 4; ++i) x[i] = x2[i] + gain[2 * i] * seen[0] + gain[2 * i + 1] * seen[1];
    product(4, 4, 2, gain, h, kh);
    for (int i = 0; i < 16; ++i) kh[i] = (i % 5 == 0) - kh[i];
    product(4, 4, 4, kh, u, p);
    memcpy(states + 4 * step, x, sizeof x);
  }
  memcpy(last, p, sizeof p);
}

void kalman_inverse(const float* f, const float* h, const float* q, const float* r, const float* z, float* last, float* states) {
  kalman(0, f, h, q, r, z, states, last);
}

void kalman_solve(const float* f, const float* h, const float* q, const float* r, const float* z, float* last, float* states) {
  kalman(1, f, h, q, r, z, states, last);
}

void chain(const float* matrices, float* result) {
  float a[16] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}, b[16];
  for (int i = 0; i < CHAIN_STEPS; ++i) {
    product(4, 4, 4, a, matrices + 16 * i, b);
    memcpy(a, b, sizeof a);
  }
  memcpy(result, a, sizeof a);
}

void riccati(const float* a, const float* b, const float* q, const float* r, float* result) {
  float p[144], at[144], bt[48];
  memcpy(p, q, sizeof p);
  transpose(12, 12, a, at);
  transpose(12, 4, b, bt);
  for (int step = 0; step < RICCATI_STEPS; ++step) {
    float pa[144], pb[48], s[16], gain[48], apa[144], apb[48], fix[144];
    product(12, 12, 12, p, a, pa);
    product(12, 4, 12, p, b, pb);
    product(4, 4, 12, bt, pb, s);
    for (int i = 0; i < 16; ++i) s[i] += r[i];
    product(4, 12, 12, bt, pa, gain);
    solve(4, 12, s, gain);
    product(12, 12, 12, at, pa, apa);
    product(12, 4, 12, at, pb, apb);
    product(12, 12, 4, apb, gain, fix);
    for (int i = 0; i < 144; ++i) p[i] = q[i] + apa[i] - fix[i];
  }
  memcpy(result, p, sizeof p);
}

void inverse_3x3(const float* matrices, const float* start, float* result) {
  float x = start[0], y = start[1], z = start[2];
  for (int i = 0; i < INVERSE_STEPS; ++i) {
    const float* m = matrices + 9 * i;
    float c00 = m[4] * m[8] - m[5] * m[7], c01 = m[5] * m[6] - m[3] * m[8], c02 = m[3] * m[7] - m[4] * m[6];
    float c10 = m[2] * m[7] - m[1] * m[8], c11 = m[0] * m[8] - m[2] * m[6], c12 = m[1] * m[6] - m[0] * m[7];
    float c20 = m[1] * m[5] - m[2] * m[4], c21 = m[2] * m[3] - m[0] * m[5], c22 = m[0] * m[4] - m[1] * m[3];
    float scale = 1.0f / (m[0] * c00 + m[1] * c01 + m[2] * c02);
    float a = (c00 * x + c10 * y + c20 * z) * scale, b = (c01 * x + c11 * y + c21 * z) * scale,
          c = (c02 * x + c12 * y + c22 * z) * scale, length = sqrtf(a * a + b * b + c * c);
    x = a / length, y = b / length, z = c / length;
  }
  result[0] = x, result[1] = y, result[2] = z;
}

void covariance(const double* start, const double* directions, double* last, double* sizes) {
  double p[9];
  memcpy(p, start, sizeof p);
  for (int i = 0; i < COVARIANCE_STEPS; ++i) {
    const double* a = directions + 3 * i;
    double pa[3], s = 1.0;
    for (int r = 0; r < 3; ++r) pa[r] = p[3 * r] * a[0] + p[3 * r + 1] * a[1] + p[3 * r + 2] * a[2];
    for (int r = 0; r < 3; ++r) s += a[r] * pa[r];
    for (int r = 0; r < 3; ++r)
      for (int c = 0; c < 3; ++c) p[3 * r + c] += (r == c ? 0.01 : 0.0) - pa[r] * pa[c] / s;
    sizes[i] = sqrt(p[0] + p[4] + p[8]);
  }
  memcpy(last, p, sizeof p);
}

void gru(const float* w, const float* u, const float* bias, const float* inputs, float* last, float* states) {
  float h[16] = {0};
  for (int t = 0; t < GRU_STEPS; ++t) {
    float gates[48], state[48];
    product(1, 48, 16, inputs + 16 * t, w, gates);
    product(1, 48, 16, h, u, state);
    for (int i = 0; i < 48; ++i) gates[i] += bias[i];
    for (int i = 0; i < 16; ++i) {
      float reset = 1.0f / (1.0f + expf(-(gates[i] + state[i])));
      float update = 1.0f / (1.0f + expf(-(gates[16 + i] + state[16 + i])));
      float candidate = tanhf(gates[32 + i] + reset * state[32 + i]);
      h[i] = (1.0f - update) * candidate + update * h[i];
    }
    memcpy(states + 16 * t, h, sizeof h);
  }
  memcpy(last, h, sizeof h);
}

void viterbi(const float* transitions, const float* scores, int32_t* path) {
  enum { kStates = 32 };
  static int32_t from[VITERBI_STEPS][kStates];
  float delta[kStates] = {0}, next[kStates];
  for (int t = 0; t < VITERBI_STEPS; ++t) {
    for (int j = 0; j < kStates; ++j) next[j] = -INFINITY, from[t][j] = 0;
    for (int i = 0; i < kStates; ++i) {
      for (int j = 0; j < kStates; ++j) {
        float score = delta[i] + transitions[kStates * i + j];
        from[t][j] = score > next[j] ? i : from[t][j];
        next[j] = score > next[j] ? score : next[j];
      }
    }
    float largest = -INFINITY;
    for (int j = 0; j < kStates; ++j) next[j] += scores[kStates * t + j], largest = fmaxf(largest, next[j]);
    for (int j = 0; j < kStates; ++j) delta[j] = next[j] - largest;
  }
  int32_t state = 0;
  for (int j = 1; j < kStates; ++j) state = delta[j] > delta[state] ? j : state;
  for (int t = VITERBI_STEPS - 1; t >= 0; --t) path[t] = state, state = from[t][state];
}

static inline void lorenz96_slope(const float* x, float* d) {
  float padded[43];
  memcpy(padded + 2, x, 40 * sizeof(float));
  padded[0] = x[38], padded[1] = x[39], padded[42] = x[0];
  for (int i = 0; i < 40; ++i) d[i] = (padded[i + 3] - padded[i]) * padded[i + 1] - padded[i + 2] + 2.0f;
}

void lorenz96(const float* start, float* result) {
  float x[40], a[40], b[40], c[40], d[40], t[40], h = 0.01f;
  memcpy(x, start, sizeof x);
  for (int step = 0; step < L96_STEPS; ++step) {
    lorenz96_slope(x, a);
    for (int i = 0; i < 40; ++i) t[i] = x[i] + 0.5f * h * a[i];
    lorenz96_slope(t, b);
    for (int i = 0; i < 40; ++i) t[i] = x[i] + 0.5f * h * b[i];
    lorenz96_slope(t, c);
    for (int i = 0; i < 40; ++i) t[i] = x[i] + h * c[i];
    lorenz96_slope(t, d);
    for (int i = 0; i < 40; ++i) x[i] += h / 6 * (a[i] + 2 * b[i] + 2 * c[i] + d[i]);
  }
  memcpy(result, x, sizeof x);
}

void while_max(const int32_t* values, const int32_t* stop, int32_t* count) {
  int32_t largest = 0, i = 0, end = *stop;
  while (largest < end) {
    largest = values[i] > largest ? values[i] : largest;
    ++i;
  }
  *count = i;
}

void mandelbrot(const float* corner, float* rows) {
  enum { kN = MANDELBROT_SIZE };
  for (int i = 0; i < kN; ++i) {
    float sum = 0;
    for (int j = 0; j < kN; ++j) {
      float cr = corner[0] + 3.0f * (float)j / kN, ci = corner[1] + 3.0f * (float)i / kN, zr = 0, zi = 0;
      int count = 0;
      for (int k = 0; k < MANDELBROT_STEPS && zr * zr + zi * zi < 4.0f; ++k, ++count) {
        float next = zr * zr - zi * zi + cr;
        zi = 2.0f * zr * zi + ci;
        zr = next;
      }
      sum += (float)count;
    }
    rows[i] = sum;
  }
}

void running_product(const float* values, float* last, float* products) {
  float x = 1;
  for (int i = 0; i < PRODUCT_SIZE; ++i) products[i] = x *= values[i];
  *last = x;
}

void bisect(const float* restrict targets, float* restrict roots) {
  static float low[BISECT_COUNT], high[BISECT_COUNT];
  for (int i = 0; i < BISECT_COUNT; ++i) low[i] = 0.0f, high[i] = 4.0f;
  for (int step = 0; step < BISECT_STEPS; ++step) {
    for (int i = 0; i < BISECT_COUNT; ++i) {
      float below = low[i], above = high[i], middle = 0.5f * (below + above), target = targets[i];
      float value = middle * middle * middle + middle;
      float new_low = value < target ? middle : below, new_high = value < target ? above : middle;
      low[i] = new_low;
      high[i] = new_high;
    }
  }
  for (int i = 0; i < BISECT_COUNT; ++i) roots[i] = 0.5f * (low[i] + high[i]);
}
