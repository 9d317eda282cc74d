#include "base/shape.h"

#include <bit>

#include "base/hash.h"

namespace weft {
namespace {

void Walk(const Shape& shape, ShapeIndex& index,
          const std::function<void(const Shape&, const ShapeIndex&)>& fn) {
  fn(shape, index);
  if (!shape.IsTuple()) return;
  for (int64_t i = 0; i < shape.tuple_size(); ++i) {
    index.push_back(i);
    Walk(shape.tuple_element(i), index, fn);
    index.pop_back();
  }
}

}  // namespace

Shape Shape::Tuple(std::vector<Shape> elements) {
  Shape s;
  s.dtype_ = DType::kTuple;
  s.tuple_ = std::move(elements);
  return s;
}

Shape Shape::Buffer(Shape content) {
  Shape s;
  s.dtype_ = DType::kBuffer;
  s.tuple_.push_back(std::move(content));
  return s;
}

bool Shape::IsStatic() const {
  if (dynamic_ != 0) return false;
  for (const Shape& s : tuple_) {
    if (!s.IsStatic()) return false;
  }
  return true;
}

bool Shape::HasUnboundedDims() const {
  for (int64_t d : dims_) {
    if (d == kUnbounded) return true;
  }
  for (const Shape& s : tuple_) {
    if (s.HasUnboundedDims()) return true;
  }
  return false;
}

void Shape::AppendDim(int64_t size, bool dynamic) {
  dims_.push_back(size);
  set_dynamic(rank() - 1, dynamic);
  has_layout_ = false;
  layout_ = Layout();
}

void Shape::DeleteDim(int64_t i) {
  dims_.erase_at(static_cast<size_t>(i));
  uint64_t low = dynamic_ & ((uint64_t{1} << i) - 1);
  uint64_t high = i + 1 < 64 ? dynamic_ >> (i + 1) << i : 0;
  dynamic_ = low | high;
  has_layout_ = false;
  layout_ = Layout();
}

std::optional<int64_t> Shape::CheckedElements() const {
  if (!IsArray()) return std::nullopt;
  int64_t n = 1;
  bool overflow = false;
  for (int64_t d : dims_) {
    if (d < 0) return std::nullopt;
    if (d == 0) return 0;
    overflow |= __builtin_mul_overflow(n, d, &n);
  }
  if (overflow) return std::nullopt;
  return n;
}

int64_t Shape::ByteSize() const {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  int64_t total = 0;
  if (IsArray()) {
    return __builtin_mul_overflow(elements(), ByteWidth(dtype_), &total) ? kMax : total;
  }
  for (const Shape& s : tuple_) {
    if (__builtin_add_overflow(total, s.ByteSize(), &total)) return kMax;
  }
  return total;
}

Layout& Shape::MutableLayout() {
  if (!has_layout_) set_layout(Layout::RowMajor(rank()));
  return layout_;
}

void Shape::ClearLayout() {
  has_layout_ = false;
  layout_ = Layout();
  for (Shape& s : tuple_) s.ClearLayout();
}

const Shape* Shape::SubShape(std::span<const int64_t> index) const {
  const Shape* s = this;
  for (int64_t i : index) {
    if (!s->IsTuple() || i < 0 || i >= s->tuple_size()) return nullptr;
    s = &s->tuple_[static_cast<size_t>(i)];
  }
  return s;
}

void Shape::ForEachSubShape(const std::function<void(const Shape&, const ShapeIndex&)>& fn) const {
  ShapeIndex index;
  Walk(*this, index, fn);
}

bool Shape::operator==(const Shape& other) const {
  return Same(*this, other, 0);
}

bool Shape::Same(const Shape& a, const Shape& b, unsigned ignore) {
  bool type_free = ((ignore & kElementType) && a.IsArray() && b.IsArray()) ||
                   ((ignore & kPrecision) && IsFloat(a.dtype_) && IsFloat(b.dtype_));
  if (a.dtype_ != b.dtype_ && !type_free) return false;
  if (!(a.dims_ == b.dims_)) return false;
  if (!(ignore & kDynamic) && a.dynamic_ != b.dynamic_) return false;
  if (!(ignore & kLayouts)) {
    if (a.has_layout_ != b.has_layout_ || !(a.layout_ == b.layout_)) return false;
  }
  if (a.tuple_.size() != b.tuple_.size()) return false;
  for (size_t i = 0; i < a.tuple_.size(); ++i) {
    if (!Same(a.tuple_[i], b.tuple_[i], ignore)) return false;
  }
  return true;
}

void Shape::AppendTo(std::string& out, bool with_layout) const {
  if (IsTuple()) {
    out.push_back('(');
    for (size_t i = 0; i < tuple_.size(); ++i) {
      if (i > 0) out.append(", ");
      if (i > 0 && i % 5 == 0) StrAppend(out, "/*index=", i, "*/");
      tuple_[i].AppendTo(out, with_layout);
    }
    out.push_back(')');
    return;
  }
  if (IsBuffer()) {
    out.append("b(");
    tuple_[0].AppendTo(out, with_layout);
    out.push_back(')');
    return;
  }
  out.append(Name(dtype_));
  out.push_back('[');
  for (int64_t i = 0; i < rank(); ++i) {
    if (i > 0) out.push_back(',');
    if (is_unbounded(i)) {
      out.push_back('?');
      continue;
    }
    if (is_dynamic(i)) out.append("<=");
    StrAppend(out, dims_[i]);
  }
  out.push_back(']');
  if (with_layout && has_layout_ && (rank() > 0 || layout_.extras)) layout_.AppendTo(out);
}

std::string Shape::ToString() const {
  std::string out;
  AppendTo(out);
  return out;
}

std::string Shape::ToStringWithoutLayout() const {
  std::string out;
  AppendTo(out, false);
  return out;
}

size_t Shape::Hash() const {
  uint64_t h = static_cast<uint64_t>(dtype_) * 0x9e3779b97f4a7c15ull;
  for (int64_t d : dims_) h = MixHash(h, static_cast<uint64_t>(d));
  h = MixHash(h, dynamic_);
  for (const Shape& s : tuple_) h = MixHash(h, s.Hash());
  return h;
}

std::string ShapeIndexToString(std::span<const int64_t> index) {
  return StrCat("{", StrJoin(index, ","), "}");
}

Layout Layout::RowMajor(int64_t rank) {
  Layout l;
  for (int64_t i = rank - 1; i >= 0; --i) l.minor_to_major.push_back(i);
  return l;
}

bool Layout::IsRowMajor() const {
  int64_t n = static_cast<int64_t>(minor_to_major.size());
  for (int64_t i = 0; i < n; ++i) {
    if (minor_to_major[i] != n - 1 - i) return false;
  }
  return true;
}

bool LayoutExtras::operator==(const LayoutExtras& o) const {
  bool same_physical = physical_shape == o.physical_shape ||
                       (physical_shape && o.physical_shape && *physical_shape == *o.physical_shape);
  return same_physical && dim_levels == o.dim_levels && tiles == o.tiles &&
         tail_padding_alignment == o.tail_padding_alignment && index_type == o.index_type &&
         pointer_type == o.pointer_type && element_bits == o.element_bits &&
         memory_space == o.memory_space && splits == o.splits &&
         dynamic_metadata_prefix_bytes == o.dynamic_metadata_prefix_bytes;
}

void Layout::AppendTo(std::string& out) const {
  out.push_back('{');
  AppendJoined(out, minor_to_major, ",");
  if (extras) {
    const LayoutExtras& x = *extras;
    std::string tail;
    if (!x.dim_levels.empty()) {
      tail.append("D(");
      for (size_t i = 0; i < x.dim_levels.size(); ++i) {
        if (i > 0) tail.push_back(',');
        tail.push_back("DCSH"[static_cast<int>(x.dim_levels[i].type)]);
        if (!x.dim_levels[i].unique) tail.push_back('+');
        if (!x.dim_levels[i].ordered) tail.push_back('~');
      }
      tail.push_back(')');
    }
    if (!x.tiles.empty()) tail.push_back('T');
    for (const Tile& tile : x.tiles) {
      tail.push_back('(');
      for (size_t i = 0; i < tile.dims.size(); ++i) {
        if (i > 0) tail.push_back(',');
        if (tile.dims[i] == Tile::kCombine) {
          tail.push_back('*');
        } else {
          StrAppend(tail, tile.dims[i]);
        }
      }
      tail.push_back(')');
    }
    if (x.tail_padding_alignment != 1) StrAppend(tail, "L(", x.tail_padding_alignment, ")");
    if (x.index_type != DType::kInvalid) StrAppend(tail, "#(", Name(x.index_type), ")");
    if (x.pointer_type != DType::kInvalid) StrAppend(tail, "*(", Name(x.pointer_type), ")");
    if (x.element_bits != 0) StrAppend(tail, "E(", x.element_bits, ")");
    if (x.memory_space != 0) StrAppend(tail, "S(", x.memory_space, ")");
    for (const SplitConfig& split : x.splits) {
      StrAppend(tail, "SC(", split.dimension, ":", StrJoin(split.indices, ","), ")");
    }
    if (x.physical_shape) StrAppend(tail, "P(", x.physical_shape->ToString(), ")");
    if (x.dynamic_metadata_prefix_bytes != 0)
      StrAppend(tail, "M(", x.dynamic_metadata_prefix_bytes, ")");
    if (!tail.empty()) StrAppend(out, ":", tail);
  }
  out.push_back('}');
}

std::string Layout::ToString() const {
  std::string out;
  AppendTo(out);
  return out;
}

}  // namespace weft
