// Reading JSON from front to back, without a tree: what is not asked for is skipped, and arrays of
// numbers go where they belong. NaN, Infinity and -Infinity are numbers, as TF Serving has them.
//
//   JsonReader reader(text);
//   TRY(reader.BeginObject());
//   std::string key;
//   while (TRY(reader.NextKey(key))) { ... one value each ... }
//   TRY(reader.End());
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace weft::serve {

class JsonReader {
 public:
  enum class Kind : uint8_t { kObject, kArray, kString, kNumber, kBool, kNull, kOther };
  static constexpr size_t kMaxDepth = 64;  // of brackets

  explicit JsonReader(std::string_view text) : text_(text) {}

  Kind Peek();  // what comes next; kOther: no value
  Status BeginObject();
  Result<bool> NextKey(std::string& key);  // false: the object ended
  Status BeginArray();
  Result<bool> NextElement();  // false: the array ended
  Result<std::string> String();
  Result<double> Number();
  Result<int64_t> Int();  // a number without fraction that fits
  Result<bool> Bool();
  Status Null();
  // A number's text as it stands.
  Result<std::string_view> NumberText();
  // A value whole, its brackets matched and its contents well formed; the text of it.
  Result<std::string_view> Skip();
  // Nothing but white space follows.
  Status End();
  // An error at the place where the reader is.
  template <class... Args>
  std::unexpected<Error> Fail(const Args&... args) const {
    return FailAt(StrCat(args...));
  }

 private:
  void SkipSpace();
  bool Take(char c);
  Status Open(char bracket);
  Result<bool> Next(char close);
  Status ReadEscape(std::string& out);
  Result<uint32_t> HexDigits();
  std::unexpected<Error> FailAt(std::string message) const;

  std::string_view text_;
  size_t at_ = 0;
  std::vector<bool> first_;  // by open bracket: nothing was read in it yet
};

// In quotes; control characters escaped, bytes that are no UTF-8 replaced.
void AppendJsonText(std::string& out, std::string_view text);
// Shortest; NaN, Infinity and -Infinity as such.
void AppendJsonNumber(std::string& out, double value);
void AppendJsonNumber(std::string& out, float value);

Result<std::string> DecodeBase64(std::string_view text);

}  // namespace weft::serve
