#include "base/npy.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/file.h"

namespace weft {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";

struct NpyHeader {
  std::string descr;
  bool fortran_order = false;
  Dims dims;
};

// Reads the one Python dict of a header: strings, True/False and a tuple of integers.
class NpyHeaderParser {
 public:
  explicit NpyHeaderParser(std::string_view text) : text_(text) {}

  Result<NpyHeader> Parse() {
    NpyHeader header;
    bool has_descr = false, has_order = false, has_shape = false;
    TRY(Expect('{'));
    while (!Accept('}')) {
      std::string key = TRY(String());
      TRY(Expect(':'));
      if (key == "descr") {
        if (Peek() == '[') return Unimplemented("npy: structured types are not supported");
        header.descr = TRY(String());
        has_descr = true;
      } else if (key == "fortran_order") {
        header.fortran_order = TRY(Bool());
        has_order = true;
      } else if (key == "shape") {
        header.dims = TRY(Tuple());
        has_shape = true;
      } else {
        return InvalidArgument("npy: unknown key '", key, "' in the header");
      }
      if (!Accept(',') && Peek() != '}') return Bad("',' or '}'");
    }
    if (!has_descr || !has_order || !has_shape) {
      return InvalidArgument("npy: the header lacks descr, fortran_order or shape");
    }
    return header;
  }

 private:
  char Peek() {
    while (next_ < text_.size() && (text_[next_] == ' ' || text_[next_] == '\n')) ++next_;
    return next_ < text_.size() ? text_[next_] : '\0';
  }
  bool Accept(char c) {
    if (Peek() != c) return false;
    ++next_;
    return true;
  }
  std::unexpected<Error> Bad(std::string_view expected) {
    return InvalidArgument("npy: expected ", expected, " at byte ", next_, " of the header");
  }
  Status Expect(char c) {
    if (!Accept(c)) return Bad(StrCat("'", c, "'"));
    return {};
  }
  Result<std::string> String() {
    char quote = Peek();
    if (quote != '\'' && quote != '"') return Bad("a string");
    size_t end = text_.find(quote, next_ + 1);
    if (end == text_.npos) return Bad("a closing quote");
    std::string value(text_.substr(next_ + 1, end - next_ - 1));
    next_ = end + 1;
    return value;
  }
  Result<bool> Bool() {
    Peek();
    for (std::string_view word : {"True", "False"}) {
      if (text_.substr(next_, word.size()) == word) {
        next_ += word.size();
        return word == "True";
      }
    }
    return Bad("True or False");
  }
  Result<Dims> Tuple() {
    Dims dims;
    TRY(Expect('('));
    while (!Accept(')')) {
      Peek();
      size_t end = next_;
      while (end < text_.size() && text_[end] >= '0' && text_[end] <= '9') ++end;
      std::optional<int64_t> size = ParseInt(text_.substr(next_, end - next_));
      if (!size) return Bad("a dimension");
      next_ = end;
      Accept('L');  // Python 2's long integers
      if (static_cast<int64_t>(dims.size()) == kMaxRank) {
        return InvalidArgument("npy: more than ", kMaxRank, " dimensions");
      }
      dims.push_back(*size);
      if (!Accept(',') && Peek() != ')') return Bad("',' or ')'");
    }
    return dims;
  }

