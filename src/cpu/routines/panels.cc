// Where the elements of packed panels come from, and conversions on the way.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/elements.h"
#include "cpu/routines/convert_runs.h"
#include "cpu/routines/multiply.h"
#include "cpu/routines/tiles.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::cpu {
namespace {

// Of a panel.
constexpr int64_t kMostWidth =
    program::CodeBounds::kCopies * program::TargetFacts::kLineBytes / sizeof(float);

template <class T>
void PackAcrossAny(const T* from, int64_t stride, int64_t count, int64_t kn, int64_t width,
                   T* out) {
  if (count == width && width <= kMostWidth) {
    const T* rows[kMostWidth];
    for (int64_t i = 0; i < width; ++i) rows[i] = from + i * stride;
    return PackAcross<T>(rows, kn, width, out);
  }
  for (int64_t p = 0; p < kn; ++p) {
    for (int64_t i = 0; i < count; ++i) out[p * width + i] = from[i * stride + p];
    for (int64_t i = count; i < width; ++i) out[p * width + i] = T(0);
  }
}

}  // namespace

template <class T>
void LoadRun(DType from, const std::byte* src, int64_t n, T* dst) {
  if (n <= 0) return;
  if (IsStoredAs<T>(from)) {
    std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(T));
    return;
  }
  if constexpr (std::is_same_v<T, float>) {
    if (from == DType::kBF16) return WidenBf16(src, n, dst);
    if (from == DType::kF16) return WidenF16(src, n, dst);
    if (from == DType::kS8) return WidenS8(src, n, dst);
    if (from == DType::kU8) return WidenU8(src, n, dst);
    LoadF32(from, src, n, dst);
  } else if constexpr (std::is_same_v<T, double>) {
    LoadF64(from, src, n, dst);
  } else {
    if constexpr (std::is_same_v<T, uint32_t>) {
      if (from == DType::kS8) return WidenS8(src, n, dst);
      if (from == DType::kU8) return WidenU8(src, n, dst);
    }
    int64_t wide[64];
    for (int64_t i = 0; i < n; i += 64) {
      int64_t part = std::min<int64_t>(64, n - i);
      LoadI64(from, src + i * ByteWidth(from), part, wide);
      for (int64_t j = 0; j < part; ++j) dst[i + j] = static_cast<T>(wide[j]);
    }
  }
}

template <class T>
void StoreRun(DType to, const T* src, int64_t n, std::byte* dst) {
  if (n <= 0) return;
  if (IsStoredAs<T>(to)) {
    std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(T));
    return;
  }
  if constexpr (std::is_same_v<T, float>) {
    if (to == DType::kBF16) return RoundToBf16(src, n, dst);
    StoreF32(to, src, n, dst);
  } else if constexpr (std::is_same_v<T, double>) {
    StoreF64(to, src, n, dst);
  } else {
    int64_t wide[64];
    for (int64_t i = 0; i < n; i += 64) {
      int64_t part = std::min<int64_t>(64, n - i);
      for (int64_t j = 0; j < part; ++j) wide[j] = static_cast<int64_t>(src[i + j]);
      StoreI64(to, wide, part, dst + i * ByteWidth(to));
    }
  }
}

template <class T>
void StridedPanels<T>::Pack(int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width,
                            T* out) const {
  int64_t bytes = ByteWidth(dtype_);
  const std::byte* from = data_ + (first * vector_stride_ + k0 * k_stride_) * bytes;
  bool as_is = IsStoredAs<T>(dtype_);
  if (k_stride_ == 1 && as_is) {
    return PackAcrossAny(reinterpret_cast<const T*>(from), vector_stride_, count, kn, width, out);
  }
  if (vector_stride_ == 1) {
    for (int64_t p = 0; p < kn; ++p) {
      LoadRun<T>(dtype_, from + p * k_stride_ * bytes, count, out + p * width);
      for (int64_t i = count; i < width; ++i) out[p * width + i] = T(0);
    }
    return;
  }
  // Runs of each vector are converted, then turned.
  constexpr int64_t kRun = program::TargetFacts::kLineBytes;
  alignas(64) T runs[kMostWidth * kRun];
  const T* rows[kMostWidth];
  CHECK(width <= kMostWidth);
  for (int64_t i = 0; i < width; ++i) rows[i] = runs + i * kRun;
  std::fill(runs + count * kRun, runs + width * kRun, T(0));
  for (int64_t p = 0; p < kn; p += kRun) {
    int64_t n = std::min(kRun, kn - p);
    for (int64_t i = 0; i < count; ++i) {
      const std::byte* run = from + (i * vector_stride_ + p * k_stride_) * bytes;
      if (k_stride_ == 1) {
        LoadRun<T>(dtype_, run, n, runs + i * kRun);
        continue;
      }
      for (int64_t q = 0; q < n; ++q) {
        LoadRun<T>(dtype_, run + q * k_stride_ * bytes, 1, runs + i * kRun + q);
      }
    }
    PackAcross<T>(rows, n, width, out + p * width);
  }
}

