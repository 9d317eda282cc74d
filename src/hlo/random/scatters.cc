#include <algorithm>
#include <limits>

#include "hlo/random/maker.h"

namespace weft::hlo::random {

// Which dimensions of the operand indices move along and windows cover. Sizes of the windows.
Dimensions ScatterWindowsOf(Maker& maker, const Shape& shape, ScatterAttrs& attrs) {
  Dimensions windows;
  int64_t rank = shape.rank();
  for (int64_t d = 0; d < rank; ++d) {
    if (maker.dice.Chance(60) || (d + 1 == rank && attrs.scatter_dims_to_operand_dims.empty())) {
      attrs.scatter_dims_to_operand_dims.push_back(d);
    }
    int64_t size = shape.dim(d);
    if (size > 0 && maker.dice.Chance(55)) {
      attrs.inserted_window_dims.push_back(d);
    } else {
      windows.push_back(maker.dice.Chance(50) ? size
                                              : maker.dice.Between(0, std::min<int64_t>(size, 9)));
    }
  }
  return windows;
}

// The function that combines elements with updates: by those ops, or by replacing.
Computation* ScatterCombiner(Maker& maker, Scope& scope, std::span<const Value> operands,
                             std::span<const std::optional<Op>> ops) {
  auto arrays = static_cast<int64_t>(operands.size());
  Scope inner = NewScope(maker, scope, "combine");
  Builder b = inner.builder();
  std::vector<Instruction*> p, roots;
  for (int64_t i = 0; i < 2 * arrays; ++i) {
    p.push_back(*b.Parameter(i, Shape::Scalar(operands[static_cast<size_t>(i % arrays)].dtype())));
  }
  for (size_t k = 0; k < operands.size(); ++k) {
    Instruction* update = p[k + static_cast<size_t>(arrays)];
    roots.push_back(ops[k] ? b.Add(*ops[k], {p[k], update}).value_or(update) : update);
  }
  inner.computation->set_root(arrays == 1 ? roots[0] : *b.Tuple(roots));
  return inner.computation;
}

void ScatterAny(Maker& maker, Scope& scope) {
  Value x = maker.AnyOf(scope, 1, 2000, false);
  ScatterAttrs attrs;
  Dimensions batch;
  for (int64_t n = maker.dice.Between(0, 2); n > 0; --n) batch.push_back(maker.dice.Between(1, 9));
  Dimensions windows = ScatterWindowsOf(maker, x.shape(), attrs);
  bool first = maker.dice.Chance(50);  // window dimensions before the others
  for (size_t i = 0; i < windows.size(); ++i) {
    attrs.update_window_dims.push_back(static_cast<int64_t>(first ? i : i + batch.size()));
  }
  Dimensions updates = first ? windows : batch;
  updates.insert(updates.end(), first ? batch.begin() : windows.begin(),
                 first ? batch.end() : windows.end());
  attrs.index_vector_dim = static_cast<int64_t>(batch.size());
  Dimensions indices = batch;
  indices.push_back(static_cast<int64_t>(attrs.scatter_dims_to_operand_dims.size()));
  if (indices.back() == 1 && maker.dice.Chance(50)) indices.pop_back();
  double count = 1;
  for (int64_t n : batch) count *= static_cast<double>(n);
  Value at = maker.Index(scope, indices);
  int64_t arrays = maker.dice.Chance(25) ? 2 : 1;
  std::vector<Value> operands = {x}, sources;
  if (arrays == 2) {
    auto other =
        maker.Find(scope, [&](const Value& v) { return v.shape().dims() == x.shape().dims(); });
    operands.push_back(other ? *other : maker.Fresh(scope, maker.AnyType(), x.shape().dims()));
  }
  std::vector<Known> known;
  std::vector<std::optional<Op>> ops;
  for (const Value& operand : operands) {
    sources.push_back(maker.Like(scope, operand.dtype(), Dims(updates), false));
    auto c = AnyCombiner(maker, operand, count);
    if (!c || !maker.IsUsable(sources.back()) || maker.dice.Chance(35)) {
      ops.push_back(std::nullopt);
      known.push_back(maker.Union(operand.known, sources.back().known));
    } else {
      ops.push_back(c->op);
      c->init = 0;
      known.push_back(Combined(maker, *c, maker.Union(operand.known, sources.back().known),
                               operand.dtype(), count));
    }
  }
  attrs.to_apply = ScatterCombiner(maker, scope, operands, ops);
  std::vector<Instruction*> all;
  for (const Value& v : operands) all.push_back(v.at);
  all.push_back(at.at);
  for (const Value& v : sources) all.push_back(v.at);
  auto made = scope.builder().Add(Op::kScatter, all, attrs);
  if (!made) return;
  if (arrays == 1) {
    maker.Push(scope, made, known[0]);
    return;
  }
  for (int64_t k = 0; k < arrays; ++k) {
    maker.Push(scope, scope.builder().GetTupleElement(*made, k), known[static_cast<size_t>(k)]);
  }
}

}  // namespace weft::hlo::random
