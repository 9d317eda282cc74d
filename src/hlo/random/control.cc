// Random loops, branches and calls.
#include <algorithm>
#include <cmath>

#include "hlo/computation.h"
#include "hlo/random/maker.h"

namespace weft::hlo::random {
namespace {

// The leaves in one tuple, or the first beside a tuple of the others.
Result<Instruction*> StateTuple(Builder b, std::span<Instruction* const> leaves, bool nested) {
  if (!nested) return b.Tuple(leaves);
  Instruction* both[] = {leaves[0], TRY(b.Tuple(leaves.subspan(1)))};
  return b.Tuple(both);
}

}  // namespace

Scope NewScope(Maker& maker, const Scope& outer, std::string_view name) {
  Scope scope;
  scope.computation = maker.module.AddComputation(maker.module.UniqueName(name), outer.computation);
  scope.depth = outer.depth + 1;
  scope.uniform = outer.uniform;
  return scope;
}

std::vector<Value> Several(Maker& maker, Scope& scope, int64_t count) {
  std::vector<Value> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(maker.Any(scope));
  return values;
}

// What holds for loop state in every round: exact; in finite modules whole and small, too.
bool MayBeState(const Maker& maker, const Value& v) {
  if (!v.known.exact() || !v.shape().IsArray()) return false;
  if (!IsFloat(v.dtype()) && !IsComplex(v.dtype())) return true;
  if (maker.edges) return !v.known.product;
  return v.known.whole && v.known.magnitude <= std::min(maker.state_bound, LargestExact(v.dtype()));
}

// A value of the k-th state's shape for the next round.
Value NextState(Maker& maker, Scope& body, const std::vector<Value>& state, size_t k,
                const Value& counter) {
  const Value& now = state[k];
  Builder b = body.builder();
  auto same_shape = [&](const Value& v) {
    return v.at != now.at && v.dtype() == now.dtype() && v.shape().dims() == now.shape().dims();
  };
  int64_t choice = maker.dice.Below(100);
  if (choice < 10) return now;
  if (choice < 25) {  // another one's: swapped or twice
    for (const Value& v : state) {
      if (same_shape(v)) return v;
    }
  }
  if (choice < 50 && now.shape().rank() > 0 && now.shape().elements() > 0) {  // a row, in place
    Dims dims = now.shape().dims();
    dims[0] = 1;
    Value row = maker.Like(body, now.dtype(), dims, true);
    if (MayBeState(maker, row)) {
      std::vector<Instruction*> operands = {now.at, row.at, counter.at};
      for (int64_t d = 1; d < now.shape().rank(); ++d) {
        operands.push_back(b.ScalarConstant(counter.dtype(), 0));
      }
      auto made = b.Add(Op::kDynamicUpdateSlice, operands, NoAttrs{});
      if (made) return {*made, maker.Union(now.known, row.known)};
    }
  }
  auto found = maker.Find(body, [&](const Value& v) { return same_shape(v) && v.known.exact(); });
  if (found) {
    Value next = *found;
    if (!maker.edges && next.known.whole)
      next = maker.Bound(body, next, std::min(maker.state_bound, LargestExact(now.dtype())));
    if (MayBeState(maker, next)) return next;
  }
  if (choice < 75 && now.dtype() != DType::kPred && !IsUnsigned(now.dtype())) {
    auto made = b.Add(Op::kNegate, {now.at});
    if (made) return {*made, now.known};
  }
  return now;
}

// Leaf k of a loop's state; `nested`: all but the counter in a tuple of their own.
Instruction* StateLeaf(Builder b, Instruction* from, size_t k, bool nested) {
  auto n = static_cast<int64_t>(k);
  if (!nested || k == 0) return *b.GetTupleElement(from, n);
  return *b.GetTupleElement(*b.GetTupleElement(from, 1), n - 1);
}

void AddInitialState(Maker& maker, Scope& scope, std::vector<Value>& init) {
  for (int64_t n = maker.dice.Between(0, 4); n > 0; --n) {
    auto v = maker.Find(
        scope, [&](const Value& x) { return MayBeState(maker, x) && x.shape().elements() < 1500; });
    if (v && maker.dice.Chance(80)) {
      init.push_back(*v);
    } else {
      Value fresh = maker.Fresh(scope, maker.AnyType(), maker.AnyDims(600));
      if (!MayBeState(maker, fresh)) fresh = maker.NewConstant(scope, fresh.shape());
      init.push_back(fresh);
    }
    if (maker.dice.Chance(30)) init.push_back(init.back());
  }
}

// Counts up to an end, at most eight rounds where `dynamic`; perhaps it ends when a flag says so.
LoopEnd MakeLoopEnd(Maker& maker, const Scope& scope, const Shape& state,
                    std::span<const Value> init, bool dynamic, bool nested) {
  DType count_type = init[0].dtype();
  bool by_flag = false;
  Scope condition = NewScope(maker, scope, "condition");
  Builder c = condition.builder();
  Instruction* p = *c.Parameter(0, state);
  Instruction* end = c.ScalarConstant(count_type, static_cast<double>(maker.dice.Between(0, 7)));
  if (dynamic) {
    Instruction* wanted = StateLeaf(c, p, init.size() - 1, nested);
    end = *c.Add(Op::kMinimum, {wanted, c.ScalarConstant(count_type, 8)});
  }
  Instruction* count = StateLeaf(c, p, 0, nested);
  Direction to = maker.dice.Chance(80) ? Direction::kLt : Direction::kLe;
  Instruction* more =
      maker.dice.Chance(80)
          ? *c.Compare(count, end, to)
          : *c.Compare(end, count, to == Direction::kLt ? Direction::kGt : Direction::kGe);
  for (size_t k = 1; k < init.size(); ++k) {
    if (init[k].dtype() != DType::kPred || !init[k].shape().IsScalar()) continue;
    more = *c.Add(Op::kAnd, {more, StateLeaf(c, p, k, nested)});
    by_flag = true;
    break;
  }
  condition.computation->set_root(more);
  return {condition.computation, by_flag};
}

void WhileAny(Maker& maker, Scope& scope) {
  if (scope.depth >= 3) return;
  std::vector<Value> init;
  constexpr DType kCounters[] = {DType::kS32, DType::kS32, DType::kS64, DType::kU8, DType::kF32};
  DType count_type = maker.dice.Of(kCounters);
  Value start = maker.Scalar(scope, count_type, static_cast<double>(maker.dice.Between(0, 2)));
  init.push_back(start);
  AddInitialState(maker, scope, init);
  bool dynamic = maker.dice.Chance(30) && count_type != DType::kF32;
  if (dynamic) init.push_back(maker.Like(scope, count_type, Dims(), true));
  bool nested = maker.dice.Chance(15);  // all but the counter in a tuple of their own
  std::vector<Instruction*> leaves;
  for (const Value& v : init) leaves.push_back(v.at);
  auto tuple = StateTuple(scope.builder(), leaves, nested);
  if (!tuple) return;
  LoopEnd end = MakeLoopEnd(maker, scope, (*tuple)->shape(), init, dynamic, nested);
  Scope body = NewScope(maker, scope, "body");
  body.uniform &= !dynamic && !end.by_flag;
  Builder b = body.builder();
  Instruction* q = *b.Parameter(0, (*tuple)->shape());
  std::vector<Value> state;
  for (size_t k = 0; k < init.size(); ++k) {
    state.push_back({StateLeaf(b, q, k, nested), StateFacts(maker, init[k])});
    body.values.push_back(state.back());
  }
  AddOps(maker, body, static_cast<int>(maker.dice.Between(1, 5)));
  double step = maker.dice.Chance(80) ? 1 : 2;
  std::vector<Instruction*> next = {
      *b.Add(Op::kAdd, {state[0].at, b.ScalarConstant(count_type, step)})};
  for (size_t k = 1; k < init.size(); ++k) {
    bool fixed = dynamic && k + 1 == init.size();
    next.push_back(fixed ? state[k].at : NextState(maker, body, state, k, state[0]).at);
  }
  body.computation->set_root(*StateTuple(b, next, nested));
  auto loop = scope.builder().Add(Op::kWhile, {*tuple},
                                  WhileAttrs{.condition = end.condition, .body = body.computation});
  if (!loop) return;
  for (size_t k = 0; k < init.size(); ++k) {
    maker.Push(scope, StateLeaf(scope.builder(), *loop, k, nested), StateFacts(maker, init[k]));
  }
}

void ConditionalAny(Maker& maker, Scope& scope) {
  if (scope.depth >= 3) return;
  bool by_index = maker.dice.Chance(50);
  Value selector = maker.Like(scope, by_index ? DType::kS32 : DType::kPred, Dims(), true);
  int64_t branches = by_index ? maker.dice.Between(1, 4) : 2;
  std::vector<Instruction*> operands = {selector.at};
  std::vector<Computation*> computations;
  std::vector<Shape> wanted;
  std::vector<Known> known;
  for (int64_t k = 0; k < branches; ++k) {
    std::vector<Value> given = Several(maker, scope, maker.dice.Between(0, 4));
    std::vector<Instruction*> leaves;
    for (const Value& v : given) leaves.push_back(v.at);
    auto tuple = scope.builder().Tuple(leaves);
    if (!tuple) return;
    bool alone = given.size() == 1 && maker.dice.Chance(50);
    operands.push_back(alone ? leaves[0] : *tuple);
    Scope branch = NewScope(maker, scope, "branch");
    branch.uniform = false;
    Builder b = branch.builder();
    Instruction* p = *b.Parameter(0, operands.back()->shape());
    for (size_t i = 0; i < given.size(); ++i) {
      Instruction* leaf = alone ? p : *b.GetTupleElement(p, static_cast<int64_t>(i));
      branch.values.push_back({leaf, given[i].known});
    }
    AddOps(maker, branch, static_cast<int>(maker.dice.Between(0, 4)));
    if (branch.values.empty()) maker.Any(branch);
    std::vector<Instruction*> results;
    int64_t count = k == 0 ? maker.dice.Between(1, 3) : static_cast<int64_t>(wanted.size());
    for (int64_t i = 0; i < count; ++i) {
      Value v = k == 0 ? maker.Any(branch)
                       : maker.Like(branch, wanted[static_cast<size_t>(i)].dtype(),
                                    wanted[static_cast<size_t>(i)].dims(), false);
      results.push_back(v.at);
      if (k == 0) {
        wanted.push_back(v.shape());
        known.push_back(v.known);
      } else {
        known[static_cast<size_t>(i)] = maker.Union(known[static_cast<size_t>(i)], v.known);
      }
    }
    branch.computation->set_root(*b.Tuple(results));
    computations.push_back(branch.computation);
  }
  ConditionalAttrs attrs;
  if (by_index) {
    attrs.branch_computations = computations;
  } else {
    attrs.true_computation = computations[0];
    attrs.false_computation = computations[1];
  }
  auto made = scope.builder().Add(Op::kConditional, operands, attrs);
  if (!made) return;
  for (size_t i = 0; i < wanted.size(); ++i) {
    maker.Push(scope, scope.builder().GetTupleElement(*made, static_cast<int64_t>(i)), known[i]);
  }
}

void CallAny(Maker& maker, Scope& scope) {
  if (scope.depth >= 3) return;
  std::vector<Value> given = Several(maker, scope, maker.dice.Between(1, 3));
  Scope inner = NewScope(maker, scope, "callee");
  std::vector<Instruction*> operands;
  for (const Value& v : given) {
    Instruction* p = *inner.builder().Parameter(static_cast<int64_t>(operands.size()), v.shape());
    operands.push_back(v.at);
    inner.values.push_back({p, v.known});
  }
  AddOps(maker, inner, static_cast<int>(maker.dice.Between(1, 4)));
  Value result = inner.values.back();
  inner.computation->set_root(result.at);
  maker.Push(scope, scope.builder().Call(inner.computation, operands), result.known);
}

void MapAny(Maker& maker, Scope& scope) {
  Value x = maker.Exact(scope);
  Scope inner = NewScope(maker, scope, "mapped");
  inner.depth = 3;
  Instruction* p = *inner.builder().Parameter(0, Shape::Scalar(x.dtype()));
  inner.values.push_back({p, x.known});
  for (int64_t n = maker.dice.Between(1, 3); n > 0; --n) {
    if (maker.dice.Chance(50)) {
      Unary(maker, inner);
    } else {
      Binary(maker, inner);
    }
  }
  Value result = inner.values.back();
  for (const Instruction* i : *inner.computation) {
    if (!i->shape().IsScalar()) return;
  }
  inner.computation->set_root(result.at);
  MapAttrs attrs;
  attrs.to_apply = inner.computation;
  for (int64_t d = 0; d < x.shape().rank(); ++d) attrs.dimensions.push_back(d);
  maker.Push(scope, scope.builder().Add(Op::kMap, {x.at}, attrs), result.known);
}

// The sums, largest or least elements up to each place.
void ScanAny(Maker& maker, Scope& scope) {
  Value x = maker.AnyOf(scope, 1, 800, false);
  int64_t dim = maker.dice.Below(x.shape().rank());
  auto length = static_cast<double>(x.shape().dim(dim));
  auto c = AnyCombiner(maker, x, length);
  if (!c) return;
  if (c->op == Op::kAdd) c->init = 0;
  Ints kept;
  Dimensions dims;
  for (int64_t d = 0; d < x.shape().rank(); ++d) {
    if (d != dim) dims.push_back(x.shape().dim(d));
  }
  Shape slice = ArrayShape(x.dtype(), dims);
  Scope inner = NewScope(maker, scope, "step");
  Builder b = inner.builder();
  Instruction* element = *b.Parameter(0, slice);
  Instruction* carry = *b.Parameter(1, slice);
  auto next = b.Add(c->op, {carry, element});
  if (!next) return;
  Instruction* both[] = {*next, *next};
  inner.computation->set_root(*b.Tuple(both));
  auto init = scope.builder().Fill(slice, c->init);
  if (!init) return;
  ScanAttrs attrs{.dimensions = {dim}, .num_carries = 1, .is_reverse = maker.dice.Chance(40)};
  attrs.is_associative = maker.dice.Chance(50);
  attrs.to_apply = inner.computation;
  auto made = scope.builder().Add(Op::kScan, {x.at, *init}, attrs);
  if (!made) return;
  Known known = Combined(maker, *c, x.known, x.dtype(), length);
  maker.Push(scope, scope.builder().GetTupleElement(*made, 0), known);
  maker.Push(scope, scope.builder().GetTupleElement(*made, 1), known);
}

}  // namespace weft::hlo::random
