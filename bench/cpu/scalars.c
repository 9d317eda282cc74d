// The loop programs of scalar_programs.py, as in loops.c.
#include <math.h>
#include <stdint.h>

static void swing(float angle, float speed, float* d_angle, float* d_speed) {
  *d_angle = speed;
  *d_speed = -9.8f * sinf(angle) - 0.1f * speed;
}

void pendulum(const float* start, float* result) {
  float y0 = start[0], y1 = start[1], h = 0.01f;
  for (int i = 0; i < PENDULUM_STEPS; ++i) {
    float a0, a1, b0, b1, c0, c1, d0, d1;
    swing(y0, y1, &a0, &a1);
    swing(y0 + 0.5f * h * a0, y1 + 0.5f * h * a1, &b0, &b1);
    swing(y0 + 0.5f * h * b0, y1 + 0.5f * h * b1, &c0, &c1);
    swing(y0 + h * c0, y1 + h * c1, &d0, &d1);
    y0 += h / 6 * (a0 + 2 * b0 + 2 * c0 + d0);
    y1 += h / 6 * (a1 + 2 * b1 + 2 * c1 + d1);
  }
  result[0] = y0, result[1] = y1;
}

void kepler(const double* eccentricity, double* result) {
  double e = *eccentricity, total = 0;
  for (int i = 0; i < KEPLER_COUNT; ++i) {
    double mean = i * 1e-3, x = mean;
    for (int k = 0; k < 8; ++k) x -= (x - e * sin(x) - mean) / (1 - e * cos(x));
    total += x;
  }
  *result = total;
}

void box_muller(const uint32_t* seed, float* result) {
  uint32_t state = *seed;
  float total = 0;
  for (int i = 0; i < NORMAL_COUNT; ++i) {
    state = state * 1664525u + 1013904223u;
    float u = (state >> 8) * 0x1p-24f;
    state = state * 1664525u + 1013904223u;
    float v = (state >> 8) * 0x1p-24f;
    total += sqrtf(-2 * logf(u + 0x1p-24f)) * cosf(6.283185307f * v);
  }
  *result = total;
}

void quaternion(const float* velocity, float* result) {
  float p = 1, q = 0, r = 0, s = 0, h = 0.005f;
  for (int i = 0; i < ROTATION_STEPS; ++i) {
    float a = velocity[3 * i], b = velocity[3 * i + 1], c = velocity[3 * i + 2];
    float p_new = p + h * (-q * a - r * b - s * c), q_new = q + h * (p * a + r * c - s * b);
    float r_new = r + h * (p * b - q * c + s * a), s_new = s + h * (p * c + q * b - r * a);
    float length = sqrtf(p_new * p_new + q_new * q_new + r_new * r_new + s_new * s_new);
    p = p_new / length, q = q_new / length, r = r_new / length, s = s_new / length;
  }
  result[0] = p, result[1] = q, result[2] = r, result[3] = s;
}

void two_ways(const float* seen, float* result) {
  float x = 0;
  for (int i = 0; i < WAYS_STEPS; ++i) result[i] = x = seen[i] > 0 ? 0.9f * x + seen[i] : sinf(x);
}
