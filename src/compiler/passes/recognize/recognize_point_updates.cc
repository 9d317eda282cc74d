// Masked stores become point updates: where a loop's state changes at one index only, that element
// (or row) is computed and stored, not the whole array selected anew.
#include <algorithm>
#include <limits>
#include <optional>

#include "compiler/passes.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/loops/loop_state.h"
#include "compiler/passes/rewrite.h"
#include "compiler/passes/simplify/simplify_rules.h"
#include "program/work_bounds.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Direction;
using hlo::Instruction;
using hlo::Op;

constexpr int64_t kDepth = program::WorkBounds::kTree;  // of masks and values, both operands

// The dimension along which an array of the loop's body counts: an iota, directly or handed
// through.
std::optional<int64_t> CountedDimension(const Loop& loop, const Instruction* i) {
  if (i->op() == Op::kGetTupleElement && i->operand(0) == loop.body_state) {
    int64_t k = i->tuple_index();
    i = loop.IsInvariant(k) ? loop.Init(k) : nullptr;
  }
  if (i == nullptr || i->op() != Op::kIota) return std::nullopt;
  return i->attrs<hlo::IotaAttrs>().iota_dimension;
}

// Where a mask holds: at one index of some dimensions, and there where other masks do.
struct Point {
  struct At {
    int64_t dim;
    Instruction* index;  // a scalar
  };
  std::vector<At> at;
  std::vector<Instruction*> others;
};

// "At this index of that dimension", as a comparison of coordinates says.
std::optional<Point::At> IndexOf(const Loop& loop, const Instruction& compare, Direction says) {
  if (compare.op() == Op::kBroadcast && compare.shape().rank() > 0 &&
      !compare.operand(0)->shape().IsScalar()) {
    std::optional<Point::At> inner = IndexOf(loop, *compare.operand(0), says);
    if (!inner) return std::nullopt;
    inner->dim = compare.attrs<hlo::BroadcastAttrs>().dimensions[static_cast<size_t>(inner->dim)];
    return inner;
  }
  if (compare.op() == Op::kReshape) {
    const Instruction& mask = *compare.operand(0);
    std::optional<Point::At> inner = IndexOf(loop, mask, says);
    if (!inner) return std::nullopt;
    std::optional<int64_t> dim =
        DimAfterReshape(mask.shape().dims(), compare.shape().dims(), inner->dim);
    return dim ? std::optional(Point::At{*dim, inner->index}) : std::nullopt;
  }
  if (compare.op() != Op::kCompare) return std::nullopt;
  if (compare.attrs<hlo::CompareAttrs>().direction != says) return std::nullopt;
  for (int64_t k : {0, 1}) {
    const Shape& counted = compare.operand(k)->shape();
    std::optional<int64_t> dim = CountedDimension(loop, compare.operand(k));
    Instruction* index = FillScalar(*compare.operand(1 - k));
    if (!dim || index == nullptr) continue;
    DType dtype = counted.dtype();
    // Narrower numbers may wrap, and stand for several indices.
    bool wide = dtype == DType::kS32 || dtype == DType::kS64 || dtype == DType::kU32;
    if (!wide || counted.dim(*dim) > std::numeric_limits<int32_t>::max()) continue;
    return Point::At{*dim, index};
  }
  return std::nullopt;
}

// A comparison, or several of which all must hold.
void AddConditions(const Loop& loop, Instruction* mask, int64_t depth, Point& point) {
  if (mask->op() == Op::kAnd && depth > 0) {
    for (Instruction* operand : mask->operands()) AddConditions(loop, operand, depth - 1, point);
    return;
  }
  std::optional<Point::At> at = IndexOf(loop, *mask, Direction::kEq);
  bool adds =
      at && std::none_of(point.at.begin(), point.at.end(), [&](const Point::At& other) {
        return other.dim == at->dim || other.index->shape().dtype() != at->index->shape().dtype();
      });
  if (adds) {
    point.at.push_back(*at);
  } else {
    point.others.push_back(mask);
  }
}

