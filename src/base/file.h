// Whole files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace weft {

inline constexpr int64_t kMaxFileBytes = int64_t{1} << 34;
inline constexpr int64_t kMaxStreamBytes = int64_t{1} << 30;

// Errors name the path. A file of more than max_bytes is an error, as is a directory. Pipes and
// devices, which need not end and do not say how long they are, may give max_stream_bytes.
Result<std::string> ReadFile(const std::string& path, int64_t max_bytes = kMaxFileBytes,
                             int64_t max_stream_bytes = kMaxStreamBytes);
Status WriteFile(const std::string& path, std::string_view contents);
// The same, by way of a file beside it: whoever reads the path finds the old or the new one.
Status ReplaceFile(const std::string& path, std::string_view contents);

}  // namespace weft
