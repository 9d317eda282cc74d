// Loops that run as one kernel: which ones do, and their text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/render_program.h"
#include "program/program.h"

namespace weft::gpu {

bool CanBeNativeLoop(const program::Program& program, const program::Step& loop);
CudaFunction RenderNativeLoop(const program::Program& program, const program::Step& loop,
                              std::string name, std::string& out);

}  // namespace weft::gpu
