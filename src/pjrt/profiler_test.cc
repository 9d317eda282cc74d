// The Profiler extension as jaxlib drives it: argument sizes unset, one call of collect_data.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>

#include "base/wire.h"
#include "client/test_util.h"
#include "client/tracing.h"
#include "pjrt/api.h"

namespace weft::pjrt {
namespace {

using testing::CompileText;
using testing::F32;
using testing::MakeClient;
using testing::RunOne;

constexpr std::string_view kProgram = R"(HloModule step
ENTRY main {
  x = f32[64,64] parameter(0)
  y = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(step)/mlp/dot" source_file="model.py" source_line=7}
  ROOT r = f32[64,64] add(y, x)
})";

const PLUGIN_Profiler_Api& Profiler() {
  const PJRT_Extension_Base* extension = GetApi()->extension_start;
  while (extension != nullptr && extension->type != PJRT_Extension_Type_Profiler) {
    extension = extension->next;
  }
  EXPECT_NE(extension, nullptr);
  return *reinterpret_cast<const PJRT_Profiler_Extension*>(extension)->profiler_api;
}

template <class Args>
Args Garbled() {
  Args args;
  std::memset(static_cast<void*>(&args), 0xa5, sizeof(args));
  return args;
}

// Names of the planes of an XSpace, and of the events that each knows.
std::map<std::string, std::set<std::string>> Planes(std::string_view space) {
  std::map<std::string, std::set<std::string>> planes;
  WireReader reader(space);
  while (reader.Next()) {
    if (reader.field() != 1) continue;
    std::string name;
    std::set<std::string> events;
    WireReader plane(reader.Bytes());
    while (plane.Next()) {
      if (plane.field() == 2) name = plane.Bytes();
      if (plane.field() != 4) continue;
      WireReader entry(plane.Bytes());
      while (entry.Next()) {
        if (entry.field() != 2) continue;
        WireReader metadata(entry.Bytes());
        while (metadata.Next()) {
          if (metadata.field() == 2) events.insert(std::string(metadata.Bytes()));
        }
      }
    }
    EXPECT_TRUE(plane.ok());
    planes[name] = std::move(events);
  }
  EXPECT_TRUE(reader.ok());
  return planes;
}

TEST(Profiler, CollectsWhatRanBetweenStartAndStop) {
  auto client = MakeClient();
  auto argument = F32(*client, std::vector<float>(64 * 64, 1), {64, 64});
  auto create = Garbled<PLUGIN_Profiler_Create_Args>();
  create.options_size = 0;
  ASSERT_EQ(Profiler().create(&create), nullptr);
  auto args = Garbled<PLUGIN_Profiler_Args>();
  args.profiler = create.profiler;
  ASSERT_EQ(Profiler().start(&args), nullptr);
  EXPECT_TRUE(trace::IsOn());
  auto program = CompileText(*client, std::string(kProgram));
  EXPECT_EQ(testing::Floats(*RunOne(*program, {argument.get()}))[0], 65);
  ASSERT_EQ(Profiler().stop(&args), nullptr);
  EXPECT_FALSE(trace::IsOn());

  auto collect = Garbled<PLUGIN_Profiler_CollectData_Args>();
  collect.profiler = create.profiler;
  collect.buffer = nullptr;
  ASSERT_EQ(Profiler().collect_data(&collect), nullptr);
  std::string space(reinterpret_cast<const char*>(collect.buffer), collect.buffer_size_in_bytes);
  auto planes = Planes(space);
  EXPECT_TRUE(planes["/host:CPU"].contains("weft compile: compile step"));
  EXPECT_TRUE(planes["/host:CPU"].contains("weft execute: step"));
  EXPECT_TRUE(planes.contains("/device:TPU:0"));

  ASSERT_EQ(Profiler().destroy(&args), nullptr);
}

TEST(Profiler, ErrorsHaveMessages) {
  auto args = Garbled<PLUGIN_Profiler_Args>();
  args.profiler = nullptr;
  PLUGIN_Profiler_Error* error = Profiler().start(&args);
  ASSERT_NE(error, nullptr);
  auto message = Garbled<PLUGIN_Profiler_Error_Message_Args>();
  message.error = error;
  Profiler().error_message(&message);
  EXPECT_EQ(std::string(message.message, message.message_size), "profiler: there is none");
  auto code = Garbled<PLUGIN_Profiler_Error_GetCode_Args>();
  code.error = error;
  EXPECT_EQ(Profiler().error_get_code(&code), nullptr);
  EXPECT_EQ(code.code, static_cast<int>(Code::kInvalidArgument));
  auto destroy = Garbled<PLUGIN_Profiler_Error_Destroy_Args>();
  destroy.error = error;
  Profiler().error_destroy(&destroy);
}

TEST(Profiler, CallsOfTheFrameworkAreNamed) {
  PJRT_Profiler_Extension extension{};
  extension.base = {sizeof(extension), PJRT_Extension_Type_Profiler, nullptr};
  extension.traceme_context_id = 42;
  EXPECT_EQ(CallerOf(&extension.base), 0u);  // nobody records
  trace::Session session;
  EXPECT_EQ(CallerOf(&extension.base), 42u);
  EXPECT_EQ(CallerOf(nullptr), 0u);
  extension.traceme_context_id = -1;
  EXPECT_EQ(CallerOf(&extension.base), 0u);
}

}  // namespace
}  // namespace weft::pjrt
