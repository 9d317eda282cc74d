#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>

#include "compiler/passes.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/simplify/simplify_rules.h"
#include "hlo/clone.h"
#include "hlo/evaluate.h"
#include "program/target_facts.h"

namespace weft::compiler {
namespace {

using hlo::Instruction;
using hlo::Op;

// Results up to this size are also computed from broadcasts and iotas of constants; larger ones
// would trade cheap arithmetic for memory.
constexpr int64_t kMaxFillElements = program::TargetFacts::kLeastPageBytes / sizeof(float);
// Results of more bytes than this are not made from operands of fewer: the op takes less memory.
constexpr int64_t kMaxGrownBytes = program::TargetFacts::kLeastPageBytes;

// Cheaper to compute than to store.
bool IsFill(const Instruction& i) {
  return (i.op() == Op::kBroadcast || i.op() == Op::kIota) && i.shape().elements() > 1;
}

bool IsKnownConstant(const Instruction& i) {
  return i.IsConstant() && !i.attrs<hlo::ConstantAttrs>().elided;
}

// A broadcast of a constant, or an iota, small enough to be written out on the way.
bool IsSmallKnownFill(const Instruction& i) {
  if (!IsFill(i) || !i.shape().IsStatic() || i.shape().elements() > kMaxFillElements) return false;
  return i.operand_count() == 0 || IsKnownConstant(*i.operand(0));
}

bool MayFold(const Instruction& i, const Effects& effects) {
  if (i.IsConstant() || i.IsParameter() || IsFill(i) || HasControlDependencies(i)) return false;
  if (!effects.IsFunction(i) || HasTrait(i.op(), hlo::kAsyncStart | hlo::kAsyncDone)) return false;
  switch (i.op()) {
    case Op::kOptBarrier:
    case Op::kDomain:
    case Op::kAddDependency:
    case Op::kWhile:
    case Op::kCall:
    case Op::kConditional:
    case Op::kFusion: return false;
    default: break;
  }
  // Anything may hide behind a call within a call.
  for (const hlo::Computation* called : i.called_computations()) {
    for (const Instruction* inner : *called) {
      if (HasTrait(inner->op(), hlo::kCalls)) return false;
    }
  }
  return i.def().evaluate != nullptr;
}

bool AreOperandsKnown(const Instruction& i) {
  bool fills = false;
  for (const Instruction* operand : i.operands()) {
    if (!operand->shape().IsArray() || !operand->shape().IsStatic()) return false;
    if (IsKnownConstant(*operand)) continue;
    if (!IsSmallKnownFill(*operand)) return false;
    fills = true;
  }
  return !fills || i.shape().elements() <= kMaxFillElements;
}

bool Grows(const Instruction& i) {
  int64_t read = 0;
  for (const Instruction* operand : i.operands()) {
    if (operand->IsConstant()) read += operand->shape().ByteSize();
  }
  return i.shape().ByteSize() > std::max(kMaxGrownBytes, 2 * read);
}

// Element operations of one application of what the op applies, roughly.
int64_t WorkWithoutCalls(const Instruction& i, int64_t read, int64_t written) {
  constexpr int64_t kFar = std::numeric_limits<int64_t>::max();
  if (IsElementwise(i.op())) return written;
  int64_t factor = read;  // each result may read everything
  switch (i.op()) {
    case Op::kBitcastConvert:
    case Op::kConcatenate:
    case Op::kCopy:
    case Op::kDynamicSlice:
    case Op::kDynamicUpdateSlice:
    case Op::kGather:
    case Op::kMap:
    case Op::kPad:
    case Op::kReduce:
    case Op::kReshape:
    case Op::kReverse:
    case Op::kScatter:
    case Op::kSlice:
    case Op::kTranspose: return std::max(read, written);
    case Op::kSort: factor = std::bit_width(static_cast<uint64_t>(read)); break;
    case Op::kDot:
      factor = 1;
      for (int64_t d : i.attrs<hlo::DotAttrs>().lhs_contracting_dims) {
        factor *= std::max<int64_t>(i.operand(0)->shape().dim(d), 1);
      }
      break;
    default: break;
  }
  int64_t work;
  return __builtin_mul_overflow(written, factor, &work) ? kFar : work;
}

// Element operations, roughly; called computations are interpreted, which is slow.
int64_t FoldWork(const Instruction& i) {
  int64_t read = 1, written = std::max<int64_t>(i.shape().elements(), 1), calls = 1, work;
  for (const Instruction* operand : i.operands()) {
    read = std::max(read, operand->shape().elements());
  }
  for (const hlo::Computation* called : i.called_computations()) calls += 8 * called->size();
  if (__builtin_mul_overflow(WorkWithoutCalls(i, read, written), calls, &work)) {
    return std::numeric_limits<int64_t>::max();
  }
  return work;
}

Instruction* AddConstant(Literal value, Shape shape, Instruction* before) {
  hlo::Computation& computation = *before->parent();
  return computation.Add(Op::kConstant, computation.module()->UniqueName("constant"),
                         std::move(shape), {}, hlo::ConstantAttrs{.literal = std::move(value)},
                         before);
}

// The constant, or the broadcast of a scalar where all elements are the same.
Instruction* AddValue(Literal value, Instruction* before) {
  if (!IsSplat(value)) return AddConstant(std::move(value), before->shape(), before);
  Literal scalar{Shape::Scalar(value.dtype())};
  std::memcpy(scalar.mutable_data(), value.data(), static_cast<size_t>(ByteWidth(value.dtype())));
  Instruction* c = AddConstant(std::move(scalar), Shape::Scalar(value.dtype()), before);
  if (before->metadata() != nullptr) c->mutable_metadata() = *before->metadata();
  hlo::Computation& computation = *before->parent();
  return computation.Add(Op::kBroadcast, computation.module()->UniqueName("broadcast"),
                         before->shape(), std::span(&c, 1), hlo::BroadcastAttrs{}, before);
}

std::optional<Literal> Compute(const Instruction& i) {
  std::vector<Literal> operands;
  for (const Instruction* operand : i.operands()) {
    if (operand->IsConstant()) {
      operands.push_back(operand->literal());
      continue;
    }
    std::vector<Literal> inner;
    for (const Instruction* o : operand->operands()) inner.push_back(o->literal());
    Result<Literal> fill = hlo::EvaluateInstruction(*operand, inner);
    if (!fill) return std::nullopt;
    operands.push_back(*std::move(fill));
  }
  Result<Literal> value = hlo::EvaluateInstruction(i, operands);
  // What fails now is left to fail when it runs.
  if (!value || !Shape::Compatible(value->shape(), i.shape())) return std::nullopt;
  return *std::move(value);
}

}  // namespace

Result<bool> FoldConstants(hlo::Module& module, const PassContext& context) {
  if (module.config().is_scheduled) return false;  // copies of constants are there on purpose
  const OptimizeOptions& limits = context.options.optimize;
  int64_t work_left = limits.fold_max_work;
  Effects effects(module);
  bool changed = false;
  for (const auto& computation : module.computations()) {
    std::vector<Instruction*> folded;
    for (Instruction* i : computation->Snapshot()) {
      if (!i->shape().IsArray() || !i->shape().IsStatic() || !MayFold(*i, effects)) continue;
      if (i->shape().ByteSize() > limits.fold_max_bytes || !AreOperandsKnown(*i)) continue;
      if (Grows(*i)) continue;
      int64_t work = FoldWork(*i);
      if (work > work_left) continue;
      work_left -= work;
      std::optional<Literal> value = Compute(*i);
      if (!value) continue;
      Instruction* known = AddValue(*std::move(value), i);
      hlo::CopyFacts(*i, *known);
      i->ReplaceAllUsesWith(known);
      folded.push_back(i);
    }
    // Last first, as lists of users like it.
    for (auto it = folded.rbegin(); it != folded.rend(); ++it) computation->Remove(*it);
    changed |= !folded.empty();
  }
  return changed;
}

}  // namespace weft::compiler
