#include "inspect/trace_xspace.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "base/digest.h"
#include "base/str.h"
#include "base/wire.h"

namespace weft::inspect {
namespace {

using trace::Event;
using trace::Kind;
using trace::What;

// Which events belong together, as xprof numbers the kinds of such ties: calls from the framework
// into a PJRT plugin, and what goes on inside one.
constexpr int64_t kLibraryCall = 14, kPjrt = 5;
constexpr int64_t kPicoseconds = 1000;  // a nanosecond

// One XPlane: names are kept once, events and stats refer to them by number.
class Plane {
 public:
  Plane(int64_t id, std::string name) {
    plane_.Int(1, id);
    plane_.Bytes(2, name);
  }

  // Values of one event, of what all events of a kind share, or of the plane.
  class Stats {
   public:
    explicit Stats(Plane& plane) : plane_(plane) {}
    Stats& Int(std::string_view name, int64_t value) {
      Add(name, [&](WireWriter& stat) { stat.IntAlways(4, value); });
      return *this;
    }
    Stats& Unsigned(std::string_view name, uint64_t value) {
      Add(name, [&](WireWriter& stat) { stat.IntAlways(3, static_cast<int64_t>(value)); });
      return *this;
    }
    Stats& Text(std::string_view name, std::string_view value) {  // left out if empty
      if (!value.empty()) Add(name, [&](WireWriter& stat) { stat.BytesAlways(5, value); });
      return *this;
    }
    // A text that many have in common.
    Stats& Shared(std::string_view name, std::string_view value) {
      if (value.empty()) return *this;
      int64_t reference = plane_.StatNumber(value);
      Add(name, [&](WireWriter& stat) { stat.IntAlways(7, reference); });
      return *this;
    }
    const std::vector<WireWriter>& all() const { return stats_; }

   private:
    template <class Value>
    void Add(std::string_view name, const Value& value) {
      WireWriter& stat = stats_.emplace_back();
      stat.Int(1, plane_.StatNumber(name));
      value(stat);
    }
    Plane& plane_;
    std::vector<WireWriter> stats_;
  };

  // The number of a kind of event; `describe` is asked once for each key.
  template <class Describe>
  int64_t EventNumber(const std::pair<const void*, int>& key, std::string_view name,
                      std::string_view display, const Describe& describe) {
    auto [found, added] = events_.try_emplace(key, static_cast<int64_t>(events_.size()) + 1);
    if (!added) return found->second;
    Stats stats(*this);
    describe(stats);
    WireWriter metadata;
    metadata.Int(1, found->second);
    metadata.Bytes(2, name);
    metadata.Bytes(4, display);
    for (const WireWriter& stat : stats.all()) metadata.Message(5, stat);
    WireWriter entry;
    entry.Int(1, found->second);
    entry.Message(2, metadata);
    plane_.Message(4, entry);
    return found->second;
  }

  void Add(const Stats& stats) {
    for (const WireWriter& stat : stats.all()) plane_.Message(6, stat);
  }
  void AddLine(const WireWriter& line) { plane_.Message(3, line); }

  std::string Finish() {
    for (const auto& [name, number] : stats_) {
      WireWriter metadata;
      metadata.Int(1, number);
      metadata.Bytes(2, name);
      WireWriter entry;
      entry.Int(1, number);
      entry.Message(2, metadata);
      plane_.Message(5, entry);
    }
    return plane_.Take();
  }

 private:
  int64_t StatNumber(std::string_view name) {
    return stats_.try_emplace(std::string(name), static_cast<int64_t>(stats_.size()) + 1)
        .first->second;
  }
  WireWriter plane_;
  std::map<std::string, int64_t> stats_;
  std::map<std::pair<const void*, int>, int64_t> events_;  // never iterated
};

// A number for a program, the same in every plane and process.
int64_t ProgramId(const std::string& program) {
  auto digest = Digest::Raw(program);
  int64_t id = 0;
  for (int i = 0; i < 4; ++i) id = id << 8 | static_cast<uint8_t>(digest[static_cast<size_t>(i)]);
  return id;
}

// "model.py:12" of "model.py:12 (loss)".
std::string_view WithoutFunction(std::string_view source) {
  return source.substr(0, source.find(" ("));
}

// An execution on a device with its steps, which lie inside.
struct Execution {
  const Event* event;
  std::vector<const Event*> steps;
};

class XSpaceWriter {
 public:
  XSpaceWriter(const trace::Capture& capture, const std::string& device_type)
      : capture_(capture), device_type_(device_type) {}

