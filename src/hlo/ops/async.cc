// Ops in two halves around a computation, and copies. Evaluation does all at the start (or at the
// update that brings the last operand) and carries the value to the done.
#include "hlo/attrs.h"
#include "hlo/evaluate.h"
#include "hlo/instruction.h"
#include "hlo/op.h"
#include "hlo/ops/called.h"

namespace weft::hlo {
namespace {

// The shape itself, or leading elements of a tuple, at any level; () is a prefix of everything.
bool IsPrefixOf(const Shape& prefix, const Shape& whole) {
  if (prefix.IsTuple() && prefix.tuple_size() == 0) return true;
  if (!prefix.IsTuple() || !whole.IsTuple()) return ShapesMatch(prefix, whole);
  if (prefix.tuple_size() > whole.tuple_size()) return false;
  for (int64_t i = 0; i < prefix.tuple_size(); ++i) {
    if (!IsPrefixOf(prefix.tuple_element(i), whole.tuple_element(i))) return false;
  }
  return true;
}

Status CheckAsyncForm(const InferArgs& args, const Shape& shape) {
  if (shape.IsTuple() && shape.tuple_size() >= 2 && shape.tuple_element(0).IsTuple()) return {};
  return InvalidArgument(Mnemonic(args.op), ": expected ((operands ...), result, ...), got ",
                         shape.ToStringWithoutLayout());
}

// Bound operands and result so far against the computation.
Status CheckAgainstComputation(const InferArgs& args, const Shape& shape) {
  const Computation* callee = args.attrs.As<AsyncAttrs>().calls;
  if (callee == nullptr) return {};
  std::vector<Shape> parameters;
  for (const Instruction* p : callee->parameters()) {
    if (p == nullptr) return InvalidArgument(Mnemonic(args.op), ": a parameter is missing");
    parameters.push_back(p->shape());
  }
  if (!IsPrefixOf(shape.tuple_element(0), Shape::Tuple(parameters))) {
    return InvalidArgument(
        Mnemonic(args.op), ": operands ", shape.tuple_element(0).ToStringWithoutLayout(),
        " do not match the parameters ", Shape::Tuple(parameters).ToStringWithoutLayout(), " of ",
        callee->name());
  }
  Shape result = TRY(ResultShape(Mnemonic(args.op), callee));
  if (!IsPrefixOf(shape.tuple_element(1), result)) {
    return InvalidArgument(Mnemonic(args.op), ": result ",
                           shape.tuple_element(1).ToStringWithoutLayout(), " does not match ",
                           result.ToStringWithoutLayout(), " of ", callee->name());
  }
  return {};
}

Result<Shape> InferAsyncStart(const InferArgs& args) {
  std::vector<Shape> operands;
  for (const Shape* operand : args.operands) operands.push_back(StripLayout(*operand));
  Shape bound = Shape::Tuple(std::move(operands));
  const Computation* callee = args.attrs.As<AsyncAttrs>().calls;
  if (args.declared == nullptr) {
    Shape result = TRY(ResultShape("async-start", callee));
    return Shape::Tuple({std::move(bound), std::move(result)});
  }
  TRY(CheckAsyncForm(args, *args.declared));
  TRY(CheckAgainstComputation(args, *args.declared));
  if (!ShapesMatch(bound, args.declared->tuple_element(0))) {
    return InvalidArgument("async-start: the operands are ", bound.ToStringWithoutLayout(),
                           ", the result says ",
                           args.declared->tuple_element(0).ToStringWithoutLayout());
  }
  return StripLayout(*args.declared);
}

Result<Shape> InferAsyncUpdate(const InferArgs& args) {
  if (args.size() < 1) return InvalidArgument("async-update: has no operand");
  TRY(CheckAsyncForm(args, args.operand(0)));
  if (args.declared == nullptr) return StripLayout(args.operand(0));
  const Shape& before = args.operand(0);
  const Shape& after = *args.declared;
  TRY(CheckAsyncForm(args, after));
  TRY(CheckAgainstComputation(args, after));
  for (int64_t i = 0; i < 2; ++i) {
    if (!IsPrefixOf(before.tuple_element(i), after.tuple_element(i))) {
      return InvalidArgument("async-update: ", before.ToStringWithoutLayout(), " does not become ",
                             after.ToStringWithoutLayout());
    }
  }
  int64_t bound = before.tuple_element(0).tuple_size();
  int64_t added = after.tuple_element(0).tuple_size() - bound;
  if (added != args.size() - 1) {
    return InvalidArgument("async-update: brings ", args.size() - 1, " operands, the result has ",
                           added, " more");
  }
  for (int64_t i = 0; i < added; ++i) {
    if (!ShapesMatch(args.operand(i + 1), after.tuple_element(0).tuple_element(bound + i))) {
      return InvalidArgument(
          "async-update: operand ", i + 1, " has shape ",
          args.operand(i + 1).ToStringWithoutLayout(), ", the result says ",
          after.tuple_element(0).tuple_element(bound + i).ToStringWithoutLayout());
    }
  }
  return StripLayout(after);
}

Result<Shape> InferAsyncDone(const InferArgs& args) {
  TRY(CheckAsyncForm(args, args.operand(0)));
  if (const Computation* callee = args.attrs.As<AsyncAttrs>().calls) {
    int64_t bound = args.operand(0).tuple_element(0).tuple_size();
    if (bound != static_cast<int64_t>(callee->parameters().size())) {
      return InvalidArgument("async-done: ", bound, " operands for ", callee->name(),
                             ", which takes ", callee->parameters().size());
    }
    return ResultShape("async-done", callee);
  }
  return StripLayout(args.operand(0).tuple_element(1));
}

Status CheckAsyncThread(const Instruction& instruction) {
  const auto& attrs = instruction.attrs<AsyncAttrs>();
  if (attrs.calls == nullptr) return {};
  const std::string& thread = attrs.calls->execution_thread();
  if (thread.empty() || thread == "main" || thread == attrs.async_execution_thread) return {};
  return InvalidArgument(Mnemonic(instruction.op()), ": runs on thread \"",
                         attrs.async_execution_thread, "\", its computation ", attrs.calls->name(),
                         " on \"", attrs.calls->execution_thread(), "\"");
}

// ((operands), result, zeroes). The computation runs once all operands and the whole result are
// there.
Result<Literal> CarryAsync(EvalContext& context, const Instruction& instruction,
                           std::vector<Literal> operands) {
  const Computation* callee = instruction.attrs<AsyncAttrs>().calls;
  if (callee == nullptr) {
    return InvalidArgument(Mnemonic(instruction.op()), ": calls no computation");
  }
  const Shape& shape = instruction.shape();
  if (!shape.IsTuple() || shape.tuple_size() < 2) {
    return InvalidArgument(Mnemonic(instruction.op()), ": has shape ", shape);
  }
  std::vector<Literal> elements;
  bool complete =
      operands.size() == callee->parameters().size() &&
      ShapesMatch(callee->root()->shape(), shape.tuple_element(1), MatchPrecision::kAnyFloat);
  if (complete) {
    std::vector<Literal> arguments = operands;
    Literal result = TRY(context.Call(*callee, arguments));
    elements.push_back(Literal::Tuple(std::move(operands)));
    elements.push_back(std::move(result));
  } else {
    elements.push_back(Literal::Tuple(std::move(operands)));
    elements.push_back(TRY(Literal::Allocate(StripLayout(shape.tuple_element(1)))));
  }
  for (int64_t i = 2; i < shape.tuple_size(); ++i) {
    elements.push_back(TRY(Literal::Allocate(StripLayout(shape.tuple_element(i)))));
  }
  return Literal::Tuple(std::move(elements));
}

Result<Literal> EvaluateAsyncStart(EvalContext& context, const Instruction& start,
                                   std::span<Literal> operands) {
  return CarryAsync(context, start, std::vector<Literal>(operands.begin(), operands.end()));
}

Result<Literal> EvaluateAsyncUpdate(EvalContext& context, const Instruction& update,
                                    std::span<Literal> operands) {
  if (ShapesMatch(operands[0].shape(), update.shape())) return std::move(operands[0]);
  std::vector<Literal> bound = operands[0].tuple()[0].tuple();
  bound.insert(bound.end(), operands.begin() + 1, operands.end());
  return CarryAsync(context, update, std::move(bound));
}

Result<Literal> EvaluateAsyncDone(EvalContext&, const Instruction&, std::span<Literal> operands) {
  return std::move(operands[0].mutable_tuple()[1]);
}

Result<Shape> InferCopyStart(const InferArgs& args) {
  Shape copied = StripLayout(args.operand(0));
  return Shape::Tuple({copied, copied, Shape::Scalar(DType::kU32)});
}

Result<Shape> InferCopyDone(const InferArgs& args) {
  const Shape& start = args.operand(0);
  if (!start.IsTuple() || start.tuple_size() < 2 ||
      !ShapesMatch(start.tuple_element(0), start.tuple_element(1))) {
    return InvalidArgument("copy-done: expected (copy, original, u32[]), got ",
                           start.ToStringWithoutLayout());
  }
  return StripLayout(start.tuple_element(0));
}

}  // namespace

template <>
OpRow Define<Op::kAsyncStart>() {
  return {.doc = "Starts a computation: ((operands ...), result, contexts ...).",
          .infer = InferAsyncStart,
          .check = CheckAsyncThread,
          .evaluate = EvaluateAsyncStart,
          .no_dim_rule = "an asynchronous op goes with the computation it wraps"};
}

template <>
OpRow Define<Op::kAsyncUpdate>() {
  return {.doc = "A point between start and done; may bring further operands.",
          .infer = InferAsyncUpdate,
          .check = CheckAsyncThread,
          .evaluate = EvaluateAsyncUpdate,
          .no_dim_rule = "an asynchronous op goes with the computation it wraps"};
}

template <>
OpRow Define<Op::kAsyncDone>() {
  return {.doc = "The result of an async-start.",
          .infer = InferAsyncDone,
          .check = CheckAsyncThread,
          .evaluate = EvaluateAsyncDone,
          .no_dim_rule = "an asynchronous op goes with the computation it wraps"};
}

template <>
OpRow Define<Op::kCopyStart>() {
  return {.doc = "Starts a copy: (copy, original, context).",
          .infer = InferCopyStart,
          .evaluate = [](EvalContext&, const Instruction&,
                         std::span<Literal> operands) -> Result<Literal> {
            Literal copy = operands[0];
            return Literal::Tuple(
                {std::move(copy), std::move(operands[0]), Literal(Shape::Scalar(DType::kU32))});
          },
          .no_dim_rule = "an asynchronous op goes with the computation it wraps"};
}

template <>
OpRow Define<Op::kCopyDone>() {
  return {.doc = "The copy of a copy-start.",
          .infer = InferCopyDone,
          .evaluate = [](EvalContext&, const Instruction&, std::span<Literal> operands)
              -> Result<Literal> { return std::move(operands[0].mutable_tuple()[0]); },
          .no_dim_rule = "an asynchronous op goes with the computation it wraps"};
}

}  // namespace weft::hlo
