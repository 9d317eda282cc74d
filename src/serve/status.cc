#include "serve/status.h"

#include <unistd.h>

#include <cstdio>

#include "base/str.h"
#include "serve/json.h"

namespace weft::serve {
namespace {

// The files of the page, in here: other modules have pages of their own.
#include "serve/status_page.inc"

// Bytes in memory, by the kernel's own count; 0: not known.
int64_t ResidentBytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  long long pages = 0, resident = 0;
  int read = std::fscanf(file, "%lld %lld", &pages, &resident);
  std::fclose(file);
  return read == 2 ? resident * sysconf(_SC_PAGESIZE) : 0;
}

void AppendVersions(std::string& out, Server& server, const std::string& model) {
  out += "\"versions\":[";
  bool first = true;
  if (auto versions = server.models().StatusOf({model})) {
    for (const VersionStatus& version : *versions) {
      StrAppend(out, first ? "" : ",", "{\"version\":", version.version, ",\"state\":\"",
                NameOf(version.state), "\",\"error\":");
      AppendJsonText(out, version.error ? version.error->ToString() : "");
      out += '}';
      first = false;
    }
  }
  out += ']';
}

// How the system ranks and places the threads, and which of them do the runs now; what devices
// have.
void AppendCrews(std::string& out, const Server& server) {
  out += "\"threads\":[";
  bool first = true;
  for (const RunHandler::CrewFacts& crew : server.Crews()) {
    StrAppend(out, first ? "" : ",", "{\"for\":\"", crew.name, "\",\"count\":", crew.threads,
              ",\"waiting\":", crew.waiting, ",\"rank\":\"", crew.rank, "\",\"cores\":\"",
              crew.cores, "\",\"turn\":", crew.turn ? "true}" : "false}");
    first = false;
  }
  out += "],\"devices\":[";
  first = true;
  for (const DeviceSelector::Load& load : server.backend().DeviceLoads()) {
    StrAppend(out, first ? "" : ",", "{\"reserved\":", load.reserved, ",\"runs\":", load.total,
              "}");
    first = false;
  }
  out += ']';
}

// Counts by bucket up to the last one that has some; the sum in nanoseconds.
void AppendHistogram(std::string& out, const Histogram& histogram) {
  int last = Histogram::kBuckets;
  while (last >= 0 && histogram.bucket_count(last) == 0) --last;
  StrAppend(out, "{\"sum\":", histogram.sum(), ",\"counts\":[");
  for (int b = 0; b <= last; ++b) StrAppend(out, b > 0 ? "," : "", histogram.bucket_count(b));
  out += "]}";
}

void AppendClass(std::string& out, const ModelStats& stats, Priority priority) {
  out += "{\"outcomes\":{";
  for (int o = 0; o < kOutcomes; ++o) {
    Outcome outcome = static_cast<Outcome>(o);
    StrAppend(out, o > 0 ? "," : "", "\"", NameOf(outcome), "\":", stats.count(priority, outcome));
  }
  out += "},\"phases\":{";
  for (int p = 0; p < kPhases; ++p) {
    Phase phase = static_cast<Phase>(p);
    StrAppend(out, p > 0 ? "," : "", "\"", NameOf(phase), "\":");
    AppendHistogram(out, stats.histogram(priority, phase));
  }
  out += "}}";
}

}  // namespace

std::string StatusJson(Server& server) {
  RunHandler::Load load = server.load();
  std::string out = StrCat("{\"version\":\"", kServerVersion, "\",\"device\":");
  AppendJsonText(out, server.backend().description());
  StrAppend(out, ",\"ready\":", server.Ready() ? "true" : "false",
            ",\"uptime_ns\":", Now() - server.started(), ",\"resident_bytes\":", ResidentBytes(),
            ",\"weights_bytes\":", server.models().weights_bytes(),
            ",\"inflight_bytes\":", server.inflight_bytes(), ",\"running\":", load.running,
            ",\"slots\":", load.limit, ",\"queued\":{");
  for (int c = 0; c < kPriorities; ++c) {
    StrAppend(out, c > 0 ? "," : "", "\"", NameOf(static_cast<Priority>(c)), "\":", load.queued[c]);
  }
  AppendCrews(out += "},", server);
  StrAppend(out, ",\"first_bucket_ns\":", static_cast<int64_t>(Histogram::BucketEnd(0) * 1e9),
            ",\"models\":[");
  bool first = true;
  for (const std::string& name : server.models().Names()) {
    std::shared_ptr<ModelStats> stats = server.stats().Of(name);
    out += first ? "{\"name\":" : ",{\"name\":";
    AppendJsonText(out, name);
    AppendVersions(out += ',', server, name);
    StrAppend(out, ",\"batches\":", stats->batches(), ",\"rows\":", stats->rows(),
              ",\"padded_rows\":", stats->padded_rows(), ",\"classes\":{");
    for (int c = 0; c < kPriorities; ++c) {
      StrAppend(out, c > 0 ? "," : "", "\"", NameOf(static_cast<Priority>(c)), "\":");
      AppendClass(out, *stats, static_cast<Priority>(c));
    }
    out += "}}";
    first = false;
  }
  return out + "]}";
}

std::string_view StatusPage() {
  static const std::string page = [] {
    auto text = [](const auto& bytes) {
      return std::string_view(reinterpret_cast<const char*>(bytes), sizeof(bytes));
    };
    std::string html(text(page_html));
    auto put = [&](std::string_view mark, std::string_view with) {
      html.replace(html.find(mark), mark.size(), with);
    };
    put("/*css*/", text(page_css));
    put("/*js*/", text(page_js));
    return html;
  }();
  return page;
}

}  // namespace weft::serve
