// Timelines that the outside asks for: WEFT_TRACE, jax.profiler and the Python package.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace weft::client {

// Records from now on and writes the file (inspect/trace_json.h) when the process ends. The first
// call counts.
void TraceProcess(const std::string& path);

// For weft.trace(path): a number for EndTrace, which writes the file.
int64_t BeginTrace(std::string path);
Status EndTrace(int64_t number);

}  // namespace weft::client
