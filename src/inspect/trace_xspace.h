// Timelines as an XSpace, the protobuf that JAX's profiler collects and that xprof and TensorBoard
// show.
#pragma once

#include <string>

#include "base/trace.h"

namespace weft::inspect {

// Serialized. One plane of the host, a line for each thread, which the profiler joins with its own;
// and one for each device that ran something, with the lines "Steps", "XLA Modules" and "XLA Ops".
// `device_type`: what the devices are, for people.
std::string TraceXSpace(const trace::Capture& capture, const std::string& device_type);

}  // namespace weft::inspect
