#include "gpu/render_program.h"

#include <map>

#include "gpu/library_text.h"
#include "gpu/native_loop.h"
#include "program/library.h"

namespace weft::gpu {
namespace {

using program::Program;
using program::Step;

class ProgramRenderer {
 public:
  explicit ProgramRenderer(const Program& program) : program_(program) {}

  CudaProgram Render() {
    used_.resize(program_.kernels.size());
    FindLoops(program_.steps);
    std::string text;
    for (size_t k = 0; k < program_.kernels.size(); ++k) {
      if (used_[k]) RenderOne(static_cast<int32_t>(k), text);
    }
    for (size_t i = 0; i < order_.size(); ++i) {
      std::string name = CudaName(StrCat("loop", i, "_"), order_[i]->name);
      CudaFunction function = RenderNativeLoop(program_, *order_[i], std::move(name), code_);
      AppendFunction(std::move(function), text);
    }
    ListSteps(program_.steps, 0);
    result_.text = StrCat("// program ", program_.name, "\n", steps_, "\n", Prelude(text), text);
    return std::move(result_);
  }

 private:
  void FindLoops(const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      if (auto* launch = std::get_if<program::KernelStep>(&step.op)) used_[launch->kernel] = true;
      if (auto* call = std::get_if<program::LibraryStep>(&step.op)) {
        UseEpilogue(step, program::StringAttr(*call, "epilogue", ""));
      }
      auto* loop = std::get_if<program::WhileStep>(&step.op);
      if (loop != nullptr && loop->region) {
        loops_[&step] = order_.size();
        order_.push_back(&step);
        continue;
      }
      ForEachList(step, [&](const std::vector<Step>& list) { FindLoops(list); });
    }
  }

  // The kernel that runs behind a routine is launched like any other.
  void UseEpilogue(const Step& step, std::string_view name) {
    if (name.empty()) return;
    program::EpilogueForm form = program::EpilogueFormOf(program_, step);
    used_[static_cast<size_t>(form.kernel - program_.kernels.data())] = true;
  }

  void RenderOne(int32_t k, std::string& text) {
    const program::Kernel& kernel = program_.kernels[k];
    CudaFunction function;
    function.name = CudaName(StrCat("k", k, "_"), kernel.name);
    function.launch = LaunchOf(kernel);
    function.kernel = k;
    RenderKernel(kernel, function.name, code_);
    AppendFunction(std::move(function), text);
  }

  void AppendFunction(CudaFunction function, std::string& text) {
    const Launch& launch = function.launch;
    StrAppend(text, "\n// ", launch.blocks, " x ", launch.threads, " threads");
    if (launch.shared_bytes > 0)
      StrAppend(text, ", ", launch.shared_bytes, " bytes of shared memory");
    StrAppend(text, "\n", code_);
    code_.clear();
    result_.functions.push_back(std::move(function));
  }

  // One line a step.
  void ListSteps(const std::vector<Step>& steps, int depth) {
    for (const Step& step : steps) {
      StrAppend(steps_, "// ", std::string(static_cast<size_t>(depth) * 2 + 2, ' '),
                KindName(step));
      if (auto* launch = std::get_if<program::KernelStep>(&step.op)) {
        StrAppend(
            steps_, " ",
            CudaName(StrCat("k", launch->kernel, "_"), program_.kernels[launch->kernel].name));
      }
      if (auto* call = std::get_if<program::LibraryStep>(&step.op)) {
        StrAppend(steps_, " ", call->routine);
      }
      StrAppend(steps_, "(");
      for (size_t i = 0; i < step.uses.size(); ++i) {
        const program::Use& use = step.uses[i];
        StrAppend(steps_, i > 0 ? ", " : "", Name(use.access), " ",
                  CudaName("", program_.buffers[use.slice.buffer].name));
      }
      StrAppend(steps_, ")");
      if (auto found = loops_.find(&step); found != loops_.end()) {
        StrAppend(steps_, " is loop", found->second, "\n");
        continue;
      }
      StrAppend(steps_, "\n");
      ForEachList(step, [&](const std::vector<Step>& list) { ListSteps(list, depth + 1); });
    }
  }

  const Program& program_;
  CudaProgram result_;
  std::string steps_, code_;
  std::vector<bool> used_;               // kernels that are launched by themselves
  std::vector<const Step*> order_;       // native loops ...
  std::map<const Step*, size_t> loops_;  // ... and their numbers
};

}  // namespace

std::string Prelude(std::string_view text) {
  std::string out(kNumbersText);
  bool narrow = text.find("::Decode(") != text.npos || text.find("::Encode(") != text.npos;
  if (!narrow) return out;
  StrAppend(out, "\n", kHalvesText);
  auto uses = [&](std::string_view name) { return text.find(name) != text.npos; };
  if (uses("F8E") || uses("F6E") || uses("F4E")) StrAppend(out, "\n", kFormatsText);
  return out;
}

CudaProgram RenderProgram(const Program& program) {
  return ProgramRenderer(program).Render();
}

}  // namespace weft::gpu
