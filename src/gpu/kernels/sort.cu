// Sorting of rows [outer, n, inner], stably, by permutations: element i of a row is number perm[i]
// of it. Rows of up to kRun elements are sorted in shared memory; longer ones by runs of that
// length that are merged, or by radix, a byte of the key at a time.
constexpr int kRun = 1024;
constexpr u32 kNobody = 0xffffffffu;

struct Rows {
  s64 rows, n, inner;
  __device__ inline s64 At(s64 row, s64 i) const {
    return row / inner * n * inner + row % inner + i * inner;
  }
};

// Numbers whose order is that of floats: -NaN, -inf, ..., -0, 0, ..., inf, NaN.
template <class U>
__device__ inline U FloatKey(U bits, U infinity, bool zeros_equal, bool nans_equal) {
  U sign = U(U(1) << (sizeof(U) * 8 - 1)), magnitude = U(bits & U(~sign));
  if (zeros_equal && magnitude == 0) bits = 0;
  if (nans_equal && magnitude > infinity) bits = U(~sign);
  return bits & sign ? U(~bits) : U(bits | sign);
}

// Order: Key Load(row, i), bool Before(Key, Key).
template <class Order>
__device__ inline bool GoesAfter(const Order& order, typename Order::Key a, u32 a_index,
                                 typename Order::Key b, u32 b_index) {
  if (a_index == kNobody || b_index == kNobody) return a_index == kNobody && b_index != kNobody;
  if (order.Before(b, a)) return true;
  if (order.Before(a, b)) return false;
  return a_index > b_index;
}

// Bitonic, in runs of kRun: a block each. Equal elements keep their order by their numbers.
template <class Order>
__device__ inline void SortRuns(const Order& order, Rows s, u32* perm) {
  typedef typename Order::Key Key;
  __shared__ Key keys[kRun];
  __shared__ u32 index[kRun];
  s64 runs = (s.n + kRun - 1) / kRun, row = blockIdx.x / runs, begin = blockIdx.x % runs * kRun;
  int count = s.n - begin < kRun ? int(s.n - begin) : kRun, size = 2;
  while (size < count) size *= 2;
  for (int e = threadIdx.x; e < size; e += blockDim.x) {
    index[e] = e < count ? u32(begin + e) : kNobody;
    if (e < count) keys[e] = order.Load(row, begin + e);
  }
  __syncthreads();
  for (int k = 2; k <= size; k *= 2) {
    for (int j = k / 2; j > 0; j /= 2) {
      for (int e = threadIdx.x; e < size / 2; e += blockDim.x) {
        int low = (e & ~(j - 1)) * 2 | (e & (j - 1)), high = low + j;
        bool up = (low & k) == 0;
        bool after = GoesAfter(order, keys[low], index[low], keys[high], index[high]);
        if (after != up) continue;
        Key key = keys[low];
        keys[low] = keys[high];
        keys[high] = key;
        u32 number = index[low];
        index[low] = index[high];
        index[high] = number;
      }
      __syncthreads();
    }
  }
  for (int e = threadIdx.x; e < count; e += blockDim.x) perm[row * s.n + begin + e] = index[e];
}

// Pairs of sorted runs: an element goes behind its own run's before it and the other's.
template <class Order>
__device__ inline void MergeRuns(const Order& order, Rows s, s64 run, const u32* from, u32* to) {
  s64 at = s64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= s.rows * s.n) return;
  s64 row = at / s.n, i = at % s.n, begin = i / (2 * run) * 2 * run;
  s64 middle = begin + run < s.n ? begin + run : s.n;
  s64 end = middle + run < s.n ? middle + run : s.n;
  from += row * s.n;
  to += row * s.n;
  u32 self = from[i];
  typename Order::Key key = order.Load(row, self);
  bool left = i < middle;
  s64 low = left ? middle : begin, high = left ? end : middle;
  while (low < high) {
    s64 half = (low + high) / 2;
    typename Order::Key other = order.Load(row, from[half]);
    bool first = left ? order.Before(other, key) : !order.Before(key, other);
    if (first) low = half + 1;
    else high = half;
  }
  to[left ? i + low - middle : i - middle + low] = self;
}

// Radix sort: keys with the numbers of their elements, in tiles of 256 threads. A tile is sorted by
// a byte in shared memory, so that what goes to one place of the row is written together.
constexpr int kThreads = 256;

template <class Key>
struct Radix {
  static constexpr int kItems = sizeof(Key) == 8 ? 8 : 16;  // of a thread
  static constexpr int kTile = kThreads * kItems;
};

template <class Order>
__device__ inline void LoadKeys(const Order& order, Rows s, const u32* perm, bool first,
                                typename Order::Key* keys, u32* index) {
  s64 at = s64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= s.rows * s.n) return;
  s64 row = at / s.n;
  u32 number = first ? u32(at % s.n) : perm[at];
  keys[at] = order.Load(row, number);
  index[at] = number;
}

// counts[row][digit][tile]
template <class Key>
__device__ inline void CountDigits(const Key* keys, Rows s, int shift, u32* counts) {
  __shared__ u32 count[256];
  constexpr int kTile = Radix<Key>::kTile;
  s64 tiles = (s.n + kTile - 1) / kTile, row = blockIdx.x / tiles, tile = blockIdx.x % tiles;
  for (int d = threadIdx.x; d < 256; d += kThreads) count[d] = 0;
  __syncthreads();
  for (int e = threadIdx.x; e < kTile; e += kThreads) {
    s64 i = tile * kTile + e;
    if (i < s.n) atomicAdd(&count[int(keys[row * s.n + i] >> shift & 255)], 1u);
  }
  __syncthreads();
  for (int d = threadIdx.x; d < 256; d += kThreads) {
    counts[(row * 256 + d) * tiles + tile] = count[d];
  }
}

