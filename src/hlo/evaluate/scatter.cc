#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <optional>
#include <type_traits>

#include "base/elements.h"
#include "hlo/computation.h"
#include "hlo/evaluate/index_ops.h"
#include "hlo/evaluate/result.h"
#include "hlo/evaluate/scalar_function.h"
#include "hlo/evaluate/strided.h"
#include "hlo/instruction.h"

namespace weft::hlo {
namespace {

// What to_apply does with one operand, where it is simple.
struct SimpleUpdate {
  enum Kind : uint8_t { kKeep, kReplace, kCombine } kind;
  Op op = Op::kAdd;
};

std::optional<SimpleUpdate> FindSimpleUpdate(const Computation& apply) {
  const Instruction* root = apply.root();
  if (apply.parameters().size() != 2) return std::nullopt;
  if (root->op() == Op::kTuple && root->operand_count() == 1) root = root->operand(0);
  if (root->IsParameter()) {
    return SimpleUpdate{root->parameter_number() == 0 ? SimpleUpdate::kKeep
                                                      : SimpleUpdate::kReplace};
  }
  switch (root->op()) {
    case Op::kAdd:
    case Op::kMultiply:
    case Op::kMaximum:
    case Op::kMinimum:
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor: break;
    default: return std::nullopt;
  }
  const Instruction *a = root->operand(0), *b = root->operand(1);
  if (!a->IsParameter() || !b->IsParameter() || a == b) return std::nullopt;
  if (a->shape().dtype() != root->shape().dtype() || b->shape().dtype() != root->shape().dtype()) {
    return std::nullopt;
  }
  if (IsComplex(root->shape().dtype()) && root->op() != Op::kAdd && root->op() != Op::kMultiply) {
    return std::nullopt;
  }
  return SimpleUpdate{SimpleUpdate::kCombine, root->op()};
}

double CombineFloats(Op op, double x, double y) {
  switch (op) {
    case Op::kAdd: return x + y;
    case Op::kMultiply: return x * y;
    case Op::kMaximum:
      if (x != x || y != y) return x + y;
      return x == y ? (std::signbit(x) ? y : x) : std::max(x, y);
    default:
      if (x != x || y != y) return x + y;
      return x == y ? (std::signbit(x) ? x : y) : std::min(x, y);
  }
}

int64_t CombineIntegers(Op op, int64_t x, int64_t y, bool is_u64) {
  uint64_t u = static_cast<uint64_t>(x), v = static_cast<uint64_t>(y);
  bool less = is_u64 ? u < v : x < y;
  switch (op) {
    case Op::kAdd: return static_cast<int64_t>(u + v);
    case Op::kMultiply: return static_cast<int64_t>(u * v);
    case Op::kMaximum: return less ? y : x;
    case Op::kMinimum: return less ? x : y;
    case Op::kAnd: return x & y;
    case Op::kOr: return x | y;
    default: return x ^ y;
  }
}

// *current = op(*current, *update), rounded to their type.
void CombineElement(Op op, DType type, std::byte* current, const std::byte* update) {
  if (type == DType::kF32 && op == Op::kAdd) {
    float x, y;
    std::memcpy(&x, current, 4), std::memcpy(&y, update, 4);
    x += y;
    std::memcpy(current, &x, 4);
  } else if (IsFloat(type)) {
    double x, y;
    LoadF64(type, current, 1, &x), LoadF64(type, update, 1, &y);
    x = CombineFloats(op, x, y);
    StoreF64(type, &x, 1, current);
  } else if (IsComplex(type)) {
    std::complex<double> x, y;
    LoadC128(type, current, 1, &x), LoadC128(type, update, 1, &y);
    x = op == Op::kAdd ? x + y : x * y;
    StoreC128(type, &x, 1, current);
  } else {
    int64_t x, y;
    LoadI64(type, current, 1, &x), LoadI64(type, update, 1, &y);
    x = CombineIntegers(op, x, y, type == DType::kU64);
    StoreI64(type, &x, 1, current);
  }
}

// One scatter: operands in place, updates of their types.
struct ScatterState {
  EvalContext& context;
  const Computation& apply;
  std::span<Literal> operands;
  std::span<Literal> updates;
};

using ElementBytes = std::vector<std::vector<std::byte>>;  // of one window, per operand

// current = to_apply(current, update) for the n elements of a window.
void RunFunction(const ScalarFunction& function, ScalarFunction::Frame& frame,
                 const ScatterState& s, ElementBytes& current, const ElementBytes& update,
                 int64_t n) {
  InlineVec<ScalarFunction::In, 4> in;
  InlineVec<ScalarFunction::Out, 2> out;
  for (size_t k = 0; k < current.size(); ++k) {
    in.push_back({s.operands[k].dtype(), current[k].data()});
    out.push_back({s.operands[k].dtype(), current[k].data()});
  }
  for (size_t k = 0; k < current.size(); ++k) {
    in.push_back({s.operands[k].dtype(), update[k].data()});
  }
  function.Run(frame, in, {out.data(), out.size()}, n);
}

// The same for computations that are not of elementwise ops alone: calls to_apply for each element
// of a window whose elements were copied together.
Status CallForElements(const ScatterState& s, ElementBytes& current, const ElementBytes& update,
                       int64_t n) {
  size_t count = s.operands.size();
  for (int64_t i = 0; i < n; ++i) {
    std::vector<Literal> arguments(2 * count);
    for (size_t k = 0; k < 2 * count; ++k) {
      DType type = s.operands[k % count].dtype();
      int64_t width = ByteWidth(type);
      Literal scalar{Shape::Scalar(type)};
      std::memcpy(scalar.mutable_data(),
                  (k < count ? current : update)[k % count].data() + i * width,
                  static_cast<size_t>(width));
      DType parameter = s.apply.parameter(static_cast<int64_t>(k))->shape().dtype();
      arguments[k] = TRY(ConvertedTo(std::move(scalar), parameter));
    }
    Literal result = TRY(s.context.Call(s.apply, arguments));
    for (size_t k = 0; k < count; ++k) {
      DType type = s.operands[k].dtype();
      Literal value = result.shape().IsTuple() ? result.tuple()[k] : result;
      value = TRY(ConvertedTo(std::move(value), type));
      std::memcpy(current[k].data() + i * ByteWidth(type), value.data(),
                  static_cast<size_t>(ByteWidth(type)));
    }
  }
  return {};
}

// Additions of single elements along one dimension, as a histogram makes them.
template <class T>
void AddElements(std::span<const int64_t> places, int64_t size, const T* updates, T* to) {
  for (size_t i = 0; i < places.size(); ++i) {
    int64_t at = places[i];
    if (at < 0 || at >= size) continue;
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      to[at] = static_cast<T>(static_cast<U>(to[at]) + static_cast<U>(updates[i]));
    } else {
      to[at] += updates[i];
    }
  }
}

bool TryAddElements(const ScatterState& s, const IndexedWindows& windows) {
  std::span<const int64_t> places = windows.PlacesInOrder();
  Literal& operand = s.operands[0];
  if (s.operands.size() != 1 || operand.shape().rank() != 1 || windows.sizes()[0] != 1 ||
      places.empty()) {
    return false;
  }
  int64_t size = operand.size();
  std::byte* to = operand.mutable_data();
  const std::byte* from = s.updates[0].data();
  auto add = [&]<class T>(T) {
    AddElements(places, size, reinterpret_cast<const T*>(from), reinterpret_cast<T*>(to));
    return true;
  };
  switch (operand.dtype()) {
    case DType::kF64: return add(double());
    case DType::kS32: return add(int32_t());
    case DType::kU32: return add(uint32_t());
    case DType::kS64: return add(int64_t());
    default: return false;
  }
}

// Whether elements of the arrays are sums of f32, which are kept in f64 until all is added, as
// those of reductions are.
bool SumsWide(const Computation& apply, std::span<const Literal> into) {
  std::optional<SimpleUpdate> simple = FindSimpleUpdate(apply);
  if (!simple || simple->kind != SimpleUpdate::kCombine || simple->op != Op::kAdd) return false;
  DType type = into[0].dtype();
  return into.size() == 1 && apply.root()->shape().dtype() == type &&
         (type == DType::kF32 || type == DType::kC64);
}

// The first element of the window at `starts`; nothing where it does not lie inside.
std::optional<int64_t> PlaceInside(const Dims& starts, const Dims& whole, const Dims& sizes,
                                   const Dims& strides) {
  int64_t at = 0;
  for (size_t d = 0; d < starts.size(); ++d) {
    if (starts[d] < 0 || starts[d] > whole[d] - sizes[d]) return std::nullopt;
    at += starts[d] * strides[d];
  }
  return at;
}

// Windows one after the other: taken out, combined with the update by to_apply, put back.
class WindowUpdates {
 public:
  WindowUpdates(const ScatterState& s, const IndexedWindows& windows, bool wide)
      : s_(s), wide_(wide), current_(s.operands.size()), update_(s.operands.size()) {
    const Dims& sizes = windows.sizes();
    Dims strides = RowMajorStrides(s.operands[0].shape().dims()), dense = RowMajorStrides(sizes);
    for (int64_t size : sizes) n_ *= size;
    for (size_t k = 0; k < s.operands.size(); ++k) {
      int64_t width = ByteWidth(s.operands[k].dtype());
      take_.emplace_back(sizes, strides, dense, width);
      put_.emplace_back(sizes, dense, strides, width);
      take_update_.emplace_back(sizes, windows.slice_strides(), dense, width);
      current_[k].resize(static_cast<size_t>(n_ * width));
      update_[k].resize(current_[k].size());
    }
    if (wide) return;
    function_ = s.context.Compiled(s.apply);
    if (function_ != nullptr) frame_.emplace(*function_, std::min(n_, kBlockLanes));
  }

