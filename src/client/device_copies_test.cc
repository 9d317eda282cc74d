// Copies between the host and a device with memory of its own: the pretend GPU.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "base/trace.h"
#include "client/accelerator.h"
#include "client/test_util.h"
#include "runtime/memory.h"

namespace weft::client {
namespace {

using testing::CompileText;
using testing::Floats;
using testing::MakeClient;
using testing::RunOne;

constexpr char kIncrement[] = R"(
ENTRY main {
  x = f32[4] parameter(0)
  one = f32[] constant(1)
  ones = f32[4] broadcast(one), dimensions={}
  ROOT r = f32[4] add(x, ones)
})";

std::unique_ptr<Client> OnDevice() {
  ClientOptions options;
  options.platform = Platform::kPretend;
  return MakeClient(options);
}

// Small arrays travel in one copy; order and values stay, whatever lies between them (row R2).
TEST(DeviceCopies, SmallArraysShareOne) {
  auto client = OnDevice();
  Memory* memory = client->devices()[0]->default_memory();
  std::vector<Literal> values;
  for (int i = 0; i < 5; ++i) {
    // The third is too large, the fourth empty.
    Literal value{Shape(DType::kF32, {i == 2 ? 1 << 20 : i == 3 ? 0 : 4})};
    for (float& element : value.values<float>()) element = static_cast<float>(i);
    values.push_back(std::move(value));
  }
  auto buffers = BuffersFromLiterals(memory, values);
  ASSERT_EQ(buffers.size(), values.size());
  std::vector<DeviceBytesRef> bytes;
  for (const auto& buffer : buffers) {
    ASSERT_TRUE(buffer->ready()->Await().has_value());
    bytes.push_back((*buffer->Get())->device);
  }
  EXPECT_FALSE(bytes[2]->lent());
  for (size_t i : {0, 1, 3, 4}) EXPECT_TRUE(bytes[i]->lent()) << i;
  EXPECT_EQ(bytes[1]->address - bytes[0]->address, runtime::kDeviceAlignment);
  auto program = CompileText(*client, kIncrement);
  auto sum = RunOne(*program, {buffers[4].get()});
  bytes.clear(), buffers.erase(buffers.begin() + 1, buffers.end());
  EXPECT_EQ(Floats(*sum), (std::vector<float>{5, 5, 5, 5}));
  EXPECT_EQ(Floats(*buffers[0]), (std::vector<float>{0, 0, 0, 0}));
  // One alone is as before.
  auto one = BuffersFromLiterals(memory, {values[1]});
  EXPECT_FALSE((*one[0]->Get())->device->lent());
  EXPECT_TRUE(BuffersFromLiterals(memory, {}).empty());
}

// A read that has to wait is tied to the copy that another thread makes for it (row R6).
TEST(DeviceCopies, ReadsAreTiedToTheirs) {
  auto client = OnDevice();
  auto transfer =
      HostTransfer::Create(client->devices()[0]->default_memory(), {Shape(DType::kF32, {4})});
  ASSERT_TRUE(transfer.has_value());
  auto buffer = (*transfer)->TakeBuffer(0);
  ASSERT_TRUE(buffer.has_value());
  trace::Session session;
  float values[] = {1, 2, 3, 4}, read[4] = {};
  EventRef done = (*buffer)->CopyToHost(read, sizeof(read));  // before there is anything
  ASSERT_TRUE((*transfer)->TransferRaw(0, values, 0, sizeof(values), true).has_value());
  ASSERT_TRUE(done->Await().has_value());
  EXPECT_EQ(read[3], 4);
  // The span of the copy ends behind it.
  uint64_t asked = 0, copied = 0;
  for (int i = 0; i < 1000 && copied == 0; ++i) {
    for (const trace::ThreadEvents& thread : session.Take().threads) {
      for (const trace::Event& event : thread.events) {
        if (event.what->name == "enqueue device to host") asked = event.to;
        if (event.what->name != "device to host") continue;
        copied = event.from;
        EXPECT_EQ(event.bytes, 16);
        EXPECT_EQ(event.what->shapes, "f32[4]");
      }
    }
    if (copied == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_NE(asked, 0u);
  EXPECT_EQ(copied, asked);
}

}  // namespace
}  // namespace weft::client
