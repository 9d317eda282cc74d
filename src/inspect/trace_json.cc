#include "inspect/trace_json.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>

#include "base/str.h"
#include "inspect/json.h"

namespace weft::inspect {
namespace {

using trace::Event;
using trace::What;

constexpr size_t kPiece = 1 << 20;  // bytes that are written at once

// Nanoseconds as microseconds, which is what the format counts in.
void AppendTime(std::string& out, int64_t nanoseconds) {
  char text[40];
  std::snprintf(text, sizeof(text), "%lld.%03lld", static_cast<long long>(nanoseconds / 1000),
                static_cast<long long>(nanoseconds % 1000));
  out += text;
}

class JsonWriter {
 public:
  JsonWriter(const trace::Capture& capture, std::FILE* file, std::span<const AsyncSpan> spans = {})
      : capture_(capture), spans_(spans), file_(file) {}

  // Whether all of it was written.
  bool Write() {
    StrAppend(out_, "{\"displayTimeUnit\": \"ns\", \"otherData\": {\"dropped_events\": ",
              capture_.dropped, ", \"begin_unix_ns\": ", capture_.begin + capture_.unix_offset,
              "}, \"traceEvents\": [");
    Begin("M", 0, "process_name");
    out_ += ", \"args\": {\"name\": \"weft\"}}";
    std::set<int64_t> named;  // threads of the same number follow one another
    for (const trace::ThreadEvents& thread : capture_.threads) {
      if (named.insert(thread.id).second) {
        Begin("M", thread.id, "thread_name");
        out_ += ", \"args\": {\"name\": ";
        AppendJsonString(out_, thread.name);
        out_ += "}}";
      }
      Write(thread);
    }
    WriteSpans();
    out_ += "\n]}\n";
    Flush();
    return good_;
  }

 private:
  void Flush() {
    good_ = good_ && std::fwrite(out_.data(), 1, out_.size(), file_) == out_.size();
    out_.clear();
  }
  void Begin(std::string_view phase, int64_t thread, std::string_view name) {
    StrAppend(out_, first_ ? "\n" : ",\n", "{\"ph\": \"", phase, "\", \"pid\": ", getpid(),
              ", \"tid\": ", thread, ", \"name\": ");
    AppendJsonString(out_, name);
    first_ = false;
  }
  void Time(std::string_view key, int64_t nanoseconds) {
    StrAppend(out_, ", \"", key, "\": ");
    AppendTime(out_, nanoseconds);
  }

  // Outer events before those inside them.
  void Write(const trace::ThreadEvents& thread) {
    std::vector<const Event*> events;
    for (const Event& event : thread.events) events.push_back(&event);
    std::ranges::sort(events, [](const Event* a, const Event* b) {
      return std::pair(a->begin, -a->end) < std::pair(b->begin, -b->end);
    });
    for (const Event* event : events) {
      if (out_.size() > kPiece) Flush();
      Begin("X", thread.id, event->what->name);
      StrAppend(out_, ", \"cat\": \"", NameOf(event->what->kind), "\"");
      Time("ts", event->begin - capture_.begin);
      Time("dur", event->end - event->begin);
      Arguments(*event);
      out_ += "}";
      if (event->to != 0) Flow("s", thread.id, event->to, event->begin);
      if (event->from != 0) Flow("f", thread.id, event->from, event->begin);
    }
  }

  // Of neighbours with the same number the first one is around the others: it ends last.
  void WriteSpans() {
    for (size_t i = 0; i < spans_.size();) {
      size_t end = i + 1;
      while (end < spans_.size() && spans_[end].id == spans_[i].id) ++end;
      Write(spans_[i], true);
      for (size_t k = i + 1; k < end; ++k) Write(spans_[k], true), Write(spans_[k], false);
      Write(spans_[i], false);
      i = end;
    }
  }

  // What began before the recording did begins with it.
  void Write(const AsyncSpan& span, bool begins) {
    if (out_.size() > kPiece) Flush();
    int64_t begin = std::max(span.begin, capture_.begin);
    Begin(begins ? "b" : "e", 0, span.name);
    StrAppend(out_, ", \"cat\": \"request\", \"id\": ", span.id);
    Time("ts", (begins ? begin : std::max(span.end, begin)) - capture_.begin);
    if (begins && !span.note.empty()) {
      out_ += ", \"args\": {\"note\": ";
      AppendJsonString(out_, span.note);
      out_ += "}";
    }
    out_ += "}";
  }

  // Bound to the event that begins at that time.
  void Flow(std::string_view phase, int64_t thread, uint64_t id, int64_t time) {
    Begin(phase, thread, "flow");
    StrAppend(out_, ", \"cat\": \"flow\", \"id\": ", id);
    Time("ts", time - capture_.begin);
    out_ += phase == "f" ? ", \"bp\": \"e\"}" : "}";
  }

  void Arguments(const Event& event) {
    const What& what = *event.what;
    std::string args;
    auto key = [&](std::string_view name) {
      StrAppend(args, args.empty() ? "" : ", ", "\"", name, "\": ");
    };
    auto text = [&](std::string_view name, const std::string& value) {
      if (value.empty()) return;
      key(name);
      AppendJsonString(args, value);
    };
    auto number = [&](std::string_view name, double value) {
      if (value == 0) return;
      key(name);
      char digits[40];
      std::snprintf(digits, sizeof(digits), "%.17g", value);
      args += digits;
    };
    text("program", what.program);
    text("op", what.op);
    text("op_name", what.op_name);
    text("source", what.source);
    text("shapes", what.shapes);
    text("parts", what.parts);
    number("flops", what.flops);
    number("bytes", what.bytes + static_cast<double>(event.bytes));
    number("device", event.device);
    if (!args.empty()) StrAppend(out_, ", \"args\": {", args, "}");
  }

  const trace::Capture& capture_;
  const std::span<const AsyncSpan> spans_;
  std::FILE* const file_;
  std::string out_;
  bool first_ = true, good_ = true;
};

}  // namespace

Status WriteTraceJson(const trace::Capture& capture, const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "wbe");
  bool good = file != nullptr && JsonWriter(capture, file).Write();
  if (file != nullptr && std::fclose(file) != 0) good = false;
  if (good) return {};
  return InvalidArgument("trace: cannot write ", path, ": ", std::strerror(errno));
}

Result<std::string> TraceJson(const trace::Capture& capture, std::span<const AsyncSpan> spans) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* file = open_memstream(&text, &size);
  bool good = file != nullptr && JsonWriter(capture, file, spans).Write();
  if (file != nullptr && std::fclose(file) != 0) good = false;
  std::string json(text != nullptr ? text : "", good ? size : 0);
  std::free(text);
  if (good) return json;
  return MakeError(Code::kResourceExhausted, "trace: no memory for the text");
}

TraceFile::TraceFile(std::string path) : path_(std::move(path)), process_(getpid()) {}

Status TraceFile::Write() {
  if (std::exchange(written_, true) || getpid() != process_) return {};
  return WriteTraceJson(session_.Take(), path_);
}

}  // namespace weft::inspect
