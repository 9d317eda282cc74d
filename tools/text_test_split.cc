// Reading test files: cases, their directives and expectations.
#include <algorithm>

#include "base/str.h"
#include "text_test.h"

namespace weft::tools {
namespace {

std::string_view Trim(std::string_view s) {
  size_t begin = s.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return s.substr(begin, s.find_last_not_of(" \t\r\n") - begin + 1);
}

std::vector<std::string> SplitWords(std::string_view s) {
  std::vector<std::string> words;
  for (size_t at = 0; (at = s.find_first_not_of(" \t", at)) != std::string_view::npos;) {
    size_t end = std::min(s.find_first_of(" \t", at), s.size());
    words.emplace_back(s.substr(at, end - at));
    at = end;
  }
  return words;
}

std::string KindByPath(const std::string& path) {
  if (path.ends_with(".program")) return "program";
  for (std::string_view kind : {"verify", "run"}) {
    if (path.contains(StrCat("/", kind, "/")) || path.starts_with(StrCat(kind, "/"))) {
      return std::string(kind);
    }
  }
  if (path.contains("parse_error/")) return "parse-error";
  return "roundtrip";
}

// The text behind `// word` if the trimmed line is such a comment.
std::optional<std::string_view> Directive(std::string_view line, std::string_view word) {
  std::string_view s = Trim(line);
  if (!s.starts_with("//")) return std::nullopt;
  s = Trim(s.substr(2));
  if (!s.starts_with(word)) return std::nullopt;
  return Trim(s.substr(word.size()));
}

// Fills in a case from its part [begin, end) of the file.
void ReadCase(std::string_view content, size_t begin, size_t end, TestCase& test) {
  test.body.assign(static_cast<size_t>(test.line - 1), '\n');
  test.expect_begin = test.expect_end = end;
  int line_number = test.line;
  for (size_t at = begin; at < end; ++line_number) {
    size_t next = std::min(content.find('\n', at), end - 1) + 1;
    std::string_view line = content.substr(at, next - at);
    if (auto text = Directive(line, "expect"); text && text->empty()) {
      test.expect_begin = next;
      test.expect = content.substr(next, end - next);
      return;
    }
    if (auto text = Directive(line, "test:")) {
      test.args = SplitWords(*text);
      test.kind = test.args.empty() ? "" : test.args.front();
      if (!test.args.empty()) test.args.erase(test.args.begin());
    } else if (auto input = Directive(line, "input:")) {
      test.inputs.emplace_back(*input);
    }
    if (size_t error = line.find("// error: "); error != std::string_view::npos) {
      test.errors.push_back({line_number, std::string(Trim(line.substr(error + 10)))});
    }
    test.body += line;
    at = next;
  }
}

}  // namespace

Result<std::vector<TestCase>> SplitCases(const std::string& path, std::string_view content) {
  std::vector<TestCase> cases;
  std::string kind = KindByPath(path);
  std::vector<std::string> args;
  int line = 1;
  for (size_t begin = 0; begin <= content.size();) {
    // The case ends at a line `// -----` or at the end of the file.
    size_t end = begin, next = content.size() + 1;
    while (end < content.size()) {
      size_t line_end = std::min(content.find('\n', end), content.size() - 1) + 1;
      if (Trim(content.substr(end, line_end - end)) == "// -----") {
        next = line_end;
        break;
      }
      end = line_end;
    }
    TestCase test;
    test.kind = kind;
    test.args = args;
    test.line = line;
    if (end > begin) ReadCase(content, begin, end, test);
    kind = test.kind;
    args = test.args;
    if (!Trim(test.body).empty()) cases.push_back(std::move(test));
    if (next > content.size()) break;
    line += static_cast<int>(std::count(content.begin() + begin, content.begin() + next, '\n'));
    begin = next;
  }
  if (cases.empty()) return InvalidArgument("no test cases");
  return cases;
}

std::string LineDiff(std::string_view a, std::string_view b) {
  auto split = [](std::string_view s) {
    std::vector<std::string_view> lines;
    for (size_t at = 0; at < s.size();) {
      size_t end = std::min(s.find('\n', at), s.size());
      lines.push_back(s.substr(at, end - at));
      at = end + 1;
    }
    return lines;
  };
  std::vector<std::string_view> x = split(a), y = split(b);
  size_t head = 0, tail = 0;
  while (head < x.size() && head < y.size() && x[head] == y[head]) ++head;
  while (tail + head < x.size() && tail + head < y.size() &&
         x[x.size() - 1 - tail] == y[y.size() - 1 - tail]) {
    ++tail;
  }
  size_t n = x.size() - head - tail, m = y.size() - head - tail;
  std::string out;
  auto emit = [&](char sign, std::string_view line) {
    StrAppend(out, "  ", sign, " ", line.substr(0, 400), "\n");
  };
  for (size_t i = head > 2 ? head - 2 : 0; i < head; ++i) emit(' ', x[i]);
  constexpr size_t kMaxTable = 4'000'000;
  if (n * m > kMaxTable) {
    for (size_t i = 0; i < std::min<size_t>(n, 20); ++i) emit('-', x[head + i]);
    for (size_t i = 0; i < std::min<size_t>(m, 20); ++i) emit('+', y[head + i]);
    return out;
  }
  // Longest common subsequence of the middle.
  std::vector<uint32_t> table((n + 1) * (m + 1), 0);
  auto at = [&](size_t i, size_t j) -> uint32_t& { return table[i * (m + 1) + j]; };
  for (size_t i = n; i-- > 0;) {
    for (size_t j = m; j-- > 0;) {
      at(i, j) =
          x[head + i] == y[head + j] ? at(i + 1, j + 1) + 1 : std::max(at(i + 1, j), at(i, j + 1));
    }
  }
  for (size_t i = 0, j = 0; i < n || j < m;) {
    if (i < n && j < m && x[head + i] == y[head + j]) {
      emit(' ', x[head + i]);
      ++i, ++j;
    } else if (i < n && (j == m || at(i + 1, j) >= at(i, j + 1))) {
      emit('-', x[head + i++]);
    } else {
      emit('+', y[head + j++]);
    }
  }
  for (size_t i = x.size() - tail; i < std::min(x.size(), x.size() - tail + 2); ++i) {
    emit(' ', x[i]);
  }
  return out;
}

}  // namespace weft::tools
