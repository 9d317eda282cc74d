#include <algorithm>
#include <numeric>

#include "compiler/passes/expand/expand_ops.h"
#include "hlo/clone.h"
#include "hlo/evaluate/block_scaling.h"
#include "hlo/evaluate/custom_calls.h"
#include "hlo/ops/called.h"
#include "hlo/verify.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::CustomCallAttrs;
using hlo::Instruction;
using hlo::Ints;
using hlo::Op;

// What says how values lie on devices has a meaning while there is something to partition.
bool IsAboutPartitions(std::string_view target) {
  return target.starts_with("xla.sdy.") || target == "Sharding" || target.starts_with("SPMD");
}

Result<bool> ExpandAnnotation(Instruction* call, std::string_view target) {
  if (call->operand_count() == 0 || !hlo::ShapesMatch(call->operand(0)->shape(), call->shape())) {
    return false;
  }
  if (IsAboutPartitions(target) && call->parent()->module()->config().num_partitions > 1) {
    return false;
  }
  ReplaceWithValue(call, call->operand(0));
  return true;
}

// "mhlo.asin" and the like.
Result<bool> ExpandNamedOp(Instruction* call, Op op) {
  const hlo::AttrsType* type = hlo::GetOp(op).attrs;
  if (hlo::Arity(op) != call->operand_count() || !IsElementwise(op) || !IsStaticallyShaped(*call) ||
      !call->shape().IsArray() ||
      (type != &hlo::kAttrsType<hlo::NoAttrs> && type != &hlo::kAttrsType<hlo::UnaryMathAttrs>)) {
    return false;
  }
  std::vector<const Shape*> shapes;
  for (const Instruction* operand : call->operands()) shapes.push_back(&operand->shape());
  hlo::Attrs attrs(type);
  Result<Shape> shape = hlo::InferShape(op, shapes, attrs, &call->shape());
  if (!shape || !hlo::ShapesMatch(*shape, call->shape())) return false;
  Builder b(*call->parent(), call, call);
  Shape result = hlo::StripLayout(call->shape());
  hlo::ReplaceInstruction(call, TRY(b.Add(op, call->operands(), std::move(attrs), &result)));
  return true;
}

// (values, s32 indices) of the best elements along dimension `dim`.
Result<bool> ReplaceWithTopK(Instruction* call, int64_t dim, bool largest) {
  const Shape& from = call->operand(0)->shape();
  const Shape& values = call->shape().tuple_element(0);
  const Shape& indices = call->shape().tuple_element(1);
  if (!IsStaticallyShaped(*call) || values.dtype() != from.dtype() ||
      indices.dtype() != DType::kS32 || values.dim(dim) > from.dim(dim)) {
    return false;
  }
  Ints order(static_cast<size_t>(from.rank())), back(order.size());
  std::iota(order.begin(), order.end(), 0);
  order.erase(order.begin() + dim);
  order.push_back(dim);
  for (size_t i = 0; i < order.size(); ++i) {
    back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  }
  Builder b(*call->parent(), call, call);
  Instruction* rows = TRY(TransposeTo(b, call->operand(0), order));
  hlo::TopKAttrs attrs;
  attrs.k = values.dim(dim);
  attrs.largest = largest;
  Instruction* top = TRY(b.Add(Op::kTopK, {rows}, attrs));
  if (dim == from.rank() - 1) {
    hlo::ReplaceInstruction(call, top);
    return true;
  }
  Instruction* parts[2];
  for (int64_t i = 0; i < 2; ++i) {
    parts[i] = TRY(TransposeTo(b, TRY(b.GetTupleElement(top, i)), back));
  }
  hlo::ReplaceInstruction(call, TRY(b.Tuple(parts)));
  return true;
}

Result<bool> ExpandTopKCall(Instruction* call, std::string_view target) {
  bool approximate = target == "ApproxTopK" || target == "PartialReduce";
  if (call->operand_count() == 0 || !call->shape().IsTuple() || call->shape().tuple_size() != 2) {
    return false;
  }
  const Shape& from = call->operand(0)->shape();
  const Shape& values = call->shape().tuple_element(0);
  if (!from.IsArray() || from.rank() == 0 || values.rank() != from.rank() ||
      IsComplex(from.dtype())) {
    return false;
  }
  std::optional<hlo::TopKCall> how = hlo::TopKOfCustomCall(*call);
  if (!how || (!approximate && how->dimension != from.rank() - 1)) return false;
  return ReplaceWithTopK(call, how->dimension, how->largest);
}

}  // namespace

Result<bool> ExpandCustomCalls(Instruction* i) {
  if (i->op() != Op::kCustomCall) return false;
  const std::string& target = i->attrs<CustomCallAttrs>().custom_call_target;
  if (hlo::IsIdentityCustomCall(target)) return ExpandAnnotation(i, target);
  if (target == "TopK" || target == "mhlo.topk" || target == "chlo.top_k" ||
      target == "ApproxTopK" || target == "PartialReduce") {
    return ExpandTopKCall(i, target);
  }
  if (hlo::IsBlockScalingCall(target)) return ExpandBlockScaling(i, target);
  if (target == "AllocateBuffer" || target == "CreateBuffer") {
    if (!i->shape().IsArray() || !i->shape().IsStatic()) return false;
    Builder b(*i->parent(), i, i);
    hlo::ReplaceInstruction(i, TRY(ZeroesOf(b, hlo::StripLayout(i->shape()))));
    return true;
  }
  if (std::optional<Op> op = hlo::OpOfCustomCall(target)) return ExpandNamedOp(i, *op);
  return false;
}

}  // namespace weft::compiler
