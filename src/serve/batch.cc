#include "serve/batch.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace weft::serve {
namespace {

// Bytes of one step in each dimension of a row-major array.
std::vector<int64_t> StepsOf(const Shape& shape) {
  std::vector<int64_t> steps(static_cast<size_t>(shape.rank()), ByteWidth(shape.dtype()));
  for (size_t d = steps.size(); d-- > 1;) {
    steps[d - 1] = steps[d] * shape.dim(static_cast<int64_t>(d));
  }
  return steps;
}

// Copies a block of `extent` elements between two row-major arrays, in runs as long as both have.
void CopyBlock(const std::byte* from, const Shape& from_shape, std::byte* to, const Shape& to_shape,
               const Shape& extent) {
  const std::vector<int64_t> from_steps = StepsOf(from_shape), to_steps = StepsOf(to_shape);
  int64_t inner = extent.rank();  // dimensions from here on are one run
  int64_t run = ByteWidth(extent.dtype());
  while (inner > 0) {
    run *= extent.dim(--inner);
    if (extent.dim(inner) != from_shape.dim(inner) || extent.dim(inner) != to_shape.dim(inner))
      break;
  }
  if (extent.elements() == 0) return;
  std::vector<int64_t> index(static_cast<size_t>(inner), 0);
  for (;;) {
    std::memcpy(to, from, static_cast<size_t>(run));
    int64_t d = inner - 1;
    for (; d >= 0; --d) {
      size_t i = static_cast<size_t>(d);
      from += from_steps[i], to += to_steps[i];
      if (++index[i] < extent.dim(d)) break;
      from -= from_steps[i] * extent.dim(d), to -= to_steps[i] * extent.dim(d);
      index[i] = 0;
    }
    if (d < 0) return;
  }
}

int64_t RowBytes(const Shape& shape) {
  return shape.rank() == 0 ? 0 : StepsOf(shape)[0];
}

}  // namespace

void PasteAt(const Literal& from, Literal& to, int64_t row) {
  std::byte* place = to.mutable_data() + row * RowBytes(to.shape());
  CopyBlock(from.data(), from.shape(), place, to.shape(), from.shape());
}

Result<Literal> CutAt(const Literal& from, const Shape& shape, int64_t row) {
  if (row == 0 && Shape::SameDims(from.shape(), shape)) return from;
  bool whole_rows = shape.rank() > 0;
  for (int64_t d = 1; d < shape.rank(); ++d) whole_rows &= shape.dim(d) == from.shape().dim(d);
  std::byte* place = const_cast<std::byte*>(from.data()) + row * RowBytes(from.shape());
  if (whole_rows) {
    return Literal::FromStorage(shape, std::shared_ptr<std::byte[]>(from.storage(), place));
  }
  Literal cut = TRY(Literal::AllocateUnset(shape));
  CopyBlock(place, from.shape(), cut.mutable_data(), shape, shape);
  return cut;
}

Result<Literal> JoinRows(std::span<const Literal> parts) {
  CHECK(!parts.empty() && parts[0].shape().rank() > 0);
  Shape shape = parts[0].shape();
  int64_t rows = 0;
  for (const Literal& part : parts) rows += part.shape().dim(0);
  shape.set_dim(0, rows);
  std::vector<const Literal*> list;
  for (const Literal& part : parts) list.push_back(&part);
  return Assemble(list, shape);
}

Result<Literal> Assemble(std::span<const Literal* const> parts, const Shape& shape) {
  if (parts.size() == 1 && Shape::SameDims(parts[0]->shape(), shape)) return *parts[0];
  int64_t elements = 0;
  for (const Literal* part : parts) elements += part->size();
  // Zeros only where some are left.
  bool full = elements == shape.elements();
  Literal all = full ? TRY(Literal::AllocateUnset(shape)) : TRY(Literal::Allocate(shape));
  int64_t row = 0;
  for (const Literal* part : parts) {
    PasteAt(*part, all, row);
    if (shape.rank() > 0) row += part->shape().dim(0);
  }
  return all;
}

}  // namespace weft::serve
