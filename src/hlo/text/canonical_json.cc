#include <algorithm>

#include "hlo/text/printer.h"

namespace weft::hlo::text {
namespace {

// Rewrites JSON with sorted keys and without spaces. Fails on anything that is not JSON.
class JsonSorter {
 public:
  explicit JsonSorter(std::string_view text) : text_(text) {}

  bool Sort(std::string& out) { return Value(out, 0) && (Skip(), at_ == text_.size()); }

 private:
  static constexpr int kMaxJsonDepth = 200;

  void Skip() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != text_.npos) ++at_;
  }
  bool Eat(char c) {
    Skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool String(std::string& out) {
    Skip();
    size_t start = at_;
    if (!Eat('"')) return false;
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\') ++at_;
    }
    if (at_ >= text_.size()) return false;
    ++at_;
    out.append(text_.substr(start, at_ - start));
    return true;
  }
  bool Value(std::string& out, int depth) {
    if (depth > kMaxJsonDepth) return false;
    Skip();
    if (at_ >= text_.size()) return false;
    char c = text_[at_];
    if (c == '"') return String(out);
    if (c == '{') return Object(out, depth);
    if (c == '[') return Array(out, depth);
    size_t start = at_;
    while (at_ < text_.size() && std::string_view(" \t\r\n,]}").find(text_[at_]) == text_.npos) {
      ++at_;
    }
    out.append(text_.substr(start, at_ - start));
    return at_ > start;
  }
  bool Array(std::string& out, int depth) {
    Eat('[');
    out.push_back('[');
    if (!Eat(']')) {
      do {
        if (out.back() != '[') out.push_back(',');
        if (!Value(out, depth + 1)) return false;
      } while (Eat(','));
      if (!Eat(']')) return false;
    }
    out.push_back(']');
    return true;
  }
  bool Object(std::string& out, int depth) {
    Eat('{');
    std::vector<std::pair<std::string, std::string>> members;
    if (!Eat('}')) {
      do {
        auto& [key, value] = members.emplace_back();
        if (!String(key) || !Eat(':') || !Value(value, depth + 1)) return false;
      } while (Eat(','));
      if (!Eat('}')) return false;
    }
    std::sort(members.begin(), members.end());
    out.push_back('{');
    for (size_t i = 0; i < members.size(); ++i) {
      StrAppend(out, i > 0 ? "," : "", members[i].first, ":", members[i].second);
    }
    out.push_back('}');
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::string SortedJson(std::string_view text) {
  std::string out;
  if (JsonSorter(text).Sort(out)) return out;
  return std::string(text);
}

}  // namespace weft::hlo::text
