#include "compiler/passes/loops/loop_state.h"

#include <algorithm>

#include "compiler/analysis/queries.h"
#include "compiler/passes/effects.h"
#include "hlo/builder.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

// A parameter that is read element by element alone.
Instruction* SplitParameter(const Computation& c) {
  if (c.parameters().size() != 1) return nullptr;
  Instruction* state = c.parameter(0);
  if (!state->shape().IsTuple() || state->IsRoot() || state->sharding() != nullptr) return nullptr;
  for (const Instruction* user : state->users()) {
    if (user->op() != Op::kGetTupleElement) return nullptr;
  }
  return state;
}

// The elements `kept` of a tuple, then those of `added`.
Shape SelectElements(const Shape& tuple, std::span<const int64_t> kept,
                     std::span<Instruction* const> added) {
  std::vector<Shape> elements;
  for (int64_t k : kept) elements.push_back(tuple.tuple_element(k));
  for (const Instruction* i : added) elements.push_back(i->shape());
  return Shape::Tuple(std::move(elements));
}

// Annotations that speak of elements by number are wrong for another tuple.
void DropElementNumbers(Instruction& i) {
  if (i.extras() == nullptr) return;
  i.mutable_extras().backend_config = {};
  i.mutable_extras().origin = {};
}

void RenumberState(Instruction& state, Shape shape, std::span<const int64_t> kept) {
  state.mutable_shape() = std::move(shape);
  DropElementNumbers(state);
  for (Instruction* element : state.users()) {
    auto at = std::lower_bound(kept.begin(), kept.end(), element->tuple_index());
    CHECK(at != kept.end() && *at == element->tuple_index()) << element->name();
    element->mutable_attrs<hlo::GetTupleElementAttrs>().index = at - kept.begin();
  }
}

// The body returns the elements kept, and those added as it got them.
Status RebuildRoot(const Loop& loop, std::span<const int64_t> kept, int64_t added) {
  Instruction* old = loop.body->root();
  Builder b(*loop.body, nullptr, old);
  std::vector<Instruction*> elements;
  for (int64_t k : kept) elements.push_back(old->operand(k));
  for (int64_t k = 0; k < added; ++k) {
    elements.push_back(TRY(b.GetTupleElement(loop.body_state, std::ssize(kept) + k)));
  }
  Instruction* root = TRY(b.Tuple(elements));
  root->mutable_shape() =
      SelectElements(old->shape(), kept, std::span(elements).subspan(kept.size()));
  hlo::CopyFacts(*old, *root);
  DropElementNumbers(*root);
  loop.body->set_root(root);
  loop.body->Remove(old);
  return {};
}

// Users of the old loop read the new one.
Status MoveUsers(const Loop& loop, Instruction* with, std::span<const int64_t> kept) {
  Builder b(*loop.op->parent(), with->next(), loop.op);
  std::vector<Instruction*> elements(static_cast<size_t>(loop.size()));
  auto value = [&](int64_t k) -> Result<Instruction*> {
    Instruction*& element = elements[static_cast<size_t>(k)];
    if (element != nullptr) return element;
    auto at = std::lower_bound(kept.begin(), kept.end(), k);
    bool is_kept = at != kept.end() && *at == k;
    element = TRY(is_kept ? b.GetTupleElement(with, at - kept.begin()) : ReadInit(loop, k));
    return element;
  };
  std::vector<Instruction*> users(loop.op->users());
  bool used_whole = loop.op->IsRoot();
  for (Instruction* user : users) {
    if (user->op() != Op::kGetTupleElement || HasControlDependencies(*user) ||
        user->sharding() != nullptr) {
      used_whole = true;
      continue;
    }
    Instruction* element = TRY(value(user->tuple_index()));
    Instruction* old = user;
    old->ReplaceAllUsesWith(element);
    old->parent()->Remove(old);
  }
  if (!used_whole) return {};
  for (int64_t k = 0; k < loop.size(); ++k) TRY(value(k));
  Instruction* whole = TRY(b.Tuple(elements));
  whole->mutable_shape() = loop.op->shape();
  loop.op->ReplaceAllUsesWith(whole);
  return {};
}

}  // namespace

bool Loop::ReadsElement(const Instruction& i) const {
  return i.op() == Op::kGetTupleElement &&
         (i.operand(0) == body_state || i.operand(0) == condition_state);
}

bool Loop::IsInvariant(int64_t k) const {
  const Instruction* next = Next(k);
  return next->op() == Op::kGetTupleElement && next->operand(0) == body_state &&
         next->tuple_index() == k;
}

Instruction* Loop::Init(int64_t k) const {
  Instruction* init = op->operand(0);
  return init->op() == Op::kTuple ? init->operand(k) : nullptr;
}

