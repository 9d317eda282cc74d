// A sum over devices of which each reads its own part alone: every device gets that part only.
#include <algorithm>
#include <optional>
#include <unordered_map>

#include "compiler/analysis/collectives.h"
#include "compiler/passes.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/rewrite.h"
#include "hlo/clone.h"
#include "hlo/evaluate.h"

namespace weft::compiler {
namespace {

using hlo::Instruction;
using hlo::Op;

// What numbers that come from constants and the device's own are on one device.
class DeviceNumbers {
 public:
  DeviceNumbers(const hlo::Module& module, int64_t device)
      : device_(device),
        partitions_(std::max<int64_t>(module.config().num_partitions, 1)),
        most_elements_(DeviceCount(module)) {}

  // Null: it depends on something else, or is larger than a table of devices.
  const Literal* Of(const Instruction& i) {
    auto [it, fresh] = known_.try_emplace(&i);
    if (!fresh) return it->second ? &*it->second : nullptr;
    std::optional<Literal> value = Find(i);
    std::optional<Literal>& kept = known_[&i] = std::move(value);
    return kept ? &*kept : nullptr;
  }

 private:
  std::optional<Literal> Find(const Instruction& i) {
    if (!i.shape().IsArray() || i.shape().elements() > most_elements_) return std::nullopt;
    if (i.op() == Op::kPartitionId)
      return Literal::Scalar(DType::kU32, static_cast<uint32_t>(device_ % partitions_));
    if (i.op() == Op::kReplicaId)
      return Literal::Scalar(DType::kU32, static_cast<uint32_t>(device_ / partitions_));
    if (i.IsConstant()) return i.literal();
    if (i.operand_count() == 0 || !i.called_computations().empty() || hlo::IsCollective(i.op()) ||
        HasTrait(i.op(), hlo::kSideEffect) || i.op() == Op::kCustomCall) {
      return std::nullopt;
    }
    std::vector<Literal> operands;
    for (const Instruction* operand : i.operands()) {
      const Literal* value = Of(*operand);
      if (value == nullptr) return std::nullopt;
      operands.push_back(*value);
    }
    Result<Literal> value = hlo::EvaluateInstruction(i, operands);
    if (!value) return std::nullopt;
    return std::move(*value);
  }

  int64_t device_, partitions_, most_elements_;
  std::unordered_map<const Instruction*, std::optional<Literal>> known_;  // looked up only
};

// Nobody has given it a place of its own.
bool MayChange(const Instruction& i) {
  const bool is_annotated = i.extras() != nullptr && !i.extras()->frontend_attributes.empty();
  return !HasControlDependencies(i) && !is_annotated;
}

// The one dimension that the slice makes smaller; -1: none, or several.
int64_t SlicedDim(const Instruction& slice) {
  int64_t dim = -1;
  const Shape &from = slice.operand(0)->shape(), &to = slice.shape();
  for (int64_t d = 0; d < to.rank(); ++d) {
    if (to.dim(d) == from.dim(d)) continue;
    if (dim >= 0) return -1;
    dim = d;
  }
  return dim;
}

// Whether member k of each group reads the k-th part along `dim`.
bool ReadsOwnPart(const Instruction& slice, int64_t dim,
                  std::span<const std::vector<int64_t>> groups) {
  const int64_t whole = slice.operand(0)->shape().dim(dim), part = slice.shape().dim(dim);
  if (slice.operand_count() != 1 + slice.shape().rank()) return false;  // starts in one array
  for (const std::vector<int64_t>& group : groups) {
    if (part * std::ssize(group) != whole) return false;
    for (size_t k = 0; k < group.size(); ++k) {
      DeviceNumbers numbers(*slice.parent()->module(), group[k]);
      const Literal* start = numbers.Of(*slice.operand(1 + dim));
      if (start == nullptr || !IsInteger(start->dtype())) return false;
      const int64_t at = std::clamp<int64_t>(start->GetInt(0), 0, whole - part);
      if (at != static_cast<int64_t>(k) * part) return false;
    }
  }
  return true;
}

Result<bool> ScatterAllReduce(Instruction* slice) {
  if (slice->op() != Op::kDynamicSlice || slice->operand(0)->op() != Op::kAllReduce) return false;
  Instruction* sum = slice->operand(0);
  const auto& attrs = sum->attrs<hlo::AllReduceAttrs>();
  if (sum->operand_count() != 1 || sum->users().size() != 1 || sum->IsRoot() ||
      !IsStaticallyShaped(*slice) || !MayChange(*sum) || !MayChange(*slice) ||
      !SimpleReduction(*attrs.to_apply)) {
    return false;
  }
  const int64_t dim = SlicedDim(*slice);
  if (dim < 0) return false;
  const Result<std::vector<std::vector<int64_t>>> groups = DeviceGroups(*sum);
  if (!groups || !ReadsOwnPart(*slice, dim, *groups)) return false;
  hlo::ReduceScatterAttrs scatter;
  static_cast<hlo::CollectiveAttrs&>(scatter) = attrs;
  scatter.to_apply = attrs.to_apply;
  scatter.mode = attrs.mode;
  scatter.dimensions = {dim};
  hlo::Builder b(*slice->parent(), slice, slice);
  const Shape shape = slice->shape();
  Instruction* whole = sum->operand(0);
  Instruction* part =
      TRY(b.Add(Op::kReduceScatter, std::span(&whole, 1), hlo::Attrs(std::move(scatter)), &shape));
  hlo::CopyFacts(*sum, *part);
  ReplaceWithValue(slice, part);
  sum->parent()->Remove(sum);
  return true;
}

}  // namespace

Result<bool> ScatterAllReduces(hlo::Module& module, const PassContext&) {
  if (module.config().is_scheduled || DeviceCount(module) == 1) return false;
  return RewriteEach(module, ScatterAllReduce);
}

}  // namespace weft::compiler
