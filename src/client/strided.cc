#include "client/strided.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <vector>

namespace weft::client {
namespace {

struct CopyDim {
  int64_t size, to, from;  // strides in bytes
};

// Tiles of a transposing copy: both sides of one tile stay in the first-level cache.
constexpr int64_t kCopyTile = 32;

template <size_t kBytes>
void CopyRow(int64_t n, std::byte* to, int64_t to_stride, const std::byte* from,
             int64_t from_stride) {
  for (int64_t i = 0; i < n; ++i) {
    std::memcpy(to + i * to_stride, from + i * from_stride, kBytes);
  }
}

// kLanes rows of kLanes elements become columns. `from_step`: between rows, `to_step`: between
// columns.
template <class T, int kLanes>
[[gnu::always_inline]] inline void TurnSquare(std::byte* to, int64_t to_step, const std::byte* from,
                                              int64_t from_step) {
  typedef T Vector __attribute__((vector_size(kLanes * sizeof(T))));
  Vector x[kLanes];
  for (int i = 0; i < kLanes; ++i) std::memcpy(&x[i], from + i * from_step, sizeof(Vector));
  auto store = [&](int i, Vector v) { std::memcpy(to + i * to_step, &v, sizeof(Vector)); };
  if constexpr (kLanes == 2) {
    store(0, __builtin_shufflevector(x[0], x[1], 0, 2));
    store(1, __builtin_shufflevector(x[0], x[1], 1, 3));
  } else {
    Vector ab_low = __builtin_shufflevector(x[0], x[1], 0, 4, 1, 5);
    Vector ab_high = __builtin_shufflevector(x[0], x[1], 2, 6, 3, 7);
    Vector cd_low = __builtin_shufflevector(x[2], x[3], 0, 4, 1, 5);
    Vector cd_high = __builtin_shufflevector(x[2], x[3], 2, 6, 3, 7);
    store(0, __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5));
    store(1, __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7));
    store(2, __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5));
    store(3, __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7));
  }
}

// A plane that is dense along `a` in the source and along `b` in the result, by squares; the last
// ones overlap those before. False: it is not of that kind, or too small.
template <size_t kBytes>
bool TurnPlane(const CopyDim& a, const CopyDim& b, std::byte* to, const std::byte* from) {
  constexpr int64_t kWidth = kBytes;
  if constexpr (kBytes != 4 && kBytes != 8) {
    return false;
  } else {
    using T = std::conditional_t<kBytes == 4, uint32_t, uint64_t>;
    constexpr int64_t kLanes = 16 / kWidth;
    if (a.from != kWidth || b.to != kWidth || a.size < kLanes || b.size < kLanes) return false;
    for (int64_t tile = 0; tile < b.size; tile += kCopyTile) {
      int64_t end = std::min(tile + kCopyTile, b.size);
      for (int64_t i = 0; i < a.size; i += kLanes) {
        int64_t row = std::min(i, a.size - kLanes);
        for (int64_t j = tile; j < end; j += kLanes) {
          int64_t column = std::min(j, b.size - kLanes);
          TurnSquare<T, kLanes>(to + row * a.to + column * b.to, a.to,
                                from + row * a.from + column * b.from, b.from);
        }
      }
    }
    return true;
  }
}

template <size_t kBytes>
void CopyPlane(const CopyDim& a, const CopyDim& b, std::byte* to, const std::byte* from) {
  if (TurnPlane<kBytes>(a, b, to, from) || TurnPlane<kBytes>(b, a, to, from)) return;
  for (int64_t i = 0; i < a.size; i += kCopyTile) {
    for (int64_t j = 0; j < b.size; j += kCopyTile) {
      int64_t rows = std::min(kCopyTile, a.size - i), columns = std::min(kCopyTile, b.size - j);
      for (int64_t r = i; r < i + rows; ++r) {
        CopyRow<kBytes>(columns, to + r * a.to + j * b.to, b.to, from + r * a.from + j * b.from,
                        b.from);
      }
    }
  }
}

// The last one or two dimensions at once.
template <size_t kBytes>
void CopyInner(std::span<const CopyDim> dims, std::byte* to, const std::byte* from) {
  constexpr int64_t kWidth = kBytes;
  if (dims.empty()) {
    std::memcpy(to, from, kBytes);
  } else if (const CopyDim& last = dims.back(); dims.size() == 1) {
    if (last.to == kWidth && last.from == kWidth) {
      std::memcpy(to, from, static_cast<size_t>(last.size * kWidth));
    } else {
      CopyRow<kBytes>(last.size, to, last.to, from, last.from);
    }
  } else if (last.to == kWidth && last.from == kWidth) {
    const CopyDim& rows = dims[dims.size() - 2];
    for (int64_t i = 0; i < rows.size; ++i) {
      std::memcpy(to + i * rows.to, from + i * rows.from, static_cast<size_t>(last.size * kWidth));
    }
  } else {
    CopyPlane<kBytes>(dims[dims.size() - 2], last, to, from);
  }
}

