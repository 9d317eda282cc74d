// Marks for NVIDIA's tools, heard by a tool of our own.
#include "gpu/nvtx.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

namespace weft::gpu {
namespace {

std::string Heard() {
  void* library = dlopen(WEFT_NVTX_LISTENER, RTLD_LAZY);
  auto heard = reinterpret_cast<const char* (*)()>(dlsym(library, "HeardSoFar"));
  return heard();
}

TEST(Nvtx, AToolHearsRangesAndWhatIsWritten) {
  Nvtx tool(WEFT_NVTX_LISTENER);
  EXPECT_EQ(tool.complaint(), "");
  ASSERT_TRUE(tool.has_ranges());
  ASSERT_TRUE(tool.has_memory());
  tool.Push("main");
  tool.Push("fusion.3 (model.py:12)");
  const auto* at = reinterpret_cast<const std::byte*>(0x1000);
  const std::span<const std::byte> written[] = {{at, 64}, {at + 0x100, 8}};
  tool.MarkInitialized(reinterpret_cast<void*>(0x77), written);
  tool.MarkInitialized(nullptr, {});
  tool.Pop();
  tool.Pop();
  EXPECT_EQ(Heard(),
            "domain weft\npush main\npush fusion.3 (model.py:12)\nwritten 64 at 1000 on 77\n"
            "written 8 at 1100 on 77\npop\npop\n");
}

TEST(Nvtx, NobodyListens) {
  Nvtx none("");
  EXPECT_FALSE(none.has_ranges());
  EXPECT_FALSE(none.has_memory());
  EXPECT_EQ(none.complaint(), "");
  none.Push("main");
  none.Pop();
  none.MarkInitialized(nullptr, {});
}

TEST(Nvtx, WhatIsNoToolSaysSo) {
  Nvtx missing("/no/such/tool.so");
  EXPECT_NE(missing.complaint().find("NVTX_INJECTION64_PATH: /no/such/tool.so"), std::string::npos)
      << missing.complaint();
  Nvtx other("libdl.so.2");
  EXPECT_EQ(other.complaint(), "NVTX_INJECTION64_PATH: libdl.so.2 wants neither ranges nor memory");
}

}  // namespace
}  // namespace weft::gpu
