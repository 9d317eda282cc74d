#include "compiler/analysis/backend_config.h"

#include <algorithm>
#include <string>

#include "compiler/analysis/trip_count.h"

namespace weft::compiler {
namespace {

using hlo::Instruction;

std::string_view ConfigOf(const Instruction& i) {
  return i.extras() != nullptr ? std::string_view(i.extras()->backend_config.text) : "";
}

}  // namespace

std::string_view ConfigValue(const Instruction& i, std::string_view key) {
  std::string_view text = ConfigOf(i);
  size_t at = text.find(key);
  if (at == text.npos) return "";
  at += key.size();
  while (at < text.size() && (text[at] == '"' || text[at] == '\\' || text[at] == ' ')) ++at;
  if (at == text.size() || text[at] != ':') return "";
  return text.substr(at + 1);
}

std::vector<int64_t> ConfigInts(const Instruction& i, std::string_view key) {
  std::string_view text = ConfigValue(i, key);
  std::vector<int64_t> found;
  for (size_t at = 0; at < text.size();) {
    char c = text[at];
    if (c >= '0' && c <= '9') {
      size_t end = std::min(text.find_first_not_of("0123456789", at), text.size());
      found.push_back(ParseInt(text.substr(at, end - at)).value_or(0));
      at = end;
    } else if (c == ']' || c == '}') {
      break;
    } else {
      ++at;
    }
  }
  return found;
}

int64_t KnownTripCount(const Instruction& loop) {
  // What the loop shows is so; what is written may be of an older form of it.
  if (std::optional<int64_t> trips = TripCount(loop)) return *trips;
  std::vector<int64_t> written = ConfigInts(loop, "known_trip_count");
  return written.empty() ? 0 : written[0];
}

void SetKnownTripCount(Instruction& loop, int64_t trips) {
  hlo::BackendConfig& config = loop.mutable_extras().backend_config;
  std::string& text = config.text;
  if (ConfigInts(loop, "known_trip_count").empty()) {
    std::string count = StrCat("\"known_trip_count\":{\"n\":\"", trips, "\"}");
    bool has_others = text.size() > 2 && text[0] == '{';
    text = has_others ? StrCat("{", count, ",", text.substr(1)) : StrCat("{", count, "}");
    config.is_dict = true;
  } else {
    size_t at = text.find_first_of("0123456789", text.find("known_trip_count"));
    text.replace(at, text.find_first_not_of("0123456789", at) - at, StrCat(trips));
  }
}

}  // namespace weft::compiler
