// Index-set splitting. Where a loop is best cut: a pad, concatenate or update inside reads
// something else from there on, and a loop that knows on which side it is reads consecutive
// elements.
#include <algorithm>
#include <set>

#include "compiler/analysis/queries.h"
#include "compiler/lower/lowering.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;
using HloOp = hlo::Op;

namespace {

// Of one dimension; each is one more copy of the loop.
constexpr size_t kMaxCuts = 2 * program::CodeBounds::kCopies;
// Parts of a dimension that are worth their own loop.
constexpr int64_t kLongStretch = program::CodeBounds::kMinorPart;
// Instructions emitted for all parts together.
constexpr size_t kMaxRepeatedMembers = 2 * program::CodeBounds::kMembers;

class CutFinder {
 public:
  CutFinder(std::span<const Instruction* const> members, int64_t size)
      : members_(members.begin(), members.end()), size_(size) {}

  // Dimension d of i, at coordinate c - shift where the loop is at c.
  void Visit(const Instruction& i, int64_t d, int64_t shift) {
    if (!members_.contains(&i) || seen_.size() > 2000) return;
    if (!seen_.insert({&i, {d, shift}}).second) return;
    size_t k = static_cast<size_t>(d);
    if (hlo::IsElementwise(i.op())) {
      for (const Instruction* operand : i.operands()) {
        if (operand->shape().dims() == i.shape().dims()) Visit(*operand, d, shift);
      }
      return;
    }
    switch (i.op()) {
      case HloOp::kCopy:
      case HloOp::kOptBarrier: return Visit(*i.operand(0), d, shift);
      case HloOp::kPad: return VisitPad(i, d, shift);
      case HloOp::kConcatenate: return VisitConcatenate(i, d, shift);
      case HloOp::kDynamicUpdateSlice: return VisitUpdate(i, d, shift);
      case HloOp::kSlice: {
        const auto& slice = i.attrs<hlo::SliceAttrs>().slice[k];
        if (slice.stride == 1) Visit(*i.operand(0), d, shift - slice.start);
        return;
      }
      case HloOp::kReverse: {
        const auto& dims = i.attrs<hlo::DimensionsAttrs>().dimensions;
        if (std::find(dims.begin(), dims.end(), d) == dims.end()) Visit(*i.operand(0), d, shift);
        return;
      }
      case HloOp::kTranspose:
        return Visit(*i.operand(0), i.attrs<hlo::DimensionsAttrs>().dimensions[k], shift);
      case HloOp::kBroadcast: return VisitBroadcast(i, d, shift);
      case HloOp::kReshape:
      case HloOp::kBitcast: return VisitReshaped(i, k, shift);
      case HloOp::kReduce: {
        if (!i.shape().IsArray()) return;
        ReduceDims dims = SplitDims(i);
        for (int64_t o = 0; o < i.operand_count() / 2; ++o)
          Visit(*i.operand(o), dims.kept[k], shift);
        return;
      }
      default: return;
    }
  }

  // `copies`: of the body, beside those that these cuts make. Where these are too many, those at
  // the ends of long stretches.
  std::vector<int64_t> Cuts(size_t copies) const {
    auto fits = [&](size_t cuts) {
      return cuts <= kMaxCuts && (cuts + 1) * copies * members_.size() <= kMaxRepeatedMembers;
    };
    if (fits(cuts_.size())) return {cuts_.begin(), cuts_.end()};
    std::set<int64_t> ends;
    int64_t before = 0;
    auto note = [&](int64_t at) {
      if ((at - before) * kLongStretch >= size_) ends.insert({before, at});
      before = at;
    };
    for (int64_t at : cuts_) note(at);
    note(size_);
    ends.erase(0);
    ends.erase(size_);
    if (!fits(ends.size())) return {};
    return {ends.begin(), ends.end()};
  }

 private:
  void VisitPad(const Instruction& pad, int64_t d, int64_t shift) {
    const hlo::PaddingDim& p = pad.attrs<hlo::PadAttrs>().padding[static_cast<size_t>(d)];
    int64_t size = pad.operand(0)->shape().dim(d);
    Cut(shift + p.low);
    Cut(shift + p.low + (size - 1) * (p.interior + 1) + 1);
    if (p.interior == 0) Visit(*pad.operand(0), d, shift + p.low);
  }

  void VisitConcatenate(const Instruction& joined, int64_t d, int64_t shift) {
    bool along = joined.attrs<hlo::DimensionsAttrs>().dimensions[0] == d;
    for (const Instruction* operand : joined.operands()) {
      Visit(*operand, d, shift);
      if (!along) continue;
      shift += operand->shape().dim(d);
      Cut(shift);
    }
  }

