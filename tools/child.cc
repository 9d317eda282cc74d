#include "child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string_view>
#include <vector>

#include "base/str.h"
#include "inspect/crash_report.h"

namespace weft::tools {
namespace {

using ChildClock = std::chrono::steady_clock;
constexpr size_t kCrumbBytes = 64;

volatile sig_atomic_t interrupts = 0;
constexpr int kInterrupts[] = {SIGINT, SIGTERM, SIGHUP};

void OnInterrupt(int signal) {
  interrupts = interrupts + 1;
  if (interrupts == 1) return;
  std::signal(signal, SIG_DFL);
  raise(signal);
}

struct Child {
  size_t index = 0;
  pid_t pid = -1;
  ChildClock::time_point deadline;
  bool ended = false;
  int status = 0;
};

// A group of its own: what it starts ends with it, and the terminal's ^C reaches this process
// alone.
pid_t StartChild(const std::function<int(size_t)>& work, size_t index, bool quiet) {
  std::fflush(stdout);
  pid_t child = fork();
  if (child != 0) return child;
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int signal : kInterrupts) std::signal(signal, SIG_DFL);
  inspect::RemoveCrashReport();  // a crash is what is looked for
  rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  if (int nowhere = quiet ? open("/dev/null", O_WRONLY) : -1; nowhere >= 0) {
    dup2(nowhere, STDERR_FILENO);
  }
  int status = work(index);
  std::fflush(stdout);
  _exit(status);
}

void EndChild(Child& child, int status) {
  kill(-child.pid, SIGKILL);
  kill(child.pid, SIGKILL);  // its group may not be there yet
  waitpid(child.pid, nullptr, 0);
  child.ended = true;
  child.status = status;
}

// Whether it has ended, by itself or because its time is over.
bool LookAt(Child& child) {
  int status = 0;
  pid_t done = waitpid(child.pid, &status, WNOHANG);
  if (done == child.pid) {
    child.ended = true;
    child.status = WIFSIGNALED(status) ? kChildSignal + WTERMSIG(status) : WEXITSTATUS(status);
    kill(-child.pid, SIGKILL);  // what it started and left behind
  } else if (done < 0) {
    child.ended = true;
    child.status = kChildStopped;
  } else if (ChildClock::now() > child.deadline) {
    EndChild(child, kChildTimedOut);
  }
  return child.ended;
}

}  // namespace

int FirstChild(size_t n, const std::function<int(size_t)>& work,
               const std::function<bool(size_t i, int status)>& wanted, const ChildLimits& limits) {
  std::vector<Child> running;  // in order of their indices
  size_t next = 0, found = n;
  while (!Interrupted()) {
    while (next < found && running.size() < static_cast<size_t>(std::max(limits.at_once, 1))) {
      Child child{.index = next++, .deadline = ChildClock::now()};
      child.deadline += std::chrono::duration_cast<ChildClock::duration>(
          std::chrono::duration<double>(limits.seconds));
      child.pid = StartChild(work, child.index, limits.quiet);
      if (child.pid < 0) return -1;
      running.push_back(child);
    }
    if (running.empty()) break;
    bool any = false;
    for (Child& child : running) {
      if (!LookAt(child)) continue;
      any = true;
      if (wanted(child.index, child.status)) found = std::min(found, child.index);
    }
    std::erase_if(running, [&](Child& child) {
      if (!child.ended && child.index > found) EndChild(child, kChildStopped);
      return child.ended;
    });
    if (any) continue;
    timespec nap{0, 300'000};
    nanosleep(&nap, nullptr);
  }
  for (Child& child : running) EndChild(child, kChildStopped);
  return Interrupted() || found == n ? -1 : static_cast<int>(found);
}

int InChild(const std::function<int()>& work, const ChildLimits& limits) {
  int status = kChildStopped;
  FirstChild(
      1, [&](size_t) { return work(); }, [&](size_t, int ended) { return (status = ended), true; },
      limits);
  return status;
}

std::string DescribeEnd(int status, double seconds) {
  if (status == kChildTimedOut) return StrCat("no end within ", seconds, " s");
  if (status == kChildStopped) return "interrupted";
  if (status >= kChildSignal) {
    return StrCat("signal ", status - kChildSignal, " (", strsignal(status - kChildSignal), ")");
  }
  return StrCat("status ", status);
}

InterruptScope::InterruptScope() {
  interrupts = 0;
  for (int signal : kInterrupts) std::signal(signal, OnInterrupt);
}
InterruptScope::~InterruptScope() {
  for (int signal : kInterrupts) std::signal(signal, SIG_DFL);
}
bool Interrupted() {
  return interrupts > 0;
}

Breadcrumbs::Breadcrumbs(size_t children) : bytes_(std::max<size_t>(children, 1) * kCrumbBytes) {
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) memory_ = static_cast<char*>(memory);
}
Breadcrumbs::~Breadcrumbs() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}
void Breadcrumbs::Set(size_t child, std::string_view text) const {
  if (memory_ == nullptr || (child + 1) * kCrumbBytes > bytes_) return;
  char* to = memory_ + child * kCrumbBytes;
  text = text.substr(0, kCrumbBytes - 1);
  std::memcpy(to, text.data(), text.size());
  to[text.size()] = '\0';
}
std::string Breadcrumbs::Get(size_t child) const {
  if (memory_ == nullptr || (child + 1) * kCrumbBytes > bytes_) return "";
  const char* from = memory_ + child * kCrumbBytes;
  return std::string(from, strnlen(from, kCrumbBytes));
}

}  // namespace weft::tools
