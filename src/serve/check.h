// A model folder looked at without serving it: `weft serve check` and `weft serve compile`.
#pragma once

#include <string>

#include "base/error.h"
#include "serve/backend.h"

namespace weft::serve {

struct CheckReport {
  std::string text;      // for people: graphs, sizes, weights, programs
  int64_t problems = 0;  // what would not run
};

// `path`: a version's folder, or a base folder, whose latest version is taken. Every program is
// compiled, every weight that one needs is read.
Result<CheckReport> CheckFolder(const std::string& path, Backend& backend);

}  // namespace weft::serve
