#include "runtime/step_trace.h"

#include "base/str.h"
#include "runtime/step_cost.h"

namespace weft::runtime {
namespace {

using program::Program;
using program::Step;

constexpr int kMostParts = 64;  // that are listed of a loop

// "f32[8,64], f32[64] -> f32[8,64]": what is read, and what is written.
std::string ShapesOf(const Program& program, const Step& step) {
  std::string read, written;
  for (const program::Use& use : step.uses) {
    std::string shape = program.buffers[use.slice.buffer].shape.ToStringWithoutLayout();
    if (use.access != program::Access::kWrite) StrAppend(read, read.empty() ? "" : ", ", shape);
    if (use.access != program::Access::kRead) {
      StrAppend(written, written.empty() ? "" : ", ", shape);
    }
  }
  return written.empty() ? read : StrCat(read, read.empty() ? "-> " : " -> ", written);
}

// "add.1 (model.py:12), dot.2": the steps inside that do something themselves.
std::string PartsOf(const Program& program, const Step& step) {
  std::string parts;
  int count = 0;
  program::ForEachStep(std::span(&step, 1), [&](const Step& part) {
    if (HasLists(part)) return;
    if (++count > kMostParts) return;
    StrAppend(parts, parts.empty() ? "" : ", ", LabelOf(program, part));
    if (!part.source.empty()) StrAppend(parts, " (", part.source, ")");
  });
  if (count > kMostParts) StrAppend(parts, " and ", count - kMostParts, " more");
  return parts;
}

}  // namespace

std::string LabelOf(const Program& program, const Step& step) {
  if (!step.name.empty()) return step.name;
  if (auto* launch = std::get_if<program::KernelStep>(&step.op)) {
    return program.kernels[launch->kernel].name;
  }
  if (auto* call = std::get_if<program::LibraryStep>(&step.op)) return call->routine;
  return std::string(KindName(step));
}

trace::What DescribeStep(const Program& program, const Step& step) {
  bool block = HasLists(step);
  bool moves = std::holds_alternative<program::CopyStep>(step.op) ||
               std::holds_alternative<program::FillStep>(step.op);
  auto* call = std::get_if<program::LibraryStep>(&step.op);
  trace::What what{.kind = moves ? trace::Kind::kCopy : trace::Kind::kStep,
                   .name = LabelOf(program, step),
                   .program = program.name,
                   .op = call != nullptr ? call->routine : std::string(KindName(step)),
                   .op_name = step.op_name,
                   .source = step.source,
                   .shapes = block ? "" : ShapesOf(program, step)};
  if (block) what.parts = PartsOf(program, step);
  if (std::optional<StepCost> cost = CostOf(program, step)) {
    what.flops = cost->flops;
    what.bytes = cost->bytes;
  }
  return what;
}

void StepTraces::Make() const {
  std::call_once(once_, [this] {
    run_ = trace::Intern(
        {.kind = trace::Kind::kExecute, .name = program_.name, .program = program_.name});
    program::ForEachStep(program_.steps, [this](const Step& step) {
      steps_[&step] = trace::Intern(DescribeStep(program_, step));
    });
  });
}

const trace::What* StepTraces::Of(const Step& step) const {
  Make();
  auto found = steps_.find(&step);
  return found != steps_.end() ? found->second : run_;
}

const trace::What* StepTraces::Run() const {
  Make();
  return run_;
}

}  // namespace weft::runtime
