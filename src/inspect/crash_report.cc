// Everything that the handler calls is async-signal-safe: it formats into an array of its own, and
// makes system calls.
#include "inspect/crash_report.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "base/doing.h"
#include "base/mutex.h"
#include "base/write_all.h"

namespace weft::inspect {
namespace {

struct Signal {
  int number;
  std::string_view name;
};
constexpr Signal kSignals[] = {{SIGSEGV, "SIGSEGV"},
                               {SIGBUS, "SIGBUS"},
                               {SIGILL, "SIGILL"},
                               {SIGFPE, "SIGFPE"},
                               {SIGABRT, "SIGABRT"}};
constexpr size_t kSignalCount = std::size(kSignals);
constexpr size_t kMostPath = 512, kMostName = 80, kMostDepth = 64;

// Of the process, as signal handlers are.
struct State {
  std::atomic<bool> installed = false;
  std::atomic<pid_t> reporting = 0;  // the thread that is at it; one report is enough
  char directory[kMostPath] = {};
  char provoke[kMostName] = {};
  struct sigaction before[kSignalCount] = {};
};
constinit State state;

// Text of bounded length.
class Text {
 public:
  Text& operator<<(std::string_view text) {
    size_t n = std::min(text.size(), sizeof(text_) - 1 - size_);
    std::memcpy(text_ + size_, text.data(), n);
    size_ += n;
    text_[size_] = '\0';
    return *this;
  }
  Text& Number(uint64_t value, uint64_t base) {
    char digits[24];
    size_t at = sizeof(digits);
    do {
      digits[--at] = "0123456789abcdef"[value % base];
      value /= base;
    } while (value != 0);
    return *this << std::string_view(digits + at, sizeof(digits) - at);
  }
  // As part of a file's name.
  Text& Plain(std::string_view name) {
    for (char c : name.substr(0, kMostName)) {
      bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                   c == '_' || c == '-' || c == '.';
      *this << std::string_view(plain ? &c : "_", 1);
    }
    return *this;
  }
  std::string_view view() const { return {text_, size_}; }
  const char* c_str() const { return text_; }

