#include "hlo/evaluate/sorting.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

#include "base/elements.h"
#include "base/thread_pool.h"
#include "hlo/evaluate.h"
#include "hlo/evaluate/reduction.h"

namespace weft::hlo {
namespace {

constexpr uint64_t kSignBit = uint64_t{1} << 63;
constexpr int64_t kInsertionRun = 8;  // runs that merging starts from

// Merge sort of indices by a comparator that need not be an order at all: it ends in any case.
// `less` is Result<bool>(int64_t, int64_t).
template <class Less>
Status MergeSort(std::span<int64_t> items, const Less& less) {
  int64_t n = static_cast<int64_t>(items.size());
  for (int64_t begin = 0; begin < n; begin += kInsertionRun) {
    int64_t end = std::min(n, begin + kInsertionRun);
    for (int64_t i = begin + 1; i < end; ++i) {
      int64_t item = items[i], at = i;
      while (at > begin && TRY(less(item, items[at - 1]))) {
        items[at] = items[at - 1];
        --at;
      }
      items[at] = item;
    }
  }
  std::vector<int64_t> merged(items.size());
  for (int64_t run = kInsertionRun; run < n; run *= 2) {
    for (int64_t begin = 0; begin < n; begin += 2 * run) {
      int64_t left = begin, middle = std::min(n, begin + run), right = middle;
      int64_t end = std::min(n, begin + 2 * run), to = begin;
      while (left < middle && right < end) {
        bool take_right = TRY(less(items[right], items[left]));
        merged[to++] = take_right ? items[right++] : items[left++];
      }
      while (left < middle) merged[to++] = items[left++];
      while (right < end) merged[to++] = items[right++];
    }
    std::copy(merged.begin(), merged.end(), items.begin());
  }
  return {};
}

// A dimension of dense row-major arrays: rows of `size` elements, `inner` apart.
struct RowDim {
  int64_t outer = 1, size, inner = 1;

  RowDim(const Shape& shape, int64_t dim) : size(shape.dim(dim)) {
    for (int64_t d = 0; d < dim; ++d) outer *= shape.dim(d);
    for (int64_t d = dim + 1; d < shape.rank(); ++d) inner *= shape.dim(d);
  }
  int64_t rows() const { return outer * inner; }
  int64_t First(int64_t row) const { return row / inner * size * inner + row % inner; }
};

template <class Bits>
void PermuteAs(const std::byte* src, std::byte* dst, int64_t first, int64_t inner,
               std::span<const int64_t> permutation) {
  const Bits* from = reinterpret_cast<const Bits*>(src) + first;
  Bits* to = reinterpret_cast<Bits*>(dst) + first;
  for (size_t i = 0; i < permutation.size(); ++i) {
    to[static_cast<int64_t>(i) * inner] = from[permutation[i] * inner];
  }
}

void PermuteRow(int64_t width, const std::byte* src, std::byte* dst, int64_t first, int64_t inner,
                std::span<const int64_t> permutation) {
  switch (width) {
    case 1: return PermuteAs<uint8_t>(src, dst, first, inner, permutation);
    case 2: return PermuteAs<uint16_t>(src, dst, first, inner, permutation);
    case 4: return PermuteAs<uint32_t>(src, dst, first, inner, permutation);
    case 8: return PermuteAs<uint64_t>(src, dst, first, inner, permutation);
    default: return PermuteAs<std::pair<uint64_t, uint64_t>>(src, dst, first, inner, permutation);
  }
}

// The order of a comparator as numbers for all elements of an array, where it is a comparison of
// one key per element.
std::optional<std::vector<uint64_t>> ComparatorKeys(const ScalarFunction& comparator,
                                                    std::span<const Literal> arrays) {
  std::optional<ScalarFunction::KeyCompare> split = comparator.AsKeyCompare();
  if (!split || split->left_parameter / 2 != split->right_parameter / 2) return std::nullopt;
  bool descending = split->compare.direction == Direction::kGt;
  if (!descending && split->compare.direction != Direction::kLt) return std::nullopt;
  if (split->left_parameter > split->right_parameter) descending = !descending;
  const Literal& array = arrays[static_cast<size_t>(split->left_parameter / 2)];
  size_t n = static_cast<size_t>(array.size()),
         width = static_cast<size_t>(ByteWidth(split->dtype));
  // Both sides of the comparison for each element; they must be the same function of it.
  std::vector<std::byte> left(n * width), right(n * width);
  std::vector<ScalarFunction::In> in;
  for (int64_t p = 0; p < comparator.parameter_count(); ++p) {
    const Literal& a = arrays[static_cast<size_t>(p / 2)];
    in.push_back({a.dtype(), a.data()});
  }
  ScalarFunction::Out out[] = {{split->dtype, left.data()}, {split->dtype, right.data()}};
  comparator.Keys().Run(in, out, array.size());
  if (left != right) return std::nullopt;
  std::vector<uint64_t> keys(n);
  bool total = !IsFloat(split->dtype) || split->compare.total_order();
  if (!OrderKeys(split->dtype, left.data(), array.size(), !total, keys.data())) return std::nullopt;
  if (descending) {
    for (uint64_t& key : keys) key = ~key;
  }
  return keys;
}

// Compares elements of rows through the comparator.
class RowComparator {
 public:
  RowComparator(EvalContext& context, const Computation& comparator,
                std::span<const Literal> arrays, int64_t inner)
      : function_(context, comparator), arrays_(arrays), inner_(inner) {
    for (const Literal& a : arrays) {
      in_.push_back({a.dtype(), a.data()});
      in_.push_back({a.dtype(), a.data()});
    }
  }
  Result<bool> Less(int64_t first, int64_t a, int64_t b) {
    for (size_t k = 0; k < arrays_.size(); ++k) {
      int64_t width = ByteWidth(arrays_[k].dtype());
      in_[2 * k].data = arrays_[k].data() + (first + a * inner_) * width;
      in_[2 * k + 1].data = arrays_[k].data() + (first + b * inner_) * width;
    }
    std::byte result{0};
    ScalarFunction::Out out[] = {{DType::kPred, &result}};
    TRY(function_.Call(in_, out));
    return result != std::byte{0};
  }

