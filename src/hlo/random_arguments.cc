#include "hlo/random_arguments.h"

#include <algorithm>
#include <cmath>
#include <complex>

#include "base/counter_random.h"
#include "base/elements.h"
#include "base/thread_pool.h"

namespace weft::hlo {
namespace {

uint64_t MixBits(uint64_t x) {
  return SplitMix(x + kSplitMixStep);
}
uint64_t Derive(uint64_t seed, uint64_t number) {
  return MixBits(MixBits(seed) ^ (number + 1) * 0xd6e8feb86659fd93);
}

// -1 to 1 in steps of 2^-23, so that f32 holds it exactly.
double UnitValue(uint64_t bits) {
  return static_cast<double>(static_cast<int64_t>(bits >> 40)) / (1 << 23) - 1.0;
}

struct IntRange {
  int64_t low = 0;
  uint64_t count = 1;
};
IntRange RangeOf(DType t, int64_t index_count) {
  if (index_count > 0) {
    int bits = IsSigned(t) ? BitWidth(t) - 1 : BitWidth(t);
    uint64_t all = bits >= 3 ? 8 : uint64_t{1} << bits;
    return {0, std::min(all, static_cast<uint64_t>(index_count))};
  }
  if (IsUnsigned(t)) return {0, BitWidth(t) > 4 ? 17 : uint64_t{1} << BitWidth(t)};
  if (BitWidth(t) > 4) return {-8, 17};
  return {-(int64_t{1} << (BitWidth(t) - 1)), uint64_t{1} << BitWidth(t)};
}

// Elements begin to end, block by block in a wide type.
void FillRandom(DType t, std::byte* data, uint64_t seed, int64_t index_count, int64_t begin,
                int64_t end) {
  constexpr int64_t kBlock = 512;
  int64_t ints[kBlock];
  double reals[kBlock];
  std::complex<double> complexes[kBlock];
  auto bits = [&](int64_t i) { return MixBits(seed + static_cast<uint64_t>(i)); };
  IntRange range = IsInteger(t) ? RangeOf(t, index_count) : IntRange{0, 2};  // pred: 0 or 1
  for (int64_t at = begin; at < end; at += kBlock) {
    int64_t n = std::min(kBlock, end - at);
    std::byte* to = data + at * ByteWidth(t);
    if (IsComplex(t)) {
      for (int64_t i = 0; i < n; ++i) {
        uint64_t b = bits(at + i);
        complexes[i] = {UnitValue(b), UnitValue(MixBits(b))};
      }
      StoreC128(t, complexes, n, to);
    } else if (IsFloat(t)) {
      for (int64_t i = 0; i < n; ++i) {
        reals[i] = t == DType::kF8E8M0FNU
                       ? std::ldexp(1.0, static_cast<int>((bits(at + i) >> 32) % 5) - 2)
                       : UnitValue(bits(at + i));
      }
      StoreF64(t, reals, n, to);
    } else {
      for (int64_t i = 0; i < n; ++i) {
        ints[i] = range.low + static_cast<int64_t>((bits(at + i) >> 32) % range.count);
      }
      StoreI64(t, ints, n, to);
    }
  }
}

// How many values, from 0 on, a parameter may take that some user reads as indices, sizes or a
// branch number; 0: it is no index.
int64_t IndexCount(const Instruction& parameter) {
  int64_t count = 0;
  for (const Instruction* user : parameter.users()) {
    int64_t first = -1;  // operands from here to the last are indices
    int64_t last = user->operand_count() - 1;
    switch (user->op()) {
      case Op::kDynamicSlice: first = 1; break;
      case Op::kDynamicUpdateSlice: first = 2; break;
      case Op::kGather:
      case Op::kSetDimensionSize:
      case Op::kDynamicReshape: first = 1; break;
      case Op::kScatter: first = last = (user->operand_count() - 1) / 2; break;
      case Op::kConditional: first = last = 0; break;
      case Op::kRaggedDot: first = last = 2; break;
      default: continue;
    }
    for (int64_t i = first; i <= last; ++i) {
      if (user->operand(i) != &parameter) continue;
      int64_t limit = 8;
      if (user->op() == Op::kSetDimensionSize) {  // a size is at most the bound
        int64_t dim = user->attrs<DimensionsAttrs>().dimensions[0];
        limit = std::min<int64_t>(limit, user->operand(0)->shape().dim(dim) + 1);
      }
      count = count == 0 ? limit : std::min(count, limit);
    }
  }
  return count;
}

}  // namespace

Result<Literal> RandomLiteral(const Shape& shape, uint64_t seed, int64_t index_count) {
  if (shape.IsToken()) return Literal::Token();
  if (shape.IsTuple()) {
    std::vector<Literal> elements;
    for (int64_t i = 0; i < shape.tuple_size(); ++i) {
      elements.push_back(TRY(RandomLiteral(shape.tuple_element(i),
                                           Derive(seed, static_cast<uint64_t>(i)), index_count)));
    }
    return Literal::Tuple(std::move(elements));
  }
  if (shape.IsBuffer()) return RandomLiteral(shape.buffer_content(), seed, index_count);
  if (!shape.IsArray()) return InvalidArgument("no random value of shape ", shape);
  Literal array = TRY(Literal::Allocate(shape));
  std::byte* data = array.mutable_data();
  DefaultPool().ParallelFor(array.size(), 1 << 14, [&](int64_t begin, int64_t end) {
    FillRandom(array.dtype(), data, seed, index_count, begin, end);
  });
  return array;
}

Result<std::vector<Literal>> RandomArguments(const Computation& computation, uint64_t seed,
                                             int64_t device) {
  std::vector<Literal> arguments;
  uint64_t device_seed = Derive(seed, static_cast<uint64_t>(device));
  for (const Instruction* parameter : computation.parameters()) {
    if (parameter == nullptr) return InvalidArgument("a parameter number is missing");
    Result<Literal> value = RandomLiteral(parameter->shape(), Derive(device_seed, arguments.size()),
                                          IndexCount(*parameter));
    if (!value) {
      value.error().Prefix(StrCat("parameter ", parameter->name(), ": "));
      return std::unexpected(value.error());
    }
    arguments.push_back(*std::move(value));
  }
  return arguments;
}

}  // namespace weft::hlo