std::optional<Loop> FindLoop(Instruction* while_op) {
  const auto& attrs = while_op->attrs<hlo::WhileAttrs>();
  if (!while_op->shape().IsTuple() || while_op->sharding() != nullptr) return std::nullopt;
  if (HasControlDependencies(*while_op)) return std::nullopt;
  Loop loop{while_op, attrs.body, attrs.condition, SplitParameter(*attrs.body),
            SplitParameter(*attrs.condition)};
  if (loop.body_state == nullptr || loop.condition_state == nullptr) return std::nullopt;
  const Instruction* root = loop.body->root();
  if (root->op() != Op::kTuple || root->sharding() != nullptr || !root->users().empty() ||
      HasControlDependencies(*root)) {
    return std::nullopt;
  }
  return loop;
}

Result<Instruction*> ReadInit(const Loop& loop, int64_t k) {
  if (Instruction* init = loop.Init(k)) return init;
  Builder b(*loop.op->parent(), loop.op, loop.op);
  return b.GetTupleElement(loop.op->operand(0), k);
}

Result<Loop> RebuildLoop(const Loop& loop, std::span<const int64_t> kept,
                         std::span<Instruction* const> added) {
  std::vector<Instruction*> inits;
  for (int64_t k : kept) inits.push_back(TRY(ReadInit(loop, k)));
  inits.insert(inits.end(), added.begin(), added.end());
  RenumberState(*loop.body_state, SelectElements(loop.body_state->shape(), kept, added), kept);
  RenumberState(*loop.condition_state, SelectElements(loop.condition_state->shape(), kept, added),
                kept);
  TRY(RebuildRoot(loop, kept, std::ssize(added)));
  Shape shape = SelectElements(loop.op->shape(), kept, added);
  Builder b(*loop.op->parent(), loop.op, loop.op);
  Instruction* init = TRY(b.Tuple(inits));
  init->mutable_shape() = SelectElements(loop.op->operand(0)->shape(), kept, added);
  Instruction* with =
      TRY(b.Add(Op::kWhile, std::span(&init, 1), loop.op->attrs(), &shape, loop.op->name()));
  hlo::CopyFacts(*loop.op, *with);
  DropElementNumbers(*with);
  TRY(MoveUsers(loop, with, kept));
  Instruction* old_init = loop.op->operand(0);
  loop.op->parent()->Remove(loop.op);
  if (old_init->op() == Op::kTuple && old_init->users().empty() && !old_init->IsRoot() &&
      !HasControlDependencies(*old_init)) {
    old_init->parent()->Remove(old_init);
  }
  return Loop{with, loop.body, loop.condition, loop.body_state, loop.condition_state};
}

Result<Instruction*> MakeStateTuple(Instruction* loop) {
  const Shape shape = loop->shape();
  if (loop->sharding() != nullptr || HasControlDependencies(*loop)) return nullptr;
  const hlo::WhileAttrs attrs = loop->attrs<hlo::WhileAttrs>();
  const Shape tuple = Shape::Tuple({shape});
  for (Computation* c : {attrs.condition, attrs.body}) {
    if (c->parameter(0)->IsRoot() || c->parameter(0)->sharding() != nullptr) return nullptr;
  }
  for (Computation* c : {attrs.condition, attrs.body}) {
    Instruction* state = c->parameter(0);
    const std::vector<Instruction*> users(state->users());
    state->mutable_shape() = tuple;
    Builder b(*c, state->next(), state);
    Instruction* array = TRY(b.GetTupleElement(state, 0));
    for (Instruction* user : users) {
      for (int64_t n = 0; n < user->operand_count(); ++n) {
        if (user->operand(n) == state) user->ReplaceOperand(n, array);
      }
    }
  }
  Instruction* root = attrs.body->root();
  attrs.body->set_root(TRY(Builder(*attrs.body, nullptr, root).Tuple(std::span(&root, 1))));
  Builder b(*loop->parent(), loop, loop);
  Instruction* init = loop->operand(0);
  init = TRY(b.Tuple(std::span(&init, 1)));
  Instruction* with =
      TRY(b.Add(Op::kWhile, std::span(&init, 1), loop->attrs(), &tuple, loop->name()));
  hlo::CopyFacts(*loop, *with);
  hlo::ReplaceInstruction(loop, TRY(b.GetTupleElement(with, 0)));
  return with;
}

std::optional<ElementStore> FindElementStore(int64_t k, Instruction* write) {
  auto one = [](const Instruction& i) { return IsStaticArray(i) && i.shape().elements() == 1; };
  if (!IsStaticArray(*write) || write->shape().rank() != 1) return std::nullopt;
  if (write->op() == Op::kDynamicUpdateSlice && one(*write->operand(1))) {
    return ElementStore{k, write, write->operand(1), write->operand(2)};
  }
  if (write->op() != Op::kScatter || write->operand_count() != 3) return std::nullopt;
  const auto& attrs = write->attrs<hlo::ScatterAttrs>();
  const Computation& combiner = *attrs.to_apply;
  if (combiner.root() != combiner.parameter(1)) return std::nullopt;
  if (!one(*write->operand(1)) || !one(*write->operand(2))) return std::nullopt;
  if (attrs.scatter_dims_to_operand_dims.size() != 1) return std::nullopt;
  Instruction* index = write->operand(1);
  while (index->op() == Op::kReshape && one(*index)) index = index->operand(0);
  return ElementStore{k, write, write->operand(2), index};
}

}  // namespace weft::compiler
