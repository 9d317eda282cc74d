// Conditionals.
#include <algorithm>

#include "compiler/analysis/element_cost.h"
#include "compiler/passes.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/expand/callers.h"
#include "compiler/passes/rewrite.h"
#include "compiler/passes/simplify/equality.h"
#include "compiler/passes/simplify/simplify_rules.h"
#include "hlo/builder.h"
#include "hlo/call_graph.h"
#include "hlo/clone.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

// All branches are computed and one chosen by select when none has more than so many ops that cost
// so much (less than a jump that is not foreseen), on so many elements each, and there are so
// many branches.
constexpr int64_t kMaxSelectedOps = program::CodeBounds::kWrittenOut / 2;
// Work of an element (ElementCost) of all branches.
constexpr double kMaxSelectedCost = program::TargetFacts::kMispredictedWork / 4;
constexpr int64_t kMaxSelectedElements = program::CodeBounds::kWrittenOut;  // elements of an array
constexpr size_t kMaxSelectedBranches = program::CodeBounds::kCopies;       // branches

void SetBranches(Instruction& conditional, const std::vector<Computation*>& branches) {
  auto& attrs = conditional.mutable_attrs<hlo::ConditionalAttrs>();
  if (attrs.true_computation != nullptr) {
    attrs.true_computation = branches[0];
    attrs.false_computation = branches[1];
  } else {
    attrs.branch_computations = branches;
  }
}

// The branch that runs, where that is known.
std::optional<size_t> KnownBranch(const Instruction& conditional, size_t count) {
  const Literal* selector = SplatValue(*conditional.operand(0));
  if (selector == nullptr) return std::nullopt;
  if (selector->dtype() == DType::kPred) return selector->GetInt(0) != 0 ? 0 : 1;
  int64_t index = selector->GetInt(0);
  bool in_range = index >= 0 && index < static_cast<int64_t>(count);
  return in_range ? static_cast<size_t>(index) : count - 1;
}

// Few cheap ops on few elements.
bool IsCheapBranch(const Computation& c) {
  int64_t ops = 0;
  double cost = 0;
  for (const Instruction* i : c) {
    if (HasControlDependencies(*i)) return false;
    if (i->IsParameter() || i->op() == Op::kGetTupleElement) continue;
    if (i->op() == Op::kTuple) {
      if (!i->IsRoot()) return false;
      continue;
    }
    bool cheap = IsElementwise(i->op()) || i->IsConstant() || i->op() == Op::kBroadcast ||
                 i->op() == Op::kReshape;
    if (!cheap || !IsStaticArray(*i) || i->shape().elements() > kMaxSelectedElements) return false;
    if (!i->IsConstant()) ++ops;
    cost += ElementCost(*i);
  }
  return ops <= kMaxSelectedOps && cost <= kMaxSelectedCost;
}

bool IsCheapResult(const Shape& shape) {
  auto is_small = [](const Shape& s) {
    return s.IsArray() && s.IsStatic() && s.elements() <= kMaxSelectedElements;
  };
  if (!shape.IsTuple()) return is_small(shape);
  const std::vector<Shape>& elements = shape.elements_of_tuple();
  return std::all_of(elements.begin(), elements.end(), is_small);
}

class ConditionalSimplifier {
 public:
  explicit ConditionalSimplifier(hlo::Module& module)
      : module_(module), effects_(module), classes_(module), callers_(module) {}

  Result<bool> Run() {
    hlo::CallGraph graph(module_);
    bool changed = false;
    for (Computation* computation : graph.PostOrder()) {
      std::vector<Instruction*> found;
      for (Instruction* i : *computation) {
        if (i->op() == Op::kConditional && !HasControlDependencies(*i) &&
            i->sharding() == nullptr) {
          found.push_back(i);
        }
      }
      for (Instruction* i : found) changed |= TRY(SimplifyOne(i));
    }
    if (changed) module_.RemoveUnusedComputations();
    return changed;
  }

 private:
  Result<bool> SimplifyOne(Instruction* i) {
    std::vector<Computation*> branches = i->attrs<hlo::ConditionalAttrs>().branches();
    std::optional<size_t> known = KnownBranch(*i, branches.size());
    if (!known && AreSame(*i, branches)) known = 0;
    if (known) {
      Replace(i, InlineBranch(*branches[*known], i, i->operand(static_cast<int64_t>(*known) + 1)));
      return true;
    }
    if (Instruction* chosen = TRY(SelectResult(i, branches))) {
      Replace(i, chosen);
      return true;
    }
    bool changed = false;
    if (Instruction* narrower = TRY(DropResults(i))) {
      i = narrower;
      changed = true;
    }
    for (int64_t b = 1; b < i->operand_count(); ++b) changed |= TRY(DropOperands(i, b));
    return changed;
  }

