#include "input.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <map>
#include <utility>

#include "base/file.h"
#include "hlo/import/import.h"
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
    if (static_cast<int64_t>(content.size()) > kMaxStreamBytes) {
      return ResourceExhausted("standard input gives more than the limit of ", kMaxStreamBytes,
                               " bytes");
    }
  }
  if (std::ferror(stdin)) return MakeError(Code::kUnavailable, "cannot read standard input");
  return content;
}

constexpr std::string_view kWhatIsRead =
    "weft reads HLO (text, proto), StableHLO (text, bytecode) and Program text";

std::unexpected<Error> NotRead(std::string_view what) {
  auto error = InvalidArgument("not a module: this is ", what);
  error.error().Hint(std::string(kWhatIsRead));
  return error;
}

struct Magic {
  std::string_view bytes, kind;
};
using namespace std::string_view_literals;
constexpr Magic kMagics[] = {
    {"\x93NUMPY"sv, "a NumPy array"},
    {"\x89PNG"sv, "a PNG image"},
    {"\xff\xd8\xff"sv, "a JPEG image"},
    {"GIF8"sv, "a GIF image"},
    {"%PDF"sv, "a PDF document"},
    {"\x7f"
     "ELF"sv,
     "an executable or library (ELF)"},
    {"PK\x03\x04"sv, "a ZIP archive"},
    {"\x1f\x8b"sv, "a compressed file (gzip)"},
    {"\x28\xb5\x2f\xfd"sv, "a compressed file (zstd)"},
    {"BZh"sv, "a compressed file (bzip2)"},
    {"\xfd"
     "7zXZ"sv,
     "a compressed file (xz)"},
    {"\x89HDF"sv, "an HDF5 file"},
    {"SQLite format 3"sv, "an SQLite database"},
    {"BC\xc0\xde"sv, "LLVM bitcode"},
    {"WEFTCACH"sv, "a file of Weft's cache"},
    {"WEFTEXE1"sv, "a saved executable"},
};

// What begins with bytes that no module begins with; empty: it may be a module.
std::string_view ForeignFormat(std::string_view content) {
  if (content.empty()) return "an empty file";
  // MLIR's aliases of attributes have a name right behind the sign.
  if (content.starts_with("# ")) return "a text with headings, Markdown perhaps";
  for (const Magic& magic : kMagics) {
    if (content.starts_with(magic.bytes)) return magic.kind;
  }
  return {};
}

bool HasLineWith(std::string_view text, std::initializer_list<std::string_view> starts) {
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    for (std::string_view start : starts) {
      if (text.substr(at, end - at).starts_with(start)) return true;
    }
    at = end + 1;
  }
  return false;
}

// For text that does not parse: what it is when it is not meant to be a module at all.
std::string_view ForeignText(std::string_view text) {
  if (SkipBlank(text).empty()) return "a file of blank lines and comments";
  if (text.contains("HloModule") || text.contains("ENTRY")) return {};
  if (HasLineWith(text, {"#!/bin/sh", "#!/bin/bash", "#!/usr/bin/env bash", "#!/usr/bin/env sh"})) {
    return "a shell script";
  }
  if (HasLineWith(text, {"import ", "from ", "def ", "class ", "#!/usr/bin/env python"})) {
    return "a Python script";
  }
  if (HasLineWith(text, {"#include", "#pragma"})) return "C or C++";
  if (HasLineWith(text, {"define ", "source_filename"})) return "LLVM IR";
  char first = SkipBlank(text)[0];
  if (first == '{' || first == '[') return "JSON, or something like it";
  if (first == '<') return "HTML or XML";
  // A module without header is `name {` or `name = type[...] op(...)`.
  return text.contains('{') || text.contains('=') ? "" : "some text";
}

// Where names are defined in HLO text: instructions, computations, attributes of the header.
class Definitions {
 public:
  struct Place {
    int line, column;
    std::string_view text;
  };

  explicit Definitions(std::string_view text) {
    std::string_view computation;
    int line = 1;
    for (size_t at = 0; at < text.size(); ++line) {
      size_t end = std::min(text.find('\n', at), text.size());
      std::string_view whole = text.substr(at, end - at), rest = whole;
      at = end + 1;
      SkipSpace(rest);
      if (rest.starts_with("HloModule")) AddHeader(whole, line);
      bool is_entry = TakePrefix(rest, "ENTRY ");
      TakePrefix(rest, "ROOT ");
      SkipSpace(rest);
      Place place{line, static_cast<int>(whole.size() - rest.size()) + 1, whole};
      std::string_view name = TakeWord(rest);
      SkipSpace(rest);
      if (name.empty()) continue;
      if (rest.starts_with("=")) {
        places_.emplace(name, place);
        scoped_.emplace(std::pair(computation, name), place);
      } else if (is_entry || rest.starts_with("{") ||
                 (rest.starts_with("(") && whole.contains('{'))) {
        computation = name;
        places_.emplace(name, place);
      }
    }
  }

