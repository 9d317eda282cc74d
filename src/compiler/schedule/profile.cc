// Measured times of instructions, read from a file.
#include <cmath>
#include <optional>

#include "base/str.h"
#include "compiler/schedule/costs.h"

namespace weft::compiler::schedule {
namespace {

// Copies are named `name.3`.
std::string_view NameOfOriginal(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot != name.npos && ParseInt(name.substr(dot + 1)) ? name.substr(0, dot) : name;
}

}  // namespace

Result<Profile> Profile::Parse(std::string_view text) {
  Profile profile;
  int line_number = 0;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++line_number;
    std::string_view content = line.substr(0, line.find('#'));
    size_t begin = content.find_first_not_of(" \t\r");
    if (begin == content.npos) continue;
    content = content.substr(begin, content.find_last_not_of(" \t\r") + 1 - begin);
    size_t gap = content.find_first_of(" \t");
    std::optional<double> value;
    if (gap != content.npos) {
      value = ParseDouble(content.substr(content.find_first_not_of(" \t", gap)));
    }
    if (!value || !std::isfinite(*value) || *value < 0) {
      auto error = InvalidArgument("profile: not `name microseconds`: ", line);
      error.error().At(line_number, 1, line);
      return error;
    }
    if (content[0] == '%') content.remove_prefix(1), --gap;
    profile.seconds_.insert_or_assign(std::string(content.substr(0, gap)), *value * 1e-6);
  }
  return profile;
}

const double* Profile::Find(std::string_view name) const {
  auto it = seconds_.find(std::string(name));
  if (it == seconds_.end()) it = seconds_.find(std::string(NameOfOriginal(name)));
  return it != seconds_.end() ? &it->second : nullptr;
}

const double* Profile::FindStart(std::string_view name) const {
  if (const double* found = Find(name)) return found;
  constexpr std::string_view kStart = "-start";
  name = NameOfOriginal(name);
  return name.ends_with(kStart) ? Find(name.substr(0, name.size() - kStart.size())) : nullptr;
}

}  // namespace weft::compiler::schedule
