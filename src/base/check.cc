#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace weft::detail {

CheckFailure::CheckFailure(const char* file, int line, const char* condition) {
  StrAppend(message_, "weft: internal error: ", std::string_view(file), ":", line, ": CHECK(",
            std::string_view(condition), ") ");
}

CheckFailure::~CheckFailure() {
  message_.push_back('\n');
  std::fputs(message_.c_str(), stderr);
  std::fflush(stderr);
  std::abort();
}

}  // namespace weft::detail
