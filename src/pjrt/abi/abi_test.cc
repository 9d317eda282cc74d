// Every offset and size of the C interface, against a table made from the interface itself.
#include <gtest/gtest.h>

#include "pjrt/abi/abi_args.h"
#include "pjrt/abi/abi_extensions.h"
#include "pjrt/ffi/ffi_abi.h"

// The structs inherit their first two fields: offsetof is well defined with the compilers we use.
#pragma GCC diagnostic ignored "-Winvalid-offsetof"

namespace weft::pjrt {
namespace {

TEST(Abi, OffsetsAndSizes) {
  int fields = 0, structs = 0;
#define STRUCT(name, size) \
  ++structs;               \
  EXPECT_EQ(sizeof(name), size_t{size}) << #name;
#define FIELD(name, field, offset, size)                                 \
  ++fields;                                                              \
  EXPECT_EQ(offsetof(name, field), size_t{offset}) << #name "::" #field; \
  EXPECT_EQ(sizeof(name::field), size_t{size}) << #name "::" #field;
#include "pjrt/abi/abi_offsets.inc"
#undef FIELD
#undef STRUCT
  EXPECT_EQ(structs, 163);
  EXPECT_EQ(fields, 905);
}

TEST(Abi, SlotK) {
  const char* names[] = {
      "Error_Destroy",
      "Error_Message",
#define SLOT(name) #name,
#include "pjrt/abi/abi_slots.inc"
#undef SLOT
  };
  EXPECT_EQ(std::size(names), 138u);
  EXPECT_EQ(sizeof(PJRT_Api), 1144u);
  EXPECT_EQ(offsetof(PJRT_Api, PJRT_Error_Destroy), 40u);
  EXPECT_EQ(offsetof(PJRT_Api, PJRT_Client_Compile), 40u + 8 * 20);
  EXPECT_EQ(offsetof(PJRT_Api, PJRT_Buffer_IsOnCpu), 40u + 8 * 71);
  EXPECT_EQ(offsetof(PJRT_Api, PJRT_Error_ForEachPayload), 40u + 8 * 132);
  EXPECT_EQ(offsetof(PJRT_Api, PJRT_TopologyDescription_GetMemorySpaceKindIds), 40u + 8 * 137);
}

TEST(Abi, Extensions) {
  EXPECT_EQ(sizeof(PJRT_Layouts_Extension), 24u + 7 * 8);
  EXPECT_EQ(sizeof(PJRT_Shardings_Extension), 24u + 2 * 8);
  EXPECT_EQ(sizeof(PJRT_FFI_Extension), 24u + 3 * 8);
  EXPECT_EQ(sizeof(PJRT_MemoryDescriptions_Extension), 24u + 2 * 8);
  EXPECT_EQ(sizeof(PJRT_Stream_Extension), 24u + 2 * 8);
  EXPECT_EQ(sizeof(PJRT_Profiler_Extension), 24u + 2 * 8);
  EXPECT_EQ(sizeof(PLUGIN_Profiler_Api), 10u * 8);  // what jaxlib 0.10 insists on
  EXPECT_EQ(offsetof(PLUGIN_Profiler_Api, create), 5u * 8);
  EXPECT_EQ(offsetof(PLUGIN_Profiler_Api, collect_data), 9u * 8);
  EXPECT_EQ(offsetof(PLUGIN_Profiler_CollectData_Args, buffer_size_in_bytes), 3u * 8);
  EXPECT_EQ(offsetof(PJRT_FFI_Register_Handler_Args, handler), 24u);
  EXPECT_EQ(offsetof(PJRT_Layouts_MemoryLayout_Serialize_Args, serialized_layout_deleter), 48u);
}

TEST(Abi, TypedFfi) {
  EXPECT_EQ(sizeof(XLA_FFI_Buffer), 48u);
  EXPECT_EQ(sizeof(XLA_FFI_Args), 40u);
  EXPECT_EQ(sizeof(XLA_FFI_Attrs), 48u);
  EXPECT_EQ(offsetof(XLA_FFI_CallFrame, args), 40u);
  EXPECT_EQ(offsetof(XLA_FFI_CallFrame, attrs), 120u);
  EXPECT_EQ(offsetof(XLA_FFI_CallFrame, future), 168u);
  EXPECT_EQ(sizeof(XLA_FFI_CallFrame), 176u);
  EXPECT_EQ(offsetof(XLA_FFI_Api, XLA_FFI_Error_Create), 48u);
  EXPECT_EQ(offsetof(XLA_FFI_Api, XLA_FFI_DeviceOrdinal_Get), 48u + 8 * 17);
  EXPECT_EQ(offsetof(XLA_FFI_Metadata, traits), 32u);
}

}  // namespace
}  // namespace weft::pjrt
