// Masked stores become point updates: where a loop's state changes at one index only, that element
// (or row) is computed and stored, not the whole array selected anew.
#include <limits>
#include <optional>

#include "compiler/passes.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/loops/loop_state.h"
#include "compiler/passes/rewrite.h"
#include "compiler/passes/simplify/simplify_rules.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Direction;
using hlo::Instruction;
using hlo::Op;

// The iota that an array of the loop's body is, directly or handed through; null: it is another.
const Instruction* IotaBehind(const Loop& loop, const Instruction* i) {
  if (i->op() == Op::kGetTupleElement && i->operand(0) == loop.body_state) {
    int64_t k = i->tuple_index();
    i = loop.IsInvariant(k) ? loop.Init(k) : nullptr;
  }
  return i != nullptr && i->op() == Op::kIota ? i : nullptr;
}

// "At this index of that dimension", as a comparison of coordinates says.
struct Point {
  Instruction* index;  // a scalar
  int64_t dim;
  bool equal;  // the comparison holds there; else it holds everywhere but there
};

std::optional<Point> PointOf(const Loop& loop, const Instruction& compare) {
  if (compare.op() != Op::kCompare) return std::nullopt;
  Direction direction = compare.attrs<hlo::CompareAttrs>().direction;
  if (direction != Direction::kEq && direction != Direction::kNe) return std::nullopt;
  for (int64_t k : {0, 1}) {
    const Instruction* iota = IotaBehind(loop, compare.operand(k));
    Instruction* index = FillScalar(*compare.operand(1 - k));
    if (iota == nullptr || index == nullptr) continue;
    DType dtype = iota->shape().dtype();
    int64_t dim = iota->attrs<hlo::IotaAttrs>().iota_dimension;
    // Narrower numbers may wrap, and stand for several indices.
    bool wide = dtype == DType::kS32 || dtype == DType::kS64 || dtype == DType::kU32;
    if (!wide || iota->shape().dim(dim) > std::numeric_limits<int32_t>::max()) continue;
    return Point{index, dim, direction == Direction::kEq};
  }
  return std::nullopt;
}

// Values at a point: slabs of arrays.
class Slab {
 public:
  Slab(Builder& b, const Shape& whole, const Point& point)
      : b_(b), dims_(whole.dims()), point_(point) {
    dims_[static_cast<size_t>(point.dim)] = 1;
    DType dtype = point.index->shape().dtype();
    Instruction* zero = nullptr;
    for (int64_t d = 0; d < whole.rank(); ++d) {
      if (d != point.dim && zero == nullptr) zero = b.ScalarConstant(dtype, 0);
      start_.push_back(d == point.dim ? point.index : zero);
    }
  }

  Result<Instruction*> ReadFrom(Instruction* array) {
    std::vector<Instruction*> operands = {array};
    operands.insert(operands.end(), start_.begin(), start_.end());
    return b_.Add(Op::kDynamicSlice, operands,
                  hlo::DynamicSliceAttrs{.dynamic_slice_sizes = {dims_.begin(), dims_.end()}});
  }

  // Computed from slabs of what it is computed from, where nobody else reads that.
  Result<Instruction*> Compute(Instruction* i, int depth) {
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

  // Whether the index is one of the array: updates clamp theirs, a comparison just never holds.
  Result<Instruction*> IsInside(int64_t size) {
    DType dtype = point_.index->shape().dtype();
    Instruction* inside = TRY(b_.Compare(
        point_.index, b_.ScalarConstant(dtype, static_cast<double>(size)), Direction::kLt));
    if (!IsUnsigned(dtype)) {
      Instruction* zero = b_.ScalarConstant(dtype, 0);
      Instruction* from = TRY(b_.Compare(point_.index, zero, Direction::kGe));
      inside = TRY(b_.Add(Op::kAnd, {from, inside}));
    }
    return b_.Broadcast(inside, Shape(DType::kPred, dims_), {});
  }

 private:
  Builder& b_;
  Dims dims_;
  const Point& point_;
  std::vector<Instruction*> start_;
};

bool IsState(const Loop& loop, const Instruction& i, int64_t k) {
  return i.op() == Op::kGetTupleElement && i.operand(0) == loop.body_state && i.tuple_index() == k;
}

// next = select(coordinates = index, value, state), or the state plus such a predicate.
Result<bool> RecognizePointUpdate(const Loop& loop, int64_t k, int64_t register_bytes) {
  Instruction* next = loop.Next(k);
  bool selects = next->op() == Op::kSelect, counts = next->op() == Op::kAdd;
  if (!(selects || counts) || !IsStaticArray(*next) || next->shape().rank() == 0) return false;
  if (HasControlDependencies(*next)) return false;
  Instruction *mask = nullptr, *state = nullptr, *value = nullptr;
  if (counts) {  // one_hot: -0 + 0 is another zero, so integers alone
    for (int64_t s : {0, 1}) {
      Instruction* convert = next->operand(1 - s);
      if (!IsState(loop, *next->operand(s), k) || convert->op() != Op::kConvert) continue;
      state = next->operand(s), mask = convert->operand(0);
    }
    if (state == nullptr || !IsInteger(next->shape().dtype())) return false;
  } else {
    mask = next->operand(0);
  }
  if (mask->shape().dtype() != DType::kPred || !mask->shape().IsArray()) return false;
  std::optional<Point> point = PointOf(loop, *mask);
  if (!point || (counts && !point->equal)) return false;
  if (selects) {
    state = next->operand(point->equal ? 2 : 1), value = next->operand(point->equal ? 1 : 2);
    if (!IsState(loop, *state, k)) return false;
  }
  // What fits a few registers stays in them.
  if (next->shape().ByteSize() <= register_bytes) return false;
  Builder b(*next->parent(), next, next);
  Slab slab(b, next->shape(), *point);
  Instruction* old = TRY(slab.ReadFrom(state));
  Instruction* fresh = nullptr;
  if (counts) {
    fresh = TRY(b.Add(Op::kAdd, {old, TRY(b.Fill(old->shape(), 1))}));
  } else {
    fresh = TRY(slab.Compute(value, 8));
  }
  Instruction* inside = TRY(slab.IsInside(next->shape().dim(point->dim)));
  Instruction* chosen = TRY(b.Add(Op::kSelect, {inside, fresh, old}));
  ReplaceWithValue(next, TRY(slab.WriteTo(state, chosen)));
  return true;
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
        changed |= TRY(RecognizePointUpdate(*loop, k, register_bytes));
      }
    }
  }
  return changed;
}

}  // namespace weft::compiler
