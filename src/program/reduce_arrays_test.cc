// Every type and operation against one element at a time; floats narrower than f32 as f32, rounded
// once.
#include "program/reduce_arrays.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "base/elements.h"

namespace weft::program {
namespace {

constexpr size_t kArrays = 3;
constexpr int64_t kElements = 133;  // whole runs of every type, and a rest

using Bytes = std::vector<std::byte>;

std::vector<Bytes> RandomArrays(DType dtype) {
  std::mt19937 random(7);
  std::vector<Bytes> arrays;
  for (size_t i = 0; i < kArrays; ++i) {
    std::vector<float> values;
    for (int64_t j = 0; j < kElements; ++j) {
      values.push_back(std::ldexp(static_cast<float>(random() % 255), -3) - 9);
    }
    if (IsFloat(dtype) && i == 1) values[5] = NAN;
    if (IsFloat(dtype)) values[6] = i == 0 ? -0.0f : 0.0f;
    Bytes& stored = arrays.emplace_back(static_cast<size_t>(kElements * ByteWidth(dtype)));
    ConvertElements(DType::kF32, reinterpret_cast<const std::byte*>(values.data()), dtype,
                    stored.data(), kElements);
  }
  return arrays;
}

double Combined(ReduceOp op, double a, double b) {
  if (op == ReduceOp::kAdd) return a + b;
  if (op == ReduceOp::kMul) return a * b;
  if (std::isnan(a) || std::isnan(b)) return NAN;
  const bool first = op == ReduceOp::kMin ? a < b || (a == b && std::signbit(a))
                                          : a > b || (a == b && !std::signbit(a));
  return first ? a : b;
}

Bytes OneByOne(ReduceOp op, DType dtype, const std::vector<Bytes>& arrays) {
  const DType within = IsFloat(dtype) && ByteWidth(dtype) < 4 ? DType::kF32 : dtype;
  Bytes result(arrays[0].size());
  for (int64_t j = 0; j < kElements; ++j) {
    std::byte sum[sizeof(double)] = {};
    for (size_t i = 0; i < arrays.size(); ++i) {
      double a = 0, b = 0;
      LoadF64(within, sum, 1, &a);
      LoadF64(dtype, arrays[i].data() + j * ByteWidth(dtype), 1, &b);
      const double value = i == 0 ? b : Combined(op, a, b);
      StoreF64(within, &value, 1, sum);
    }
    ConvertElements(within, sum, dtype, result.data() + j * ByteWidth(dtype), 1);
  }
  return result;
}

class ReduceArraysTest : public testing::TestWithParam<DType> {};

TEST_P(ReduceArraysTest, AsOneByOne) {
  const DType dtype = GetParam();
  for (ReduceOp op : {ReduceOp::kAdd, ReduceOp::kMul, ReduceOp::kMin, ReduceOp::kMax}) {
    // Products of many bits are not exact by way of a double.
    if (op == ReduceOp::kMul && !IsFloat(dtype)) continue;
    std::vector<Bytes> arrays = RandomArrays(dtype);
    const Bytes wanted = OneByOne(op, dtype, arrays);
    for (bool streamed : {false, true}) {
      Bytes apart(wanted.size()), in_place = arrays[1];
      std::vector<const std::byte*> inputs = {arrays[0].data(), in_place.data(), arrays[2].data()};
      std::vector<std::byte*> outputs = {apart.data(), in_place.data()};
      ReduceArrays({op, dtype, inputs, outputs, kElements, streamed});
      EXPECT_EQ(apart, wanted) << Name(dtype);
      EXPECT_EQ(in_place, wanted) << Name(dtype);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ReduceArraysTest,
                         testing::Values(DType::kS32, DType::kU8, DType::kF32, DType::kF64,
                                         DType::kBF16, DType::kF16, DType::kF8E5M2),
                         [](const auto& info) { return std::string(Name(info.param)); });

TEST(ReduceArrays, PredicatesAndBits) {
  for (DType dtype : {DType::kPred, DType::kU16}) {
    Bytes a(64, std::byte{1}), b(64, std::byte{0}), out(64);
    b[3] = std::byte{1};
    const std::byte* inputs[] = {a.data(), b.data()};
    std::byte* outputs[] = {out.data()};
    const int64_t n = 64 / ByteWidth(dtype);
    ReduceArrays({ReduceOp::kAnd, dtype, inputs, outputs, n});
    EXPECT_EQ(out, b);
    ReduceArrays({ReduceOp::kOr, dtype, inputs, outputs, n});
    EXPECT_EQ(out, a);
  }
}

}  // namespace
}  // namespace weft::program
