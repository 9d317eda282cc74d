// The environment variables of Weft. One table reads, checks and documents them: the plugin and the
// command take them from here, and `weft help variables` prints it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "compiler/options.h"

namespace weft::client {

enum class Platform : uint8_t { kAny, kCpu, kGpu, kPretend };
std::optional<Platform> ParsePlatform(std::string_view text);  // "cpu", "gpu", "pretend"

// What the variables say; a variable that is not set, or empty, leaves its default.
struct Environment {
  std::string debug;  // the log filter (base/log.h)
  Platform platform = Platform::kAny;
  int cpu_devices = 1;        //
  int gpu_devices = 1;        // logical ones on one GPU
  bool gpu_tune = true;       // algorithms of libraries are tried when a program is loaded
  int threads = 0;            // 0: as many as cores
  int64_t memory_limit = 0;   // bytes; 0: the smaller of cgroup and RAM
  std::string cache;          // the folder of the persistent cache; empty: none
  bool cache_chosen = false;  // by WEFT_CACHE
  std::string dump;           // folder for what was made of each module; empty: none
  bool check = false;         // every step beside the interpreter
  std::string options;        // key=value,... (compiler/options.h)
  std::string report;         // page on all programs of the process; empty: none
  std::string trace;          // file for a timeline of the process; empty: none
  bool crash_report = true;   // signals that end the process are reported
  std::string provoke_crash;  // for tests (inspect/crash_report.h)
};

struct Variable {
  std::string_view name;
  std::string_view takes;      // a phrase that goes behind "expected"
  std::string_view otherwise;  // what holds where it is not set
  std::string_view doc;        // one sentence
  // False: not a value that it takes. An error instead says more.
  Result<bool> (*read)(std::string_view value, Environment& to);
};
std::span<const Variable> Variables();  // alphabetical

// `entries`: "NAME=value" each, ended by null, as `environ` is. A value that a variable does not
// take is an error that names the variable, the value and what it takes.
Result<Environment> ReadEnvironment(const char* const* entries);
// A sentence on each entry that begins with WEFT_ and is no variable: a slip of the pen, probably.
std::vector<std::string> UnknownVariables(const char* const* entries);
// Of this process.
void WarnOfUnknownVariables();

// Of this process, with a warning for each unknown one. Sets the log filter.
Result<Environment> ReadEnvironment();

// "1048576", "512MB" (millions of bytes), "8GiB", "1.5g" (powers of 1024); at least 1.
Result<int64_t> ParseBytes(std::string_view text);

inline constexpr int kMaxCpuDevices = 1024;
inline constexpr int kMaxGpuDevices = 64;
inline constexpr int kMaxThreads = 4096;

}  // namespace weft::client
