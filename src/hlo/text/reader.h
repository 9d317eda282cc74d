// The base of the readers: errors, single tokens, numbers and lists.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/shape.h"
#include "hlo/text/lexer.h"

namespace weft::hlo::text {

inline constexpr int kMaxDepth = 400;  // of anything that nests

class Reader {
 public:
  explicit Reader(std::string_view text) : lexer_(text) {}
  Status ReadEnd();

 protected:
  template <class... Args>
  std::unexpected<Error> FailAt(const char* at, const Args&... args) {
    return Located(at, StrCat(args...));
  }
  template <class... Args>
  std::unexpected<Error> Fail(const Args&... args) {
    return Located(lexer_.token().begin, StrCat(args...));
  }
  std::unexpected<Error> Located(const char* at, std::string message);
  std::unexpected<Error> Expected(std::string_view what);  // "expected X, found Y"
  std::unexpected<Error> TooDeep();
  std::string Found() const;
  Tok kind() const { return lexer_.token().kind; }
  bool IsWord(std::string_view word) const {
    return kind() == Tok::kIdent && lexer_.token().text == word;
  }
  bool Eat(Tok tok) {
    if (kind() != tok) return false;
    lexer_.Next();
    return true;
  }
  bool EatWord(std::string_view word) {
    if (!IsWord(word)) return false;
    lexer_.Next();
    return true;
  }
  Status Expect(Tok tok);
  Status ReadInt(int64_t& value);
  Status ReadInt32(int32_t& value);
  Status ReadDouble(double& value);
  Status ReadBool(bool& value);
  Status ReadString(std::string& value);
  Status ReadName(std::string_view& name, std::string_view what);
  Status ReadAttrName(std::string_view& name);
  Status ReadIntList(Tok open, Tok close, std::vector<int64_t>& list);
  Status ReadIntListList(std::vector<std::vector<int64_t>>& lists);
  Status ReadIndex(ShapeIndex& index);
  Status ReadStringOrDict(std::string& value, bool& is_dict);
  template <class F>
  Status ReadList(Tok open, Tok close, F&& item) {
    TRY(Expect(open));
    if (Eat(close)) return {};
    do {
      TRY(item());
    } while (Eat(Tok::kComma));
    return Expect(close);
  }

  Lexer lexer_;
  int depth_ = 0;
};

class DepthGuard {
 public:
  explicit DepthGuard(int& depth) : depth_(depth) { ++depth_; }
  ~DepthGuard() { --depth_; }
  bool ok() const { return depth_ <= kMaxDepth; }

 private:
  int& depth_;
};

}  // namespace weft::hlo::text
