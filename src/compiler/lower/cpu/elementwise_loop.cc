// Loops over arrays, element by element: recognition, and latency of their recurrence.
#include "compiler/lower/cpu/elementwise_loop.h"

#include <algorithm>
#include <unordered_set>

#include "compiler/analysis/element_cost.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;
using HloOp = hlo::Op;

namespace {

constexpr size_t kMostMembers = program::CodeBounds::kMembers / 2;  // instructions of the body
// Arrays that are carried.
constexpr size_t kMostStates = program::TargetFacts::kGeneralRegisters / 2;

}  // namespace

bool ElementwiseBody::Check() {
  const Instruction& root = *body_.root();
  if (root.op() != HloOp::kTuple || root.operand_count() != static_cast<int64_t>(state_.size())) {
    return false;
  }
  for (int64_t k = 0; k < root.operand_count(); ++k) {
    if (state_[static_cast<size_t>(k)] < 0) continue;
    const Shape& shape = root.operand(k)->shape();
    if (!shape.IsArray() || shape.HasDynamicDims()) return false;
    if (shape.IsScalar()) {
      scalars.push_back(k);
      continue;
    }
    if (!arrays.empty() && shape.dims() != dims) return false;
    dims = shape.dims();
    arrays.push_back(k);
  }
  if (arrays.empty() || arrays.size() > kMostStates) return false;
  for (int64_t k : arrays) {
    if (!Visit(*root.operand(k))) return false;
  }
  for (int64_t k : scalars) {
    if (!Visit(*root.operand(k)) || varies_.at(root.operand(k))) return false;
  }
  // Nothing else happens in it.
  for (const Instruction* i : body_) {
    if (!i->IsParameter() && !i->IsRoot() && !i->IsConstant() && !varies_.contains(i) &&
        i->op() != HloOp::kGetTupleElement) {
      return false;
    }
  }
  return members.size() <= kMostMembers;
}

bool ElementwiseBody::Visit(const Instruction& i) {
  if (varies_.contains(&i)) return true;
  if (members.size() + reads.size() > kMostMembers) return false;
  std::optional<bool> varies = Look(i);
  if (!varies) return false;
  varies_[&i] = *varies;
  return true;
}

std::optional<bool> ElementwiseBody::Look(const Instruction& i) {
  if (!i.shape().IsArray() || i.shape().HasDynamicDims()) return std::nullopt;
  if (i.op() == HloOp::kFusion) return LookInside(i, *i.attrs<hlo::FusionAttrs>().calls->root());
  if (i.op() == HloOp::kGetTupleElement) {
    const Instruction& from = *i.operand(0);
    if (from.IsParameter() && from.parent() == &body_) {
      reads.push_back(&i);
      bool array = state_[static_cast<size_t>(i.tuple_index())] >= 0 && !i.shape().IsScalar();
      return array;
    }
    if (from.op() != HloOp::kFusion) return std::nullopt;
    varies_[&from] = false;  // seen
    const Instruction& root = *from.attrs<hlo::FusionAttrs>().calls->root();
    if (root.op() != HloOp::kTuple) return std::nullopt;
    return LookInside(from, *root.operand(i.tuple_index()));
  }
  if (i.IsParameter()) {
    auto it = arguments_.find(&i);
    if (it == arguments_.end() || !Visit(*it->second)) return std::nullopt;
    return varies_.at(it->second);
  }
  members.push_back(&i);
  if (i.IsConstant()) return i.literal().size() == 1 ? std::optional(false) : std::nullopt;
  bool varies = false;
  for (const Instruction* operand : i.operands()) {
    if (!Visit(*operand)) return std::nullopt;
    varies |= varies_.at(operand);
  }
  if (hlo::IsElementwise(i.op())) {
    if (i.op() == HloOp::kStochasticConvert) return std::nullopt;
    return !varies || SameElements(i) ? std::optional(varies) : std::nullopt;
  }
  switch (i.op()) {
    case HloOp::kBroadcast: {
      // Dimensions of size 1 may be added.
      const auto& to = i.attrs<hlo::BroadcastAttrs>().dimensions;
      bool keeps = SameElements(i) && std::is_sorted(to.begin(), to.end());
      return varies && !keeps ? std::nullopt : std::optional(varies);
    }
    // Elements of an array that stays as it is, looked up.
    case HloOp::kGather: {
      bool looks_up = !varies_.at(i.operand(0)) && TakesElements(i) && SameElements(i);
      return varies && !looks_up ? std::nullopt : std::optional(varies);
    }
    case HloOp::kIota:
    case HloOp::kSlice:
    case HloOp::kReverse: return varies ? std::nullopt : std::optional(false);
    // Rows of an array, one in each round, are better read one after the other.
    case HloOp::kDynamicSlice:
      return varies || i.shape().elements() > 1 ? std::nullopt : std::optional(false);
    case HloOp::kReshape:
    case HloOp::kCopy: return varies;
    default: return std::nullopt;
  }
}

