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

Scope Maker::NewScope(const Scope& outer, std::string_view name) {
  Scope scope;
  scope.computation = module_.AddComputation(module_.UniqueName(name), outer.computation);
  scope.depth = outer.depth + 1;
  scope.uniform = outer.uniform;
  return scope;
}

std::vector<Value> Maker::Several(Scope& scope, int64_t count) {
  std::vector<Value> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(Any(scope));
  return values;
}

// What holds for loop state in every round: exact; in finite modules whole and small, too.
bool Maker::MayBeState(const Value& v) const {
  if (!v.known.exact() || !v.shape().IsArray()) return false;
  if (!IsFloat(v.dtype()) && !IsComplex(v.dtype())) return true;
  if (edges_) return !v.known.product;
  return v.known.whole && v.known.magnitude <= std::min(state_bound_, LargestExact(v.dtype()));
}

// A value of the k-th state's shape for the next round.
Value Maker::NextState(Scope& body, const std::vector<Value>& state, size_t k,
                       const Value& counter) {
  const Value& now = state[k];
  Builder b = body.builder();
  auto same_shape = [&](const Value& v) {
    return v.at != now.at && v.dtype() == now.dtype() && v.shape().dims() == now.shape().dims();
  };
  int64_t choice = dice_.Below(100);
  if (choice < 10) return now;
  if (choice < 25) {  // another one's: swapped or twice
    for (const Value& v : state) {
      if (same_shape(v)) return v;
    }
  }
  if (choice < 50 && now.shape().rank() > 0 && now.shape().elements() > 0) {  // a row, in place
    Dims dims = now.shape().dims();
    dims[0] = 1;
    Value row = Like(body, now.dtype(), dims, true);
    if (MayBeState(row)) {
      std::vector<Instruction*> operands = {now.at, row.at, counter.at};
      for (int64_t d = 1; d < now.shape().rank(); ++d) {
        operands.push_back(b.ScalarConstant(counter.dtype(), 0));
      }
      auto made = b.Add(Op::kDynamicUpdateSlice, operands, NoAttrs{});
      if (made) return {*made, Union(now.known, row.known)};
    }
  }
  auto found = Find(body, [&](const Value& v) { return same_shape(v) && v.known.exact(); });
  if (found) {
    Value next = *found;
    if (!edges_ && next.known.whole)
      next = Bound(body, next, std::min(state_bound_, LargestExact(now.dtype())));
    if (MayBeState(next)) return next;
  }
  if (choice < 75 && now.dtype() != DType::kPred && !IsUnsigned(now.dtype())) {
    auto made = b.Add(Op::kNegate, {now.at});
    if (made) return {*made, now.known};
  }
  return now;
}

