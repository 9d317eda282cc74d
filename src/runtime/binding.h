// Which memory each buffer of a program has: arguments of the caller's, one block for temps, one
// for constants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/error.h"
#include "program/program.h"
#include "runtime/device.h"

namespace weft::runtime {

// Numbers of parameters and results, memory for each, results inside donated parameters.
Status CheckCall(const program::Program& program, const Call& call);

// Worked out once for a program that verifies and stays where it is.
class ProgramBinding {
 public:
  explicit ProgramBinding(const program::Program& program);

  int64_t temp_bytes() const { return temp_bytes_; }
  int64_t constant_bytes() const { return std::ssize(constants_); }
  // What the block of constants holds.
  const std::vector<std::byte>& constants() const { return constants_; }

  // Addresses by buffer; of those with a base too.
  std::vector<std::byte*> Bind(const Call& call, std::byte* temps, std::byte* constants) const;

 private:
  const program::Program& program_;
  std::vector<int64_t> offsets_;  // by buffer: in its block
  int64_t temp_bytes_ = 0;
  std::vector<std::byte> constants_;
};

// For devices whose memory is not the host's: no buffer is in host memory that is not pinned.
Status CheckSpaces(const program::Program& program);

}  // namespace weft::runtime
