#include "inspect/report_record.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/str.h"
#include "compiler/analysis/in_place.h"
#include "hlo/op.h"
#include "hlo/text.h"

namespace weft::inspect {
namespace {

constexpr int64_t kMostElements = 64;  // of a constant that is kept

hlo::PrintOptions ForReports() {
  hlo::PrintOptions options = hlo::PrintOptions::Short();
  options.layouts = true;
  options.sharding = true;
  return options;
}

// An instruction a line, with its source line behind it: metadata would be most of the text.
std::string TextOfComputation(const hlo::Computation& computation) {
  std::string text = hlo::PrintComputation(computation, ForReports());
  std::string out;
  std::string_view left = text;
  const hlo::Instruction* next = computation.first();
  for (bool header = true; !left.empty(); header = false) {
    std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(line.size() + 1, left.size()));
    StrAppend(out, line);
    if (!header && next != nullptr && line != "}") {
      std::string source = next->SourceLocation();
      if (!source.empty()) StrAppend(out, "  // ", source);
      next = next->next();
    }
    out.push_back('\n');
  }
  return out;
}

// As traces of executions spell it.
std::string SignatureOf(const hlo::Module& module) {
  std::string out;
  if (module.entry() == nullptr || module.entry()->root() == nullptr) return out;
  for (const hlo::Instruction* parameter : module.entry()->parameters()) {
    StrAppend(out, out.empty() ? "" : ", ", parameter->shape().ToStringWithoutLayout());
  }
  out += " -> ";
  bool first = true;
  compiler::ForEachLeaf(module.entry()->root()->shape(), [&](const Shape& leaf) {
    StrAppend(out, std::exchange(first, false) ? "" : ", ", leaf.ToStringWithoutLayout());
  });
  return out;
}

std::string OpsOf(const hlo::Computation& fused) {
  std::vector<std::string_view> words;
  for (const hlo::Instruction* i : fused) {
    if (i->IsParameter() || i->IsConstant()) continue;
    std::string_view word = hlo::Mnemonic(i->op());
    if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
  }
  return StrJoin(words, ", ");
}

}  // namespace

int64_t TextPool::Id(std::string_view text) {
  auto [found, added] = ids_.try_emplace(std::string(text), std::ssize(texts_));
  if (added) texts_.push_back(&found->first);
  return found->second;
}

LineRuns RunsOf(TextPool& pool, std::string_view text) {
  LineRuns runs;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    int64_t id = pool.Id(line);
    if (!runs.empty() && runs[runs.size() - 2] + runs.back() == id) {
      ++runs.back();
    } else {
      runs.push_back(id);
      runs.push_back(1);
    }
  }
  return runs;
}

std::string_view LineOf(std::string_view source) {
  return source.substr(0, source.find(" ("));
}

void ProgramRecord::AddTexts(const hlo::Module& module, PassRecord& pass) {
  std::vector<int64_t> order;
  std::unordered_set<int64_t> here;
  for (const auto& computation : module.computations()) {
    int64_t id = texts.Id(computation->name());
    LineRuns lines = RunsOf(texts, TextOfComputation(*computation));
    order.push_back(id);
    here.insert(id);
    auto [found, added] = now_.try_emplace(id);
    if (!added && found->second == lines) continue;
    found->second = lines;
    pass.changes.push_back({id, std::move(lines)});
  }
  for (int64_t id : order_) {
    if (here.contains(id)) continue;
    pass.gone.push_back(id);
    now_.erase(id);
  }
  order_ = std::move(order);
}

void ProgramRecord::AddInput(const hlo::Module& module) {
  name = module.name();
  signature = SignatureOf(module);
  PassRecord& pass = passes.emplace_back();
  pass.name = "input";
  pass.after = module.instruction_count();
  AddTexts(module, pass);
}

void ProgramRecord::AddPass(const compiler::PassRun& run, const hlo::Module& module) {
  PassRecord& pass = passes.emplace_back();
  pass.name = run.pass;
  pass.changed = run.changed;
  pass.milliseconds = run.milliseconds;
  pass.before = run.instructions_before;
  pass.after = run.instructions_after;
  if (run.changed) AddTexts(module, pass);
}

void ProgramRecord::AddFusions(const hlo::Module& module) {
  fusions.clear();
  for (const auto& computation : module.computations()) {
    for (const hlo::Instruction* i : *computation) {
      if (i->op() != hlo::Op::kFusion) continue;
      const auto& attrs = i->attrs<hlo::FusionAttrs>();
      std::string_view kind = attrs.kind == hlo::FusionKind::kLoop     ? "loop"
                              : attrs.kind == hlo::FusionKind::kInput  ? "reduction"
                              : attrs.kind == hlo::FusionKind::kOutput ? "rows"
                                                                       : "custom";
      fusions.push_back({.name = i->name(),
                         .kind = std::string(kind),
                         .source = i->SourceLocation(),
                         .shape = i->shape().ToStringWithoutLayout(),
                         .ops = attrs.calls != nullptr ? OpsOf(*attrs.calls) : "",
                         .members = attrs.calls != nullptr ? attrs.calls->size() : 0});
    }
  }
}

void ProgramRecord::SetProgram(program::Program lowered) {
  program = std::move(lowered);
  for (program::Buffer& buffer : program->buffers) {
    if (buffer.kind != program::BufferKind::kConstant || buffer.shape.elements() <= kMostElements) {
      continue;
    }
    buffer.value = Literal(Shape(buffer.shape.dtype(), {0}));
  }
}

void ProgramRecord::AddLowered(const compiler::Compiled& compiled) {
  AddFusions(*compiled.module);
  not_fused = compiled.not_fused;
  copies = compiled.copies;
  SetProgram(compiled.program);
}

}  // namespace weft::inspect
