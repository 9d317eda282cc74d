// The steps of one run of a program, given to a stream.
#pragma once

#include <cstddef>
#include <vector>

#include "base/error.h"
#include "gpu/cuda_stream.h"
#include "gpu/gpu_timeline.h"
#include "gpu/loaded_program.h"
#include "runtime/device.h"

namespace weft::gpu {

// `addresses`: of the program's buffers; `scratch`: for routines; `timeline` may be null. Where the
// host has to know something, it waits for the stream.
Status EnqueueSteps(const CudaLoadedProgram& loaded, const runtime::Call& call, CudaStream& stream,
                    std::vector<std::byte*> addresses, std::byte* scratch, RunTimeline* timeline);

}  // namespace weft::gpu
