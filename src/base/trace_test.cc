#include "base/trace.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "base/str.h"
#include "base/trace_track.h"

namespace weft::trace {
namespace {

int64_t CountOf(const Capture& capture) {
  int64_t events = 0;
  for (const ThreadEvents& thread : capture.threads) events += std::ssize(thread.events);
  return events;
}

auto Named(std::string name) {
  return [name] { return What{.name = name}; };
}

TEST(Trace, NothingIsRecordedWithoutASession) {
  EXPECT_FALSE(IsOn());
  bool made = false;
  {
    Span span(Kind::kPass, [&] {
      made = true;
      return What{};
    });
  }
  EXPECT_FALSE(made);
  EXPECT_EQ(NewFlow(), 0u);
  Session session;
  EXPECT_EQ(CountOf(session.Take()), 0);
}

TEST(Trace, SpansNest) {
  Session session;
  {
    Span outer(Kind::kCompile, Named("f"));
    Span inner(Kind::kPass, Named("fuse"));
    inner.Bytes(12).Device(3);
  }
  Capture capture = session.Take();
  ASSERT_EQ(capture.threads.size(), 1u);
  ASSERT_EQ(capture.threads[0].events.size(), 2u);
  const Event &inner = capture.threads[0].events[0], &outer = capture.threads[0].events[1];
  EXPECT_EQ(inner.what->name, "fuse");
  EXPECT_EQ(inner.what->kind, Kind::kPass);
  EXPECT_EQ(inner.bytes, 12);
  EXPECT_EQ(inner.device, 3);
  EXPECT_LE(outer.begin, inner.begin);
  EXPECT_GE(outer.end, inner.end);
  EXPECT_LE(capture.begin, outer.begin);
  EXPECT_GE(capture.end, outer.end);
}

TEST(Trace, WhatIsInterned) {
  const What* a = Intern({.kind = Kind::kStep, .name = "add", .source = "a.py:1"});
  EXPECT_EQ(a, Intern({.kind = Kind::kStep, .name = "add", .source = "a.py:1"}));
  EXPECT_NE(a, Intern({.kind = Kind::kStep, .name = "add", .source = "a.py:2"}));
  EXPECT_NE(a, Intern({.kind = Kind::kCopy, .name = "add", .source = "a.py:1"}));
}

TEST(Trace, ThreadsHaveLogsOfTheirOwn) {
  constexpr int kThreads = 4, kEvents = 5000;
  Session session;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([t] {
      NameThread(StrCat("worker ", t));
      const What* what = Intern({.kind = Kind::kStep, .name = StrCat("step ", t)});
      for (int i = 0; i < kEvents; ++i) Span span(what);
    });
  }
  // Readers see whole events only, and those of a thread in their order.
  for (int i = 0; i < 20; ++i) {
    for (const ThreadEvents& thread : session.Take().threads) {
      int64_t last = 0;
      for (const Event& event : thread.events) {
        ASSERT_NE(event.what, nullptr);
        ASSERT_LE(event.begin, event.end);
        ASSERT_LE(last, event.begin);
        last = event.end;
      }
    }
  }
  for (std::thread& thread : threads) thread.join();
  Capture capture = session.Take();
  EXPECT_EQ(CountOf(capture), kThreads * kEvents);
  EXPECT_EQ(capture.dropped, 0);
  std::set<std::string> names;
  for (const ThreadEvents& thread : capture.threads) {
    names.insert(thread.name);
    for (const Event& event : thread.events) {
      EXPECT_EQ(event.what->name.back(), thread.name.back());
    }
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(kThreads));
}

TEST(Trace, WhatDoesNotFitIsCounted) {
  SetMostEvents(2000);
  {
    Session session;
    const What* what = Intern({.kind = Kind::kStep, .name = "one of many"});
    auto record = [&] {
      for (int i = 0; i < 3000; ++i) Span span(what);
    };
    record();
    std::thread(record).join();
    Capture capture = session.Take();
    EXPECT_LE(CountOf(capture), 2000);
    EXPECT_GE(CountOf(capture), 1000);
    EXPECT_EQ(CountOf(capture) + capture.dropped, 6000);
  }
  SetMostEvents(kMostEvents);
  Session again;  // starts with all the room there is
  {
    Span span(Kind::kPass, Named("fits"));
  }
  Capture capture = again.Take();
  EXPECT_EQ(CountOf(capture), 1);
  EXPECT_EQ(capture.dropped, 0);
}

TEST(Trace, SessionsOverlap) {
  auto outer = std::make_unique<Session>();
  {
    Span span(Kind::kPass, Named("first"));
  }
  Session inner;
  {
    Span span(Kind::kPass, Named("second"));
  }
  EXPECT_EQ(CountOf(outer->Take()), 2);
  EXPECT_EQ(CountOf(inner.Take()), 1);
  outer.reset();
  {
    Span span(Kind::kPass, Named("third"));
  }
  EXPECT_EQ(CountOf(inner.Take()), 2);
}

TEST(Trace, StepsShareTheirEnds) {
  Session session;
  const What* what = Intern({.kind = Kind::kStep, .name = "step"});
  Steps steps(IsOn(), 1);
  for (int i = 0; i < 3; ++i) steps.End(what);
  Capture capture = session.Take();
  ASSERT_EQ(CountOf(capture), 3);
  const std::vector<Event>& events = capture.threads[0].events;
  EXPECT_EQ(events[0].end, events[1].begin);
  EXPECT_EQ(events[1].end, events[2].begin);
}

TEST(Trace, FlowsAreNumbered) {
  Session session;
  uint64_t flow = NewFlow();
  EXPECT_NE(flow, 0u);
  EXPECT_NE(flow, NewFlow());
  {
    Span span(Kind::kEnqueue, Named("ask"));
    span.To(flow);
  }
  std::thread([flow] {
    Span span(Kind::kExecute, Named("do"));
    span.From(flow);
  }).join();
  Capture capture = session.Take();
  uint64_t to = 0, from = 0;
  for (const ThreadEvents& thread : capture.threads) {
    for (const Event& event : thread.events) {
      to |= event.to;
      from |= event.from;
    }
  }
  EXPECT_EQ(to, flow);
  EXPECT_EQ(from, flow);
}

// What a device did is known later, and lies on a line of its own.
TEST(Trace, TracksAndLateSources) {
  Track track("gpu:0 compute");
  const What* kernel = Intern({.kind = Kind::kStep, .name = "kernel"});
  track.Record({.begin = Now(), .end = Now(), .what = kernel});  // nobody records
  Session session;
  const int64_t begin = Now();
  LateSource late([&] { track.Record({.begin = begin, .end = begin + 1, .what = kernel}); });
  Capture capture = session.Take();
  ASSERT_EQ(capture.threads.size(), 1u);
  EXPECT_EQ(capture.threads[0].name, "gpu:0 compute");
  EXPECT_EQ(capture.threads[0].events.size(), 1u);
  EXPECT_EQ(CountOf(session.Take()), 2);
}

}  // namespace
}  // namespace weft::trace
