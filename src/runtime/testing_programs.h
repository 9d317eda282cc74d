// What tests of devices share: checks of statuses, bytes, a Program that adds one.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "program/program.h"
#include "runtime/device_conformance.h"

#define EXPECT_FINE(...)                                        \
  do {                                                          \
    auto&& fine_status = (__VA_ARGS__);                         \
    EXPECT_TRUE(fine_status) << fine_status.error().ToString(); \
  } while (false)
#define ASSERT_FINE(...)                                        \
  do {                                                          \
    auto&& fine_status = (__VA_ARGS__);                         \
    ASSERT_TRUE(fine_status) << fine_status.error().ToString(); \
  } while (false)
#define EXPECT_CODE(code_wanted, ...)                                                       \
  do {                                                                                      \
    auto&& code_status = (__VA_ARGS__);                                                     \
    EXPECT_FALSE(code_status);                                                              \
    if (!code_status) {                                                                     \
      EXPECT_EQ(code_status.error().code(), code_wanted) << code_status.error().ToString(); \
    }                                                                                       \
  } while (false)

namespace weft::runtime {

using Bytes = std::vector<std::byte>;
inline constexpr int64_t kMegabyte = 1 << 20;

Bytes Pattern(int64_t n, uint32_t seed);
program::Program ParseProgram(const std::string& text);

inline constexpr char kAddOne[] = R"(program add_one
buffer x: s32[256] parameter 0 donate
buffer y: s32[256] result 0 in x at 0
kernel add(update x: s32[256]) {
  parallel %i = 0..256 {
    %v = load s32 x[%i]
    %r = add s32 %v, 1
    store s32 x[%i], %r
  }
}
steps { add.1: launch add(update y) })";

}  // namespace weft::runtime
