// A report of what WEFT_DUMP wrote.
#include <dirent.h>

#include <algorithm>

#include "base/file.h"
#include "base/str.h"
#include "hlo/text.h"
#include "inspect/report.h"
#include "inspect/report_notes.h"

namespace weft::inspect {
namespace {

constexpr std::string_view kInput = "0000.input.hlo";

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  DIR* dir = opendir(folder.c_str());
  if (dir == nullptr) return names;
  while (dirent* entry = readdir(dir)) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  closedir(dir);
  std::sort(names.begin(), names.end());
  return names;
}

// "fuse" of "0012.fuse.hlo"; empty: another file.
std::string_view PassOfFile(std::string_view name) {
  if (!name.ends_with(".hlo") || name.size() < 10 || name[4] != '.') return "";
  if (!ParseInt(name.substr(0, 4))) return "";
  return name.substr(5, name.size() - 9);
}

// The modules in order: each is what the next pass that changed something left.
Status ReadModules(const std::string& folder, std::span<const std::string> names,
                   ProgramRecord& record) {
  std::vector<PassRecord> noted = std::move(record.passes);
  record.passes.clear();
  size_t next = 0;
  for (const std::string& name : names) {
    std::string_view pass = PassOfFile(name);
    if (pass.empty()) continue;
    std::string text = TRY(ReadFile(StrCat(folder, "/", name)));
    std::unique_ptr<hlo::Module> module = TRY(hlo::ParseModule(text));
    record.AddFusions(*module);
    if (name == kInput) {
      record.AddInput(*module);
      continue;
    }
    compiler::PassRun run{.pass = pass, .changed = true};
    run.instructions_before = record.passes.empty() ? 0 : record.passes.back().after;
    run.instructions_after = module->instruction_count();
    for (; next < noted.size() && !noted[next].changed; ++next) {
      record.passes.push_back(std::move(noted[next]));
    }
    if (next < noted.size()) run.milliseconds = noted[next++].milliseconds;
    record.AddPass(run, *module);
  }
  for (; next < noted.size(); ++next) {
    if (!noted[next].changed) record.passes.push_back(std::move(noted[next]));
  }
  return {};
}

Result<std::shared_ptr<const ProgramRecord>> ReadFolder(const std::string& folder) {
  auto record = std::make_shared<ProgramRecord>();
  record->origin = folder;
  record->why_not_run = "read from a dump, which has no times";
  const std::vector<std::string> names = NamesIn(folder);
  auto has = [&](std::string_view name) { return std::ranges::binary_search(names, name); };
  if (has("notes.tsv")) ReadNotes(TRY(ReadFile(folder + "/notes.tsv")), *record);
  TRY(ReadModules(folder, names, *record));
  if (has("program.txt")) {
    std::string text = TRY(ReadFile(folder + "/program.txt"));
    Result<program::Program> program = program::Parse(text);
    if (!program) return std::unexpected(program.error());
    TRY(program::Verify(*program, text));
    record->SetProgram(std::move(*program));
  }
  for (const std::string& name : names) {
    if (!name.ends_with(".ll") && !name.ends_with(".s")) continue;
    record->code.emplace_back(name, TRY(ReadFile(StrCat(folder, "/", name))));
  }
  return record;
}

}  // namespace

Result<std::vector<std::shared_ptr<const ProgramRecord>>> ReadDump(const std::string& path) {
  std::vector<std::string> folders;
  for (const std::string& name : NamesIn(path)) {
    if (name == kInput) folders = {path};
    if (name == kInput) break;
    std::vector<std::string> inside = NamesIn(StrCat(path, "/", name));
    if (std::ranges::binary_search(inside, kInput)) folders.push_back(StrCat(path, "/", name));
  }
  if (folders.empty()) {
    auto error = InvalidArgument("report: nothing to report in ", path, ": no ", kInput,
                                 " in it or in a folder of it");
    error.error().Hint("WEFT_DUMP=DIR fills a folder for each program that is compiled");
    return error;
  }
  std::vector<std::shared_ptr<const ProgramRecord>> records;
  for (const std::string& folder : folders) {
    Result<std::shared_ptr<const ProgramRecord>> record = ReadFolder(folder);
    if (!record) {
      record.error().Note(StrCat("in ", folder));
      return std::unexpected(record.error());
    }
    records.push_back(std::move(*record));
  }
  return records;
}

}  // namespace weft::inspect
