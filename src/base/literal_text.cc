// Literals as text.
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/float_formats.h"
#include "base/literal.h"

namespace weft {
namespace {

// "-nan", or "nan(0x123)" when it is not the format's default NaN.
void AppendNan(std::string& out, uint64_t bits, const FloatFormat& format) {
  bool negative = (bits & format.SignMask()) != 0;
  bool default_nan = bits == format.QuietNan(negative);
  if (negative && format.specials != FloatSpecials::kFnuz) out.push_back('-');
  out.append("nan");
  if (default_nan) return;
  char buffer[20];
  auto [end, ec] = std::to_chars(buffer, buffer + sizeof(buffer), bits & format.MantissaMask(), 16);
  StrAppend(out, "(0x", std::string_view(buffer, end), ")");
}

// Fewest digits that read back (as a double, then rounded to the type) to the same bits; integers
// stay themselves (448, not 450).
double ShortestDouble(double value, uint64_t bits, DType type) {
  if (std::fabs(value) < 1e6 && value == std::trunc(value)) return value;
  for (int digits = 1; digits <= 6; ++digits) {
    char buffer[32];
    auto [end, ec] = std::to_chars(buffer, buffer + sizeof(buffer), value,
                                   std::chars_format::scientific, digits - 1);
    double read = 0;
    std::from_chars(buffer, end, read);
    if (EncodeBits(type, read) == bits) return read;
  }
  return value;
}

void AppendFloatElement(std::string& out, DType type, const std::byte* element) {
  uint64_t bits = 0;
  std::memcpy(&bits, element, static_cast<size_t>(ByteWidth(type)));  // little endian
  FloatFormat format = FormatOf(type);
  double value = DecodeBits(type, bits);
  if (format.IsNan(bits)) {
    AppendNan(out, bits, format);
  } else if (type == DType::kF64) {
    AppendDouble(out, value);
  } else if (type == DType::kF32 || !std::isfinite(value)) {
    AppendFloat(out, static_cast<float>(value));
  } else {
    AppendDouble(out, ShortestDouble(value, bits, type));
  }
}

// Writes one array; `strides` in elements of the whole array.
class ArrayPrinter {
 public:
  ArrayPrinter(const Literal& literal, std::string& out) : literal_(literal), out_(out) {
    int64_t rank = literal.shape().rank();
    strides_.resize(static_cast<size_t>(rank), 1);
    for (int64_t d = rank - 2; d >= 0; --d)
      strides_[d] = strides_[d + 1] * literal.shape().dim(d + 1);
  }

  void Print(int64_t dim, int64_t offset) {
    int64_t rank = literal_.shape().rank();
    if (dim == rank) return literal_.AppendElement(out_, offset);
    int64_t size = literal_.dynamic_size(dim);
    bool spaced = rank > 1 && (dim + 1 < rank || size > 1);
    out_.append(spaced ? "{ " : "{");
    for (int64_t i = 0; i < size; ++i) {
      if (i > 0) out_.append(", ");
      Print(dim + 1, offset + i * strides_[static_cast<size_t>(dim)]);
    }
    out_.append(spaced ? " }" : "}");
  }

 private:
  const Literal& literal_;
  std::string& out_;
  Dims strides_;
};

bool HasNoElements(const Literal& literal) {
  for (int64_t d = 0; d < literal.shape().rank(); ++d) {
    if (literal.dynamic_size(d) == 0) return true;
  }
  return false;
}

}  // namespace

void Literal::AppendElement(std::string& out, int64_t i) const {
  const std::byte* element = data() + i * ByteWidth(dtype());
  switch (Class(dtype())) {
    case DTypeClass::kPred: return AppendOne(out, element[0] != std::byte{0});
    case DTypeClass::kSigned: return AppendOne(out, GetInt(i));
    case DTypeClass::kUnsigned: return AppendOne(out, static_cast<uint64_t>(GetInt(i)));
    case DTypeClass::kFloat: return AppendFloatElement(out, dtype(), element);
    case DTypeClass::kComplex: {
      DType part = RealType(dtype());
      out.push_back('(');
      AppendFloatElement(out, part, element);
      out.append(", ");
      AppendFloatElement(out, part, element + ByteWidth(part));
      out.push_back(')');
      return;
    }
    default: CHECK(false) << shape_;
  }
}

void Literal::AppendTo(std::string& out, int64_t max_elements) const {
  if (shape_.IsArray()) {
    if (max_elements >= 0 && elements_ > max_elements) {
      out.append("{...}");
    } else if (HasNoElements(*this)) {
      out.append("{}");
    } else {
      ArrayPrinter(*this, out).Print(0, 0);
    }
  } else if (shape_.IsTuple() || shape_.IsBuffer()) {
    out.push_back('(');
    for (size_t i = 0; i < tuple_.size(); ++i) {
      if (i > 0) out.append(", ");
      tuple_[i].AppendTo(out, max_elements);
    }
    out.push_back(')');
  } else {
    out.append(Name(dtype()));
  }
}

std::string Literal::ToString() const {
  std::string out;
  AppendTo(out);
  return out;
}

std::string Literal::ToStringWithShape() const {
  return StrCat(shape_.ToStringWithoutLayout(), " ", ToString());
}

}  // namespace weft
