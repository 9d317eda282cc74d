// argmax and argmin in the form that JAX writes them in.
#include <algorithm>

#include "base/thread_pool.h"
#include "hlo/evaluate/reduction.h"

namespace weft::hlo {
namespace {

// The reducer of argmax and argmin: of (value, index) pairs the one with the larger (smaller)
// value, a NaN before all, and the smaller index of equal values.
enum class Extreme : uint8_t { kNone, kMax, kMin };

bool IsCompareOf(const Instruction* i, Direction direction, int64_t left, int64_t right) {
  auto is_parameter = [&](int64_t k, int64_t number) {
    return i->operand(k)->IsParameter() && i->operand(k)->parameter_number() == number;
  };
  return i->op() == Op::kCompare && i->attrs<CompareAttrs>().direction == direction &&
         !i->attrs<CompareAttrs>().total_order() && is_parameter(0, left) && is_parameter(1, right);
}

bool IsSelectOf(const Instruction* i, const Instruction* pred, int64_t left, int64_t right) {
  return i->op() == Op::kSelect && i->operand(0) == pred && i->operand(1)->IsParameter() &&
         i->operand(1)->parameter_number() == left && i->operand(2)->IsParameter() &&
         i->operand(2)->parameter_number() == right;
}

Extreme ExtremeOf(const Computation& f) {
  const Instruction* root = f.root();
  if (f.parameters().size() != 4 || root->op() != Op::kTuple || root->operand_count() != 2) {
    return Extreme::kNone;
  }
  const Instruction *value = root->operand(0), *index = root->operand(1);
  if (value->op() != Op::kSelect || index->op() != Op::kSelect) return Extreme::kNone;
  const Instruction *better = value->operand(0), *pick = index->operand(0);
  if (!IsSelectOf(value, better, 0, 2) || !IsSelectOf(index, pick, 1, 3) ||
      better->op() != Op::kOr || pick->op() != Op::kOr || pick->operand(0) != better) {
    return Extreme::kNone;
  }
  const Instruction* tie = pick->operand(1);
  if (!IsCompareOf(better->operand(1), Direction::kNe, 0, 0) || tie->op() != Op::kAnd ||
      !IsCompareOf(tie->operand(0), Direction::kEq, 0, 2) ||
      !IsCompareOf(tie->operand(1), Direction::kLt, 1, 3)) {
    return Extreme::kNone;
  }
  if (IsCompareOf(better->operand(0), Direction::kGt, 0, 2)) return Extreme::kMax;
  if (IsCompareOf(better->operand(0), Direction::kLt, 0, 2)) return Extreme::kMin;
  return Extreme::kNone;
}

template <class T, bool max>
void FindExtremes(std::span<const Literal> arrays, std::span<const StridedDim> kept,
                  std::span<const StridedDim> reduced, std::span<Literal> out) {
  const T* values = reinterpret_cast<const T*>(arrays[0].data());
  const int32_t* indices = reinterpret_cast<const int32_t*>(arrays[1].data());
  T* best = reinterpret_cast<T*>(out[0].mutable_data());
  int32_t* best_at = reinterpret_cast<int32_t*>(out[1].mutable_data());
  int64_t steps = WalkSize(reduced);
  StridedDim row = reduced.empty() ? StridedDim{1, 1} : reduced.back();
  std::span<const StridedDim> outer = reduced.empty() ? reduced : reduced.first(reduced.size() - 1);
  int64_t grain = std::max<int64_t>(1, (1 << 14) / steps);
  DefaultPool().ParallelFor(out[0].size(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      T acc = best[o];
      int32_t acc_at = best_at[o];
      int64_t base = PlaceOf(kept, o);
      Walk walk(outer);
      for (int64_t r = 0; r < steps; r += row.size, walk.Next()) {
        int64_t place = base + walk.place();
        for (int64_t i = 0; i < row.size; ++i, place += row.stride) {
          T x = values[place];
          // Most values are neither: one test.
          if (max ? acc > x : acc < x) continue;
          bool acc_better = acc != acc;
          bool keep = acc_better || (acc == x && acc_at < indices[place]);
          if (!keep) acc_at = indices[place];
          if (!acc_better) acc = x;
        }
      }
      best[o] = acc;
      best_at[o] = acc_at;
    }
  });
}

}  // namespace

bool TryFindExtremes(const Computation& function, std::span<const Literal> arrays,
                     std::span<const StridedDim> kept, std::span<const StridedDim> reduced,
                     std::span<Literal> out) {
  if (arrays.size() != 2 || arrays[1].dtype() != DType::kS32 || out[1].dtype() != DType::kS32 ||
      out[0].dtype() != arrays[0].dtype()) {
    return false;
  }
  for (size_t p = 0; p < function.parameters().size(); ++p) {
    if (function.parameter(static_cast<int64_t>(p))->shape().dtype() != arrays[p % 2].dtype()) {
      return false;
    }
  }
  Extreme extreme = ExtremeOf(function);
  if (extreme == Extreme::kNone) return false;
  auto run = [&]<class T>(T) {
    extreme == Extreme::kMax ? FindExtremes<T, true>(arrays, kept, reduced, out)
                             : FindExtremes<T, false>(arrays, kept, reduced, out);
    return true;
  };
  switch (arrays[0].dtype()) {
    case DType::kF32: return run(float());
    case DType::kF64: return run(double());
    case DType::kS32: return run(int32_t());
    case DType::kU8: return run(uint8_t());
    default: return false;
  }
}

}  // namespace weft::hlo