  static void Replace(Instruction* i, Instruction* with) {
    i->ReplaceAllUsesWith(with);
    i->parent()->Remove(i);
  }

  // The same branch for the same operand, whatever the selector.
  bool AreSame(const Instruction& i, const std::vector<Computation*>& branches) const {
    for (size_t b = 1; b < branches.size(); ++b) {
      if (i.operand(static_cast<int64_t>(b) + 1) != i.operand(1)) return false;
      if (branches[b] != branches[0] && !HaveOneClass(*branches[b], *branches[0])) return false;
    }
    return true;
  }
  // Computations that this pass has made or changed are not compared.
  bool HaveOneClass(const Computation& a, const Computation& z) const {
    if (std::max(a.id(), z.id()) >= first_new_id_ || changed_) return false;
    return classes_.Of(&a) == classes_.Of(&z);
  }

  Instruction* InlineBranch(const Computation& branch, Instruction* at, Instruction* argument) {
    hlo::CloneMap map;
    map.instructions[branch.parameter(0)] = argument;
    for (const Instruction* i : branch) {
      if (!i->IsParameter()) callers_.Add(*hlo::CloneInstruction(*i, *at->parent(), map, at));
    }
    return map.Find(branch.root());
  }

  // conditional(p, x, y) = select(p, f(x), g(y)) when f and g are cheap
  Result<Instruction*> SelectResult(Instruction* i, const std::vector<Computation*>& branches) {
    if (branches.size() > kMaxSelectedBranches || !IsCheapResult(i->shape())) return nullptr;
    for (const Computation* branch : branches) {
      if (!IsCheapBranch(*branch)) return nullptr;
      if (!Shape::Compatible(branch->root()->shape(), i->shape())) return nullptr;
    }
    std::vector<Instruction*> values;
    for (size_t b = 0; b < branches.size(); ++b) {
      values.push_back(InlineBranch(*branches[b], i, i->operand(static_cast<int64_t>(b) + 1)));
    }
    Builder b(*i->parent(), i, i);
    if (!i->shape().IsTuple()) return ChooseBranch(b, i->operand(0), values);
    std::vector<Instruction*> elements;
    for (int64_t k = 0; k < i->shape().tuple_size(); ++k) {
      std::vector<Instruction*> choices;
      for (Instruction* value : values) {
        bool built = value->op() == Op::kTuple;
        choices.push_back(built ? value->operand(k) : TRY(b.GetTupleElement(value, k)));
      }
      elements.push_back(TRY(ChooseBranch(b, i->operand(0), choices)));
    }
    Instruction* tuple = TRY(b.Tuple(elements));
    tuple->mutable_shape() = i->shape();
    return tuple;
  }

  // Elements of the result that nobody reads are not returned. Null: all are read.
  Result<Instruction*> DropResults(Instruction* i) {
    if (!i->shape().IsTuple() || i->IsRoot() || i->users().empty()) return nullptr;
    std::vector<bool> is_read(static_cast<size_t>(i->shape().tuple_size()));
    for (const Instruction* user : i->users()) {
      if (user->op() != Op::kGetTupleElement) return nullptr;
      is_read[static_cast<size_t>(user->tuple_index())] = true;
    }
    std::vector<int64_t> kept;
    std::vector<Shape> shapes;
    for (size_t k = 0; k < is_read.size(); ++k) {
      if (!is_read[k]) continue;
      kept.push_back(static_cast<int64_t>(k));
      shapes.push_back(i->shape().tuple_element(static_cast<int64_t>(k)));
    }
    if (kept.size() == is_read.size()) return nullptr;
    std::vector<Computation*> branches = i->attrs<hlo::ConditionalAttrs>().branches();
    if (!std::all_of(branches.begin(), branches.end(),
                     [](const Computation* c) { return c->root()->sharding() == nullptr; })) {
      return nullptr;
    }
    for (Computation*& branch : branches) {
      branch = callers_.Own(branch);
      TRY(NarrowRoot(*branch, kept));
    }
    changed_ = true;
    SetBranches(*i, branches);
    Shape shape = Shape::Tuple(std::move(shapes));
    Builder b(*i->parent(), i, i);
    Instruction* narrow =
        TRY(b.Add(Op::kConditional, i->operands(), i->attrs(), &shape, i->name()));
    hlo::CopyFacts(*i, *narrow);
    if (narrow->extras() != nullptr) narrow->mutable_extras().origin = {};
    for (Instruction* user : std::vector<Instruction*>(i->users())) {
      auto at = std::lower_bound(kept.begin(), kept.end(), user->tuple_index());
      user->ReplaceOperand(0, narrow);
      user->mutable_attrs<hlo::GetTupleElementAttrs>().index = at - kept.begin();
    }
    i->parent()->Remove(i);
    return narrow;
  }

