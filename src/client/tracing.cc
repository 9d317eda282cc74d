#include "client/tracing.h"

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>

#include "base/log.h"
#include "base/mutex.h"
#include "inspect/trace_json.h"

namespace weft::client {
namespace {

// Those that are under way, never destroyed: the process writes its own at its very end.
struct Traces {
  static Traces& Get() {
    static Traces& traces = *new Traces;
    return traces;
  }
  std::once_flag once;
  std::unique_ptr<inspect::TraceFile> of_process;
  Mutex mutex;
  std::map<int64_t, std::unique_ptr<inspect::TraceFile>> asked WEFT_GUARDED_BY(mutex);
  int64_t next WEFT_GUARDED_BY(mutex) = 1;
};

void WriteAtExit() {
  if (Status written = Traces::Get().of_process->Write(); !written) {
    LOG(warn) << "WEFT_TRACE: " << written.error();
  }
}

}  // namespace

void TraceProcess(const std::string& path) {
  std::call_once(Traces::Get().once, [&] {
    Traces::Get().of_process = std::make_unique<inspect::TraceFile>(path);
    std::atexit(WriteAtExit);
  });
}

int64_t BeginTrace(std::string path) {
  auto file = std::make_unique<inspect::TraceFile>(std::move(path));
  MutexLock lock(Traces::Get().mutex);
  int64_t number = Traces::Get().next++;
  Traces::Get().asked[number] = std::move(file);
  return number;
}

Status EndTrace(int64_t number) {
  std::unique_ptr<inspect::TraceFile> file;
  {
    MutexLock lock(Traces::Get().mutex);
    auto found = Traces::Get().asked.find(number);
    if (found == Traces::Get().asked.end()) {
      return InvalidArgument("trace: number ", number, " was not begun, or has ended");
    }
    file = std::move(found->second);
    Traces::Get().asked.erase(found);
  }
  return file->Write();
}

}  // namespace weft::client
