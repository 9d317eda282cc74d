#include "compiler/options.h"

#include <algorithm>
#include <optional>

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
      [&](std::string_view, auto& field, FieldRole) { usual.push_back(ShowOption(field)); });
  std::string out;
  size_t i = 0;
  copy.Fields([&](std::string_view name, auto& field, FieldRole role) {
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
    result.Fields([&](std::string_view name, auto& field, FieldRole) {
      if (name != key) return;
      known = true;
      fits = Assign(field, value);
    });
    if (!known) {
      std::string names;
      result.Fields([&](std::string_view name, auto&, FieldRole) {
        StrAppend(names, names.empty() ? "" : ", ", name);
      });
      auto error = InvalidArgument("unknown option: ", key);
      error.error().Hint("options are " + names);
      return error;
    }
    if (!fits) return InvalidArgument("option ", key, ": wrong value: ", value);
  }
  options = std::move(result);
  return {};
}

std::string PrintOptions(const CompileOptions& options) {
  return PrintFields(options, /*diagnostic_too=*/true);
}

std::string CacheKey(const CompileOptions& options) {
  return PrintFields(options, /*diagnostic_too=*/false);
}

}  // namespace weft::compiler
