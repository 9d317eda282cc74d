// weft diff: do two modules compute the same?
#include <algorithm>
#include <cstdio>

#include "commands.h"
#include "joined_run.h"
#include "run_input.h"

namespace weft::tools {
namespace {

struct LoadedInput {
  std::string content;
  Input input;
};

Result<LoadedInput> LoadInput(const std::string& file) {
  std::string content = TRY(ReadInput(file));
  Input input = TRY(ParseInput(content));
  TRY(VerifyInput(input, content));
  return LoadedInput{std::move(content), std::move(input)};
}

// How the arrays that they take differ; empty when they do not.
std::string ParameterDifference(const Input& a, const Input& b) {
  std::vector<Shape> of_a = ParameterLeaves(a), of_b = ParameterLeaves(b);
  if (of_a.size() != of_b.size()) {
    return StrCat("the first takes ", of_a.size(), " arrays, the second ", of_b.size());
  }
  for (size_t i = 0; i < of_a.size(); ++i) {
    if (Shape::Compatible(of_a[i], of_b[i])) continue;
    return StrCat("number ", i, " is ", of_a[i].ToStringWithoutLayout(), " of the first and ",
                  of_b[i].ToStringWithoutLayout(), " of the second");
  }
  return "";
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
      std::string what = CompareLeaves(a.devices[d][i], b.devices[d][i], {.relative = tolerance});
      if (what.empty()) continue;
      same = false;
      std::string where = a.devices.size() > 1 ? StrCat("dev", d, " ") : "";
      std::printf("%sresult %zu: %s\n", where.c_str(), i, what.c_str());
    }
  }
  return same;
}

// The parts of the first, on arguments cut for them, beside the whole of the second.
Result<bool> CompareJoined(const LoadedInput& a, const LoadedInput& b, RunOptions options,
                           double tolerance) {
  const auto *first = std::get_if<0>(&a.input), *second = std::get_if<0>(&b.input);
  if (first == nullptr || second == nullptr) return InvalidArgument("--joined takes two modules");
  std::unique_ptr<hlo::Module> split;
  if (IsToSplit(**first)) split = TRY(Split(**first));
  const hlo::Module& parts = split != nullptr ? *split : **first;
  RunResult joined = TRY(EvaluateParts(**second, parts, options));
  options.devices = 1;
  RunResult whole = TRY(RunInput(b.input, options));
  if (!CompareRuns(whole, joined, tolerance)) return false;
  std::printf("%zu results agree\n", joined.devices[0].size());
  return true;
}

Result<int> RunDiff(Args args) {
  RunOptions options;
  const bool joined = args.Flag("--joined");
  double tolerance = args.Number("--tolerance", 1e-5);
  options.seed = static_cast<uint64_t>(args.Int("--seed", 0, 0));
  options.devices = args.Int("--devices", 0, 1, 1024);
  std::vector<std::string> files = TRY(args.Finish(2, 2));
  std::vector<LoadedInput> loaded;
  for (const std::string& file : files) {
    Result<LoadedInput> input = LoadInput(file);
    if (!input) {
      Report(input.error(), file);
      return kFailed;
    }
    loaded.push_back(*std::move(input));
  }
  if (joined) {
    Result<bool> same = CompareJoined(loaded[0], loaded[1], options, tolerance);
    if (same) return *same ? kOk : kFailed;
    Report(same.error(), files[0]);
    return kFailed;
  }
  if (std::string how = ParameterDifference(loaded[0].input, loaded[1].input); !how.empty()) {
    std::printf("the modules have different parameters: %s\n", how.c_str());
    return kFailed;
  }
  // Both get the random inputs of the first.
  if (auto* first = std::get_if<0>(&loaded[0].input)) options.inputs_of = first->get();
  std::vector<RunResult> results;
  for (size_t i = 0; i < 2; ++i) {
    Result<RunResult> result = RunInput(loaded[i].input, options);
    if (!result) {
      Report(Locate(std::move(result.error()), loaded[i].content), files[i]);
      return kFailed;
    }
    results.push_back(*std::move(result));
  }
  if (!CompareRuns(results[0], results[1], tolerance)) return kFailed;
  std::printf("%zu results agree\n", results[0].devices.size() * results[0].devices[0].size());
  return kOk;
}

}  // namespace

constexpr Command kDiffCommand = {
    "diff", "compares the results of two modules",
    R"(usage: weft diff [--tolerance T] [--seed N] [--devices N | --joined] A B

Evaluates both modules on the same random inputs and compares the results. Floats may differ by
T * max(1, |a|), where T is 1e-5 unless given; everything else must be equal. Exit status 1 when
something differs.

  --tolerance T  0: equal values
  --seed N       seed of the inputs (default 0)
  --devices N    simulate N devices
  --joined       A is split over devices (weft opt --passes=propagate-shardings,partition; done here
                 where it only has shardings): its parts, joined, against the whole of B

examples:
  weft diff before.hlo after.hlo
  weft opt --passes=simplify model.hlo | weft diff --tolerance 0 model.hlo -
  weft opt --passes=propagate-shardings,partition model.hlo | weft diff --joined - model.hlo
)",
    RunDiff};

}  // namespace weft::tools
