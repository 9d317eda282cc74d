// Slots that run executables.
#include "client/tracing.h"
#include "pjrt/api.h"

namespace weft::pjrt {
namespace {

Status CheckExecuteArguments(const PJRT_LoadedExecutable_Execute_Args& args) {
  const size_t devices = args.executable->devices.size();
  const bool placed = HAS_FIELD(args, execute_device) && args.execute_device != nullptr;
  if (args.num_devices != (placed ? 1 : devices)) {
    return InvalidArgument("execute: ", args.num_devices, " argument lists for a program on ",
                           placed ? 1 : devices, " devices");
  }
  const size_t parameters = args.executable->view->executable->parameters().size();
  if (args.num_args != parameters) {
    return InvalidArgument("execute: ", args.num_args, " arguments for a program with ", parameters,
                           " parameters");
  }
  TRY(CheckNotNull(args.output_lists, "output_lists"));
  if (args.num_args != 0) TRY(CheckNotNull(args.argument_lists, "argument_lists"));
  for (size_t d = 0; d < args.num_devices; ++d) {
    for (size_t i = 0; i < args.num_args; ++i) {
      if (args.argument_lists[d] == nullptr || args.argument_lists[d][i] == nullptr) {
        return InvalidArgument("execute: argument ", i, " on device ", d, " is null");
      }
    }
  }
  const PJRT_ExecuteOptions* options = args.options;
  if (options != nullptr && HAS_FIELD(*options, num_recv_ops) &&
      (options->num_send_ops != 0 || options->num_recv_ops != 0)) {
    return Unimplemented("execute: send and recv callbacks");
  }
  return {};
}

void ReturnOutputs(PJRT_LoadedExecutable_Execute_Args& args, ExecuteResult result) {
  for (size_t d = 0; d < args.num_devices; ++d) {
    const std::span<std::unique_ptr<Buffer>> outputs = result.outputs[d];
    for (size_t k = 0; k < outputs.size(); ++k) {
      args.output_lists[d][k] = new PJRT_Buffer(args.executable->client, std::move(outputs[k]));
    }
    if (args.device_complete_events != nullptr) {
      args.device_complete_events[d] = ToC(std::move(result.done[d]));
    }
  }
}

}  // namespace

namespace slot {

Status LoadedExecutable_Execute(PJRT_LoadedExecutable_Execute_Args& args) {
  REQUIRE_ARG(executable);
  TRY(CheckExecuteArguments(args));
  std::vector<Buffer*> buffers;
  buffers.reserve(args.num_devices * args.num_args);
  std::vector<Buffer* const*> lists;
  lists.reserve(args.num_devices);
  for (size_t d = 0; d < args.num_devices; ++d) {
    lists.push_back(buffers.data() + buffers.size());
    for (size_t i = 0; i < args.num_args; ++i) {
      buffers.push_back(args.argument_lists[d][i]->buffer.get());
    }
  }
  ExecuteRequest request;
  request.arguments = lists;
  request.argument_count = static_cast<int64_t>(args.num_args);
  request.caller = CallerOf(args.extension_start);
  const PJRT_ExecuteOptions* options = args.options;
  if (options != nullptr && HAS_FIELD(*options, num_non_donatable_input_indices) &&
      options->num_non_donatable_input_indices != 0 &&
      options->non_donatable_input_indices != nullptr) {
    request.not_donated =
        std::span(options->non_donatable_input_indices, options->num_non_donatable_input_indices);
  }
  if (HAS_FIELD(args, execute_device) && args.execute_device != nullptr) {
    request.device = args.execute_device->device;
  }
  ExecuteResult result = TRY(args.executable->loaded->Execute(request));
  if (result.outputs.size() != args.num_devices || result.done.size() != args.num_devices) {
    return MakeError(Code::kInternal, "execute: results of ", result.outputs.size(), " devices");
  }
  ReturnOutputs(args, std::move(result));
  return {};
}

Status ExecuteContext_Create(PJRT_ExecuteContext_Create_Args& args) {
  args.context = new PJRT_ExecuteContext;
  return {};
}
Status ExecuteContext_Destroy(PJRT_ExecuteContext_Destroy_Args& args) {
  delete args.context;
  return {};
}

}  // namespace slot
}  // namespace weft::pjrt