  // The name in that computation (empty: in any); null when there is none.
  const Place* Find(std::string_view name, std::string_view computation) const {
    if (auto it = scoped_.find({computation, name}); it != scoped_.end()) return &it->second;
    auto it = places_.find(name);
    return it != places_.end() ? &it->second : nullptr;
  }

 private:
  static void SkipSpace(std::string_view& s) {
    s.remove_prefix(std::min(s.find_first_not_of(" \t%"), s.size()));
  }
  static bool TakePrefix(std::string_view& s, std::string_view prefix) {
    if (!s.starts_with(prefix)) return false;
    s.remove_prefix(prefix.size());
    return true;
  }
  void AddHeader(std::string_view whole, int line) {
    for (size_t at = 0; (at = whole.find('=', at)) != whole.npos; ++at) {
      size_t start = at;
      while (start > 0 && IsNameChar(whole[start - 1])) --start;
      places_.emplace(whole.substr(start, at - start),
                      Place{line, static_cast<int>(start) + 1, whole});
    }
  }

  std::map<std::string_view, Place> places_;
  std::map<std::pair<std::string_view, std::string_view>, Place> scoped_;
};

}  // namespace

InputKind Recognise(std::string_view content) {
  switch (hlo::DetectFormat(content)) {
    case hlo::FileFormat::kStableHloBytecode: return InputKind::kMlirBytecode;
    case hlo::FileFormat::kStableHloText: return InputKind::kMlirText;
    case hlo::FileFormat::kHloProto: return InputKind::kHloProto;
    case hlo::FileFormat::kHloText: break;
  }
  std::string_view rest = SkipBlank(content);
  std::string_view word = TakeWord(rest);
  std::string_view space = rest.substr(0, 1);
  rest = SkipBlank(rest);
  if (word == "program" && space == " " && !rest.empty() && IsNameChar(rest[0])) {
    return InputKind::kProgram;
  }
  return InputKind::kHlo;
}

namespace {

Result<Input> ParseAs(InputKind kind, std::string_view content) {
  switch (kind) {
    case InputKind::kHlo: return Input(TRY(hlo::ParseModule(content)));
    case InputKind::kProgram: return Input(TRY(program::Parse(content)));
    case InputKind::kMlirText:
    case InputKind::kMlirBytecode:
    case InputKind::kHloProto: break;
  }
  return Input(TRY(hlo::ReadModule(std::string(content))));
}

}  // namespace

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
  if (std::string_view kind = ForeignFormat(content); !kind.empty()) return NotRead(kind);
  InputKind kind = Recognise(content);
  Result<Input> input = ParseAs(kind, content);
  if (!input && kind == InputKind::kHlo) {
    if (std::string_view other = ForeignText(content); !other.empty()) return NotRead(other);
  }
  // Any bytes that are no text are taken for a proto.
  if (!input && kind == InputKind::kHloProto) input.error().Hint(std::string(kWhatIsRead));
  return input;
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

namespace {

// The note that names the instruction, "in [ROOT ]name = ... of computation" or "lowering name of
// computation"; empty: there is none.
std::string_view PlaceNote(std::string_view message) {
  for (std::string_view begin : {"\n  in ", "\n  lowering "}) {
    size_t at = message.find(begin);
    if (at == message.npos) continue;
    std::string_view note = message.substr(at + begin.size());
    note = note.substr(0, note.find('\n'));
    if (note.starts_with("ROOT ")) note.remove_prefix(5);
    if (note.starts_with("%")) note.remove_prefix(1);
    return note;
  }
  return {};
}

const Definitions::Place* PlaceOfNote(std::string_view message, const Definitions& defined) {
  std::string_view note = PlaceNote(message);
  size_t of = note.rfind(" of ");
  std::string_view computation = of == note.npos ? "" : note.substr(of + 4);
  return defined.Find(TakeWord(note), computation);
}

}  // namespace

Error LocateNote(Error error, std::string_view text) {
  Definitions defined(text);
  const Definitions::Place* place = PlaceOfNote(error.ToString(), defined);
  return place == nullptr ? error : error.At(place->line, place->column, place->text);
}

Error Locate(Error error, std::string_view text) {
  if (error.line() > 0) return error;
  Definitions defined(text);
  std::string message = error.ToString();
  const Definitions::Place* place = PlaceOfNote(message, defined);
  // Otherwise the first word of the message that names something.
  for (std::string_view rest = message; place == nullptr && !rest.empty();) {
    std::string_view name = TakeWord(rest);
    if (name.empty()) {
      rest.remove_prefix(1);
    } else {
      place = defined.Find(name, "");
    }
  }
  if (place != nullptr) return error.At(place->line, place->column, place->text);
  return error.At(1, 1, "");
}

void Report(const Error& error, const std::string& file) {
  std::string text = error.ToString(file == "-" ? "<stdin>" : file) + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace weft::tools
