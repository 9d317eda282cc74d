// weft eval.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>

#include "base/file.h"
#include "base/npy.h"
#include "commands.h"
#include "joined_run.h"
#include "run_input.h"

namespace weft::tools {
namespace {

struct EvalRequest {
  std::string file;
  std::vector<std::string> inputs;
  std::optional<std::string> out;
  int64_t max_elements = 0;
  bool stats = false;
  RunOptions run;
};

double Milliseconds(std::chrono::steady_clock::duration d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

// DIR/0.npy, DIR/1.npy, ... and types.txt; tokens have a number but no file.
Status WriteLeaves(const std::string& dir, const std::vector<Literal>& leaves) {
  std::error_code ec;
  std::filesystem::create_directories(dir, ec);
  if (ec) return MakeError(Code::kUnavailable, "cannot create ", dir, ": ", ec.message());
  std::string types;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i].shape().IsArray()) continue;
    TRY(WriteNpy(StrCat(dir, "/", i, ".npy"), leaves[i]));
    AppendNpyTypeLine(types, static_cast<int64_t>(i), leaves[i].shape());
  }
  return WriteFile(dir + "/types.txt", types);
}

Status WriteResults(const std::string& dir, const DeviceResults& devices) {
  if (devices.size() == 1) return WriteLeaves(dir, devices[0]);
  for (size_t d = 0; d < devices.size(); ++d) {
    TRY(WriteLeaves(StrCat(dir, "/dev", d), devices[d]));
  }
  return {};
}

Status ReadInputs(const Input& input, EvalRequest& request) {
  std::vector<Shape> leaves = ParameterLeaves(input);
  if (request.inputs.size() > leaves.size()) {
    return InvalidArgument(request.inputs.size(), " inputs are given, the parameters have ",
                           leaves.size());
  }
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    request.run.inputs.push_back(TRY(ReadNpyAs(request.inputs[i], leaves[i])));
  }
  return {};
}

// What the module is made of, most frequent op first.
std::string DescribeModule(const hlo::Module& module) {
  std::map<std::string_view, int64_t> counts;
  for (const auto& computation : module.computations()) {
    for (const hlo::Instruction* i : *computation) ++counts[hlo::Mnemonic(i->op())];
  }
  std::vector<std::pair<int64_t, std::string_view>> order;
  for (auto [name, n] : counts) order.emplace_back(-n, name);
  std::sort(order.begin(), order.end());
  std::string out = StrCat("module ", module.name(), ": ", module.instruction_count(),
                           " instructions in ", module.computations().size(), " computations\n  ");
  for (size_t i = 0; i < order.size() && i < 12; ++i) {
    StrAppend(out, i == 0 ? "" : ", ", -order[i].first, " ", order[i].second);
  }
  if (order.size() > 12) StrAppend(out, ", ", order.size() - 12, " other kinds");
  return out + "\n";
}

// A module with shardings runs as the parts that it is split into.
Result<RunResult> EvaluateInput(const Input& input, const RunOptions& options) {
  const auto* module = std::get_if<0>(&input);
  if (module == nullptr || options.devices != 0 || !IsToSplit(**module)) {
    return RunInput(input, options);
  }
  return EvaluateParts(**module, *TRY(Split(**module)), options);
}

Status EvalOne(EvalRequest& request) {
  using Clock = std::chrono::steady_clock;
  std::string content = TRY(ReadInput(request.file));
  auto t0 = Clock::now();
  Input input = TRY(ParseInput(content));
  auto t1 = Clock::now();
  TRY(VerifyInput(input, content));
  auto t2 = Clock::now();
  TRY(ReadInputs(input, request));
  Result<RunResult> result = EvaluateInput(input, request.run);
  if (!result) return std::unexpected(Locate(std::move(result.error()), content));
  auto t3 = Clock::now();
  std::string text;
  if (request.stats) {
    if (const auto* module = std::get_if<0>(&input)) text += DescribeModule(**module);
    char line[160];
    std::snprintf(line, sizeof(line),
                  "parsed in %.2f ms, verified in %.2f ms, evaluated in %.2f ms\n",
                  Milliseconds(t1 - t0), Milliseconds(t2 - t1), Milliseconds(t3 - t2));
    text += line;
  }
  text += FormatResults(*result, request.max_elements);
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (request.out) TRY(WriteResults(*request.out, result->devices));
  return {};
}

Result<int> RunEval(Args args) {
  EvalRequest request;
  request.inputs = args.Values("--input");
  request.out = args.Value("--out");
  request.stats = args.Flag("--stats");
  request.max_elements = args.Int("--max-elements", 1'000'000, -1);
  request.run.seed = static_cast<uint64_t>(args.Int("--seed", 0, 0));
  request.run.devices = args.Int("--devices", 0, 1, 1024);
  request.run.max_loop_steps = args.Int("--max-loop-steps", 0, 1);
  request.file = TRY(args.Finish(1, 1))[0];
  Status status = EvalOne(request);
  if (status) return kOk;
  Report(status.error(), request.file);
  return kFailed;
}

}  // namespace

constexpr Command kEvalCommand = {"eval", "evaluates a module and prints the results",
                                  R"(usage: weft eval [FLAG]... FILE

Evaluates the entry computation with the reference evaluator (a Program: with the interpreter) and
prints the results, one line each: `f32[2] {1, 2}`; those of a tuple with a number in front. A
module with shardings is split over its partitions; arguments and results are whole.

  --input A.npy       value of the next parameter (of the next array of nested tuples), in order;
                      parameters without one get random values
  --seed N            seed of random values (default 0)
  --devices N         simulate N devices (default: replica_count x num_partitions of the module); each
                      has the whole module, also where that has shardings
  --out DIR           also write DIR/0.npy, DIR/1.npy, ... and DIR/types.txt, which says what each
                      one is (NumPy lacks some types: those are written as their bits); with
                      several devices DIR/dev0/0.npy, ...
  --max-loop-steps N  give up after N iterations of while loops (default: 100 million; a million
                      when parameters get random values)
  --max-elements N    print larger arrays as {...} (default 1000000; -1: print all)
  --stats             also print what the module contains and how long each stage took

examples:
  weft eval examples/train_mlp.hlo
  weft eval add.hlo --input a.npy --input b.npy --out results
  weft eval all_reduce.hlo --devices 4 --seed 7
)",
                                  RunEval};

}  // namespace weft::tools