// Of so many elements: their own loops would take longer than the copies.
constexpr int64_t kSmallPlane = 64;

// Many small planes: element by element of them, through some planes at a time.
template <size_t kBytes>
void CopySmallPlanes(std::span<const CopyDim> dims, std::byte* to, const std::byte* from) {
  const CopyDim &planes = dims[0], &a = dims[1], &b = dims[2];
  for (int64_t first = 0; first < planes.size; first += kCopyTile) {
    int64_t count = std::min(kCopyTile, planes.size - first);
    for (int64_t i = 0; i < a.size; ++i) {
      for (int64_t j = 0; j < b.size; ++j) {
        CopyRow<kBytes>(count, to + first * planes.to + i * a.to + j * b.to, planes.to,
                        from + first * planes.from + i * a.from + j * b.from, planes.from);
      }
    }
  }
}

template <size_t kBytes>
void CopyDims(std::span<const CopyDim> dims, std::byte* to, const std::byte* from) {
  if (dims.size() <= 2) return CopyInner<kBytes>(dims, to, from);
  if (dims.size() == 3 && dims[1].size * dims[2].size <= kSmallPlane) {
    return CopySmallPlanes<kBytes>(dims, to, from);
  }
  for (int64_t i = 0; i < dims[0].size; ++i) {
    CopyDims<kBytes>(dims.subspan(1), to + i * dims[0].to, from + i * dims[0].from);
  }
}

// Without dimensions of size 1, and neighbours joined where both sides allow it.
std::vector<CopyDim> Collapse(std::span<const int64_t> dims, std::span<const int64_t> to,
                              std::span<const int64_t> from) {
  std::vector<CopyDim> out;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    CopyDim dim{dims[d], to[d], from[d]};
    if (!out.empty() && out.back().to == dim.to * dim.size &&
        out.back().from == dim.from * dim.size) {
      dim.size *= out.back().size;
      out.back() = dim;
    } else {
      out.push_back(dim);
    }
  }
  // The dimension that lies densest in the source becomes the second last, for the tiles.
  if (out.size() > 2) {
    auto densest = std::min_element(out.begin(), out.end() - 1, [](const auto& a, const auto& b) {
      return std::abs(a.from) < std::abs(b.from);
    });
    if (std::abs(densest->from) < std::abs(out.back().from)) {
      std::rotate(densest, densest + 1, out.end() - 1);
    }
  }
  return out;
}

}  // namespace

Dims RowMajorStrides(std::span<const int64_t> dims, int64_t element_bytes) {
  Dims strides(dims.size(), element_bytes);
  for (size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
  return strides;
}

bool IsRowMajor(std::span<const int64_t> dims, std::span<const int64_t> byte_strides,
                int64_t element_bytes) {
  int64_t expected = element_bytes;
  bool same = true;
  for (size_t d = dims.size(); d-- > 0;) {
    if (dims[d] == 0) return true;
    if (dims[d] != 1 && byte_strides[d] != expected) same = false;
    expected *= dims[d];
  }
  return same;
}

void CopyStrided(std::span<const int64_t> dims, int64_t element_bytes, std::byte* to,
                 std::span<const int64_t> to_strides, const std::byte* from,
                 std::span<const int64_t> from_strides) {
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return;
  std::vector<CopyDim> collapsed = Collapse(dims, to_strides, from_strides);
  switch (element_bytes) {
    case 1: return CopyDims<1>(collapsed, to, from);
    case 2: return CopyDims<2>(collapsed, to, from);
    case 4: return CopyDims<4>(collapsed, to, from);
    case 8: return CopyDims<8>(collapsed, to, from);
    default: return CopyDims<16>(collapsed, to, from);
  }
}

Dims LayoutStrides(const Shape& shape) {
  Dims strides(static_cast<size_t>(shape.rank()), 0);
  int64_t stride = ByteWidth(shape.dtype());
  for (int64_t d : shape.LayoutOrDefault().minor_to_major) {
    strides[static_cast<size_t>(d)] = stride;
    stride *= std::max<int64_t>(shape.dim(d), 1);
  }
  return strides;
}

Result<Literal> AsLaidOut(const Shape& shape, const Literal& row_major) {
  if (shape.layout() == nullptr) return row_major;
  Literal laid_out = TRY(Literal::AllocateUnset(row_major.shape()));
  const int64_t width = ByteWidth(shape.dtype());
  CopyStrided(shape.dims(), width, laid_out.mutable_data(), LayoutStrides(shape), row_major.data(),
              RowMajorStrides(shape.dims(), width));
  return laid_out;
}

Result<Literal> FromLaidOut(const Shape& shape, const Literal& laid_out) {
  if (shape.layout() == nullptr) return laid_out;
  Literal row_major = TRY(Literal::AllocateUnset(laid_out.shape()));
  const int64_t width = ByteWidth(shape.dtype());
  CopyStrided(shape.dims(), width, row_major.mutable_data(), RowMajorStrides(shape.dims(), width),
              laid_out.data(), LayoutStrides(shape));
  return row_major;
}

}  // namespace weft::client
