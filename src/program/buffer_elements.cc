#include "program/buffer_elements.h"

#include <cstring>
#include <vector>

#include "base/packing.h"

namespace weft::program {
namespace {

// Bytes of `literal` (row-major) to or from the order of the shape's layout.
void CopyInLayout(const Shape& shape, const std::byte* from, std::byte* to, bool to_layout) {
  int64_t width = ByteWidth(shape.dtype()), n = shape.elements();
  const Layout* layout = shape.layout();
  if (!layout || layout->IsRowMajor()) {
    std::memcpy(to, from, static_cast<size_t>(n * width));
    return;
  }
  std::vector<int64_t> stride(static_cast<size_t>(shape.rank()), 0), index = stride;
  int64_t next = 1;
  for (int64_t d : layout->minor_to_major) {
    stride[d] = next;
    next *= shape.dim(d);
  }
  for (int64_t i = 0; i < n; ++i) {
    int64_t physical = 0;
    for (int64_t d = 0; d < shape.rank(); ++d) physical += index[d] * stride[d];
    int64_t source = to_layout ? i : physical, target = to_layout ? physical : i;
    std::memcpy(to + target * width, from + source * width, static_cast<size_t>(width));
    for (int64_t d = shape.rank() - 1; d >= 0 && ++index[d] == shape.dim(d); --d) index[d] = 0;
  }
}

}  // namespace

void ToBuffer(const Buffer& buffer, const std::byte* elements, std::byte* to) {
  if (!buffer.packed) return CopyInLayout(buffer.shape, elements, to, true);
  PackElements(buffer.shape.dtype(), elements, buffer.shape.elements(), to);
}
void FromBuffer(const Buffer& buffer, const std::byte* from, std::byte* elements) {
  if (!buffer.packed) return CopyInLayout(buffer.shape, from, elements, false);
  UnpackElements(buffer.shape.dtype(), from, buffer.shape.elements(), elements);
}

}  // namespace weft::program