// Rows that lie far apart are asked for in time, since no prefetcher of the processor sees them.
template <class T>
void StridedPanels<T>::PackMany(int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width,
                                int64_t panel, T* out) const {
  constexpr int64_t kRowsAhead = program::TargetFacts::kLinesAhead,
                    kLine = program::TargetFacts::kLineBytes;
  if (vector_stride_ != 1 || k_stride_ == 1) {
    return PanelSource<T>::PackMany(first, count, k0, kn, width, panel, out);
  }
  int64_t bytes = ByteWidth(dtype_), whole = count / width * width;
  bool as_is = IsStoredAs<T>(dtype_);
  const std::byte* from = data_ + (first + k0 * k_stride_) * bytes;
  for (int64_t p = 0; p < kn; ++p, from += k_stride_ * bytes) {
    const std::byte* ahead = from + kRowsAhead * k_stride_ * bytes;
    for (int64_t at = 0; p + kRowsAhead < kn && at < count * bytes; at += kLine) {
      __builtin_prefetch(ahead + at);
    }
    T* to = out + p * width;
    int64_t at = 0;
    for (; as_is && at < whole; at += width, to += panel) CopyRow(from + at * bytes, width, to);
    for (; at < count; at += width, to += panel) {
      int64_t n = std::min(width, count - at);
      LoadRun<T>(dtype_, from + at * bytes, n, to);
      std::fill(to + n, to + width, T(0));
    }
  }
}

template <class T>
void ComplexPanels<T>::Pack(int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width,
                            T* out) const {
  if (!square_ && k_stride_ == 1) {  // parts of a row are in turn in memory too
    return PackAcrossAny(data_ + 2 * first * vector_stride_ + k0, 2 * vector_stride_, count, kn,
                         width, out);
  }
  if (square_ && (first | count | k0 | kn) % 2 == 0) {
    return PackSquares(first / 2, count / 2, k0 / 2, kn / 2, width, out);
  }
  for (int64_t p = 0; p < kn; ++p) {
    int64_t k = (k0 + p) / 2, k_part = (k0 + p) % 2;
    for (int64_t i = 0; i < count; ++i) {
      T& to = out[p * width + i];
      if (!square_) {
        to = data_[2 * ((first + i) * vector_stride_ + k * k_stride_) + k_part];
        continue;
      }
      int64_t part = (first + i) % 2;
      const T* x = data_ + 2 * ((first + i) / 2 * vector_stride_ + k * k_stride_);
      to = k_part == 0 ? x[part] : part == 0 ? -x[1] : x[0];
    }
    for (int64_t i = count; i < width; ++i) out[p * width + i] = T(0);
  }
}

// The same of whole squares: columns and elements are counted as complex ones.
template <class T>
void ComplexPanels<T>::PackSquares(int64_t first, int64_t count, int64_t k0, int64_t kn,
                                   int64_t width, T* out) const {
  // Of vectors that do not lie beside each other: whole lines.
  constexpr int64_t kAtOnce = program::TargetFacts::kLineBytes / sizeof(double);
  auto square = [&](const T* x, T* to) {
    T real = x[0], imaginary = x[1];
    to[0] = real;
    to[1] = imaginary;
    to[width] = -imaginary;
    to[width + 1] = real;
  };
  const T* from = data_ + 2 * (first * vector_stride_ + k0 * k_stride_);
  if (vector_stride_ == 1) {
    for (int64_t p = 0; p < kn; ++p) {
      const T* row = from + 2 * p * k_stride_;
      T *to = out + 2 * p * width, *turned = to + width;
      std::copy_n(row, 2 * count, to);
      for (int64_t i = 0; i < count; ++i) {
        turned[2 * i] = -row[2 * i + 1];
        turned[2 * i + 1] = row[2 * i];
      }
    }
  } else {
    for (int64_t p0 = 0; p0 < kn; p0 += kAtOnce) {
      for (int64_t i = 0; i < count; ++i) {
        for (int64_t p = p0; p < std::min(kn, p0 + kAtOnce); ++p) {
          square(from + 2 * (i * vector_stride_ + p * k_stride_), out + 2 * p * width + 2 * i);
        }
      }
    }
  }
  for (int64_t p = 0; p < 2 * kn && 2 * count < width; ++p) {
    std::fill(out + p * width + 2 * count, out + (p + 1) * width, T(0));
  }
}

#define WEFT_INSTANTIATE(T)                                        \
  template void LoadRun<T>(DType, const std::byte*, int64_t, T*);  \
  template void StoreRun<T>(DType, const T*, int64_t, std::byte*); \
  template class StridedPanels<T>;
WEFT_INSTANTIATE(float)
WEFT_INSTANTIATE(double)
WEFT_INSTANTIATE(uint32_t)
WEFT_INSTANTIATE(uint64_t)
#undef WEFT_INSTANTIATE
template class ComplexPanels<float>;
template class ComplexPanels<double>;

}  // namespace weft::cpu
