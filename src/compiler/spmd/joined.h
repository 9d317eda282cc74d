// Whether a partitioned program computes what the whole one does: arguments are cut as the
// partitioned program says, evaluated on as many devices, and the results joined.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "compiler/spmd/form.h"
#include "hlo/evaluate.h"
#include "hlo/module.h"

namespace weft::compiler::spmd {

// Frontend attributes of a partitioned module: one tuple sharding for the leaves of all parameters,
// one for those of the result.
inline constexpr std::string_view kParameterShardings = "weft.parameter_shardings",
                                  kResultShardings = "weft.result_shardings";

bool IsPartitioned(const hlo::Module& module);

// The part that a device holds; zeroes beyond the end. Of summands, the first device has all.
Literal CutFor(const Literal& whole, const Form& form, const DeviceMesh& mesh, int64_t device);
// The whole from the parts of all devices; where several hold the same part they must agree (NaN
// with NaN), or what is wrong is an error.
Result<Literal> Join(const Shape& whole, std::span<const Literal> parts, const Form& form,
                     const DeviceMesh& mesh);

// Runs the part of every device on what that one gets; the results of all.
using RunParts =
    std::function<Result<std::vector<Literal>>(std::span<std::vector<Literal>> arguments)>;
// The result of a partitioned module on arguments of the whole one.
Result<Literal> RunJoined(const hlo::Module& whole, const hlo::Module& partitioned,
                          std::span<const Literal> arguments, const RunParts& run);
Result<Literal> EvaluateJoined(const hlo::Module& whole, const hlo::Module& partitioned,
                               std::span<const Literal> arguments,
                               const hlo::EvalOptions& options = {});

}  // namespace weft::compiler::spmd
