#include "base/error.h"

#include <algorithm>

#include "base/sole_owner.h"

namespace weft {

std::string_view CodeName(Code code) {
  static constexpr std::string_view kNames[] = {"ok",
                                                "cancelled",
                                                "unknown",
                                                "invalid argument",
                                                "deadline exceeded",
                                                "not found",
                                                "already exists",
                                                "permission denied",
                                                "resource exhausted",
                                                "failed precondition",
                                                "aborted",
                                                "out of range",
                                                "unimplemented",
                                                "internal",
                                                "unavailable",
                                                "data loss",
                                                "unauthenticated"};
  return kNames[static_cast<int>(code)];
}

Error::Error(Code code, std::string message) : data_(std::make_shared<Data>()) {
  data_->code = code;
  data_->message = std::move(message);
}

Error::Data& Error::Mutable() {
  if (!IsSoleOwner(data_)) data_ = std::make_shared<Data>(*data_);
  return *data_;
}

Error& Error::At(int line, int column, std::string_view line_text) {
  if (data_->line != 0) return *this;
  Data& d = Mutable();
  d.line = line;
  d.column = column;
  d.line_text = line_text;
  return *this;
}

Error& Error::Source(std::string where) {
  if (data_->source.empty()) Mutable().source = std::move(where);
  return *this;
}

Error& Error::Hint(std::string hint) {
  if (data_->hint.empty()) Mutable().hint = std::move(hint);
  return *this;
}

Error& Error::Note(std::string note) {
  Mutable().notes.push_back(std::move(note));
  return *this;
}

Error& Error::Prefix(std::string_view prefix) {
  Mutable().message.insert(0, prefix);
  return *this;
}

std::string Error::Tail() const {
  std::string out;
  if (!data_->source.empty()) StrAppend(out, "\n  at ", data_->source);
  for (const std::string& note : data_->notes) StrAppend(out, "\n  ", note);
  if (!data_->hint.empty()) StrAppend(out, "\n  hint: ", data_->hint);
  return out;
}

std::string Error::ToString() const {
  return data_->message + Tail();
}

std::string Error::ToString(std::string_view file) const {
  std::string out(file);
  if (data_->line > 0) StrAppend(out, ":", data_->line, ":", data_->column);
  std::string_view message = data_->message;  // which may name the file itself
  if (message.starts_with(StrCat(file, ": "))) message.remove_prefix(file.size() + 2);
  StrAppend(out, ": error: ", message);
  if (data_->line > 0 && !data_->line_text.empty()) {
    // Long lines are cut around the caret; tabs stay one column wide.
    constexpr size_t kWidth = 160;
    std::string_view text = data_->line_text;
    size_t caret = data_->column > 0 ? static_cast<size_t>(data_->column - 1) : 0;
    caret = std::min(caret, text.size());
    size_t start = caret > kWidth / 2 ? caret - kWidth / 2 : 0;
    std::string shown(text.substr(start, kWidth));
    for (char& c : shown) {
      if (static_cast<unsigned char>(c) < 0x20) c = ' ';
    }
    StrAppend(out, "\n  ", shown, "\n  ", std::string(caret - start, ' '), "^");
  }
  return out + Tail();
}

}  // namespace weft
