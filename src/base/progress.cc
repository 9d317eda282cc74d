#include "base/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/str.h"

namespace weft {
namespace {

constexpr std::chrono::milliseconds kRefresh(200);      // of a line on a terminal
constexpr std::chrono::milliseconds kLineEvery(5'000);  // elsewhere
constexpr size_t kUsualWidth = 80;
constexpr std::string_view kEraseLine = "\r\x1b[K";

size_t TerminalWidth() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20) return kUsualWidth;
  return size.ws_col;
}

// In one call, so that lines of others are not torn.
void WriteNow(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

Progress::Progress(std::string what, ProgressOptions options)
    : what_(std::move(what)),
      terminal_(isatty(STDERR_FILENO) == 1),
      shows_(terminal_ || options.lines),
      start_(Clock::now()) {
  std::chrono::duration<double> after(options.after);
  if (!terminal_) after = std::max<std::chrono::duration<double>>(after, kLineEvery);
  next_ = start_ + std::chrono::duration_cast<Clock::duration>(after);
  if (shows_ && options.ticks) thread_ = std::thread([this] { Watch(); });
}

Progress::~Progress() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  MutexLock lock(mutex_);
  Erase();
}

void Progress::Say(std::string text) {
  if (!shows_) return;
  MutexLock lock(mutex_);
  text_ = std::move(text);
  if (!thread_.joinable() && Clock::now() >= next_) Draw();
}

void Progress::Say(int64_t done, int64_t of, std::string_view text) {
  if (shows_) Say(StrCat(done, " of ", of, text.empty() ? "" : " ", text));
}

void Progress::Clear() {
  if (!shows_) return;
  MutexLock lock(mutex_);
  Erase();
}

void Progress::Draw() {
  auto seconds = std::lround(std::chrono::duration<double>(Clock::now() - start_).count());
  std::string line = StrCat("weft: ", what_, text_.empty() ? "" : ": ", text_, ", ", seconds, " s");
  if (terminal_) {
    if (line.size() >= TerminalWidth()) line.resize(TerminalWidth() - 1);
    line.insert(0, kEraseLine);
  } else {
    line.push_back('\n');
  }
  WriteNow(line);
  drawn_ = true;
  next_ = Clock::now() + (terminal_ ? kRefresh : kLineEvery);
}

void Progress::Erase() {
  if (drawn_ && terminal_) WriteNow(std::string(kEraseLine));
  drawn_ = false;
}

void Progress::Watch() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (Clock::now() >= next_) Draw();
    mutex_.WaitUntil(wake_, next_);
  }
}

}  // namespace weft
