// Shapes and layouts.
#include "hlo/text/value_reader.h"

namespace weft::hlo::text {

bool ValueReader::AtShape() {
  if (kind() == Tok::kLeftParen) return true;
  if (kind() != Tok::kIdent) return false;
  std::string_view word = lexer_.token().text;
  if (word == "b") return lexer_.Peek() == Tok::kLeftParen;
  return ParseDType(word).has_value() && lexer_.Peek() == Tok::kLeftSquare;
}

Status ValueReader::ReadShape(Shape& shape) {
  DepthGuard depth(depth_);
  if (!depth.ok()) return TooDeep();
  if (kind() == Tok::kLeftParen) {
    std::vector<Shape> elements;
    TRY(ReadList(Tok::kLeftParen, Tok::kRightParen,
                 [&]() -> Status { return ReadShape(elements.emplace_back()); }));
    shape = Shape::Tuple(std::move(elements));
    return {};
  }
  if (IsWord("b") && lexer_.Peek() == Tok::kLeftParen) {
    lexer_.Next();
    lexer_.Next();
    Shape content;
    const char* at = lexer_.token().begin;
    TRY(ReadShape(content));
    if (!content.IsArray()) return FailAt(at, "a buffer holds an array, not ", content);
    shape = Shape::Buffer(std::move(content));
    return Expect(Tok::kRightParen);
  }
  if (kind() != Tok::kIdent) return Expected("a shape");
  std::optional<DType> dtype = ParseDType(lexer_.token().text);
  if (!dtype) return Expected("a shape");
  lexer_.Next();
  shape = Shape::Scalar(*dtype);
  TRY(ReadDims(shape));
  // A `{` that is followed by anything else starts a computation's body.
  if (kind() != Tok::kLeftBrace) return {};
  Tok next = lexer_.Peek();
  if (next != Tok::kInt && next != Tok::kColon) return {};
  const char* at = lexer_.token().begin;
  Layout layout;
  TRY(ReadLayout(layout));
  uint64_t seen = 0;
  for (int64_t d : layout.minor_to_major) {
    if (d < 0 || d >= shape.rank() || (seen >> d & 1) != 0) {
      return FailAt(at, "layout is not an order of the dimensions of ", shape);
    }
    seen |= uint64_t{1} << d;
  }
  if (static_cast<int64_t>(layout.minor_to_major.size()) != shape.rank()) {
    return FailAt(at, "layout has ", layout.minor_to_major.size(), " dimensions, the shape ", shape,
                  " has ", shape.rank());
  }
  shape.set_layout(std::move(layout));
  return {};
}

Status ValueReader::ReadDims(Shape& shape) {
  const char* at = lexer_.token().begin;
  TRY(ReadList(Tok::kLeftSquare, Tok::kRightSquare, [&]() -> Status {
    if (shape.rank() == kMaxRank) return Fail("more than ", kMaxRank, " dimensions");
    if (Eat(Tok::kQuestion)) {
      shape.AppendDim(Shape::kUnbounded, true);
      return {};
    }
    bool bounded = Eat(Tok::kLessEqual);
    const char* size_at = lexer_.token().begin;
    int64_t size = 0;
    TRY(ReadInt(size));
    if (size < 0) return FailAt(size_at, "a dimension of negative size");
    shape.AppendDim(size, bounded);
    return {};
  }));
  if (!shape.IsArray() && shape.rank() > 0) {
    return FailAt(at, Name(shape.dtype()), " has no dimensions");
  }
  return {};
}

Status ValueReader::ReadLayout(Layout& layout) {
  TRY(Expect(Tok::kLeftBrace));
  if (kind() == Tok::kInt) {
    do {
      int64_t dim = 0;
      TRY(ReadInt(dim));
      layout.minor_to_major.push_back(dim);
    } while (Eat(Tok::kComma));
  }
  if (Eat(Tok::kColon) && kind() != Tok::kRightBrace) {
    LayoutExtras extras;
    TRY(ReadLayoutExtras(extras));
    if (!(extras == LayoutExtras())) layout.extras = ValuePtr<LayoutExtras>(std::move(extras));
  }
  if (kind() != Tok::kRightBrace) {
    return Expected("'}' or one of D( T( L( #( *( E( S( SC( P( M( in this order");
  }
  lexer_.Next();
  return {};
}

Status ValueReader::ReadLayoutExtras(LayoutExtras& x) {
  if (EatWord("D")) TRY(ReadDimLevels(x.dim_levels));
  if (EatWord("T")) TRY(ReadTiles(x.tiles));
  TRY(ReadLayoutInt("L", x.tail_padding_alignment));
  if (Eat(Tok::kHash)) TRY(ReadUnsignedType(x.index_type));
  if (Eat(Tok::kStar)) TRY(ReadUnsignedType(x.pointer_type));
  TRY(ReadLayoutInt("E", x.element_bits));
  TRY(ReadLayoutInt("S", x.memory_space));
  while (EatWord("SC")) TRY(ReadSplits(x.splits));
  if (IsWord("P")) return Fail("a physical shape P(...) stands on sparse arrays only");
  return ReadLayoutInt("M", x.dynamic_metadata_prefix_bytes);
}

Status ValueReader::ReadLayoutInt(std::string_view word, int64_t& value) {
  if (!EatWord(word)) return {};
  TRY(Expect(Tok::kLeftParen));
  TRY(ReadInt(value));
  return Expect(Tok::kRightParen);
}

Status ValueReader::ReadTiles(std::vector<Tile>& tiles) {
  do {
    Tile& tile = tiles.emplace_back();
    TRY(ReadList(Tok::kLeftParen, Tok::kRightParen, [&]() -> Status {
      int64_t size = Tile::kCombine;
      if (!Eat(Tok::kStar)) {
        const char* at = lexer_.token().begin;
        TRY(ReadInt(size));
        if (size < 0) return FailAt(at, "a tile of negative size");
      }
      tile.dims.push_back(size);
      return {};
    }));
  } while (kind() == Tok::kLeftParen);
  return {};
}

Status ValueReader::ReadDimLevels(std::vector<DimLevel>& levels) {
  return ReadList(Tok::kLeftParen, Tok::kRightParen, [&]() -> Status {
    static constexpr std::string_view kLetters = "DCSH";
    std::string_view word = kind() == Tok::kIdent ? lexer_.token().text : "";
    size_t which = word.size() == 1 ? kLetters.find(word[0]) : std::string_view::npos;
    if (which == std::string_view::npos) return Expected("one of D, C, S, H");
    lexer_.Next();
    DimLevel& level = levels.emplace_back();
    level.type = static_cast<DimLevelType>(which);
    level.unique = !Eat(Tok::kPlus);
    level.ordered = !Eat(Tok::kTilde);
    return {};
  });
}

Status ValueReader::ReadSplits(std::vector<SplitConfig>& splits) {
  do {
    SplitConfig& split = splits.emplace_back();
    TRY(Expect(Tok::kLeftParen));
    TRY(ReadInt(split.dimension));
    TRY(ReadIntList(Tok::kColon, Tok::kRightParen, split.indices));
  } while (kind() == Tok::kLeftParen);
  return {};
}

Status ValueReader::ReadUnsignedType(DType& type) {
  TRY(Expect(Tok::kLeftParen));
  std::optional<DType> dtype;
  if (kind() == Tok::kIdent) dtype = ParseDType(lexer_.token().text);
  if (!dtype || !IsUnsigned(*dtype)) return Expected("an unsigned integer type");
  type = *dtype;
  lexer_.Next();
  return Expect(Tok::kRightParen);
}

}  // namespace weft::hlo::text
