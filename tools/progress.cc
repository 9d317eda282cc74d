#include "progress.h"

#include <unistd.h>

#include <cstdio>

namespace weft::tools {

ProgressLine::ProgressLine() : terminal_(isatty(STDERR_FILENO) != 0), last_(Clock::now()) {}

bool ProgressLine::IsDue() const {
  const auto wait = terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(5000);
  return Clock::now() - last_ >= wait;
}

void ProgressLine::Show(const std::string& line) {
  last_ = Clock::now();
  shown_ = true;
  std::fprintf(stderr, terminal_ ? "\r\x1b[K%s" : "%s\n", line.c_str());
  std::fflush(stderr);
}

void ProgressLine::Clear() {
  if (terminal_ && shown_) std::fputs("\r\x1b[K", stderr);
  shown_ = false;
}

}  // namespace weft::tools