  Status Apply(int64_t at, int64_t from_at) {
    for (size_t k = 0; k < s_.operands.size(); ++k) {
      int64_t width = ByteWidth(s_.operands[k].dtype());
      take_[k].Run(s_.operands[k].mutable_data() + at * width, current_[k].data());
      take_update_[k].Run(s_.updates[k].data() + from_at * width, update_[k].data());
    }
    if (wide_) {
      DType type = s_.operands[0].dtype();
      for (int64_t e = 0; e < n_; ++e) {
        CombineElement(Op::kAdd, type, current_[0].data() + e * ByteWidth(type),
                       update_[0].data() + e * ByteWidth(type));
      }
    } else if (function_ != nullptr) {
      RunFunction(*function_, *frame_, s_, current_, update_, n_);
    } else {
      TRY(CallForElements(s_, current_, update_, n_));
    }
    for (size_t k = 0; k < s_.operands.size(); ++k) {
      int64_t width = ByteWidth(s_.operands[k].dtype());
      put_[k].Run(current_[k].data(), s_.operands[k].mutable_data() + at * width);
    }
    return {};
  }

 private:
  const ScatterState& s_;
  bool wide_;
  int64_t n_ = 1;  // elements of a window
  std::vector<StridedCopy> take_, put_, take_update_;
  ElementBytes current_, update_;
  const ScalarFunction* function_ = nullptr;
  std::optional<ScalarFunction::Frame> frame_;
};

// Without copies of the windows: replaced, or of one element each.
void UpdateAtOnce(const ScatterState& s, const IndexedWindows& windows,
                  const SimpleUpdate& simple) {
  const Dims& whole = s.operands[0].shape().dims();
  const Dims& sizes = windows.sizes();
  Dims strides = RowMajorStrides(whole), starts;
  std::vector<StridedCopy> replace;
  for (const Literal& operand : s.operands) {
    replace.emplace_back(sizes, windows.slice_strides(), strides, ByteWidth(operand.dtype()));
  }
  for (int64_t i = 0; i < windows.count(); ++i) {
    int64_t from_at = windows.Locate(i, starts);
    std::optional<int64_t> at = PlaceInside(starts, whole, sizes, strides);
    if (!at) continue;
    for (size_t k = 0; k < s.operands.size(); ++k) {
      DType type = s.operands[k].dtype();
      std::byte* to = s.operands[k].mutable_data() + *at * ByteWidth(type);
      const std::byte* from = s.updates[k].data() + from_at * ByteWidth(type);
      if (simple.kind == SimpleUpdate::kReplace) {
        replace[k].Run(from, to);
      } else {
        CombineElement(simple.op, type, to, from);
      }
    }
  }
}

// `wide`: the arrays are wider than what to_apply, an addition, takes.
Status ScatterWindows(const ScatterState& s, const IndexedWindows& windows, bool wide) {
  std::optional<SimpleUpdate> simple = FindSimpleUpdate(s.apply);
  if (simple && simple->kind == SimpleUpdate::kKeep) return {};
  if (simple && simple->kind == SimpleUpdate::kCombine && simple->op == Op::kAdd &&
      TryAddElements(s, windows)) {
    return {};
  }
  const Dims& whole = s.operands[0].shape().dims();
  const Dims& sizes = windows.sizes();
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  if (simple && (n == 1 || simple->kind == SimpleUpdate::kReplace)) {
    UpdateAtOnce(s, windows, *simple);
    return {};
  }
  WindowUpdates updates(s, windows, wide);
  Dims strides = RowMajorStrides(whole), starts;
  for (int64_t i = 0; i < windows.count(); ++i) {
    int64_t from_at = windows.Locate(i, starts);
    if (auto at = PlaceInside(starts, whole, sizes, strides)) TRY(updates.Apply(*at, from_at));
  }
  return {};
}

}  // namespace

