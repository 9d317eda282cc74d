#include "cpu/native/compile.h"

#include <atomic>
#include <utility>

#include "base/digest.h"
#include "base/doing.h"
#include "base/thread_pool.h"
#include "base/trace.h"

namespace weft::cpu {
namespace {

// Kernels come vectorized, with their addresses strength-reduced: what is left is CSE and LICM.
constexpr std::string_view kKernelPasses =
    "always-inline,function(sroa,early-cse,simplifycfg,loop-mssa(licm),early-cse,"
    "weft-branch-on-nan-minmax,weft-lower-ieee-minmax)";
// The same, where integers are divided or widened.
constexpr std::string_view kIntegerPasses =
    "always-inline,function(sroa,early-cse,instcombine<no-verify-fixpoint>,simplifycfg,"
    "loop-mssa(licm),early-cse,weft-branch-on-nan-minmax,weft-lower-ieee-minmax)";
// Control flow without loops worth optimising.
constexpr std::string_view kStepPasses =
    "always-inline,function(sroa,early-cse,simplifycfg,weft-lower-ieee-minmax)";
// Native regions, with loops to unroll and vectorize and state in memory to promote to registers:
// the passes of LLVM's O2 that have something to do there, in half its time. Kernels are inlined
// into their region first, so that nothing runs on them alone. The SLP vectorizer is not among
// them: vectors are made by the compiler, and scalars put together only lengthen recurrences.
// Passes with the prefix `weft-` are ours (llvm/passes.h).
constexpr std::string_view kLoopPasses =
    "always-inline,globaldce,function<eager-inv>("
    "sroa<modify-cfg>,early-cse<memssa>,simplifycfg,"
    "instcombine<max-iterations=1;no-verify-fixpoint>,"
    "loop-mssa(loop-rotate<header-duplication>,licm<allowspeculation>,"
    "simple-loop-unswitch<no-nontrivial;trivial>),simplifycfg,"
    "instcombine<max-iterations=1;no-verify-fixpoint>,"
    "loop(loop-idiom,indvars,loop-deletion,loop-unroll-full),"
    "sroa<modify-cfg>,gvn,weft-shift-to-shuffle,instcombine<max-iterations=1;no-verify-fixpoint>,"
    "jump-threading,correlated-propagation,early-cse<memssa>,dse,"
    "loop-mssa(licm<allowspeculation>),"
    "simplifycfg<hoist-common-insts;sink-common-insts>,"
    "instcombine<max-iterations=1;no-verify-fixpoint>,"
    "loop-simplify,weft-loop-versioning,simplifycfg,weft-guard-widening,simplifycfg,early-cse,"
    "weft-silent-store-elimination,loop-simplify,weft-pointer-induction,loop-vectorize,"
    "loop-load-elim,vector-combine,"
    "loop-unroll<O2>,sroa<preserve-cfg>,instcombine<max-iterations=1;no-verify-fixpoint>,"
    "loop-mssa(licm<allowspeculation>),simplifycfg,weft-split-select-condition,"
    "weft-avoid-conditional-increment,weft-branch-on-nan-minmax,weft-lower-ieee-minmax,"
    "weft-hide-hashed-induction)";

// Where the whole name stands in a list of passes.
size_t FindPass(std::string_view passes, std::string_view name) {
  for (size_t at = passes.find(name); at != std::string_view::npos;
       at = passes.find(name, at + 1)) {
    size_t end = at + name.size();
    if (end < passes.size() && (passes[end] == ',' || passes[end] == ')')) return at;
  }
  return std::string_view::npos;
}

CodeEffort EffortOf(const RenderedModule& module) {
  return module.loops ? CodeEffort::kLoops : CodeEffort::kKernels;
}

// All that the object depends on but the compiler itself, which whoever keeps objects adds.
std::string KeyOf(const RenderedModule& module, const std::string& passes,
                  const CodeTarget& target) {
  Digest digest;
  for (const std::string& part : {LlvmVersion(), target.cpu, target.features, passes}) {
    digest.Update(part);
    digest.Update(std::string_view("\0", 1));
  }
  digest.Update(module.text);
  auto raw = digest.Finish();
  return StrCat("cpu-", ToHex(std::string_view(reinterpret_cast<const char*>(raw.data()), 16)));
}

Result<std::string> CompileOne(CompilerPool& pool, const std::string& program,
                               const RenderedModule& module, const std::string& passes,
                               std::string* assembly) {
  Doing doing({"LLVM", module.name});
  trace::Span span(trace::Kind::kCodegen, [&] {
    return trace::What{
        .name = module.name, .program = program, .parts = StrCat(module.kernels, " kernels")};
  });
  std::unique_ptr<Compiler> compiler = TRY(pool.Take());
  auto object = compiler->Compile(module.text, passes, EffortOf(module), assembly, nullptr);
  pool.GiveBack(std::move(compiler));
  return object;
}

}  // namespace

Result<std::string> PassesOf(const RenderedModule& module, std::span<const std::string> disabled) {
  std::string passes(module.loops          ? kLoopPasses
                     : module.kernels == 0 ? kStepPasses
                     : module.integers     ? kIntegerPasses
                                           : kKernelPasses);
  for (const std::string& name : disabled) {
    bool known = name.starts_with("weft-") && FindPass(kLoopPasses, name) != std::string::npos;
    if (!known) return InvalidArgument("cpu.disable: unknown pass over LLVM IR: ", name);
    for (size_t at; (at = FindPass(passes, name)) != std::string::npos;) {
      // With its comma; the last one of a list with that before it.
      bool last = passes[at + name.size()] != ',';
      passes.erase(last ? at - 1 : at, name.size() + 1);
    }
  }
  return passes;
}

Result<std::unique_ptr<Compiler>> CompilerPool::Take() {
  {
    MutexLock lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Compiler> compiler = std::move(idle_.back());
      idle_.pop_back();
      return compiler;
    }
  }
  return Compiler::Create(target_);
}

