#include "client/environment.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <optional>

#include "base/log.h"
#include "base/nearest.h"
#include "compiler/pipeline.h"

namespace weft::client {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 60;

// Tags of messages (VLOG, NOTE) and modules whose folder is one (LOG). A test looks for others.
constexpr std::string_view kLogTags[] = {
    "attention", "base",    "cache",   "check",    "code",    "compile", "compiler",
    "copies",    "cpu",     "fuse",    "gpu",      "inspect", "hlo",     "pass",
    "pjrt",      "program", "runtime", "schedule", "serve",   "step",    "tools"};

// Of the build and the tests.
constexpr std::string_view kOtherNames[] = {"WEFT_BUILD_DIR", "WEFT_CORPUS", "WEFT_CORPUS_SAMPLE",
                                            "WEFT_CYCLES", "WEFT_PLUGIN"};

bool ReadNumber(std::string_view text, int highest, int& to) {
  std::optional<int64_t> value = ParseInt(text);
  if (!value || *value < 1 || *value > highest) return false;
  to = static_cast<int>(*value);
  return true;
}

bool ReadSwitch(std::string_view text, bool& to) {
  to = text == "1";
  return to || text == "0";
}

// A word that means on or off would otherwise be a folder of that name.
bool IsFolder(std::string_view text) {
  constexpr std::string_view kWords[] = {"1", "on", "off", "true", "false", "yes", "no", "none"};
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return std::find(std::begin(kWords), std::end(kWords), lower) == std::end(kWords);
}

Result<bool> ReadAs(std::string_view text, Environment&) {
  return text == "cpu" || text == "weft";  // the Python package acts on it
}
Result<bool> ReadCache(std::string_view text, Environment& to) {
  to.cache_chosen = true;
  to.cache = text == "0" ? "" : text;
  return IsFolder(text);
}
Result<bool> ReadCheck(std::string_view text, Environment& to) {
  return ReadSwitch(text, to.check);
}
Result<bool> ReadCpuDevices(std::string_view text, Environment& to) {
  return ReadNumber(text, kMaxCpuDevices, to.cpu_devices);
}
Result<bool> ReadCrashReport(std::string_view text, Environment& to) {
  return ReadSwitch(text, to.crash_report);
}
Result<bool> ReadDebug(std::string_view text, Environment& to) {
  to.debug = text;
  while (!text.empty()) {
    std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    size_t equals = item.find('=');
    std::optional<int64_t> level = ParseInt(equals == item.npos ? item : item.substr(equals + 1));
    if (!level || *level < 0 || *level > 9) return false;
    std::string_view tag = equals == item.npos ? "step" : item.substr(0, equals);
    if (std::find(std::begin(kLogTags), std::end(kLogTags), tag) == std::end(kLogTags)) {
      auto error = InvalidArgument("unknown tag: ", tag, DidYouMean(tag, kLogTags));
      error.error().Hint("tags are " + StrJoin(kLogTags, ", "));
      return error;
    }
  }
  return true;
}
Result<bool> ReadDefault(std::string_view text, Environment&) {
  bool unused = false;
  return ReadSwitch(text, unused);
}
Result<bool> ReadDump(std::string_view text, Environment& to) {
  to.dump = text;
  return IsFolder(text) && text != "0";
}
Result<bool> ReadGpuDevices(std::string_view text, Environment& to) {
  return ReadNumber(text, kMaxGpuDevices, to.gpu_devices);
}
Result<bool> ReadLibrary(std::string_view, Environment&) {
  return true;
}
Result<bool> ReadMemoryLimit(std::string_view text, Environment& to) {
  Result<int64_t> bytes = ParseBytes(text);
  if (bytes) to.memory_limit = *bytes;
  return bytes.has_value();
}
Result<bool> ReadGpuTune(std::string_view text, Environment& to) {
  return ReadSwitch(text, to.gpu_tune);
}
Result<bool> ReadOptions(std::string_view text, Environment& to) {
  to.options = text;
  compiler::CompileOptions options;
  TRY(compiler::ParseOptions(text, options));
  for (const std::string& name : options.pipeline.disable) TRY(compiler::FindPasses(name));
  return true;
}
Result<bool> ReadPlatform(std::string_view text, Environment& to) {
  std::optional<Platform> platform = ParsePlatform(text);
  to.platform = platform.value_or(Platform::kAny);
  return platform.has_value();
}
Result<bool> ReadProvokeCrash(std::string_view text, Environment& to) {
  to.provoke_crash = text;
  return text.contains(':');
}
Result<bool> ReadReport(std::string_view text, Environment& to) {
  to.report = text;
  return IsFolder(text) && text != "0";  // a name, no word that means on or off
}
Result<bool> ReadTrace(std::string_view text, Environment& to) {
  to.trace = text;
  return IsFolder(text) && text != "0";  // a name, no word that means on or off
}
Result<bool> ReadThreads(std::string_view text, Environment& to) {
  return ReadNumber(text, kMaxThreads, to.threads);
}

constexpr Variable kVariables[] = {
    {"WEFT_AS", "cpu or weft", "weft",
     "cpu: Weft takes the place of XLA's CPU, for libraries that go by a list of platforms.",
     ReadAs},
    {"WEFT_CACHE", "0 for none, or a folder",
     "weft in XDG_CACHE_HOME, or in .cache of the home folder",
     "Where compiled programs are kept for later processes (docs/cache.md).", ReadCache},
    {"WEFT_CHECK", "0 or 1", "0",
     "Runs each step beside the interpreter and compares results with the evaluator: slow.",
     ReadCheck},
    {"WEFT_CPU_DEVICES", "a whole number from 1 to 1024", "1",
     "How many devices JAX sees; they share the cores.", ReadCpuDevices},
    {"WEFT_CRASH_REPORT", "0 or 1", "1",
     "A signal that ends the process while a program is compiled or runs says which program and "
     "step.",
     ReadCrashReport},
    {"WEFT_DEBUG", "a level from 0 to 9 (4 has everything), or tags with levels: step=2,cache=1",
     "0", "Messages on standard error: 1 compiling, 2 running, 3 passes, 4 code.", ReadDebug},
    {"WEFT_DEFAULT", "0 or 1", "0", "JAX takes Weft where JAX_PLATFORMS does not say otherwise.",
     ReadDefault},
    {"WEFT_DUMP", "a folder", "no dumps",
     "Gets a folder for each program: the module after each pass, the Program, its code.",
     ReadDump},
    {"WEFT_GPU_DEVICES", "a whole number from 1 to 64", "1",
     "How many devices JAX sees where they are a GPU; they share it.", ReadGpuDevices},
    {"WEFT_GPU_TUNE", "0 or 1", "1",
     "The first time a long product or convolution is loaded, algorithms of NVIDIA's libraries "
     "that "
     "give the same bits are tried; the cache keeps which is the fastest.",
     ReadGpuTune},
    {"WEFT_LIBRARY", "the path of libpjrt_weft.so", "the one in the Python package",
     "The plugin that JAX loads.", ReadLibrary},
    {"WEFT_MEMORY_LIMIT", "a number of bytes, with a unit or without: 8GiB, 512MB, 1.5g",
     "the smaller of the cgroup's limit and the machine's memory",
     "How much arrays and programs may take; KB, MB, GB, TB are powers of 1000, KiB to TiB and k, "
     "m, g, t powers of 1024.",
     ReadMemoryLimit},
    {"WEFT_OPTIONS", "key=value,... (`weft help options` lists the keys)", "none",
     "Options of the compiler.", ReadOptions},
    {"WEFT_PLATFORM", "cpu, gpu or pretend", "gpu where there is one, else cpu",
     "What the devices are; pretend is a GPU that is none, for tests.", ReadPlatform},
    {"WEFT_PROVOKE_CRASH", "KIND:PASS, KIND one of segv, abort, check, overflow", "no crash",
     "For tests: crashes in a pass.", ReadProvokeCrash},
    {"WEFT_REPORT", "a file", "no report",
     "Gets one HTML page on all programs of the process: passes, memory, times (docs/report.md).",
     ReadReport},
    {"WEFT_THREADS", "a whole number from 1 to 4096", "as many as cores",
     "How many threads work on programs; more than cores are taken as that many.", ReadThreads},
    {"WEFT_TRACE", "a file", "no timeline",
     "Gets a timeline of the whole process, for Perfetto (docs/profiling.md).", ReadTrace},
};

struct Entry {
  std::string_view name, value;
};
Entry SplitEntry(std::string_view entry) {
  size_t equals = std::min(entry.find('='), entry.size());
  return {entry.substr(0, equals), entry.substr(std::min(equals + 1, entry.size()))};
}

std::string DefaultCache(const char* const* entries) {
  std::string_view base, home;
  for (; *entries != nullptr; ++entries) {
    Entry entry = SplitEntry(*entries);
    if (entry.name == "XDG_CACHE_HOME") base = entry.value;
    if (entry.name == "HOME") home = entry.value;
  }
  if (!base.empty()) return StrCat(base, "/weft");
  return home.empty() ? "" : StrCat(home, "/.cache/weft");
}

Status ReadVariable(const Variable& variable, std::string_view value, Environment& to) {
  Result<bool> fits = variable.read(value, to);
  if (fits && *fits) return {};
  std::string why = fits ? StrCat("expected ", variable.takes) : fits.error().message();
  auto error = InvalidArgument(variable.name, ": wrong value: ", value, ": ", why);
  if (!fits && !fits.error().hint().empty()) error.error().Hint(fits.error().hint());
  error.error().Hint("`weft help variables` lists what each variable takes");
  return error;
}

}  // namespace

