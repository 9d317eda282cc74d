// dense<...>: constants, in the form that Literals store.
#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "base/float_formats.h"
#include "hlo/import/mlir_text.h"

namespace weft::hlo::mlir {
namespace {

// The integer as it is stored: the lowest bytes of it.
bool StoreInt(DType dtype, std::string_view text, std::byte* to) {
  if (text == "true" || text == "false") {
    uint64_t bit = text == "true" ? 1 : 0;
    if (dtype != DType::kPred) return false;
    std::memcpy(to, &bit, 1);
    return true;
  }
  bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  bool hex = text.starts_with("0x");
  if (hex) text.remove_prefix(2);
  uint64_t value = 0;
  auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value, hex ? 16 : 10);
  if (ec != std::errc() || end != text.data() + text.size()) return false;
  int bits = BitWidth(dtype);
  uint64_t limit = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  if (value > limit || (negative && value > uint64_t{1} << (bits - 1))) return false;
  if (negative) value = uint64_t{0} - value;
  if (IsSigned(dtype) && bits < 64) {  // sub-byte integers are sign-extended to their byte
    int shift = 64 - bits;
    value = static_cast<uint64_t>(static_cast<int64_t>(value << shift) >> shift);
  }
  std::memcpy(to, &value, static_cast<size_t>(ByteWidth(dtype)));
  return true;
}

bool StoreFloat(DType dtype, std::string_view text, std::byte* to) {
  uint64_t bits = 0;
  bool negative = text.starts_with('-');
  std::string_view digits = negative ? text.substr(1) : text;
  if (digits.starts_with("0x")) {
    auto [end, ec] = std::from_chars(digits.data() + 2, digits.data() + digits.size(), bits, 16);
    int width = BitWidth(dtype);
    if (negative || ec != std::errc() || end != digits.data() + digits.size() ||
        (width < 64 && bits >> width != 0)) {
      return false;
    }
  } else {
    double value = 0;
    auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (end != digits.data() + digits.size() || digits.empty()) return false;
    if (ec == std::errc::result_out_of_range) {
      value = std::strtod(std::string(digits).c_str(), nullptr);
    } else if (ec != std::errc()) {
      return false;
    }
    if (negative) value = -value;
    bits = dtype == DType::kF32 ? std::bit_cast<uint32_t>(static_cast<float>(value))
                                : EncodeBits(dtype, value);
  }
  std::memcpy(to, &bits, static_cast<size_t>(ByteWidth(dtype)));
  return true;
}

bool StoreNumber(DType dtype, std::string_view text, std::byte* to) {
  return IsFloat(dtype) ? StoreFloat(dtype, text, to) : StoreInt(dtype, text, to);
}

// Goes over `[[1, 2], [3, 4]]` and checks that it has the shape of the type.
class ListWalk {
 public:
  ListWalk(std::string_view body, DType dtype, std::span<const int64_t> dims)
      : body_(body), dtype_(dtype), dims_(dims), counts_(dims.size() + 1) {}

  // Where something is wrong, or npos.
  size_t Store(std::byte* to, const std::byte* end) {
    while (at_ < body_.size()) {
      char c = body_[at_];
      if (c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == ',') {
        ++at_;
      } else if (c == '[') {
        if (depth_ >= dims_.size()) return at_;
        ++counts_[depth_++];
        counts_[depth_] = 0;
        ++at_;
      } else if (c == ']') {
        if (depth_ == 0 || counts_[depth_] != dims_[depth_ - 1]) return at_;
        --depth_;
        ++at_;
      } else {
        if (depth_ != dims_.size() || to == end || !Element(to)) return at_;
        ++counts_[depth_];
        to += ByteWidth(dtype_);
      }
    }
    return depth_ == 0 && to == end ? std::string_view::npos : at_;
  }

 private:
  std::string_view Word() {
    size_t start = at_;
    while (at_ < body_.size() &&
           std::string_view(" ,[]()\n\t\r").find(body_[at_]) == std::string_view::npos) {
      ++at_;
    }
    return body_.substr(start, at_ - start);
  }
  void Skip() {
    while (at_ < body_.size() && (body_[at_] == ' ' || body_[at_] == ',')) ++at_;
  }
  bool Element(std::byte* to) {
    if (!IsComplex(dtype_)) return StoreNumber(dtype_, Word(), to);
    DType part = RealType(dtype_);
    if (body_[at_] != '(') return false;
    ++at_;
    Skip();
    if (!StoreNumber(part, Word(), to)) return false;
    Skip();
    if (!StoreNumber(part, Word(), to + ByteWidth(part))) return false;
    Skip();
    if (at_ >= body_.size() || body_[at_] != ')') return false;
    ++at_;
    return true;
  }

  std::string_view body_;
  DType dtype_;
  std::span<const int64_t> dims_;
  std::vector<int64_t> counts_;
  size_t at_ = 0, depth_ = 0;
};

}  // namespace

// The type comes behind the elements: they are read once it is known.
Result<const Attr*> TextReader::ReadDense() {
  lexer_.Advance();
  if (!At('<')) return FailExpected("'<'");
  std::string_view source = lexer_.source();
  size_t start = lexer_.position();
  size_t end = source.find('>', start);
  if (end == std::string_view::npos) return Fail("a constant without its '>'");
  lexer_.Seek(end + 1);
  TRY(Expect(':'));
  const Type* type = TRY(ReadType());
  if (type->kind != Type::Kind::kTensor || !IsArrayType(type->dtype)) {
    return Fail("a constant whose type is no tensor");
  }
  Attr* attr = tree_.NewAttr(Attr::Kind::kDense);
  attr->type = type;
  TRY(FillDense(source.substr(start, end - start), start, *attr));
  return attr;
}

