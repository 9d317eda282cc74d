// Timelines of what is no thread of the host: streams of devices, whose events are known later.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/trace.h"

namespace weft::trace {

// A line of its own in timelines. From any thread.
class Track {
 public:
  explicit Track(std::string name);
  ~Track();
  Track(const Track&) = delete;
  void Record(const Event& event);  // times are of Now(), as those of all events

 private:
  struct Line;
  const std::unique_ptr<Line> line_;
};

// Somebody who records later what happened before: asked before a Capture is taken.
class LateSource {
 public:
  explicit LateSource(std::function<void()> flush);
  ~LateSource();  // waits while it is asked
  LateSource(const LateSource&) = delete;

 private:
  std::function<void()> flush_;
  friend class Session;
};

}  // namespace weft::trace
