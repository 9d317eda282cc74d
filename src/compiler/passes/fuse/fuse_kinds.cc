// What may be fused, and how often that computes an element.
#include <algorithm>

#include "compiler/analysis/element_cost.h"
#include "compiler/passes/fuse/fuse.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;
using hlo::Op;

int64_t ReduceLength(const Instruction& reduce) {
  int64_t length = 1;
  for (int64_t d : reduce.attrs<hlo::ReduceAttrs>().dimensions) {
    length *= reduce.operand(0)->shape().dim(d);
  }
  return length;
}

GroupKind GroupKindOf(const Instruction& i) {
  if (!i.control_predecessors().empty() || !i.control_successors().empty()) return GroupKind::kNone;
  bool reduces = i.op() == Op::kReduce;
  if (!i.shape().IsArray() && !reduces) return GroupKind::kNone;
  if (i.shape().IsArray() && (i.shape().HasDynamicDims() || i.shape().elements() == 0)) {
    return GroupKind::kNone;
  }
  for (const Instruction* operand : i.operands()) {
    const Shape& shape = operand->shape();
    if (!shape.IsArray() || shape.HasDynamicDims() || shape.elements() == 0)
      return GroupKind::kNone;
  }
  if (reduces) return GroupKind::kReduce;
  if (hlo::IsElementwise(i.op())) {
    return i.op() == Op::kStochasticConvert ? GroupKind::kNone : GroupKind::kLoop;
  }
  switch (i.op()) {
    case Op::kBroadcast:
    case Op::kReshape:
    case Op::kIota:
    case Op::kSlice:
    case Op::kReverse:
    case Op::kTranspose:
    case Op::kPad:
    case Op::kConcatenate:
    case Op::kGather:
    case Op::kDynamicSlice:
    case Op::kBitcastConvert: return GroupKind::kLoop;
    case Op::kConstant: return IsFree(i) ? GroupKind::kLoop : GroupKind::kNone;
    case Op::kDynamicUpdateSlice: return GroupKind::kUpdate;
    case Op::kScatter: return GroupKind::kScatter;
    default: return GroupKind::kNone;
  }
}

namespace {

// Every user reduces the dimension, element by element.
bool IsUnrolledAlong(const Instruction& i, int64_t dimension) {
  return !i.users().empty() &&
         std::all_of(i.users().begin(), i.users().end(), [&](const Instruction* user) {
           if (user->op() != Op::kReduce || ReduceLength(*user) > kShortReduce) return false;
           const auto& dims = user->attrs<hlo::ReduceAttrs>().dimensions;
           return std::find(dims.begin(), dims.end(), dimension) != dims.end();
         });
}

// A user reads part of the dimension, from where data says.
bool IsIndexedAlong(const Instruction& i, int64_t dimension) {
  return std::any_of(i.users().begin(), i.users().end(), [&](const Instruction* user) {
    if (user->operand(0) != &i) return false;
    int64_t whole = i.shape().dim(dimension);
    if (user->op() == Op::kDynamicSlice) return user->shape().dim(dimension) < whole;
    if (user->op() != Op::kGather) return false;
    return user->attrs<hlo::GatherAttrs>().slice_sizes[static_cast<size_t>(dimension)] < whole;
  });
}

// Where the coordinate is the same in all lanes a concatenation takes one operand's element. Along
// lanes loops are cut where operands meet, if those are not many and not short and lie at known
// indices; else elements of all of them are computed and one is chosen.
FusionEdge ConcatenateEdge(const Instruction& concatenate, int64_t k) {
  // Elements of an operand along it.
  constexpr int64_t kShortRun = 4 * program::TargetFacts::kUsualLanes;
  constexpr int64_t kManyOperands = 2 * program::CodeBounds::kCopies;  // operands: pieces of a loop
  const Shape& shape = concatenate.shape();
  int64_t along = concatenate.attrs<hlo::DimensionsAttrs>().dimensions[0], minor = shape.rank() - 1;
  while (minor > 0 && shape.dim(minor) == 1) --minor;
  double part = static_cast<double>(concatenate.operand(k)->shape().elements()) /
                static_cast<double>(shape.elements());
  bool cut = concatenate.operand_count() <= kManyOperands && !IsIndexedAlong(concatenate, along);
  for (const Instruction* operand : concatenate.operands()) {
    cut &= operand->shape().dim(along) >= kShortRun;
  }
  if (along != minor || cut || part < 0.25 || IsUnrolledAlong(concatenate, along)) {
    return {false, part};
  }
  return {false, 2};
}

}  // namespace

FusionEdge EdgeTo(const Instruction& user, int64_t k) {
  if (hlo::IsElementwise(user.op())) {
    return {user.operand(k)->shape().dims() == user.shape().dims(), 1};
  }
  switch (user.op()) {
    case Op::kReduce: return {false, static_cast<double>(ReduceLength(user))};
    case Op::kCopy:
    case Op::kReshape: return {true, 1};
    case Op::kConcatenate: return ConcatenateEdge(user, k);
    case Op::kScatter:
      return {false, static_cast<double>(user.operand(k)->shape().elements()) /
                         static_cast<double>(user.operand(2)->shape().elements())};
    case Op::kGather: return {k == 1 && TakesElements(user), 1};
    default: return {false, 1};
  }
}

std::vector<int32_t> SitesIn(const FusionGroup& group, const Instruction& i) {
  if (i.shape().IsScalar()) return {0};
  std::vector<int32_t> sites;
  int32_t next = group.next_site;
  for (const Instruction* user : i.users()) {
    auto it = group.sites.find(user);
    if (it == group.sites.end() || sites.size() > kMaxFusionMembers) continue;
    for (int64_t k = 0; k < user->operand_count(); ++k) {
      if (user->operand(k) != &i) continue;
      bool same_index = EdgeTo(*user, k).same_index;
      for (int32_t site : it->second) sites.push_back(same_index ? site : next++);
    }
  }
  std::sort(sites.begin(), sites.end());
  sites.erase(std::unique(sites.begin(), sites.end()), sites.end());
  return sites;
}

double RepeatsIn(const FusionGroup& group, const Instruction& i) {
  double most = 1;
  for (const Instruction* user : i.users()) {
    auto it = group.repeats.find(user);
    if (it == group.repeats.end()) continue;
    bool written_out = user->op() == Op::kReduce && ReduceLength(*user) <= kUnrolledTerms;
    double terms = written_out ? static_cast<double>(ReduceLength(*user)) : 1;
    most = std::max(most, it->second * terms);
  }
  return i.shape().IsScalar() ? 1 : most;
}

}  // namespace weft::compiler
