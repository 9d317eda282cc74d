// Checks many files in one process, in parallel, and reports them in the order given.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"

namespace weft::tools {

struct CheckSummary {
  int64_t passed = 0, failed = 0;
};

// Calls check(i) for 0 .. n-1. A returned text is a failure; texts go to standard output in order.
// A terminal on standard error shows progress.
CheckSummary CheckAll(int64_t n, const std::function<std::string(int64_t)>& check);

// "N passed, M failed"; the exit status.
int PrintSummary(const CheckSummary& summary);

}  // namespace weft::tools