  std::string_view text_;
  size_t next_ = 0;
};

struct NpyElement {
  DType type = DType::kInvalid;  // kInvalid: raw bits, of a type NumPy does not know
  int64_t width = 0;             // bytes; 0: not told
};

// "<f4" and the like. Names that are no such thing (bfloat16) have no known width.
Result<NpyElement> ParseDescr(std::string_view descr) {
  std::string_view text = descr;
  char order = '|';
  if (!text.empty() && std::string_view("<>|=").find(text[0]) != std::string_view::npos) {
    order = text[0];
    text.remove_prefix(1);
  }
  if (text == "?") text = "b1";
  if (text.starts_with('O')) {
    auto error =
        InvalidArgument("npy: the elements are Python objects ('", descr, "'), no numbers");
    error.error().Hint("save an array of numbers: numpy.asarray(x, dtype=numpy.float32)");
    return error;
  }
  if (text.size() < 2 || text[1] < '0' || text[1] > '9') return NpyElement{};
  std::optional<int64_t> width = ParseInt(text.substr(1));
  if (!width || *width < 1 || *width > 16) {
    return Unimplemented("npy: elements of type '", descr, "' are not supported");
  }
  if (order == '>' && *width > 1) {
    return Unimplemented("npy: big-endian elements ('", descr, "') are not supported");
  }
  int bits = static_cast<int>(*width * 8);
  NpyElement element{.width = *width};
  switch (text[0]) {
    case 'b': element.type = bits == 8 ? DType::kPred : DType::kInvalid; break;
    case 'i': element.type = IntegerType(DTypeClass::kSigned, bits); break;
    case 'u': element.type = IntegerType(DTypeClass::kUnsigned, bits); break;
    case 'f':
      element.type = bits == 16   ? DType::kF16
                     : bits == 32 ? DType::kF32
                     : bits == 64 ? DType::kF64
                                  : DType::kInvalid;
      break;
    case 'c':
      element.type = bits == 64 ? DType::kC64 : bits == 128 ? DType::kC128 : DType::kInvalid;
      break;
    case 'V': break;
    default: return Unimplemented("npy: elements of type '", descr, "' are not supported");
  }
  return element;
}

// The type of the elements, given what the file says and what the caller wants.
Result<DType> ChooseType(const std::string& descr, DType as) {
  NpyElement element = TRY(ParseDescr(descr));
  if (as == DType::kInvalid) {
    if (element.type != DType::kInvalid) return element.type;
    return std::unexpected(Error(Code::kInvalidArgument, StrCat("npy: what type the elements '",
                                                                descr, "' have is not known"))
                               .Hint("name it in types.txt, e.g. `0 bf16[4]`"));
  }
  if (!IsArrayType(as)) return InvalidArgument("npy: no array has elements of type ", Name(as));
  bool raw = element.type == DType::kInvalid || IsUnsigned(element.type) ||
             (element.type == DType::kS8 && IsSigned(as));
  bool fits = element.width == 0 || element.width == ByteWidth(as);
  if (element.type == as || (raw && fits)) return as;
  return InvalidArgument("npy: the elements are '", descr, "', not ", Name(as));
}

// Sub-byte elements must be in storage form; a bool is 0 or 1.
Status NormalizeNpy(Literal& literal) {
  DType type = literal.dtype();
  if (type != DType::kPred && !IsSubByte(type)) return {};
  std::byte* data = literal.mutable_data();
  int unused = 8 - BitWidth(type);
  for (int64_t i = 0; i < literal.size(); ++i) {
    uint8_t value = static_cast<uint8_t>(data[i]);
    uint8_t shifted = static_cast<uint8_t>(value << unused);
    if (type == DType::kPred) {
      data[i] = std::byte{value != 0};
    } else if (uint8_t extended = static_cast<uint8_t>(static_cast<int8_t>(shifted) >> unused);
               IsSigned(type) && (value == extended || value == shifted >> unused)) {
      data[i] = std::byte{extended};
    } else if (IsSigned(type) || value != shifted >> unused) {
      return InvalidArgument("npy: element ", i, " is ", value, ", which is no ", Name(type));
    }
  }
  return {};
}

// Copies elements in Fortran order (first dimension fastest) into row-major order.
void CopyFortran(const char* src, const Dims& dims, int64_t width, std::byte* dst) {
  size_t rank = dims.size();
  Dims stride(rank, 1), index(rank, 0);  // stride: in the file, in elements
  for (size_t d = 1; d < rank; ++d) stride[d] = stride[d - 1] * dims[d - 1];
  int64_t offset = 0;
  while (true) {
    std::memcpy(dst, src + offset * width, static_cast<size_t>(width));
    dst += width;
    size_t d = rank;
    while (d > 0) {
      --d;
      offset += stride[d];
      if (++index[d] < dims[d]) break;
      offset -= stride[d] * dims[d];
      index[d] = 0;
      if (d == 0) return;
    }
  }
}

// The dtype character and width that the bits of a type are written as.
std::string NpyDescr(DType t) {
  char kind = 'u';
  if (t == DType::kPred) kind = 'b';
  if (IsSigned(t)) kind = 'i';
  if (t == DType::kF16 || t == DType::kF32 || t == DType::kF64) kind = 'f';
  if (IsComplex(t)) kind = 'c';
  return StrCat(ByteWidth(t) == 1 ? '|' : '<', kind, ByteWidth(t));
}

}  // namespace

Result<Literal> ParseNpy(std::string_view bytes, DType as) {
  if (bytes.size() < 10 || bytes.substr(0, kNpyMagic.size()) != kNpyMagic) {
    return InvalidArgument("npy: not an .npy file");
  }
  auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<uint8_t>(bytes[i])); };
  size_t version = byte(6), start = version == 1 ? 10 : 12;
  if (version < 1 || version > 3) return Unimplemented("npy: version ", version);
  if (bytes.size() < start) return InvalidArgument("npy: the file ends inside its header");
  size_t length = byte(8) | byte(9) << 8;
  if (version > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (length > bytes.size() - start) {
    return InvalidArgument("npy: the file ends inside its header");
  }
  NpyHeader header = TRY(NpyHeaderParser(bytes.substr(start, length)).Parse());
  std::string_view data = bytes.substr(start + length);

  Shape shape(TRY(ChooseType(header.descr, as)), header.dims);
  int64_t width = ByteWidth(shape.dtype());
  std::optional<int64_t> count = shape.CheckedElements();
  int64_t expected = 0;
  if (!count || __builtin_mul_overflow(*count, width, &expected) ||
      expected != static_cast<int64_t>(data.size())) {
    return InvalidArgument("npy: ", shape, " does not match the ", data.size(),
                           " bytes after the header");
  }
  Literal literal = TRY(Literal::Allocate(shape));
  if (*count == 0) return literal;
  if (header.fortran_order && shape.rank() > 1) {
    CopyFortran(data.data(), shape.dims(), width, literal.mutable_data());
  } else {
    std::memcpy(literal.mutable_data(), data.data(), data.size());
  }
  TRY(NormalizeNpy(literal));
  return literal;
}