// Windows are taken in row-major order of the indices; a window that does not lie within the
// operand as a whole is dropped.
Result<Literal> EvaluateScatter(EvalContext& context, const Instruction& instruction,
                                std::span<Literal> operands) {
  const ScatterAttrs& a = instruction.attrs<ScatterAttrs>();
  size_t count = operands.size() / 2;
  std::span<Literal> into = operands.first(count), updates = operands.subspan(count + 1);
  for (size_t k = 0; k < count; ++k) {
    const Shape& shape = count == 1 ? instruction.shape()
                                    : instruction.shape().tuple_element(static_cast<int64_t>(k));
    into[k] = TRY(ConvertedTo(std::move(into[k]), shape.dtype()));
    updates[k] = TRY(ConvertedTo(std::move(updates[k]), shape.dtype()));
  }
  if (updates[0].size() > 0 && into[0].size() > 0) {
    IndexedWindows windows(
        {a.update_window_dims, a.inserted_window_dims, a.scatter_dims_to_operand_dims,
         a.input_batching_dims, a.scatter_indices_batching_dims, a.index_vector_dim},
        into[0].shape(), operands[count], updates[0].shape());
    DType type = into[0].dtype();
    bool wide = SumsWide(*a.to_apply, into);
    if (wide) {
      DType sums = type == DType::kC64 ? DType::kC128 : DType::kF64;
      into[0] = TRY(ConvertedTo(std::move(into[0]), sums));
      updates[0] = TRY(ConvertedTo(std::move(updates[0]), sums));
    }
    TRY(ScatterWindows({context, *a.to_apply, into, updates}, windows, wide));
    into[0] = TRY(ConvertedTo(std::move(into[0]), type));
  }
  if (count == 1) return std::move(into[0]);
  std::vector<Literal> results;
  for (Literal& literal : into) results.push_back(std::move(literal));
  return Literal::Tuple(std::move(results));
}

}  // namespace weft::hlo
