#include "compiler/fusion_note.h"

#include "base/str.h"
#include "hlo/op.h"

namespace weft::compiler {

FusionNote MakeFusionNote(const hlo::Instruction& made, std::string_view reason) {
  constexpr int kMostReaders = 4;  // names in one note
  FusionNote note{.name = made.name(),
                  .op = std::string(hlo::Mnemonic(made.op())),
                  .source = made.SourceLocation(),
                  .reason = std::string(reason)};
  int count = 0;
  for (const hlo::Instruction* user : made.users()) {
    if (++count > kMostReaders) continue;
    StrAppend(note.readers, count > 1 ? ", " : "", user->name());
  }
  if (count > kMostReaders) StrAppend(note.readers, " and ", count - kMostReaders, " more");
  return note;
}

std::string ToString(const FusionNote& note) {
  return StrCat(note.name, " (", note.op, note.source.empty() ? "" : ", ", note.source, ")",
                note.readers.empty() ? "" : ", read by ", note.readers, ": ", note.reason);
}

}  // namespace weft::compiler
