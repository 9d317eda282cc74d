// rng_bit_generator: counters in blocks, so that the rounds run on vectors.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/elements.h"
#include "cpu/routines/multiply.h"
#include "cpu/routines/prepare.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::cpu {
namespace {

constexpr int64_t kCounters = program::CodeBounds::kShortLoop;  // in a block
constexpr int kLanes = program::TargetFacts::kUsualLanes;       // of a vector of Philox
// Of Threefry, whose rounds wait for each other.
constexpr int kManyLanes = 4 * program::TargetFacts::kUsualLanes;

typedef uint32_t Words __attribute__((vector_size(4 * kLanes)));
typedef uint64_t WideWords __attribute__((vector_size(8 * kLanes)));
typedef uint32_t ManyWords __attribute__((vector_size(4 * kManyLanes)));

// Vectors are passed by reference: their calling convention depends on the machine.
// first, first + 1, ... as low and high words.
template <class V>
inline void CountFrom(uint64_t first, V& low, V& high) {
  V numbers;
  for (int i = 0; i < static_cast<int>(sizeof(V) / 4); ++i) numbers[i] = static_cast<uint32_t>(i);
  uint32_t first_low = static_cast<uint32_t>(first);
  low = numbers + first_low;
  // Comparisons give all ones where a lane ran over.
  high = static_cast<uint32_t>(first >> 32) - __builtin_convertvector(low < first_low, V);
}

template <int kRotation>
inline void ThreefryRound(ManyWords& x, ManyWords& y) {
  x += y;
  y = (y << kRotation | y >> (32 - kRotation)) ^ x;
}

// Four rounds and the injection of a key.
template <int kA, int kB, int kC, int kD>
inline void FourRounds(ManyWords& x, ManyWords& y, uint32_t to_x, uint32_t to_y) {
  ThreefryRound<kA>(x, y);
  ThreefryRound<kB>(x, y);
  ThreefryRound<kC>(x, y);
  ThreefryRound<kD>(x, y);
  x += to_x;
  y += to_y;
}

// The words of kCounters counters from `first` on.
void ThreefryBlock(uint64_t key, uint64_t first, uint32_t* x_out, uint32_t* y_out) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  const uint32_t keys[3] = {k0, k1, k0 ^ k1 ^ 0x1BD11BDAu};
  for (int64_t i = 0; i < kCounters; i += kManyLanes) {
    ManyWords x, y;
    CountFrom(first + static_cast<uint64_t>(i), x, y);
    x += k0;
    y += k1;
    FourRounds<13, 15, 26, 6>(x, y, keys[1], keys[2] + 1);
    FourRounds<17, 29, 16, 24>(x, y, keys[2], keys[0] + 2);
    FourRounds<13, 15, 26, 6>(x, y, keys[0], keys[1] + 3);
    FourRounds<17, 29, 16, 24>(x, y, keys[1], keys[2] + 4);
    FourRounds<13, 15, 26, 6>(x, y, keys[2], keys[0] + 5);
    std::memcpy(x_out + i, &x, sizeof(x));
    std::memcpy(y_out + i, &y, sizeof(y));
  }
}

// The upper and lower halves of products.
inline void MultiplyWords(const Words& x, uint32_t factor, Words& high, Words& low) {
  WideWords product = __builtin_convertvector(x, WideWords) * uint64_t{factor};
  high = __builtin_convertvector(product >> 32, Words);
  low = __builtin_convertvector(product, Words);
}

