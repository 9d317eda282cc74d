// Programs run natively beside the interpreter, for tests.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "cpu/device.h"
#include "program/builder.h"
#include "program/interpret.h"
#include "program/program.h"
#include "program/regions.h"
#include "runtime/compare.h"

namespace weft::cpu {

inline runtime::Device& TestDevice() {
  static auto device = CreateDevice();
  CHECK(device) << device.error().ToString();
  return **device;
}

// The program with its regions chosen, as it is rendered.
inline program::Program FromText(const std::string& text) {
  auto program = program::Parse(text);
  CHECK(program) << program.error().ToString("test");
  ChooseRegions(*program);
  return std::move(*program);
}

inline Result<std::unique_ptr<runtime::LoadedProgram>> LoadForTest(program::Program program) {
  program::ChooseRegions(program);
  return TestDevice().Load(program, {});
}

// Arguments in, results out; parameters are copied, so that donated ones may be written. All
// shapes are row-major.
inline Result<std::vector<Literal>> RunLoaded(const runtime::LoadedProgram& loaded,
                                              std::vector<Literal> arguments,
                                              runtime::Call call = {}) {
  std::vector<std::byte*> parameters, results;
  for (Literal& argument : arguments) parameters.push_back(argument.mutable_data());
  std::vector<Literal> outputs;
  for (const program::Buffer& b : loaded.program().buffers) {
    if (b.kind != program::BufferKind::kResult) continue;
    size_t n = static_cast<size_t>(b.index) + 1;
    if (results.size() < n) results.resize(n), outputs.resize(n);
    outputs[b.index] = Literal(b.shape);
    results[b.index] = outputs[b.index].mutable_data();
    if (b.base >= 0) {
      results[b.index] = parameters[loaded.program().buffers[b.base].index] + b.offset;
    }
  }
  call.parameters = parameters;
  call.results = results;
  TRY(loaded.Run(call));
  for (const program::Buffer& b : loaded.program().buffers) {
    if (b.kind != program::BufferKind::kResult || b.base < 0) continue;
    std::memcpy(outputs[b.index].mutable_data(), results[b.index],
                static_cast<size_t>(outputs[b.index].byte_size()));
  }
  return outputs;
}

// Equal bits, any NaN like any other; zeros of either sign alike where ulps > 0.
inline void ExpectSame(const Literal& native, const Literal& expected, int64_t ulps,
                       const std::string& what) {
  ASSERT_EQ(native.size(), expected.size()) << what;
  int64_t width = ByteWidth(expected.dtype()), shown = 0;
  for (int64_t i = 0; i < expected.size() && shown < 5; ++i) {
    const std::byte *a = native.data() + i * width, *b = expected.data() + i * width;
    if (std::memcmp(a, b, static_cast<size_t>(width)) == 0) continue;
    bool nans = IsFloat(expected.dtype()) && std::isnan(native.GetDouble(i)) &&
                std::isnan(expected.GetDouble(i));
    std::span<const std::byte> wanted_bytes(b, static_cast<size_t>(width));
    if (nans) continue;
    if (ulps > 0 && !runtime::Compare(expected.dtype(), wanted_bytes, {a, wanted_bytes.size()},
                                      {.ulps = static_cast<double>(ulps)})
                         .any()) {
      continue;
    }
    ++shown;
    std::string got, wanted;
    native.AppendElement(got, i);
    expected.AppendElement(wanted, i);
    ADD_FAILURE() << what << ": element " << i << " is " << got << ", should be " << wanted;
  }
}

// `skipped`: the number of a result that may be anything.
inline void ExpectLikeInterpreter(const program::Program& program, const std::vector<Literal>& args,
                                  int64_t ulps, const std::string& what, size_t skipped = -1) {
  auto expected = program::Interpret(program, args);
  ASSERT_TRUE(expected) << what << ": " << expected.error().ToString();
  auto loaded = LoadForTest(program);
  ASSERT_TRUE(loaded) << what << ": " << loaded.error().ToString();
  auto native = RunLoaded(**loaded, args);
  ASSERT_TRUE(native) << what << ": " << native.error().ToString();
  ASSERT_EQ(native->size(), expected->size());
  for (size_t i = 0; i < native->size(); ++i) {
    if (i != skipped) ExpectSame((*native)[i], (*expected)[i], ulps, what);
  }
}

// Numbers of all sizes, special ones among them.
inline Literal RandomLiteral(const Shape& shape, uint64_t seed) {
  Literal literal(shape);
  uint64_t state = seed * 0x9e3779b97f4a7c15ull + 1;
  auto next = [&] {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545f4914f6cdd1dull;
  };
  for (int64_t i = 0; i < literal.size(); ++i) {
    uint64_t r = next();
    if (IsFloat(shape.dtype())) {
      static constexpr double kSpecial[] = {0.0, -0.0, 1, -1, 0.5, 1e-42, INFINITY, NAN, 2.5, -3.5};
      double value = std::ldexp(static_cast<double>(static_cast<int32_t>(r)) / (1 << 30),
                                static_cast<int>(r >> 60) - 8);
      if ((r >> 40) % 8 == 0) value = kSpecial[(r >> 44) % 10];
      literal.SetDouble(i, value);
    } else {
      int64_t value = static_cast<int64_t>(r) >> ((r >> 3) % 64);
      literal.SetInt(i, shape.dtype() == DType::kPred ? value & 1 : value);
    }
  }
  return literal;
}

inline program::Program ReadProgram(const std::string& path) {
  auto text = ReadFile(path);
  CHECK(text) << text.error().ToString();
  auto program = program::Parse(*text);
  CHECK(program) << program.error().ToString(path);
  return std::move(*program);
}

}  // namespace weft::cpu
