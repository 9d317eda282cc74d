// Requests that a version is asked before it is ready: `warmup.jsonl` in its folder, one body of
// Open Inference's JSON a line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "serve/graph.h"

namespace weft::serve {

struct WarmUpRecord {
  std::string graph;  // `signature_name`; empty: the default one
  std::vector<NamedTensor> inputs;
};

// As a line has it.
Result<WarmUpRecord> ReadWarmUpRecord(std::string_view line);
// None where the folder has no such file. Errors name file and line.
Result<std::vector<WarmUpRecord>> ReadWarmUpRecords(const std::string& folder);

}  // namespace weft::serve