// Four words for each of kCounters counters of 128 bits from (low + first, high) on, word by word:
// words[lane * kCounters + i].
void PhiloxBlock(uint64_t key, uint64_t low, uint64_t high, uint64_t first, uint32_t* words) {
  for (int64_t i = 0; i < kCounters; i += kLanes) {
    uint64_t sum = low + first + static_cast<uint64_t>(i);
    Words c0, c1, c2, c3;
    CountFrom(sum, c0, c1);
    for (int lane = 0; lane < kLanes; ++lane) {
      uint64_t top = high + (sum + static_cast<uint64_t>(lane) < low ? 1 : 0);
      c2[lane] = static_cast<uint32_t>(top);
      c3[lane] = static_cast<uint32_t>(top >> 32);
    }
    uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      Words p_high, p_low, q_high, q_low;
      MultiplyWords(c0, 0xD2511F53u, p_high, p_low);
      MultiplyWords(c2, 0xCD9E8D57u, q_high, q_low);
      c0 = q_high ^ c1 ^ k0;
      c1 = q_low;
      c2 = p_high ^ c3 ^ k1;
      c3 = p_low;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    std::memcpy(words + i, &c0, sizeof(c0));
    std::memcpy(words + kCounters + i, &c1, sizeof(c1));
    std::memcpy(words + 2 * kCounters + i, &c2, sizeof(c2));
    std::memcpy(words + 3 * kCounters + i, &c3, sizeof(c3));
  }
}

// Puts random bits in memory as elements of the type, kWidth bytes each.
template <int kWidth>
class BitStore {
 public:
  BitStore(DType dtype, std::byte* to) : dtype_(dtype), to_(to) {
    formed_ = (IsInteger(dtype) && BitWidth(dtype) < 8) || dtype == DType::kPred;
    mask_ = BitWidth(dtype) < 8 ? (uint64_t{1} << BitWidth(dtype)) - 1 : ~uint64_t{0};
  }
  void operator()(int64_t i, uint64_t bits) const {
    if constexpr (kWidth == 1) {
      bits &= mask_;
      int64_t value = static_cast<int64_t>(bits);
      if (formed_) return StoreI64(dtype_, &value, 1, to_ + i);
    }
    if constexpr (kWidth > 8) std::memset(to_ + kWidth * i + 8, 0, kWidth - 8);
    std::memcpy(to_ + kWidth * i, &bits, kWidth < 8 ? kWidth : 8);
  }

 private:
  DType dtype_;
  std::byte* to_;
  bool formed_;
  uint64_t mask_;
};

class RngBitGenerator : public PreparedRoutine {
 public:
  RngBitGenerator(bool threefry, std::vector<int64_t> dims, DType dtype, int64_t state_bytes)
      : threefry_(threefry), dims_(std::move(dims)), dtype_(dtype), state_bytes_(state_bytes) {
    for (int64_t dim : dims_) elements_ *= dim;
  }

  Status Run(const RoutineContext& context) const override {
    std::byte* to = context.memory[2];
    switch (ByteWidth(dtype_)) {
      case 1: return RunWith(context, BitStore<1>(dtype_, to));
      case 2: return RunWith(context, BitStore<2>(dtype_, to));
      case 4: return RunWith(context, BitStore<4>(dtype_, to));
      case 8: return RunWith(context, BitStore<8>(dtype_, to));
      default: return RunWith(context, BitStore<16>(dtype_, to));
    }
  }

 private:
  template <class Store>
  Status RunWith(const RoutineContext& context, const Store& store) const {
    uint64_t words[3] = {};
    std::memcpy(words, context.memory[0], static_cast<size_t>(state_bytes_));
    if (threefry_) {
      words[1] += static_cast<uint64_t>(Threefry(context, words[0], words[1], store));
    } else {
      bool full = state_bytes_ == 24;
      uint64_t used =
          static_cast<uint64_t>(Philox(context, words[0], words[1], words[full ? 2 : 0], store));
      uint64_t low = words[1];
      words[1] += used;
      if (full && words[1] < low) ++words[2];
    }
    std::memcpy(context.memory[1], words, static_cast<size_t>(state_bytes_));
    return {};
  }