 private:
  char text_[2048] = {};
  size_t size_ = 0;
};

// What the innermost program is, and what of it runs.
struct Place {
  std::string_view phase, part, program, input, file;
  const DoingItem* item = nullptr;
};

Place FindPlace(const Doing* doing) {
  Place place;
  for (size_t depth = 0; doing != nullptr && depth < kMostDepth; doing = doing->outer(), ++depth) {
    const Doing::About& about = doing->about();
    if (place.item == nullptr) place.item = doing->item();
    if (place.phase.empty()) {
      place.phase = about.phase;
      place.part = about.what;
    }
    bool names = about.phase == std::string_view("compile") || !about.input.empty();
    if (place.program.empty() && names) place.program = about.what;
    if (place.input.empty()) place.input = about.input;
    if (place.file.empty()) place.file = about.file;
  }
  return place;
}

// directory/crash-PID-SIGNAL.NAME with the program in it. False: it could not be written.
bool WriteProgram(const Place& place, Text& path) {
  std::string_view directory = state.directory;
  for (size_t at = directory.find('/', 1); at != directory.npos; at = directory.find('/', at + 1)) {
    Text above;
    mkdir((above << directory.substr(0, at)).c_str(), 0777);
  }
  mkdir(state.directory, 0777);
  path << directory << "/crash-";
  path.Number(static_cast<uint64_t>(getpid()), 10) << ".";
  path.Plain(place.program.empty() ? "module" : place.program);
  int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return false;
  bool written = WriteAll(file, place.input);
  close(file);
  return written;
}

void Report(int number, const siginfo_t* info, const Doing* doing) {
  Place place = FindPlace(doing);
  Text text;
  text << "weft: crash: ";
  for (const Signal& signal : kSignals) {
    if (signal.number == number) text << signal.name;
  }
  if (info->si_code > 0 && number != SIGABRT) {
    text << " at address 0x";
    text.Number(reinterpret_cast<uintptr_t>(info->si_addr), 16);
  }
  std::string_view program = place.program.empty() ? place.part : place.program;
  if (place.phase == "run") {
    text << " while " << program << " runs";
  } else if (place.phase == "compile" || place.phase == "command") {
    text << " in " << place.phase << " " << program;
  } else {
    text << " in " << place.phase;
    if (place.part != program) text << " " << place.part;
    text << " of " << program;
  }
  if (place.item != nullptr && !place.item->name.empty()) text << "\n  in " << place.item->name;
  if (place.item != nullptr && !place.item->source.empty()) text << "\n  at " << place.item->source;
  text << "\n";
  WriteAll(STDERR_FILENO, text.view());  // whatever becomes of the rest
  Text hint, path;
  if (!place.file.empty()) {
    hint << "  hint: to see it again: weft bisect " << place.file << "\n";
  } else if (!place.input.empty() && WriteProgram(place, path)) {
    hint << "  hint: to see it again: weft bisect " << path.view() << "\n";
  }
  WriteAll(STDERR_FILENO, hint.view());
}

const struct sigaction* Before(int number) {
  for (size_t i = 0; i < kSignalCount; ++i) {
    if (kSignals[i].number == number) return &state.before[i];
  }
  return nullptr;
}

// What the signal did before.
void PassOn(int number, siginfo_t* info, void* context) {
  const struct sigaction* before = Before(number);
  if ((before->sa_flags & SA_SIGINFO) != 0) {
    before->sa_sigaction(number, info, context);
    return;
  }
  if (before->sa_handler == SIG_IGN) return;
  if (before->sa_handler != SIG_DFL) {
    before->sa_handler(number);
    return;
  }
  // Comes again as soon as this handler is left: the instruction that failed is run again, and what
  // somebody sent is sent again.
  sigaction(number, before, nullptr);
  if (info->si_code <= 0 || number == SIGABRT) raise(number);
}

void Handle(int number, siginfo_t* info, void* context) {
  int error = errno;
  const Doing* doing = Doing::Top();
  pid_t nobody = 0;
  if (doing != nullptr && state.reporting.compare_exchange_strong(nobody, gettid())) {
    Report(number, info, doing);
    state.reporting = 0;
  }
  errno = error;
  PassOn(number, info, context);
}

// Nothing is written where it says so already: other threads may look at it.
void Keep(const std::string& text, char* to, size_t room) {
  size_t n = std::min(text.size(), room - 1);
  if (std::string_view(to) == std::string_view(text).substr(0, n)) return;
  std::memcpy(to, text.data(), n);
  to[n] = '\0';
}

// Not a tail call, and of a frame that cannot be left out.
[[gnu::noinline]] int UseUpStack(int depth) {
  volatile char room[4096];
  room[0] = static_cast<char>(depth);
  return depth < 0 ? 0 : UseUpStack(depth + 1) + room[0];
}

}  // namespace

void InstallCrashReport(const CrashReportOptions& options) {
  static constinit Mutex mutex;  // clients are made by several threads
  MutexLock lock(mutex);
  Keep(options.directory, state.directory, sizeof(state.directory));
  Keep(options.provoke, state.provoke, sizeof(state.provoke));
  if (state.installed.exchange(true)) return;
  struct sigaction action = {};
  action.sa_sigaction = Handle;
  // Another one may come while this one is reported: then the process ends without more words.
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kSignalCount; ++i) {
    sigaction(kSignals[i].number, nullptr, &state.before[i]);
    sigaction(kSignals[i].number, &action, nullptr);
  }
}

void RemoveCrashReport() {
  if (!state.installed.exchange(false)) return;
  for (size_t i = 0; i < kSignalCount; ++i) {
    struct sigaction now;
    sigaction(kSignals[i].number, nullptr, &now);
    bool ours = (now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == Handle;
    if (ours) sigaction(kSignals[i].number, &state.before[i], nullptr);
  }
}

Status ProvokeCrash(std::string_view pass) {
  std::string_view wanted = state.provoke;
  size_t colon = wanted.find(':');
  if (colon == wanted.npos || wanted.substr(colon + 1) != pass) return {};
  std::string_view kind = wanted.substr(0, colon);
  if (kind == "segv") {
    int* volatile nowhere = nullptr;
    *nowhere = 1;
  } else if (kind == "check") {
    CHECK(pass.empty()) << "provoked";
  } else if (kind == "abort") {
    abort();
  } else if (kind == "overflow") {
    return UseUpStack(0) == 0 ? InvalidArgument("no end of the stack") : Status();
  }
  return {};
}

}  // namespace weft::inspect