void Maker::WhileAny(Scope& scope) {
  if (scope.depth >= 3) return;
  std::vector<Value> init;
  constexpr DType kCounters[] = {DType::kS32, DType::kS32, DType::kS64, DType::kU8, DType::kF32};
  DType count_type = dice_.Of(kCounters);
  Value start = Scalar(scope, count_type, static_cast<double>(dice_.Between(0, 2)));
  init.push_back(start);
  for (int64_t n = dice_.Between(0, 4); n > 0; --n) {
    auto v =
        Find(scope, [&](const Value& x) { return MayBeState(x) && x.shape().elements() < 1500; });
    if (v && dice_.Chance(80)) {
      init.push_back(*v);
    } else {
      Value fresh = Fresh(scope, AnyType(), AnyDims(600));
      if (!MayBeState(fresh)) fresh = NewConstant(scope, fresh.shape());
      init.push_back(fresh);
    }
    if (dice_.Chance(30)) init.push_back(init.back());
  }
  bool dynamic_end = false;
  bool dynamic = dice_.Chance(30) && count_type != DType::kF32;
  if (dynamic) init.push_back(Like(scope, count_type, Dims(), true));
  bool nested = dice_.Chance(15);  // all but the counter in a tuple of their own
  std::vector<Instruction*> leaves;
  for (const Value& v : init) leaves.push_back(v.at);
  auto tuple = StateTuple(scope.builder(), leaves, nested);
  if (!tuple) return;
  auto leaf = [&](Builder b, Instruction* from, size_t k) {
    auto n = static_cast<int64_t>(k);
    if (!nested || k == 0) return *b.GetTupleElement(from, n);
    return *b.GetTupleElement(*b.GetTupleElement(from, 1), n - 1);
  };
  Scope condition = NewScope(scope, "condition");
  Builder c = condition.builder();
  Instruction* p = *c.Parameter(0, (*tuple)->shape());
  Instruction* end = c.ScalarConstant(count_type, static_cast<double>(dice_.Between(0, 7)));
  if (dynamic) {  // at most eight rounds
    Instruction* wanted = leaf(c, p, init.size() - 1);
    end = *c.Add(Op::kMinimum, {wanted, c.ScalarConstant(count_type, 8)});
  }
  Instruction* count = leaf(c, p, 0);
  Direction to = dice_.Chance(80) ? Direction::kLt : Direction::kLe;
  Instruction* more =
      dice_.Chance(80)
          ? *c.Compare(count, end, to)
          : *c.Compare(end, count, to == Direction::kLt ? Direction::kGt : Direction::kGe);
  // Perhaps it ends when a flag says so.
  for (size_t k = 1; k < init.size(); ++k) {
    if (init[k].dtype() != DType::kPred || !init[k].shape().IsScalar()) continue;
    more = *c.Add(Op::kAnd, {more, leaf(c, p, k)});
    dynamic_end = true;
    break;
  }
  condition.computation->set_root(more);
  Scope body = NewScope(scope, "body");
  body.uniform &= !dynamic && !dynamic_end;
  Builder b = body.builder();
  Instruction* q = *b.Parameter(0, (*tuple)->shape());
  std::vector<Value> state;
  for (size_t k = 0; k < init.size(); ++k) {
    state.push_back({leaf(b, q, k), StateFacts(init[k])});
    body.values.push_back(state.back());
  }
  AddOps(body, static_cast<int>(dice_.Between(1, 5)));
  double step = dice_.Chance(80) ? 1 : 2;
  std::vector<Instruction*> next = {
      *b.Add(Op::kAdd, {state[0].at, b.ScalarConstant(count_type, step)})};
  for (size_t k = 1; k < init.size(); ++k) {
    bool fixed = dynamic && k + 1 == init.size();
    next.push_back(fixed ? state[k].at : NextState(body, state, k, state[0]).at);
  }
  body.computation->set_root(*StateTuple(b, next, nested));
  auto loop =
      scope.builder().Add(Op::kWhile, {*tuple},
                          WhileAttrs{.condition = condition.computation, .body = body.computation});
  if (!loop) return;
  for (size_t k = 0; k < init.size(); ++k) {
    Push(scope, leaf(scope.builder(), *loop, k), StateFacts(init[k]));
  }
}

