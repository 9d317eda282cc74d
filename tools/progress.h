// How far something has come, on standard error: one line that changes on a terminal, a line every
// few seconds elsewhere.
#pragma once

#include <chrono>
#include <string>

namespace weft::tools {

class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine() { Clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Whether a line is due. Asking costs little.
  bool IsDue() const;
  void Show(const std::string& line);
  void Clear();  // on a terminal: before something else is written

 private:
  using Clock = std::chrono::steady_clock;
  const bool terminal_;
  bool shown_ = false;
  Clock::time_point last_;
};

}  // namespace weft::tools
