// Options of the compiler: one typed struct, filled at the edge (command line, environment, PJRT)
// and handed down. Each field is listed once in Fields, which gives parsing, printing and the key
// of the compilation cache.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace weft::compiler {

struct PipelineOptions {
  // Names of passes to leave out. For finding the pass that breaks something.
  std::vector<std::string> disable;
  // Verify the module after each pass that changed it. Turn off to save compile time.
  bool verify = true;
};

struct OptimizeOptions {
  // Constants larger than this are not made by folding. Raise it when a large table would be
  // computed in every run; lower it when programs get too long.
  int64_t fold_max_bytes = int64_t{1} << 20;
  // Folding is left alone when it would take more element operations than this. Lower it when
  // fold-constants takes long.
  int64_t fold_max_work = int64_t{1} << 24;
  // Calls are left alone once inlining has made the module this large. Lower it when programs that
  // call one function from many places take long to compile.
  int64_t inline_max_instructions = 1'000'000;
  // Loops that run more often stay loops. Raise it when a short loop should become straight code.
  int64_t unroll_max_trips = 8;
  // Loops that would become more instructions than this stay loops. Lower it when programs with
  // many short loops take long to compile.
  int64_t unroll_max_instructions = 512;
};

struct CpuOptions {
  // Programs become native code. Turn off to run them by the evaluator, for comparing.
  bool native = true;
  // Arithmetic takes numbers below the normal ones as zeros. Turn on where programs decay into
  // them on x86, which takes a hundred times as long over them. For JAX it is on, as in XLA.
  bool flush_subnormals = false;
};

struct DumpOptions {
  // Folder for the module after each pass that changed it, as 0012.simplify.hlo; empty: no dumps.
  // Set it to see what the compiler does.
  std::string dir;
  // Only passes whose name contains this. Set it when there are too many dumps.
  std::string filter;
};

// Whether a field changes what is compiled (and so belongs to the cache key) or only what is
// checked and shown on the way.
enum class FieldRole : uint8_t { kOutput, kDiagnostic };

struct CompileOptions {
  PipelineOptions pipeline;
  OptimizeOptions optimize;
  CpuOptions cpu;
  DumpOptions dump;

  template <class V>
  void Fields(V&& v) {
    using enum FieldRole;
    v("pipeline.disable", pipeline.disable, kOutput);
    v("pipeline.verify", pipeline.verify, kDiagnostic);
    v("optimize.fold_max_bytes", optimize.fold_max_bytes, kOutput);
    v("optimize.fold_max_work", optimize.fold_max_work, kOutput);
    v("optimize.inline_max_instructions", optimize.inline_max_instructions, kOutput);
    v("optimize.unroll_max_trips", optimize.unroll_max_trips, kOutput);
    v("optimize.unroll_max_instructions", optimize.unroll_max_instructions, kOutput);
    v("cpu.native", cpu.native, kOutput);
    v("cpu.flush_subnormals", cpu.flush_subnormals, kOutput);
    v("dump.dir", dump.dir, kDiagnostic);
    v("dump.filter", dump.filter, kDiagnostic);
  }
};

// "key=value,key=value"; lists are written a+b. Unknown keys and wrong values are errors, and leave
// the options as they were.
Status ParseOptions(std::string_view text, CompileOptions& options);
// The fields that differ from their defaults, in the form that ParseOptions reads.
std::string PrintOptions(const CompileOptions& options);
// As PrintOptions, of the fields that change what is compiled.
std::string CacheKey(const CompileOptions& options);

}  // namespace weft::compiler