bool ElementwiseBody::SameElements(const Instruction& i) const {
  int64_t elements = 1;
  for (int64_t d : dims) elements *= d;
  return i.shape().elements() == elements;
}

std::optional<bool> ElementwiseBody::LookInside(const Instruction& fusion,
                                                const Instruction& root) {
  for (const Instruction* parameter : fusion.attrs<hlo::FusionAttrs>().calls->parameters()) {
    arguments_[parameter] = fusion.operand(parameter->parameter_number());
  }
  if (!Visit(root)) return std::nullopt;
  return varies_.at(&root);
}

namespace {

// Cycles until its result is there.
double LatencyOf(const Instruction& i, const program::OpLatency& latency) {
  if (IsFree(i) || i.IsConstant() || i.shape().IsScalar()) return 0;
  if (i.op() == HloOp::kGather) return program::TargetFacts::kLoadCycles + latency.other;
  double work = ElementCost(i);
  // A polynomial, by two halves.
  if (work > kCheapElement) return work * static_cast<double>(latency.arithmetic) / 2;
  switch (i.op()) {
    case HloOp::kAdd:
    case HloOp::kSubtract:
    case HloOp::kMultiply: return IsFloat(i.shape().dtype()) ? latency.arithmetic : latency.other;
    case HloOp::kDivide:
    case HloOp::kRemainder:
    case HloOp::kSqrt:
    case HloOp::kRsqrt: return latency.division;
    default: return latency.other;
  }
}

// Cycles from the state to the value, along the longest path.
double DepthOf(const Instruction& i, std::unordered_map<const Instruction*, double>& known,
               const std::unordered_map<const Instruction*, const Instruction*>& arguments,
               const program::OpLatency& latency) {
  auto it = known.find(&i);
  if (it != known.end()) return it->second;
  double most = 0;
  auto follow = [&](const Instruction& from) {
    most = std::max(most, DepthOf(from, known, arguments, latency));
  };
  auto argument = arguments.find(&i);
  if (argument != arguments.end()) {
    follow(*argument->second);
  } else if (i.op() == HloOp::kFusion) {
    follow(*i.attrs<hlo::FusionAttrs>().calls->root());
  } else if (i.op() == HloOp::kGetTupleElement && i.operand(0)->op() == HloOp::kFusion) {
    follow(*i.operand(0)->attrs<hlo::FusionAttrs>().calls->root()->operand(i.tuple_index()));
  } else if (i.op() != HloOp::kGetTupleElement) {
    for (const Instruction* operand : i.operands()) follow(*operand);
    most += LatencyOf(i, latency);
  }
  return known[&i] = most;
}

}  // namespace

program::Rounds RoundsOf(const Instruction& loop, const ElementwiseBody& found, int64_t trips,
                         const program::TargetInfo& target) {
  program::Rounds rounds;
  double work = 0;
  for (const Instruction* i : found.members) {
    if (!IsFree(*i) && !i->shape().IsScalar()) rounds.operations += ElementCost(*i);
    work += ElementCost(*i);
  }
  int64_t elements = 1;
  for (int64_t d : found.dims) elements *= d;
  std::unordered_map<const Instruction*, double> known;
  const Instruction& root = *loop.attrs<hlo::WhileAttrs>().body->root();
  for (int64_t k : found.arrays) {
    rounds.latency = std::max(rounds.latency,
                              DepthOf(*root.operand(k), known, found.arguments(), target.latency));
  }
  auto vectors_of = [&](const Instruction& i) {
    return i.shape().elements() != elements ? 0 : IsComplex(i.shape().dtype()) ? 2 : 1;
  };
  std::unordered_set<int64_t> kept(found.arrays.begin(), found.arrays.end());
  for (int64_t k : found.arrays) {
    rounds.kept += vectors_of(*root.operand(k));
    rounds.touched += 2 * vectors_of(*root.operand(k));  // read and written
    rounds.bytes += root.operand(k)->shape().ByteSize();
  }
  for (const Instruction* i : found.reads) {
    if (vectors_of(*i) == 0 || !kept.insert(i->tuple_index()).second) continue;
    rounds.kept += vectors_of(*i);
    rounds.touched += vectors_of(*i);
    rounds.bytes += i->shape().ByteSize();
  }
  rounds.pieces = work * static_cast<double>(elements * trips) / target.WorkOfThread();
  return rounds;
}

}  // namespace weft::compiler
