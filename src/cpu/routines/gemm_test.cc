#include "cpu/routines/routine_testing.h"
#include "cpu/routines/tiles.h"

namespace weft::cpu {
namespace {

struct GemmCase {
  int64_t m, n, k, batch = 1;
  bool trans_a = false, trans_b = false;
  double alpha = 1;
};

CallUnderTest GemmCall(Random& random, const GemmCase& c, DType in, DType out) {
  CallUnderTest call;
  call.routine = "gemm";
  call.attrs = {{"m", c.m},
                {"n", c.n},
                {"k", c.k},
                {"batch", c.batch},
                {"trans_a", c.trans_a},
                {"trans_b", c.trans_b},
                {"alpha", c.alpha}};
  call.inputs = {RandomLiteral(random, in, {c.batch, c.m, c.k}),
                 RandomLiteral(random, in, {c.batch, c.k, c.n})};
  call.outputs = {Shape(out, {c.batch, c.m, c.n})};
  return call;
}

void CheckGemm(Random& random, const GemmCase& c, DType in, DType out, double tolerance) {
  Check(GemmCall(random, c, in, out), tolerance,
        StrCat("gemm ", Name(in), " -> ", Name(out), " ", c.batch, " of ", c.m, " x ", c.n, " x ",
               c.k, c.trans_a ? " trans_a" : "", c.trans_b ? " trans_b" : ""));
}

double ToleranceOf(DType out) {
  switch (out) {
    case DType::kF64:
    case DType::kC128: return 1e-13;
    case DType::kF32:
    case DType::kC64: return 2e-5;
    case DType::kF16: return 2e-3;
    case DType::kBF16: return 1e-2;
    default: return 0;
  }
}

TEST(Gemm, AllTypes) {
  Random random(1);
  std::pair<DType, DType> types[] = {
      {DType::kF32, DType::kF32},      {DType::kF64, DType::kF64}, {DType::kBF16, DType::kBF16},
      {DType::kBF16, DType::kF32},     {DType::kF16, DType::kF16}, {DType::kF16, DType::kF32},
      {DType::kS8, DType::kS32},       {DType::kU8, DType::kS32},  {DType::kS32, DType::kS32},
      {DType::kS64, DType::kS64},      {DType::kU32, DType::kU32}, {DType::kS16, DType::kS16},
      {DType::kS4, DType::kS8},        {DType::kC64, DType::kC64}, {DType::kC128, DType::kC128},
      {DType::kF8E4M3FN, DType::kF32}, {DType::kF32, DType::kF64}};
  for (auto [in, out] : types) {
    for (bool trans_a : {false, true}) {
      for (bool trans_b : {false, true}) {
        CheckGemm(random, {13, 29, 17, 2, trans_a, trans_b}, in, out, ToleranceOf(out));
        CheckGemm(random, {70, 50, 90, 1, trans_a, trans_b}, in, out, ToleranceOf(out));
      }
    }
  }
}

TEST(Gemm, AllShapes) {
  Random random(2);
  int64_t sizes[] = {0, 1, 2, 3, 5, 8, 12, 13, 31, 64};
  for (DType dtype : {DType::kF32, DType::kF64}) {
    for (int64_t m : sizes) {
      for (int64_t n : sizes) {
        for (int64_t k : {0, 1, 3, 16, 67}) {
          int form = static_cast<int>(random() % 4);
          CheckGemm(random, {m, n, k, 1, form % 2 == 1, form / 2 == 1}, dtype, dtype,
                    ToleranceOf(dtype));
        }
      }
    }
  }
}

// Small whole numbers, so that sums are exact in any order: at every depth around a run of sums,
// and b in panels or where it lies with more columns than are asked for.
template <class T>
void CheckTile(int64_t k, T alpha, T beta) {
  const TileKernel<T>& tile = *FindTileKernel<T>(INT64_MAX);
  int64_t rows = tile.rows, cols = tile.cols, apart = cols + 5;
  auto value = [](int64_t i) { return static_cast<T>(i * 7 % 11 - 5); };
  std::vector<T> a(static_cast<size_t>(rows * k)), packed(static_cast<size_t>(cols * k)),
      lies(static_cast<size_t>(apart * k)), want(static_cast<size_t>(rows * cols));
  for (size_t i = 0; i < a.size(); ++i) a[i] = value(static_cast<int64_t>(i));
  for (int64_t p = 0; p < k; ++p) {
    for (int64_t j = 0; j < cols; ++j) {
      T x = value(3 * p + j);
      packed[static_cast<size_t>(p * cols + j)] = lies[static_cast<size_t>(p * apart + j)] = x;
      for (int64_t i = 0; i < rows; ++i) {
        want[static_cast<size_t>(i * cols + j)] += a[static_cast<size_t>(p * rows + i)] * x;
      }
    }
  }
  for (T& x : want) x = alpha * x + beta * 3;
  std::vector<T> from_panels(want.size(), 3), from_rows(want.size(), 3);
  tile.packed(k, a.data(), packed.data(), from_panels.data(), cols, alpha, beta);
  tile.direct(rows, cols, k, a.data(), lies.data(), apart, from_rows.data(), cols, alpha, beta);
  EXPECT_EQ(from_panels, want) << "panels, " << k << " deep";
  EXPECT_EQ(from_rows, want) << "where b lies, " << k << " deep";
}

TEST(Gemm, TilesOfEveryDepth) {
  for (int64_t k : {0, 1, 2, 3, 8, 63, 64, 65, 66, 127, 128, 129, 200}) {
    for (int beta : {0, 1, 2}) {
      CheckTile<float>(k, 2, static_cast<float>(beta));
      CheckTile<double>(k, 2, beta);
    }
  }
}

TEST(Gemm, LargeEnoughForBlocksAndThreads) {
  Random random(3);
  for (DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kS32}) {
    for (bool trans : {false, true}) {
      CheckGemm(random, {131, 277, 700, 1, trans, !trans, 2.0}, dtype, dtype, ToleranceOf(dtype));
      CheckGemm(random, {1, 1000, 1100, 1, trans, trans}, dtype, dtype, ToleranceOf(dtype));
      CheckGemm(random, {1000, 1, 1100, 1, trans, trans}, dtype, dtype, ToleranceOf(dtype));
      CheckGemm(random, {5, 1000, 1100, 1, trans, trans}, dtype, dtype, ToleranceOf(dtype));
      CheckGemm(random, {33, 21, 40, 100, trans, trans}, dtype, dtype, ToleranceOf(dtype));
    }
    for (int64_t n : {250, 301, 1000}) {  // few rows: a matrix that is read where it lies
      CheckGemm(random, {11, n, 600, 1, false, false, 2.0}, dtype, dtype, ToleranceOf(dtype));
      CheckGemm(random, {16, n, 300, 1, true, false}, dtype, dtype, ToleranceOf(dtype));
    }
  }
}

// Work is cut by sizes alone: in rows and columns, in the depth of small results, by packing in
// tasks, along rows of shallow products.
TEST(Gemm, SameBitsForAnyNumberOfThreads) {
  Random random(5);
  std::pair<DType, DType> types[] = {{DType::kF32, DType::kF32},  {DType::kF64, DType::kF64},
                                     {DType::kBF16, DType::kF32}, {DType::kBF16, DType::kBF16},
                                     {DType::kS8, DType::kS32},   {DType::kC64, DType::kC64}};
  GemmCase cases[] = {{300, 310, 290}, {64, 40, 9000},  {24, 2000, 700}, {2000, 24, 700},
                      {600, 700, 16},  {1, 3000, 3000}, {3, 3000, 1500}};
  for (auto [in, out] : types) {
    for (GemmCase c : cases) {
      c.trans_b = random() % 2 == 1;
      CallUnderTest call = GemmCall(random, c, in, out);
      auto one = RunRoutine(call, 1);
      ASSERT_TRUE(one) << one.error().ToString();
      for (int threads : {2, 7, 16}) {
        auto more = RunRoutine(call, threads);
        ASSERT_TRUE(more) << more.error().ToString();
        ExpectNear((*more)[0], (*one)[0], 0,
                   StrCat(Name(in), " ", c.m, " x ", c.n, " x ", c.k, " on ", threads));
      }
    }
  }
}

// Contractions that are cut in parts: those of small results, and those of large ones.
TEST(Gemm, LongContractions) {
  Random random(6);
  for (auto [in, out] : {std::pair{DType::kF32, DType::kF32},
                         {DType::kF64, DType::kF64},
                         {DType::kBF16, DType::kF32},
                         {DType::kBF16, DType::kBF16},
                         {DType::kS8, DType::kS32},
                         {DType::kS32, DType::kS64}}) {
    CheckGemm(random, {20, 33, 17000, 1, true, false, 2.0}, in, out, ToleranceOf(out));
    CheckGemm(random, {70, 90, 2100, 1, false, true}, in, out, ToleranceOf(out));
    CheckGemm(random, {70, 200, 8300}, in, out, ToleranceOf(out));
  }
}

// Few rows by a matrix that no cache of a core holds: parts of columns and of the contraction.
TEST(Gemm, BoundByReading) {
  Random random(9);
  for (bool trans_b : {false, true}) {
    CheckGemm(random, {9, 800, 900, 1, false, trans_b, 2.0}, DType::kF32, DType::kF32,
              ToleranceOf(DType::kF32));
    CheckGemm(random, {3, 2000, 1100, 1, true, trans_b}, DType::kS8, DType::kS32, 0);
    CheckGemm(random, {3, 1000, 1100, 1, false, trans_b}, DType::kBF16, DType::kBF16,
              ToleranceOf(DType::kBF16));
  }
}

// Few blocks of columns: the contraction is cut for many threads, and its parts are added.
TEST(Gemm, StreamsOfFewColumnsAreCutAlongTheContraction) {
  Random random(19);
  std::pair<DType, DType> types[] = {{DType::kF32, DType::kF32}, {DType::kF64, DType::kF64},
                                     {DType::kF16, DType::kF16}, {DType::kF32, DType::kF64},
                                     {DType::kS32, DType::kS32}, {DType::kBF16, DType::kF32},
                                     {DType::kS16, DType::kS16}};
  for (auto [in, out] : types) {
    for (int64_t m : {1, 3}) {
      for (int64_t n : {1100, 500}) {
        CheckGemm(random, {m, n, 1301, 1, false, false, m == 3 ? 2.0 : 1.0}, in, out,
                  ToleranceOf(out));
      }
    }
  }
}

// Rows of bf16 or int8 where they lie: sums of any number of rows, columns and elements of the
// contraction beside what vectors and runs of sums hold.
// Rows are read where they lie; whole tiles, parts of them, one column beyond.
TEST(Gemm, ManyRowsByFewColumns) {
  Random random(21);
  for (DType dtype : {DType::kF32, DType::kF64, DType::kS32}) {
    for (int64_t n : {2, 5, 16, 17, 31, 48, 49}) {
      for (int64_t k : {8, 63, 129, 700}) {
        CheckGemm(random, {29, n, k, 2, false, k % 2 == 0, 0.5}, dtype, dtype, ToleranceOf(dtype));
        CheckGemm(random, {48, n, k, 1, false, n % 2 == 0}, dtype, dtype, ToleranceOf(dtype));
      }
    }
  }
}

// Rows of both are read where they lie, beyond their ends where tiles are wider.
TEST(Gemm, BothSidesAcrossTheContraction) {
  Random random(23);
  for (DType dtype : {DType::kF32, DType::kF64, DType::kS32}) {
    for (auto [m, n] : {std::array<int64_t, 2>{2, 2}, {3, 50}, {24, 24}, {33, 17}, {100, 10}}) {
      for (int64_t k : {100, 129, 1023, 3000}) {
        CheckGemm(random, {m, n, k, 1, true, false, 2.0}, dtype, dtype, ToleranceOf(dtype));
        CheckGemm(random, {m, n, k, 2, true, false, 0.5}, dtype, dtype, ToleranceOf(dtype));
      }
    }
  }
}

TEST(Gemm, StreamsOfNarrowElements) {
  Random random(20);
  for (auto [in, out] : {std::pair{DType::kBF16, DType::kF32},
                         {DType::kBF16, DType::kBF16},
                         {DType::kS8, DType::kS32}}) {
    for (auto [m, n, k] : {std::array<int64_t, 3>{1, 1000, 707},
                           {2, 1024, 600},
                           {5, 70, 1101},
                           {8, 1100, 130},
                           {13, 2056, 98},
                           {16, 64, 4100},
                           {16, 129, 515}}) {
      CheckGemm(random, {m, n, k}, in, out, ToleranceOf(out));
      CheckGemm(random, {m, n, k, 1, true, false}, in, out, ToleranceOf(out));
    }
  }
}

TEST(Gemm, SquaresOfDotProducts) {
  Random random(21);
  for (DType dtype : {DType::kF32, DType::kF64}) {
    for (int64_t m : {2, 4, 7, 12, 16, 17}) {
      for (int64_t k : {15, 33, 70, 1000, 1030, 2100}) {
        CheckGemm(random, {m, 24, k, 1, k % 2 == 1, true, 2.0}, dtype, dtype, ToleranceOf(dtype));
        CheckGemm(random, {m, 7, k, 2, false, true}, dtype, dtype, ToleranceOf(dtype));
      }
    }
  }
}

// Columns are widened on the way.
TEST(Gemm, SquaresOfOtherTypes) {
  Random random(22);
  for (auto [in, out] : {std::pair{DType::kBF16, DType::kF32},
                         {DType::kF16, DType::kF32},
                         {DType::kS8, DType::kS32},
                         {DType::kS16, DType::kS32}}) {
    for (int64_t m : {2, 3, 9, 16}) {
      for (int64_t n : {4, 5, 23}) {
        CheckGemm(random, {m, n, 1030, 2, false, true}, in, out, ToleranceOf(out));
      }
    }
  }
}

TEST(Gemm, FewComplexRows) {
  Random random(8);
  for (DType dtype : {DType::kC64, DType::kC128}) {
    for (auto [m, n, k] : {std::array<int64_t, 3>{1, 70, 90},
                           {70, 1, 90},
                           {1, 1, 300},
                           {3, 200, 150},
                           {16, 33, 40},
                           {1, 600, 700},
                           {600, 1, 700}}) {
      for (int form = 0; form < 4; ++form) {
        CheckGemm(random, {m, n, k, 1, form % 2 == 1, form / 2 == 1, 2.0}, dtype, dtype,
                  ToleranceOf(dtype));
      }
    }
  }
}

TEST(Gemm, MixedSigns) {
  Random random(7);
  for (DType a : {DType::kS8, DType::kU8}) {
    for (DType b : {DType::kS8, DType::kU8}) {
      for (bool trans : {false, true}) {
        for (auto [m, n, k] : {std::array<int64_t, 3>{5, 7, 3}, {40, 100, 515}, {9, 600, 700}}) {
          CallUnderTest call = GemmCall(random, {m, n, k, 1, trans, !trans}, a, DType::kS32);
          call.inputs[1] = RandomLiteral(random, b, {1, k, n});
          // All bytes, the extreme ones among them.
          for (Literal& in : call.inputs) {
            for (int64_t i = 0; i < in.size(); ++i) {
              in.mutable_data()[i] = static_cast<std::byte>(i % 5 == 0 ? 0x80 : random());
            }
          }
          Check(call, 0, StrCat(Name(a), " ", Name(b), " ", m, " x ", n, " x ", k));
        }
      }
    }
  }
}

TEST(Gemm, AddsToWhatIsThere) {
  Random random(4);
  for (DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kS32, DType::kC64}) {
    for (auto [m, n, k] : {std::array<int64_t, 3>{7, 9, 5},
                           {1, 40, 600},
                           {1, 500, 1300},
                           {14, 200, 600},
                           {90, 100, 600}}) {
      program::Program p;
      p.name = "test";
      auto buffer = [&](std::string name, std::vector<int64_t> dims, program::BufferKind kind,
                        int64_t index) {
        return program::AddBuffer(p, std::move(name), Shape(dtype, dims), kind, index);
      };
      auto a = buffer("a", {m, k}, program::BufferKind::kParameter, 0);
      auto b = buffer("b", {k, n}, program::BufferKind::kParameter, 1);
      auto c = buffer("c", {m, n}, program::BufferKind::kParameter, 2);
      auto d = buffer("d", {m, n}, program::BufferKind::kResult, 0);
      p.buffers[static_cast<size_t>(c)].donation = program::Donation::kMay;
      p.buffers[static_cast<size_t>(d)].base = c;
      program::LibraryStep step = {
          "gemm", {{"m", m}, {"n", n}, {"k", k}, {"alpha", 2.0}, {"beta", 3.0}}, false};
      p.steps.push_back(
          program::MakeStep(step, {program::In(p, a), program::In(p, b),
                                   program::Whole(p, program::Access::kReadWrite, d)}));
      std::vector<Literal> arguments = {RandomLiteral(random, dtype, {m, k}),
                                        RandomLiteral(random, dtype, {k, n}),
                                        RandomLiteral(random, dtype, {m, n})};
      auto want = program::Interpret(p, arguments);
      ASSERT_TRUE(want) << want.error().ToString();
      auto prepared = FindRoutine("gemm")->prepare({p, p.steps[0], {}});
      ASSERT_TRUE(prepared) << prepared.error().ToString();
      std::vector<std::byte*> memory = {const_cast<std::byte*>(arguments[0].data()),
                                        const_cast<std::byte*>(arguments[1].data()),
                                        arguments[2].mutable_data()};
      ThreadPool pool(2);
      ASSERT_TRUE((*prepared)->Run({pool, memory}));
      ExpectNear(arguments[2], (*want)[0], ToleranceOf(dtype), StrCat("beta ", Name(dtype)));
    }
  }
}

}  // namespace
}  // namespace weft::cpu
