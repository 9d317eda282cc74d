// The text of source lines, for reports of the process whose sources they are.
#include "base/file.h"
#include "base/str.h"
#include "inspect/report_sections.h"

namespace weft::inspect {
namespace {

constexpr int64_t kLargestSource = 4 << 20;
constexpr size_t kLongestLine = 200;

std::vector<std::string> LinesOfFile(const std::string& path) {
  std::vector<std::string> lines;
  Result<std::string> text = ReadFile(path, kLargestSource, 0);
  if (!text) return lines;
  std::string_view left = *text;
  while (!left.empty()) {
    std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(line.size() + 1, left.size()));
    size_t begin = std::min(line.find_first_not_of(" \t"), line.size());
    lines.emplace_back(line.substr(begin, kLongestLine));
  }
  return lines;
}

}  // namespace

std::string SourceTexts::Line(std::string_view place) {
  size_t colon = place.rfind(':');
  std::optional<int64_t> number =
      colon == place.npos ? std::nullopt : ParseInt(place.substr(colon + 1));
  std::string path(place.substr(0, colon));
  // Nothing else is a source of a program, whatever a module claims.
  if (!number || *number < 1 || !path.ends_with(".py")) return "";
  auto [found, added] = files_.try_emplace(path);
  if (added) found->second = LinesOfFile(path);
  const std::vector<std::string>& lines = found->second;
  return *number <= std::ssize(lines) ? lines[static_cast<size_t>(*number - 1)] : "";
}

void WriteSources(const ProgramRecord& record, SourceTexts* sources, Json& json) {
  json.Key("sources");
  json.Open('{');
  std::map<std::string, bool> seen;
  auto write = [&](const program::Step& step) {
    std::string place(LineOf(step.source));
    if (place.empty() || !seen.emplace(place, true).second) return;
    std::string text = sources->Line(place);
    if (!text.empty()) json.Key(place, text);
  };
  if (sources != nullptr && record.program) program::ForEachStep(record.program->steps, write);
  json.Close('}');
}

}  // namespace weft::inspect
