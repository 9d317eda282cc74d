#include "hlo/evaluate/strided.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/thread_pool.h"

namespace weft::hlo {
namespace {

constexpr int64_t kParallelCopyBytes = 1 << 18;  // smaller copies stay on one thread
constexpr int64_t kCopyTile = 16;                // transpositions go by squares of this side

struct Bytes16 {
  uint64_t a, b;
};

template <class Fn>
void WithElementType(int64_t width, Fn&& fn) {
  switch (width) {
    case 1: return fn(uint8_t());
    case 2: return fn(uint16_t());
    case 4: return fn(uint32_t());
    case 8: return fn(uint64_t());
    case 16: return fn(Bytes16());
    default: CHECK(false) << "element width " << width;
  }
}

template <class T>
void CopyLine(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t n) {
  if (to_stride == 1 && from_stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
  } else if (to_stride == 1 && from_stride == 0) {
    std::fill_n(to, n, *from);
  } else if (to_stride == 1) {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * from_stride];
  } else {
    for (int64_t i = 0; i < n; ++i) to[i * to_stride] = from[i * from_stride];
  }
}

}  // namespace

Dims RowMajorStrides(const Dims& sizes) {
  Dims strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  return strides;
}

StridedCopy::StridedCopy(const Dims& sizes, const Dims& from_strides, const Dims& to_strides,
                         int64_t width)
    : width_(width) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    elements_ *= sizes[i];
    if (sizes[i] == 1) continue;
    Dim d{sizes[i], from_strides[i], to_strides[i]};
    if (!outer_.empty()) {
      Dim& last = outer_.back();
      if (last.from == d.from * d.size && last.to == d.to * d.size) {
        last = {last.size * d.size, d.from, d.to};
        continue;
      }
    }
    outer_.push_back(d);
  }
  if (outer_.empty()) return;
  inner_ = outer_.back();
  outer_.pop_back();
  if (inner_.from != 1 && inner_.from != 0) {
    for (size_t i = 0; i < outer_.size(); ++i) {
      if (outer_[i].from != 1) continue;
      tile_ = outer_[i];
      outer_.erase_at(i);
      break;
    }
  }
  for (const Dim& d : outer_) rows_ *= d.size;
}

void StridedCopy::RunRows(const std::byte* from, std::byte* to, int64_t begin, int64_t end) const {
  InlineVec<int64_t, 6> index(outer_.size(), 0);
  int64_t from_at = 0, to_at = 0, rest = begin;
  for (size_t d = outer_.size(); d-- > 0;) {
    index[d] = rest % outer_[d].size;
    rest /= outer_[d].size;
    from_at += index[d] * outer_[d].from;
    to_at += index[d] * outer_[d].to;
  }
  auto next = [&] {
    for (size_t d = outer_.size(); d-- > 0;) {
      from_at += outer_[d].from;
      to_at += outer_[d].to;
      if (++index[d] < outer_[d].size) return;
      index[d] = 0;
      from_at -= outer_[d].from * outer_[d].size;
      to_at -= outer_[d].to * outer_[d].size;
    }
  };
  WithElementType(width_, [&]<class T>(T) {
    for (int64_t row = begin; row < end; ++row, next()) {
      const T* f = reinterpret_cast<const T*>(from) + from_at;
      T* t = reinterpret_cast<T*>(to) + to_at;
      if (tile_.size == 1) {
        CopyLine(f, inner_.from, t, inner_.to, inner_.size);
        continue;
      }
      for (int64_t i = 0; i < tile_.size; i += kCopyTile) {
        int64_t i_end = std::min(i + kCopyTile, tile_.size);
        for (int64_t j = 0; j < inner_.size; j += kCopyTile) {
          int64_t n = std::min(kCopyTile, inner_.size - j);
          for (int64_t k = i; k < i_end; ++k) {
            CopyLine(f + k * tile_.from + j * inner_.from, inner_.from,
                     t + k * tile_.to + j * inner_.to, inner_.to, n);
          }
        }
      }
    }
  });
}

void StridedCopy::Run(const std::byte* from, std::byte* to) const {
  if (elements_ > 0) RunRows(from, to, 0, rows_);
}

void StridedCopy::RunParallel(const std::byte* from, std::byte* to) const {
  if (elements_ == 0) return;
  if (elements_ * width_ < 2 * kParallelCopyBytes || rows_ == 1) {
    if (tile_.size == 1 || elements_ * width_ < 2 * kParallelCopyBytes) {
      return RunRows(from, to, 0, rows_);
    }
    // One large matrix: bands of the tiled dimension.
    int64_t grain = std::max<int64_t>(kCopyTile, kParallelCopyBytes / (inner_.size * width_));
    return DefaultPool().ParallelFor(tile_.size, grain, [&](int64_t begin, int64_t end) {
      StridedCopy band = *this;
      band.tile_.size = end - begin;
      band.RunRows(from + begin * tile_.from * width_, to + begin * tile_.to * width_, 0, 1);
    });
  }
  int64_t row_bytes = inner_.size * tile_.size * width_;
  int64_t grain = std::max<int64_t>(1, kParallelCopyBytes / row_bytes);
  DefaultPool().ParallelFor(rows_, grain,
                            [&](int64_t begin, int64_t end) { RunRows(from, to, begin, end); });
}

void CopyStrided(const Dims& sizes, const std::byte* from, const Dims& from_strides, std::byte* to,
                 const Dims& to_strides, int64_t width) {
  StridedCopy(sizes, from_strides, to_strides, width).RunParallel(from, to);
}

void FillElements(std::byte* to, int64_t n, const std::byte* element, int64_t width) {
  CopyStrided({n}, element, {0}, to, {1}, width);
}

}  // namespace weft::hlo