Status TextReader::FillDense(std::string_view body, size_t offset, Attr& attr) {
  std::optional<int64_t> count = Shape(attr.type->dtype, attr.type->dims).CheckedElements();
  for (int64_t dim : attr.type->dims) {
    if (dim < 0) count.reset();
  }
  if (!count) {
    return FailAt(offset, Error(Code::kInvalidArgument, "a constant whose size is not known"));
  }
  size_t skipped = std::min(body.find_first_not_of(" \n\t\r"), body.size());
  body.remove_prefix(skipped);
  offset += skipped;
  body = body.substr(0, body.find_last_not_of(" \n\t\r") + 1);
  if (body.size() >= 2 && body.front() == '"' && body.back() == '"') {
    return FillHex(body.substr(1, body.size() - 2), offset, *count, attr);
  }
  if (body.empty()) {
    if (*count != 0) return FailAt(offset, Error(Code::kInvalidArgument, "a constant is empty"));
    attr.bytes = tree_.KeepBytes({});
    return {};
  }
  if (body.front() != '[') {  // one element for all
    std::vector<std::byte> bytes(static_cast<size_t>(ByteWidth(attr.type->dtype)));
    size_t wrong =
        ListWalk(body, attr.type->dtype, {}).Store(bytes.data(), bytes.data() + bytes.size());
    if (wrong != std::string_view::npos) {
      return FailAt(offset + wrong,
                    Error(Code::kInvalidArgument, StrCat("expected one ", Name(attr.type->dtype))));
    }
    attr.splat = *count != 1;
    attr.bytes = tree_.KeepBytes(std::move(bytes));
    return {};
  }
  return FillList(body, offset, *count, attr);
}

Status TextReader::FillList(std::string_view body, size_t offset, int64_t count, Attr& attr) {
  DType dtype = attr.type->dtype;
  if (count > static_cast<int64_t>(body.size())) {
    return FailAt(offset, Error(Code::kInvalidArgument,
                                StrCat("fewer elements than the ", count, " of the type")));
  }
  size_t width = static_cast<size_t>(ByteWidth(dtype));
  std::vector<std::byte> bytes(static_cast<size_t>(count) * width);
  size_t wrong =
      ListWalk(body, dtype, attr.type->dims).Store(bytes.data(), bytes.data() + bytes.size());
  if (wrong != std::string_view::npos) {
    return FailAt(offset + wrong, Error(Code::kInvalidArgument,
                                        StrCat("the elements of a constant do not fit its type: ",
                                               count, " of ", Name(dtype), " expected")));
  }
  if (count > 1 && std::memcmp(bytes.data(), bytes.data() + width, bytes.size() - width) == 0) {
    attr.splat = true;
    bytes.resize(width);
  }
  attr.bytes = tree_.KeepBytes(std::move(bytes));
  return {};
}

// "0x..." holds the elements' bytes: little-endian, i1 eight to a byte.
Status TextReader::FillHex(std::string_view digits, size_t offset, int64_t count, Attr& attr) {
  DType dtype = attr.type->dtype;
  auto fail = [&](std::string_view what) {
    return FailAt(offset, Error(Code::kInvalidArgument, StrCat("hexadecimal constant: ", what)));
  };
  if (!digits.starts_with("0x") || digits.size() % 2 != 0) return fail("malformed");
  digits.remove_prefix(2);
  std::vector<std::byte> bytes(digits.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i) {
    int high = HexDigit(digits[2 * i]), low = HexDigit(digits[2 * i + 1]);
    if (high < 0 || low < 0) return fail("not a digit");
    bytes[i] = static_cast<std::byte>(high * 16 + low);
  }
  auto have = static_cast<int64_t>(bytes.size());
  int64_t width = ByteWidth(dtype);
  if (dtype == DType::kPred && have != count) {
    if (count / 8 + (count % 8 != 0) != have) {
      if (have != 1) return fail("wrong number of bytes");
      count = 1;
      attr.splat = true;
    }
    std::vector<std::byte> unpacked(static_cast<size_t>(count));
    for (size_t i = 0; i < unpacked.size(); ++i) {
      unpacked[i] = (bytes[i / 8] >> (i % 8)) & std::byte{1};
    }
    bytes = std::move(unpacked);
  } else if (have == width && count != 1) {
    attr.splat = true;
  } else if (count > have || count * width != have) {
    return fail(StrCat(have, " bytes, but the type has ", count, " elements of ", width));
  }
  if (dtype == DType::kPred) {
    for (std::byte& b : bytes) b = b == std::byte{0} ? std::byte{0} : std::byte{1};
  } else if (IsSubByte(dtype)) {
    int shift = 8 - BitWidth(dtype);
    for (std::byte& b : bytes) {
      auto raw = static_cast<uint8_t>(static_cast<uint8_t>(b) << shift);
      b = IsSigned(dtype) ? static_cast<std::byte>(static_cast<int8_t>(raw) >> shift)
                          : static_cast<std::byte>(raw >> shift);
    }
  }
  auto step = static_cast<size_t>(width);
  if (bytes.size() > step &&
      std::memcmp(bytes.data(), bytes.data() + step, bytes.size() - step) == 0) {
    attr.splat = true;
    bytes.resize(step);
  }
  attr.bytes = tree_.KeepBytes(std::move(bytes));
  return {};
}

}  // namespace weft::hlo::mlir
