// Called computations: how many parameters, of what form, and on which thread.
#include "hlo/ops/called.h"

#include "hlo/verify/rules.h"

namespace weft::hlo {
namespace {

Status ExpectParameters(const Computation* computation, int64_t parameters, std::string_view what) {
  if (computation == nullptr) return InvalidArgument("has no ", what);
  if (static_cast<int64_t>(computation->parameters().size()) != parameters) {
    return InvalidArgument(what, " ", computation->name(), " must take ", parameters,
                           " parameters, it takes ", computation->parameters().size());
  }
  return {};
}

Status ExpectScalars(const Computation* computation, int64_t parameters, std::string_view what) {
  TRY(ExpectParameters(computation, parameters, what));
  for (const Instruction* parameter : computation->parameters()) {
    if (!parameter->shape().IsScalar()) {
      return InvalidArgument(what, " ", computation->name(), " must take scalars, ",
                             parameter->name(), " is ", parameter->shape().ToStringWithoutLayout());
    }
  }
  return {};
}

// The result is one scalar, or a tuple of `count` of them.
Status ExpectScalarResults(const Computation* computation, int64_t count, std::string_view what) {
  const Shape& result = computation->root()->shape();
  bool fits = count == 1 && result.IsScalar();
  if (result.IsTuple() && result.tuple_size() == count) {
    fits = true;
    for (const Shape& element : result.elements_of_tuple()) fits = fits && element.IsScalar();
  }
  if (fits) return {};
  return InvalidArgument(what, " ", computation->name(), " must return ", count,
                         count == 1 ? " scalar, it returns " : " scalars, it returns ",
                         result.ToStringWithoutLayout());
}

Status ExpectReducer(const Computation* computation, int64_t values) {
  TRY(ExpectScalars(computation, 2 * values, "reducer"));
  return ExpectScalarResults(computation, values, "reducer");
}

Status ExpectPredicate(const Computation* computation, int64_t parameters, std::string_view what) {
  TRY(ExpectScalars(computation, parameters, what));
  const Shape& result = computation->root()->shape();
  if (result.IsScalar() && result.dtype() == DType::kPred) return {};
  return InvalidArgument(what, " ", computation->name(), " must return pred[], it returns ",
                         result.ToStringWithoutLayout());
}

// Computations run on the thread of their caller.
Status ExpectSameThread(const Instruction& instruction) {
  auto name = [](const std::string& thread) -> std::string_view {
    return thread == "main" ? std::string_view() : std::string_view(thread);
  };
  for (const Computation* called : instruction.called_computations()) {
    if (name(called->execution_thread()) != name(instruction.parent()->execution_thread())) {
      return InvalidArgument("calls ", called->name(), " of thread \"", called->execution_thread(),
                             "\" from thread \"", instruction.parent()->execution_thread(), "\"");
    }
  }
  return {};
}

}  // namespace

Status VerifyCalled(const Instruction& instruction) {
  int64_t n = instruction.operand_count();
  switch (instruction.op()) {
    case Op::kReduce: return ExpectReducer(instruction.attrs<ReduceAttrs>().to_apply, n / 2);
    case Op::kReduceWindow:
      return ExpectReducer(instruction.attrs<ReduceWindowAttrs>().to_apply, n / 2);
    case Op::kScatter: return ExpectReducer(instruction.attrs<ScatterAttrs>().to_apply, n / 2);
    case Op::kAllReduce:
    case Op::kAllReduceStart:
      return ExpectParameters(instruction.attrs<AllReduceAttrs>().to_apply, 2, "reducer");
    case Op::kReduceScatter:
      return ExpectParameters(instruction.attrs<ReduceScatterAttrs>().to_apply, 2, "reducer");
    case Op::kCollectiveReduce:
      return ExpectParameters(instruction.attrs<CollectiveReduceAttrs>().to_apply, 2, "reducer");
    case Op::kSort:
      return ExpectPredicate(instruction.attrs<SortAttrs>().to_apply, 2 * n, "comparator");
    case Op::kSelectAndScatter: {
      const auto& attrs = instruction.attrs<SelectAndScatterAttrs>();
      TRY(ExpectPredicate(attrs.select, 2, "select"));
      return ExpectReducer(attrs.scatter, 1);
    }
    case Op::kMap: return ExpectScalars(instruction.attrs<MapAttrs>().to_apply, n, "computation");
    case Op::kFusion:
    case Op::kWhile:
    case Op::kConditional: return ExpectSameThread(instruction);
    default: return {};
  }
}

}  // namespace weft::hlo
