// What the memory of a program is for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "program/program.h"
#include "runtime/device.h"

namespace weft::runtime {

// Bytes while a program runs, all but its code.
struct MemoryUse {
  int64_t arguments = 0, results = 0;
  int64_t alias = 0;  // of the results that lie in arguments
  int64_t constants = 0;
  int64_t temps = 0;
  int64_t peak() const { return arguments + results - alias + constants + temps; }
};
MemoryUse MemoryOf(const program::Program& program, int64_t temp_bytes);

// The largest buffers, one line each: size, what for, shape, the step that first writes it and its
// source line; among them what a step takes for itself.
std::vector<std::string> LargestBuffers(const program::Program& program, size_t count,
                                        const Scratch& scratch = {});

std::string HumanBytes(int64_t bytes);  // "1.50 GB", "4 bytes"

}  // namespace weft::runtime