  Status NarrowRoot(Computation& branch, std::span<const int64_t> kept) {
    Instruction* root = branch.root();
    Builder b(branch, nullptr, root);
    std::vector<Instruction*> elements;
    for (int64_t k : kept) {
      bool built = root->op() == Op::kTuple;
      elements.push_back(built ? root->operand(k) : TRY(b.GetTupleElement(root, k)));
    }
    branch.set_root(TRY(b.Tuple(elements)));
    for (Instruction* i = branch.last(); i != nullptr;) {
      Instruction* previous = i->prev();
      bool unused = i->users().empty() && !i->IsRoot() && !i->IsParameter();
      if (unused && !effects_.Has(*i) && !HasControlDependencies(*i)) branch.Remove(i);
      i = previous;
    }
    return {};
  }

  // Elements of a branch's operand that the branch does not read are not passed.
  Result<bool> DropOperands(Instruction* i, int64_t operand) {
    std::vector<Computation*> branches = i->attrs<hlo::ConditionalAttrs>().branches();
    Computation*& branch = branches[static_cast<size_t>(operand - 1)];
    const Instruction* state = branch->parameter(0);
    if (!state->shape().IsTuple() || state->IsRoot() || state->sharding() != nullptr) return false;
    std::vector<bool> is_read(static_cast<size_t>(state->shape().tuple_size()));
    for (const Instruction* user : state->users()) {
      if (user->op() != Op::kGetTupleElement) return false;
      bool unused = user->users().empty() && !user->IsRoot() && !HasControlDependencies(*user);
      if (!unused) is_read[static_cast<size_t>(user->tuple_index())] = true;
    }
    if (std::count(is_read.begin(), is_read.end(), true) == std::ssize(is_read)) return false;
    branch = callers_.Own(branch);
    changed_ = true;
    SetBranches(*i, branches);
    return NarrowOperand(i, operand, *branch->parameter(0), is_read);
  }

  static Result<bool> NarrowOperand(Instruction* i, int64_t operand, Instruction& state,
                                    const std::vector<bool>& is_read) {
    Instruction* value = i->operand(operand);
    Builder b(*i->parent(), i, i);
    std::vector<Shape> shapes;
    std::vector<Instruction*> elements;
    std::vector<int64_t> where(is_read.size(), -1);
    for (size_t k = 0; k < is_read.size(); ++k) {
      int64_t at = static_cast<int64_t>(k);
      if (!is_read[k]) continue;
      where[k] = std::ssize(elements);
      bool built = value->op() == Op::kTuple;
      elements.push_back(built ? value->operand(at) : TRY(b.GetTupleElement(value, at)));
      shapes.push_back(state.shape().tuple_element(at));
    }
    for (Instruction* user : std::vector<Instruction*>(state.users())) {
      int64_t at = where[static_cast<size_t>(user->tuple_index())];
      if (at < 0) {
        user->parent()->Remove(user);
      } else {
        user->mutable_attrs<hlo::GetTupleElementAttrs>().index = at;
      }
    }
    state.mutable_shape() = Shape::Tuple(std::move(shapes));
    if (state.extras() != nullptr) state.mutable_extras().origin = {};
    i->ReplaceOperand(operand, TRY(b.Tuple(elements)));
    bool unused = value->op() == Op::kTuple && value->users().empty() && !value->IsRoot();
    if (unused && !HasControlDependencies(*value)) value->parent()->Remove(value);
    return true;
  }

  hlo::Module& module_;
  const Effects effects_;
  const ComputationClasses classes_;
  Callers callers_;
  int64_t first_new_id_ = module_.id_limit();
  bool changed_ = false;  // a branch is no longer what it was when classes were found
};

}  // namespace

Result<bool> SimplifyConditionals(hlo::Module& module, const PassContext&) {
  if (module.config().is_scheduled || !HasOp(module, Op::kConditional)) return false;
  return ConditionalSimplifier(module).Run();
}

}  // namespace weft::compiler