  // fn(first, count) for blocks of n counters.
  template <class Fn>
  static void EachBlock(const RoutineContext& context, int64_t n, const Fn& fn) {
    int64_t blocks = (n + kCounters - 1) / kCounters;
    ForPieces(&context.pool, blocks, 3.0 * kCounters, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        fn(block * kCounters, std::min(kCounters, n - block * kCounters));
      }
    });
  }

  // The number of counters used.
  template <class Store>
  int64_t Threefry(const RoutineContext& context, uint64_t key, uint64_t counter,
                   const Store& store) const {
    if (BitWidth(dtype_) == 64) {
      EachBlock(context, elements_, [&](int64_t first, int64_t count) {
        uint32_t x[kCounters], y[kCounters];
        ThreefryBlock(key, counter + static_cast<uint64_t>(first), x, y);
        for (int64_t i = 0; i < count; ++i) store(first + i, x[i] | uint64_t{y[i]} << 32);
      });
      return elements_;
    }
    // The two words of a counter are neighbours in one dimension: the first of even size, else the
    // first of the largest size.
    size_t split = 0;
    while (split < dims_.size() && dims_[split] % 2 != 0) ++split;
    if (split == dims_.size()) {
      split = static_cast<size_t>(std::max_element(dims_.begin(), dims_.end()) - dims_.begin());
    }
    int64_t size = dims_.empty() ? 1 : dims_[split], half = size / 2 + size % 2;
    int64_t inner = 1, outer = 1;
    for (size_t d = 0; d < split; ++d) outer *= dims_[d];
    for (size_t d = split + 1; d < dims_.size(); ++d) inner *= dims_[d];
    EachBlock(context, outer * half * inner, [&](int64_t first, int64_t count) {
      uint32_t x[kCounters], y[kCounters];
      ThreefryBlock(key, counter + static_cast<uint64_t>(first), x, y);
      if (inner == 1 && size % 2 == 0) {
        for (int64_t i = 0; i < count; ++i) {
          store(2 * (first + i), x[i]);
          store(2 * (first + i) + 1, y[i]);
        }
        return;
      }
      for (int64_t i = 0; i < count; ++i) {
        int64_t in = (first + i) % inner, rest = (first + i) / inner;
        int64_t at = (rest / half * size + 2 * (rest % half)) * inner + in;
        store(at, x[i]);
        if (2 * (rest % half) + 1 < size) store(at + inner, y[i]);
      }
    });
    return outer * half * inner;
  }

  template <class Store>
  int64_t Philox(const RoutineContext& context, uint64_t key, uint64_t low, uint64_t high,
                 const Store& store) const {
    bool wide = BitWidth(dtype_) == 64;
    int64_t per_counter = wide ? 2 : 4, counters = (elements_ + per_counter - 1) / per_counter;
    EachBlock(context, counters, [&](int64_t first, int64_t count) {
      uint32_t words[4 * kCounters];
      PhiloxBlock(key, low, high, static_cast<uint64_t>(first), words);
      for (int64_t i = 0; i < count; ++i) {
        int64_t at = (first + i) * per_counter, left = std::min(per_counter, elements_ - at);
        for (int64_t lane = 0; lane < left; ++lane) {
          uint64_t bits = words[(wide ? 2 * lane : lane) * kCounters + i];
          if (wide) bits |= uint64_t{words[(2 * lane + 1) * kCounters + i]} << 32;
          store(at + lane, bits);
        }
      }
    });
    return counters;
  }

  bool threefry_;
  std::vector<int64_t> dims_;
  DType dtype_;
  int64_t state_bytes_, elements_ = 1;
};

}  // namespace

Result<std::unique_ptr<PreparedRoutine>> PrepareRngBitGenerator(const RoutineInputs& inputs) {
  TRY(VerifyCall(inputs, "rng_bit_generator"));
  const auto& call = std::get<program::LibraryStep>(inputs.step.op);
  return std::make_unique<RngBitGenerator>(
      program::StringAttr(call, "algorithm", "default") == "three_fry",
      *program::IntsAttr(call, "dims"), UseDType(inputs, 2), inputs.step.uses[0].slice.size);
}

}  // namespace weft::cpu
