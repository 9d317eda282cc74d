// Micro-kernels of narrow elements, each by its name: how their panels are packed on any machine,
// what they compute where the processor has them; and whole products by a model of each.
#include <algorithm>
#include <cstring>

#include "cpu/routines/narrow_product.h"
#include "cpu/routines/narrow_rows.h"
#include "cpu/routines/routine_testing.h"

namespace weft::cpu {
namespace {

double NumberOf(DType dtype, const std::byte* p) {
  if (dtype == DType::kS8) return static_cast<int8_t>(*p);
  if (dtype == DType::kU8) return static_cast<uint8_t>(*p);
  uint16_t half;
  std::memcpy(&half, p, 2);
  auto bits = uint32_t{half} << 16;
  float x;
  std::memcpy(&x, &bits, 4);
  return static_cast<double>(x);
}

std::vector<std::byte> RandomBytes(Random& random, DType dtype, int64_t n) {
  Literal values = RandomLiteral(random, dtype, {n});
  return {values.data(), values.data() + values.byte_size()};
}

// Element p of vector i of a panel, as the kernel takes it.
double PackedAt(const NarrowKernel& kernel, bool is_left, const std::byte* panel, int64_t i,
                int64_t p) {
  int64_t width = is_left ? kernel.rows : kernel.cols;
  int64_t group = is_left ? kernel.a_group : kernel.b_group;
  int64_t at = (p / group * width + i) * group + p % group;
  const std::byte* x = panel + NarrowHead(kernel, is_left) + at * kernel.element_bytes();
  int16_t wide;
  switch (kernel.element) {
    case NarrowElement::kBf16: return NumberOf(DType::kBF16, x);
    case NarrowElement::kInt8:
      return NumberOf((is_left ? kernel.a_signed : kernel.b_signed) ? DType::kS8 : DType::kU8, x);
    case NarrowElement::kUnsigned: return NumberOf(is_left ? DType::kU8 : DType::kS8, x);
    case NarrowElement::kInt16: std::memcpy(&wide, x, 2); return wide;
  }
  return 0;
}

double CorrectionOf(const NarrowKernel& kernel, const std::byte* panel, int64_t i) {
  int32_t x = 0;
  if (kernel.corrects()) std::memcpy(&x, panel + 4 * i, 4);
  return x;
}

// What any kernel computes, from its description alone. For one kernel at a time.
const NarrowKernel* modelled = nullptr;
void RunModel(int64_t k, const std::byte* a, const std::byte* b, std::byte* c, int64_t ldc,
              bool adds) {
  const NarrowKernel& kernel = *modelled;
  int64_t padded = (k + kernel.step - 1) / kernel.step * kernel.step;
  std::vector<double> left, right;
  for (int64_t i = 0; i < kernel.rows * padded; ++i) {
    left.push_back(PackedAt(kernel, true, a, i / padded, i % padded));
  }
  for (int64_t j = 0; j < kernel.cols * padded; ++j) {
    right.push_back(PackedAt(kernel, false, b, j / padded, j % padded));
  }
  for (int64_t i = 0; i < kernel.rows; ++i) {
    for (int64_t j = 0; j < kernel.cols; ++j) {
      double sum = CorrectionOf(kernel, a, i) + CorrectionOf(kernel, b, j);
      for (int64_t p = 0; p < padded; ++p) sum += left[i * padded + p] * right[j * padded + p];
      std::byte* to = c + 4 * (i * ldc + j);
      if (kernel.element == NarrowElement::kBf16) {
        float x = 0;
        if (adds) std::memcpy(&x, to, 4);
        x += static_cast<float>(sum);
        std::memcpy(to, &x, 4);
      } else {
        int32_t x = 0;
        if (adds) std::memcpy(&x, to, 4);
        x += static_cast<int32_t>(sum);
        std::memcpy(to, &x, 4);
      }
    }
  }
}

std::vector<std::pair<DType, DType>> TypesOf(const NarrowKernel& kernel) {
  if (kernel.element == NarrowElement::kBf16) return {{DType::kBF16, DType::kBF16}};
  if (kernel.element == NarrowElement::kInt8) {
    return {{kernel.a_signed ? DType::kS8 : DType::kU8, kernel.b_signed ? DType::kS8 : DType::kU8}};
  }
  return {{DType::kS8, DType::kS8},
          {DType::kS8, DType::kU8},
          {DType::kU8, DType::kS8},
          {DType::kU8, DType::kU8}};
}

class NarrowKernelTest : public testing::TestWithParam<NarrowKernel> {
 protected:
  void SetUp() override { modelled = &GetParam(); }
  NarrowKernel Model() const {
    NarrowKernel model = GetParam();
    model.run = RunModel;
    model.enter = model.leave = nullptr;
    return model;
  }
  // Whole products by `kernel` against sums in f64.
  template <class T>
  void CheckProducts(const NarrowKernel& kernel) {
    Random random(11);
    ThreadPool pool(3);
    for (auto [a_type, b_type] : TypesOf(kernel)) {
      for (auto [m, n, k] : {std::array<int64_t, 3>{1, 1, 1},
                             {kernel.rows, kernel.cols, kernel.step},
                             {33, 70, 65},
                             {70, 31, 130},
                             {40, 100, 700},
                             {5, 9, 2100}}) {
        for (int form = 0; form < 4; ++form) {
          std::vector<std::byte> a = RandomBytes(random, a_type, m * k);
          std::vector<std::byte> b = RandomBytes(random, b_type, k * n);
          NarrowSource left = {a_type, a.data(), form % 2 ? 1 : k, form % 2 ? m : 1};
          NarrowSource right = {b_type, b.data(), form / 2 ? k : 1, form / 2 ? 1 : n};
          std::vector<T> c(m * n, T(3));
          T beta = form % 2 ? T(1) : T(0);
          ResultMatrix result = {std::is_same_v<T, float> ? DType::kF32 : DType::kS32,
                                 reinterpret_cast<std::byte*>(c.data()), n};
          ASSERT_TRUE(MultiplyPacked<T>({&pool}, {m, n, k}, NarrowProduct<T>(kernel, left, right),
                                        result, T(1), beta));
          int64_t wide = ByteWidth(a_type);
          for (int64_t i = 0; i < m; ++i) {
            for (int64_t j = 0; j < n; ++j) {
              if ((i + j) % 7 != 0) continue;  // enough of them
              double want = form % 2 ? 3 : 0, size = 1;
              for (int64_t p = 0; p < k; ++p) {
                double x =
                    NumberOf(a_type, &a[(i * left.vector_stride + p * left.k_stride) * wide]);
                double y =
                    NumberOf(b_type, &b[(j * right.vector_stride + p * right.k_stride) * wide]);
                want += x * y;
                size += std::abs(x * y);
              }
              double got = std::is_same_v<T, float> ? static_cast<double>(c[i * n + j])
                                                    : static_cast<int32_t>(c[i * n + j]);
              double off = std::is_same_v<T, float> ? 1e-6 * size : 0;
              ASSERT_NEAR(got, want, off)
                  << kernel.name << " " << Name(a_type) << " " << Name(b_type) << " " << m << " x "
                  << n << " x " << k << " form " << form << " at " << i << ", " << j;
            }
          }
        }
      }
    }
  }
  void CheckBoth(const NarrowKernel& kernel) {
    if (kernel.element == NarrowElement::kBf16) {
      CheckProducts<float>(kernel);
    } else {
      CheckProducts<uint32_t>(kernel);
    }
  }
};

TEST_P(NarrowKernelTest, IsPackedAsItsModelReads) {
  CheckBoth(Model());
}

TEST_P(NarrowKernelTest, ComputesAsItsModel) {
  const NarrowKernel& kernel = GetParam();
  if (!kernel.is_there()) GTEST_SKIP() << "this processor has no " << kernel.name;
  CheckBoth(kernel);
}

// b by rows and by columns, of which some are left over, results that are added to, long sums.
template <class T>
void CheckFewRows(const NarrowKernel& kernel, DType a_type, DType b_type) {
  Random random(12);
  ThreadPool pool(2);
  for (auto [m, n, k] : {std::array<int64_t, 3>{1, 8, 1},
                         {2, 70, 33},
                         {3, 9, 16},
                         {5, 530, 40},
                         {8, 40, 520},
                         {7, 13, 1100},
                         {11, 300, 70},
                         {16, 41, 1100}}) {
    for (int form = 0; form < 4; ++form) {
      std::vector<std::byte> a = RandomBytes(random, a_type, m * k);
      std::vector<std::byte> b = RandomBytes(random, b_type, k * n);
      std::vector<T> c(m * n, T(3));
      ResultMatrix result = {std::is_same_v<T, float> ? DType::kF32 : DType::kS32,
                             reinterpret_cast<std::byte*>(c.data()), n};
      FewRowsProduct s = {m,
                          n,
                          k,
                          {a_type, a.data(), form % 2 ? 1 : k, form % 2 ? m : 1},
                          {b_type, b.data(), form / 2 ? k : 1, form / 2 ? 1 : n},
                          result,
                          form == 1};
      bool by_columns = s.b.vector_stride != 1;
      ASSERT_EQ(TakesFewRows(kernel, s), !by_columns || m <= kernel.rows);
      ASSERT_TRUE(MultiplyFewRows<T>({&pool}, kernel, s));
      int64_t wide = ByteWidth(a_type);
      for (int64_t at = 0; at < m * n; ++at) {
        int64_t i = at / n, j = at % n;
        double want = s.adds ? 3 : 0, size = 1;
        for (int64_t p = 0; p < k; ++p) {
          double x = NumberOf(a_type, &a[(i * s.a.vector_stride + p * s.a.k_stride) * wide]);
          x *= NumberOf(b_type, &b[(j * s.b.vector_stride + p * s.b.k_stride) * wide]);
          want += x;
          size += std::abs(x);
        }
        bool floats = std::is_same_v<T, float>;
        double got = floats ? static_cast<double>(c[at]) : static_cast<int32_t>(c[at]);
        ASSERT_NEAR(got, want, floats ? 1e-6 * size : 0)
            << kernel.name << " " << m << " x " << n << " x " << k << " form " << form << " at "
            << i << ", " << j;
      }
    }
  }
}

TEST_P(NarrowKernelTest, TakesFewRowsWhereTheMatrixLies) {
  const NarrowKernel& kernel = GetParam();
  auto [a, b] = TypesOf(kernel)[0];
  if (!kernel.is_there() || FindNarrowRows(kernel, a, b) == nullptr) {
    GTEST_SKIP() << kernel.name << " takes packed panels alone";
  }
  if (kernel.element == NarrowElement::kBf16) {
    CheckFewRows<float>(kernel, a, b);
  } else {
    CheckFewRows<uint32_t>(kernel, a, b);
  }
}

// Instructions that round to odd, or twice: equal products add up to within 1e-6 all the same.
TEST_P(NarrowKernelTest, SumsOfEqualProductsStayNear) {
  const NarrowKernel& kernel = GetParam();
  if (!kernel.is_there() || kernel.element != NarrowElement::kBf16) GTEST_SKIP();
  constexpr int64_t kRows = 3, kCols = 20, kDepth = 20000;
  constexpr uint16_t kX = 0x3DCD, kY = 0x3EAB;  // 0.1 and 1/3, about
  std::vector<uint16_t> a(kRows * kDepth, kX), b(kCols * kDepth, kY);
  NarrowSource left = {DType::kBF16, reinterpret_cast<std::byte*>(a.data()), kDepth, 1};
  NarrowSource right = {DType::kBF16, reinterpret_cast<std::byte*>(b.data()), kDepth, 1};
  std::vector<float> c(kRows * kCols);
  ResultMatrix result = {DType::kF32, reinterpret_cast<std::byte*>(c.data()), kCols};
  double want = kDepth * NumberOf(DType::kBF16, left.data) * NumberOf(DType::kBF16, right.data);
  NarrowProduct<float> product(kernel, left, right);
  ASSERT_TRUE(MultiplyPacked<float>({}, {kRows, kCols, kDepth}, product, result, 1, 0));
  for (float x : c) ASSERT_NEAR(static_cast<double>(x), want, 1e-6 * want);
  FewRowsProduct few = {kRows, kCols, kDepth, left, right, result, false};
  if (!TakesFewRows(kernel, few)) return;
  ASSERT_TRUE(MultiplyFewRows<float>({}, kernel, few));
  for (float x : c) ASSERT_NEAR(static_cast<double>(x), want, 1e-6 * want);
}

INSTANTIATE_TEST_SUITE_P(Kernels, NarrowKernelTest,
                         testing::ValuesIn(NarrowKernels().begin(), NarrowKernels().end()),
                         [](const auto& info) {
                           std::string name(info.param.name);
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !std::isalnum(c); },
                               '_');
                           return name;
                         });

}  // namespace
}  // namespace weft::cpu
