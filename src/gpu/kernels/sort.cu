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

// Radix sort, the lowest byte of the key first, in tiles of 256 threads: how often each digit is in
// a tile, where those of each tile go, then the elements. A tile is put in order in shared memory, so
// that what goes to one place of the row is written together. An Order says what lies there (Raw) and
// the number (Key) that it is sorted by; a Value goes along with each element.
constexpr int kThreads = 256, kWarps = kThreads / 32;

template <class Key>
struct Radix {
  static constexpr int kItems = sizeof(Key) == 8 ? 8 : 16;  // of a thread
  static constexpr int kTile = kThreads * kItems;
};
template <class Number>
struct NumberOrder {
  typedef Number Raw;
  typedef Number Key;
  static __device__ inline Key Of(Raw x) { return x; }
};
struct NoValue {};
template <class Value>
struct ValueOf {
  static constexpr bool kIs = true;
  static __device__ inline Value Number(s64) { return Value(); }
};
template <>
struct ValueOf<u32> {
  static constexpr bool kIs = true;
  static __device__ inline u32 Number(s64 i) { return u32(i); }
};
template <>
struct ValueOf<NoValue> {
  static constexpr bool kIs = false;
};

// Lanes of the warp that have the same digit.
__device__ inline u32 SameDigit(u32 digit) {
#ifdef __CUDACC_RTC__
  u32 same = 0xffffffffu;
#pragma unroll
  for (int bit = 0; bit < 8; ++bit) {
    bool one = digit >> bit & 1;
    u32 ones = __ballot_sync(0xffffffffu, one);
    same &= one ? ones : ~ones;
  }
  return same;
#else
  return __match_any_sync(0xffffffffu, digit);
#endif
}
// How many elements of the warp with this digit come before this lane's, which is counted.
__device__ inline u32 RankInWarp(u32* counts, u32 digit) {
  u32 lane = threadIdx.x % 32, same = SameDigit(digit), before = counts[digit];
  __syncwarp();
  if (same >> lane == 1) counts[digit] = before + __popc(same);  // the last of them
  __syncwarp();
  return before + __popc(same & ((1u << lane) - 1));
}

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

// A thread's elements of a tile: warps have runs of them, lanes those side by side. What is beyond
// the end has the largest key and comes last.
template <class Order>
__device__ inline int ItemAt(int e) {
  constexpr int kItems = Radix<typename Order::Key>::kItems;
  return int(threadIdx.x / 32 * 32 * kItems + e * 32 + threadIdx.x % 32);
}
template <class Order>
__device__ inline u32 DigitOf(typename Order::Raw x, int shift) {
  return u32(Order::Of(x) >> shift & 255);
}

// counts[row][digit][tile]
template <class Order>
__device__ inline void CountDigits(const typename Order::Raw* keys, Rows s, int shift, u32* counts) {
  constexpr int kTile = Radix<typename Order::Key>::kTile;
  constexpr int kItems = Radix<typename Order::Key>::kItems;
  __shared__ u32 own[kWarps][256];
  s64 tiles = (s.n + kTile - 1) / kTile, row = blockIdx.x / tiles, tile = blockIdx.x % tiles;
  int count = s.n - tile * kTile < kTile ? int(s.n - tile * kTile) : kTile, t = threadIdx.x;
  keys += row * s.n + tile * kTile;
  u32 digits[kItems];
#pragma unroll
  for (int e = 0; e < kItems; ++e) {
    int i = ItemAt<Order>(e);
    digits[e] = i < count ? DigitOf<Order>(keys[i], shift) : kNobody;
  }
  for (int w = 0; w < kWarps; ++w) own[w][t] = 0;
  __syncthreads();
  // Counts come out the same in any order, so that no ranks are wanted as they are to distribute.
  // Equal digits behind each other are one addition: many lanes with one digit wait for each other.
  u32 run = 0;
#pragma unroll
  for (int e = 0; e < kItems; ++e) {
    ++run;
    if (e + 1 < kItems && digits[e + 1] == digits[e]) continue;
    if (digits[e] != kNobody) atomicAdd(&own[t / 32][digits[e]], run);
    run = 0;
  }
  __syncthreads();
  u32 sum = 0;
  for (int w = 0; w < kWarps; ++w) sum += own[w][t];
  counts[(row * 256 + t) * tiles + tile] = sum;
}

