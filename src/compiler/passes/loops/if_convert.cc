#include "compiler/passes/loops/if_convert.h"

#include <algorithm>
#include <vector>

#include "compiler/analysis/element_cost.h"
#include "compiler/passes/loops/batch_loop.h"
#include "compiler/passes/rewrite.h"
#include "hlo/builder.h"
#include "hlo/clone.h"
#include "hlo/module.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

constexpr size_t kMostBranches = program::CodeBounds::kCopies;
// Work of all branches of one element: a jump of each lane by itself would cost as much.
constexpr double kMostWork = program::TargetFacts::kMispredictedWork;

bool IsFewArrays(const Shape& shape) {
  if (!shape.IsTuple()) return IsFewNumbers(shape);
  return std::ranges::all_of(shape.elements_of_tuple(), [](auto& s) { return IsFewNumbers(s); });
}

// Of a branch that computes a few numbers from others; more than is worth it where it does not.
double WorkOfBranch(const Computation& branch) {
  double work = 0;
  for (const Instruction* i : branch) {
    bool computed = hlo::IsElementwise(i->op()) && i->called_computations().empty();
    bool moved = i->op() == Op::kBroadcast || i->op() == Op::kReshape || i->op() == Op::kSlice ||
                 i->op() == Op::kConcatenate || i->op() == Op::kDynamicUpdateSlice ||
                 i->IsConstant();
    bool frame = i->IsParameter() || i->op() == Op::kGetTupleElement ||
                 (i->op() == Op::kTuple && i->IsRoot());
    if (HasControlDependencies(*i) || !(computed || moved || frame)) return 2 * kMostWork;
    if (!IsFewArrays(i->shape())) return 2 * kMostWork;
    if (computed) work += ElementCost(*i) * static_cast<double>(i->shape().elements());
  }
  return work;
}

bool MayChoose(const Instruction& conditional) {
  const std::vector<Computation*> branches = conditional.attrs<hlo::ConditionalAttrs>().branches();
  if (branches.size() > kMostBranches || HasControlDependencies(conditional)) return false;
  if (conditional.sharding() != nullptr || !IsFewArrays(conditional.shape())) return false;
  double work = 0;
  for (const Computation* branch : branches) work += WorkOfBranch(*branch);
  return work <= kMostWork;
}

// How many conditionals; -1: one of them stays.
int CountConditionals(const Computation& body) {
  int count = 0;
  for (const Instruction* i : body) {
    if (i->op() != Op::kConditional) continue;
    if (!MayChoose(*i)) return -1;
    ++count;
  }
  return count;
}

// The elements of what a branch returns, computed before `at`.
Result<std::vector<Instruction*>> Inline(const Computation& branch, Instruction* at,
                                         Instruction* argument) {
  Builder b(*at->parent(), at, at);
  hlo::CloneMap map;
  map.instructions[branch.parameter(0)] = argument;
  for (const Instruction* i : branch) {
    if (i->IsParameter() || (i->op() == Op::kTuple && i->IsRoot())) continue;
    const bool of_argument = i->op() == Op::kGetTupleElement && i->operand(0)->IsParameter();
    if (of_argument && argument->op() == Op::kTuple) {
      map.instructions[i] = argument->operand(i->tuple_index());
    } else {
      hlo::CloneInstruction(*i, *at->parent(), map, at);
    }
  }
  Instruction* root = branch.root();
  if (root->op() == Op::kTuple) {
    std::vector<Instruction*> elements;
    for (Instruction* element : root->operands()) elements.push_back(map.Find(element));
    return elements;
  }
  Instruction* value = map.Find(root);
  if (!value->shape().IsTuple()) return std::vector{value};
  std::vector<Instruction*> elements;
  for (int64_t k = 0; k < value->shape().tuple_size(); ++k) {
    elements.push_back(TRY(b.GetTupleElement(value, k)));
  }
  return elements;
}

Status Choose(Instruction* conditional) {
  std::vector<Instruction*> chosen = TRY(ComputeBranches(conditional));
  if (!conditional->shape().IsTuple()) {
    conditional->ReplaceAllUsesWith(chosen[0]);
  } else {
    for (Instruction* user : std::vector(conditional->users())) {
      if (user->op() != Op::kGetTupleElement || HasControlDependencies(*user)) continue;
      user->ReplaceAllUsesWith(chosen[static_cast<size_t>(user->tuple_index())]);
      user->parent()->Remove(user);
    }
    if (!conditional->users().empty()) {
      Builder b(*conditional->parent(), conditional, conditional);
      conditional->ReplaceAllUsesWith(TRY(b.Tuple(chosen)));
    }
  }
  conditional->parent()->Remove(conditional);
  return {};
}

Status ChooseAll(Computation& body) {
  std::vector<Instruction*> conditionals;  // what reads their results goes with them
  for (Instruction* i : body) {
    if (i->op() == Op::kConditional) conditionals.push_back(i);
  }
  for (Instruction* conditional : conditionals) TRY(Choose(conditional));
  return {};
}

}  // namespace

Result<std::vector<Instruction*>> ComputeBranches(Instruction* conditional) {
  const std::vector<Computation*> branches = conditional->attrs<hlo::ConditionalAttrs>().branches();
  std::vector<std::vector<Instruction*>> values;
  for (size_t k = 0; k < branches.size(); ++k) {
    Instruction* argument = conditional->operand(static_cast<int64_t>(k) + 1);
    values.push_back(TRY(Inline(*branches[k], conditional, argument)));
  }
  Builder b(*conditional->parent(), conditional, conditional);
  std::vector<Instruction*> chosen;
  for (size_t element = 0; element < values[0].size(); ++element) {
    std::vector<Instruction*> choices;
    for (const auto& value : values) choices.push_back(value[element]);
    chosen.push_back(TRY(ChooseBranch(b, conditional->operand(0), choices)));
  }
  return chosen;
}

Result<Instruction*> CopyWithoutBranches(Instruction* loop) {
  Computation* body = loop->attrs<hlo::WhileAttrs>().body;
  int count = CountConditionals(*body);
  std::vector<Computation*> inside;
  for (const Instruction* i : *body) {
    if (i->op() != Op::kWhile || count < 0) continue;
    Computation* inner = i->attrs<hlo::WhileAttrs>().body;
    int more = CountConditionals(*inner);
    if (more > 0) inside.push_back(inner);
    count = more < 0 ? -1 : count + more;
  }
  if (count <= 0) return nullptr;
  hlo::Module& module = *body->module();
  hlo::CloneMap map;
  inside.push_back(body);
  for (Computation* from : inside) {
    std::string name = module.UniqueName(from->name());
    Computation* copy = hlo::CloneComputation(*from, module, map, std::move(name), from);
    map.computations[from] = copy;
    TRY(ChooseAll(*copy));
  }
  return hlo::CloneInstruction(*loop, *loop->parent(), map, loop);
}

}  // namespace weft::compiler
