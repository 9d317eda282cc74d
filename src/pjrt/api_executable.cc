// Slots of executables: compiling, what they are, serializing.
#include <algorithm>
#include <cstring>

#include "client/interrupt.h"
#include "client/tracing.h"
#include "pjrt/api.h"

struct PJRT_SerializedExecutable {
  std::string bytes;
};
struct PJRT_SerializedCompileOptions {
  std::string bytes;
};

namespace weft::pjrt {
namespace {

std::vector<std::string> OutputKinds(const Executable& executable) {
  std::vector<std::string> kinds;
  for (const OutputInfo& output : executable.outputs()) kinds.push_back(output.memory_kind);
  return kinds;
}
std::vector<std::string> OutputShardings(const Executable& executable) {
  std::vector<std::string> shardings;
  for (const OutputInfo& output : executable.outputs()) shardings.push_back(output.sharding);
  return shardings;
}

}  // namespace

ExecutableView::ExecutableView(std::shared_ptr<Executable> e)
    : executable(std::move(e)),
      output_kinds(OutputKinds(*executable)),
      parameter_kinds(executable->parameter_memory_kinds()),
      output_shardings(OutputShardings(*executable)),
      parameter_shardings(executable->parameter_shardings()),
      has_shardings(executable->request().device_count() > 1) {
  for (const OutputInfo& output : executable->outputs()) {
    output_types.push_back(ToBufferType(output.shape.dtype()));
    for (int64_t dim : output.shape.dims()) output_dims.push_back(dim);
    output_ranks.push_back(output.shape.rank());
    layouts.push_back({output.shape.LayoutOrDefault().ToString()});
  }
  for (const Shape& parameter : executable->parameters()) {
    layouts.push_back({parameter.LayoutOrDefault().ToString()});
  }
  for (PJRT_Layouts_MemoryLayout& layout : layouts) layout_list.push_back(&layout);
}

const NamedValues& ExecutableView::Costs() const {
  std::call_once(costs_once_, [this] {
    const CostAnalysis& cost = executable->cost();
    costs_.AddFloat("flops", cost.flops);
    costs_.AddFloat("transcendentals", cost.transcendentals);
    costs_.AddFloat("dot flops", cost.dot_flops);
    costs_.AddFloat("bytes accessed", cost.bytes_accessed);
  });
  return costs_;
}

std::shared_ptr<const std::string> ExecutableView::OptimizedProgram(bool last) const {
  MutexLock lock(program_mutex_);
  std::shared_ptr<const std::string> program = program_;
  if (program == nullptr) {
    program = std::make_shared<const std::string>(executable->OptimizedProto());
  }
  program_ = last ? nullptr : program;
  return program;
}

namespace {

constexpr size_t kMaxProgramBytes = (size_t{1} << 31) - 1;

// The executable on its devices, as the framework carries it.
Result<PJRT_LoadedExecutable*> WrapLoaded(PJRT_Client& client,
                                          std::shared_ptr<const ExecutableView> view) {
  auto wrapped = std::make_unique<PJRT_LoadedExecutable>();
  wrapped->client = &client;
  wrapped->loaded = TRY(LoadedExecutable::Load(*client.client, view->executable));
  const int64_t partitions = std::max<int64_t>(view->executable->request().num_partitions, 1);
  for (size_t i = 0; i < wrapped->loaded->devices().size(); ++i) {
    wrapped->devices.push_back(client.Wrap(wrapped->loaded->devices()[i]));
    wrapped->logical_ids.push_back(
        {static_cast<int>(i / partitions), static_cast<int>(i % partitions)});
  }
  wrapped->view = std::move(view);
  return wrapped.release();
}

// A compilation on a thread of ours: who waits for it can leave at any time.
struct Compilation : Cancellable {
  std::string code, format;
  CompileRequest request;
  uint64_t caller = 0;  // the span of whoever waits
  std::atomic<bool> cancelled = false, settled = false;
  EventRef done = std::make_shared<Event>();
  Result<std::shared_ptr<Executable>> executable = nullptr;  // once `done`
  std::optional<InterruptibleCompilation> interruptible;     // until it is

