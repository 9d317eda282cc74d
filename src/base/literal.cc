#include "base/literal.h"

#include <algorithm>
#include <cstring>

#include "base/elements.h"
#include "base/float_formats.h"
#include "base/packing.h"
#include "base/storage.h"

namespace weft {
namespace {

constexpr int64_t kMaxLiteralBytes = int64_t{1} << 39;  // no machine has room for more

}  // namespace

Status Literal::Init(Shape shape, bool zero) {
  shape_ = std::move(shape);
  if (shape_.IsTuple() || shape_.IsBuffer()) {
    for (const Shape& element : shape_.elements_of_tuple()) {
      TRY(tuple_.emplace_back().Init(element, zero));
    }
    return {};
  }
  if (!shape_.IsArray()) return {};
  std::optional<int64_t> count = shape_.CheckedElements();
  if (!count) {
    auto error = InvalidArgument("no value can have shape ", shape_);
    if (shape_.HasUnboundedDims()) {
      error.error().Hint("a `?` stands for any size: put the sizes of the arguments there");
    }
    return error;
  }
  if (*count > kMaxLiteralBytes / ByteWidth(dtype())) {
    return ResourceExhausted("a value of shape ", shape_, " does not fit in memory");
  }
  elements_ = *count;
  storage_ = AllocateStorage(static_cast<size_t>(byte_size()), zero);
  if (storage_ == nullptr) {
    return ResourceExhausted("no memory for ", byte_size(), " bytes of shape ", shape_);
  }
  return {};
}

Literal::Literal(Shape shape) {
  Status status = Init(std::move(shape), /*zero=*/true);
  CHECK(status.has_value()) << status.error();
}

Literal Literal::Uninitialized(Shape shape) {
  Literal literal;
  Status status = literal.Init(std::move(shape), /*zero=*/false);
  CHECK(status.has_value()) << status.error();
  return literal;
}

Result<Literal> Literal::Allocate(Shape shape) {
  Literal literal;
  TRY(literal.Init(std::move(shape), /*zero=*/true));
  return literal;
}

Result<Literal> Literal::AllocateUnset(Shape shape) {
  Literal literal;
  TRY(literal.Init(std::move(shape), /*zero=*/false));
  return literal;
}

std::shared_ptr<std::byte[]> Literal::NewStorage(int64_t bytes) {
  if (bytes < 0 || bytes > kMaxLiteralBytes) return nullptr;
  return AllocateStorage(static_cast<size_t>(bytes), /*zero=*/false);
}

Literal Literal::FromShape(Shape shape) {
  Literal literal;
  literal.shape_ = std::move(shape);
  literal.elements_ = literal.shape_.elements();
  return literal;
}

Literal Literal::FromStorage(Shape shape, std::shared_ptr<std::byte[]> storage) {
  Literal literal;
  std::optional<int64_t> count = shape.CheckedElements();
  CHECK(shape.IsArray() && count && *count <= kMaxLiteralBytes / ByteWidth(shape.dtype()) &&
        (*count == 0 || storage != nullptr))
      << shape;
  literal.shape_ = std::move(shape);
  literal.elements_ = *count;
  literal.storage_ = std::move(storage);
  return literal;
}

Literal Literal::FromPackedStorage(Shape shape, std::shared_ptr<std::byte[]> storage) {
  CHECK(IsPackable(shape.dtype())) << shape;
  Literal literal = FromStorage(std::move(shape), std::move(storage));
  literal.packed_ = true;
  return literal;
}

Literal Literal::Tuple(std::vector<Literal> elements) {
  Literal literal;
  std::vector<Shape> shapes;
  shapes.reserve(elements.size());
  for (const Literal& element : elements) shapes.push_back(element.shape());
  literal.shape_ = Shape::Tuple(std::move(shapes));
  literal.tuple_ = std::move(elements);
  return literal;
}

void Literal::Unshare() {
  std::shared_ptr<std::byte[]> copy =
      AllocateStorage(static_cast<size_t>(byte_size()), /*zero=*/false);
  CHECK(copy != nullptr) << "no memory for " << byte_size() << " bytes";
  std::memcpy(copy.get(), storage_.get(), static_cast<size_t>(byte_size()));
  storage_ = std::move(copy);
}

double Literal::GetDouble(int64_t i) const {
  double value;
  LoadF64(dtype(), data() + i * ByteWidth(dtype()), 1, &value);
  return value;
}

int64_t Literal::GetInt(int64_t i) const {
  int64_t value;
  LoadI64(dtype(), data() + i * ByteWidth(dtype()), 1, &value);
  return value;
}

std::complex<double> Literal::GetComplex(int64_t i) const {
  std::complex<double> value;
  LoadC128(dtype(), data() + i * ByteWidth(dtype()), 1, &value);
  return value;
}

void Literal::SetDouble(int64_t i, double value) {
  StoreF64(dtype(), &value, 1, mutable_data() + i * ByteWidth(dtype()));
}

void Literal::SetInt(int64_t i, int64_t value) {
  StoreI64(dtype(), &value, 1, mutable_data() + i * ByteWidth(dtype()));
}

void Literal::SetComplex(int64_t i, std::complex<double> value) {
  StoreC128(dtype(), &value, 1, mutable_data() + i * ByteWidth(dtype()));
}

bool Literal::SetNan(int64_t i, bool negative, std::optional<uint64_t> payload, bool imaginary) {
  DType part = RealType(dtype());
  if (!IsFloat(part) || (imaginary && !IsComplex(dtype()))) return false;
  FloatFormat format = FormatOf(part);
  if (!format.HasNan()) return false;
  uint64_t bits = format.QuietNan(negative);
  if (payload) {
    if (*payload > format.MantissaMask()) return false;
    bits = (bits & ~format.MantissaMask()) | *payload;
    if (!format.IsNan(bits)) return false;
  }
  std::byte* to = mutable_data() + i * ByteWidth(dtype()) + (imaginary ? ByteWidth(part) : 0);
  std::memcpy(to, &bits, static_cast<size_t>(ByteWidth(part)));  // little endian
  return true;
}

void Literal::set_dynamic_size(int64_t dim, int64_t size) {
  if (dynamic_.empty()) dynamic_ = shape_.dims();
  dynamic_[static_cast<size_t>(dim)] = size;
}

Literal Literal::WithShape(Shape shape) const {
  CHECK(shape.IsArray() && shape.CheckedElements() == elements_ &&
        ByteWidth(shape.dtype()) == ByteWidth(dtype()) &&
        (!packed_ || BitWidth(shape.dtype()) == BitWidth(dtype())))
      << shape_ << " to " << shape;
  Literal result = *this;
  if (!Shape::SameDims(shape, shape_)) result.dynamic_.clear();
  result.shape_ = std::move(shape);
  return result;
}

bool Literal::operator==(const Literal& other) const {
  if (!Shape::Compatible(shape_, other.shape_) || elements_ != other.elements_) return false;
  if (HasDynamicSizes() || other.HasDynamicSizes()) {
    for (int64_t d = 0; d < shape_.rank(); ++d) {
      if (dynamic_size(d) != other.dynamic_size(d)) return false;
    }
  }
  if (packed_ != other.packed_) return Pack() == other.Pack();
  if (elements_ > 0 && data() != other.data() &&
      std::memcmp(data(), other.data(), static_cast<size_t>(byte_size())) != 0) {
    return false;
  }
  return tuple_ == other.tuple_;
}

std::vector<std::byte> Literal::Pack() const {
  CHECK(shape_.IsArray()) << shape_;
  if (packed_) return {data(), data() + byte_size()};
  std::vector<std::byte> packed(static_cast<size_t>(PackedBytes(dtype(), elements_)));
  PackElements(dtype(), data(), elements_, packed.data());
  return packed;
}

Result<Literal> Literal::Unpack(Shape shape, std::span<const std::byte> packed) {
  if (!shape.IsArray()) return InvalidArgument("unpack: not an array: ", shape);
  std::optional<int64_t> count = shape.CheckedElements();
  if (!count || *count > kMaxLiteralBytes / ByteWidth(shape.dtype())) {
    return InvalidArgument("unpack: no value can have shape ", shape);
  }
  DType type = shape.dtype();
  int64_t expected = PackedBytes(type, *count);
  if (expected != static_cast<int64_t>(packed.size())) {
    return InvalidArgument("unpack: ", shape, " takes ", expected, " bytes, not ", packed.size());
  }
  Literal literal;
  TRY(literal.Init(std::move(shape), /*zero=*/false));
  std::byte* out = literal.mutable_data();
  if (type == DType::kPred) {
    for (size_t i = 0; i < packed.size(); ++i) out[i] = std::byte{packed[i] != std::byte{0}};
  } else {
    UnpackElements(type, packed.data(), literal.elements_, out);
  }
  return literal;
}

Result<Literal> Literal::Packed() const {
  if (!IsToPack() || storage_ == nullptr) return *this;
  Literal result = *this;
  result.packed_ = true;
  result.storage_ = NewStorage(result.byte_size());
  if (result.storage_ == nullptr) {
    return ResourceExhausted("no memory for ", result.byte_size(), " bytes of shape ", shape_);
  }
  PackElements(dtype(), data(), elements_, result.storage_.get());
  return result;
}

Result<Literal> Literal::Unpacked() const {
  if (!packed_) return *this;
  Literal result = *this;
  result.packed_ = false;
  result.storage_ = NewStorage(result.byte_size());
  if (result.storage_ == nullptr) {
    return ResourceExhausted("no memory for ", result.byte_size(), " bytes of shape ", shape_);
  }
  UnpackElements(dtype(), data(), elements_, result.storage_.get());
  return result;
}

}  // namespace weft
