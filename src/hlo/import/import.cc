#include "hlo/import/import.h"

#include <algorithm>

#include "hlo/import/readers.h"
#include "hlo/text.h"
#include "hlo/verify.h"

namespace weft::hlo {
namespace {

// Behind white space and comments.
std::string_view SkipLeading(std::string_view text) {
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    if (!text.starts_with("//")) return text;
    text.remove_prefix(std::min(text.find('\n'), text.size()));
  }
}

bool IsBinary(std::string_view contents) {
  std::string_view head = contents.substr(0, 4096);
  return std::ranges::any_of(
      head, [](char c) { return static_cast<unsigned char>(c) < 9 || (c > 13 && c < 27); });
}

// `module @jit_f`, `func.func`, `"builtin.module"() (`, `#loc = ...`.
bool IsMlirText(std::string_view contents) {
  std::string_view text = SkipLeading(contents);
  for (std::string_view start : {"#", "!", "\"builtin.module\"", "func.func", "sdy.mesh"}) {
    if (text.starts_with(start)) return true;
  }
  if (!text.starts_with("module")) return false;
  text.remove_prefix(6);
  std::string_view rest = SkipLeading(text);
  if (rest.size() == text.size() && !rest.starts_with('{')) return false;
  return rest.starts_with('@') || rest.starts_with("attributes") ||
         (rest.starts_with('{') && contents.find("func.func") != std::string_view::npos);
}

}  // namespace

FileFormat DetectFormat(std::string_view contents) {
  if (contents.starts_with(mlir::kBytecodeMagic)) return FileFormat::kStableHloBytecode;
  if (IsBinary(contents)) return FileFormat::kHloProto;
  return IsMlirText(contents) ? FileFormat::kStableHloText : FileFormat::kHloText;
}

Result<std::unique_ptr<Module>> ReadModule(std::string contents) {
  switch (DetectFormat(contents)) {
    case FileFormat::kStableHloBytecode:
    case FileFormat::kStableHloText: return ImportStableHlo(std::move(contents));
    case FileFormat::kHloProto: return ImportHloProto(contents);
    case FileFormat::kHloText: break;
  }
  std::unique_ptr<Module> module = TRY(ParseModule(contents));
  TRY(Verify(*module));
  return module;
}

}  // namespace weft::hlo
