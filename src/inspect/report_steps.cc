// Steps with costs and times, kernels with their text.
#include <algorithm>
#include <unordered_map>

#include "inspect/report_sections.h"
#include "runtime/step_cost.h"
#include "runtime/step_trace.h"

namespace weft::inspect {
namespace {

using program::Step;

// The kernel that a step launches, or that is the epilogue of its routine; -1: none.
int64_t KernelOf(const program::Program& program, const Step& step) {
  if (auto* launch = std::get_if<program::KernelStep>(&step.op)) return launch->kernel;
  auto* call = std::get_if<program::LibraryStep>(&step.op);
  if (call == nullptr) return -1;
  for (const program::Attr& attr : call->attrs) {
    auto* name = std::get_if<std::string>(&attr.value);
    if (name == nullptr) continue;
    for (size_t k = 0; k < program.kernels.size(); ++k) {
      if (program.kernels[k].name == *name) return static_cast<int64_t>(k);
    }
  }
  return -1;
}

class StepWriter {
 public:
  StepWriter(const ProgramRecord& record, std::vector<std::optional<StepTime>> times,
             TextPool& words, Json& json)
      : program_(*record.program), times_(std::move(times)), words_(words), json_(json) {}

  void Walk(const std::vector<Step>& steps, int64_t depth) {
    for (const Step& step : steps) {
      Write(step, depth);
      ForEachList(step, [&](const std::vector<Step>& list) { Walk(list, depth + 1); });
    }
  }

 private:
  void Write(const Step& step, int64_t depth) {
    const trace::What what = runtime::DescribeStep(program_, step);
    json_.Open('[');
    for (std::string_view text :
         {std::string_view(what.name), std::string_view(what.op), LineOf(what.source),
          std::string_view(what.op_name), std::string_view(what.shapes)}) {
      json_.Int(words_.Id(text));
    }
    json_.Int(depth);
    json_.Int(KernelOf(program_, step));
    if (auto cost = runtime::CostOf(program_, step)) {
      json_.Number(cost->flops);
      json_.Number(cost->bytes);
    } else {
      json_.Null();
      json_.Null();
    }
    const std::optional<StepTime>& time = times_[next_++];
    if (time) {
      json_.Number(time->seconds);
      json_.Number(time->count);
    }
    json_.Close(']');
  }

  const program::Program& program_;
  const std::vector<std::optional<StepTime>> times_;
  TextPool& words_;
  Json& json_;
  size_t next_ = 0;
};

}  // namespace

std::vector<std::optional<StepTime>> StepTimesOf(const ProgramRecord& record,
                                                 const CaptureFacts* facts) {
  std::vector<std::optional<StepTime>> times = record.times;
  int64_t count = 0;
  program::ForEachStep(record.program->steps, [&](const Step&) { ++count; });
  const bool measured = !times.empty();
  times.resize(static_cast<size_t>(count));
  if (measured || facts == nullptr) return times;
  // Steps that nothing tells apart share their events.
  std::vector<const trace::What*> whats;
  std::unordered_map<const trace::What*, int64_t> alike;
  program::ForEachStep(record.program->steps, [&](const Step& step) {
    whats.push_back(trace::Intern(runtime::DescribeStep(*record.program, step)));
    ++alike[whats.back()];
  });
  const double runs = static_cast<double>(std::max<int64_t>(facts->RunsOf(record).count, 1));
  for (size_t i = 0; i < whats.size(); ++i) {
    auto found = facts->steps.find(whats[i]);
    if (found == facts->steps.end()) continue;
    const double parts = runs * static_cast<double>(alike[whats[i]]);
    times[i] = {found->second.seconds / parts, static_cast<double>(found->second.count) / parts};
  }
  return times;
}

void WriteSteps(const ProgramRecord& record, const CaptureFacts* facts, TextPool& words,
                Json& json) {
  if (!record.program) return;
  json.Key("measured", int64_t{!record.times.empty()});
  json.Key("steps");
  json.Open('[');
  StepWriter(record, StepTimesOf(record, facts), words, json).Walk(record.program->steps, 0);
  json.Close(']');
}

void WriteKernels(const ProgramRecord& record, TextPool& words, Json& json) {
  if (!record.program) return;
  json.Key("kernels");
  json.Open('[');
  for (const program::Kernel& kernel : record.program->kernels) {
    json.Open('[');
    json.Int(words.Id(kernel.name));
    WriteLines(RunsOf(words, program::Print(kernel)), json);
    json.Close(']');
  }
  json.Close(']');
  json.Key("buffers_and_steps");
  std::string text = program::Print(*record.program);
  size_t kernels = text.find("\nkernel "), steps = text.rfind("\nsteps {");
  if (kernels != text.npos && steps != text.npos && kernels < steps) {
    text.erase(kernels + 1, steps - kernels - 1);
  }
  WriteLines(RunsOf(words, text), json);
}

}  // namespace weft::inspect