std::optional<Platform> ParsePlatform(std::string_view text) {
  if (text == "cpu") return Platform::kCpu;
  if (text == "gpu") return Platform::kGpu;
  if (text == "pretend") return Platform::kPretend;
  return std::nullopt;
}

std::span<const Variable> Variables() {
  return kVariables;
}

Result<Environment> ReadEnvironment(const char* const* entries) {
  Environment environment;
  environment.cache = DefaultCache(entries);
  for (; *entries != nullptr; ++entries) {
    Entry entry = SplitEntry(*entries);
    if (entry.value.empty()) continue;
    for (const Variable& variable : kVariables) {
      if (variable.name == entry.name) TRY(ReadVariable(variable, entry.value, environment));
    }
  }
  return environment;
}

std::vector<std::string> UnknownVariables(const char* const* entries) {
  std::vector<std::string_view> known;
  for (const Variable& variable : kVariables) known.push_back(variable.name);
  std::vector<std::string> sentences;
  for (; *entries != nullptr; ++entries) {
    std::string_view name = SplitEntry(*entries).name;
    if (!name.starts_with("WEFT_") || std::find(known.begin(), known.end(), name) != known.end() ||
        std::find(std::begin(kOtherNames), std::end(kOtherNames), name) != std::end(kOtherNames)) {
      continue;
    }
    std::string meant = DidYouMean(name, known);
    if (meant.empty()) meant = "; `weft help variables` lists them";
    sentences.push_back(StrCat("no such variable: ", name, meant));
  }
  std::sort(sentences.begin(), sentences.end());
  return sentences;
}

