#include "inspect/report_notes.h"

#include <initializer_list>

#include "base/str.h"

namespace weft::inspect {
namespace {

void AppendFields(std::string& out, std::initializer_list<std::string_view> fields) {
  bool first = true;
  for (std::string_view field : fields) {
    if (!first) out.push_back('\t');
    first = false;
    for (char c : field) out.push_back(c == '\t' || c == '\n' || c == '\r' ? ' ' : c);
  }
  out.push_back('\n');
}

std::vector<std::string> FieldsOf(std::string_view line) {
  std::vector<std::string> fields;
  for (size_t at = 0; at <= line.size();) {
    size_t end = std::min(line.find('\t', at), line.size());
    fields.emplace_back(line.substr(at, end - at));
    at = end + 1;
  }
  return fields;
}

int64_t IntOf(const std::string& field) {
  return ParseInt(field).value_or(0);
}

void ReadNote(const std::vector<std::string>& f, ProgramRecord& record) {
  if (f[0] == "pass" && f.size() == 6) {
    record.passes.push_back({.name = f[1],
                             .changed = f[2] == "changed",
                             .milliseconds = ParseDouble(f[3]).value_or(0),
                             .before = IntOf(f[4]),
                             .after = IntOf(f[5])});
  } else if (f[0] == "copy" && f.size() == 6) {
    record.copies.push_back({.name = f[1],
                             .source = f[2],
                             .reason = f[3],
                             .bytes = IntOf(f[4]),
                             .in_loop = f[5] == "loop"});
  } else if (f[0] == "apart" && f.size() == 6) {
    record.not_fused.push_back(
        {.name = f[1], .op = f[2], .source = f[3], .readers = f[4], .reason = f[5]});
  }
}

}  // namespace

std::string PrintNotes(std::span<const compiler::PassRun> passes,
                       std::span<const compiler::CopyNote> copies,
                       std::span<const compiler::FusionNote> not_fused) {
  std::string out;
  for (const compiler::PassRun& run : passes) {
    AppendFields(out, {"pass", run.pass, run.changed ? "changed" : "same", StrCat(run.milliseconds),
                       StrCat(run.instructions_before), StrCat(run.instructions_after)});
  }
  for (const compiler::CopyNote& copy : copies) {
    AppendFields(out, {"copy", copy.name, copy.source, copy.reason, StrCat(copy.bytes),
                       copy.in_loop ? "loop" : "once"});
  }
  for (const compiler::FusionNote& note : not_fused) {
    AppendFields(out, {"apart", note.name, note.op, note.source, note.readers, note.reason});
  }
  return out;
}

void ReadNotes(std::string_view text, ProgramRecord& record) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    ReadNote(FieldsOf(line), record);
  }
}

}  // namespace weft::inspect
