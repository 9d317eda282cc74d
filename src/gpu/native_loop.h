// Loops that run as one kernel: which ones do, and their text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/render_program.h"
#include "program/program.h"
#include "program/target.h"

namespace weft::gpu {

constexpr int64_t kLoopThreads = 256;  // for grids without thread loops

// Its steps can run in one block, which is sooner done than with a launch each by all cores.
bool CanBeNativeLoop(const program::Program& program, const program::Step& loop,
                     const program::TargetInfo& target = program::TargetInfo::H200());
CudaFunction RenderNativeLoop(const program::Program& program, const program::Step& loop,
                              std::string name, std::string& out);

}  // namespace weft::gpu
