// The extensions of PJRT_Api.
#include <algorithm>
#include <cstring>

#include "base/metrics.h"
#include "client/cost.h"
#include "client/tracing.h"
#include "hlo/import/import.h"
#include "pjrt/api.h"
#include "pjrt/ffi/ffi.h"
#include "pjrt/ffi/ffi_internal.h"

struct PJRT_Layouts_SerializedLayout {
  std::string bytes;
};

namespace weft::pjrt {

template <>
inline constexpr size_t kMinimumSize<PJRT_FFI_Register_Handler_Args> = 48;

namespace {

// --- Layouts ------------------------------------------------------------------------------------

Status LayoutDestroy(PJRT_Layouts_MemoryLayout_Destroy_Args& args) {
  delete args.layout;
  return {};
}
Status LayoutSerialize(PJRT_Layouts_MemoryLayout_Serialize_Args& args) {
  args.serialized_layout = nullptr;
  REQUIRE_ARG(layout);
  auto* bytes = new PJRT_Layouts_SerializedLayout{args.layout->text};
  args.serialized_layout = bytes;
  args.serialized_bytes = bytes->bytes.data();
  args.serialized_bytes_size = bytes->bytes.size();
  args.serialized_layout_deleter = [](PJRT_Layouts_SerializedLayout* p) { delete p; };
  return {};
}
Status LayoutOfBuffer(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args& args) {
  args.layout = nullptr;
  REQUIRE_ARG(buffer);
  args.layout =
      new PJRT_Layouts_MemoryLayout{args.buffer->buffer->shape().LayoutOrDefault().ToString()};
  return {};
}
template <class Args>
Status DefaultLayout(Args& args) {
  args.layout = nullptr;
  const Shape shape = TRY(ToShape(args.type, args.dims, args.num_dims));
  args.layout = new PJRT_Layouts_MemoryLayout{Layout::RowMajor(shape.rank()).ToString()};
  return {};
}
Status LayoutsOfOutputs(PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args& args) {
  REQUIRE_ARG(executable);
  const ExecutableView& view = *args.executable->view;
  args.num_outputs = view.output_types.size();
  args.layouts = const_cast<PJRT_Layouts_MemoryLayout**>(view.layout_list.data());
  return {};
}
Status LayoutsOfParameters(PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args& args) {
  REQUIRE_ARG(executable);
  const ExecutableView& view = *args.executable->view;
  args.num_parameters = view.executable->parameters().size();
  args.layouts =
      const_cast<PJRT_Layouts_MemoryLayout**>(view.layout_list.data()) + view.output_types.size();
  return {};
}

// --- Shardings ----------------------------------------------------------------------------------

// Programs of one device have none.
Status ShardingsOfParameters(PJRT_Shardings_PJRT_Executable_ParameterShardings_Args& args) {
  REQUIRE_ARG(executable);
  const ExecutableView& view = *args.executable->view;
  args.num_parameters = view.executable->parameters().size();
  args.shardings = view.has_shardings ? view.parameter_shardings.addresses.data() : nullptr;
  args.sharding_sizes = view.has_shardings ? view.parameter_shardings.sizes.data() : nullptr;
  return {};
}
Status ShardingsOfOutputs(PJRT_Shardings_PJRT_Executable_OutputShardings_Args& args) {
  REQUIRE_ARG(executable);
  const ExecutableView& view = *args.executable->view;
  args.num_outputs = view.output_types.size();
  args.shardings = view.has_shardings ? view.output_shardings.addresses.data() : nullptr;
  args.sharding_sizes = view.has_shardings ? view.output_shardings.sizes.data() : nullptr;
  return {};
}

// --- FFI ----------------------------------------------------------------------------------------

Status FfiTypeRegister(PJRT_FFI_Type_Register_Args& args) {
  args.type_id =
      TRY(RegisterFfiType(ToView(args.type_name, args.type_name_size), args.type_id,
                          args.type_info == nullptr ? nullptr : args.type_info->deleter));
  return {};
}
Status FfiUserDataAdd(PJRT_FFI_UserData_Add_Args& args) {
  REQUIRE_ARG(context);
  MutexLock lock(args.context->mutex);
  args.context->user_data.push_back(args.user_data);
  return {};
}
Status FfiRegisterHandler(PJRT_FFI_Register_Handler_Args& args) {
  REQUIRE_ARG(handler);
  FfiTarget target;
  target.bundle.execute = reinterpret_cast<XLA_FFI_Handler*>(args.handler);
  return RegisterFfiTarget(std::string(ToView(args.target_name, args.target_name_size)), target);
}

// --- Memories of a topology's devices -----------------------------------------------------------

Status MemoriesOfDevice(PJRT_DeviceDescription_MemoryDescriptions_Args& args) {
  auto describe = [](Memory::Kind kind) {
    return PJRT_MemoryDescription{std::string(Memory::NameOf(kind)), Memory::IdOf(kind)};
  };
  static const PJRT_MemoryDescription kDevice = describe(Memory::Kind::kDevice);
  static const PJRT_MemoryDescription kPinned = describe(Memory::Kind::kPinnedHost);
  static const PJRT_MemoryDescription kUnpinned = describe(Memory::Kind::kUnpinnedHost);
  static const PJRT_MemoryDescription* const kAll[] = {&kDevice, &kPinned, &kUnpinned};
  args.memory_descriptions = kAll;
  args.num_memory_descriptions = std::size(kAll);
  args.default_memory_index = 0;
  return {};
}
Status KindOfMemory(PJRT_MemoryDescription_Kind_Args& args) {
  REQUIRE_ARG(memory_description);
  args.kind = args.memory_description->kind.data();
  args.kind_size = args.memory_description->kind.size();
  args.kind_id = args.memory_description->kind_id;
  return {};
}

// --- Streams that other libraries know, of which a CPU has none ---------------------------------

Status GetStream(PJRT_Get_Stream_For_External_Ready_Events_Args& args) {
  args.stream = 0;
  if (args.device == nullptr) {
    return InvalidArgument("PJRT_Get_Stream_For_External_Ready_Events: device is null");
  }
  Accelerator* on = args.device->device->accelerator();
  void* handle = on == nullptr ? nullptr : on->compute().stream().native_handle();
  if (handle == nullptr) {
    return Unimplemented("PJRT_Get_Stream_For_External_Ready_Events: the device has no streams");
  }
  args.stream = reinterpret_cast<intptr_t>(handle);
  return {};
}
// The host waits, which is more than was asked for.
Status WaitStream(PJRT_Wait_Until_Buffer_Ready_On_Stream_Args& args) {
  if (args.buffer == nullptr) {
    return InvalidArgument("PJRT_Wait_Until_Buffer_Ready_On_Stream: buffer is null");
  }
  if (args.buffer->buffer->on_host()) {
    return Unimplemented("PJRT_Wait_Until_Buffer_Ready_On_Stream: a CPU has no streams");
  }
  return args.buffer->buffer->ready()->Await();
}

// --- Our own ------------------------------------------------------------------------------------

Status RegisterTargetOf(std::string_view name, int32_t api_version, void* const (&stages)[4]) {
  FfiTarget target;
  if (api_version < 1 || api_version > 4) {
    return InvalidArgument("custom call ", name, ": unknown api version ", api_version);
  }
  target.api_version = static_cast<hlo::ApiVersion>(api_version);
  if (target.api_version == hlo::ApiVersion::kTypedFfi) {
    XLA_FFI_Handler* handlers[4];
    for (int i = 0; i < 4; ++i) handlers[i] = reinterpret_cast<XLA_FFI_Handler*>(stages[i]);
    target.bundle = {handlers[0], handlers[1], handlers[2], handlers[3]};
  } else {
    target.function = stages[3];
  }
  return RegisterFfiTarget(std::string(name), target);
}
PJRT_Error* RegisterTarget(const char* name, int64_t name_size, int32_t api_version,
                           void* instantiate, void* prepare, void* initialize, void* execute) {
  const std::string_view view = ToView(name, name_size < 0 ? 0 : static_cast<size_t>(name_size));
  return ToC(RegisterTargetOf(view, api_version, {instantiate, prepare, initialize, execute}));
}

Status AnalyseCostOf(std::string_view program, double* costs) {
  if (program.empty() || costs == nullptr) return InvalidArgument("cost analysis: no program");
  const std::unique_ptr<hlo::Module> module = TRY(hlo::ReadModule(std::string(program)));
  const CostAnalysis cost = AnalyseCost(*module);
  costs[0] = cost.flops;
  costs[1] = cost.transcendentals;
  costs[2] = cost.bytes_accessed;
  costs[3] = cost.dot_flops;
  return {};
}
PJRT_Error* AnalyseCostSlot(const char* program, int64_t program_size, double* costs) {
  const size_t size = program_size < 0 ? 0 : static_cast<size_t>(program_size);
  return ToC(AnalyseCostOf(ToView(program, size), costs));
}

int64_t MetricsSlot(int32_t format, char* out, int64_t size) {
  const std::string text = format == 0 ? metrics::PrometheusText() : metrics::JsonText();
  const int64_t bytes = std::min(size, static_cast<int64_t>(text.size()));
  if (out != nullptr && bytes > 0) std::memcpy(out, text.data(), static_cast<size_t>(bytes));
  return static_cast<int64_t>(text.size());
}
int64_t BeginTraceSlot(const char* path, int64_t path_size) {
  return BeginTrace(std::string(ToView(path, path_size < 0 ? 0 : static_cast<size_t>(path_size))));
}
PJRT_Error* EndTraceSlot(int64_t number) {
  return ToC(EndTrace(number));
}

// The list, last element first.
struct AllExtensions {
  WeftExtension weft{};
  PJRT_Profiler_Extension profiler{};
  PJRT_Stream_Extension stream{};
  PJRT_MemoryDescriptions_Extension memories{};
  PJRT_FFI_Extension ffi{};
  PJRT_Shardings_Extension shardings{};
  PJRT_Layouts_Extension layouts{};
  PJRT_Extension_Base* first = nullptr;