  void Cancel(std::vector<EventRef>&) override {
    cancelled = true;
    if (settled.exchange(true)) return;
    done->Set(MakeError(Code::kCancelled, "compile: interrupted"));
  }
  Result<std::shared_ptr<Executable>> TryCompile(Client& client) {
    try {
      return Executable::Compile(client, format, std::move(code), std::move(request), &cancelled,
                                 caller);
    } catch (const std::bad_alloc&) {
      return ResourceExhausted("compile: out of memory");
    }
  }
  void Run(Client& client) {
    CancelList::Entry entry(*client.cancels(), cancelled);
    Result<std::shared_ptr<Executable>> made = TryCompile(client);
    if (!settled.exchange(true)) {
      executable = std::move(made);
      done->Set({});
    }
    interruptible.reset();
  }
};

Result<std::shared_ptr<Executable>> CompileAndWait(Client& client, std::string_view format,
                                                   std::string code, CompileRequest request,
                                                   uint64_t caller) {
  NoteCompilation();
  if (!WantsInterrupts()) {
    return Executable::Compile(client, format, std::move(code), std::move(request), nullptr,
                               caller);
  }
  auto work = std::make_shared<Compilation>();
  work->code = std::move(code);
  work->format = format;
  work->request = std::move(request);
  work->caller = caller;
  work->done->SetSource(work);
  work->interruptible.emplace(work->done);  // from now on, so that it is never overlooked
  client.compilers().Schedule([work, &client] { work->Run(client); });
  if (const Status& done = work->done->Await(); !done) return std::unexpected(done.error());
  return std::move(work->executable);
}

Result<std::shared_ptr<const ExecutableView>> CompileProgram(Client& client, const char* caller,
                                                             const PJRT_Program* program,
                                                             std::string_view options,
                                                             const PJRT_Extension_Base* more) {
  TRY(CheckNotNull(program, "program"));
  const std::string_view format = ToView(program->format, program->format_size);
  if (format != "mlir" && format != "hlo" && format != "hlo_with_config") {
    return InvalidArgument("Unknown program format '", format, "'.");
  }
  Result<CompileRequest> request = ParseCompileOptions(options);
  if (!request) {
    return InvalidArgument(
        caller, ": failed to deserialize CompileOptionsProto: ", request.error().message());
  }
  std::string code(ToView(program->code, program->code_size));
  std::shared_ptr<Executable> executable =
      TRY(CompileAndWait(client, format, std::move(code), std::move(*request), CallerOf(more)));
  return std::make_shared<const ExecutableView>(std::move(executable));
}

}  // namespace

namespace slot {

Status Client_Compile(PJRT_Client_Compile_Args& args) {
  args.executable = nullptr;
  REQUIRE_ARG(client);
  auto view = TRY(CompileProgram(*args.client->client, "PJRT_Client_Compile", args.program,
                                 ToView(args.compile_options, args.compile_options_size),
                                 args.extension_start));
  args.executable = TRY(WrapLoaded(*args.client, std::move(view)));
  return {};
}
// Without a client: one that has the topology's devices does it.
Status Compile(PJRT_Compile_Args& args) {
  args.executable = nullptr;
  REQUIRE_ARG(topology);
  auto* topology = const_cast<PJRT_TopologyDescription*>(args.topology);
  Client* client = args.client == nullptr ? nullptr : args.client->client.get();
  if (client == nullptr) {
    MutexLock lock(topology->mutex);
    if (topology->compiler == nullptr) {
      ClientOptions options = TRY(ClientOptions::FromEnvironment());
      options.cpu_devices = std::max<int>(static_cast<int>(topology->devices.size()), 1);
      options.platform_name = topology->platform_name;
      topology->compiler = TRY(Client::Create(std::move(options)));
    }
    client = topology->compiler.get();
  }
  auto view = TRY(CompileProgram(*client, "PJRT_Compile", args.program,
                                 ToView(args.compile_options, args.compile_options_size),
                                 args.extension_start));
  args.executable = new PJRT_Executable{std::move(view)};
  return {};
}
Status Client_Load(PJRT_Client_Load_Args& args) {
  args.loaded_executable = nullptr;
  REQUIRE_ARG(client);
  REQUIRE_ARG(executable);
  args.loaded_executable = TRY(WrapLoaded(*args.client, args.executable->view));
  return {};
}
Status Executable_DeserializeAndLoad(PJRT_Executable_DeserializeAndLoad_Args& args) {
  args.loaded_executable = nullptr;
  REQUIRE_ARG(client);
  CompileOverrides asked;
  if (HAS_FIELD(args, overridden_serialized_compile_options_size) &&
      args.overridden_serialized_compile_options != nullptr) {
    asked = TRY(ParseCompileOptions(ToView(args.overridden_serialized_compile_options,
                                           args.overridden_serialized_compile_options_size)))
                .overrides;
  }
  std::shared_ptr<Executable> executable = TRY(Executable::Deserialize(
      *args.client->client, ToView(args.serialized_executable, args.serialized_executable_size),
      asked));
  args.loaded_executable =
      TRY(WrapLoaded(*args.client, std::make_shared<const ExecutableView>(std::move(executable))));
  return {};
}
Status Executable_Serialize(PJRT_Executable_Serialize_Args& args) {
  args.serialized_executable = nullptr;
  REQUIRE_ARG(executable);
  auto* bytes = new PJRT_SerializedExecutable{args.executable->view->executable->Serialize()};
  args.serialized_executable = bytes;
  args.serialized_bytes = bytes->bytes.data();
  args.serialized_bytes_size = bytes->bytes.size();
  args.serialized_executable_deleter = [](PJRT_SerializedExecutable* p) { delete p; };
  return {};
}

// --- What an executable is ----------------------------------------------------------------------

Status Executable_Destroy(PJRT_Executable_Destroy_Args& args) {
  delete args.executable;
  return {};
}
Status Executable_Name(PJRT_Executable_Name_Args& args) {
  REQUIRE_ARG(executable);
  args.executable_name = args.executable->view->executable->name().data();
  args.executable_name_size = args.executable->view->executable->name().size();
  return {};
}
Status Executable_NumReplicas(PJRT_Executable_NumReplicas_Args& args) {
  REQUIRE_ARG(executable);
  args.num_replicas = args.executable->view->executable->request().num_replicas;
  return {};
}
Status Executable_NumPartitions(PJRT_Executable_NumPartitions_Args& args) {
  REQUIRE_ARG(executable);
  args.num_partitions = args.executable->view->executable->request().num_partitions;
  return {};
}
Status Executable_NumOutputs(PJRT_Executable_NumOutputs_Args& args) {
  REQUIRE_ARG(executable);
  args.num_outputs = args.executable->view->output_types.size();
  return {};
}
Status Executable_SizeOfGeneratedCodeInBytes(
    PJRT_Executable_SizeOfGeneratedCodeInBytes_Args& args) {
  REQUIRE_ARG(executable);
  args.size_in_bytes = args.executable->view->executable->memory().code_bytes;
  return {};
}
Status Executable_Fingerprint(PJRT_Executable_Fingerprint_Args& args) {
  REQUIRE_ARG(executable);
  args.executable_fingerprint = args.executable->view->executable->fingerprint().data();
  args.executable_fingerprint_size = args.executable->view->executable->fingerprint().size();
  return {};
}
Status Executable_GetCostAnalysis(PJRT_Executable_GetCostAnalysis_Args& args) {
  REQUIRE_ARG(executable);
  args.properties = args.executable->view->Costs().data();
  args.num_properties = args.executable->view->Costs().size();
  return {};
}
Status Executable_GetCompiledMemoryStats(PJRT_Executable_GetCompiledMemoryStats_Args& args) {
  REQUIRE_ARG(executable);
  const MemoryAnalysis& memory = args.executable->view->executable->memory();
#define WEFT_SIZE(field, value) \
  if (HAS_FIELD(args, field)) args.field = (value);
  WEFT_SIZE(generated_code_size_in_bytes, memory.code_bytes)
  WEFT_SIZE(argument_size_in_bytes, memory.argument_bytes)
  WEFT_SIZE(output_size_in_bytes, memory.output_bytes)
  WEFT_SIZE(alias_size_in_bytes, memory.alias_bytes)
  WEFT_SIZE(temp_size_in_bytes, memory.temp_bytes)
  WEFT_SIZE(host_generated_code_size_in_bytes, 0)
  WEFT_SIZE(host_argument_size_in_bytes, 0)
  WEFT_SIZE(host_output_size_in_bytes, 0)
  WEFT_SIZE(host_alias_size_in_bytes, 0)
  WEFT_SIZE(host_temp_size_in_bytes, 0)
  WEFT_SIZE(peak_memory_in_bytes, memory.peak_bytes)
  WEFT_SIZE(total_size_in_bytes, memory.peak_bytes)
  WEFT_SIZE(total_allocation_bytes, memory.peak_bytes)
  WEFT_SIZE(indefinite_allocations, 0)
  WEFT_SIZE(peak_unpadded_heap_bytes, memory.peak_bytes)
#undef WEFT_SIZE
  return {};
}
Status Executable_OutputElementTypes(PJRT_Executable_OutputElementTypes_Args& args) {
  REQUIRE_ARG(executable);
  const ExecutableView& view = *args.executable->view;
  args.output_types = const_cast<PJRT_Buffer_Type*>(view.output_types.data());
  args.num_output_types = view.output_types.size();
  return {};
}
Status Executable_OutputDimensions(PJRT_Executable_OutputDimensions_Args& args) {
  REQUIRE_ARG(executable);
  const ExecutableView& view = *args.executable->view;
  args.num_outputs = view.output_ranks.size();
  args.dims = view.output_dims.data();
  args.dim_sizes = view.output_ranks.data();
  return {};
}
Status Executable_OutputMemoryKinds(PJRT_Executable_OutputMemoryKinds_Args& args) {
  REQUIRE_ARG(executable);
  const StringList& kinds = args.executable->view->output_kinds;
  args.num_outputs = kinds.strings.size();
  args.memory_kinds = kinds.addresses.data();
  args.memory_kind_sizes = kinds.sizes.data();
  return {};
}
Status Executable_ParameterMemoryKinds(PJRT_Executable_ParameterMemoryKinds_Args& args) {
  REQUIRE_ARG(executable);
  const StringList& kinds = args.executable->view->parameter_kinds;
  args.num_parameters = kinds.strings.size();
  args.memory_kinds = kinds.addresses.data();
  args.memory_kind_sizes = kinds.sizes.data();
  return {};
}
Status Executable_GetCompileOptions(PJRT_Executable_GetCompileOptions_Args& args) {
  args.serialized_compile_options = nullptr;
  REQUIRE_ARG(executable);
  auto* bytes = new PJRT_SerializedCompileOptions{
      SerializeCompileOptions(args.executable->view->executable->request())};
  args.serialized_compile_options = bytes;
  args.serialized_bytes = bytes->bytes.data();
  args.serialized_bytes_size = bytes->bytes.size();
  args.serialized_compile_options_deleter = [](PJRT_SerializedCompileOptions* p) { delete p; };
  return {};
}
// Called twice: for the size, then with room for the program.
Status Executable_OptimizedProgram(PJRT_Executable_OptimizedProgram_Args& args) {
  REQUIRE_ARG(executable);
  REQUIRE_ARG(program);
  const bool last = args.program->code != nullptr;
  std::shared_ptr<const std::string> program = args.executable->view->OptimizedProgram(last);
  if (program->size() >= kMaxProgramBytes) {
    return ResourceExhausted("PJRT_Executable_OptimizedProgram: the program takes ",
                             program->size(), " bytes, a message can have ", kMaxProgramBytes);
  }
  static constexpr std::string_view kFormat = "hlo_with_config";
  args.program->format = kFormat.data();
  args.program->format_size = kFormat.size();
  if (last) {
    if (args.program->code_size < program->size()) {
      return InvalidArgument("PJRT_Executable_OptimizedProgram: `code_size` must be >= ",
                             program->size(), ", got ", args.program->code_size);
    }
    std::memcpy(args.program->code, program->data(), program->size());
  }
  args.program->code_size = program->size();
  return {};
}

}  // namespace slot
}  // namespace weft::pjrt