// Values at a point: slabs of arrays.
class Slab {
 public:
  Slab(Builder& b, const Shape& whole, const Point& point)
      : b_(b), whole_(whole.dims()), dims_(whole.dims()), point_(point) {
    start_.resize(dims_.size(), nullptr);
    for (const Point::At& at : point.at) {
      dims_[static_cast<size_t>(at.dim)] = 1;
      start_[static_cast<size_t>(at.dim)] = at.index;
    }
    Instruction* zero = nullptr;
    for (Instruction*& start : start_) {
      if (start != nullptr) continue;
      if (zero == nullptr) zero = b.ScalarConstant(point.at[0].index->shape().dtype(), 0);
      start = zero;
    }
  }

  Result<Instruction*> ReadFrom(Instruction* array) {
    std::vector<Instruction*> operands = {array};
    operands.insert(operands.end(), start_.begin(), start_.end());
    return b_.Add(Op::kDynamicSlice, operands,
                  hlo::DynamicSliceAttrs{.dynamic_slice_sizes = {dims_.begin(), dims_.end()}});
  }

  // Computed from slabs of what it is computed from, where nobody else reads that.
  Result<Instruction*> Compute(Instruction* i, int64_t depth) {
    Shape shape(i->shape().dtype(), dims_);
    if (Instruction* scalar = FillScalar(*i)) return b_.Broadcast(scalar, shape, {});
    bool inlined = depth > 0 && hlo::IsElementwise(i->op()) && i->operand_count() > 0 &&
                   IsReadOnce(*i) && IsStaticallyShaped(*i) && !HasControlDependencies(*i);
    for (const Instruction* operand : i->operands()) {
      inlined &= operand->shape().dims() == i->shape().dims();
    }
    if (!inlined) return ReadFrom(i);
    std::vector<Instruction*> operands;
    for (Instruction* operand : i->operands()) {
      operands.push_back(TRY(Compute(operand, depth - 1)));
    }
    return b_.Add(i->op(), operands, i->attrs(), &shape);
  }

  Result<Instruction*> WriteTo(Instruction* array, Instruction* value) {
    std::vector<Instruction*> operands = {array, value};
    operands.insert(operands.end(), start_.begin(), start_.end());
    return b_.Add(Op::kDynamicUpdateSlice, operands,
                  hlo::Attrs(hlo::GetOp(Op::kDynamicUpdateSlice).attrs));
  }

  // Whether the indices are those of the array (updates clamp theirs, a comparison just never
  // holds) and the other masks hold there.
  Result<Instruction*> Holds() {
    Instruction* holds = nullptr;
    auto with = [&](Instruction* also) -> Status {
      holds = holds == nullptr ? also : TRY(b_.Add(Op::kAnd, {holds, also}));
      return {};
    };
    for (const Point::At& at : point_.at) {
      DType dtype = at.index->shape().dtype();
      double size = static_cast<double>(whole_[static_cast<size_t>(at.dim)]);
      if (!IsUnsigned(dtype)) {
        TRY(with(TRY(b_.Compare(at.index, b_.ScalarConstant(dtype, 0), Direction::kGe))));
      }
      TRY(with(TRY(b_.Compare(at.index, b_.ScalarConstant(dtype, size), Direction::kLt))));
    }
    holds = TRY(b_.Broadcast(holds, Shape(DType::kPred, dims_), {}));
    for (Instruction* other : point_.others) TRY(with(TRY(Compute(other, kDepth))));
    return holds;
  }

 private:
  Builder& b_;
  Dims whole_, dims_;
  const Point& point_;
  std::vector<Instruction*> start_;
};

bool IsState(const Loop& loop, const Instruction& i, int64_t k) {
  return i.op() == Op::kGetTupleElement && i.operand(0) == loop.body_state && i.tuple_index() == k;
}

// An array that is as it was but at a point, where it is the value, or one more (null).
struct MaskedStore {
  Instruction *array, *value;
  Point point;
};

