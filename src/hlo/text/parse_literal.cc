// Literals: read from the characters straight into the literal's storage.
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/elements.h"
#include "base/float_formats.h"
#include "hlo/text/parser.h"

namespace weft::hlo::text {
namespace {

// Reads the elements of one array. After a failure, message() and at() say what is wrong where.
class ArrayReader {
 public:
  ArrayReader(Literal& literal, const char* p, const char* end)
      : literal_(literal),
        type_(literal.dtype()),
        width_(static_cast<size_t>(ByteWidth(literal.dtype()))),
        data_(literal.mutable_data()),
        p_(p),
        end_(end) {}

  bool Read();
  const char* at() const { return p_; }
  std::string& message() { return message_; }

 private:
  bool Skip();
  bool Element();
  bool Word(std::string_view word);
  bool Integer(std::byte* to);
  bool Float(DType type, std::byte* to);
  bool Nan(DType type, std::byte* to, bool negative);
  bool Complex(std::byte* to);
  bool Punctuation(char c);
  bool OutOfRange(std::string_view text, DType type);
  template <class... Args>
  bool Fail(const Args&... args) {
    message_ = StrCat(args...);
    return false;
  }

  Literal& literal_;
  DType type_;
  size_t width_;
  std::byte* data_;
  const char* p_;
  const char* end_;
  int64_t next_ = 0;  // element to be written
  std::string message_;
};

bool ArrayReader::Skip() {
  if (p_ < end_ && static_cast<unsigned char>(*p_) > ' ' && *p_ != '/') return true;
  const char* q = Lexer::SkipBlank(p_, end_);
  if (q == nullptr) return Fail("a comment that does not end");
  p_ = q;
  if (p_ == end_) return Fail("a literal that does not end");
  return true;
}

bool ArrayReader::Word(std::string_view word) {
  if (static_cast<size_t>(end_ - p_) < word.size() ||
      std::memcmp(p_, word.data(), word.size()) != 0) {
    return false;
  }
  p_ += word.size();
  return true;
}

bool ArrayReader::OutOfRange(std::string_view text, DType type) {
  p_ = text.data();
  return Fail(text, " is out of range for ", Name(type));
}

bool ArrayReader::Integer(std::byte* to) {
  const char* start = p_;
  bool negative = *p_ == '-';
  uint64_t value = 0;
  auto [q, ec] = std::from_chars(p_ + (negative ? 1 : 0), end_, value);
  std::string_view text(start, static_cast<size_t>(q - start));
  if (ec == std::errc::invalid_argument ||
      (q < end_ && (*q == '.' || *q == 'e' || *q == 'E' || *q == 'x' || *q == '_'))) {
    return Fail("expected an integer for ", Name(type_));
  }
  if (ec != std::errc() || (negative && value > uint64_t{1} << 63)) return OutOfRange(text, type_);
  p_ = q;
  int64_t s = static_cast<int64_t>(negative ? uint64_t{0} - value : value);
  int bits = BitWidth(type_);
  if (type_ == DType::kPred) {
    s = s != 0;
  } else if (bits < 64) {
    if (IsSigned(type_)) {
      int64_t limit = int64_t{1} << (bits - 1);
      if (s < -limit || s >= limit) return OutOfRange(text, type_);
    } else if (static_cast<uint64_t>(s) >> bits != 0) {
      return OutOfRange(text, type_);
    }
  }
  std::memcpy(to, &s, width_);  // little endian
  return true;
}

bool ArrayReader::Nan(DType type, std::byte* to, bool negative) {
  FloatFormat format = FormatOf(type);
  uint64_t bits = EncodeBits(type, negative ? -std::nan("") : std::nan(""));
  if (format.HasNan()) bits = format.QuietNan(negative);
  if (Word("(0x")) {
    uint64_t payload = 0;
    auto [q, ec] = std::from_chars(p_, end_, payload, 16);
    if (ec != std::errc() || q == end_ || *q != ')') return Fail("a malformed NaN payload");
    uint64_t with = (bits & ~format.MantissaMask()) | payload;
    if (!format.HasNan() || payload > format.MantissaMask() || !format.IsNan(with)) {
      return Fail("a NaN payload that ", Name(type), " does not have");
    }
    bits = with;
    p_ = q + 1;
  }
  std::memcpy(to, &bits, static_cast<size_t>(ByteWidth(type)));
  return true;
}

bool ArrayReader::Float(DType type, std::byte* to) {
  const char* start = p_;
  bool negative = *p_ == '-';
  char first = negative && end_ - p_ > 1 ? p_[1] : *p_;
  if (first == 'n' || first == 'i') {
    if (negative) ++p_;
    if (Word("nan")) return Nan(type, to, negative);
    if (!Word("inf")) return Fail("expected a number for ", Name(type_));
    uint64_t bits = EncodeBits(type, negative ? -HUGE_VAL : HUGE_VAL);
    std::memcpy(to, &bits, static_cast<size_t>(ByteWidth(type)));
    return true;
  }
  if (type == DType::kF32) {
    float value = 0;
    auto [q, ec] = std::from_chars(p_, end_, value);
    if (ec == std::errc()) {
      p_ = q;
      std::memcpy(to, &value, sizeof(value));
      return true;
    }
  }
  double value = 0;
  auto [q, ec] = std::from_chars(p_, end_, value);
  if (ec == std::errc::invalid_argument) return Fail("expected a number for ", Name(type_));
  std::string_view text(start, static_cast<size_t>(q - start));
  if (ec == std::errc::result_out_of_range) {
    value = std::strtod(std::string(text).c_str(), nullptr);
    if (std::isinf(value)) return OutOfRange(text, type);
  }
  p_ = q;
  if (type == DType::kF64) {
    std::memcpy(to, &value, sizeof(value));
    return true;
  }
  uint64_t bits = EncodeBits(type, value);
  if (!std::isfinite(DecodeBits(type, bits))) return OutOfRange(text, type);
  std::memcpy(to, &bits, static_cast<size_t>(ByteWidth(type)));
  return true;
}

bool ArrayReader::Punctuation(char c) {
  if (!Skip()) return false;
  if (*p_ != c) return Fail("expected '", c, "' in a complex number");
  ++p_;
  return true;
}

bool ArrayReader::Complex(std::byte* to) {
  DType part = RealType(type_);
  if (!Punctuation('(') || !Skip() || !Float(part, to)) return false;
  return Punctuation(',') && Skip() && Float(part, to + ByteWidth(part)) && Punctuation(')');
}

bool ArrayReader::Element() {
  if (next_ >= literal_.size()) return Fail("more elements than ", literal_.shape(), " has");
  std::byte* to = data_ + static_cast<size_t>(next_) * width_;
  ++next_;
  bool ok = false;
  switch (Class(type_)) {
    case DTypeClass::kPred:
      if (Word("true")) {
        *to = std::byte{1};
        ok = true;
      } else if (Word("false")) {
        *to = std::byte{0};
        ok = true;
      } else {
        ok = Integer(to);
      }
      break;
    case DTypeClass::kSigned:
    case DTypeClass::kUnsigned: ok = Integer(to); break;
    case DTypeClass::kFloat: ok = Float(type_, to); break;
    default: ok = Complex(to); break;
  }
  if (!ok) return false;
  if (p_ < end_ && *p_ > ' ' && std::strchr(",{})/", *p_) == nullptr) {
    return Fail("unexpected '", *p_, "' in a literal");
  }
  return true;
}

// Braces to the depth of the rank; commas separate and are not counted.
bool ArrayReader::Read() {
  const Shape& shape = literal_.shape();
  int64_t rank = shape.rank();
  if (!Skip()) return false;
  // A number for an array is its first element; the others are zero.
  if (rank == 0 || *p_ != '{') return Element();
  Dims seen(static_cast<size_t>(rank), 0);  // elements seen in each open brace
  int64_t level = 0;
  do {
    if (!Skip()) return false;
    char c = *p_;
    if (c == ',') {
      ++p_;
    } else if (c == '{') {
      if (level == rank) return Fail("braces deeper than the rank of ", shape);
      if (level > 0) ++seen[static_cast<size_t>(level - 1)];
      seen[static_cast<size_t>(level++)] = 0;
      ++p_;
    } else if (c == '}') {
      size_t d = static_cast<size_t>(--level);
      // An array without elements may be written as {}.
      bool empty = level == 0 && seen[0] == 0 && literal_.size() == 0;
      if (seen[d] != shape.dim(level) && !empty) {
        return Fail("expected ", shape.dim(level), " elements in dimension ", level, " of ",
                    shape.ToStringWithoutLayout(), ", found ", seen[d]);
      }
      ++p_;
    } else {
      if (level != rank) return Fail("expected '{' for ", shape.ToStringWithoutLayout());
      if (!Element()) return false;
      ++seen[static_cast<size_t>(rank - 1)];
    }
  } while (level > 0);
  return true;
}

// `{...}` at p: the place after it, else null.
const char* MatchElided(const char* p, const char* end) {
  if (p == end || *p != '{') return nullptr;
  p = Lexer::SkipBlank(p + 1, end);
  if (p == nullptr || end - p < 3 || p[0] != '.' || p[1] != '.' || p[2] != '.') return nullptr;
  p = Lexer::SkipBlank(p + 3, end);
  if (p == nullptr || p == end || *p != '}') return nullptr;
  return p + 1;
}

}  // namespace

Status Parser::ReadLiteral(const Shape& shape, Literal& literal, bool* elided) {
  DepthGuard depth(depth_);
  if (!depth.ok()) return TooDeep();
  if (shape.IsTuple()) {
    std::vector<Literal> elements;
    TRY(Expect(Tok::kLeftParen));
    for (int64_t i = 0; i < shape.tuple_size(); ++i) {
      if (i > 0) TRY(Expect(Tok::kComma));
      TRY(ReadLiteral(shape.tuple_element(i), elements.emplace_back(), elided));
    }
    literal = Literal::Tuple(std::move(elements));
    return Expect(Tok::kRightParen);
  }
  const char* begin = lexer_.token().begin;
  const char* end = lexer_.text_end();
  if (!shape.IsArray()) return Fail("no literal has the shape ", shape);
  if (elided != nullptr && shape.rank() > 0) {
    if (const char* after = MatchElided(begin, end)) {
      *elided = true;
      TRY(FillElided(shape, literal));
      lexer_.ResumeAt(after);
      return {};
    }
  }
  bool first_only = shape.rank() > 0 && kind() != Tok::kLeftBrace;
  // Every element takes a character and a separator: nothing larger is worth memory.
  std::optional<int64_t> count = shape.CheckedElements();
  if (first_only && count && elided != nullptr && !TakeFiller(shape)) {
    *elided = true;  // not worth the memory
    literal = Literal();
    Literal scalar{Shape::Scalar(shape.dtype())};
    ArrayReader reader(scalar, begin, end);
    if (!reader.Read()) return FailAt(reader.at(), reader.message());
    lexer_.ResumeAt(reader.at());
    return {};
  }
  if (!count || (*count / 2 > end - begin && !(first_only && elided != nullptr))) {
    return Fail("fewer elements than ", shape.ToStringWithoutLayout(), " has");
  }
  Result<Literal> storage = Literal::Allocate(shape);
  if (!storage) {
    Error error = std::move(storage).error();
    lexer_.Locate(error, begin);
    return std::unexpected(std::move(error));
  }
  literal = std::move(*storage);
  ArrayReader reader(literal, begin, end);
  if (!reader.Read()) return FailAt(reader.at(), reader.message());
  lexer_.ResumeAt(reader.at());
  return {};
}

// literal=f32[2] {1, 2}, or a tuple of such.
Status Parser::ReadTypedLiteral(Literal& literal) {
  DepthGuard depth(depth_);
  if (!depth.ok()) return TooDeep();
  if (kind() != Tok::kLeftParen) {
    Shape shape;
    TRY(ReadShape(shape));
    return ReadLiteral(shape, literal, nullptr);
  }
  std::vector<Literal> elements;
  TRY(ReadList(Tok::kLeftParen, Tok::kRightParen,
               [&]() -> Status { return ReadTypedLiteral(elements.emplace_back()); }));
  literal = Literal::Tuple(std::move(elements));
  return {};
}

// Whether there is memory for elements that the text does not have.
bool Parser::TakeFiller(const Shape& shape) {
  int64_t bytes = shape.ByteSize();
  if (bytes > kMaxFillerBytes || bytes > kMaxModuleFillerBytes - filler_bytes_) return false;
  filler_bytes_ += bytes;
  return true;
}

// Small numbers that differ from one elided constant to the next, so that they are not merged.
// Beyond the limits the literal stays invalid: nothing but the instruction's shape is known.
Status Parser::FillElided(const Shape& shape, Literal& literal) {
  std::optional<int64_t> count = shape.CheckedElements();
  if (!count) return Fail("no value has the shape ", shape);
  int64_t seed = ++filler_seed_;
  if (!TakeFiller(shape)) return {};
  Result<Literal> storage = Literal::Allocate(shape);
  if (!storage) return {};
  literal = std::move(*storage);
  DType type = shape.dtype();
  constexpr int64_t kBlock = 512;
  double block[kBlock];
  std::complex<double> complex_block[kBlock];
  std::byte* to = literal.mutable_data();
  for (int64_t done = 0; done < *count; done += kBlock) {
    int64_t n = std::min(kBlock, *count - done);
    for (int64_t i = 0; i < n; ++i) {
      uint64_t h = static_cast<uint64_t>(done + i) * 0x9e3779b97f4a7c15ull +
                   static_cast<uint64_t>(seed) * 0xff51afd7ed558ccdull;
      h ^= h >> 29;
      h *= 0xbf58476d1ce4e5b9ull;
      bool is_float = IsFloat(type) || IsComplex(type);
      block[i] = is_float ? (static_cast<double>(h >> 60) - 7.5) / 8 : (h >> 63 != 0 ? 1 : 0);
      if (type == DType::kS1) block[i] = -block[i];
      complex_block[i] = block[i];
    }
    if (IsComplex(type)) {
      StoreC128(type, complex_block, n, to + done * ByteWidth(type));
    } else if (IsFloat(type)) {
      StoreF64(type, block, n, to + done * ByteWidth(type));
    } else {
      int64_t integers[kBlock];
      for (int64_t i = 0; i < n; ++i) integers[i] = static_cast<int64_t>(block[i]);
      StoreI64(type, integers, n, to + done * ByteWidth(type));
    }
  }
  return {};
}

}  // namespace weft::hlo::text
