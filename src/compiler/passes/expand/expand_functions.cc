// Functions of scalars (of map, reduce and the like) that are more than a formula.
#include <algorithm>
#include <limits>

#include "compiler/passes/expand/expand_ops.h"
#include "compiler/passes/loops/counted_loop.h"
#include "compiler/passes/loops/if_convert.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

bool CallsFunctions(Op op) {
  constexpr Op kOps[] = {Op::kMap,  Op::kReduce,           Op::kReduceWindow, Op::kScatter,
                         Op::kSort, Op::kSelectAndScatter, Op::kScan};
  return std::ranges::find(kOps, op) != std::end(kOps);
}

bool MayRunAlways(const Computation& branch) {
  for (const Instruction* i : branch) {
    if (i->op() == Op::kWhile || hlo::HasSideEffect(i->op())) return false;
  }
  return true;
}

// All branches are computed and one is chosen.
Result<bool> ExpandConditional(Instruction* i) {
  std::vector<Computation*> branches = i->attrs<hlo::ConditionalAttrs>().branches();
  for (const Computation* branch : branches) {
    if (!MayRunAlways(*branch)) return false;
  }
  bool arrays = i->shape().IsTuple()
                    ? std::ranges::all_of(i->shape().elements_of_tuple(), &Shape::IsArray)
                    : i->shape().IsArray();
  if (!arrays) return false;
  std::vector<Instruction*> chosen = TRY(ComputeBranches(i));
  Builder b(*i->parent(), i, i);
  Instruction* value = i->shape().IsTuple() ? TRY(b.Tuple(chosen)) : chosen[0];
  hlo::ReplaceInstruction(i, value);
  return true;
}

// What fed the conditionals alone, such as tuples.
void RemoveLeftovers(Computation& function) {
  std::vector<Instruction*> all = function.Snapshot();
  for (auto i = all.rbegin(); i != all.rend(); ++i) {
    if ((*i)->users().empty() && !(*i)->IsRoot() && !(*i)->IsParameter() &&
        !HasSideEffect((*i)->op())) {
      function.Remove(*i);
    }
  }
}

Result<bool> ExpandConditionalsIn(Computation& function) {
  bool changed = false, again = true;
  while (again) {
    again = false;
    for (Instruction* i : function.Snapshot()) {
      if (i->op() == Op::kConditional && TRY(ExpandConditional(i))) changed = again = true;
    }
  }
  if (changed) RemoveLeftovers(function);
  return changed;
}

Result<Instruction*> Flat(Builder& b, Instruction* value) {
  const int64_t dims[] = {value->shape().elements()};
  return ReshapeTo(b, value, dims);
}

Result<Instruction*> ReadAt(Builder& b, Instruction* flat, Instruction* at) {
  hlo::DynamicSliceAttrs attrs;
  attrs.dynamic_slice_sizes = {1};
  return b.Reshape(TRY(b.Add(Op::kDynamicSlice, {flat, at}, attrs)), {});
}

Result<Instruction*> WriteAt(Builder& b, Instruction* flat, Instruction* value, Instruction* at) {
  value = TRY(b.Convert(value, flat->shape().dtype()));
  const int64_t one[] = {1};
  return b.Add(Op::kDynamicUpdateSlice, {flat, TRY(b.Reshape(value, one)), at});
}

// An argument of the function, in the type that it takes.
Result<Instruction*> Argument(Builder& b, const Computation& function, int64_t k,
                              Instruction* value) {
  return b.Convert(value, function.parameter(k)->shape().dtype());
}

// Element after element.
Result<bool> LoopOverMap(Instruction* map) {
  Computation& function = *map->attrs<hlo::MapAttrs>().to_apply;
  Builder b(*map->parent(), map, map);
  std::vector<Instruction*> init;
  for (Instruction* operand : map->operands()) init.push_back(TRY(Flat(b, operand)));
  const int64_t count = map->shape().elements();
  init.push_back(TRY(b.Fill(Shape(map->shape().dtype(), {count}), 0)));
  std::vector<Instruction*> last = TRY(AddCountedLoop(
      b, count, init,
      [&](Builder& r, Instruction* number,
          std::span<Instruction* const> state) -> Result<std::vector<Instruction*>> {
        std::vector<Instruction*> next(state.begin(), state.end()), arguments;
        for (size_t k = 0; k + 1 < state.size(); ++k) {
          bool scalar = map->operand(static_cast<int64_t>(k))->shape().IsScalar();
          Instruction* at = scalar ? r.ScalarConstant(DType::kS32, 0) : number;
          Instruction* element = TRY(ReadAt(r, state[k], at));
          arguments.push_back(TRY(Argument(r, function, static_cast<int64_t>(k), element)));
        }
        Instruction* value = TRY(CallInline(r, function, arguments))[0];
        next.back() = TRY(WriteAt(r, state.back(), value, number));
        return next;
      }));
  hlo::ReplaceInstruction(map, TRY(ReshapeTo(b, last.back(), map->shape().dims())));
  return true;
}

