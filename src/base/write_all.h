// Bytes to a file descriptor. May be called by handlers of signals.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace weft {

inline bool WriteAll(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t n = write(file, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

}  // namespace weft
