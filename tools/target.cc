#include "target.h"

#include "base/str.h"
#include "cpu/device.h"
#include "hlo/evaluate.h"
#include "hlo/random_arguments.h"
#include "program/interpret.h"
#include "run_input.h"

namespace weft::tools {
namespace {

void AppendArrayLeaves(const Literal& value, std::vector<Literal>& leaves) {
  for (const Literal& element : value.tuple()) AppendArrayLeaves(element, leaves);
  if (value.shape().IsArray()) leaves.push_back(value);
}

}  // namespace

Result<program::TargetInfo> FindTarget(std::string_view name) {
  if (name == "cpu") return cpu::HostTarget();
  std::string known = "cpu";
  for (const program::NamedTarget& target : program::NamedTargets()) {
    if (target.name == name) return target.make();
    StrAppend(known, ", ", target.name);
  }
  return InvalidArgument("unknown target: ", name, "; known are ", known);
}

Result<std::string> CompareWithEvaluator(const hlo::Module& module, const program::Program& program,
                                         double tolerance) {
  constexpr uint64_t kRounds = 2;
  for (uint64_t seed = 0; seed < kRounds; ++seed) {
    std::vector<Literal> arguments = TRY(hlo::RandomArguments(*module.entry(), seed)), leaves, want;
    for (const Literal& argument : arguments) AppendArrayLeaves(argument, leaves);
    AppendArrayLeaves(TRY(hlo::Evaluate(module, arguments)), want);
    program::InterpretOptions options;
    options.check_races = true;
    std::vector<Literal> got = TRY(program::Interpret(program, leaves, options));
    if (got.size() != want.size()) return StrCat(got.size(), " results, not ", want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      std::string what = CompareLeaves(want[i], got[i], {.relative = tolerance});
      if (!what.empty()) return StrCat("result ", i, " on arguments ", seed, ": ", what);
    }
  }
  return std::string();
}

}  // namespace weft::tools
