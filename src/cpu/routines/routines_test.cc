// topk, rng_bit_generator and the factorizations.
#include "cpu/routines/routine_testing.h"

namespace weft::cpu {
namespace {

TEST(TopK, AllTypes) {
  Random random(1);
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF64, DType::kS32, DType::kU8, DType::kU64,
                      DType::kF8E4M3FN}) {
    for (auto [rows, n, k] : {std::array<int64_t, 3>{1, 1, 1},
                              {3, 100, 5},
                              {2, 1000, 1},
                              {2, 1000, 1000},
                              {40, 3000, 17},
                              {2, 50, 0},
                              {0, 5, 2}}) {
      for (bool largest : {true, false}) {
        CallUnderTest call;
        call.routine = "topk";
        call.attrs = {{"rows", rows}, {"n", n}, {"k", k}, {"largest", largest}};
        call.inputs = {RandomLiteral(random, dtype, {rows, n})};
        if (IsFloat(dtype) && rows * n > 2) {
          call.inputs[0].SetNan(1, true, std::nullopt);
          call.inputs[0].SetDouble(0, -0.0);
          call.inputs[0].SetNan(2, false, std::nullopt);
        }
        call.outputs = {Shape(dtype, {rows, k}), Shape(DType::kS32, {rows, k})};
        Check(call, 0, StrCat("topk ", Name(dtype), " ", k, " of ", n));
      }
    }
  }
}

TEST(RngBitGenerator, AllTypesAndShapes) {
  Random random(2);
  std::vector<int64_t> shapes[] = {{}, {1}, {7}, {128}, {1000}, {3, 5}, {3, 4, 5}, {2, 0}, {50001}};
  for (DType dtype : {DType::kU32, DType::kU64, DType::kU16, DType::kU8, DType::kS4, DType::kF32,
                      DType::kPred, DType::kF64}) {
    for (const std::vector<int64_t>& dims : shapes) {
      for (std::string algorithm : {"three_fry", "philox", "default"}) {
        for (int64_t words : {2, 3}) {
          CallUnderTest call;
          call.routine = "rng_bit_generator";
          call.attrs = {{"dims", dims}, {"algorithm", algorithm}};
          Literal state(Shape(DType::kU64, {words}));
          for (int64_t i = 0; i < words; ++i) state.SetInt(i, static_cast<int64_t>(random()));
          if (random() % 2 == 0) state.SetInt(1, -5);  // the counter runs over
          call.inputs = {state};
          call.outputs = {state.shape(), Shape(dtype, dims)};
          Check(call, 0, StrCat("rng_bit_generator ", algorithm, " ", Name(dtype)));
        }
      }
    }
  }
}

TEST(Householder, FactorsAndProducts) {
  Random random(3);
  for (DType dtype : {DType::kF32, DType::kF64, DType::kC64, DType::kC128, DType::kBF16}) {
    double tolerance = dtype == DType::kBF16 ? 1e-2 : RealType(dtype) == DType::kF32 ? 1e-6 : 1e-12;
    for (auto [batch, m, n] : {std::array<int64_t, 3>{1, 1, 1},
                               {2, 5, 3},
                               {3, 4, 7},
                               {1, 40, 40},
                               {20, 30, 20},
                               {1, 0, 3}}) {
      CallUnderTest qr;
      int64_t k = std::min(m, n);
      qr.routine = "householder_qr";
      qr.attrs = {{"m", m}, {"n", n}, {"batch", batch}};
      qr.inputs = {RandomLiteral(random, dtype, {batch, m, n})};
      qr.outputs = {Shape(dtype, {batch, m, n}), Shape(dtype, {batch, k})};
      std::string what = StrCat(Name(dtype), " ", batch, " of ", m, " x ", n);
      Check(qr, tolerance, "qr " + what);
      CallUnderTest product;
      product.routine = "householder_product";
      product.attrs = {{"m", m}, {"n", n}, {"k", k}, {"batch", batch}};
      product.inputs = *RunRoutine(qr, 1);
      product.outputs = {qr.outputs[0]};
      Check(product, tolerance, "product " + what);
    }
  }
}

