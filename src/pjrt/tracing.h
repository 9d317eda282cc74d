// Timelines that the outside asks for: WEFT_TRACE, jax.profiler and the Python package.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "pjrt/abi_extensions.h"

namespace weft::pjrt {

// Records from now on and writes the file (inspect/trace_json.h) when the process ends. The first
// call counts.
void TraceProcess(const std::string& path);

// For weft.trace(path): a number for EndTrace, which writes the file.
int64_t BeginTrace(std::string path);
Status EndTrace(int64_t number);

// The functions of the Profiler extension.
const PLUGIN_Profiler_Api* ProfilerApi();
// The number that the framework gave to a call, from the extensions of its arguments; 0: none.
uint64_t CallerOf(const PJRT_Extension_Base* extensions);

}  // namespace weft::pjrt
