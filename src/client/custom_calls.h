// Custom calls: who does them. The evaluator knows some; foreign code and callbacks into the
// framework's language are registered by whoever embeds the client (pjrt/ffi).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "hlo/instruction.h"
#include "hlo/module.h"

namespace weft::client {

// A call of foreign code, made ready once and run many times.
class ForeignCall {
 public:
  virtual ~ForeignCall() = default;
  // `memory`: the arrays of the operands, then those of the results, row-major. A result may lie
  // where the operand that it aliases does.
  virtual Status Run(std::span<const std::span<std::byte>> memory) const = 0;
  // Memory that Run takes for arrays in another order; handlers may take more.
  virtual int64_t scratch_bytes() const = 0;
};

class ForeignCalls {
 public:
  virtual ~ForeignCalls() = default;
  virtual bool Has(std::string_view target) const = 0;
  // Unimplemented for a target that it does not have.
  virtual Result<std::unique_ptr<ForeignCall>> Prepare(const hlo::Instruction& call) const = 0;
  // A custom call of kCallbackTarget, and whether it is called on every device with its part.
  virtual Result<Literal> CallBack(const hlo::Instruction& call,
                                   std::span<Literal> operands) const = 0;
  virtual bool IsPartitioned(const hlo::Instruction& call) const = 0;
  // Tells the framework's function `id` something at compile time: bytes, which it gets as an
  // array.
  virtual Status Tell(uint64_t id, std::string_view bytes) const = 0;
  // The same for a function that answers.
  virtual Result<std::string> Ask(uint64_t id, std::string_view bytes) const = 0;
};
// One for the process, which stays for good; null: none.
void SetForeignCalls(const ForeignCalls* calls);
bool HasForeignCall(std::string_view target);
Result<std::unique_ptr<ForeignCall>> PrepareForeignCall(const hlo::Instruction& call);

inline constexpr std::string_view kLapackPrefix = "lapack_";
inline constexpr std::string_view kCallbackTarget = "weft_python_callback";

// Evaluates a custom call that the evaluator does not know. Unimplemented for a target that nobody
// registered. Fit for hlo::EvalOptions::custom_call.
Result<Literal> RunCustomCall(const hlo::Instruction& call, std::span<Literal> operands);
// An Unimplemented error when nobody can evaluate the call and something depends on it.
Status CheckCustomCall(const hlo::Instruction& call);
// The error for a target that nobody registered.
Error NoForeignCall(std::string_view target);

// Whether the module has a custom call that runs Python or foreign code.
bool CallsOut(const hlo::Module& module);
// The same, but for routines of LAPACK, which only compute: a program with others never runs on the
// caller's thread as a "tiny" one.
bool CallsOutBeyondLapack(const hlo::Module& module);
// Whether it calls back into Python: such a program is done when Execute returns, so that what it
// prints comes before what its caller prints next, and what it raises is raised by the call.
bool CallsBack(const hlo::Module& module);
// A host callback that is called on every device with its part of the operands.
bool IsPartitionedCallback(const hlo::Instruction& instruction);
Status TellFramework(uint64_t id, std::string_view bytes);
Result<std::string> AskFramework(uint64_t id, std::string_view bytes);

// Array and token leaves of a value, in order.
void CollectLeaves(Literal& value, std::vector<Literal*>& leaves);
// A literal of this shape, tuples and tokens included, arrays zeroed.
Result<Literal> AllocateResult(const Shape& shape);
std::string_view BackendConfig(const hlo::Instruction& call);

}  // namespace weft::client