TEST(Cholesky, BothTriangles) {
  Random random(4);
  for (DType dtype : {DType::kF32, DType::kF64, DType::kC64, DType::kC128}) {
    for (int64_t n : {0, 1, 5, 33, 130}) {
      for (bool lower : {true, false}) {
        int64_t batch = 3;
        Literal a = RandomLiteral(random, dtype, {batch, n, n});
        for (int64_t i = 0; i < batch * n; ++i) {  // a strong diagonal, but for the last matrix
          double strong = i / n == batch - 1 ? -1 : static_cast<double>(4 * n);
          a.SetComplex(i * n + i % n, strong);
        }
        CallUnderTest call;
        call.routine = "cholesky";
        call.attrs = {{"n", n}, {"batch", batch}, {"lower", lower}};
        call.inputs = {a};
        call.outputs = {a.shape()};
        auto got = RunRoutine(call, 2);
        ASSERT_TRUE(got) << got.error().ToString();
        if (n > 0) EXPECT_TRUE(std::isnan((*got)[0].GetDouble((batch - 1) * n * n)));
        call.attrs[1].value = batch - 1;
        call.inputs = {Literal(Shape(dtype, {batch - 1, n, n}))};
        if (n > 0) {
          std::copy_n(a.data(), call.inputs[0].byte_size(), call.inputs[0].mutable_data());
        }
        call.outputs = {call.inputs[0].shape()};
        Check(call, RealType(dtype) == DType::kF32 ? (n < 100 ? 1e-6 : 1e-5) : 1e-13,
              StrCat("cholesky ", Name(dtype), " ", n));
      }
    }
  }
}

TEST(TriangularSolve, AllForms) {
  Random random(5);
  for (DType dtype : {DType::kF32, DType::kF64, DType::kC64, DType::kC128}) {
    for (int form = 0; form < 32; ++form) {
      for (auto [batch, m, n] : {std::array<int64_t, 3>{2, 3, 5},
                                 {1, 20, 4},
                                 {1, 1, 7},
                                 {2, 0, 4},
                                 {1, 40, 3},
                                 {2, 1, 30},
                                 {1, 100, 110}}) {
        bool left = form & 1;
        int64_t order = left ? m : n;
        // Large ones grow from row to row, and with them what was rounded away.
        if (order >= 100 && (dtype != DType::kF64 || form >= 8)) continue;
        Literal a = RandomLiteral(random, dtype, {batch, order, order});
        for (int64_t i = 0; i < a.size(); ++i) a.SetComplex(i, a.GetComplex(i) * 0.3);
        for (int64_t i = 0; i < batch * order; ++i) {
          a.SetComplex(i * order + i % order, {2.0, IsComplex(dtype) ? 1.0 : 0.0});
        }
        CallUnderTest call;
        call.routine = "triangular_solve";
        call.attrs = {{"m", m},
                      {"n", n},
                      {"batch", batch},
                      {"left_side", left},
                      {"lower", (form & 2) != 0},
                      {"transpose", (form & 4) != 0},
                      {"conjugate", (form & 8) != 0},
                      {"unit_diagonal", (form & 16) != 0}};
        call.inputs = {a, RandomLiteral(random, dtype, {batch, m, n})};
        call.outputs = {call.inputs[1].shape()};
        Check(call, RealType(dtype) == DType::kF32 ? 1e-6 : (order < 100 ? 1e-13 : 1e-9),
              StrCat("triangular_solve ", Name(dtype), " form ", form));
      }
    }
  }
}

TEST(Lu, SquareAndOblong) {
  Random random(6);
  for (DType dtype : {DType::kBF16, DType::kF32, DType::kF64, DType::kC64, DType::kC128}) {
    for (auto [batch, m, n] : {std::array<int64_t, 3>{3, 4, 4},
                               {2, 3, 7},
                               {1, 12, 5},
                               {2, 0, 3},
                               {1, 130, 110},
                               {2, 100, 120}}) {
      bool narrow = RealType(dtype) != DType::kF64;
      if (narrow && m >= 100) continue;  // rounding may choose other pivots
      CallUnderTest call;
      call.routine = "lu";
      call.attrs = {{"m", m}, {"n", n}, {"batch", batch}};
      call.inputs = {RandomLiteral(random, dtype, {batch, m, n})};
      call.outputs = {call.inputs[0].shape(), Shape(DType::kS32, {batch, std::min(m, n)}),
                      Shape(DType::kS32, {batch})};
      Check(call,
            dtype == DType::kBF16 ? 1e-2
            : narrow              ? 1e-4
                                  : 1e-10,
            StrCat("lu ", Name(dtype), " ", m, " x ", n));
    }
  }
}

}  // namespace
}  // namespace weft::cpu
