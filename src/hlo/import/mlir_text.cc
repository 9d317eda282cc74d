#include "hlo/import/mlir_text.h"

#include <algorithm>
#include <cstring>

#include "hlo/import/readers.h"

namespace weft::hlo::mlir {

Result<std::unique_ptr<Tree>> ReadText(std::string text) {
  auto tree = std::make_unique<Tree>(std::move(text));
  TRY(TextReader(tree->source(), *tree).ReadModule());
  return tree;
}

Result<const Attr*> ReadAttr(std::string_view text, Tree& tree) {
  return TextReader(tree.Keep(std::string(text)), tree).ReadWholeAttr();
}

Result<const Attr*> TextReader::ReadWholeAttr() {
  const Attr* attr = TRY(ReadAttr());
  if (token().kind != Tok::kEof) return FailExpected("the end of the attribute");
  return attr;
}

Status TextReader::ReadModule() {
  FindAliases();
  // Places are read in the order of the file, in which each comes after those that it names.
  for (std::string_view name : alias_order_) {
    if (name.substr(1, 3) == "loc") TRY(ReadPlaceAlias(name.substr(1)));
  }
  Operation* outer = tree_.NewOperation();
  outer->name = "builtin.module";
  Block block;
  TRY(ReadOperations(block));
  if (token().kind != Tok::kEof) return FailExpected("an operation or the end of the file");
  if (block.operations.size() == 1 && block.operations[0]->name == "builtin.module") {
    tree_.module = block.operations[0];
    return {};
  }
  outer->regions.emplace_back().blocks.push_back(std::move(block));
  tree_.module = outer;
  return {};
}

// --- Tokens

bool TextReader::Take(char c) {
  if (!At(c)) return false;
  lexer_.Advance();
  return true;
}

bool TextReader::TakeName(std::string_view name) {
  if (!AtName(name)) return false;
  lexer_.Advance();
  return true;
}

bool TextReader::TakeArrow() {
  if (token().kind != Tok::kArrow) return false;
  lexer_.Advance();
  return true;
}

Status TextReader::Expect(char c) {
  if (Take(c)) return {};
  char quoted[] = {'\'', c, '\'', 0};
  return FailExpected(quoted);
}

Status TextReader::ExpectName(std::string_view name) {
  if (TakeName(name)) return {};
  return FailExpected(StrCat("'", name, "'"));
}

Status TextReader::ExpectArrow() {
  if (TakeArrow()) return {};
  return FailExpected("'->'");
}

Result<std::string_view> TextReader::ExpectAnyName(std::string_view what) {
  if (token().kind != Tok::kName) return FailExpected(what);
  std::string_view name = token().text;
  lexer_.Advance();
  return name;
}

Result<std::string_view> TextReader::Unquote(std::string_view raw) {
  if (std::memchr(raw.data(), '\\', raw.size()) == nullptr) return raw;
  std::string text;
  if (!Unescape(raw, text)) return Fail("malformed escape in a string");
  return tree_.Keep(std::move(text));
}

Result<std::string_view> TextReader::ExpectString(std::string_view what) {
  if (token().kind != Tok::kString) return FailExpected(what);
  std::string_view text = TRY(Unquote(token().text));
  lexer_.Advance();
  return text;
}

Result<std::string_view> TextReader::ExpectSymbol() {
  if (token().kind != Tok::kSymbol) return FailExpected("a symbol such as @main");
  std::string_view text = token().text;
  if (token().quoted) text = TRY(Unquote(text));
  lexer_.Advance();
  return text;
}

Result<int64_t> TextReader::ExpectInt(std::string_view what) {
  size_t start = token().offset;
  bool negative = Take('-');
  if (token().kind != Tok::kInt) return FailExpected(what);
  std::string text = StrCat(negative ? "-" : "", token().text);
  std::optional<int64_t> value = ParseInt(text);
  if (!value) {
    return FailAt(start, Error(Code::kInvalidArgument, StrCat("not a 64-bit integer: ", text)));
  }
  lexer_.Advance();
  return *value;
}

Result<bool> TextReader::ExpectBool() {
  if (TakeName("true")) return true;
  if (TakeName("false")) return false;
  return FailExpected("true or false");
}

// --- Errors

std::unexpected<Error> TextReader::FailAt(size_t offset, Error error) const {
  std::string_view source = lexer_.source();
  offset = std::min(offset, source.size());
  size_t before = source.substr(0, offset).rfind('\n');
  size_t start = before == std::string_view::npos ? 0 : before + 1;
  size_t end = std::min(source.find('\n', offset), source.size());
  auto lines = std::count(source.begin(), source.begin() + static_cast<ptrdiff_t>(start), '\n');
  // Lines of big constants are long: show what is around the place.
  constexpr size_t kShown = 160;
  size_t column = offset - start;
  std::string_view line = source.substr(start, end - start);
  if (line.size() > 2 * kShown && column <= kShown) line = line.substr(0, 2 * kShown);
  error.At(static_cast<int>(lines) + 1, static_cast<int>(column) + 1,
           line.size() > 2 * kShown ? std::string_view() : line);
  return std::unexpected(std::move(error));
}

std::unexpected<Error> TextReader::FailExpected(std::string_view what) const {
  switch (token().kind) {
    case Tok::kEof: return Fail("expected ", what, ", found the end of the text");
    case Tok::kString: return Fail("expected ", what, ", found a string");
    default: break;
  }
  size_t end = std::min(lexer_.position(), token().offset + 40);
  return Fail("expected ", what, ", found '",
              lexer_.source().substr(token().offset, end - token().offset), "'");
}

Status TextReader::CheckDepth() const {
  if (depth_ > kMaxDepth || IsStackShort()) {
    return Fail("nested more than ", depth_ - 1, " levels deep");
  }
  return {};
}

Status TextReader::CountNodes(int64_t n) {
  nodes_ += n;
  if (nodes_ > kMaxNodes) return Fail("the aliases of this text stand for too much");
  return {};
}

std::pair<int32_t, int32_t> TextReader::LineOf(size_t offset) {
  std::string_view source = lexer_.source();
  if (offset < line_offset_) line_offset_ = line_start_ = 0, line_ = 1;
  while (line_offset_ < offset) {
    size_t end = source.find('\n', line_offset_);
    if (end == std::string_view::npos || end >= offset) break;
    line_offset_ = line_start_ = end + 1;
    ++line_;
  }
  line_offset_ = std::max(line_offset_, offset);
  return {line_, static_cast<int32_t>(offset - line_start_) + 1};
}

// --- Aliases: `#loc1 = loc(...)`, `!t = tensor<...>`. The printer puts them at the start of a
// line, some behind what uses them; they are read when first used.

void TextReader::FindAliases() {
  std::string_view source = lexer_.source();
  for (size_t start = 0; start < source.size();) {
    size_t end = std::min(source.find('\n', start), source.size());
    std::string_view line = source.substr(start, end - start);
    if (!line.empty() && (line[0] == '#' || line[0] == '!')) {
      size_t equal = line.find(" = ");
      if (equal != std::string_view::npos) {
        std::string_view name = line.substr(0, equal);
        auto [it, fresh] = aliases_.try_emplace(name);
        if (fresh) {
          it->second.offset = start + equal + 3;
          alias_order_.push_back(name);
        }
      }
    }
    start = end + 1;
  }
}

Result<TextReader::Alias*> TextReader::FindAlias(char sigil, std::string_view name) {
  // The sigil stands before the name in the source.
  std::string_view whole(name.data() - 1, name.size() + 1);
  auto it = aliases_.find(whole);
  if (it == aliases_.end()) return Fail("no alias ", std::string(1, sigil), name);
  Alias& alias = it->second;
  if (alias.reading) return Fail("the alias ", std::string(1, sigil), name, " contains itself");
  bool read = alias.attr != nullptr || alias.type != nullptr || alias.is_place;
  if (read) {
    TRY(CountNodes(alias.nodes));
    return &alias;
  }
  Nested nested(depth_);
  TRY(CheckDepth());
  alias.reading = true;
  Lexer saved = lexer_;
  int64_t before = nodes_;
  lexer_.Seek(alias.offset);
  if (sigil == '!') {
    alias.type = TRY(ReadType());
  } else if (AtName("loc")) {
    lexer_.Advance();
    TRY(Expect('('));
    alias.place = TRY(ReadPlace());
    alias.is_place = true;
  } else {
    alias.attr = TRY(ReadAttr());
  }
  lexer_ = saved;
  alias.nodes = nodes_ - before;
  alias.reading = false;
  return &alias;
}

// At the `#name` or `!name` of a definition.
Status TextReader::ReadAliasDefinition() {
  char sigil = token().kind == Tok::kHash ? '#' : '!';
  std::string_view name = token().text;
  lexer_.Advance();
  TRY(Expect('='));
  std::string_view whole(name.data() - 1, name.size() + 1);
  auto [it, fresh] = aliases_.try_emplace(whole);
  if (fresh) it->second.offset = token().offset;
  if (sigil == '!') {
    TRY(ReadType());
  } else if (TakeName("loc")) {
    TRY(Expect('('));
    TRY(ReadPlace());
    TRY(Expect(')'));
  } else {
    TRY(ReadAttr());
  }
  return {};
}

}  // namespace weft::hlo::mlir
