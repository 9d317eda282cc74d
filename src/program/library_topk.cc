// topk, slowly.
#include <algorithm>
#include <bit>
#include <numeric>

#include "base/elements.h"
#include "program/library_routines.h"

namespace weft::program {
namespace {

struct TopKSizes {
  int64_t rows, n, k;
  bool largest;
};

TopKSizes TopKSizesOf(const LibraryStep& call) {
  return {IntAttr(call, "rows", 1), IntAttr(call, "n", -1), IntAttr(call, "k", -1),
          BoolAttr(call, "largest", true)};
}

Status VerifyTopK(const Program& program, const Step& step) {
  TRY(CheckAccess(step, {Access::kRead, Access::kWrite, Access::kWrite}, "topk",
                  "(read x, write values, write s32 indices)"));
  TopKSizes s = TopKSizesOf(std::get<LibraryStep>(step.op));
  if (s.rows < 0 || s.n < 0 || s.k < 0 || s.k > s.n) {
    return InvalidArgument("topk: ", s.k, " of ", s.n, " in ", s.rows, " rows");
  }
  DType dtype = DTypeOf(program, step.uses[0]);
  if (IsComplex(dtype) || DTypeOf(program, step.uses[1]) != dtype ||
      DTypeOf(program, step.uses[2]) != DType::kS32) {
    return InvalidArgument("topk: does not take these types");
  }
  TRY(CheckElements(program, step.uses[0], Product({s.rows, s.n}), "topk", "x"));
  TRY(CheckElements(program, step.uses[1], Product({s.rows, s.k}), "topk", "values"));
  return CheckElements(program, step.uses[2], Product({s.rows, s.k}), "topk", "indices");
}

int64_t TotalOrderKey(DType dtype, const std::byte* element) {
  constexpr uint64_t kSign = uint64_t{1} << 63;
  if (IsFloat(dtype)) {
    double x;
    LoadF64(dtype, element, 1, &x);
    int64_t bits = std::bit_cast<int64_t>(x);
    return bits < 0 ? static_cast<int64_t>(~(static_cast<uint64_t>(bits) ^ kSign)) : bits;
  }
  int64_t value;
  LoadI64(dtype, element, 1, &value);
  if (dtype != DType::kU64) return value;
  return static_cast<int64_t>(static_cast<uint64_t>(value) ^ kSign);
}

Status InterpretTopK(const Program& program, const Step& step, int64_t,
                     std::span<const std::span<std::byte>> memory) {
  TopKSizes s = TopKSizesOf(std::get<LibraryStep>(step.op));
  DType dtype = DTypeOf(program, step.uses[0]);
  int64_t width = ByteWidth(dtype);
  for (int64_t row = 0; s.n > 0 && row < s.rows; ++row) {
    const std::byte* x = memory[0].data() + row * s.n * width;
    std::vector<int64_t> keys(static_cast<size_t>(s.n)), order(keys.size());
    for (int64_t i = 0; i < s.n; ++i) keys[i] = TotalOrderKey(dtype, x + i * width);
    std::iota(order.begin(), order.end(), int64_t{0});
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      if (keys[a] == keys[b]) return a < b;
      return s.largest ? keys[a] > keys[b] : keys[a] < keys[b];
    });
    for (int64_t i = 0; i < s.k; ++i) {
      std::copy_n(x + order[i] * width, width, memory[1].data() + (row * s.k + i) * width);
      StoreI64(DType::kS32, &order[i], 1, memory[2].data() + (row * s.k + i) * 4);
    }
  }
  return {};
}

int64_t TopKCost(const Program&, const Step& step) {
  TopKSizes s = TopKSizesOf(std::get<LibraryStep>(step.op));
  return SaturatingCost(
      {s.rows, s.n, static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(s.n))) + 1});
}

}  // namespace

Routine TopKRoutine() {
  return {"topk", VerifyTopK, TopKCost, InterpretTopK};
}

}  // namespace weft::program
