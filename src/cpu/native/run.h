// What running a NativeProgram needs beside it.
#pragma once

#include <utility>
#include <vector>

#include "base/doing.h"
#include "base/error.h"
#include "cpu/native/program.h"
#include "cpu/routines/scratch.h"
#include "runtime/beside.h"

namespace weft::cpu {

// The run that native code calls back to.
struct NativeProgram::Context : NativeContext {
  const NativeProgram* program = nullptr;
  const runtime::Call* run = nullptr;
  ThreadPool* pool = nullptr;
  ScratchRoom* room = nullptr;        // of routines; null: they take none
  runtime::Beside* beside = nullptr;  // where asynchronous lists go on; null: in place
  // Those that are under way, of the list of steps that this is.
  std::vector<std::pair<const program::Step*, runtime::Beside::TaskPtr>> started;
  Status status;  // why a step failed
  Doing* doing = nullptr;
  bool in_place = false;     // asynchronous steps too
  int64_t region_begin = 0;  // of the one that runs; regions do not nest
};

// The step as crash reports name it; lives as long as the step.
inline DoingItem ItemOf(const program::Step& step) {
  return {step.name, step.source};
}

// An error with the step's name and source line.
Error AtStep(const program::Step& step, Error error);

}  // namespace weft::cpu
