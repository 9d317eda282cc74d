// Runs a Program slowly and obviously, with every access checked: what backends are compared with.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "program/program.h"

namespace weft::program {

struct InterpretOptions {
  int64_t max_instructions = 1'000'000'000;  // kernel instructions and steps of all devices
  int64_t max_bytes = int64_t{1} << 30;      // memory of all devices
  // Also finds iterations of concurrent loops that touch what another one writes. Slower.
  bool check_races = false;
  const std::atomic<bool>* cancel = nullptr;  // set: ends with an error
  // Called behind each step that is neither a loop nor a conditional; of those, behind each inside.
  std::function<void(const Step&)> after_step;
  // Channels to the host. Absent: such steps are an error.
  std::function<Status(int64_t device, int64_t channel, std::span<const std::byte>)> send;
  std::function<Status(int64_t device, int64_t channel, std::span<std::byte>)> recv;
  // Routines that library.h does not know; one span for each use.
  std::function<Status(int64_t device, const Step&, std::span<const std::span<std::byte>>)> call;
};

// Arguments by parameter number; results by result number. The program is verified first.
Result<std::vector<Literal>> Interpret(const Program& program, std::span<const Literal> arguments,
                                       const InterpretOptions& options = {});

// The same on program.devices devices: arguments[device][parameter].
Result<std::vector<std::vector<Literal>>> InterpretDevices(
    const Program& program, std::span<const std::vector<Literal>> arguments,
    const InterpretOptions& options = {});

// On memory of the caller's, in the order of the buffers' layouts: an address for each buffer that
// has storage, by its number; null: the interpreter's own. The program has been verified. Without
// collectives.
Status InterpretOn(const Program& program, int64_t device, std::span<std::byte* const> addresses,
                   const InterpretOptions& options = {});

// What a constant is in memory.
std::vector<std::byte> ConstantBytes(const Buffer& buffer);

// Parts of the interpreter.
namespace detail {

struct Budget {
  int64_t instructions, bytes;
  const std::atomic<bool>* cancel = nullptr;
  Status Spend(int64_t n);    // instructions
  Status Reserve(int64_t n);  // bytes
};

// The result bits of one lane of a computing operation; see Value::bits. `from`: operand type.
uint64_t EvalLane(const Instr& instr, DType from, uint64_t a, uint64_t b, uint64_t c);

Status RunKernel(const Kernel& kernel, std::span<const std::span<std::byte>> params, Budget& budget,
                 bool check_races);

}  // namespace detail
}  // namespace weft::program
