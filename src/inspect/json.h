// JSON text, written piece by piece: commas are put in where they belong.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft::inspect {

// In quotes. `<`, `>` and `&` are escaped, so that the text may stand in a script element of HTML;
// bytes that are no UTF-8 become U+FFFD.
void AppendJsonString(std::string& out, std::string_view text);

class Json {
 public:
  void Open(char bracket);   // '{' or '['
  void Close(char bracket);  // '}' or ']'
  void Key(std::string_view name);
  void Text(std::string_view text);
  void Int(int64_t value);
  void Number(double value);  // null where JSON has none
  void Null();
  void Key(std::string_view name, std::string_view text) { Key(name), Text(text); }
  void Key(std::string_view name, const char* text) { Key(name), Text(text); }
  void Key(std::string_view name, int64_t value) { Key(name), Int(value); }
  void Key(std::string_view name, double value) { Key(name), Number(value); }

  std::string Take() { return std::move(out_); }

 private:
  void Comma();
  std::string out_;
  bool first_ = true;  // nothing stands before in this bracket, or a key does
};

}  // namespace weft::inspect
