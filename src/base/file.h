// Whole files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace weft {

inline constexpr int64_t kMaxFileBytes = int64_t{1} << 34;

// Errors name the path. A file of more than max_bytes is an error, as is a directory.
Result<std::string> ReadFile(const std::string& path, int64_t max_bytes = kMaxFileBytes);
Status WriteFile(const std::string& path, std::string_view contents);

}  // namespace weft
