// Collectives in two halves. Evaluation does all at the start and carries the value to the done.
#include "hlo/attrs.h"
#include "hlo/evaluate.h"
#include "hlo/evaluate/collectives.h"
#include "hlo/instruction.h"
#include "hlo/op.h"
#include "hlo/ops/called.h"
#include "hlo/ops/collective_shape.h"

namespace weft::hlo {
namespace {

Shape OperandsAsOne(const InferArgs& args) {
  if (args.size() == 1) return StripLayout(args.operand(0));
  std::vector<Shape> shapes;
  for (const Shape* operand : args.operands) shapes.push_back(StripLayout(*operand));
  return Shape::Tuple(std::move(shapes));
}

Status CheckStartForm(const InferArgs& args, int64_t elements) {
  if (args.declared == nullptr ||
      (args.declared->IsTuple() && args.declared->tuple_size() >= elements)) {
    return {};
  }
  return InvalidArgument(Mnemonic(args.op), ": the result must be (operands, results, ...), got ",
                         args.declared->ToStringWithoutLayout());
}

Result<Shape> InferAllGatherStart(const InferArgs& args) {
  TRY(CheckStartForm(args, 2));
  const Shape* declared = args.declared == nullptr ? nullptr : &args.declared->tuple_element(1);
  Shape gathered = TRY(InferGathered(args, declared));
  return Shape::Tuple({OperandsAsOne(args), std::move(gathered)});
}

Result<Shape> InferPermuteStart(const InferArgs& args) {
  TRY(CheckStartForm(args, 2));
  bool in_place = !args.attrs.As<CollectivePermuteAttrs>().slice_sizes.empty();
  // Several operands may be tuples.
  Shape permuted = !in_place && args.size() > 1 ? OperandsAsOne(args) : TRY(InferPermuted(args));
  Shape first = in_place ? StripLayout(args.operand(0)) : OperandsAsOne(args);
  std::vector<Shape> shapes = {std::move(first), std::move(permuted)};
  for (int64_t i = 2; args.declared != nullptr && i < args.declared->tuple_size(); ++i) {
    shapes.push_back(StripLayout(args.declared->tuple_element(i)));
  }
  return Shape::Tuple(std::move(shapes));
}

Result<Shape> InferSecondElement(const InferArgs& args) {
  const Shape& start = args.operand(0);
  if (!start.IsTuple() || start.tuple_size() < 2) {
    return InvalidArgument(Mnemonic(args.op),
                           ": the operand must be (operands, results, ...), got ",
                           start.ToStringWithoutLayout());
  }
  return StripLayout(start.tuple_element(1));
}

// (operands, value, zeroes).
Result<Literal> CarryValue(const Instruction& start, std::span<Literal> operands, bool in_place,
                           Literal value) {
  std::vector<Literal> elements;
  if (operands.size() == 1 || in_place) {
    elements.push_back(std::move(operands[0]));
  } else {
    elements.push_back(Literal::Tuple(std::vector<Literal>(operands.begin(), operands.end())));
  }
  elements.push_back(std::move(value));
  for (int64_t i = 2; i < start.shape().tuple_size(); ++i) {
    elements.push_back(TRY(Literal::Allocate(StripLayout(start.shape().tuple_element(i)))));
  }
  return Literal::Tuple(std::move(elements));
}

Result<Literal> EvaluateAllGatherStart(EvalContext& context, const Instruction& start,
                                       std::span<Literal> operands) {
  std::vector<Literal> given(operands.begin(), operands.end());
  Literal value = TRY(RunAllGather(context, start, given));
  return CarryValue(start, operands, /*in_place=*/false, std::move(value));
}

Result<Literal> EvaluatePermuteStart(EvalContext& context, const Instruction& start,
                                     std::span<Literal> operands) {
  std::vector<Literal> given(operands.begin(), operands.end());
  Literal value = TRY(RunCollectivePermute(context, start, given));
  bool in_place = !start.attrs<CollectivePermuteAttrs>().slice_sizes.empty();
  return CarryValue(start, operands, in_place, std::move(value));
}

Result<Literal> EvaluateSecondElement(EvalContext&, const Instruction&,
                                      std::span<Literal> operands) {
  return std::move(operands[0].mutable_tuple()[1]);
}

}  // namespace

template <>
OpRow Define<Op::kAllGatherStart>() {
  return {.doc = "Starts an all-gather: (operands, results).",
          .infer = InferAllGatherStart,
          .check = CheckGroups,
          .evaluate = EvaluateAllGatherStart,
          .no_dim_rule = "an asynchronous op goes with the computation it wraps"};
}

template <>
OpRow Define<Op::kAllGatherDone>() {
  return {.doc = "The results of an all-gather-start.",
          .infer = InferSecondElement,
          .evaluate = EvaluateSecondElement,
          .no_dim_rule = "an asynchronous op goes with the computation it wraps"};
}

template <>
OpRow Define<Op::kAllReduceStart>() {
  return {.doc = "Starts an all-reduce; has the shape of its results.",
          .infer = InferReduced,
          .check = CheckGroups,
          .evaluate = RunAllReduce,
          .no_dim_rule = "an asynchronous op goes with the computation it wraps"};
}

template <>
OpRow Define<Op::kAllReduceDone>() {
  return {
      .doc = "The results of an all-reduce-start.",
      .infer = [](const InferArgs& args) -> Result<Shape> { return StripLayout(args.operand(0)); },
      .evaluate = [](EvalContext&, const Instruction&, std::span<Literal> operands)
          -> Result<Literal> { return std::move(operands[0]); },
      .no_dim_rule = "an asynchronous op goes with the computation it wraps"};
}

template <>
OpRow Define<Op::kCollectivePermuteStart>() {
  return {.doc = "Starts a collective-permute: (operands, results, contexts ...).",
          .infer = InferPermuteStart,
          .check = CheckPermute,
          .evaluate = EvaluatePermuteStart,
          .no_dim_rule = "an asynchronous op goes with the computation it wraps"};
}

template <>
OpRow Define<Op::kCollectivePermuteDone>() {
  return {.doc = "The results of a collective-permute-start.",
          .infer = InferSecondElement,
          .evaluate = EvaluateSecondElement,
          .no_dim_rule = "an asynchronous op goes with the computation it wraps"};
}

}  // namespace weft::hlo
