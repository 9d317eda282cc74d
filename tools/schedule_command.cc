// weft schedule: an order in which communication is hidden, with a certificate.
#include <cstdio>

#include "base/file.h"
#include "commands.h"
#include "compiler/schedule/certificate.h"
#include "compiler/schedule/plan.h"
#include "compiler/schedule/scheduler.h"
#include "hlo/text.h"
#include "input.h"
#include "inspect/json.h"

namespace weft::tools {
namespace {

namespace sched = compiler::schedule;

std::string PerfettoOf(const sched::Certificate& c) {
  inspect::Json json;
  json.Open('{');
  json.Key("displayTimeUnit", "ms");
  json.Key("traceEvents");
  json.Open('[');
  for (size_t n = 0; n < c.line.ops.size(); ++n) {
    const sched::TimedOp& op = c.line.ops[n];
    if (op.end <= op.begin) continue;
    json.Open('{');
    json.Key("name", c.trace.ops[n].instruction->name());
    json.Key("ph", "X");
    json.Key("pid", int64_t{1});
    json.Key("tid", static_cast<int64_t>(c.trace.ops[n].cost.stream) + 1);
    json.Key("cat", sched::StreamName(c.trace.ops[n].cost.stream));
    json.Key("ts", op.begin * 1e6);
    json.Key("dur", (op.end - op.begin) * 1e6);
    json.Close('}');
  }
  for (auto stream : {sched::Stream::kCompute, sched::Stream::kWire, sched::Stream::kCopy,
                      sched::Stream::kWait}) {
    json.Open('{');
    json.Key("name", "thread_name");
    json.Key("ph", "M");
    json.Key("pid", int64_t{1});
    json.Key("tid", static_cast<int64_t>(stream) + 1);
    json.Key("args");
    json.Open('{');
    json.Key("name", sched::StreamName(stream));
    json.Close('}');
    json.Close('}');
  }
  json.Close(']');
  json.Close('}');
  return json.Take() + "\n";
}

struct ScheduleRequest {
  sched::Machine machine;
  sched::Profile profile;
  sched::SchedulerOptions options;
  std::string memory, perfetto, out, emit;
  bool check = false, as_is = false, partitioned = false;
};

// Bytes, or `1.1x`: so many times what the module's own order takes.
struct MemoryLimit {
  int64_t bytes = 0;
  double ratio = 0;
};
Result<MemoryLimit> ParseMemory(const std::string& text) {
  if (text.empty()) return MemoryLimit{};
  bool is_ratio = text.ends_with("x");
  std::optional<double> number =
      ParseDouble(std::string_view(text).substr(0, text.size() - is_ratio));
  if (!number || !(*number > 0) || *number > 1e18) {
    return InvalidArgument("--memory: not a number of bytes, nor `1.1x`: ", text);
  }
  if (is_ratio) return MemoryLimit{.ratio = *number};
  return MemoryLimit{.bytes = static_cast<int64_t>(*number)};
}

// Partitions the module first where nobody has.
Result<std::unique_ptr<hlo::Module>> MakeSchedule(const ScheduleRequest& r,
                                                  std::unique_ptr<hlo::Module> module,
                                                  int64_t* memory_limit) {
  sched::PlanOptions options{.scheduler = r.options};
  MemoryLimit memory = TRY(ParseMemory(r.memory));
  options.scheduler.memory_limit = memory.bytes;
  if (!r.partitioned && sched::NeedsPartition(*module)) {
    options.memory_ratio = memory.ratio;
    sched::Plan plan = TRY(sched::MakePlan(std::move(module), r.machine, &r.profile, options));
    *memory_limit = plan.memory_limit;
    return std::move(plan.module);
  }
  if (memory.ratio > 0) {
    sched::Certificate before = TRY(sched::Certify(*module, r.machine, &r.profile));
    options.scheduler.memory_limit =
        static_cast<int64_t>(memory.ratio * static_cast<double>(before.peak));
  }
  *memory_limit = options.scheduler.memory_limit;
  return sched::ScheduleOps(std::move(module), r.machine, &r.profile, options.scheduler);
}

Status Write(const ScheduleRequest& r, const std::string& text) {
  if (!r.out.empty()) return WriteFile(r.out, text);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return {};
}

Status ScheduleFile(ScheduleRequest& r, const std::string& file) {
  if (r.check) {
    std::string text = TRY(ReadInput(file));
    Input input = TRY(ParseInput(text));
    TRY(VerifyInput(input, text));
    auto* module = std::get_if<0>(&input);
    if (module == nullptr) return InvalidArgument("schedule: a Program, not a module");
    TRY(sched::CheckCertificate(text, **module, &r.profile));
    std::printf("the certificate is true\n");
    return {};
  }
  std::unique_ptr<hlo::Module> module = TRY(LoadModule(file));
  int64_t memory_limit = 0;
  if (!r.as_is) module = TRY(MakeSchedule(r, std::move(module), &memory_limit));
  sched::Certificate c = TRY(sched::Certify(*module, r.machine, &r.profile));
  if (memory_limit > 0 && c.peak > memory_limit) {
    std::fprintf(stderr,
                 "weft: schedule: the order takes %lld bytes, more than the %lld of --memory: none "
                 "was found that takes less\n",
                 static_cast<long long>(c.peak), static_cast<long long>(memory_limit));
  }
  if (!r.perfetto.empty()) TRY(WriteFile(r.perfetto, PerfettoOf(c)));
  if (r.emit == "timeline") return Write(r, sched::PrintTimeline(c));
  std::string text = sched::PrintCertificate(c);
  if (r.emit == "hlo") text += hlo::PrintModule(*module);
  return Write(r, text);
}

Result<int> RunSchedule(Args args) {
  ScheduleRequest r;
  std::string target = args.Value("--target").value_or("h200x8");
  std::optional<std::string> profile = args.Value("--profile");
  r.memory = args.Value("--memory").value_or("");
  r.perfetto = args.Value("--perfetto").value_or("");
  r.out = args.Value("--out").value_or("");
  r.emit = args.Value("--emit").value_or("hlo");
  r.check = args.Flag("--check");
  r.as_is = args.Flag("--as-is");
  r.partitioned = args.Flag("--partitioned");
  r.options.keep_sync = args.Values("--keep-sync");
  r.options.unroll = args.Int("--unroll", r.options.unroll, 0, 1'000'000);
  std::string groups = args.Value("--groups").value_or("error");
  r.options.groups.selective = args.Flag("--selective-groups");
  std::string metric = args.Value("--metric").value_or("queues");
  std::vector<std::string> files = TRY(args.Finish(1, 1));
  if (r.emit != "hlo" && r.emit != "certificate" && r.emit != "timeline") {
    return InvalidArgument("--emit: not hlo, certificate or timeline: ", r.emit);
  }
  if (metric != "queues" && metric != "in-flight") {
    return InvalidArgument("--metric: not queues or in-flight: ", metric);
  }
  if (groups != "error" && groups != "drop") {
    return InvalidArgument("--groups: not error or drop: ", groups);
  }
  if (groups == "drop") r.options.groups.on_bad = sched::OnBadGroup::kDrop;
  if (metric == "in-flight") r.options.metric = sched::Metric::kInFlight;
  r.machine = TRY(sched::FindMachine(target));
  if (profile) {
    auto read = [&]() -> Result<sched::Profile> {
      return sched::Profile::Parse(TRY(ReadFile(*profile)));
    }();
    if (!read) {
      Report(read.error(), *profile);
      return kFailed;
    }
    r.profile = *std::move(read);
  }
  Status status = ScheduleFile(r, files[0]);
  if (status) return kOk;
  Report(status.error(), files[0]);
  return kFailed;
}

}  // namespace

constexpr Command kScheduleCommand = {
    "schedule", "orders a module so that communication is hidden, with a certificate",
    R"(usage: weft schedule [--target=T] [--memory=N] [--profile FILE] [--emit=hlo|certificate|timeline]
                     [--perfetto FILE] [--out FILE] [--metric=queues|in-flight] [--unroll=N]
                     [--keep-sync KIND] [--groups=error|drop] [--selective-groups]
                     [--as-is] [--partitioned] FILE
       weft schedule --check [--profile FILE] FILE

Reads a partitioned module, makes its collectives asynchronous, unrolls loops that hold some, and
orders its instructions so that transfers run beside compute. Prints the scheduled module behind a
certificate: length on the model of the target, lower bound and which one it is, what each
collective leaves exposed and what waits for it, peak memory. --check computes all of it again from
the printed text. A module of all devices, with shardings, is partitioned and optimised for the
target first; its loops are unrolled, pipelined or kept, whichever is shortest on the model.

  --target=T       cpu or h200xN, N devices (default h200x8); changes: h200x8,link=260e9,overlap=2
  --memory=N       at most N bytes, or 1.1x: times what the order of FILE takes
  --profile FILE   measured times, a line each: name microseconds
  --emit=WHAT      hlo (with the certificate, default), certificate, timeline
  --perfetto FILE  the timeline as JSON
  --out FILE       instead of standard output
  --metric=M       queues: a transfer waits for its turn on the wire (default); in-flight: XLA's walk
  --unroll=N       instructions that unrolling may make (default 20000; 0: loops stay)
  --keep-sync KIND all-reduce and the like, or all: stays synchronous
  --groups=WHAT    a scheduling group that cannot be placed is an error (default), or is dropped
  --selective-groups  annotations of transfers and matrix products count, others do not
  --as-is          the certificate of the order that FILE has
  --partitioned    FILE is the program of one device, whatever shardings it notes

examples:
  weft schedule step.hlo --memory=1.1x --out scheduled.hlo
  weft schedule --check scheduled.hlo
  weft schedule --as-is --emit=timeline scheduled.hlo
)",
    RunSchedule};

}  // namespace weft::tools