std::optional<MaskedStore> MaskedStoreOf(const Loop& loop, Instruction& i) {
  if (!IsStaticArray(i) || i.shape().rank() == 0 || HasControlDependencies(i)) return std::nullopt;
  if (i.op() == Op::kAdd && IsInteger(i.shape().dtype())) {
    // one_hot: -0 + 0 is another zero, so integers alone
    for (int64_t s : {0, 1}) {
      const Instruction& convert = *i.operand(1 - s);
      if (convert.op() != Op::kConvert || convert.operand(0)->shape().dtype() != DType::kPred) {
        continue;
      }
      MaskedStore store{i.operand(s), nullptr, {}};
      AddConditions(loop, convert.operand(0), kDepth, store.point);
      if (!store.point.at.empty()) return store;
    }
    return std::nullopt;
  }
  if (i.op() != Op::kSelect || !i.operand(0)->shape().IsArray()) return std::nullopt;
  if (std::optional<Point::At> at = IndexOf(loop, *i.operand(0), Direction::kNe)) {
    return MaskedStore{i.operand(1), i.operand(2), {{*at}, {}}};
  }
  MaskedStore store{i.operand(2), i.operand(1), {}};
  AddConditions(loop, i.operand(0), kDepth, store.point);
  return store.point.at.empty() ? std::nullopt : std::optional(store);
}

Result<Instruction*> UpdateOf(const MaskedStore& store, Instruction* masked) {
  Builder b(*masked->parent(), masked, masked);
  Slab slab(b, masked->shape(), store.point);
  Instruction* old = TRY(slab.ReadFrom(store.array));
  Instruction* fresh = nullptr;
  if (store.value == nullptr) {
    fresh = TRY(b.Add(Op::kAdd, {old, TRY(b.Fill(old->shape(), 1))}));
  } else {
    fresh = TRY(slab.Compute(store.value, kDepth));
  }
  Instruction* holds = TRY(slab.Holds());
  return slab.WriteTo(store.array, TRY(b.Add(Op::kSelect, {holds, fresh, old})));
}

// The state after an iteration is the state before with some updates, of which masked stores become
// points: select(coordinates = index, value, state), or the state plus such a predicate.
Result<bool> RecognizeUpdates(const Loop& loop, int64_t k, int64_t register_bytes) {
  // What fits a few registers stays in them.
  if (!IsStaticArray(*loop.Next(k)) || loop.Next(k)->shape().ByteSize() <= register_bytes) {
    return false;
  }
  std::vector<Instruction*> masked;
  Instruction* i = loop.Next(k);
  for (int64_t steps = 0; !IsState(loop, *i, k); ++steps) {
    if (steps == program::WorkBounds::kPath) return false;
    if (i->op() == Op::kDynamicUpdateSlice || i->op() == Op::kScatter) {
      i = i->operand(0);
    } else if (std::optional<MaskedStore> store = MaskedStoreOf(loop, *i)) {
      masked.push_back(i);
      i = store->array;
    } else {
      return false;
    }
  }
  for (auto it = masked.rbegin(); it != masked.rend(); ++it) {
    std::optional<MaskedStore> store = MaskedStoreOf(loop, **it);
    CHECK(store);
    ReplaceWithValue(*it, TRY(UpdateOf(*store, *it)));
  }
  return !masked.empty();
}

}  // namespace

Result<bool> RecognizePointUpdates(hlo::Module& module, const PassContext& context) {
  // A masked store of so many registers is as cheap as one element's.
  int64_t register_bytes = context.target.VectorsAtOnce() * context.target.vector_bits / 8;
  bool changed = false;
  for (const auto& computation : module.computations()) {
    for (Instruction* i : computation->Snapshot()) {
      if (i->op() != Op::kWhile) continue;
      std::optional<Loop> loop = FindLoop(i);
      if (!loop || loop->body->root()->op() != Op::kTuple) continue;
      for (int64_t k = 0; k < loop->size(); ++k) {
        changed |= TRY(RecognizeUpdates(*loop, k, register_bytes));
      }
    }
  }
  return changed;
}

}  // namespace weft::compiler
