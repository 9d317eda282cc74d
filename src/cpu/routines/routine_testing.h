// One call of a routine, run by the interpreter and by the CPU's routine on pools of several sizes.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/literal.h"
#include "cpu/routines/routine.h"
#include "program/builder.h"
#include "program/interpret.h"

namespace weft::cpu {

struct CallUnderTest {
  std::string routine;
  std::vector<program::Attr> attrs;
  std::vector<Literal> inputs;
  std::vector<Shape> outputs;
  std::vector<program::Kernel> kernels = {};
  KernelFunction function = nullptr;  // of every kernel
};

inline program::Program ProgramOf(const CallUnderTest& call) {
  program::Program p;
  p.name = "test";
  for (const program::Kernel& kernel : call.kernels) program::AddKernel(p, kernel);
  std::vector<program::Use> uses;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    uses.push_back(program::In(
        p, program::AddBuffer(p, StrCat("in", i), call.inputs[i].shape(),
                              program::BufferKind::kParameter, static_cast<int64_t>(i))));
  }
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    uses.push_back(
        program::Out(p, program::AddBuffer(p, StrCat("out", i), call.outputs[i],
                                           program::BufferKind::kResult, static_cast<int64_t>(i))));
  }
  p.steps.push_back(
      program::MakeStep(program::LibraryStep{call.routine, call.attrs, false}, std::move(uses)));
  return p;
}

inline Result<std::vector<Literal>> RunRoutine(const CallUnderTest& call, int threads) {
  program::Program p = ProgramOf(call);
  const Routine* routine = FindRoutine(call.routine);
  if (routine == nullptr) return NotFound("no routine ", call.routine);
  RoutineInputs inputs = {p, p.steps[0], [&](std::string_view) { return call.function; }};
  auto prepared = TRY(routine->prepare(inputs));
  std::vector<Literal> results;
  for (const Shape& shape : call.outputs) {
    results.push_back(Literal(shape));
    std::byte* bytes = results.back().mutable_data();
    std::fill_n(bytes, results.back().byte_size(), std::byte{0xA5});  // nothing is counted on
  }
  std::vector<std::byte*> memory;
  for (const Literal& in : call.inputs) memory.push_back(const_cast<std::byte*>(in.data()));
  for (Literal& out : results) memory.push_back(out.mutable_data());
  ThreadPool pool(threads);
  TRY(prepared->Run({pool, memory}));
  return results;
}

// `tolerance`: of a difference, relative to the largest element of the result. 0: the same bytes.
inline void ExpectNear(const Literal& got, const Literal& want, double tolerance,
                       const std::string& what) {
  ASSERT_EQ(got.byte_size(), want.byte_size());
  if (tolerance == 0) {
    if (got.byte_size() == 0) return;
    EXPECT_EQ(std::memcmp(got.data(), want.data(), static_cast<size_t>(got.byte_size())), 0)
        << what;
    return;
  }
  double largest = 0;
  for (int64_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::abs(want.GetComplex(i)));
  }
  for (int64_t i = 0; i < want.size(); ++i) {
    double off = std::abs(got.GetComplex(i) - want.GetComplex(i));
    if (!(off <= tolerance * largest)) {
      ADD_FAILURE() << what << ": element " << i << " is " << got.GetComplex(i) << ", want "
                    << want.GetComplex(i);
      return;
    }
  }
}

// Against the interpreter, and the same bits on 1, 2 and 3 threads.
inline void Check(const CallUnderTest& call, double tolerance, const std::string& what) {
  auto want = program::Interpret(ProgramOf(call), call.inputs);
  ASSERT_TRUE(want) << what << ": " << want.error().ToString();
  auto one = RunRoutine(call, 1);
  ASSERT_TRUE(one) << what << ": " << one.error().ToString();
  for (size_t i = 0; i < want->size(); ++i) ExpectNear((*one)[i], (*want)[i], tolerance, what);
  for (int threads : {2, 3}) {
    auto more = RunRoutine(call, threads);
    ASSERT_TRUE(more) << what << ": " << more.error().ToString();
    for (size_t i = 0; i < want->size(); ++i) {
      ExpectNear((*more)[i], (*one)[i], 0, StrCat(what, " on ", threads, " threads"));
    }
  }
}

using Random = std::mt19937_64;

// Small numbers: floats in [-1, 1], integers in [-100, 100].
inline Literal RandomLiteral(Random& random, DType dtype, std::vector<int64_t> dims) {
  Literal out(Shape(dtype, dims));
  for (int64_t i = 0; i < out.size(); ++i) {
    auto unit = [&] { return static_cast<double>(random() >> 11) * 0x1p-52 - 1; };
    if (IsComplex(dtype)) {
      out.SetComplex(i, {unit(), unit()});
    } else if (IsFloat(dtype)) {
      out.SetDouble(i, unit());
    } else {
      out.SetInt(i, static_cast<int64_t>(random() % 201) - 100);
    }
  }
  return out;
}

}  // namespace weft::cpu
