// Sizes for people.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace weft::tools {

// "1.5 MiB"
inline std::string ShowBytes(int64_t bytes) {
  const char* const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  char text[32];
  bool whole = value == static_cast<double>(static_cast<int64_t>(value));
  std::snprintf(text, sizeof(text), "%.*f %s", whole ? 0 : 1, value, units[unit]);
  return text;
}

}  // namespace weft::tools