void CompilerPool::GiveBack(std::unique_ptr<Compiler> compiler) {
  MutexLock lock(mutex_);
  idle_.push_back(std::move(compiler));
}

Result<std::vector<std::string>> CompileModules(CompilerPool& pool, const std::string& program,
                                                const std::vector<RenderedModule>& modules,
                                                const runtime::LoadOptions& options,
                                                runtime::LoadStats& stats) {
  std::vector<std::string> objects(modules.size()), keys(modules.size()), passes, assembly;
  std::vector<size_t> missing;
  for (size_t i = 0; i < modules.size(); ++i) {
    passes.push_back(TRY(PassesOf(modules[i], options.disabled_passes)));
    if (options.show) options.show(modules[i].name + ".ll", modules[i].text);
    if (options.cache) {
      keys[i] = KeyOf(modules[i], passes[i], pool.target());
      if (auto found = options.cache->Find(keys[i])) {
        objects[i] = std::move(*found);
        ++stats.from_cache;
        continue;
      }
    }
    missing.push_back(i);
  }
  assembly.resize(modules.size());
  std::vector<Status> status(missing.size());
  std::atomic<int64_t> made = 0;
  DefaultPool().ParallelFor(static_cast<int64_t>(missing.size()), 1,
                            [&](int64_t begin, int64_t end) {
                              for (int64_t n = begin; n < end; ++n) {
                                size_t i = missing[n];
                                if (options.cancel != nullptr && *options.cancel) {
                                  status[n] = MakeError(Code::kCancelled, "compile: cancelled");
                                  continue;
                                }
                                auto object = CompileOne(pool, program, modules[i], passes[i],
                                                         options.show ? &assembly[i] : nullptr);
                                if (options.progress) options.progress(++made, std::ssize(missing));
                                if (object) {
                                  objects[i] = std::move(*object);
                                } else {
                                  status[n] = std::unexpected(object.error());
                                }
                              }
                            });
  for (size_t n = 0; n < missing.size(); ++n) {
    TRY(std::move(status[n]));
    size_t i = missing[n];
    if (options.cache) options.cache->Store(keys[i], objects[i]);
    if (options.show) options.show(modules[i].name + ".s", assembly[i]);
    ++stats.compiled;
  }
  for (const std::string& object : objects) stats.code_bytes += static_cast<int64_t>(object.size());
  return objects;
}

}  // namespace weft::cpu