 private:
  ElementFunction function_;
  std::span<const Literal> arrays_;
  int64_t inner_;
  std::vector<ScalarFunction::In> in_;
};

}  // namespace

bool OrderKeys(DType dtype, const std::byte* elements, int64_t n, bool zeros_equal,
               uint64_t* keys) {
  if (IsComplex(dtype)) return false;
  if (!IsFloat(dtype)) {
    static_assert(sizeof(int64_t) == sizeof(uint64_t));
    LoadI64(dtype, elements, n, reinterpret_cast<int64_t*>(keys));
    for (int64_t i = 0; i < n && dtype != DType::kU64; ++i) keys[i] ^= kSignBit;
    return true;
  }
  std::vector<double> values(static_cast<size_t>(n));
  LoadF64(dtype, elements, n, values.data());
  for (int64_t i = 0; i < n; ++i) {
    double x = values[static_cast<size_t>(i)];
    if (zeros_equal) {
      if (std::isnan(x)) return false;
      if (x == 0) x = 0;
    }
    uint64_t bits = std::bit_cast<uint64_t>(x);
    keys[i] = bits & kSignBit ? ~bits : bits | kSignBit;
  }
  return true;
}

void SortByKeys(std::span<const uint64_t> keys, std::span<int64_t> permutation) {
  std::vector<std::pair<uint64_t, int64_t>> items(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) items[i] = {keys[i], static_cast<int64_t>(i)};
  std::sort(items.begin(), items.end());
  for (size_t i = 0; i < keys.size(); ++i) permutation[i] = items[i].second;
}

Status SortRows(EvalContext& context, const Computation& comparator, std::span<Literal> arrays,
                int64_t dim, int64_t length) {
  if (arrays[0].size() == 0 || length < 2) return {};
  RowDim rows(arrays[0].shape(), dim);
  std::vector<Literal> from(arrays.begin(),
                            arrays.end());  // shares the bytes until they are written
  std::vector<std::byte*> to;
  for (Literal& a : arrays) to.push_back(a.mutable_data());
  auto permute = [&](int64_t first, std::span<const int64_t> permutation) {
    for (size_t k = 0; k < from.size(); ++k) {
      PermuteRow(ByteWidth(from[k].dtype()), from[k].data(), to[k], first, rows.inner, permutation);
    }
  };
  Result<ScalarFunction> compiled = ScalarFunction::Compile(comparator);
  std::optional<std::vector<uint64_t>> keys;
  if (compiled) keys = ComparatorKeys(*compiled, from);
  if (keys) {
    DefaultPool().ParallelFor(rows.rows(), 1, [&](int64_t begin, int64_t end) {
      std::vector<uint64_t> row_keys(static_cast<size_t>(length));
      std::vector<int64_t> permutation(static_cast<size_t>(length));
      for (int64_t row = begin; row < end; ++row) {
        int64_t first = rows.First(row);
        for (int64_t i = 0; i < length; ++i) row_keys[i] = (*keys)[first + i * rows.inner];
        SortByKeys(row_keys, permutation);
        permute(first, permutation);
      }
    });
    return {};
  }
  RowComparator compare(context, comparator, from, rows.inner);
  std::vector<int64_t> permutation(static_cast<size_t>(length));
  for (int64_t row = 0; row < rows.rows(); ++row) {
    int64_t first = rows.First(row);
    std::iota(permutation.begin(), permutation.end(), int64_t{0});
    TRY(MergeSort(permutation, [&](int64_t a, int64_t b) { return compare.Less(first, a, b); }));
    permute(first, permutation);
  }
  return {};
}

}  // namespace weft::hlo
