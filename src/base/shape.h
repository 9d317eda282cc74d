// Shapes: arrays (with static, bounded and unbounded dimensions and an optional layout), tuples,
// tokens, opaque values and buffers. Text: f32[2,<=5,?]{2,1,0:T(8,128)}, (f32[], token[]),
// b(f32[4]).
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "base/inline_vec.h"
#include "base/layout.h"

namespace weft {

// Path into a nested tuple, outermost first; {} is the value itself.
using ShapeIndex = InlineVec<int64_t, 4>;

class Shape {
 public:
  static constexpr int64_t kUnbounded =
      std::numeric_limits<int64_t>::min();  // the size of a `?` dimension

  Shape() = default;  // invalid; no value has this shape
  Shape(DType dtype, std::span<const int64_t> dims) : dtype_(dtype), dims_(dims) {}
  Shape(DType dtype, std::initializer_list<int64_t> dims) : dtype_(dtype), dims_(dims) {}
  static Shape Scalar(DType dtype) { return Shape(dtype, std::initializer_list<int64_t>{}); }
  static Shape Tuple(std::vector<Shape> elements);
  static Shape Token() { return Shape(DType::kToken, {}); }
  static Shape Opaque() { return Shape(DType::kOpaque, {}); }
  static Shape Buffer(Shape content);  // b(f32[4])

  DType dtype() const { return dtype_; }
  void set_dtype(DType dtype) { dtype_ = dtype; }
  bool IsValid() const { return dtype_ != DType::kInvalid; }
  bool IsArray() const { return IsArrayType(dtype_); }
  bool IsTuple() const { return dtype_ == DType::kTuple; }
  bool IsToken() const { return dtype_ == DType::kToken; }
  bool IsOpaque() const { return dtype_ == DType::kOpaque; }
  bool IsBuffer() const { return dtype_ == DType::kBuffer; }
  bool IsScalar() const { return IsArray() && dims_.empty(); }

  // Arrays. For a bounded dimension `<=n` the size is n; for `?` it is kUnbounded.
  int64_t rank() const { return static_cast<int64_t>(dims_.size()); }
  const Dims& dims() const { return dims_; }
  int64_t dim(int64_t i) const { return dims_[i]; }
  void set_dim(int64_t i, int64_t size) { dims_[i] = size; }
  bool is_dynamic(int64_t i) const { return (dynamic_ >> i) & 1; }
  void set_dynamic(int64_t i, bool dynamic) {
    dynamic_ = dynamic ? dynamic_ | (uint64_t{1} << i) : dynamic_ & ~(uint64_t{1} << i);
  }
  bool is_unbounded(int64_t i) const { return dims_[i] == kUnbounded; }
  bool HasDynamicDims() const { return dynamic_ != 0; }  // this array alone, not inside tuples
  bool IsStatic() const;                                 // no dynamic dimension anywhere
  bool HasUnboundedDims() const;                         // anywhere
  void AppendDim(int64_t size, bool dynamic = false);
  void DeleteDim(int64_t i);
  // Number of elements (of the bound, for dynamic dimensions); nullopt on overflow or an unbounded
  // dimension.
  std::optional<int64_t> CheckedElements() const;
  int64_t elements() const { return CheckedElements().value_or(0); }
  // Unpacked, tuples summed over leaves; 0 for tokens; the largest int64 on overflow.
  int64_t ByteSize() const;

  // Layout of an array; null when not given, which means row-major.
  const Layout* layout() const { return has_layout_ ? &layout_ : nullptr; }
  Layout& MutableLayout();  // created row-major when absent
  void set_layout(Layout layout) {
    layout_ = std::move(layout);
    has_layout_ = true;
  }
  void ClearLayout();  // here and in all tuple elements
  Layout LayoutOrDefault() const { return has_layout_ ? layout_ : Layout::RowMajor(rank()); }

  // Tuples, and the one content of a buffer.
  const std::vector<Shape>& elements_of_tuple() const { return tuple_; }
  std::vector<Shape>& mutable_tuple() { return tuple_; }
  int64_t tuple_size() const { return static_cast<int64_t>(tuple_.size()); }
  const Shape& tuple_element(int64_t i) const { return tuple_[i]; }
  const Shape& buffer_content() const { return tuple_[0]; }
  const Shape* SubShape(std::span<const int64_t> index) const;  // null when the index leads nowhere
  // Depth first; the shape itself with index {} first.
  void ForEachSubShape(const std::function<void(const Shape&, const ShapeIndex&)>& fn) const;

  bool operator==(const Shape& other) const;  // everything, layouts too (absent != given)
  // Same structure, types and dimensions (dynamic-ness too); layouts ignored.
  static bool Compatible(const Shape& a, const Shape& b) { return Same(a, b, kLayouts); }
  // As Compatible, but a float type matches any other float type.
  static bool CompatibleIgnoringPrecision(const Shape& a, const Shape& b) {
    return Same(a, b, kLayouts | kPrecision);
  }
  static bool CompatibleIgnoringElementType(const Shape& a, const Shape& b) {
    return Same(a, b, kLayouts | kElementType);
  }
  // As Compatible, but static and dynamic dimensions of one bound match.
  static bool CompatibleIgnoringDynamic(const Shape& a, const Shape& b) {
    return Same(a, b, kLayouts | kDynamic);
  }
  static bool SameDims(const Shape& a, const Shape& b) { return a.dims_ == b.dims_; }

  enum Ignore : unsigned { kLayouts = 1, kPrecision = 2, kElementType = 4, kDynamic = 8 };
  static bool Same(const Shape& a, const Shape& b, unsigned ignore);

  void AppendTo(std::string& out, bool with_layout = true) const;
  std::string ToString() const;  // with layouts
  std::string ToStringWithoutLayout() const;
  size_t Hash() const;  // layouts not included

 private:
  DType dtype_ = DType::kInvalid;
  bool has_layout_ = false;
  uint64_t dynamic_ = 0;  // bit i: dimension i is dynamic; rank is at most 64
  Dims dims_;
  Layout layout_;
  std::vector<Shape> tuple_;
};

inline constexpr int64_t kMaxRank = 64;

std::string ShapeIndexToString(std::span<const int64_t> index);  // "{0,1}"

}  // namespace weft
