#include <algorithm>
#include <complex>
#include <cstring>
#include <vector>

#include "base/elements.h"
#include "program/interpret.h"

namespace weft::program::detail {

namespace {

template <class T>
T ReduceFloats(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::kMul: return a * b;
    case ReduceOp::kMin: return a != a || b != b ? a + b : std::min(a, b);
    case ReduceOp::kMax: return a != a || b != b ? a + b : std::max(a, b);
    default: return a + b;
  }
}

int64_t ReduceInts(ReduceOp op, DType dtype, int64_t a, int64_t b) {
  uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  bool less = IsSigned(dtype) ? a < b : x < y;
  switch (op) {
    // For pred, add is or and mul is and.
    case ReduceOp::kAdd: return dtype == DType::kPred ? a | b : static_cast<int64_t>(x + y);
    case ReduceOp::kMul: return static_cast<int64_t>(x * y);
    case ReduceOp::kMin: return less ? a : b;
    case ReduceOp::kMax: return less ? b : a;
    case ReduceOp::kAnd: return a & b;
    default: return a | b;
  }
}

template <class T, class Load, class Store, class Combine>
void ReduceAs(std::span<const std::span<const std::byte>> inputs, int64_t first, int64_t n,
              int64_t width, Load load, Store store, Combine combine, std::byte* out) {
  std::vector<T> sum(n), next(n);
  load(inputs[0].data() + first * width, n, sum.data());
  for (size_t i = 1; i < inputs.size(); ++i) {
    load(inputs[i].data() + first * width, n, next.data());
    for (int64_t j = 0; j < n; ++j) sum[j] = combine(sum[j], next[j]);
  }
  store(sum.data(), n, out);
}

// Elements [first, first + n) of all inputs, reduced in the order of the group.
std::vector<std::byte> ReduceElements(ReduceOp op, DType dtype,
                                      std::span<const std::span<const std::byte>> inputs,
                                      int64_t first, int64_t n) {
  int64_t width = ByteWidth(dtype);
  std::vector<std::byte> out(static_cast<size_t>(n * width));
  auto floats = [&](auto a, auto b) { return ReduceFloats(op, a, b); };
  if (IsComplex(dtype)) {
    using C = std::complex<double>;
    ReduceAs<C>(
        inputs, first, n, width,
        [&](const std::byte* p, int64_t m, C* v) { LoadC128(dtype, p, m, v); },
        [&](const C* v, int64_t m, std::byte* p) { StoreC128(dtype, v, m, p); },
        [&](C a, C b) { return op == ReduceOp::kMul ? a * b : a + b; }, out.data());
  } else if (dtype == DType::kF64) {
    ReduceAs<double>(
        inputs, first, n, width,
        [&](const std::byte* p, int64_t m, double* v) { LoadF64(dtype, p, m, v); },
        [&](const double* v, int64_t m, std::byte* p) { StoreF64(dtype, v, m, p); }, floats,
        out.data());
  } else if (IsFloat(dtype)) {
    ReduceAs<float>(
        inputs, first, n, width,
        [&](const std::byte* p, int64_t m, float* v) { LoadF32(dtype, p, m, v); },
        [&](const float* v, int64_t m, std::byte* p) { StoreF32(dtype, v, m, p); }, floats,
        out.data());
  } else {
    ReduceAs<int64_t>(
        inputs, first, n, width,
        [&](const std::byte* p, int64_t m, int64_t* v) { LoadI64(dtype, p, m, v); },
        [&](const int64_t* v, int64_t m, std::byte* p) { StoreI64(dtype, v, m, p); },
        [&](int64_t a, int64_t b) { return ReduceInts(op, dtype, a, b); }, out.data());
  }
  return out;
}

}  // namespace

void RunCollective(const CollectiveStep& op, DType dtype,
                   std::span<const std::span<const std::byte>> inputs,
                   std::span<const std::span<std::byte>> outputs) {
  size_t n = inputs.size(), bytes = inputs[0].size();
  std::vector<std::vector<std::byte>> made(n);  // outputs may be the inputs' memory
  for (size_t i = 0; i < n; ++i) {
    std::vector<std::byte>& out = made[i];
    switch (op.kind) {
      case CollectiveKind::kAllReduce:
        out = i > 0 ? made[0]
                    : ReduceElements(op.reduce, dtype, inputs, 0,
                                     static_cast<int64_t>(bytes) / ByteWidth(dtype));
        break;
      case CollectiveKind::kReduceScatter: {
        int64_t part = static_cast<int64_t>(bytes / n) / ByteWidth(dtype);
        out = ReduceElements(op.reduce, dtype, inputs, static_cast<int64_t>(i) * part, part);
        break;
      }
      case CollectiveKind::kAllGather:
        for (auto& in : inputs) out.insert(out.end(), in.begin(), in.end());
        break;
      case CollectiveKind::kAllToAll:
        for (auto& in : inputs) {
          auto part = in.subspan(i * (bytes / n), bytes / n);
          out.insert(out.end(), part.begin(), part.end());
        }
        break;
      case CollectiveKind::kPermute: {
        out.resize(bytes);
        for (const std::vector<int64_t>& pair : op.groups) {
          if (pair[1] != static_cast<int64_t>(i)) continue;
          auto& in = inputs[static_cast<size_t>(pair[0])];
          out.assign(in.begin(), in.end());
        }
        break;
      }
    }
  }
  for (size_t i = 0; i < n; ++i) std::copy(made[i].begin(), made[i].end(), outputs[i].begin());
}

}  // namespace weft::program::detail
