#include "hlo/evaluate/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "base/thread_pool.h"
#include "hlo/attrs.h"
#include "hlo/evaluate/result.h"
#include "hlo/instruction.h"

namespace weft::hlo {

namespace {

constexpr int64_t kRandomGrain = 1 << 14;

std::array<uint32_t, 2> Halves(uint64_t x) {
  return {static_cast<uint32_t>(x), static_cast<uint32_t>(x >> 32)};
}

// 32 or 64 random bits per element in storage form of the type: narrower types keep the low bits.
template <class BitsFn>
void StoreBits(Literal& out, const BitsFn& bits) {
  int64_t width = ByteWidth(out.dtype());
  DType type = out.dtype();
  // Bits of floats are bits; only integers narrower than a byte need to be brought into form.
  std::byte* to = out.mutable_data();
  bool narrow = IsInteger(type) && BitWidth(type) < 8;
  DefaultPool().ParallelFor(out.size(), kRandomGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      uint64_t value = bits(i);
      if (narrow || type == DType::kPred) {
        int64_t wide = static_cast<int64_t>(type == DType::kPred ? value & 1 : value);
        StoreI64(type, &wide, 1, to + i * width);
      } else {
        if (BitWidth(type) < 8) value &= (uint64_t{1} << BitWidth(type)) - 1;
        std::memcpy(to + i * width, &value, static_cast<size_t>(std::min<int64_t>(width, 8)));
      }
    }
  });
}

// The dimension that Threefry cuts in two halves, whose elements come from the two words of one
// counter: the first of even size, else the first of the largest size.
size_t ThreefrySplitDim(const Dims& dims) {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] % 2 == 0) return i;
  }
  return static_cast<size_t>(std::max_element(dims.begin(), dims.end()) - dims.begin());
}

// Fills `out` and returns the number of counters used.
uint64_t ThreefryFill(uint64_t key, uint64_t counter, Literal& out) {
  auto at = [key, counter](int64_t i) {
    return Threefry2x32(Halves(counter + static_cast<uint64_t>(i)), Halves(key));
  };
  if (BitWidth(out.dtype()) == 64) {
    StoreBits(out, [&](int64_t i) {
      auto [low, high] = at(i);
      return low | uint64_t{high} << 32;
    });
    return static_cast<uint64_t>(out.size());
  }
  const Dims& dims = out.shape().dims();
  if (dims.empty()) {
    StoreBits(out, [&](int64_t) { return uint64_t{at(0)[0]}; });
    return 1;
  }
  size_t split = ThreefrySplitDim(dims);
  int64_t size = dims[split], half = size / 2 + size % 2, inner = 1, outer = 1;
  for (size_t d = 0; d < split; ++d) outer *= dims[d];
  for (size_t d = split + 1; d < dims.size(); ++d) inner *= dims[d];
  StoreBits(out, [&](int64_t i) {
    int64_t n = i % inner, s = i / inner % size, o = i / inner / size;
    return uint64_t{at((o * half + s / 2) * inner + n)[static_cast<size_t>(s % 2)]};
  });
  return static_cast<uint64_t>(outer * half * inner);
}

// A counter of 128 bits.
struct Counter {
  uint64_t low, high;
  Counter operator+(uint64_t n) const { return {low + n, high + (low + n < low)}; }
};

// Fills `out` and returns the number of counters used.
uint64_t PhiloxFill(uint64_t key, Counter counter, Literal& out) {
  bool wide = BitWidth(out.dtype()) == 64;
  int64_t per_block = wide ? 2 : 4;
  StoreBits(out, [&](int64_t i) -> uint64_t {
    Counter c = counter + static_cast<uint64_t>(i / per_block);
    auto [c0, c1] = Halves(c.low);
    auto [c2, c3] = Halves(c.high);
    std::array<uint32_t, 4> x = Philox4x32({c0, c1, c2, c3}, Halves(key));
    size_t lane = static_cast<size_t>(i % per_block);
    return wide ? x[2 * lane] | uint64_t{x[2 * lane + 1]} << 32 : x[lane];
  });
  return static_cast<uint64_t>((out.size() + per_block - 1) / per_block);
}

