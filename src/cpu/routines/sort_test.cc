#include "cpu/routines/routine_testing.h"

namespace weft::cpu {
namespace {

// Many equal elements, and everything that floats have.
Literal SortableLiteral(Random& random, DType dtype, std::vector<int64_t> dims) {
  Literal out = RandomLiteral(random, dtype, std::move(dims));
  if (!IsFloat(dtype)) return out;
  for (int64_t i = 0; i < out.size(); ++i) {
    switch (random() % 8) {
      case 0: out.SetDouble(i, 0.0); break;
      case 1: out.SetDouble(i, -0.0); break;
      case 2: out.SetDouble(i, std::numeric_limits<double>::infinity()); break;
      case 3: out.SetNan(i, random() % 2 == 0, std::nullopt); break;
      case 4: out.SetDouble(i, -0.5); break;
      default: break;
    }
  }
  return out;
}

void CheckSort(Random& random, std::vector<DType> dtypes, int64_t outer, int64_t n, int64_t inner,
               int64_t keys = 1) {
  CallUnderTest call;
  call.routine = "sort";
  bool descending = random() % 2 == 0;
  call.attrs = {{"outer", outer},
                {"n", n},
                {"inner", inner},
                {"keys", keys},
                {"order", std::string(descending ? "desc" : "asc")},
                {"zeros_equal", random() % 2 == 0},
                {"nans_equal", random() % 2 == 0}};
  for (DType dtype : dtypes) {
    call.inputs.push_back(SortableLiteral(random, dtype, {outer, n, inner}));
    call.outputs.push_back(call.inputs.back().shape());
  }
  Check(call, 0,
        StrCat("sort ", Name(dtypes[0]), " with ", dtypes.size() - 1, " more: ", outer, " x ", n,
               " x ", inner));
}

TEST(Sort, AllTypesAlone) {
  Random random(1);
  for (DType dtype : {DType::kPred, DType::kS4, DType::kS8, DType::kU8, DType::kS16, DType::kU16,
                      DType::kS32, DType::kU32, DType::kS64, DType::kU64, DType::kF8E4M3FN,
                      DType::kF8E5M2FNUZ, DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    for (int64_t n : {0, 1, 2, 7, 64, 193, 1000, 5001}) {
      CheckSort(random, {dtype}, 1, n, 1);
      CheckSort(random, {dtype}, 2, n, 3);
    }
  }
}

TEST(Sort, TuplesOfOperands) {
  Random random(2);
  for (int64_t n : {1, 31, 500, 3000}) {
    CheckSort(random, {DType::kF32, DType::kS32}, 3, n, 1);
    CheckSort(random, {DType::kF32, DType::kS64}, 1, n, 2);
    CheckSort(random, {DType::kF64, DType::kS32}, 1, n, 1);
    CheckSort(random, {DType::kBF16, DType::kU8}, 2, n, 2);
    CheckSort(random, {DType::kS32, DType::kC128, DType::kF32}, 2, n, 1);
    CheckSort(random, {DType::kF8E4M3FN, DType::kS32}, 2, n, 1);
    CheckSort(random, {DType::kU8, DType::kF32, DType::kS32}, 2, n, 1, 2);
    CheckSort(random, {DType::kF16, DType::kU64, DType::kF8E5M2, DType::kS32}, 1, n, 2, 3);
  }
}

TEST(Sort, OneLongRowOnAllThreads) {
  Random random(3);
  CheckSort(random, {DType::kF32}, 1, 200'003, 1);
  CheckSort(random, {DType::kF64}, 1, 150'001, 1);
  CheckSort(random, {DType::kF32, DType::kS32}, 1, 131'072, 1);
  CheckSort(random, {DType::kS64, DType::kS32}, 1, 70'001, 1);
}

TEST(Sort, ByComparator) {
  // a1 < b1 decides, then a0 > b0.
  program::KernelBuilder b("less");
  auto a0 = b.Param("a0", DType::kF32, 1, program::Access::kRead);
  auto b0 = b.Param("b0", DType::kF32, 1, program::Access::kRead);
  auto a1 = b.Param("a1", DType::kS32, 1, program::Access::kRead);
  auto b1 = b.Param("b1", DType::kS32, 1, program::Access::kRead);
  auto out = b.Param("out", DType::kPred, 1, program::Access::kWrite);
  auto zero = b.Int(0);
  auto less = b.Emit(program::Op::kLt, {b.Load(a1, zero), b.Load(b1, zero)});
  auto equal = b.Emit(program::Op::kEq, {b.Load(a1, zero), b.Load(b1, zero)});
  auto greater = b.Emit(program::Op::kGt, {b.Load(a0, zero), b.Load(b0, zero)});
  b.Store(out, zero, b.Emit(program::Op::kOr, {less, b.Emit(program::Op::kAnd, {equal, greater})}));
  program::Kernel kernel = std::move(b).Build();
  Random random(4);
  for (int64_t n : {1, 9, 100, 2500}) {
    CallUnderTest call;
    call.routine = "sort";
    call.attrs = {{"outer", int64_t{2}},
                  {"n", n},
                  {"inner", int64_t{2}},
                  {"comparator", std::string("less")}};
    call.inputs = {RandomLiteral(random, DType::kF32, {2, n, 2}),
                   RandomLiteral(random, DType::kS32, {2, n, 2})};
    call.outputs = {call.inputs[0].shape(), call.inputs[1].shape()};
    call.kernels = {kernel};
    call.function = [](std::byte* const* p) {
      auto f = [&](int i) { return *reinterpret_cast<const float*>(p[i]); };
      auto s = [&](int i) { return *reinterpret_cast<const int32_t*>(p[i]); };
      *p[4] = std::byte{s(2) < s(3) || (s(2) == s(3) && f(0) > f(1))};
    };
    Check(call, 0, StrCat("comparator, ", n));
  }
}

}  // namespace
}  // namespace weft::cpu
