// Work in processes of its own: what crashes, hangs or exits there harms nobody here.
//
// Children are forks of this process without its threads, so it must not have started any.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace weft::tools {

struct ChildLimits {
  double seconds = 20;  // then it is ended
  bool quiet = true;    // its standard error goes nowhere
  int at_once = 1;      // children that run side by side
};

// How a child ended: its exit status, or below.
inline constexpr int kChildSignal = 256;     // and more: the signal that it ended with
inline constexpr int kChildTimedOut = 1024;  // it ran longer than allowed
inline constexpr int kChildStopped = 1025;   // interrupted, or it could not be started

// Runs work(i) for i < n in children, in order and several at once, and returns the first i whose
// status is wanted; -1: none, or this process was interrupted. Those behind it are ended.
int FirstChild(size_t n, const std::function<int(size_t)>& work,
               const std::function<bool(size_t i, int status)>& wanted, const ChildLimits& limits);

// One child; how it ended.
int InChild(const std::function<int()>& work, const ChildLimits& limits);

// "signal 11 (Segmentation fault)", "no end within 20 s", "status 3".
std::string DescribeEnd(int status, double seconds);

// From here to the end of the scope SIGINT, SIGTERM and SIGHUP do not end this process: children
// are ended, no more are started, and Interrupted() says so. A second one ends the process.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
};
bool Interrupted();

// A few bytes for each child that it shares with this process: what it was about when it ended.
class Breadcrumbs {
 public:
  explicit Breadcrumbs(size_t children);
  ~Breadcrumbs();
  Breadcrumbs(const Breadcrumbs&) = delete;
  Breadcrumbs& operator=(const Breadcrumbs&) = delete;
  void Set(size_t child, std::string_view text) const;  // cut to fit
  std::string Get(size_t child) const;

 private:
  char* memory_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace weft::tools
