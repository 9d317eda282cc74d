// Runs an input on the evaluator (HLO) or the interpreter (Program), and shows and compares
// results. Values are handled as leaves: the arrays of nested tuples, in order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "input.h"
#include "runtime/compare.h"

namespace weft::tools {

struct RunOptions {
  uint64_t seed = 0;           // of random inputs and of random numbers in the module
  int64_t devices = 0;         // 0: what the module's header says
  int64_t max_loop_steps = 0;  // 0: the evaluator's default, a million when inputs are random
  bool flush_subnormals = false;
  std::vector<Literal> inputs;  // the first leaves of all parameters; the others are random
  // The module whose random inputs are taken, when not the one that runs: what a parameter is used
  // for decides on its values.
  const hlo::Module* inputs_of = nullptr;
};

// How many devices a run is on.
Result<int64_t> DeviceCount(const Input& input, const RunOptions& options);
// What each of them gets, as the parameters take it.
Result<std::vector<std::vector<Literal>>> ArgumentsOf(const Input& input,
                                                      const RunOptions& options);
// The shapes of the leaves of all parameters, in order.
std::vector<Shape> ParameterLeaves(const Input& input);

// How run-time sizes differ, else empty; what lies beyond them is zero afterwards.
std::string CompareSizes(Literal& want, Literal& got);

// Leaves of the result for each device.
using DeviceResults = std::vector<std::vector<Literal>>;
struct RunResult {
  DeviceResults devices;
  bool is_tuple = false;  // leaves are shown with numbers
};
Result<RunResult> RunInput(const Input& input, const RunOptions& options);

// One line a leaf: `f32[2] {1, 2}`, with `0: ` in front when the result is a tuple, and a line
// `dev0:` before each device's when there are several. Longer arrays than max_elements (-1: none)
// print as {...}.
std::string FormatResults(const RunResult& result, int64_t max_elements = -1);

// What differs, or empty (runtime/compare.h); beyond run-time sizes nothing is compared.
std::string CompareLeaves(const Literal& want, const Literal& got,
                          const runtime::Tolerance& tolerance);

// Of whole programs: formats with few digits, which round after each operation, by those digits of
// the largest number around, as what cancels leaves errors of that size.
runtime::Tolerance ToleranceOf(const Literal& want, double tolerance);
// Whether every array of every device is the evaluator's; says so.
Status CheckDevices(const RunResult& wanted, const DeviceResults& got, double tolerance);

}  // namespace weft::tools