namespace {

Result<Literal> ReadNpyWithin(const std::string& path, DType as, int64_t max_stream_bytes) {
  std::string bytes = TRY(ReadFile(path, kMaxFileBytes, max_stream_bytes));
  Result<Literal> literal = ParseNpy(bytes, as);
  if (!literal) literal.error().Prefix(path + ": ");
  return literal;
}

}  // namespace

Result<Literal> ReadNpy(const std::string& path, DType as) {
  return ReadNpyWithin(path, as, kMaxStreamBytes);
}

Result<Literal> ReadNpyAs(const std::string& path, const Shape& shape) {
  constexpr int64_t kLongestHeader = 1 << 20;
  int64_t needed = shape.IsArray() ? shape.ByteSize() : 0;
  Literal literal =
      TRY(ReadNpyWithin(path, shape.dtype(), std::min(needed, kMaxFileBytes) + kLongestHeader));
  if (!Shape::SameDims(literal.shape(), shape)) {
    return InvalidArgument(path, ": npy: the array is ", literal.shape(), ", not ",
                           shape.ToStringWithoutLayout());
  }
  return literal;
}

Result<std::string> FormatNpy(const Literal& array) {
  if (!array.shape().IsArray()) {
    return InvalidArgument("npy: only arrays can be written, not ", array.shape());
  }
  std::string dict =
      StrCat("{'descr': '", NpyDescr(array.dtype()), "', 'fortran_order': False, 'shape': (");
  AppendJoined(dict, array.shape().dims(), ", ");
  dict.append(array.shape().rank() == 1 ? ",), }" : "), }");
  // The elements start at a multiple of 64.
  size_t length = (10 + dict.size() + 1 + 63) / 64 * 64 - 10;
  dict.append(length - dict.size() - 1, ' ');
  dict.push_back('\n');
  std::string out(kNpyMagic);
  out.append({'\x01', '\0', static_cast<char>(length & 0xff), static_cast<char>(length >> 8)});
  out.append(dict);
  out.append(reinterpret_cast<const char*>(array.data()), static_cast<size_t>(array.byte_size()));
  return out;
}

Status WriteNpy(const std::string& path, const Literal& array) {
  return WriteFile(path, TRY(FormatNpy(array)));
}

bool NumpyLacks(DType t) {
  if (IsFloat(t)) return t != DType::kF16 && t != DType::kF32 && t != DType::kF64;
  return IsSubByte(t);
}

void AppendNpyTypeLine(std::string& out, int64_t index, const Shape& shape) {
  StrAppend(out, index, " ", shape.ToStringWithoutLayout(), "\n");
}

Result<std::vector<std::pair<int64_t, Shape>>> ParseNpyTypes(std::string_view text) {
  std::vector<std::pair<int64_t, Shape>> types;
  for (int64_t number = 1; !text.empty(); ++number) {
    size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    size_t space = line.find(' '), open = line.find('[');
    std::optional<int64_t> index = ParseInt(line.substr(0, std::min(space, line.size())));
    bool good = index && *index >= 0 && open != line.npos && space < open && line.back() == ']';
    std::optional<DType> type =
        good ? ParseDType(line.substr(space + 1, open - space - 1)) : std::nullopt;
    Dims dims;
    std::string_view list = good ? line.substr(open + 1, line.size() - open - 2) : "";
    while (good && !list.empty()) {
      size_t comma = std::min(list.find(','), list.size());
      std::optional<int64_t> dim = ParseInt(list.substr(0, comma));
      good = dim && *dim >= 0 && static_cast<int64_t>(dims.size()) < kMaxRank;
      if (good) dims.push_back(*dim);
      list.remove_prefix(std::min(comma + 1, list.size()));
    }
    if (!good || !type || !IsArrayType(*type)) {
      return InvalidArgument("types.txt: line ", number,
                             ": expected a line such as `0 f8e4m3fn[256]`, not `", line, "`");
    }
    types.emplace_back(*index, Shape(*type, dims));
  }
  return types;
}

}  // namespace weft