  template <class Extension>
  void Link(Extension& extension, int32_t type) {
    extension.base = {sizeof(Extension), static_cast<PJRT_Extension_Type>(type), first};
    first = &extension.base;
  }
  AllExtensions() {
    weft.set_callback_trampoline = SetCallbackTrampoline;
    weft.register_target = RegisterTarget;
    weft.set_host_views = SetHostViews;
    weft.set_threads = [](int32_t threads) { SetThreads(threads); };
    weft.analyse_cost = AnalyseCostSlot;
    weft.set_interrupts = SetInterrupts;
    weft.metrics = MetricsSlot;
    weft.begin_trace = BeginTraceSlot;
    weft.end_trace = EndTraceSlot;
    weft.compilations_asked = CompilationsAsked;
    Link(weft, kWeftExtensionType);
    profiler.profiler_api = ProfilerApi();
    profiler.traceme_context_id = -1;
    Link(profiler, PJRT_Extension_Type_Profiler);
    stream.get_stream = Slot<GetStream>::Call;
    stream.wait_stream = Slot<WaitStream>::Call;
    Link(stream, PJRT_Extension_Type_Stream);
    memories.of_device = Slot<MemoriesOfDevice>::Call;
    memories.kind = Slot<KindOfMemory>::Call;
    Link(memories, PJRT_Extension_Type_MemoryDescriptions);
    ffi.type_register = Slot<FfiTypeRegister>::Call;
    ffi.user_data_add = Slot<FfiUserDataAdd>::Call;
    ffi.register_handler = Slot<FfiRegisterHandler>::Call;
    Link(ffi, PJRT_Extension_Type_FFI);
    shardings.of_parameters = Slot<ShardingsOfParameters>::Call;
    shardings.of_outputs = Slot<ShardingsOfOutputs>::Call;
    Link(shardings, PJRT_Extension_Type_Shardings);
    layouts.memory_layout_destroy = Slot<LayoutDestroy>::Call;
    layouts.memory_layout_serialize = Slot<LayoutSerialize>::Call;
    layouts.client_default =
        Slot<DefaultLayout<PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args>>::Call;
    layouts.of_buffer = Slot<LayoutOfBuffer>::Call;
    layouts.topology_default =
        Slot<DefaultLayout<PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args>>::Call;
    layouts.of_outputs = Slot<LayoutsOfOutputs>::Call;
    layouts.of_parameters = Slot<LayoutsOfParameters>::Call;
    Link(layouts, PJRT_Extension_Type_Layouts);
  }
};

}  // namespace

PJRT_Extension_Base* Extensions() {
  static AllExtensions* const all = new AllExtensions;
  return all->first;
}

}  // namespace weft::pjrt
