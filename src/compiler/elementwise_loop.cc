#include "compiler/elementwise_loop.h"

#include <algorithm>

#include "compiler/element_cost.h"
#include "compiler/in_place.h"
#include "compiler/passes/effects.h"
#include "compiler/trip_count.h"
#include "hlo/computation.h"

namespace weft::compiler {

using hlo::Instruction;
using hlo::Op;

namespace {

constexpr int64_t kLargeArray = 4096;  // elements; smaller ones stay in the cache between rounds
constexpr int64_t kMaxStates = 12, kMaxInstructions = 200;

// One element of `i` comes from one element of its operands, at the same place, or from anywhere in
// an array that stays as it is.
bool IsByElement(const Instruction& i, const std::vector<bool>& passes, int64_t elements) {
  const Shape& shape = i.shape();
  if (i.IsConstant()) return shape.IsArray() && i.literal().IsValid() && i.literal().size() == 1;
  if (!shape.IsArray() || shape.HasDynamicDims()) return false;
  if (!shape.IsScalar() && shape.elements() != elements) return false;
  bool scalars = std::all_of(i.operands().begin(), i.operands().end(),
                             [](const Instruction* o) { return o->shape().IsScalar(); });
  if (shape.IsScalar() && !scalars) return false;
  if (hlo::IsElementwise(i.op())) return i.op() != Op::kStochasticConvert;
  switch (i.op()) {
    case Op::kBroadcast: {
      // Of a scalar, or with dimensions of size 1 added.
      const auto& dims = i.attrs<hlo::BroadcastAttrs>().dimensions;
      return scalars || (i.operand(0)->shape().elements() == shape.elements() &&
                         std::is_sorted(dims.begin(), dims.end()));
    }
    case Op::kIota:
    case Op::kCopy: return true;
    case Op::kReshape: return i.operand(0)->shape().elements() == shape.elements();
    case Op::kGather: {
      const Instruction& table = *i.operand(0);
      return TakesElements(i) && table.op() == Op::kGetTupleElement &&
             table.operand(0)->IsParameter() && passes[static_cast<size_t>(table.tuple_index())];
    }
    default: return false;
  }
}

}  // namespace

bool IsElementwiseLoop(const Instruction& loop) {
  if (loop.op() != Op::kWhile || !loop.shape().IsTuple() || loop.IsRoot()) return false;
  const hlo::Computation& body = *loop.attrs<hlo::WhileAttrs>().body;
  const auto& shapes = loop.shape().elements_of_tuple();
  if (body.root()->op() != Op::kTuple) return false;
  for (const Shape& shape : shapes) {
    if (!shape.IsArray() || shape.HasDynamicDims()) return false;
  }
  std::vector<bool> passes = PassedThrough(loop);
  const Shape* wide = nullptr;
  int64_t states = 0;
  for (size_t k = 0; k < passes.size(); ++k) {
    if (passes[k] || shapes[k].IsScalar()) continue;
    if (wide != nullptr && wide->dims() != shapes[k].dims()) return false;
    wide = &shapes[k];
    ++states;
  }
  if (wide == nullptr || states > kMaxStates || wide->elements() < kLargeArray) return false;
  for (const Instruction* user : loop.users()) {
    if (user->op() != Op::kGetTupleElement) return false;
    size_t k = static_cast<size_t>(user->tuple_index());
    bool used = user->IsRoot() || !user->users().empty();
    if (!passes[k] && shapes[k].IsScalar() && used) return false;
  }
  int64_t instructions = 0;
  for (const Instruction* i : body) {
    if (++instructions > kMaxInstructions) return false;
    if (i->IsParameter() || i == body.root()) continue;
    if (HasControlDependencies(*i)) return false;
    if (i->op() == Op::kGetTupleElement && i->operand(0)->IsParameter()) {
      // An array of another size is there to be looked up in.
      bool fits = i->shape().IsScalar() || i->shape().elements() == wide->elements();
      bool looked_up = std::all_of(i->users().begin(), i->users().end(), [&](const Instruction* u) {
        return u == body.root() ||
               (u->op() == Op::kGather && u->operand(0) == i && u->operand(1) != i);
      });
      if (!fits && !looked_up) return false;
      continue;
    }
    if (!IsByElement(*i, passes, wide->elements())) return false;
  }
  std::optional<int64_t> trips = TripCount(loop);
  return trips && *trips >= 2;
}

}  // namespace weft::compiler
