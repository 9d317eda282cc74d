// Reductions between devices, element by element.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/elements.h"
#include "hlo/evaluate/collectives.h"

namespace weft::hlo {
namespace {

// The op of a reducer that is one binary op of its two parameters, all of one type.
std::optional<Op> SingleOp(const Computation& reducer, DType dtype) {
  const Instruction* root = reducer.root();
  if (root == nullptr || reducer.parameters().size() != 2 || root->operand_count() != 2) {
    return std::nullopt;
  }
  const Instruction* a = reducer.parameter(0);
  const Instruction* b = reducer.parameter(1);
  if (a == nullptr || b == nullptr || !HasTrait(root->op(), kCommutative)) return std::nullopt;
  bool in_order = root->operand(0) == a && root->operand(1) == b;
  bool swapped = root->operand(0) == b && root->operand(1) == a;
  if (!in_order && !swapped) return std::nullopt;
  for (const Instruction* i : {root, a, b}) {
    if (!i->shape().IsScalar() || i->shape().dtype() != dtype) return std::nullopt;
  }
  return root->op();
}

template <class T>
T MaxOrNan(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
    if (a == b) return std::signbit(a) ? b : a;
  }
  return a < b ? b : a;
}

template <class T>
T MinOrNan(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
    if (a == b) return std::signbit(a) ? a : b;
  }
  return b < a ? b : a;
}

template <class T, class Fn>
bool Loop(std::vector<T>& a, const std::vector<T>& b, Fn fn) {
  for (size_t i = 0; i < a.size(); ++i) a[i] = fn(a[i], b[i]);
  return true;
}

template <class T>
bool ApplyFloat(Op op, std::vector<T>& a, const std::vector<T>& b) {
  switch (op) {
    case Op::kAdd: return Loop(a, b, [](T x, T y) { return x + y; });
    case Op::kMultiply: return Loop(a, b, [](T x, T y) { return x * y; });
    case Op::kMaximum: return Loop(a, b, MaxOrNan<T>);
    case Op::kMinimum: return Loop(a, b, MinOrNan<T>);
    default: return false;
  }
}

// Wraps in 64 bits; storing wraps to the width of the type.
template <class T>
bool ApplyInteger(Op op, std::vector<T>& a, const std::vector<T>& b) {
  auto u = [](T x) { return static_cast<uint64_t>(x); };
  switch (op) {
    case Op::kAdd: return Loop(a, b, [&](T x, T y) { return static_cast<T>(u(x) + u(y)); });
    case Op::kMultiply: return Loop(a, b, [&](T x, T y) { return static_cast<T>(u(x) * u(y)); });
    case Op::kMaximum: return Loop(a, b, MaxOrNan<T>);
    case Op::kMinimum: return Loop(a, b, MinOrNan<T>);
    case Op::kAnd: return Loop(a, b, [](T x, T y) { return x & y; });
    case Op::kOr: return Loop(a, b, [](T x, T y) { return x | y; });
    case Op::kXor: return Loop(a, b, [](T x, T y) { return x ^ y; });
    default: return false;
  }
}

bool ApplyWhole(Op op, Literal& accumulator, const Literal& value) {
  DType type = accumulator.dtype();
  int64_t n = accumulator.size();
  if (type == DType::kPred && op != Op::kAnd && op != Op::kOr && op != Op::kMaximum &&
      op != Op::kMinimum) {
    return false;
  }
  if (type == DType::kF64) {
    std::vector<double> a(n), b(n);
    LoadF64(type, accumulator.data(), n, a.data());
    LoadF64(type, value.data(), n, b.data());
    if (!ApplyFloat(op, a, b)) return false;
    StoreF64(type, a.data(), n, accumulator.mutable_data());
    return true;
  }
  if (IsFloat(type)) {
    std::vector<float> a(n), b(n);
    LoadF32(type, accumulator.data(), n, a.data());
    LoadF32(type, value.data(), n, b.data());
    if (!ApplyFloat(op, a, b)) return false;
    StoreF32(type, a.data(), n, accumulator.mutable_data());
    return true;
  }
  if (!IsInteger(type) && type != DType::kPred) return false;
  std::vector<int64_t> a(n), b(n);
  LoadI64(type, accumulator.data(), n, a.data());
  LoadI64(type, value.data(), n, b.data());
  if (type == DType::kU64) {
    std::vector<uint64_t> ua(a.begin(), a.end()), ub(b.begin(), b.end());
    if (!ApplyInteger(op, ua, ub)) return false;
    std::copy(ua.begin(), ua.end(), a.begin());
  } else if (!ApplyInteger(op, a, b)) {
    return false;
  }
  StoreI64(type, a.data(), n, accumulator.mutable_data());
  return true;
}

Literal ElementAt(const Literal& array, int64_t i) {
  Literal scalar{Shape::Scalar(array.dtype())};
  int64_t width = ByteWidth(array.dtype());
  std::copy_n(array.data() + i * width, width, scalar.mutable_data());
  return scalar;
}

}  // namespace

Status CombineElements(EvalContext& context, const Computation& reducer, Literal& accumulator,
                       const Literal& value) {
  if (!accumulator.shape().IsArray() || accumulator.dtype() != value.dtype() ||
      !Shape::SameDims(accumulator.shape(), value.shape())) {
    return InvalidArgument("devices give ", accumulator.shape().ToStringWithoutLayout(), " and ",
                           value.shape().ToStringWithoutLayout());
  }
  DType type = accumulator.dtype();
  std::optional<Op> op = SingleOp(reducer, type);
  if (op && ApplyWhole(*op, accumulator, value)) return {};
  // A reducer of whole arrays.
  const Instruction* first = reducer.parameters().empty() ? nullptr : reducer.parameter(0);
  if (first != nullptr && first->shape().rank() > 0) {
    Literal pair[2] = {std::move(accumulator), value};
    accumulator = TRY(context.Call(reducer, pair));
    return {};
  }
  int64_t width = ByteWidth(type);
  for (int64_t i = 0; i < accumulator.size(); ++i) {
    Literal pair[2] = {ElementAt(accumulator, i), ElementAt(value, i)};
    Literal result = TRY(context.Call(reducer, pair));
    if (!result.shape().IsScalar()) {
      return InvalidArgument("the reducer ", reducer.name(), " returns ",
                             result.shape().ToStringWithoutLayout(), ", not a scalar");
    }
    ConvertElements(result.dtype(), result.data(), type, accumulator.mutable_data() + i * width, 1);
  }
  return {};
}

}  // namespace weft::hlo
