#include "program/reduce_arrays.h"

#include <algorithm>
#include <bit>
#include <complex>
#include <cstring>
#include <type_traits>

#if defined(__aarch64__)
#include <arm_neon.h>
#include <sys/auxv.h>
#endif

#include "base/elements.h"
#include "base/extremes.h"
#include "base/storage.h"
#include "base/stream_copy.h"
#include "program/target_facts.h"

namespace weft::program {
namespace {

// One operation on two elements of a type.
struct AddOp {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    } else {
      return a + b;
    }
  }
};
struct MulOp {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    } else {
      return a * b;
    }
  }
};
struct MinOp {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) return Minimum(a, b);
    if constexpr (std::is_integral_v<T>) return b < a ? b : a;
    return a;
  }
};
struct MaxOp {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) return Maximum(a, b);
    if constexpr (std::is_integral_v<T>) return a < b ? b : a;
    return a;
  }
};
struct AndOp {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(a & b);
    return a;
  }
};
struct OrOp {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(a | b);
    return a;
  }
};

// Calls fn with the operation as a type, so that loops over it are vector code.
template <class Fn>
void WithOp(ReduceOp op, const Fn& fn) {
  switch (op) {
    case ReduceOp::kMul: return fn(MulOp());
    case ReduceOp::kMin: return fn(MinOp());
    case ReduceOp::kMax: return fn(MaxOp());
    case ReduceOp::kAnd: return fn(AndOp());
    case ReduceOp::kOr: return fn(OrOp());
    default: return fn(AddOp());
  }
}

// Of zeroes and ones.
ReduceOp OfPreds(ReduceOp op) {
  switch (op) {
    case ReduceOp::kMul:
    case ReduceOp::kMin:
    case ReduceOp::kAnd: return ReduceOp::kAnd;
    default: return ReduceOp::kOr;
  }
}