// The sum of what the threads before have; `total` is that of all.
__device__ inline u32 SumBefore(u32 mine, u32* shared, u32& total) {
  u32 t = threadIdx.x, lane = t % 32, sum = mine;
  for (u32 d = 1; d < 32; d *= 2) {
    u32 other = __shfl_sync(0xffffffffu, sum, (lane - d) % 32);
    if (lane >= d) sum += other;
  }
  if (lane == 31) shared[t / 32] = sum;
  __syncthreads();
  u32 before = 0;
  total = 0;
  for (u32 w = 0; w < kWarps; ++w) {
    if (w == t / 32) before = total;
    total += shared[w];
  }
  __syncthreads();
  return before + sum - mine;
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
// What a thread has of a chunk that begins at place `base`; `total` is that of the chunk.
__device__ inline void PlacesOfChunk(u32* counts, s64 length, s64 begin, u32 base, u32* shared,
                                     u32& total) {
  constexpr int kEach = kChunk / kThreads;
  u32 values[kEach], sum = 0;
  for (int e = 0; e < kEach; ++e) {
    values[e] = begin + e < length ? counts[begin + e] : 0;
    sum += values[e];
  }
  u32 place = base + SumBefore(sum, shared, total);
  for (int e = 0; e < kEach; ++e) {
    if (begin + e < length) counts[begin + e] = place;
    place += values[e];
  }
}
__device__ inline void ScanChunks(u32* counts, s64 length, const u32* sums) {
  __shared__ u32 shared[kThreads];
  s64 chunks = (length + kChunk - 1) / kChunk, row = blockIdx.x / chunks;
  s64 begin = blockIdx.x % chunks * kChunk + threadIdx.x * (kChunk / kThreads);
  u32 total;
  PlacesOfChunk(counts + row * length, length, begin, sums[blockIdx.x], shared, total);
}
// The same of short rows, a block each.
__device__ inline void ScanRow(u32* counts, s64 length) {
  __shared__ u32 shared[kThreads];
  u32 base = 0, total;
  for (s64 begin = 0; begin < length; begin += kChunk) {
    PlacesOfChunk(counts + blockIdx.x * length, length,
                  begin + threadIdx.x * (kChunk / kThreads), base, shared, total);
    base += total;
  }
}

template <class Order, class Value>
__device__ inline void Distribute(const typename Order::Raw* keys, const Value* values, Rows s,
                                  int shift, const u32* places, typename Order::Raw* keys_out,
                                  Value* values_out) {
  typedef typename Order::Raw Raw;
  constexpr int kTile = Radix<typename Order::Key>::kTile;
  constexpr int kItems = Radix<typename Order::Key>::kItems;
  constexpr int kWidth = sizeof(Raw) > sizeof(Value) ? sizeof(Raw) : sizeof(Value);
  __shared__ alignas(16) u8 memory[kTile * kWidth];
  __shared__ u32 own[kWarps][256];
  __shared__ u32 shared[kWarps], base[256];
  s64 tiles = (s.n + kTile - 1) / kTile, row = blockIdx.x / tiles, tile = blockIdx.x % tiles;
  s64 begin = row * s.n + tile * kTile;
  int count = s.n - tile * kTile < kTile ? int(s.n - tile * kTile) : kTile, t = threadIdx.x;
  u32* counts = own[t / 32];
  Raw items[kItems];
  u32 at[kItems];
  keys += begin;
#pragma unroll
  for (int e = 0; e < kItems; ++e) {
    if (ItemAt<Order>(e) < count) items[e] = keys[ItemAt<Order>(e)];
  }
  // Computed again where it is wanted: registers are scarce.
  auto digit = [&](int e) {
    return ItemAt<Order>(e) < count ? DigitOf<Order>(items[e], shift) : 255u;
  };
  for (int w = 0; w < kWarps; ++w) own[w][t] = 0;
  __syncthreads();
#pragma unroll
  for (int e = 0; e < kItems; ++e) at[e] = RankInWarp(counts, digit(e));
  __syncthreads();
  // Thread d: where digit d begins in the tile, for each warp, and in the row.
  u32 sum = 0, total;
  for (int w = 0; w < kWarps; ++w) sum += own[w][t];
  u32 place = SumBefore(sum, shared, total);
  base[t] = places[(row * 256 + t) * tiles + tile] - place;
  for (int w = 0; w < kWarps; ++w) {
    u32 mine = own[w][t];
    own[w][t] = place;
    place += mine;
  }
  __syncthreads();
  Raw* sorted = (Raw*)memory;
#pragma unroll
  for (int e = 0; e < kItems; ++e) {
    at[e] += counts[digit(e)];
    if (ItemAt<Order>(e) < count) sorted[at[e]] = items[e];
  }
  __syncthreads();
  u32 to[kItems];
  keys_out += row * s.n;
#pragma unroll
  for (int e = 0; e < kItems; ++e) {
    int i = e * kThreads + t;
    if (i >= count) continue;
    to[e] = base[DigitOf<Order>(sorted[i], shift)] + u32(i);
    keys_out[to[e]] = sorted[i];
  }
  if constexpr (ValueOf<Value>::kIs) {
    Value* moved = (Value*)memory;
    __syncthreads();
#pragma unroll
    for (int e = 0; e < kItems; ++e) {
      int i = ItemAt<Order>(e);
      if (i >= count) continue;
      moved[at[e]] = values == nullptr ? ValueOf<Value>::Number(tile * kTile + i) : values[begin + i];
    }
    __syncthreads();
#pragma unroll
    for (int e = 0; e < kItems; ++e) {
      int i = e * kThreads + t;
      if (i < count) values_out[row * s.n + to[e]] = moved[i];
    }
  }
}
