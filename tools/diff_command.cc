// weft diff: do two modules compute the same?
#include <cstdio>

#include "commands.h"
#include "run_input.h"

namespace weft::tools {
namespace {

// Both modules get the random inputs of the first.
Result<RunResult> LoadAndRun(const std::string& file, RunOptions& options, Input& input,
                             std::vector<Shape>& parameters) {
  std::string content = TRY(ReadInput(file));
  input = TRY(ParseInput(content));
  TRY(VerifyInput(input, content));
  parameters = ParameterLeaves(input);
  if (auto* module = std::get_if<0>(&input); module && options.inputs_of == nullptr) {
    options.inputs_of = module->get();
  }
  Result<RunResult> result = RunInput(input, options);
  if (!result) return std::unexpected(Locate(std::move(result.error()), content));
  return result;
}

// Prints what differs; true when nothing does.
bool CompareRuns(const RunResult& a, const RunResult& b, double tolerance) {
  if (a.devices.size() != b.devices.size() || a.devices[0].size() != b.devices[0].size()) {
    std::printf("the modules have different numbers of devices or results\n");
    return false;
  }
  bool same = true;
  for (size_t d = 0; d < a.devices.size(); ++d) {
    for (size_t i = 0; i < a.devices[d].size(); ++i) {
      std::string what = CompareLeaves(a.devices[d][i], b.devices[d][i], tolerance);
      if (what.empty()) continue;
      same = false;
      std::string where = a.devices.size() > 1 ? StrCat("dev", d, " ") : "";
      std::printf("%sresult %zu: %s\n", where.c_str(), i, what.c_str());
    }
  }
  return same;
}

Result<int> RunDiff(Args args) {
  RunOptions options;
  double tolerance = args.Number("--tolerance", 1e-5);
  options.seed = static_cast<uint64_t>(args.Int("--seed", 0, 0));
  options.devices = args.Int("--devices", 0, 1, 1024);
  std::vector<std::string> files = TRY(args.Finish(2, 2));
  std::vector<RunResult> results;
  std::vector<Shape> parameters[2];
  Input inputs[2];
  for (int i = 0; i < 2; ++i) {
    Result<RunResult> result = LoadAndRun(files[i], options, inputs[i], parameters[i]);
    if (!result) {
      Report(result.error(), files[i]);
      return kFailed;
    }
    results.push_back(*std::move(result));
  }
  bool same_parameters = parameters[0].size() == parameters[1].size();
  for (size_t i = 0; same_parameters && i < parameters[0].size(); ++i) {
    same_parameters = Shape::Compatible(parameters[0][i], parameters[1][i]);
  }
  if (!same_parameters) {
    std::printf("the modules have different parameters\n");
    return kFailed;
  }
  if (!CompareRuns(results[0], results[1], tolerance)) return kFailed;
  std::printf("%zu results agree\n", results[0].devices.size() * results[0].devices[0].size());
  return kOk;
}

}  // namespace

constexpr Command kDiffCommand = {"diff", "compares the results of two modules",
                                  R"(usage: weft diff [--tolerance T] [--seed N] [--devices N] A B

Evaluates both modules on the same random inputs and compares the results. Floats may differ by
T * max(1, |a|), where T is 1e-5 unless given; everything else must be equal. Exit status 1 when
something differs.

  --tolerance T  0: equal values
  --seed N       seed of the inputs (default 0)
  --devices N    simulate N devices

examples:
  weft diff before.hlo after.hlo
  weft opt --passes=simplify model.hlo | weft diff --tolerance 0 model.hlo -
)",
                                  RunDiff};

}  // namespace weft::tools
