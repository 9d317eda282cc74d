// What the recorder of timelines saw: events by thread, and the phases of each compilation.
#include <algorithm>
#include <unordered_map>

#include "inspect/report.h"
#include "inspect/report_sections.h"

namespace weft::inspect {
namespace {

constexpr size_t kShownEvents = 40'000;  // the longest ones

// Events shorter than this are left out.
int64_t ShortestShown(const trace::Capture& capture) {
  std::vector<int64_t> lengths;
  for (const trace::ThreadEvents& thread : capture.threads) {
    for (const trace::Event& event : thread.events) lengths.push_back(event.end - event.begin);
  }
  if (lengths.size() <= kShownEvents) return 0;
  std::nth_element(lengths.begin(), lengths.begin() + kShownEvents, lengths.end(),
                   std::greater<>());
  return lengths[kShownEvents] + 1;
}

struct Window {
  int64_t begin, end;
  bool Has(const trace::Event& event) const { return event.begin >= begin && event.end <= end; }
};

// Of the compilation as a whole, import included, where it was recorded.
Window WindowOf(const ProgramRecord& record, const CaptureFacts& facts) {
  for (const trace::Event& event : facts.compiles) {
    if (event.what->program == record.name && event.begin <= record.begin &&
        event.end >= record.begin) {
      return {event.begin, event.end};
    }
  }
  return {record.begin, record.end};
}

class TimelineWriter {
 public:
  explicit TimelineWriter(const trace::Capture& capture)
      : capture_(capture), shortest_(ShortestShown(capture)) {}

  std::string Write() {
    json_.Open('{');
    json_.Key("dropped", capture_.dropped);
    json_.Key("length", capture_.end - capture_.begin);
    json_.Key("threads");
    json_.Open('[');
    for (const trace::ThreadEvents& thread : capture_.threads) WriteThread(thread);
    json_.Close(']');
    json_.Key("left_out", left_out_);
    json_.Key("whats");
    json_.Open('[');
    for (const trace::What* what : whats_) WriteWhat(*what);
    json_.Close(']');
    json_.Key("words");
    json_.Open('[');
    for (const std::string* text : words_.texts()) json_.Text(*text);
    json_.Close(']');
    json_.Close('}');
    return json_.Take();
  }

 private:
  // Outer events before those inside them; begins are differences.
  void WriteThread(const trace::ThreadEvents& thread) {
    std::vector<const trace::Event*> events;
    for (const trace::Event& event : thread.events) {
      if (event.end - event.begin < shortest_) {
        ++left_out_;
      } else {
        events.push_back(&event);
      }
    }
    if (events.empty()) return;
    std::ranges::sort(events, [](const trace::Event* a, const trace::Event* b) {
      return std::pair(a->begin, -a->end) < std::pair(b->begin, -b->end);
    });
    json_.Open('{');
    json_.Key("name", thread.name);
    json_.Key("id", thread.id);
    json_.Key("events");
    json_.Open('[');
    int64_t before = capture_.begin;
    for (const trace::Event* event : events) {
      json_.Int(event->begin - before);
      json_.Int(event->end - event->begin);
      json_.Int(NumberOf(event->what));
      before = event->begin;
    }
    json_.Close(']');
    json_.Close('}');
  }

  int64_t NumberOf(const trace::What* what) {
    auto [found, added] = numbers_.try_emplace(what, std::ssize(whats_));
    if (added) whats_.push_back(what);
    return found->second;
  }

  void WriteWhat(const trace::What& what) {
    json_.Open('[');
    for (std::string_view text :
         {std::string_view(what.name), NameOf(what.kind), std::string_view(what.program),
          std::string_view(what.op), LineOf(what.source), std::string_view(what.op_name),
          std::string_view(what.shapes)}) {
      json_.Int(words_.Id(text));
    }
    json_.Close(']');
  }

  const trace::Capture& capture_;
  const int64_t shortest_;
  Json json_;
  TextPool words_;
  std::unordered_map<const trace::What*, int64_t> numbers_;  // never iterated
  std::vector<const trace::What*> whats_;
  int64_t left_out_ = 0;
};

}  // namespace

std::string ReportTimelineJson(const trace::Capture& capture) {
  return TimelineWriter(capture).Write();
}

CaptureFacts::CaptureFacts(const trace::Capture& capture) {
  auto add = [](RunTimes& to, const trace::Event& event) {
    ++to.count;
    to.seconds += static_cast<double>(event.end - event.begin) * 1e-9;
  };
  for (const trace::ThreadEvents& thread : capture.threads) {
    for (const trace::Event& event : thread.events) {
      switch (event.what->kind) {
        case trace::Kind::kStep:
        case trace::Kind::kCopy: add(steps[event.what], event); break;
        case trace::Kind::kExecute:
          add(runs[{event.what->program, event.what->shapes}], event);
          break;
        case trace::Kind::kCompile: compiles.push_back(event); break;
        case trace::Kind::kPhase: phases.push_back(event); break;
        default: break;
      }
    }
  }
}

RunTimes CaptureFacts::RunsOf(const ProgramRecord& record) const {
  if (auto found = runs.find({record.name, record.signature}); found != runs.end()) {
    return found->second;
  }
  RunTimes all;
  for (auto at = runs.lower_bound({record.name, ""}); at != runs.end(); ++at) {
    if (at->first.first != record.name) break;
    all.count += at->second.count;
    all.seconds += at->second.seconds;
  }
  return all;
}

void WritePhases(const ProgramRecord& record, const CaptureFacts* facts, Json& json) {
  json.Key("compile_ms", static_cast<double>(record.end - record.begin) * 1e-6);
  if (facts == nullptr) return;
  const Window window = WindowOf(record, *facts);
  std::vector<std::pair<std::string_view, double>> phases;
  for (const trace::Event& event : facts->phases) {
    const trace::What& what = *event.what;
    bool own = what.program == record.name || what.name == "import";
    if (!own || !window.Has(event)) continue;
    double ms = static_cast<double>(event.end - event.begin) * 1e-6;
    auto same = std::ranges::find_if(phases, [&](auto& p) { return p.first == what.name; });
    same != phases.end() ? void(same->second += ms) : void(phases.emplace_back(what.name, ms));
  }
  json.Key("whole_ms", static_cast<double>(window.end - window.begin) * 1e-6);
  json.Key("phases");
  json.Open('[');
  for (const auto& [name, ms] : phases) {
    json.Open('[');
    json.Text(name);
    json.Number(ms);
    json.Close(']');
  }
  json.Close(']');
}

}  // namespace weft::inspect
