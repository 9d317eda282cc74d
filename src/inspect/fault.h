// What makes a program wrong: a pass, lowering, or native code.
//
// The evaluator says what a module means. The Program's interpreter says what a step means. Native
// code whose steps all agree with the interpreter, in a program whose results do not agree with the
// evaluator, was lowered wrongly, or a pass changed what the module means: the evaluator on the
// module between passes tells which.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "compiler/options.h"
#include "compiler/pipeline.h"
#include "hlo/evaluate.h"
#include "hlo/module.h"
#include "runtime/device.h"

namespace weft::inspect {

enum class FaultKind { kNone, kPass, kLowering, kCode };

struct Fault {
  FaultKind kind = FaultKind::kNone;
  std::string pass;    // kPass: its name and how many passes changed the module before it
  std::string op;      // the first operation that comes out differently, where one is found
  std::string source;  // its source line
  std::string what;    // a sentence on the difference

  // "pass simplify changes results: ..."; "" for kNone.
  std::string ToString() const;
};

struct FaultRequest {
  const hlo::Module& module;
  const compiler::CompileOptions& options;
  runtime::Device& device;
  std::span<const Literal> arguments;  // the arrays among the leaves of the parameters, in order
  hlo::EvalOptions eval = {};
  // Routines that the device does not know (runtime::Call::call).
  const std::function<Status(const program::Step&, std::span<const std::span<std::byte>>)>* call =
      nullptr;
  std::vector<const compiler::Pass*> passes = {};  // empty: those of native code
};
// An error is what kept the module from being compiled or evaluated.
Result<Fault> FindFault(const FaultRequest& request);

// The entry's parameters from the arrays among their leaves; tokens are put in.
std::vector<Literal> ArgumentsFromLeaves(const hlo::Module& module,
                                         std::span<const Literal> leaves);
// The arrays among the leaves, in order.
void AppendArrays(const Literal& value, std::vector<Literal>& leaves);

// How results differ from those wanted; empty: not at all, but for rounding.
std::string CompareResults(std::span<const Literal> wanted, std::span<const Literal> got);

// A folder with the module, its arguments, what was found and the commands that show it again.
// Returns its path, or why there is none.
std::string WriteFaultFolder(const std::string& directory, const FaultRequest& request,
                             const std::string& report);

}  // namespace weft::inspect