// Two uniform numbers of 53 bits in (0, 1] and [0, 1) to a normal one.
double NormalFrom(uint64_t a, uint64_t b) {
  double u = static_cast<double>((a >> 11) + 1) * 0x1p-53,
         v = static_cast<double>(b >> 11) * 0x1p-53;
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

void UniformIntegers(EvalContext& context, int64_t low, int64_t high, Literal& out) {
  bool is_unsigned = out.dtype() == DType::kU64;
  bool empty =
      is_unsigned ? static_cast<uint64_t>(high) <= static_cast<uint64_t>(low) : high <= low;
  uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  for (int64_t i = 0; i < out.size(); ++i) {
    uint64_t value = static_cast<uint64_t>(low) + (empty ? 0 : context.NextRandom() % range);
    out.SetInt(i, static_cast<int64_t>(value));
  }
}

}  // namespace

Result<Literal> EvaluateRng(EvalContext& context, const Instruction& instruction,
                            std::span<Literal> operands) {
  Literal out = TRY(NewResult(context, instruction.shape()));
  if (!IsFloat(out.dtype())) {
    UniformIntegers(context, operands[0].GetInt(0), operands[1].GetInt(0), out);
    return out;
  }
  bool normal = instruction.attrs<RngAttrs>().distribution == Distribution::kNormal;
  double a = operands[0].GetDouble(0), b = operands[1].GetDouble(0);
  for (int64_t i = 0; i < out.size(); ++i) {
    if (normal) {
      uint64_t first = context.NextRandom(), second = context.NextRandom();
      out.SetDouble(i, a + b * NormalFrom(first, second));
      continue;
    }
    out.SetDouble(i, a + (b - a) * (static_cast<double>(context.NextRandom() >> 11) * 0x1p-53));
    // Rounding may reach the end, which does not belong to the range.
    if (a < b && out.GetDouble(i) >= b) out.SetDouble(i, a);
  }
  return out;
}

// State: u64[2] or u64[3] (or the same as twice as many u32): the key, then the counter. Philox
// with u64[2] counts in 128 bits whose upper half is the key, and gives back the lower half alone.
Result<Literal> EvaluateRngBitGenerator(EvalContext& context, const Instruction& instruction,
                                        std::span<Literal> operands) {
  Literal state = std::move(operands[0]);
  if ((state.dtype() != DType::kU64 && state.dtype() != DType::kU32) || state.byte_size() < 16) {
    return Unimplemented("rng-bit-generator: a state of shape ",
                         state.shape().ToStringWithoutLayout(), " is not evaluated");
  }
  bool tuple = instruction.shape().IsTuple();
  Literal out =
      TRY(NewResult(context, tuple ? instruction.shape().tuple_element(1) : instruction.shape()));
  std::vector<uint64_t> words(static_cast<size_t>(state.byte_size() / 8));
  std::memcpy(words.data(), state.data(), words.size() * 8);
  if (instruction.attrs<RngBitGeneratorAttrs>().algorithm == RngAlgorithm::kThreeFry) {
    words[1] += ThreefryFill(words[0], words[1], out);
  } else {
    bool full = words.size() >= 3;
    Counter counter = full ? Counter{words[1], words[2]} : Counter{words[1], words[0]};
    Counter next = counter + PhiloxFill(words[0], counter, out);
    words[1] = next.low;
    if (full) words[2] = next.high;
  }
  if (!tuple) return out;
  std::memcpy(state.mutable_data(), words.data(), words.size() * 8);
  std::vector<Literal> both;
  both.push_back(std::move(state));
  both.push_back(std::move(out));
  return Literal::Tuple(std::move(both));
}

Result<Literal> EvaluateRngGetAndUpdateState(EvalContext& context, const Instruction& instruction,
                                             std::span<Literal>) {
  Literal out = TRY(NewResult(context, instruction.shape()));
  for (int64_t i = 0; i < out.size(); ++i) {
    out.SetInt(i, static_cast<int64_t>(context.NextRandom()));
  }
  return out;
}

}  // namespace weft::hlo
