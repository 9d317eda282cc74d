#include "input.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <unordered_map>

#include "base/file.h"
#include "hlo/text.h"
#include "hlo/verify.h"

namespace weft::tools {
namespace {

bool IsNameChar(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-';
}

// Behind white space and comments.
std::string_view SkipBlank(std::string_view s) {
  for (;;) {
    size_t start = s.find_first_not_of(" \t\r\n");
    if (start == std::string_view::npos) return {};
    s.remove_prefix(start);
    if (s.starts_with("//")) {
      s.remove_prefix(std::min(s.find('\n'), s.size()));
    } else if (s.starts_with("/*")) {
      size_t end = s.find("*/");
      if (end == std::string_view::npos) return {};
      s.remove_prefix(end + 2);
    } else {
      return s;
    }
  }
}

std::string_view TakeWord(std::string_view& s) {
  size_t n = 0;
  while (n < s.size() && IsNameChar(s[n])) ++n;
  std::string_view word = s.substr(0, n);
  s.remove_prefix(n);
  return word;
}

Result<std::string> ReadStdin() {
  std::string content;
  char buffer[1 << 16];
  while (size_t n = std::fread(buffer, 1, sizeof(buffer), stdin)) {
    content.append(buffer, n);
    if (static_cast<int64_t>(content.size()) > kMaxFileBytes) {
      return ResourceExhausted("standard input is too long");
    }
  }
  if (std::ferror(stdin)) return MakeError(Code::kUnavailable, "cannot read standard input");
  return content;
}

std::unexpected<Error> NotRead(std::string_view what) {
  auto error = InvalidArgument("this is ", what, ", which is not read here");
  error.error().Hint("weft reads HLO text and Program text");
  return error;
}

}  // namespace

InputKind Recognise(std::string_view content) {
  if (content.starts_with("ML\xefR")) return InputKind::kMlirBytecode;
  if (content.starts_with("\x93NUMPY")) return InputKind::kNpy;
  std::string_view head = content.substr(0, 4096);
  auto is_control = [](char c) {
    return static_cast<unsigned char>(c) < 9 || (c > 13 && static_cast<unsigned char>(c) < 27);
  };
  if (std::any_of(head.begin(), head.end(), is_control)) return InputKind::kBinary;
  std::string_view rest = SkipBlank(content);
  if (rest.starts_with("#")) {  // MLIR: #loc = ..., #map = ...
    return InputKind::kMlirText;
  }
  std::string_view word = TakeWord(rest);
  std::string_view space = rest.substr(0, 1);
  rest = SkipBlank(rest);
  if (word == "program" && space == " " && !rest.empty() && IsNameChar(rest[0])) {
    return InputKind::kProgram;
  }
  if (word == "func.func" ||
      (word == "module" && (rest.starts_with("@") || rest.starts_with("attributes") ||
                            (rest.starts_with("{") && content.contains("func.func"))))) {
    return InputKind::kMlirText;
  }
  return InputKind::kHlo;
}

Result<std::string> ReadInput(const std::string& path) {
  return path == "-" ? ReadStdin() : ReadFile(path);
}

Result<std::vector<std::string>> ReadList(const std::string& path) {
  std::string text = TRY(ReadInput(path));
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) lines.push_back(std::move(line));
    at = end + 1;
  }
  return lines;
}

Result<Input> ParseInput(std::string_view content) {
  switch (Recognise(content)) {
    case InputKind::kHlo: return Input(TRY(hlo::ParseModule(content)));
    case InputKind::kProgram: return Input(TRY(program::Parse(content)));
    case InputKind::kMlirText: return NotRead("MLIR text (StableHLO)");
    case InputKind::kMlirBytecode: return NotRead("MLIR bytecode");
    case InputKind::kNpy: return NotRead("a NumPy array");
    case InputKind::kBinary: break;
  }
  return NotRead("a binary file of an unknown kind");
}

Status VerifyInput(const Input& input, std::string_view content) {
  if (const auto* program = std::get_if<program::Program>(&input)) {
    return program::Verify(*program, content);
  }
  Status status = hlo::Verify(*std::get<0>(input));
  if (!status) return std::unexpected(Locate(std::move(status.error()), content));
  return status;
}

Result<Input> LoadVerified(const std::string& path) {
  std::string content = TRY(ReadInput(path));
  Input input = TRY(ParseInput(content));
  TRY(VerifyInput(input, content));
  return input;
}

Result<std::unique_ptr<hlo::Module>> LoadModule(const std::string& path) {
  Input input = TRY(LoadVerified(path));
  if (auto* module = std::get_if<std::unique_ptr<hlo::Module>>(&input)) return std::move(*module);
  return InvalidArgument("this is a Program; an HLO module is needed here");
}

Error Locate(Error error, std::string_view text) {
  if (error.line() > 0) return error;
  // Where each name is defined: `[ROOT] [%]name =` and `[ENTRY] [%]name ... {`.
  struct Place {
    int line, column;
    std::string_view text;
  };
  std::unordered_map<std::string_view, Place> defined;
  int line = 1;
  for (size_t at = 0; at < text.size(); ++line) {
    size_t end = std::min(text.find('\n', at), text.size());
    std::string_view whole = text.substr(at, end - at), rest = whole;
    at = end + 1;
    auto skip = [&] { rest.remove_prefix(std::min(rest.find_first_not_of(" \t%"), rest.size())); };
    skip();
    for (std::string_view word : {"ROOT ", "ENTRY "}) {
      if (rest.starts_with(word)) rest.remove_prefix(word.size());
    }
    skip();
    int column = static_cast<int>(whole.size() - rest.size()) + 1;
    std::string_view name = TakeWord(rest);
    skip();
    if (name.empty() || (!rest.starts_with("=") && !whole.contains('{'))) continue;
    defined.emplace(name, Place{line, column, whole});
  }
  std::string message = error.ToString();
  for (size_t i = 0; i < message.size();) {
    if (!IsNameChar(message[i])) {
      ++i;
      continue;
    }
    std::string_view rest = std::string_view(message).substr(i);
    std::string_view name = TakeWord(rest);
    i += name.size();
    if (auto it = defined.find(name); it != defined.end()) {
      return error.At(it->second.line, it->second.column, it->second.text);
    }
  }
  return error.At(1, 1, "");
}

void Report(const Error& error, const std::string& file) {
  std::string text = error.ToString(file == "-" ? "<stdin>" : file) + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace weft::tools
