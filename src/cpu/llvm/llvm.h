// LLVM behind a plain interface: IR text to object files, object files to functions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace weft::cpu {

// What code is generated for. Without LLVM all are empty.
struct CodeTarget {
  std::string cpu, features;  // as LLVM names them
};
bool HasLlvm();
std::string LlvmVersion();  // "19.1.7"
CodeTarget HostCodeTarget();

// How much of LLVM's code generator runs.
enum class CodeEffort : uint8_t {
  kKernels,  // what loops of straight code need
  kLoops,    // also what shortens branches and recurrences
};

struct CompileStats {
  double parse_ms = 0, optimise_ms = 0, generate_ms = 0;
};

// Turns modules into object files, one at a time; making one costs a little, so keep it.
class Compiler {
 public:
  static Result<std::unique_ptr<Compiler>> Create(const CodeTarget& target);
  virtual ~Compiler() = default;
  // `passes`: LLVM's notation for a pipeline; empty: none. `assembly`, where given, receives the
  // text of the machine code.
  virtual Result<std::string> Compile(const std::string& text, const std::string& passes,
                                      CodeEffort effort, std::string* assembly,
                                      CompileStats* stats) = 0;
};

// Linked object files. Symbols that none of them defines come from the process.
class CodeImage {
 public:
  static Result<std::unique_ptr<CodeImage>> Link(std::span<const std::string> objects);
  virtual ~CodeImage() = default;
  virtual Result<void*> Find(const std::string& name) = 0;  // from one thread
};

}  // namespace weft::cpu
