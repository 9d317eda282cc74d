#include "compiler/options.h"

#include <algorithm>
#include <optional>

#include "base/nearest.h"
#include "base/str.h"

namespace weft::compiler {
namespace {

std::vector<std::string> SplitList(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find(separator, at), text.size());
    if (end > at) parts.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// Each returns whether the text is a value of the field's type.
bool Assign(bool& field, std::string_view text) {
  field = text == "true" || text == "1";
  return field || text == "false" || text == "0";
}
bool Assign(int64_t& field, std::string_view text) {
  std::optional<int64_t> value = ParseInt(text);
  field = value.value_or(0);
  return value.has_value();
}
bool Assign(std::string& field, std::string_view text) {
  field = text;
  return true;
}
bool Assign(std::vector<std::string>& field, std::string_view text) {
  field = SplitList(text, '+');
  return true;
}

// Behind "expected".
std::string_view Takes(bool) {
  return "true or false";
}
std::string_view Takes(int64_t) {
  return "a whole number";
}
std::string_view Takes(const std::string&) {
  return "a text";
}
std::string_view Takes(const std::vector<std::string>&) {
  return "names, a+b";
}

std::string ShowOption(bool value) {
  return value ? "true" : "false";
}
std::string ShowOption(int64_t value) {
  return StrCat(value);
}
std::string ShowOption(const std::string& value) {
  return value;
}
std::string ShowOption(const std::vector<std::string>& value) {
  return StrJoin(value, "+");
}

std::string PrintFields(const CompileOptions& options, bool diagnostic_too) {
  CompileOptions copy = options, defaults;
  std::vector<std::string> usual;
  defaults.Fields(
      [&](std::string_view, auto& field, auto...) { usual.push_back(ShowOption(field)); });
  std::string out;
  size_t i = 0;
  copy.Fields([&](std::string_view name, auto& field, FieldRole role, auto...) {
    std::string text = ShowOption(field);
    if (text == usual[i++]) return;
    if (role == FieldRole::kDiagnostic && !diagnostic_too) return;
    StrAppend(out, out.empty() ? "" : ",", name, "=", text);
  });
  return out;
}

}  // namespace

Status ParseOptions(std::string_view text, CompileOptions& options) {
  CompileOptions result = options;
  for (const std::string& item : SplitList(text, ',')) {
    size_t equals = item.find('=');
    if (equals == std::string::npos) return InvalidArgument("option without a value: ", item);
    std::string_view key = std::string_view(item).substr(0, equals);
    std::string_view value = std::string_view(item).substr(equals + 1);
    bool known = false, fits = false;
    std::string_view takes;
    result.Fields([&](std::string_view name, auto& field, auto...) {
      if (name != key) return;
      known = true;
      takes = Takes(field);
      fits = Assign(field, value);
    });
    if (!known) {
      std::vector<std::string_view> names;
      result.Fields([&](std::string_view name, auto&, auto...) { names.push_back(name); });
      auto error = InvalidArgument("unknown option: ", key, DidYouMean(key, names));
      error.error().Hint("options are " + StrJoin(names, ", "));
      return error;
    }
    if (!fits)
      return InvalidArgument("option ", key, ": wrong value: ", value, ", expected ", takes);
  }
  options = std::move(result);
  return {};
}

std::string PrintOptions(const CompileOptions& options) {
  return PrintFields(options, /*diagnostic_too=*/true);
}

std::vector<OptionInfo> ListOptions() {
  std::vector<OptionInfo> all;
  CompileOptions defaults;
  defaults.Fields([&](std::string_view name, auto& field, FieldRole, std::string_view doc = {}) {
    all.push_back(
        {std::string(name), std::string(Takes(field)), ShowOption(field), std::string(doc)});
  });
  return all;
}

std::string CacheKey(const CompileOptions& options) {
  return PrintFields(options, /*diagnostic_too=*/false);
}

}  // namespace weft::compiler
