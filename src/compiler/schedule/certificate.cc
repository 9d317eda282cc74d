#include "compiler/schedule/certificate.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "compiler/schedule/verify_schedule.h"

namespace weft::compiler::schedule {
namespace {

constexpr std::string_view kFirstLine = "// schedule for ";

std::string Milliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6f ms", seconds * 1e3);
  return text;
}
std::string Percent(double part) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f %%", part * 100);
  return text;
}

std::vector<CollectiveRow> Rows(const Certificate& c) {
  std::map<int64_t, size_t> row_of;  // by instruction id
  std::vector<CollectiveRow> rows;
  std::vector<double> longest;
  for (size_t n = 0; n < c.trace.ops.size(); ++n) {
    const TraceOp& op = c.trace.ops[n];
    if (op.cost.stream != Stream::kWire) continue;
    auto [it, is_new] = row_of.try_emplace(op.instruction->id(), rows.size());
    if (is_new) {
      CollectiveRow row;
      row.name = op.instruction->name();
      row.computation = op.instruction->parent()->name();
      row.kind = Mnemonic(op.cost.collective);
      row.devices = op.cost.group;
      row.is_sync = !op.cost.is_async;
      rows.push_back(std::move(row));
      longest.push_back(0);
    }
    CollectiveRow& row = rows[it->second];
    const TimedOp& timed = c.line.ops[n];
    ++row.runs;
    row.bytes += op.cost.bytes;
    row.wire += op.cost.seconds;
    row.exposed += timed.exposed;
    if (timed.waiter >= 0 && timed.exposed > longest[it->second]) {
      longest[it->second] = timed.exposed;
      row.waits_for = c.trace.ops[static_cast<size_t>(timed.waiter)].instruction->name();
    }
  }
  std::vector<size_t> order(rows.size());
  for (size_t k = 0; k < order.size(); ++k) order[k] = k;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return rows[a].exposed != rows[b].exposed ? rows[a].exposed > rows[b].exposed : a < b;
  });
  std::vector<CollectiveRow> sorted;
  for (size_t k : order) sorted.push_back(std::move(rows[k]));
  return sorted;
}

}  // namespace

Result<Certificate> Certify(const hlo::Module& module, const Machine& machine,
                            const Profile* profile) {
  Costs costs(module, machine, profile);
  Certificate c;
  c.target = machine.name;
  c.trace = TRY(Execute(module, costs));
  c.line = Simulate(c.trace, machine.overlap, costs.rules());
  c.bounds = LowerBounds(c.trace, machine.overlap);
  c.walk = InFlightWalk(c.trace);
  c.peak = c.trace.Peak();
  c.collectives = Rows(c);
  return c;
}

std::string PrintCertificate(const Certificate& c) {
  std::string out = StrCat(kFirstLine, c.target, "\n");
  StrAppend(out, "// length ", Milliseconds(c.line.length), ", lower bound ",
            Milliseconds(c.bounds.best), " (", c.bounds.kind, "), gap ", Percent(c.gap()), "\n");
  StrAppend(out, "// bounds: compute ", Milliseconds(c.bounds.compute), ", wire ",
            Milliseconds(c.bounds.wire), ", copies ", Milliseconds(c.bounds.copy),
            ", critical path ", Milliseconds(c.bounds.critical_path), ", one machine ",
            Milliseconds(std::max({c.bounds.one_machine_compute, c.bounds.one_machine_wire,
                                   c.bounds.one_machine_copy})),
            ", in-loop ", Milliseconds(c.bounds.in_loop), "\n");
  StrAppend(out, "// busy: compute ", Milliseconds(c.line.compute), ", wire ",
            Milliseconds(c.line.wire), ", copies ", Milliseconds(c.line.copy), "; exposed wire ",
            Milliseconds(c.line.exposed), " (synchronous ", Milliseconds(c.line.exposed_sync),
            "), copies ", Milliseconds(c.line.copy_wait), "\n");
  StrAppend(out, "// length by the in-flight walk ", Milliseconds(c.walk), "\n");
  StrAppend(out, "// peak memory ", c.peak, " bytes\n");
  for (const CollectiveRow& r : c.collectives) {
    StrAppend(out, "// ", r.name, " of ", r.computation, ": ", r.kind, " over ", r.devices,
              r.is_sync ? ", sync" : "", ", ", r.runs, " runs, ", r.bytes, " bytes, wire ",
              Milliseconds(r.wire), ", exposed ", Milliseconds(r.exposed));
    if (!r.waits_for.empty()) StrAppend(out, " at ", r.waits_for);
    out += "\n";
  }
  for (const std::string& w : c.trace.warnings) StrAppend(out, "// warning: ", w, "\n");
  return out + "// end of certificate\n";
}

Status CheckCertificate(std::string_view text, const hlo::Module& module, const Profile* profile) {
  size_t begin = text.find(kFirstLine);
  size_t end = text.find("// end of certificate\n");
  if (begin == text.npos || end == text.npos) {
    auto error = InvalidArgument("certificate: there is none in the text");
    error.error().Hint("`weft schedule FILE` prints a module with its certificate");
    return error;
  }
  if (!module.config().is_scheduled)
    return InvalidArgument("certificate: the module is not scheduled");
  TRY(VerifySchedules(module));
  std::string_view claimed = text.substr(begin, end - begin);
  size_t name = kFirstLine.size();
  Machine machine = TRY(FindMachine(claimed.substr(name, claimed.find('\n') - name)));
  Certificate certificate = TRY(Certify(module, machine, profile));
  std::string computed = PrintCertificate(certificate);
  std::string_view found = computed;
  while (true) {
    size_t a = claimed.find('\n'), b = found.find('\n');
    std::string_view line = claimed.substr(0, a), really = found.substr(0, b);
    if (claimed.empty() && really == "// end of certificate") return {};
    if (line != really) {
      return InvalidArgument(
          "certificate: not true: ", claimed.empty() ? "(a line is missing)" : line,
          "; computed: ", really);
    }
    claimed.remove_prefix(std::min(a, claimed.size() - 1) + 1);
    found.remove_prefix(b + 1);
  }
}

std::string PrintTimeline(const Certificate& c) {
  std::vector<size_t> order;
  for (size_t n = 0; n < c.line.ops.size(); ++n) {
    if (c.line.ops[n].end > c.line.ops[n].begin) order.push_back(n);
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    double x = c.line.ops[a].begin, y = c.line.ops[b].begin;
    return x != y ? x < y : a < b;
  });
  std::string out;
  for (size_t n : order) {
    char text[96];
    std::snprintf(text, sizeof text, "%12.2f %12.2f us %-8s ", c.line.ops[n].begin * 1e6,
                  c.line.ops[n].end * 1e6,
                  std::string(StreamName(c.trace.ops[n].cost.stream)).c_str());
    StrAppend(out, text, c.trace.ops[n].instruction->name(), "\n");
  }
  return out;
}

}  // namespace weft::compiler::schedule
