// In-place (alias) analysis: which operands a result may overwrite.
#include "compiler/analysis/in_place.h"

#include <algorithm>
#include <optional>

#include "compiler/analysis/element_cost.h"
#include "compiler/analysis/tiles.h"
#include "hlo/computation.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;
using HloOp = hlo::Op;

int64_t LeafCount(const Shape& shape) {
  if (!shape.IsTuple()) return 1;
  int64_t n = 0;
  for (const Shape& element : shape.elements_of_tuple()) n += LeafCount(element);
  return n;
}

void ForEachLeaf(const Shape& shape, const std::function<void(const Shape&)>& fn) {
  if (!shape.IsTuple()) return fn(shape);
  for (const Shape& element : shape.elements_of_tuple()) ForEachLeaf(element, fn);
}

bool IsAsyncCall(const Instruction& start) {
  const hlo::Computation* calls = start.attrs<hlo::AsyncAttrs>().calls;
  if (calls == nullptr) return false;
  const Instruction& root = *calls->root();
  return root.attrs().Collective() == nullptr || calls->size() != root.operand_count() + 1;
}

bool IsForwarding(const Instruction& instruction) {
  switch (instruction.op()) {
    case HloOp::kTuple:
    case HloOp::kGetTupleElement:
    case HloOp::kReshape:
    case HloOp::kBitcast:
    case HloOp::kCopy:
    case HloOp::kOptBarrier:
    case HloOp::kAddDependency:
    case HloOp::kAfterAll:
    case HloOp::kDomain: return true;
    default: return false;
  }
}

bool IsRenaming(HloOp op) {
  return op == HloOp::kReshape || op == HloOp::kBitcast || op == HloOp::kCopy;
}

const Instruction* BehindNames(const Instruction* i) {
  while (IsRenaming(i->op())) i = i->operand(0);
  return i;
}

std::vector<bool> PassedThrough(const Instruction& loop) {
  std::vector<bool> passes(static_cast<size_t>(LeafCount(loop.shape())), false);
  const Instruction* root = loop.attrs<hlo::WhileAttrs>().body->root();
  if (!loop.shape().IsTuple() || root->op() != HloOp::kTuple) return passes;
  const auto& elements = loop.shape().elements_of_tuple();
  bool flat = std::none_of(elements.begin(), elements.end(),
                           [](const Shape& element) { return element.IsTuple(); });
  for (size_t k = 0; k < passes.size() && flat; ++k) {
    const Instruction* element = root->operand(static_cast<int64_t>(k));
    while (element->op() == HloOp::kCopy || element->op() == HloOp::kBitcast) {
      element = element->operand(0);
    }
    passes[k] = element->op() == HloOp::kGetTupleElement &&
                element->tuple_index() == static_cast<int64_t>(k) &&
                element->operand(0)->IsParameter();
  }
  return passes;
}

