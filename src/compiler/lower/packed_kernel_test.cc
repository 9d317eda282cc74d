// Kernels over packed memory compute what they compute over elements of a byte each.
#include "compiler/lower/packed_kernel.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/packing.h"
#include "program/builder.h"
#include "program/interpret.h"
#include "program/program.h"

namespace weft::compiler {
namespace {

using program::Access;
using program::Kernel;
using program::KernelBuilder;
using program::LoopKind;
using program::ValueId;

constexpr DType kTypes[] = {DType::kS4, DType::kU4, DType::kS2, DType::kU2, DType::kF4E2M1FN};

// Every bit pattern, in no order.
Literal Patterns(DType dtype, int64_t n) {
  std::vector<std::byte> packed(static_cast<size_t>(PackedBytes(dtype, n)));
  for (size_t i = 0; i < packed.size(); ++i) packed[i] = static_cast<std::byte>(i * 37 + 11);
  auto literal = Literal::Unpack(Shape(dtype, {n}), packed);
  EXPECT_TRUE(literal);
  return *literal;
}

// One launch of a kernel that reads x and writes y, of n elements each.
Literal RunPackedKernel(Kernel kernel, DType dtype, int64_t n, bool packed_in, bool packed_out) {
  program::Program p;
  p.name = "p";
  auto x = AddBuffer(p, "x", Shape(dtype, {n}), program::BufferKind::kParameter, 0);
  auto y = AddBuffer(p, "y", Shape(dtype, {n}), program::BufferKind::kResult, 0);
  p.buffers[static_cast<size_t>(x)].packed = packed_in;
  p.buffers[static_cast<size_t>(y)].packed = packed_out;
  int32_t k = AddKernel(p, std::move(kernel));
  p.steps.push_back(MakeStep(program::KernelStep{k}, {In(p, x), Out(p, y)}));
  Status verified = Verify(p);
  EXPECT_TRUE(verified) << verified.error().ToString() << Print(p);
  if (!verified) return Literal(Shape(dtype, {n}));
  std::vector<Literal> arguments = {Patterns(dtype, n)};
  program::InterpretOptions options;
  options.check_races = true;
  auto results = program::Interpret(p, arguments, options);
  EXPECT_TRUE(results) << results.error().ToString() << Print(p);
  return results ? (*results)[0] : Literal(Shape(dtype, {n}));
}

TEST(PackedKernel, OneElementAtATime) {
  for (DType dtype : kTypes) {
    for (int64_t n : {1, 2, 3, 4, 5, 8, 31}) {
      Kernel copy = CopyKernel(dtype, n);
      Literal want = Patterns(dtype, n);
      EXPECT_TRUE(RunPackedKernel(WithPackedReads(copy, {true, false}), dtype, n, true, false) ==
                  want)
          << Name(dtype) << " " << n;
      auto writes = WithPackedWrites(copy, {false, true});
      ASSERT_TRUE(writes) << Name(dtype) << " " << n;
      EXPECT_TRUE(RunPackedKernel(*writes, dtype, n, false, true) == want)
          << Name(dtype) << " " << n;
      auto both = WithPackedWrites(WithPackedReads(copy, {true, false}), {false, true});
      ASSERT_TRUE(both);
      EXPECT_TRUE(RunPackedKernel(*both, dtype, n, true, true) == want) << Name(dtype) << " " << n;
    }
  }
}

// Eight lanes, from a multiple of eight on, and from one behind it.
TEST(PackedKernel, Vectors) {
  for (DType dtype : kTypes) {
    for (int64_t first : {0, 1}) {
      KernelBuilder b("vectors");
      auto x = b.Param("x", dtype, 25, Access::kRead);
      auto y = b.Param("y", dtype, 25, Access::kWrite);
      b.For(LoopKind::kSerial, 0, 3, [&](ValueId i) {
        ValueId at = b.Add(b.Mul(i, b.Int(8)), b.Int(first));
        b.Store(y, at, b.Load(x, at, 8));
      });
      b.Store(y, b.Int(first == 0 ? 24 : 0), b.Load(x, b.Int(first == 0 ? 24 : 0)));
      Kernel kernel = std::move(b).Build();
      EXPECT_TRUE(RunPackedKernel(WithPackedReads(kernel, {true, false}), dtype, 25, true, false) ==
                  Patterns(dtype, 25))
          << Name(dtype) << " from " << first;
      // The last element is a part of a byte, and the vectors of the second are.
      EXPECT_FALSE(WithPackedWrites(kernel, {false, true}));
    }
    KernelBuilder b("whole");
    auto x = b.Param("x", dtype, 24, Access::kRead);
    auto y = b.Param("y", dtype, 24, Access::kWrite);
    b.For(LoopKind::kParallel, 0, 24, [&](ValueId i) { b.Store(y, i, b.Load(x, i, 8)); }, 8);
    auto writes = WithPackedWrites(std::move(b).Build(), {false, true});
    ASSERT_TRUE(writes) << Name(dtype);
    EXPECT_TRUE(RunPackedKernel(*writes, dtype, 24, false, true) == Patterns(dtype, 24))
        << Name(dtype);
  }
}

// What threads share bytes of is left alone.
TEST(PackedKernel, NoPartsOfBytes) {
  KernelBuilder b("reversed");
  auto x = b.Param("x", DType::kS4, 9, Access::kRead);
  auto y = b.Param("y", DType::kS4, 9, Access::kWrite);
  b.For(LoopKind::kParallel, 0, 9,
        [&](ValueId i) { b.Store(y, b.Sub(b.Int(8), i), b.Load(x, i)); });
  EXPECT_FALSE(WithPackedWrites(std::move(b).Build(), {false, true}));
}

}  // namespace
}  // namespace weft::compiler
