// Values: a shape and its elements. Arrays are stored densely in row-major order whatever the
// shape's layout says (a layout is a fact about device memory; `bitcast` in the evaluator
// looks at it). One byte holds one element of a sub-byte type, unless the literal is packed: then
// it can be kept, copied and moved, and whoever wants to see its elements takes Unpacked(). Copying
// a Literal shares its bytes; writing copies them first when they are shared.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/packing.h"
#include "base/shape.h"
#include "base/sole_owner.h"

namespace weft {

class Literal {
 public:
  Literal() = default;                        // invalid
  explicit Literal(Shape shape);              // zeroes; tuples get zeroed elements
  static Literal Uninitialized(Shape shape);  // an array whose elements the caller will write
  // As Literal(shape), but a shape that is too large (or has `?` dimensions) is an error.
  static Result<Literal> Allocate(Shape shape);
  static Result<Literal> AllocateUnset(Shape shape);  // the same, elements not set
  // An array whose elements are those in `storage`, at least as many bytes as the shape takes, one
  // byte for an element of a sub-byte type. Nothing is copied; where the literal is the only holder
  // of the storage, writing to the literal writes there.
  static Literal FromStorage(Shape shape, std::shared_ptr<std::byte[]> storage);
  // The same for elements of two or four bits that lie packed in it.
  static Literal FromPackedStorage(Shape shape, std::shared_ptr<std::byte[]> storage);
  static Literal Tuple(std::vector<Literal> elements);
  static Literal Token() { return Literal(Shape::Token()); }
  template <class T>
  static Literal Scalar(DType dtype, T storage_value) {  // T: the storage type of dtype
    Literal l{Shape::Scalar(dtype)};
    l.values<T>()[0] = storage_value;
    return l;
  }

  const Shape& shape() const { return shape_; }
  DType dtype() const { return shape_.dtype(); }
  bool IsValid() const { return shape_.IsValid(); }
  int64_t size() const { return elements_; }  // number of elements of an array
  int64_t byte_size() const {
    return packed_ ? PackedBytes(dtype(), elements_) : elements_ * ByteWidth(dtype());
  }
  bool packed() const { return packed_; }  // several elements of two or four bits lie in a byte

  // Elements in storage form (dtype.h's last column).
  const std::byte* data() const { return storage_.get(); }
  std::byte* mutable_data() {
    if (!OwnsStorage() && storage_ != nullptr) Unshare();
    return storage_.get();
  }
  // New storage is aligned to 64 bytes.
  const std::shared_ptr<std::byte[]>& storage() const { return storage_; }
  static std::shared_ptr<std::byte[]> NewStorage(int64_t bytes);  // not set; null: no memory
  // Nobody else holds the bytes, so that they may be written.
  bool OwnsStorage() const { return IsSoleOwner(storage_); }
  static Literal FromShape(Shape shape);  // a static array without its bytes
  // Bytes taken out of an array, which has none then, and put into one of as many.
  std::shared_ptr<std::byte[]> TakeStorage() { return std::move(storage_); }
  void PutStorage(std::shared_ptr<std::byte[]> storage) { storage_ = std::move(storage); }
  template <class T>
  std::span<const T> values() const {
    CHECK(!packed_ && static_cast<int64_t>(sizeof(T)) == ByteWidth(dtype())) << shape_;
    return {reinterpret_cast<const T*>(data()), static_cast<size_t>(elements_)};
  }
  template <class T>
  std::span<T> values() {
    CHECK(!packed_ && static_cast<int64_t>(sizeof(T)) == ByteWidth(dtype())) << shape_;
    return {reinterpret_cast<T*>(mutable_data()), static_cast<size_t>(elements_)};
  }

  // Tuples.
  const std::vector<Literal>& tuple() const { return tuple_; }
  std::vector<Literal>& mutable_tuple() { return tuple_; }
  std::vector<Literal> TakeTuple() && { return std::move(tuple_); }

  // One element as a wide number, whatever the dtype (complex: GetDouble gives the real part).
  double GetDouble(int64_t i) const;
  int64_t GetInt(int64_t i) const;  // integers and pred exactly, u64 bit-cast; floats truncated
  std::complex<double> GetComplex(int64_t i) const;
  void SetDouble(int64_t i, double value);  // rounds as convert does
  void SetInt(int64_t i, int64_t value);    // integers wrap
  void SetComplex(int64_t i, std::complex<double> value);
  // A NaN of the given mantissa bits, or the format's default one; of a complex element, the part
  // named. False when the type has no such NaN.
  bool SetNan(int64_t i, bool negative, std::optional<uint64_t> payload, bool imaginary = false);

  // The run-time size of a dimension; the shape's size unless set_dynamic_size was called.
  int64_t dynamic_size(int64_t dim) const {
    return dynamic_.empty() ? shape_.dim(dim) : dynamic_[dim];
  }
  void set_dynamic_size(int64_t dim, int64_t size);
  bool HasDynamicSizes() const { return !dynamic_.empty(); }

  // The same elements under another shape of equal element count and element width (reshape,
  // retype).
  Literal WithShape(Shape shape) const;

  // Bitwise: same shape (layout ignored), same bits, NaNs and dynamic sizes included.
  bool operator==(const Literal& other) const;

  // HLO text: `{1, 2}`, `{ { 1, 2 }, { 3, 4 } }`, `(1, {2})`; the shape is not included.
  // `max_elements` < 0: all, else elided as `{...}` when there are more.
  void AppendTo(std::string& out, int64_t max_elements = -1) const;
  std::string ToString() const;           // elements, all
  std::string ToStringWithShape() const;  // "f32[2] {1, 2}"
  void AppendElement(std::string& out,
                     int64_t i) const;  // one element as text that reads back to the same bits

  // Sub-byte elements packed little end first (element 0 in the low bits); other types as they are.
  std::vector<std::byte> Pack() const;
  static Result<Literal> Unpack(Shape shape, std::span<const std::byte> packed);
  // The same value packed, where its type is one that memory holds so; with an element a byte.
  bool IsToPack() const { return !packed_ && shape_.IsArray() && IsPackable(dtype()); }
  Result<Literal> Packed() const;
  Result<Literal> Unpacked() const;

 private:
  Status Init(Shape shape, bool zero);
  void Unshare();

  Shape shape_;
  int64_t elements_ = 0;
  bool packed_ = false;
  std::shared_ptr<std::byte[]> storage_;
  std::vector<Literal> tuple_;
  Dims dynamic_;  // run-time sizes; empty: those of the shape
};

}  // namespace weft