void WarnOfUnknownVariables() {
  for (const std::string& sentence : UnknownVariables(environ)) LOG(warn) << sentence;
}

Result<Environment> ReadEnvironment() {
  Environment read = TRY(ReadEnvironment(environ));
  WarnOfUnknownVariables();
  TRY(SetLogFilter(read.debug));
  return read;
}

Result<int64_t> ParseBytes(std::string_view text) {
  size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  std::string unit;
  for (char c : text.substr(digits)) {
    if (c != ' ') unit += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  constexpr std::string_view kPrefixes = "kmgt";
  double scale = 1;
  bool known = unit.empty() || unit == "b";
  if (size_t power = unit.empty() ? kPrefixes.npos : kPrefixes.find(unit[0]);
      power != kPrefixes.npos) {
    std::string_view rest = std::string_view(unit).substr(1);
    known = rest.empty() || rest == "b" || rest == "ib";
    scale = std::pow(rest == "b" ? 1000.0 : 1024.0, static_cast<double>(power + 1));
  }
  std::optional<double> number = ParseDouble(text.substr(0, digits));
  double bytes = number.value_or(0) * scale;
  if (!known || !number || !(bytes >= 1) || bytes > static_cast<double>(kMostBytes)) {
    return InvalidArgument("not a number of bytes: ", text);
  }
  if (scale == 1) {
    std::optional<int64_t> whole = ParseInt(text.substr(0, digits));
    if (!whole) return InvalidArgument("not a whole number of bytes: ", text);
    return *whole;
  }
  return static_cast<int64_t>(bytes);
}

}  // namespace weft::client
