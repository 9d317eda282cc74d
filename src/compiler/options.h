// Options of the compiler: one typed struct, filled at the edge (command line, environment, PJRT)
// and handed down. Each field is listed once in Fields, with what it does and when to change it,
// which gives parsing, printing, the key of the compilation cache and `weft help options`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace weft::compiler {

struct PipelineOptions {
  std::vector<std::string> disable;
  bool verify = true;
};

struct OptimizeOptions {
  int64_t fold_max_bytes = int64_t{1} << 20;
  int64_t fold_max_work = int64_t{1} << 24;
  int64_t inline_max_instructions = 1'000'000;
  int64_t async_call_work = -1;
  int64_t unroll_max_trips = 8;
  int64_t unroll_max_instructions = 512;
  bool select_by_masks = false;
  bool cancel_exponentials = false;
};

struct LowerOptions {
  std::vector<std::string> disable;
};

struct CollectiveOptions {
  bool async = true;
  int64_t link = 0;
};

struct CpuOptions {
  bool native = true;
  bool flush_subnormals = false;
  bool lapack = false;
  std::vector<std::string> disable;
};

struct GpuOptions {
  bool tf32 = true;
};

struct DumpOptions {
  std::string dir;
  std::string filter;
};

// Whether a field changes what is compiled (and so belongs to the cache key) or only what is
// checked and shown on the way.
enum class FieldRole : uint8_t { kOutput, kDiagnostic };

struct CompileOptions {
  PipelineOptions pipeline;
  OptimizeOptions optimize;
  LowerOptions lower;
  CollectiveOptions collectives;
  CpuOptions cpu;
  GpuOptions gpu;
  DumpOptions dump;

  template <class V>
  void Fields(V&& v) {
    using enum FieldRole;
    v("pipeline.disable", pipeline.disable, kOutput,
      "Passes to leave out, a+b. For finding the pass that breaks something.");
    v("pipeline.verify", pipeline.verify, kDiagnostic,
      "Verifies the module after each pass that changed it. Turn off to save compile time.");
    v("optimize.fold_max_bytes", optimize.fold_max_bytes, kOutput,
      "Constants larger than this are not made by folding. Raise it when a large table would be "
      "computed in every run; lower it when programs get too long.");
    v("optimize.fold_max_work", optimize.fold_max_work, kOutput,
      "Folding is left alone when it would take more element operations than this. Lower it when "
      "fold-constants takes long.");
    v("optimize.async_call_work", optimize.async_call_work, kOutput,
      "Work, of about a quarter of a nanosecond, from which on an asynchronous call (async-start, "
      "compute_on) has a thread of its own; -1: as much as waking one is worth. Lower it to see "
      "small ones beside others.");
    v("optimize.inline_max_instructions", optimize.inline_max_instructions, kOutput,
      "Calls are left alone once inlining has made the module this large. Lower it when programs "
      "that call one function from many places take long to compile.");
    v("optimize.unroll_max_trips", optimize.unroll_max_trips, kOutput,
      "Loops that run more often stay loops. Raise it when a short loop should become straight "
      "code.");
    v("optimize.unroll_max_instructions", optimize.unroll_max_instructions, kOutput,
      "Loops that would become more instructions than this stay loops. Lower it when programs with "
      "many short loops take long to compile.");
    v("optimize.select_by_masks", optimize.select_by_masks, kOutput,
      "A product x * convert(mask) is x where the mask is true and 0 elsewhere, even where x is "
      "infinite or NaN. For JAX it is on, as in XLA; turn it off for products as IEEE has them.");
    v("optimize.cancel_exponentials", optimize.cancel_exponentials, kOutput,
      "Cancels exponentials: log(exp(x)) is x, exp(x) / exp(y) is exp(x - y) and the like, even "
      "where exp(x) overflows or underflows. For JAX it is on, as in XLA; turn it off for each "
      "operation as IEEE has it.");
    v("lower.disable", lower.disable, kOutput,
      "Rows of the target's table of lowerings to leave out, and rules of elements, a+b, with - "
      "for spaces. For measuring what one gains, and for finding the one that breaks something.");
    v("collectives.async", collectives.async, kOutput,
      "Collectives of CPU devices with a link between them run beside the compute that does not "
      "need them, which is put in an order that leaves them the time. Turn off to have each end "
      "where it begins.");
    v("collectives.link", collectives.link, kOutput,
      "Collectives of CPU devices take the time that a link of so many Mbit/s between them would; "
      "0: that of copying. Set it to see what a program does on machines that are connected so.");
    FieldsOfDevices(v);
  }

 private:
  template <class V>
  void FieldsOfDevices(V&& v) {
    using enum FieldRole;
    v("cpu.native", cpu.native, kOutput,
      "Programs become native code. Turn off to run them by the evaluator, for comparing.");
    v("cpu.flush_subnormals", cpu.flush_subnormals, kOutput,
      "Arithmetic takes numbers below the normal ones as zeros. Turn on where programs decay into "
      "them on x86, which takes a hundred times as long over them. For JAX it is on, as in XLA.");
    v("cpu.lapack", cpu.lapack, kOutput,
      "Factorizations of large complex matrices that are written as calls of LAPACK stay such "
      "calls, which are faster. For JAX it is on where the process has LAPACK.");
    v("cpu.disable", cpu.disable, kOutput,
      "Weft's passes over LLVM IR to leave out, a+b. For measuring what one gains, and for finding "
      "the one that breaks something.");
    v("gpu.tf32", gpu.tf32, kOutput,
      "Products and convolutions of f32 may round their operands to TF32 on GPUs, unless the "
      "program asks for the highest precision. Turn off for full f32, at a fraction of the speed.");
    v("dump.dir", dump.dir, kDiagnostic,
      "Folder for the module after each pass that changed it, as 0012.simplify.hlo; empty: no "
      "dumps. Set it to see what the compiler does.");
    v("dump.filter", dump.filter, kDiagnostic,
      "Only passes whose name contains this. Set it when there are too many dumps.");
  }
};

// "key=value,key=value"; lists are written a+b. Unknown keys and wrong values are errors, and leave
// the options as they were.
Status ParseOptions(std::string_view text, CompileOptions& options);
// The fields that differ from their defaults, in the form that ParseOptions reads.
std::string PrintOptions(const CompileOptions& options);

struct OptionInfo {
  std::string key, takes, otherwise, doc;  // takes: "true or false", "a whole number", ...
};
std::vector<OptionInfo> ListOptions();

// As PrintOptions, of the fields that change what is compiled.
std::string CacheKey(const CompileOptions& options);

}  // namespace weft::compiler