  void VisitUpdate(const Instruction& update, int64_t d, int64_t shift) {
    std::optional<int64_t> start = IntegerValue(*update.operand(d + 2));
    Visit(*update.operand(0), d, shift);
    if (!start) return;
    int64_t size = update.operand(1)->shape().dim(d);
    *start = std::clamp<int64_t>(*start, 0, update.shape().dim(d) - size);
    Cut(shift + *start);
    Cut(shift + *start + size);
    Visit(*update.operand(1), d, shift + *start);
  }

  void VisitBroadcast(const Instruction& i, int64_t d, int64_t shift) {
    const auto& dims = i.attrs<hlo::BroadcastAttrs>().dimensions;
    for (size_t j = 0; j < dims.size(); ++j) {
      if (dims[j] == d && i.operand(0)->shape().dims()[j] == i.shape().dim(d)) {
        Visit(*i.operand(0), static_cast<int64_t>(j), shift);
      }
    }
  }

  // The operand's dimension of the same size and stride.
  void VisitReshaped(const Instruction& i, size_t k, int64_t shift) {
    const Dims &to = i.shape().dims(), &from = i.operand(0)->shape().dims();
    int64_t stride = 1, other = 1;
    for (size_t j = k + 1; j < to.size(); ++j) stride *= to[j];
    for (size_t j = from.size(); j-- > 0; other *= from[j]) {
      if (other == stride && from[j] == to[k]) {
        return Visit(*i.operand(0), static_cast<int64_t>(j), shift);
      }
    }
  }

  void Cut(int64_t at) {
    if (at > 0 && at < size_) cuts_.insert(at);
  }

  std::unordered_set<const Instruction*> members_;
  int64_t size_;
  std::set<int64_t> cuts_;
  std::set<std::pair<const Instruction*, std::pair<int64_t, int64_t>>> seen_;  // membership only
};

}  // namespace

std::vector<int64_t> MinorSplitPoints(std::span<const Instruction* const> members,
                                      std::span<const Instruction* const> roots, const Dims& dims) {
  if (dims.empty()) return {};
  size_t minor = dims.size() - 1;
  while (minor > 0 && dims[minor] == 1) --minor;
  if (dims[minor] < 8) return {};
  CutFinder finder(members, dims[minor]);
  for (const Instruction* root : roots) {
    if (root->shape().IsArray() && root->shape().dims() == dims) {
      finder.Visit(*root, static_cast<int64_t>(minor), 0);
    }
  }
  return finder.Cuts(1);
}

bool GathersAtCuts(std::span<const Instruction* const> members, const Dims& dims) {
  return std::ranges::any_of(members, [&](const Instruction* i) {
    if (i->op() == HloOp::kDynamicUpdateSlice) {
      return i->shape().dims() == dims && i->operand(1)->shape().dims().back() < dims.back();
    }
    if (i->op() != HloOp::kPad || i->shape().rank() == 0) return false;
    const Instruction& inside = *i->operand(0);
    bool reads = inside.op() != HloOp::kBroadcast && !inside.IsConstant();
    int64_t row = i->shape().dims().back();
    return reads && row >= dims.back() && inside.shape().dims().back() < row;
  });
}

std::vector<IndexSet> OuterIndexSets(std::span<const Instruction* const> members,
                                     std::span<const Instruction* const> roots, const Dims& dims,
                                     size_t cuts) {
  std::vector<IndexSet> pieces;
  if (dims.empty()) return pieces;
  size_t minor = dims.size() - 1, copies = cuts + 1;
  while (minor > 0 && dims[minor] == 1) --minor;
  for (size_t d = minor; d-- > 0;) {
    if (dims[d] < 4) continue;
    CutFinder finder(members, dims[d]);
    for (const Instruction* root : roots) {
      if (root->shape().IsArray() && root->shape().dims() == dims) {
        finder.Visit(*root, static_cast<int64_t>(d), 0);
      }
    }
    std::vector<int64_t> at = finder.Cuts(copies);
    if (at.empty()) continue;
    at.insert(at.begin(), 0);
    at.push_back(dims[d]);
    size_t before = copies;
    for (size_t k = 0; k + 1 < at.size(); ++k) {
      if ((at[k + 1] - at[k]) * 4 < dims[d]) continue;
      pieces.push_back({d, at[k], at[k + 1]});
      copies += before;
    }
  }
  return pieces;
}

}  // namespace weft::compiler
