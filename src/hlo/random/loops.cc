// Random loops in the form that scans have: rows of some arrays are read at the counter, rows of
// others are written there.
#include <algorithm>

#include "hlo/computation.h"
#include "hlo/random/maker.h"

namespace weft::hlo::random {
namespace {

// [n, dims...] of the rows [dims...].
Shape Stacked(const Shape& row, int64_t n) {
  std::vector<int64_t> dims = {n};
  for (int64_t d : row.dims()) dims.push_back(d);
  return ArrayShape(row.dtype(), dims);
}

// The array, the row where it is updated, then the place of each dimension.
std::vector<Instruction*> At(Builder& b, std::vector<Instruction*> operands, Instruction* place,
                             int64_t rank) {
  operands.push_back(place);
  for (int64_t d = 1; d < rank; ++d)
    operands.push_back(b.ScalarConstant(place->shape().dtype(), 0));
  return operands;
}

Result<Instruction*> RowAt(Builder& b, Instruction* from, Instruction* place) {
  DynamicSliceAttrs attrs;
  std::vector<int64_t> row;
  for (int64_t d = 0; d < from->shape().rank(); ++d) {
    attrs.dynamic_slice_sizes.push_back(d == 0 ? 1 : from->shape().dim(d));
    if (d > 0) row.push_back(from->shape().dim(d));
  }
  Instruction* cut =
      TRY(b.Add(Op::kDynamicSlice, At(b, {from}, place, from->shape().rank()), attrs));
  return b.Reshape(cut, row);
}

Result<Instruction*> WithRow(Builder& b, Instruction* to, Instruction* row, Instruction* place) {
  std::vector<int64_t> dims = {1};
  for (int64_t d : row->shape().dims()) dims.push_back(d);
  Instruction* wide = TRY(b.Reshape(row, dims));
  return b.Add(Op::kDynamicUpdateSlice, At(b, {to, wide}, place, to->shape().rank()), NoAttrs{});
}

}  // namespace

Known StateFacts(const Maker& maker, const Value& v) {
  Known known = maker.Unknown(v.dtype());
  if (maker.edges || !(IsFloat(v.dtype()) || IsComplex(v.dtype()))) return known;
  known.magnitude = std::min(maker.state_bound, LargestExact(v.dtype()));
  known.whole = true;
  return known;
}

// What one round does: a computation of the carries and a row of each input, which gives the next
// carries and a row of each output.
Round MakeRound(Maker& maker, Scope& scope, const std::vector<Value>& carries,
                const std::vector<Value>& inputs) {
  Scope inner = NewScope(maker, scope, "round");
  Builder b = inner.builder();
  Round round;
  std::vector<Value> state;
  int64_t number = 0;
  for (const Value& v : carries) {
    state.push_back({*b.Parameter(number++, v.shape()), StateFacts(maker, v)});
    inner.values.push_back(state.back());
  }
  Value place{*b.Parameter(number++, Shape::Scalar(DType::kS32)), maker.Unknown(DType::kS32)};
  inner.values.push_back(place);
  for (const Value& v : inputs) {
    Dimensions row;
    for (int64_t d = 1; d < v.shape().rank(); ++d) row.push_back(v.shape().dim(d));
    inner.values.push_back({*b.Parameter(number++, ArrayShape(v.dtype(), row)), v.known});
  }
  AddOps(maker, inner, static_cast<int>(maker.dice.Between(1, 6)));
  std::vector<Instruction*> results;
  for (size_t k = 0; k < carries.size(); ++k) {
    results.push_back(NextState(maker, inner, state, k, place).at);
  }
  for (int64_t n = maker.dice.Between(carries.empty() ? 1 : 0, 3); n > 0; --n) {
    Value row = maker.Any(inner);
    if (!row.shape().IsArray() || row.shape().elements() > 600) continue;
    round.rows.push_back(row);
    results.push_back(row.at);
  }
  inner.computation->set_root(*b.Tuple(results));
  round.computation = inner.computation;
  return round;
}

void ScanLoop(Maker& maker, Scope& scope) {
  if (scope.depth >= 2) return;
  int64_t length = maker.dice.Between(1, 7);
  std::vector<Value> carries, inputs;
  for (int64_t n = maker.dice.Between(0, 2); n > 0; --n) {
    auto v = maker.Find(
        scope, [&](const Value& x) { return MayBeState(maker, x) && x.shape().elements() < 700; });
    carries.push_back(v ? *v
                        : maker.NewConstant(scope, ArrayShape(maker.AnyType(), maker.AnyDims(60))));
  }
  for (int64_t n = maker.dice.Between(1, 2); n > 0; --n) {
    auto v = maker.Find(scope, [&](const Value& x) {
      return x.shape().rank() > 0 && x.shape().dim(0) == length && x.shape().elements() < 1500;
    });
    inputs.push_back(
        v ? *v
          : maker.Fresh(scope, maker.AnyType(),
                        Stacked(ArrayShape(DType::kF32, maker.AnyDims(150)), length).dims()));
  }
  Round round = MakeRound(maker, scope, carries, inputs);
  // The state: counter, carries, inputs, outputs.
  std::vector<Instruction*> init = {scope.builder().ScalarConstant(DType::kS32, 0)};
  for (const Value& v : carries) init.push_back(v.at);
  for (const Value& v : inputs) init.push_back(v.at);
  for (const Value& row : round.rows) {
    auto zeros = scope.builder().Fill(Stacked(row.shape(), length), 0);
    if (!zeros) return;
    init.push_back(*zeros);
  }
  auto tuple = scope.builder().Tuple(init);
  if (!tuple) return;
  Scope condition = NewScope(maker, scope, "condition");
  Builder c = condition.builder();
  Instruction* p = *c.Parameter(0, (*tuple)->shape());
  Instruction* end = c.ScalarConstant(DType::kS32, static_cast<double>(length));
  condition.computation->set_root(*c.Compare(*c.GetTupleElement(p, 0), end, Direction::kLt));
  auto body =
      MakeScanBody(maker, scope, (*tuple)->shape(), round, carries.size(), inputs.size(), length);
  if (!body) return;
  auto loop = scope.builder().Add(Op::kWhile, {*tuple},
                                  WhileAttrs{.condition = condition.computation, .body = *body});
  if (!loop) return;
  auto result = [&](size_t k) {
    return scope.builder().GetTupleElement(*loop, static_cast<int64_t>(k));
  };
  for (size_t k = 0; k < carries.size(); ++k) {
    maker.Push(scope, result(1 + k), StateFacts(maker, carries[k]));
  }
  for (size_t k = 0; k < round.rows.size(); ++k) {
    maker.Push(scope, result(1 + carries.size() + inputs.size() + k), round.rows[k].known);
  }
}

Result<Computation*> MakeScanBody(Maker& maker, Scope& scope, const Shape& state,
                                  const Round& round, size_t carries, size_t inputs,
                                  int64_t length) {
  Scope body = NewScope(maker, scope, "body");
  Builder b = body.builder();
  Instruction* p = TRY(b.Parameter(0, state));
  std::vector<Instruction*> now;
  for (int64_t k = 0; k < state.tuple_size(); ++k) now.push_back(TRY(b.GetTupleElement(p, k)));
  Instruction* place = now[0];
  Instruction* size = b.ScalarConstant(DType::kS32, static_cast<double>(length));
  Instruction* one = b.ScalarConstant(DType::kS32, 1);
  if (maker.dice.Chance(35)) {  // from the last row to the first
    place = TRY(b.Add(Op::kSubtract, {TRY(b.Add(Op::kSubtract, {size, place})), one}));
  }
  if (maker.dice.Chance(50)) {  // places below zero count from the end
    Instruction* below = TRY(b.Compare(place, b.ScalarConstant(DType::kS32, 0), Direction::kLt));
    place = TRY(b.Add(Op::kSelect, {below, TRY(b.Add(Op::kAdd, {place, size})), place}));
  }
  std::vector<Instruction*> arguments(now.begin() + 1,
                                      now.begin() + 1 + static_cast<int64_t>(carries));
  arguments.push_back(place);
  for (size_t k = 0; k < inputs; ++k) {
    arguments.push_back(TRY(RowAt(b, now[1 + carries + k], place)));
  }
  Instruction* made = TRY(b.Call(round.computation, arguments));
  std::vector<Instruction*> next = {TRY(b.Add(Op::kAdd, {now[0], one}))};
  for (size_t k = 0; k < carries; ++k) {
    next.push_back(TRY(b.GetTupleElement(made, static_cast<int64_t>(k))));
  }
  for (size_t k = 0; k < inputs; ++k) next.push_back(now[1 + carries + k]);
  for (size_t k = 0; k < round.rows.size(); ++k) {
    Instruction* row = TRY(b.GetTupleElement(made, static_cast<int64_t>(carries + k)));
    next.push_back(TRY(WithRow(b, now[1 + carries + inputs + k], row, place)));
  }
  body.computation->set_root(TRY(b.Tuple(next)));
  return body.computation;
}

}  // namespace weft::hlo::random
