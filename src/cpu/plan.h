// What is decided about a Program before its code is written: where buffers lie, which steps C++
// runs. Which loops are native regions the Program says (program/regions.h).
//
// Steps outside regions that have no steps inside are data, not code: a sequence is a run of them,
// which costs nothing to compile.
//
// A native region is one function: kernels inlined, its locals on the stack, where LLVM makes
// registers of them, its constants known to LLVM, and its prologue first.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/error.h"
#include "cpu/render/ir_text.h"
#include "program/program.h"

namespace weft::cpu {

// Where a buffer with storage of its own lies at run time.
struct Place {
  int32_t slot = -1;   // in the table of addresses; slot 0 is the arena of temps
  int64_t offset = 0;  // into it
  int64_t bytes = 0;
};

struct Region {
  const program::Step* loop = nullptr;
  std::vector<program::RegionLocal> locals;  // by buffer
  std::vector<program::BufferId> pointers;   // other buffers with storage that it uses, sorted
  std::vector<bool> written;                 // of those: whether it writes them
  std::vector<program::BufferId> constants;  // those that the module holds, sorted
  std::vector<const program::Step*> prologue;
};

// An asynchronous list of steps: code of its own (ListName) where the program has control flow,
// else the one sequence that its steps are.
struct AsyncList {
  const program::Step* step = nullptr;
  int32_t sequence = -1;  // -1: it has none
};

struct Plan {
  std::vector<Place> places;  // by buffer; of those without a base
  int32_t slots = 1;
  int64_t arena_bytes = 0;
  std::vector<std::vector<const program::Step*>> sequences;
  std::map<const program::Step*, int32_t> sequence_numbers;  // by first step
  std::vector<const program::Step*>
      calls;  // steps of sequences: routines, collectives, channels, waits, asynchronous lists
  std::map<const program::Step*, int32_t> call_numbers;
  std::vector<Region> regions;
  std::map<const program::Step*, int32_t> region_numbers;
  std::vector<AsyncList> lists;
  std::map<const program::Step*, int32_t> list_numbers;
  // Kernels that come out as the same code as an earlier one: its number, else their own. The
  // flags below are of those that come first.
  std::vector<int32_t> same_as;
  std::vector<bool> launched;  // kernels that sequences and epilogues launch ...
  std::vector<bool> inlined;   // ... and those that are part of regions
  std::vector<bool> called;    // kernels that library routines call by name
};

// The program must verify and stay where it is.
Result<Plan> MakePlan(const program::Program& program, const RenderTarget& target);

}  // namespace weft::cpu
