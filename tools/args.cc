#include "args.h"

#include <algorithm>
#include <cmath>

#include "base/nearest.h"
#include "base/str.h"

namespace weft::tools {

namespace {

std::string RangeText(int64_t min, int64_t max) {
  constexpr auto kLowest = std::numeric_limits<int64_t>::min();
  constexpr auto kHighest = std::numeric_limits<int64_t>::max();
  if (min == kLowest && max == kHighest) return "";
  if (max == kHighest) return StrCat(" of at least ", min);
  if (min == kLowest) return StrCat(" of at most ", max);
  return StrCat(" from ", min, " to ", max);
}

}  // namespace

bool Args::Flag(std::string_view name) {
  known_.emplace_back(name);
  auto end = std::find(left_.begin(), left_.end(), "--");
  auto kept = std::remove(left_.begin(), end, name);
  bool found = kept != end;
  left_.erase(kept, end);
  return found;
}

std::vector<std::string> Args::Values(std::string_view name) {
  known_.emplace_back(name);
  std::vector<std::string> values;
  for (size_t i = 0; i < left_.size() && left_[i] != "--";) {
    const std::string& arg = left_[i];
    if (arg == name) {
      if (i + 1 == left_.size()) {
        if (!error_) error_ = Error(Code::kInvalidArgument, StrCat(name, ": needs a value"));
        left_.pop_back();
        break;
      }
      values.push_back(left_[i + 1]);
      left_.erase(left_.begin() + i, left_.begin() + i + 2);
    } else if (arg.starts_with(name) && arg.size() > name.size() && arg[name.size()] == '=') {
      values.push_back(arg.substr(name.size() + 1));
      left_.erase(left_.begin() + i);
    } else {
      ++i;
    }
  }
  return values;
}

std::optional<std::string> Args::Value(std::string_view name) {
  std::vector<std::string> values = Values(name);
  if (values.empty()) return std::nullopt;
  return values.back();
}

int64_t Args::Int(std::string_view name, int64_t otherwise, int64_t min, int64_t max) {
  std::optional<std::string> text = Value(name);
  if (!text) return otherwise;
  std::optional<int64_t> value = ParseInt(*text);
  if (value && *value >= min && *value <= max) return *value;
  if (!error_) {
    error_ = Error(Code::kInvalidArgument,
                   StrCat(name, ": not a whole number", RangeText(min, max), ": ", *text));
  }
  return otherwise;
}

double Args::Number(std::string_view name, double otherwise) {
  std::optional<std::string> text = Value(name);
  if (!text) return otherwise;
  std::optional<double> value = ParseDouble(*text);
  if (value && std::isfinite(*value) && *value >= 0) return *value;
  if (!error_) {
    error_ = Error(Code::kInvalidArgument, StrCat(name, ": not a number of at least 0: ", *text));
  }
  return otherwise;
}

Result<std::vector<std::string>> Args::Finish(size_t min, size_t max) {
  if (error_) return std::unexpected(*error_);
  auto end = std::find(left_.begin(), left_.end(), "--");
  for (auto it = left_.begin(); it != end; ++it) {
    if (it->size() < 2 || it->front() != '-') continue;
    std::vector<std::string_view> known(known_.begin(), known_.end());
    return InvalidArgument("unknown flag: ", *it, DidYouMean(it->substr(0, it->find('=')), known));
  }
  if (end != left_.end()) left_.erase(end);
  if (left_.size() < min) {
    return InvalidArgument("needs ", min, min == 1 ? " argument" : " arguments", ", got ",
                           left_.size());
  }
  if (left_.size() > max) return InvalidArgument("unexpected argument: ", left_[max]);
  return std::move(left_);
}

}  // namespace weft::tools
