// sort, slowly.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/elements.h"
#include "program/interpret.h"
#include "program/library_routines.h"

namespace weft::program {
namespace {

struct SortSizes {
  int64_t outer, n, inner, keys, bits;
  bool descending, zeros_equal, nans_equal;
};

SortSizes SortSizesOf(const LibraryStep& call) {
  return {IntAttr(call, "outer", 1),
          IntAttr(call, "n", -1),
          IntAttr(call, "inner", 1),
          IntAttr(call, "keys", 1),
          IntAttr(call, "bits", 0),
          StringAttr(call, "order", "asc") == "desc",
          BoolAttr(call, "zeros_equal", false),
          BoolAttr(call, "nans_equal", false)};
}

Status CheckComparator(const Program& program, const Step& step, std::string_view name) {
  const Kernel* kernel = FindKernel(program, name);
  if (kernel == nullptr) return InvalidArgument("sort: there is no kernel '", name, "'");
  size_t operands = step.uses.size() / 2;
  auto error = [&] {
    return InvalidArgument("sort: kernel '", name,
                           "' does not take (read a0, b0, a1, b1, ..., write pred) of one element "
                           "of each operand");
  };
  if (static_cast<size_t>(kernel->num_params) != 2 * operands + 1) return error();
  for (size_t i = 0; i < 2 * operands; ++i) {
    const Memory& memory = kernel->memories[i];
    DType dtype = DTypeOf(program, step.uses[i / 2]);
    if (memory.access != Access::kRead || memory.dtype != RealType(dtype) ||
        memory.count != (IsComplex(dtype) ? 2 : 1)) {
      return error();
    }
  }
  const Memory& out = kernel->memories[2 * operands];
  if (out.access != Access::kWrite || out.dtype != DType::kPred || out.count != 1) return error();
  return {};
}

Status VerifySort(const Program& program, const Step& step) {
  const auto& call = std::get<LibraryStep>(step.op);
  size_t operands = step.uses.size() / 2;
  if (operands == 0 || step.uses.size() % 2 != 0) {
    return InvalidArgument("sort: takes (read x0, x1, ..., write y0, y1, ...)");
  }
  SortSizes s = SortSizesOf(call);
  int64_t elements = Product({s.outer, s.n, s.inner});
  if (elements < 0) return InvalidArgument("sort: needs n");
  for (size_t i = 0; i < operands; ++i) {
    const Use &in = step.uses[i], &out = step.uses[operands + i];
    if (in.access != Access::kRead || out.access != Access::kWrite ||
        DTypeOf(program, in) != DTypeOf(program, out)) {
      return InvalidArgument("sort: takes (read x0, x1, ..., write y0, y1, ...)");
    }
    TRY(CheckElements(program, in, elements, "sort", "an operand"));
    TRY(CheckElements(program, out, elements, "sort", "a result"));
  }
  std::string_view comparator = StringAttr(call, "comparator", "");
  if (s.bits < 0 || s.bits > 64 || (s.bits > 0 && !comparator.empty())) {
    return InvalidArgument("sort: bits = ", s.bits);
  }
  if (!comparator.empty()) return CheckComparator(program, step, comparator);
  std::string_view order = StringAttr(call, "order", "asc");
  if (order != "asc" && order != "desc") return InvalidArgument("sort: unknown order ", order);
  if (s.keys < 1 || s.keys > static_cast<int64_t>(operands)) {
    return InvalidArgument("sort: ", s.keys, " keys of ", operands, " operands");
  }
  for (int64_t i = 0; i < s.keys; ++i) {
    DType dtype = DTypeOf(program, step.uses[static_cast<size_t>(i)]);
    if (IsComplex(dtype)) return InvalidArgument("sort: ", weft::Name(dtype), " has no order");
    if (s.bits > 0 && !IsInteger(dtype)) {
      return InvalidArgument("sort: bits of ", weft::Name(dtype));
    }
  }
  return {};
}

// A number whose order is that of the element.
uint64_t OrderKey(const SortSizes& s, DType dtype, const std::byte* element) {
  constexpr uint64_t kSign = uint64_t{1} << 63;
  uint64_t bits;
  if (IsFloat(dtype)) {
    double x;
    LoadF64(dtype, element, 1, &x);
    if (s.zeros_equal && x == 0) x = 0;
    if (s.nans_equal && std::isnan(x)) x = std::bit_cast<double>(~kSign);
    bits = std::bit_cast<uint64_t>(x);
    bits = bits & kSign ? ~bits : bits | kSign;
  } else {
    int64_t value;
    LoadI64(dtype, element, 1, &value);
    bits = static_cast<uint64_t>(value) ^ (dtype == DType::kU64 ? 0 : kSign);
  }
  return s.descending ? ~bits : bits;
}

// Merge sort by any `less`, Result<bool>(int64_t, int64_t).
template <class Less>
Status SortByMerging(std::vector<int64_t>& items, const Less& less) {
  int64_t n = static_cast<int64_t>(items.size());
  std::vector<int64_t> merged(items.size());
  for (int64_t run = 1; run < n; run *= 2) {
    for (int64_t begin = 0; begin < n; begin += 2 * run) {
      int64_t left = begin, middle = std::min(n, begin + run), right = middle;
      int64_t end = std::min(n, begin + 2 * run), to = begin;
      while (left < middle || right < end) {
        bool take_right = left == middle;
        if (!take_right && right < end) take_right = TRY(less(items[right], items[left]));
        merged[to++] = take_right ? items[right++] : items[left++];
      }
    }
    items = merged;
  }
  return {};
}

// What the step says of its keys holds for one row.
Status CheckBits(const Program& program, const Step& step, const SortSizes& s, int64_t first,
                 std::span<const std::span<std::byte>> memory) {
  if (s.bits == 0) return {};
  for (size_t k = 0; k < static_cast<size_t>(s.keys); ++k) {
    const DType dtype = DTypeOf(program, step.uses[k]);
    for (int64_t i = 0; i < s.n; ++i) {
      const int64_t at = (first + i * s.inner) * ByteWidth(dtype);
      int64_t value;
      LoadI64(dtype, memory[k].data() + at, 1, &value);
      const bool fits = s.bits == 64 || static_cast<uint64_t>(value) >> s.bits == 0;
      if (!fits) return InvalidArgument("sort: a key is ", value, ", not below 2^", s.bits);
    }
  }
  return {};
}

Status InterpretSort(const Program& program, const Step& step, int64_t,
                     std::span<const std::span<std::byte>> memory) {
  const auto& call = std::get<LibraryStep>(step.op);
  SortSizes s = SortSizesOf(call);
  size_t operands = step.uses.size() / 2;
  std::string_view comparator = StringAttr(call, "comparator", "");
  const Kernel* kernel = comparator.empty() ? nullptr : FindKernel(program, comparator);
  auto at = [&](size_t use, int64_t element) {
    return memory[use].subspan(static_cast<size_t>(element) *
                               static_cast<size_t>(ByteWidth(DTypeOf(program, step.uses[use]))));
  };
  detail::Budget budget = {INT64_MAX, INT64_MAX};
  for (int64_t row = 0; s.n > 0 && row < s.outer * s.inner; ++row) {
    int64_t first = row / s.inner * s.n * s.inner + row % s.inner;
    auto less = [&](int64_t a, int64_t b) -> Result<bool> {
      a = first + a * s.inner;
      b = first + b * s.inner;
      if (kernel == nullptr) {
        for (size_t i = 0; i < static_cast<size_t>(s.keys); ++i) {
          DType dtype = DTypeOf(program, step.uses[i]);
          uint64_t x = OrderKey(s, dtype, at(i, a).data()), y = OrderKey(s, dtype, at(i, b).data());
          if (x != y) return x < y;
        }
        return false;
      }
      std::vector<std::span<std::byte>> params;
      for (size_t i = 0; i < operands; ++i) {
        size_t width = static_cast<size_t>(ByteWidth(DTypeOf(program, step.uses[i])));
        params.push_back(at(i, a).first(width));
        params.push_back(at(i, b).first(width));
      }
      std::byte result{0};
      params.push_back({&result, 1});
      TRY(detail::RunKernel(*kernel, params, budget, false));
      return result != std::byte{0};
    };
    TRY(CheckBits(program, step, s, first, memory));
    std::vector<int64_t> items(static_cast<size_t>(s.n));
    std::iota(items.begin(), items.end(), int64_t{0});
    TRY(SortByMerging(items, less));
    for (size_t i = 0; i < operands; ++i) {
      int64_t width = ByteWidth(DTypeOf(program, step.uses[i]));
      for (int64_t j = 0; j < s.n; ++j) {
        std::copy_n(at(i, first + items[static_cast<size_t>(j)] * s.inner).data(), width,
                    at(operands + i, first + j * s.inner).data());
      }
    }
  }
  return {};
}

int64_t SortCost(const Program& program, const Step& step) {
  const auto& call = std::get<LibraryStep>(step.op);
  SortSizes s = SortSizesOf(call);
  const Kernel* kernel = FindKernel(program, StringAttr(call, "comparator", ""));
  int64_t each = kernel == nullptr ? 4 : static_cast<int64_t>(kernel->code.size()) + 4;
  return SaturatingCost({s.outer, s.inner, s.n,
                         static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(s.n))), each});
}

}  // namespace

Routine SortRoutine() {
  return {"sort", VerifySort, SortCost, InterpretSort};
}

}  // namespace weft::program
