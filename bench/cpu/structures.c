// The loop programs of structure_programs.py, as in loops.c.
#include <math.h>
#include <stdint.h>
#include <string.h>

void biquad(const float* x, const float* b, const float* a, float* result) {
  float z0 = 0, z1 = 0, b0 = b[0], b1 = b[1], b2 = b[2], a0 = a[0], a1 = a[1];
  for (int i = 0; i < FILTER_SIZE; ++i) {
    float y = b0 * x[i] + z0;
    z0 = b1 * x[i] - a0 * y + z1;
    z1 = b2 * x[i] - a1 * y;
    result[i] = y;
  }
}

void heapify(const int32_t* start, int32_t* a) {
  memcpy(a, start, HEAP_SIZE * sizeof(int32_t));
  for (int k = HEAP_SIZE / 2 - 1; k >= 0; --k) {
    for (int i = k;;) {
      int left = 2 * i + 1, right = left + 1, largest = i;
      if (left < HEAP_SIZE && a[left] > a[largest]) largest = left;
      if (right < HEAP_SIZE && a[right] > a[largest]) largest = right;
      if (largest == i) break;
      int32_t x = a[i];
      a[i] = a[largest];
      a[largest] = x;
      i = largest;
    }
  }
}

void relax_edges(const int32_t* sources, const int32_t* targets, const float* lengths, float* distance) {
  for (int i = 0; i < GRAPH_NODES; ++i) distance[i] = 1e9f;
  distance[0] = 0;
  for (int k = 0; k < GRAPH_EDGES * GRAPH_ROUNDS; ++k) {
    int e = k % GRAPH_EDGES;
    float candidate = distance[sources[e]] + lengths[e];
    if (candidate < distance[targets[e]]) distance[targets[e]] = candidate;
  }
}

void borders(const int32_t* text, int32_t* found) {
  memset(found, 0, STRING_SIZE * sizeof(int32_t));
  for (int i = 1, k = 0; i < STRING_SIZE; ++i) {
    while (k > 0 && text[k] != text[i]) k = found[k - 1];
    if (text[k] == text[i]) ++k;
    found[i] = k;
  }
}

void hmm_forward(const float* moves, const float* shows, const int32_t* seen, float* result) {
  float chance[16], next[16], sum = 0;
  for (int i = 0; i < 16; ++i) chance[i] = 1 / 16.0f;
  for (int t = 0; t < HMM_STEPS; ++t) {
    memset(next, 0, sizeof(next));
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 16; ++j) next[j] += chance[i] * moves[16 * i + j];
    }
    float total = 0;
    for (int j = 0; j < 16; ++j) total += next[j] *= shows[8 * j + seen[t]];
    for (int j = 0; j < 16; ++j) chance[j] = next[j] / total;
    sum += logf(total);
  }
  *result = sum;
}

static void van_der_pol(const float* y, float* d) {
  d[0] = y[1];
  d[1] = 5 * (1 - y[0] * y[0]) * y[1] - y[0];
}

void step_control(const float* start, int32_t* steps) {
  float t = 0, h = 0.01f, y[2] = {start[0], start[1]};
  int32_t n = 0;
  while (t < CONTROL_END) {
    float a[2], b[2], c[2], d[2], z[2], fine[2], square = 0;
    van_der_pol(y, a);
    for (int k = 0; k < 2; ++k) z[k] = y[k] + 0.5f * h * a[k];
    van_der_pol(z, b);
    for (int k = 0; k < 2; ++k) z[k] = y[k] + 0.5f * h * b[k];
    van_der_pol(z, c);
    for (int k = 0; k < 2; ++k) z[k] = y[k] + h * c[k];
    van_der_pol(z, d);
    for (int k = 0; k < 2; ++k) {
      fine[k] = y[k] + h / 6 * (a[k] + 2 * b[k] + 2 * c[k] + d[k]);
      float e = (fine[k] - (y[k] + h * b[k])) / (1e-4f + 1e-3f * fabsf(y[k]));
      square += e * e;
    }
    float error = sqrtf(square / 2);
    if (error < 1) t += h, y[0] = fine[0], y[1] = fine[1];
    h *= fminf(fmaxf(0.9f * powf(error, -1 / 3.0f), 0.2f), 5.0f);
    ++n;
  }
  *steps = n;
}

void matrix_chain(const int32_t* sizes, int32_t* cost) {
  memset(cost, 0, CHAIN_LENGTH * CHAIN_LENGTH * sizeof(int32_t));
  for (int length = 2; length <= CHAIN_LENGTH; ++length) {
    for (int i = 0; i <= CHAIN_LENGTH - length; ++i) {
      int j = i + length - 1;
      int32_t best = INT32_MAX;
      for (int k = i; k < j; ++k) {
        int32_t c = cost[i * CHAIN_LENGTH + k] + cost[(k + 1) * CHAIN_LENGTH + j] + sizes[i] * sizes[k + 1] * sizes[j + 1];
        if (c < best) best = c;
      }
      cost[i * CHAIN_LENGTH + j] = best;
    }
  }
}

static int32_t find_root(int32_t* parent, int32_t x) {
  while (parent[x] != x) x = parent[x] = parent[parent[x]];
  return x;
}

void union_find(const int32_t* a, const int32_t* b, int32_t* parent) {
  for (int i = 0; i < UNION_NODES; ++i) parent[i] = i;
  for (int e = 0; e < UNION_EDGES; ++e) {
    int32_t x = find_root(parent, a[e]), y = find_root(parent, b[e]);
    parent[x] = y;
  }
}

void hash_table(const int32_t* keys, int32_t* table) {
  for (int i = 0; i < TABLE_SIZE; ++i) table[i] = -1;
  for (int i = 0; i < TABLE_KEYS; ++i) {
    uint32_t at = ((uint32_t)keys[i] * 2654435761u) >> 16;
    while (table[at] != -1 && table[at] != keys[i]) at = (at + 1) & (TABLE_SIZE - 1);
    table[at] = keys[i];
  }
}

void breadth_first(const int32_t* first, const int32_t* neighbours, int32_t* distance) {
  static int32_t queue[SEARCH_NODES];
  for (int i = 0; i < SEARCH_NODES; ++i) distance[i] = -1;
  distance[0] = queue[0] = 0;
  for (int head = 0, tail = 1; head < tail; ++head) {
    int32_t u = queue[head];
    for (int e = first[u]; e < first[u + 1]; ++e) {
      int32_t v = neighbours[e];
      if (distance[v] < 0) distance[v] = distance[u] + 1, queue[tail++] = v;
    }
  }
}