// The sum of what the threads before have; `total` is that of all.
__device__ inline u32 SumBefore(u32 mine, u32* shared, u32& total) {
  int t = threadIdx.x;
  shared[t] = mine;
  __syncthreads();
  for (int d = 1; d < kThreads; d *= 2) {
    u32 add = t >= d ? shared[t - d] : 0;
    __syncthreads();
    shared[t] += add;
    __syncthreads();
  }
  total = shared[kThreads - 1];
  u32 before = shared[t] - mine;
  __syncthreads();
  return before;
}

// Counts become places: sums of chunks, sums of those, sums within chunks. Rows of `length`.
constexpr int kChunk = 2048;
__device__ inline void SumChunks(const u32* counts, s64 length, u32* sums) {
  __shared__ u32 shared[kThreads];
  s64 chunks = (length + kChunk - 1) / kChunk, row = blockIdx.x / chunks;
  s64 begin = blockIdx.x % chunks * kChunk;
  u32 sum = 0, total;
  for (int e = threadIdx.x; e < kChunk; e += kThreads) {
    if (begin + e < length) sum += counts[row * length + begin + e];
  }
  SumBefore(sum, shared, total);
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}
__device__ inline void ScanSums(u32* sums, s64 chunks) {
  __shared__ u32 shared[kThreads];
  sums += blockIdx.x * chunks;
  u32 base = 0, total;
  for (s64 begin = 0; begin < chunks; begin += kThreads) {
    s64 i = begin + threadIdx.x;
    u32 mine = i < chunks ? sums[i] : 0, before = SumBefore(mine, shared, total);
    if (i < chunks) sums[i] = base + before;
    base += total;
  }
}
__device__ inline void ScanChunks(u32* counts, s64 length, const u32* sums) {
  __shared__ u32 shared[kThreads];
  constexpr int kEach = kChunk / kThreads;
  s64 chunks = (length + kChunk - 1) / kChunk, row = blockIdx.x / chunks;
  s64 begin = blockIdx.x % chunks * kChunk + threadIdx.x * kEach;
  u32 values[kEach], sum = 0, total;
  for (int e = 0; e < kEach; ++e) {
    values[e] = begin + e < length ? counts[row * length + begin + e] : 0;
    sum += values[e];
  }
  u32 place = sums[blockIdx.x] + SumBefore(sum, shared, total);
  for (int e = 0; e < kEach; ++e) {
    if (begin + e < length) counts[row * length + begin + e] = place;
    place += values[e];
  }
}

template <class Key>
__device__ inline void Distribute(const Key* keys, const u32* index, Rows s, int shift,
                                  const u32* places, Key* keys_out, u32* index_out) {
  constexpr int kItems = Radix<Key>::kItems, kTile = Radix<Key>::kTile;
  __shared__ Key tile_keys[kTile];
  __shared__ u32 tile_index[kTile];
  __shared__ unsigned short ranks[16 * kThreads];
  __shared__ u32 shared[kThreads];
  __shared__ u32 starts[256];
  s64 tiles = (s.n + kTile - 1) / kTile, row = blockIdx.x / tiles, tile = blockIdx.x % tiles;
  s64 begin = tile * kTile;
  int count = s.n - begin < kTile ? int(s.n - begin) : kTile, t = threadIdx.x;
  keys += row * s.n + begin;
  index += row * s.n + begin;
  for (int e = t; e < kTile; e += kThreads) {
    // What is beyond the end stays behind all others: it has the largest digit and comes last.
    tile_keys[e] = e < count ? keys[e] : Key(~Key(0));
    tile_index[e] = e < count ? index[e] : kNobody;
  }
  __syncthreads();
  for (int part = 0; part < 8; part += 4) {  // four bits of the byte at a time
    Key own[kItems];
    u32 own_index[kItems];
    u32 counted[16];
    for (int d = 0; d < 16; ++d) counted[d] = 0;
    for (int e = 0; e < kItems; ++e) {
      own[e] = tile_keys[t * kItems + e];
      own_index[e] = tile_index[t * kItems + e];
      counted[int(own[e] >> (shift + part) & 15)] += 1;
    }
    for (int d = 0; d < 16; ++d) ranks[d * kThreads + t] = (unsigned short)(counted[d]);
    __syncthreads();
    u32 sum = 0, total;
    for (int e = 0; e < 16; ++e) sum += ranks[t * 16 + e];
    u32 place = SumBefore(sum, shared, total);
    for (int e = 0; e < 16; ++e) {
      u32 n = ranks[t * 16 + e];
      ranks[t * 16 + e] = (unsigned short)(place);
      place += n;
    }
    __syncthreads();
    for (int e = 0; e < kItems; ++e) {
      int at = ranks[int(own[e] >> (shift + part) & 15) * kThreads + t]++;
      tile_keys[at] = own[e];
      tile_index[at] = own_index[e];
    }
    __syncthreads();
  }
  for (int e = t; e < kTile; e += kThreads) {
    int digit = int(tile_keys[e] >> shift & 255);
    if (e == 0 || int(tile_keys[e - 1] >> shift & 255) != digit) starts[digit] = e;
  }
  __syncthreads();
  for (int e = t; e < count; e += kThreads) {
    int digit = int(tile_keys[e] >> shift & 255);
    s64 to = row * s.n + places[(row * 256 + digit) * tiles + tile] + (e - starts[digit]);
    keys_out[to] = tile_keys[e];
    index_out[to] = tile_index[e];
  }
}