  std::string Write() {
    WireWriter space;
    space.BytesAlways(1, HostPlane());
    for (auto& [device, executions] : executions_) {
      space.BytesAlways(1, DevicePlane(device, executions));
    }
    if (capture_.dropped > 0) {
      space.Bytes(
          3, StrCat("weft: ", capture_.dropped, " events were dropped, since there were too many"));
    }
    return space.Take();
  }

 private:
  int64_t UnixTime(int64_t time) const { return time + capture_.unix_offset; }

  WireWriter Line(int64_t id, std::string_view name, std::string_view display = "") const {
    WireWriter line;
    line.Int(1, id);
    line.Bytes(2, name);
    line.Bytes(11, display);
    line.Int(3, UnixTime(capture_.begin));
    return line;
  }
  void AddEvent(WireWriter& line, const Event& event, int64_t number,
                const Plane::Stats& stats) const {
    WireWriter out;
    out.Int(1, number);
    out.IntAlways(2, (event.begin - capture_.begin) * kPicoseconds);
    out.Int(3, (event.end - event.begin) * kPicoseconds);
    for (const WireWriter& stat : stats.all()) out.Message(4, stat);
    line.Message(4, out);
  }

  static void AddFlows(const Event& event, Plane::Stats& stats) {
    if (event.to != 0) stats.Int("_pt", kPjrt).Unsigned("_p", event.to);
    if (event.caller != 0) {
      stats.Int("_ct", kLibraryCall).Unsigned("_c", event.caller);
    } else if (event.from != 0) {
      stats.Int("_ct", kPjrt).Unsigned("_c", event.from);
    }
  }

  // Threads; what belongs to devices is put aside.
  std::string HostPlane() {
    Plane plane(0, "/host:CPU");
    for (const trace::ThreadEvents& thread : capture_.threads) {
      WireWriter line = Line(thread.hash, thread.name);  // joined with the profiler's own
      std::vector<const Event*> events;
      for (const Event& event : thread.events) events.push_back(&event);
      std::ranges::sort(events, [](const Event* a, const Event* b) {
        return std::pair(a->begin, -a->end) < std::pair(b->begin, -b->end);
      });
      for (const Event* event : events) AddHostEvent(plane, line, *event);
      Collect(events);
      plane.AddLine(line);
    }
    return plane.Finish();
  }

  void AddHostEvent(Plane& plane, WireWriter& line, const Event& event) const {
    const What& what = *event.what;
    if (what.kind == Kind::kStep || what.kind == Kind::kCopy) return;
    // The profiler joins planes by the names of events.
    std::string name = StrCat("weft ", NameOf(what.kind), ": ", what.name);
    int64_t number = plane.EventNumber({&what, 0}, name, "", [](Plane::Stats&) {});
    Plane::Stats stats(plane);
    stats.Shared("program", what.program)
        .Shared("source", WithoutFunction(what.source))
        .Shared("op_name", what.op_name)
        .Shared("shapes", what.shapes)
        .Shared("parts", what.parts);
    if (event.bytes > 0) stats.Int("bytes", event.bytes);
    AddFlows(event, stats);
    AddEvent(line, event, number, stats);
  }

  // Steps go to the innermost execution around them on their thread.
  void Collect(std::span<const Event* const> events) {
    std::vector<std::pair<int32_t, size_t>> open;  // device, number
    for (const Event* event : events) {
      while (!open.empty() &&
             executions_[open.back().first][open.back().second].event->end < event->end) {
        open.pop_back();
      }
      Kind kind = event->what->kind;
      if (kind == Kind::kExecute) {
        executions_[event->device].push_back({event, {}});
        open.emplace_back(event->device, executions_[event->device].size() - 1);
      } else if ((kind == Kind::kStep || kind == Kind::kCopy) && !open.empty()) {
        executions_[open.back().first][open.back().second].steps.push_back(event);
      }
    }
  }

