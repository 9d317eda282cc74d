// Native regions (program/regions.h) as one kernel each: their text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/render_program.h"
#include "program/program.h"
#include "program/target_gpu.h"

namespace weft::gpu {

constexpr int64_t kLoopThreads = program::GpuFigures::kLoopThreads;

CudaFunction RenderNativeLoop(const program::Program& program, const program::Step& loop,
                              std::string name, std::string& out);

}  // namespace weft::gpu
