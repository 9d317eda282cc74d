// One client of the plugin: devices, threads, caches. Several may live in one process.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/kept_threads.h"
#include "base/metrics.h"
#include "client/accelerator.h"
#include "client/cancel.h"
#include "client/compile_history.h"
#include "client/device.h"
#include "client/environment.h"
#include "client/executor.h"
#include "client/task_gate.h"
#include "runtime/device.h"
#include "runtime/profile.h"

namespace weft::inspect {
class ReportFile;  // report.h
}

namespace weft::client {

class Cache;  // cache.h

struct ClientOptions {
  Platform platform = Platform::kAny;  // what the devices are
  int cpu_devices = 1;
  int gpu_devices = 1;                 // logical ones, all on one GPU
  bool gpu_tune = true;                // algorithms of NVIDIA's libraries are tried (gpu/)
  int threads = 0;                     // 0: as many as cores
  int64_t memory_limit = 0;            // bytes; 0: the smaller of cgroup and RAM
  std::string cache_directory;         // empty: no persistent cache
  bool cache_chosen = false;           // by the user, who is told when it cannot be used
  std::string platform_name = "weft";  // what devices answer; `cpu` where programs expect it
  std::string report_file;       // page on all programs of the process (reporting.h); empty: none
  std::string trace_file;        // timeline of the whole process, written at its end; empty: none
  std::string dump_directory;    // gets a folder for every compiled module; empty: none
  std::string compiler_options;  // "key=value,..." (compiler/options.h)
  // Runs every step beside the interpreter and every program beside the evaluator; a difference is
  // an error. Slow.
  bool check = false;
  // A signal that ends the process while a program is compiled or runs is reported
  // (inspect/crash_report.h).
  bool crash_report = false;
  std::string provoke_crash;  // for tests
  // What the variables say (environment.h); sets the log filter.
  static Result<ClientOptions> FromEnvironment();
};

// How many threads work on programs from now on, of all clients of the process; at most as many as
// there are cores.
void SetThreads(int threads);

class Client {
 public:
  static Result<std::unique_ptr<Client>> Create(ClientOptions options);
  ~Client();  // waits for work in flight (a loop that runs is cancelled)
  // As its destructor; but where a run is inside a routine of LAPACK's that does not end soon, or
  // was given up (Ctrl-C) and does not, the client is left to it, and the process does not wait for
  // it.
  static void End(std::unique_ptr<Client> client);
  Client(const Client&) = delete;

  const ClientOptions& options() const { return options_; }
  const std::string& platform_name() const { return options_.platform_name; }
  const std::string& platform_version() const { return platform_version_; }  // "weft 0.1.0 SOURCES"
  const std::vector<std::unique_ptr<Device>>& devices() const { return devices_; }
  const std::vector<std::unique_ptr<Memory>>& memories() const { return memories_; }
  Result<Device*> FindDevice(int64_t id) const;
  // [replica * partitions + partition], the first devices in order.
  Result<std::vector<int64_t>> DefaultAssignment(int64_t replicas, int64_t partitions) const;
  Executor& executor() { return *executor_; }
  const std::shared_ptr<TaskGate>& gate() const { return gate_; }
  Executor& compilers() { return *compilers_; }           // for what is compiled, beside executions
  int64_t memory_limit() const { return memory_limit_; }  // bytes of the host, for all devices
  Cache* cache() { return cache_.get(); }                 // null: none
  const std::atomic<bool>& cancelled() const { return cancelled_; }
  const std::shared_ptr<CancelList>& cancels() const { return cancels_; }
  // Compiles for this machine; null in a build without native code. Made when first asked for.
  runtime::Device* native_device();
  // The GPU that all devices of the client are on; null: they are the host's processor.
  runtime::Device* gpu() const { return gpu_.get(); }
  const std::string& machine() const { return machine_; }               // what code is made for
  runtime::ObjectCache* object_cache() { return object_cache_.get(); }  // null: none
  // For programs whose devices wait for each other.
  KeptThreads& device_threads() { return device_threads_; }
  CompileHistory& history() { return history_; }
  // What this machine does at best; measured when first asked for.
  const runtime::Roofline& roofline();
  inspect::ReportFile* report() { return report_; }  // null: none is wanted
  // `bytes` more for one array would exceed the limit: an error that says what is in use.
  Status CheckMemory(int64_t bytes) const;

 private:
  explicit Client(ClientOptions options);
  void CancelWork();
  Status MakeDevices();
  void ReadGauges(std::vector<metrics::Sample>& samples) const;
  ClientOptions options_;
  int64_t memory_limit_ = 0;
  std::string platform_version_, machine_;
  std::shared_ptr<runtime::Device> gpu_;
  std::vector<std::unique_ptr<Accelerator>> accelerators_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::unique_ptr<Memory>> memories_;
  std::unique_ptr<Cache> cache_;
  std::unique_ptr<runtime::ObjectCache> object_cache_;
  std::once_flag native_once_, roofline_once_;
  std::unique_ptr<runtime::Device> native_device_;
  CompileHistory history_;
  inspect::ReportFile* report_ = nullptr;
  runtime::Roofline roofline_;
  std::atomic<bool> cancelled_ = false;
  std::shared_ptr<CancelList> cancels_ = std::make_shared<CancelList>();
  std::shared_ptr<TaskGate> gate_;
  KeptThreads device_threads_;
  std::unique_ptr<Executor> executor_, compilers_;  // their tasks use the rest
  std::unique_ptr<metrics::Source> gauges_;         // last: reads the rest
};

}  // namespace weft::client