void Maker::ConditionalAny(Scope& scope) {
  if (scope.depth >= 3) return;
  bool by_index = dice_.Chance(50);
  Value selector = Like(scope, by_index ? DType::kS32 : DType::kPred, Dims(), true);
  int64_t branches = by_index ? dice_.Between(1, 4) : 2;
  std::vector<Instruction*> operands = {selector.at};
  std::vector<Computation*> computations;
  std::vector<Shape> wanted;
  std::vector<Known> known;
  for (int64_t k = 0; k < branches; ++k) {
    std::vector<Value> given = Several(scope, dice_.Between(0, 4));
    std::vector<Instruction*> leaves;
    for (const Value& v : given) leaves.push_back(v.at);
    auto tuple = scope.builder().Tuple(leaves);
    if (!tuple) return;
    bool alone = given.size() == 1 && dice_.Chance(50);
    operands.push_back(alone ? leaves[0] : *tuple);
    Scope branch = NewScope(scope, "branch");
    branch.uniform = false;
    Builder b = branch.builder();
    Instruction* p = *b.Parameter(0, operands.back()->shape());
    for (size_t i = 0; i < given.size(); ++i) {
      Instruction* leaf = alone ? p : *b.GetTupleElement(p, static_cast<int64_t>(i));
      branch.values.push_back({leaf, given[i].known});
    }
    AddOps(branch, static_cast<int>(dice_.Between(0, 4)));
    if (branch.values.empty()) Any(branch);
    std::vector<Instruction*> results;
    int64_t count = k == 0 ? dice_.Between(1, 3) : static_cast<int64_t>(wanted.size());
    for (int64_t i = 0; i < count; ++i) {
      Value v = k == 0 ? Any(branch)
                       : Like(branch, wanted[static_cast<size_t>(i)].dtype(),
                              wanted[static_cast<size_t>(i)].dims(), false);
      results.push_back(v.at);
      if (k == 0) {
        wanted.push_back(v.shape());
        known.push_back(v.known);
      } else {
        known[static_cast<size_t>(i)] = Union(known[static_cast<size_t>(i)], v.known);
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
    Push(scope, scope.builder().GetTupleElement(*made, static_cast<int64_t>(i)), known[i]);
  }
}

void Maker::CallAny(Scope& scope) {
  if (scope.depth >= 3) return;
  std::vector<Value> given = Several(scope, dice_.Between(1, 3));
  Scope inner = NewScope(scope, "callee");
  std::vector<Instruction*> operands;
  for (const Value& v : given) {
    Instruction* p = *inner.builder().Parameter(static_cast<int64_t>(operands.size()), v.shape());
    operands.push_back(v.at);
    inner.values.push_back({p, v.known});
  }
  AddOps(inner, static_cast<int>(dice_.Between(1, 4)));
  Value result = inner.values.back();
  inner.computation->set_root(result.at);
  Push(scope, scope.builder().Call(inner.computation, operands), result.known);
}

void Maker::MapAny(Scope& scope) {
  Value x = Exact(scope);
  Scope inner = NewScope(scope, "mapped");
  inner.depth = 3;
  Instruction* p = *inner.builder().Parameter(0, Shape::Scalar(x.dtype()));
  inner.values.push_back({p, x.known});
  for (int64_t n = dice_.Between(1, 3); n > 0; --n) {
    if (dice_.Chance(50)) {
      Unary(inner);
    } else {
      Binary(inner);
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
  Push(scope, scope.builder().Add(Op::kMap, {x.at}, attrs), result.known);
}

// The sums, largest or least elements up to each place.
void Maker::ScanAny(Scope& scope) {
  Value x = AnyOf(scope, 1, 800, false);
  int64_t dim = dice_.Below(x.shape().rank());
  auto length = static_cast<double>(x.shape().dim(dim));
  auto c = AnyCombiner(x, length);
  if (!c) return;
  if (c->op == Op::kAdd) c->init = 0;
  Ints kept;
  Dimensions dims;
  for (int64_t d = 0; d < x.shape().rank(); ++d) {
    if (d != dim) dims.push_back(x.shape().dim(d));
  }
  Shape slice = ArrayShape(x.dtype(), dims);
  Scope inner = NewScope(scope, "step");
  Builder b = inner.builder();
  Instruction* element = *b.Parameter(0, slice);
  Instruction* carry = *b.Parameter(1, slice);
  auto next = b.Add(c->op, {carry, element});
  if (!next) return;
  Instruction* both[] = {*next, *next};
  inner.computation->set_root(*b.Tuple(both));
  auto init = scope.builder().Fill(slice, c->init);
  if (!init) return;
  ScanAttrs attrs{.dimensions = {dim}, .num_carries = 1, .is_reverse = dice_.Chance(40)};
  attrs.is_associative = dice_.Chance(50);
  attrs.to_apply = inner.computation;
  auto made = scope.builder().Add(Op::kScan, {x.at, *init}, attrs);
  if (!made) return;
  Known known = Combined(*c, x.known, x.dtype(), length);
  Push(scope, scope.builder().GetTupleElement(*made, 0), known);
  Push(scope, scope.builder().GetTupleElement(*made, 1), known);
}

}  // namespace weft::hlo::random