// Row after row of what is folded, element after element.
Result<bool> LoopOverReduce(Instruction* reduce) {
  const auto attrs = reduce->attrs<hlo::ReduceAttrs>();
  Computation& function = *attrs.to_apply;
  const int64_t arrays = reduce->operand_count() / 2;
  const Dims from = reduce->operand(0)->shape().dims();
  hlo::Ints order;
  Dims kept;
  int64_t rows = 1, length = 1;
  for (int64_t d = 0; d < std::ssize(from); ++d) {
    bool folded = std::ranges::find(attrs.dimensions, d) != attrs.dimensions.end();
    (folded ? length : rows) *= from[static_cast<size_t>(d)];
    if (folded) continue;
    order.push_back(d);
    kept.push_back(from[static_cast<size_t>(d)]);
  }
  for (int64_t d : attrs.dimensions) order.push_back(d);
  Builder b(*reduce->parent(), reduce, reduce);
  std::vector<Instruction*> init;
  for (int64_t k = 0; k < arrays; ++k) {
    init.push_back(TRY(Flat(b, TRY(TransposeTo(b, reduce->operand(k), order)))));
  }
  for (int64_t k = 0; k < arrays; ++k) {
    DType type = function.parameter(k)->shape().dtype();
    Instruction* start = TRY(b.Convert(reduce->operand(arrays + k), type));
    init.push_back(TRY(b.Broadcast(start, Shape(type, {rows}), {})));
  }
  std::vector<Instruction*> last = TRY(AddCountedLoop(
      b, rows * length, init,
      [&](Builder& r, Instruction* number,
          std::span<Instruction* const> state) -> Result<std::vector<Instruction*>> {
        std::vector<Instruction*> next(state.begin(), state.end()), arguments;
        Instruction* size =
            r.ScalarConstant(DType::kS32, static_cast<double>(std::max<int64_t>(length, 1)));
        Instruction* row = TRY(r.Add(Op::kDivide, {number, size}));
        for (int64_t k = 0; k < 2 * arrays; ++k) {
          bool element = k >= arrays;
          Instruction* array = state[static_cast<size_t>(element ? k - arrays : k + arrays)];
          Instruction* value = TRY(ReadAt(r, array, element ? number : row));
          arguments.push_back(TRY(Argument(r, function, k, value)));
        }
        std::vector<Instruction*> made = TRY(CallInline(r, function, arguments));
        for (int64_t k = 0; k < arrays; ++k) {
          Instruction*& to = next[static_cast<size_t>(arrays + k)];
          to = TRY(WriteAt(r, to, made[static_cast<size_t>(k)], row));
        }
        return next;
      }));
  std::vector<Instruction*> results;
  for (int64_t k = 0; k < arrays; ++k) {
    Instruction* value = TRY(ReshapeTo(b, last[static_cast<size_t>(arrays + k)], kept));
    const Shape& declared =
        reduce->shape().IsTuple() ? reduce->shape().tuple_element(k) : reduce->shape();
    results.push_back(TRY(b.Convert(value, declared.dtype())));
  }
  hlo::ReplaceInstruction(reduce, reduce->shape().IsTuple() ? TRY(b.Tuple(results)) : results[0]);
  return true;
}

bool HasLoop(const Computation& function) {
  for (const Instruction* i : function) {
    if (i->op() == Op::kWhile || i->op() == Op::kConditional) return true;
  }
  return false;
}

}  // namespace

Result<bool> ExpandFunctions(Instruction* i) {
  if (!CallsFunctions(i->op())) return false;
  bool changed = false;
  for (Computation* function : i->called_computations()) {
    changed |= TRY(ExpandConditionalsIn(*function));
  }
  bool fits = IsStaticallyShaped(*i) && i->operand_count() > 0 &&
              i->operand(0)->shape().elements() <= std::numeric_limits<int32_t>::max();
  if (i->op() == Op::kMap && fits && HasLoop(*i->attrs<hlo::MapAttrs>().to_apply)) {
    return LoopOverMap(i);
  }
  if (i->op() == Op::kReduce && fits && HasLoop(*i->attrs<hlo::ReduceAttrs>().to_apply)) {
    return LoopOverReduce(i);
  }
  return changed;
}

}  // namespace weft::compiler
