// The Profiler extension: jax.profiler.trace starts and stops us beside its own tracers and joins
// what we recorded with theirs.
#include <cstring>
#include <memory>
#include <optional>

#include "base/trace.h"
#include "client/tracing.h"
#include "inspect/trace_xspace.h"
#include "pjrt/api.h"

struct PLUGIN_Profiler_Error {
  std::string message;
  int code;
};
struct PLUGIN_Profiler {
  std::optional<weft::trace::Session> session;
  std::optional<weft::trace::Capture> capture;  // of the session that was stopped
  std::string bytes;                            // the XSpace, for as long as the caller needs it

  std::string Collect() const {
    return capture ? weft::inspect::TraceXSpace(*capture, "Weft cpu") : std::string();
  }
};

namespace weft::pjrt {
namespace {

void ErrorDestroy(PLUGIN_Profiler_Error_Destroy_Args* args) {
  delete args->error;
}
void ErrorMessage(PLUGIN_Profiler_Error_Message_Args* args) {
  args->message = args->error->message.data();
  args->message_size = args->error->message.size();
}
PLUGIN_Profiler_Error* ErrorCode(PLUGIN_Profiler_Error_GetCode_Args* args) {
  args->code = args->error->code;
  return nullptr;
}

PLUGIN_Profiler_Error* NoProfiler() {
  return new PLUGIN_Profiler_Error{"profiler: there is none",
                                   static_cast<int>(Code::kInvalidArgument)};
}

PLUGIN_Profiler_Error* Create(PLUGIN_Profiler_Create_Args* args) {
  args->profiler = new PLUGIN_Profiler;
  return nullptr;
}
PLUGIN_Profiler_Error* Destroy(PLUGIN_Profiler_Args* args) {
  delete args->profiler;
  return nullptr;
}
PLUGIN_Profiler_Error* Start(PLUGIN_Profiler_Args* args) {
  if (args->profiler == nullptr) return NoProfiler();
  args->profiler->capture.reset();
  if (!args->profiler->session) args->profiler->session.emplace();
  return nullptr;
}
PLUGIN_Profiler_Error* Stop(PLUGIN_Profiler_Args* args) {
  if (args->profiler == nullptr) return NoProfiler();
  if (!args->profiler->session) return nullptr;
  args->profiler->capture = args->profiler->session->Take();
  args->profiler->session.reset();
  return nullptr;
}

// The first call gets the size, and what is written at once: some callers never ask again.
PLUGIN_Profiler_Error* CollectData(PLUGIN_Profiler_CollectData_Args* args) {
  if (args->profiler == nullptr) return NoProfiler();
  std::string& bytes = args->profiler->bytes;
  if (args->buffer != nullptr) {
    std::memcpy(args->buffer, bytes.data(), bytes.size());
    return nullptr;
  }
  bytes = args->profiler->Collect();
  args->buffer = reinterpret_cast<uint8_t*>(bytes.data());
  args->buffer_size_in_bytes = bytes.size();
  return nullptr;
}

constexpr PLUGIN_Profiler_Api kProfilerApi = {
    .struct_size = sizeof(PLUGIN_Profiler_Api),
    .priv = nullptr,
    .error_destroy = ErrorDestroy,
    .error_message = ErrorMessage,
    .error_get_code = ErrorCode,
    .create = Create,
    .destroy = Destroy,
    .start = Start,
    .stop = Stop,
    .collect_data = CollectData,
};

}  // namespace

const PLUGIN_Profiler_Api* ProfilerApi() {
  return &kProfilerApi;
}

uint64_t CallerOf(const PJRT_Extension_Base* extensions) {
  if (!trace::IsOn()) return 0;
  for (; extensions != nullptr; extensions = extensions->next) {
    if (extensions->type != PJRT_Extension_Type_Profiler ||
        extensions->struct_size < sizeof(PJRT_Profiler_Extension)) {
      continue;
    }
    int64_t id = reinterpret_cast<const PJRT_Profiler_Extension*>(extensions)->traceme_context_id;
    return id > 0 ? static_cast<uint64_t>(id) : 0;
  }
  return 0;
}

}  // namespace weft::pjrt