namespace {

std::optional<int64_t> ConstantIndex(const Instruction& index) {
  if (!index.IsConstant() || index.literal().size() != 1) return std::nullopt;
  return index.literal().GetInt(0);
}

// The place of an update in dimension d, where it is known; as the op clamps it.
std::optional<int64_t> UpdateStart(const Instruction& update, int64_t d) {
  int64_t room = update.shape().dim(d) - update.operand(1)->shape().dim(d);
  if (room == 0) return 0;
  std::optional<int64_t> start = ConstantIndex(*update.operand(d + 2));
  if (!start) return std::nullopt;
  return std::clamp<int64_t>(*start, 0, room);
}

// Whether a slice of the updated array is where the update goes.
bool IsUpdatedPart(const Instruction& slice, const Instruction& update) {
  if (slice.shape().dims() != update.operand(1)->shape().dims()) return false;
  if (slice.op() != HloOp::kSlice && slice.op() != HloOp::kDynamicSlice) return false;
  for (int64_t d = 0; d < update.shape().rank(); ++d) {
    int64_t room = update.shape().dim(d) - slice.shape().dim(d);
    if (room == 0) continue;
    if (slice.op() == HloOp::kDynamicSlice) {
      const Instruction &a = *slice.operand(d + 1), &b = *update.operand(d + 2);
      std::optional<int64_t> x = ConstantIndex(a);
      if (&a != &b && (!x || x != ConstantIndex(b))) return false;
      continue;
    }
    const auto& dim = slice.attrs<hlo::SliceAttrs>().slice[static_cast<size_t>(d)];
    if (dim.stride != 1 || UpdateStart(update, d) != dim.start) return false;
  }
  return true;
}

// Whether a slice of the updated array has nothing of the update.
bool IsApart(const Instruction& slice, const Instruction& update) {
  if (slice.op() != HloOp::kSlice) return false;
  for (int64_t d = 0; d < update.shape().rank(); ++d) {
    const auto& dim = slice.attrs<hlo::SliceAttrs>().slice[static_cast<size_t>(d)];
    std::optional<int64_t> start = UpdateStart(update, d);
    if (!start) continue;
    if (dim.limit <= *start || dim.start >= *start + update.operand(1)->shape().dim(d)) return true;
  }
  return false;
}

// From a slice to the update, element by element.
bool ReachesElementwise(const Instruction& slice, const Instruction& update) {
  std::vector<const Instruction*> work = {&slice};
  while (!work.empty()) {
    const Instruction* i = work.back();
    work.pop_back();
    for (const Instruction* next : i->users()) {
      if (next == &update) {
        if (next->operand(1) != i) return false;
        continue;
      }
      if (!hlo::IsElementwise(next->op()) && !IsRenaming(next->op())) return false;
      work.push_back(next);
    }
    if (work.size() > 200) return false;
  }
  return true;
}

// Element n of `user` is computed from element n of `operand`, counted row by row.
bool ReadsSameElement(const Instruction& user, const Instruction& operand) {
  if (user.shape().elements() != operand.shape().elements()) return false;
  if (user.op() == HloOp::kReshape || hlo::IsElementwise(user.op())) return true;
  return user.op() == HloOp::kGather && user.operand(0) != &operand && TakesElements(user);
}

std::vector<InPlace> OfUpdate(const hlo::Computation& body) {
  const Instruction& update = *body.root();
  const Instruction* below = update.operand(0);
  if (!below->IsParameter()) return {};
  std::vector<const Instruction*> members;
  for (const Instruction* i : body) members.push_back(i);
  if (IsStraightUpdate(update, members)) return {{0, below->parameter_number()}};
  // Read besides being updated: apart from the update, or at its place, before it is written.
  for (const Instruction* user : below->users()) {
    bool updated = user == &update;
    for (int64_t k = 1; k < update.operand_count(); ++k) {
      if (updated && update.operand(k) == below) return {};
    }
    if (updated || (user->operand(0) == below && IsApart(*user, update))) continue;
    if (user->operand(0) != below || !IsUpdatedPart(*user, update) ||
        !ReachesElementwise(*user, update)) {
      return {};
    }
  }
  return {{0, below->parameter_number()}};
}

// Whether the fusion reads the parameter's elements where it writes, and nowhere else.
bool IsReadInPlace(const Instruction& parameter, const Instruction* root) {
  std::vector<const Instruction*> work = {&parameter};
  bool same = true;
  for (size_t at = 0; at < work.size() && same; ++at) {
    for (const Instruction* user : work[at]->users()) {
      if (user == root && root->op() == HloOp::kTuple) continue;
      same &= ReadsSameElement(*user, *work[at]);
      if (std::find(work.begin(), work.end(), user) == work.end()) work.push_back(user);
    }
    if (work.size() > 200) same = false;
  }
  return same;
}

std::vector<InPlace> OfFusion(const hlo::Computation& body) {
  std::vector<InPlace> result;
  const Instruction* root = body.root();
  if (root->op() == HloOp::kDynamicUpdateSlice) return OfUpdate(body);
  if (root->op() == HloOp::kScatter) {
    const Instruction* below = root->operand(0);
    bool only_updated = below->IsParameter() && below->users().size() == 1 &&
                        root->operand(1) != below && root->operand(2) != below;
    if (only_updated) result.push_back({0, below->parameter_number()});
    return result;
  }
  std::vector<const Instruction*> roots;
  if (root->op() == HloOp::kTuple) {
    roots.assign(root->operands().begin(), root->operands().end());
  } else {
    roots.push_back(root);
  }
  // Tiles of a transpose that overlap at the edges would read what is already written.
  for (const Instruction* i : body) {
    if (i->op() == HloOp::kTranspose && !TilesEvenly(*i)) return {};
  }
  const Dims dims = roots[0]->shape().dims();
  for (const Instruction* r : roots) {
    if (!hlo::IsElementwise(r->op()) || r->shape().dims() != dims) return {};
  }
  for (const Instruction* parameter : body.parameters()) {
    if (parameter->shape().dims() != dims) continue;
    if (!IsReadInPlace(*parameter, root)) continue;
    for (size_t k = 0; k < roots.size(); ++k) {
      if (roots[k]->shape().dtype() == parameter->shape().dtype()) {
        result.push_back({static_cast<int64_t>(k), parameter->parameter_number()});
      }
    }
  }
  return result;
}

}  // namespace

