#include "hlo/attrs.h"
#include "hlo/evaluate/random.h"
#include "hlo/instruction.h"
#include "hlo/op.h"
#include "hlo/ops/shape_rules.h"

namespace weft::hlo {
namespace {

Result<Shape> InferRng(const InferArgs& args) {
  TRY(ExpectDeclaredArray(args));
  if (args.size() < 2) {
    return InvalidArgument("rng: takes 2 operands, got ", args.size());
  }
  const Shape& to = *args.declared;
  for (int64_t i = 0; i < 2; ++i) {
    const Shape& parameter = args.operand(i);
    if (!parameter.IsScalar() || !TypesAgree(parameter.dtype(), to.dtype())) {
      return InvalidArgument("rng: operand ", i, " must be a scalar of the result's type ",
                             Name(to.dtype()), ", got ", parameter.ToStringWithoutLayout());
    }
  }
  Distribution distribution = args.attrs.As<RngAttrs>().distribution;
  bool fine = distribution == Distribution::kNormal
                  ? IsFloat(to.dtype())
                  : distribution == Distribution::kUniform && !IsComplex(to.dtype());
  if (!fine) {
    return InvalidArgument("rng: distribution ", Name(distribution), " of ",
                           to.ToStringWithoutLayout(), " is not defined");
  }
  return WithoutLayout(to);
}

// XLA looks at the tuple form alone: (state, bits). The form with bits alone is accepted.
Result<Shape> InferRngBitGenerator(const InferArgs& args) {
  TRY(ExpectArrayOperand(args, 0));
  TRY(ExpectDeclaredShape(args));
  const Shape& state = args.operand(0);
  const Shape& to = *args.declared;
  if (to.IsArray()) return WithoutLayout(to);
  if (!to.IsTuple() || to.tuple_size() != 2 || !to.tuple_element(1).IsArray() ||
      !Shape::Compatible(state, to.tuple_element(0))) {
    return InvalidArgument("rng-bit-generator: the result must be a tuple of the state ",
                           state.ToStringWithoutLayout(), " and an array, got ",
                           to.ToStringWithoutLayout());
  }
  return WithoutLayout(to);
}

Result<Shape> InferRngState(const InferArgs& args) {
  TRY(ExpectDeclaredArray(args));
  Shape state(DType::kU64, {2});
  if (!Shape::Compatible(*args.declared, state)) {
    return InvalidArgument("rng-get-and-update-state: the result must be u64[2], got ",
                           args.declared->ToStringWithoutLayout());
  }
  return state;
}

}  // namespace

template <>
OpRow Define<Op::kRng>() {
  return {.doc =
              "Random numbers, uniform in [operand 0, operand 1) or normal of mean operand 0 "
              "and standard deviation operand 1; a new draw at each evaluation.",
          .infer = InferRng,
          .evaluate = EvaluateRng,
          .no_dim_rule = "bits depend on places in the whole result: made whole on every device"};
}

template <>
OpRow Define<Op::kRngBitGenerator>() {
  return {.doc =
              "Random bits as a pure function of a state (key first, then counter) and the new "
              "state, by Threefry-2x32 or Philox-4x32 (the default).",
          .infer = InferRngBitGenerator,
          .evaluate = EvaluateRngBitGenerator,
          .no_dim_rule =
              "bits depend on places in the whole result: made whole on every device, "
              "or as runs of counters (compiler/spmd/partition_random.cc)"};
}

template <>
OpRow Define<Op::kRngGetAndUpdateState>() {
  return {.doc =
              "The 128-bit state of the device's generator as u64[2], which then advances by "
              "delta. The evaluator gives each evaluation of the op a fresh state.",
          .infer = InferRngState,
          .evaluate = EvaluateRngGetAndUpdateState,
          .no_dim_rule = "bits depend on places in the whole result: made whole on every device"};
}

}  // namespace weft::hlo
