// Integer division against its definition, over edge values and around multiples of them: by a
// divisor of each lane, by one for all lanes, and one lane alone.
#include <limits>
#include <random>

#include "cpu/native/testing.h"

namespace weft::cpu {
namespace {

using program::Access;
using program::BufferKind;
using program::KernelBuilder;
using program::LoopKind;
using program::Op;
using program::Program;
using program::ValueId;

constexpr int kMostLanes = 16;
enum class Divisors { kOfLanes, kOfAll };

// As kernels define it: x/0 has all bits set, x rem 0 is x, the least number by -1 wraps.
template <class T>
T DividedAs(Op op, T n, T d) {
  if (d == 0) return op == Op::kRem ? n : static_cast<T>(-1);
  if (std::is_signed_v<T> && d == static_cast<T>(-1)) {
    return op == Op::kRem ? T{0} : static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(n));
  }
  return static_cast<T>(op == Op::kRem ? n % d : n / d);
}

template <class T>
std::vector<T> Divisor() {
  std::vector<T> values = {0, 1, 2, 3, 5, 7, 10, 11, 100, 127};
  for (int bit = 6; bit < std::numeric_limits<T>::digits; bit += 5) {
    T power = static_cast<T>(T{1} << bit);
    values.insert(values.end(), {static_cast<T>(power - 1), power, static_cast<T>(power + 1)});
  }
  T most = std::numeric_limits<T>::max(), least = std::numeric_limits<T>::min();
  values.insert(values.end(), {most, static_cast<T>(most - 1), static_cast<T>(most / 2),
                               static_cast<T>(most / 2 + 1), least, static_cast<T>(least + 1)});
  size_t positive = values.size();
  for (size_t i = 0; std::is_signed_v<T> && i < positive; ++i) {
    values.push_back(static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(values[i])));
  }
  return values;
}

// For each divisor runs of kMostLanes dividends: edge values, and what lies beside multiples.
template <class T>
void Pairs(std::vector<T>& dividends, std::vector<T>& divisors) {
  std::mt19937_64 random(7);
  std::vector<T> edges = Divisor<T>();
  for (T divisor : edges) {
    std::vector<T> row = edges;
    using U = std::make_unsigned_t<T>;
    while (row.size() < 8 * edges.size() || row.size() % kMostLanes != 0) {
      U multiple = static_cast<U>(static_cast<U>(random() >> (random() % 48)) * U(divisor));
      row.push_back(static_cast<T>(static_cast<U>(multiple + random() % 3 - 1)));
    }
    dividends.insert(dividends.end(), row.begin(), row.end());
    divisors.insert(divisors.end(), row.size(), divisor);
  }
}

template <class T>
Literal ArrayOf(DType dtype, const std::vector<T>& values) {
  Literal literal(Shape(dtype, {std::ssize(values)}));
  std::memcpy(literal.mutable_data(), values.data(), values.size() * sizeof(T));
  return literal;
}

Program DivisionProgram(DType dtype, Op op, int64_t count, int lanes, Divisors of) {
  Program p;
  p.name = "division";
  Shape shape(dtype, {count});
  auto n = AddBuffer(p, "n", shape, BufferKind::kParameter, 0);
  auto d = AddBuffer(p, "d", shape, BufferKind::kParameter, 1);
  auto q = AddBuffer(p, "q", shape, BufferKind::kResult, 0);
  KernelBuilder b("divide");
  auto x = b.Param("x", dtype, count, Access::kRead), y = b.Param("y", dtype, count, Access::kRead);
  auto out = b.Param("out", dtype, count, Access::kWrite);
  b.For(
      LoopKind::kSerial, 0, count,
      [&](ValueId i) {
        bool all = of == Divisors::kOfAll;
        ValueId divisor = all ? b.Splat(b.Load(y, i), lanes) : b.Load(y, i, lanes);
        b.Store(out, i, b.Emit(op, {b.Load(x, i, lanes), divisor}));
      },
      lanes);
  p.steps.push_back(MakeStep(program::KernelStep{AddKernel(p, std::move(b).Build())},
                             {In(p, n), In(p, d), Out(p, q)}, "divide"));
  return p;
}

template <class T>
void CheckDivision(DType dtype) {
  std::vector<T> dividends, divisors;
  Pairs(dividends, divisors);
  std::vector<Literal> arguments = {ArrayOf(dtype, dividends), ArrayOf(dtype, divisors)};
  for (Op op : {Op::kDiv, Op::kRem}) {
    std::vector<T> expected;
    for (size_t i = 0; i < dividends.size(); ++i) {
      expected.push_back(DividedAs(op, dividends[i], divisors[i]));
    }
    for (int lanes : {1, 4, 8, kMostLanes}) {
      for (Divisors of : {Divisors::kOfLanes, Divisors::kOfAll}) {
        if (lanes == 1 && of == Divisors::kOfAll) continue;
        Program p = DivisionProgram(dtype, op, std::ssize(dividends), lanes, of);
        auto loaded = LoadForTest(p);
        ASSERT_TRUE(loaded) << loaded.error().ToString();
        auto native = RunLoaded(**loaded, arguments);
        ASSERT_TRUE(native) << native.error().ToString();
        ExpectSame((*native)[0], ArrayOf(dtype, expected), 0,
                   StrCat(program::Info(op).name, " ", Name(dtype), "x", lanes,
                          of == Divisors::kOfAll ? " by one" : ""));
      }
    }
  }
}

TEST(Division, OfBytes) {
  CheckDivision<int8_t>(DType::kS8);
  CheckDivision<uint8_t>(DType::kU8);
}
TEST(Division, Of16Bits) {
  CheckDivision<int16_t>(DType::kS16);
  CheckDivision<uint16_t>(DType::kU16);
}
TEST(Division, Of32Bits) {
  CheckDivision<int32_t>(DType::kS32);
  CheckDivision<uint32_t>(DType::kU32);
}
TEST(Division, Of64Bits) {
  CheckDivision<int64_t>(DType::kS64);
  CheckDivision<uint64_t>(DType::kU64);
}

}  // namespace
}  // namespace weft::cpu
