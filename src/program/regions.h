// Native regions (loop outlining): which loops become one function, with their kernels inlined, and
// which of their buffers it keeps in registers. A pass from Program to Program: what it decides is
// printed with the loops (`region(...)`, FORMAT.md), and backends only read it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "program/program.h"
#include "program/target.h"

namespace weft::program {

// What a target takes. The defaults are those of CPUs.
struct RegionLimits {
  size_t kernel_code = 1500, code = 5000;  // instructions of one kernel and of all (HotCode)
  int depth = 8;                // loops in loops: passes for loops look at each from all others
  int64_t grid_work = 1 << 15;  // a grid of more work is worth several threads
  int64_t array_bytes = 16384;  // of one kernel
  int64_t local_bytes = 4096, local_bytes_in_all = 16384;
  int64_t copied_bytes = 1024;    // of a local whose content comes from or goes outside
  int64_t borrowed_bytes = 256;   // of parameters and results that are locals
  int64_t constant_bytes = 1024;  // of constants that become part of the code
  int64_t prologue_bytes = 4096;  // of a copy or fill before the loop that runs in it
  size_t prologue_steps = 64;     // looked at
  OpLatency latency = {};         // for the depths of recurrences
};

// The regions of a target: of CPUs as below, by their usual limits; of GPUs loops that one block
// has sooner done than launches of their steps by all cores (block_regions.cc).
void ChooseRegions(Program& program, const TargetInfo& target);

// Of CPUs. A region is a `while` of kernels, copies, fills, ifs and whiles of little code each.
// Copies and fills before it that set its state become its prologue, and move next to it: what a
// counter starts at says which indices are in range. Replaces what regions there were.
void ChooseRegions(Program& program, const RegionLimits& limits = {});

}  // namespace weft::program