  std::string DevicePlane(int32_t device, std::vector<Execution>& executions) {
    Plane plane(device + 1, StrCat("/device:TPU:", device));
    Plane::Stats about(plane);
    about.Text("device_type_string", device_type_);
    plane.Add(about);
    std::ranges::sort(executions, [](const Execution& a, const Execution& b) {
      return std::pair(a.event->begin, -a.event->end) < std::pair(b.event->begin, -b.event->end);
    });
    // Executions that run at the same time lie on lines of their own.
    std::vector<std::vector<const Execution*>> lanes;
    for (const Execution& execution : executions) {
      auto free = std::ranges::find_if(lanes, [&](const auto& lane) {
        return lane.back()->event->end <= execution.event->begin;
      });
      if (free == lanes.end()) free = lanes.insert(lanes.end(), std::vector<const Execution*>());
      free->push_back(&execution);
    }
    int64_t step = 0;
    for (size_t n = 0; n < lanes.size(); ++n) AddLane(plane, n, lanes[n], step);
    return plane.Finish();
  }

  void AddLane(Plane& plane, size_t number, std::span<const Execution* const> lane, int64_t& step) {
    int64_t first = static_cast<int64_t>(number) * 3;
    std::string more = number == 0 ? "" : StrCat(" #", number + 1);
    WireWriter steps = Line(first + 1, "Steps", StrCat("Steps", more));
    WireWriter modules = Line(first + 2, "XLA Modules", StrCat("XLA Modules", more));
    WireWriter ops = Line(first + 3, "XLA Ops", StrCat("XLA Ops", more));
    for (const Execution* execution : lane) {
      if (number == 0) AddStep(plane, steps, *execution->event, step++);
      AddModule(plane, modules, *execution->event);
      for (const Event* op : execution->steps) AddOp(plane, ops, *op);
    }
    if (number == 0) plane.AddLine(steps);
    plane.AddLine(modules);
    plane.AddLine(ops);
  }

  void AddStep(Plane& plane, WireWriter& line, const Event& event, int64_t step) {
    std::string name = StrCat(step);
    int64_t number = plane.EventNumber({&event, 2}, name, "", [](Plane::Stats&) {});
    Plane::Stats stats(plane);
    stats.Int("step_num", step).Int("group_id", step).Text("step_name", name);
    AddEvent(line, event, number, stats);
  }

  void AddModule(Plane& plane, WireWriter& line, const Event& event) const {
    const What& what = *event.what;
    int64_t program = ProgramId(what.program);
    int64_t number = plane.EventNumber(
        {&what, 1}, StrCat(what.name, "(", program, ")"), what.name, [&](Plane::Stats& stats) {
          stats.Int("program_id", program).Text("shapes", what.shapes).Text("runner", what.op);
        });
    Plane::Stats stats(plane);
    AddFlows(event, stats);
    AddEvent(line, event, number, stats);
  }

  static void AddCosts(const What& what, Plane::Stats& stats) {
    if (what.flops > 0) stats.Unsigned("flops", static_cast<uint64_t>(what.flops));
    if (what.bytes > 0) stats.Unsigned("bytes_accessed", static_cast<uint64_t>(what.bytes));
  }

  void AddOp(Plane& plane, WireWriter& line, const Event& event) const {
    const What& what = *event.what;
    int64_t number = plane.EventNumber({&what, 0}, what.name, what.name, [&](Plane::Stats& stats) {
      stats.Int("program_id", ProgramId(what.program))
          .Int("symbol_id", ProgramId(StrCat(what.program, "/", what.name)))
          .Text("hlo_category", what.op)
          .Text("tf_op", what.op_name)
          .Text("source", WithoutFunction(what.source))
          .Text("source_stack", what.source)
          .Text("shape_with_layout", what.shapes)
          .Text("parts", what.parts);
      AddCosts(what, stats);
    });
    Plane::Stats stats(plane);
    // What readers of single events look for; the analyses take the rest from above.
    stats.Shared("hlo_op", what.name)
        .Shared("hlo_module", what.program)
        .Shared("tf_op", what.op_name)
        .Shared("source", WithoutFunction(what.source));
    AddCosts(what, stats);
    AddEvent(line, event, number, stats);
  }

  const trace::Capture& capture_;
  const std::string& device_type_;
  std::map<int32_t, std::vector<Execution>> executions_;  // by device
};

}  // namespace

std::string TraceXSpace(const trace::Capture& capture, const std::string& device_type) {
  return XSpaceWriter(capture, device_type).Write();
}

}  // namespace weft::inspect