bool IsStraightUpdate(const Instruction& update, std::span<const Instruction* const> members) {
  constexpr int64_t kFew =
      program::TargetFacts::kUsualLanes;  // stay in registers until all are there
  return members.size() > 1 &&
         std::all_of(members.begin(), members.end(),
                     [&](const Instruction* i) {
                       if (i->IsParameter() || i == &update) return true;
                       // A sum of much is a loop of its own for every element.
                       bool reduces = i->op() == HloOp::kReduce ||
                                      i->op() == HloOp::kReduceWindow || i->op() == HloOp::kDot;
                       return i->shape().elements() <= kFew &&
                              (!reduces || i->operand(0)->shape().elements() <= kFew);
                     }) &&
         update.operand(1)->shape().elements() <= kFew;
}

bool ReadsElsewhere(const Instruction& reader, const Instruction& update) {
  return !IsApart(reader, update) && !IsUpdatedPart(reader, update);
}

// An output may take an operand's memory if every element is read where it is written and nowhere
// else, or if it is the array that an update writes into.
std::vector<InPlace> InPlaceOperands(const Instruction& instruction) {
  std::vector<InPlace> result;
  HloOp op = instruction.op();
  if (op == HloOp::kDynamicUpdateSlice) {
    if (instruction.operand(0) == instruction.operand(1)) return {};
    return {{0, 0}};
  }
  if (op == HloOp::kScatter) {
    int64_t n = (instruction.operand_count() - 1) / 2;
    for (int64_t i = 0; i < n; ++i) result.push_back({i, i});
    return result;
  }
  if (hlo::IsElementwise(op)) {
    for (int64_t k = 0; k < instruction.operand_count(); ++k) {
      if (instruction.operand(k)->shape().dims() == instruction.shape().dims() &&
          instruction.operand(k)->shape().dtype() == instruction.shape().dtype()) {
        result.push_back({0, k});
      }
    }
    return result;
  }
  return op == HloOp::kFusion ? OfFusion(*instruction.attrs<hlo::FusionAttrs>().calls) : result;
}

namespace {

// The leaf of the computation's parameter that `leaf` of `i` is, as it was or updated in place.
std::optional<int64_t> UpdatedLeaf(const Instruction* i, int64_t leaf) {
  for (int64_t steps = 0; steps < program::WorkBounds::kPath; ++steps) {
    if (i->IsParameter()) return leaf;
    if (i->op() == HloOp::kTuple) {
      int64_t k = 0;
      for (; leaf >= LeafCount(i->operand(k)->shape()); ++k) {
        leaf -= LeafCount(i->operand(k)->shape());
      }
      i = i->operand(k);
    } else if (i->op() == HloOp::kGetTupleElement) {
      const Shape& tuple = i->operand(0)->shape();
      for (int64_t k = 0; k < i->tuple_index(); ++k) leaf += LeafCount(tuple.tuple_element(k));
      i = i->operand(0);
    } else if (IsRenaming(i->op()) || i->op() == HloOp::kWhile) {
      i = i->operand(0);
    } else {
      std::vector<InPlace> may = InPlaceOperands(*i);
      auto it = std::find_if(may.begin(), may.end(), [&](InPlace p) { return p.leaf == leaf; });
      if (it == may.end()) return std::nullopt;
      i = i->operand(it->operand);
      leaf = 0;
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<OperandLeaf> LeavesUpdatedByBranches(const Instruction& conditional, int64_t leaf) {
  std::vector<OperandLeaf> found;
  int64_t operand = 1;  // the first selects the branch
  for (const hlo::Computation* branch : conditional.attrs<hlo::ConditionalAttrs>().branches()) {
    std::optional<int64_t> at = UpdatedLeaf(branch->root(), leaf);
    if (at) found.push_back({operand, *at});
    ++operand;
  }
  return found;
}

}  // namespace weft::compiler