// How elements lie in memory, and what is computed on.
template <class T>
struct AsTheyAre {
  using Stored = T;
  using Value = T;
  static T Load(T stored) { return stored; }
  static T Store(T value) { return value; }
};
struct AsBf16 {
  using Stored = uint16_t;
  using Value = float;
  static float Load(uint16_t stored) {
    return std::bit_cast<float>(static_cast<uint32_t>(stored) << 16);
  }
  // To nearest even. NaNs are quiet ones without payload, as base/float_formats.h has them.
  static uint16_t Store(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
    const uint32_t nan = (bits & 0x80000000u) | 0x7fc00000u;
    return static_cast<uint16_t>(((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded) >> 16);
  }
};
struct AsF16 {
  using Stored = uint16_t;
  using Value = float;
  static float Load(uint16_t stored) { return static_cast<float>(std::bit_cast<_Float16>(stored)); }
  static uint16_t Store(float value) {
    const uint16_t bits = std::bit_cast<uint16_t>(static_cast<_Float16>(value));
    const uint16_t nan = static_cast<uint16_t>((bits & 0x8000) | 0x7e00);
    return (bits & 0x7fff) > 0x7c00 ? nan : bits;
  }
};

// What is read of each input and combined in vector registers before anything is written: a cache
// line or two, then the next, so that all inputs are streams that the processor reads ahead.
constexpr int64_t kRunBytes = 2 * static_cast<int64_t>(kStorageAlignment);

template <class Format, class Op>
struct PlainRun {
  using Stored = typename Format::Stored;
  using Value = typename Format::Value;
  template <int64_t n>
  [[gnu::always_inline]] static void Combine(std::span<const std::byte* const> inputs,
                                             int64_t first, Stored* out) {
    Value sum[n];
    const Stored* from = reinterpret_cast<const Stored*>(inputs[0]) + first;
    for (int64_t j = 0; j < n; ++j) sum[j] = Format::Load(from[j]);
    for (size_t i = 1; i < inputs.size(); ++i) {
      from = reinterpret_cast<const Stored*>(inputs[i]) + first;
      for (int64_t j = 0; j < n; ++j) sum[j] = Op()(sum[j], Format::Load(from[j]));
    }
    for (int64_t j = 0; j < n; ++j) out[j] = Format::Store(sum[j]);
  }
};

[[gnu::noinline]] void WriteAll(const ArrayReduction& what, int64_t at,
                                std::span<const std::byte> values) {
  for (std::byte* output : what.outputs) {
    if (what.streamed) {
      StreamCopy(output + at, values);
    } else if (!values.empty()) {
      std::memmove(output + at, values.data(), values.size());
    }
  }
}

// `Run::Combine<n>(inputs, first, out)`: n elements of all inputs; kRun of them where there are.
template <class Run>
[[gnu::always_inline]] inline void ReduceBy(const ArrayReduction& what) {
  using Stored = typename Run::Stored;
  constexpr int64_t kRun = kRunBytes / sizeof(Stored);
  alignas(64) Stored out[kRun];
  const std::span<const std::byte> bytes = std::as_bytes(std::span(out));
  int64_t first = 0;
  for (; first + kRun <= what.elements; first += kRun) {
    Run::template Combine<kRun>(what.inputs, first, out);
    const int64_t at = first * static_cast<int64_t>(sizeof(Stored));
    if (kHasStreamCopies && what.streamed) {
      WriteAll(what, at, bytes);
    } else {
      for (std::byte* output : what.outputs) std::memcpy(output + at, out, kRunBytes);
    }
  }
  const int64_t left = what.elements - first;
  for (int64_t j = 0; j < left; ++j) Run::template Combine<1>(what.inputs, first + j, out + j);
  WriteAll(what, first * static_cast<int64_t>(sizeof(Stored)),
           bytes.first(static_cast<size_t>(left) * sizeof(Stored)));
}

template <class Format, class Op>
[[gnu::always_inline]] inline void ReduceRuns(const ArrayReduction& what) {
  ReduceBy<PlainRun<Format, Op>>(what);
}

template <class T>
void ReduceAsTheyAre(ReduceOp op, const ArrayReduction& what) {
  WithOp(op, [&](auto combine) { ReduceRuns<AsTheyAre<T>, decltype(combine)>(what); });
}

// Converting is most of the work: as wide vectors as there are, and instructions for f16.
#if defined(__x86_64__)
template <class Format, class Op>
[[gnu::target("avx2,f16c")]] void ReduceAvx2(const ArrayReduction& what) {
  ReduceRuns<Format, Op>(what);
}
template <class Format, class Op>
[[gnu::target("avx512f,avx512bw,avx512vl,f16c")]] void ReduceAvx512(const ArrayReduction& what) {
  ReduceRuns<Format, Op>(what);
}
#endif

#if defined(__aarch64__)
#define WEFT_BF16 [[gnu::target("arch=armv8.2-a+bf16")]]

// NaNs as AsBf16 has them.
inline uint16x8_t PlainNaNs(uint16x8_t x) {
  const uint16x8_t is_nan = vcgtq_u16(vandq_u16(x, vdupq_n_u16(0x7fff)), vdupq_n_u16(0x7f80));
  const uint16x8_t nan = vorrq_u16(vandq_u16(x, vdupq_n_u16(0x8000)), vdupq_n_u16(0x7fc0));
  return vbslq_u16(is_nan, nan, x);
}

// Sums by the bf16 extension: widening multiply-adds of ones, elements of even and odd places
// apart.
struct Bf16Sum {
  using Stored = uint16_t;
  template <int64_t n>
  WEFT_BF16 static void Combine(std::span<const std::byte* const> inputs, int64_t first,
                                uint16_t* out) {
    if constexpr (n == 1) return PlainRun<AsBf16, AddOp>::Combine<1>(inputs, first, out);
    constexpr int64_t kLanes = sizeof(uint16x8_t) / sizeof(uint16_t), kVectors = n / kLanes;
    const bfloat16x8_t ones = vreinterpretq_bf16_u16(vdupq_n_u16(0x3f80));
    float32x4_t even[kVectors + 1], odd[kVectors + 1];
    auto* from = reinterpret_cast<const uint16_t*>(inputs[0]) + first;
    for (int64_t v = 0; v < kVectors; ++v) {
      const uint32x4_t pairs = vreinterpretq_u32_u16(vld1q_u16(from + v * kLanes));
      even[v] = vreinterpretq_f32_u32(vshlq_n_u32(pairs, 16));
      odd[v] = vreinterpretq_f32_u32(vandq_u32(pairs, vdupq_n_u32(0xffff0000)));
    }
    for (size_t i = 1; i < inputs.size(); ++i) {
      from = reinterpret_cast<const uint16_t*>(inputs[i]) + first;
      for (int64_t v = 0; v < kVectors; ++v) {
        const bfloat16x8_t x = vreinterpretq_bf16_u16(vld1q_u16(from + v * kLanes));
        even[v] = vbfmlalbq_f32(even[v], x, ones);
        odd[v] = vbfmlaltq_f32(odd[v], x, ones);
      }
    }
    for (int64_t v = 0; v < kVectors; ++v) {
      const uint16x8_t low = vreinterpretq_u16_bf16(vcvtq_low_bf16_f32(even[v]));
      const uint16x8_t high = vreinterpretq_u16_bf16(vcvtq_low_bf16_f32(odd[v]));
      vst1q_u16(out + v * kLanes, PlainNaNs(vzip1q_u16(low, high)));
    }
  }
};

WEFT_BF16 void ReduceBf16Sum(const ArrayReduction& what) {
  ReduceBy<Bf16Sum>(what);
}
#endif

// False: the processor has nothing for it.
bool SumByBf16Instructions(const ArrayReduction& what) {
#if defined(__aarch64__)
  static const bool has = (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0;
  if (!has || what.op != ReduceOp::kAdd) return false;
  ReduceBf16Sum(what);
  return true;
#else
  return what.elements == 0;
#endif
}

// False: the processor has nothing for it.
template <class Format>
bool ReduceNarrow(const ArrayReduction& what) {
#if defined(__x86_64__)
  static const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  static const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                             __builtin_cpu_supports("avx512bw") &&
                             __builtin_cpu_supports("avx512vl");
  if (!avx2) return false;
  WithOp(what.op, [&](auto combine) {
    using Op = decltype(combine);
    avx512 ? ReduceAvx512<Format, Op>(what) : ReduceAvx2<Format, Op>(what);
  });
  return true;
#elif defined(__aarch64__)
  WithOp(what.op, [&](auto combine) { ReduceRuns<Format, decltype(combine)>(what); });
  return true;
#else
  return false;
#endif
}

// All other types by way of a wider one. Parts of complex numbers are rounded after each, as f32
// and f64 are.
template <class Value, auto kLoad, auto kStore>
void ReduceWidened(const ArrayReduction& what) {
  constexpr int64_t kBlock = TargetFacts::kLeastPageBytes / sizeof(double);  // elements
  const int64_t width = ByteWidth(what.dtype);
  const bool rounds_each = IsComplex(what.dtype);
  alignas(64) std::byte stored[kBlock * sizeof(Value)];
  Value sum[kBlock], next[kBlock];
  for (int64_t first = 0; first < what.elements; first += kBlock) {
    const int64_t n = std::min(kBlock, what.elements - first), at = first * width;
    kLoad(what.dtype, what.inputs[0] + at, n, sum);
    for (const std::byte* input : what.inputs.subspan(1)) {
      kLoad(what.dtype, input + at, n, next);
      WithOp(what.op, [&](auto combine) {
        for (int64_t j = 0; j < n; ++j) sum[j] = combine(sum[j], next[j]);
      });
      if (!rounds_each) continue;
      kStore(what.dtype, sum, n, stored);
      kLoad(what.dtype, stored, n, sum);
    }
    kStore(what.dtype, sum, n, stored);
    WriteAll(what, at, std::span(stored).first(static_cast<size_t>(n * width)));
  }
}

void Reduce(const ArrayReduction& what) {
  switch (what.dtype) {
    case DType::kPred: return ReduceAsTheyAre<uint8_t>(OfPreds(what.op), what);
    case DType::kS8: return ReduceAsTheyAre<int8_t>(what.op, what);
    case DType::kU8: return ReduceAsTheyAre<uint8_t>(what.op, what);
    case DType::kS16: return ReduceAsTheyAre<int16_t>(what.op, what);
    case DType::kU16: return ReduceAsTheyAre<uint16_t>(what.op, what);
    case DType::kS32: return ReduceAsTheyAre<int32_t>(what.op, what);
    case DType::kU32: return ReduceAsTheyAre<uint32_t>(what.op, what);
    case DType::kS64: return ReduceAsTheyAre<int64_t>(what.op, what);
    case DType::kU64: return ReduceAsTheyAre<uint64_t>(what.op, what);
    case DType::kF32: return ReduceAsTheyAre<float>(what.op, what);
    case DType::kF64: return ReduceAsTheyAre<double>(what.op, what);
    case DType::kBF16:
      if (SumByBf16Instructions(what) || ReduceNarrow<AsBf16>(what)) return;
      break;
    case DType::kF16:
      if (ReduceNarrow<AsF16>(what)) return;
      break;
    default: break;
  }
  if (IsComplex(what.dtype)) return ReduceWidened<std::complex<double>, LoadC128, StoreC128>(what);
  if (IsFloat(what.dtype)) return ReduceWidened<float, LoadF32, StoreF32>(what);
  ReduceWidened<int64_t, LoadI64, StoreI64>(what);
}

}  // namespace

void ReduceArrays(const ArrayReduction& what) {
  if (what.inputs.size() == 1) {
    const int64_t bytes = what.elements * ByteWidth(what.dtype);
    WriteAll(what, 0, {what.inputs[0], static_cast<size_t>(bytes)});
  } else {
    Reduce(what);
  }
  if (what.streamed) EndStreamCopies();
}

}  // namespace weft::program
