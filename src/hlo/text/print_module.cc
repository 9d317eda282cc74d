// Modules and computations.
#include "hlo/text/printer.h"

namespace weft::hlo::text {
namespace {

void AppendIndexText(std::string& out, const ShapeIndex& index) {
  out.push_back('{');
  AppendJoined(out, index, ",");
  out.push_back('}');
}

void AppendBools(std::string& out, std::string_view name, const std::vector<bool>& bools) {
  if (bools.empty()) return;
  StrAppend(out, ", ", name, "=");
  if (bools.size() == 1) return AppendOne(out, static_cast<bool>(bools[0]));
  for (size_t i = 0; i < bools.size(); ++i) {
    StrAppend(out, i == 0 ? "{" : ",", static_cast<bool>(bools[i]));
  }
  out.push_back('}');
}

}  // namespace

void Printer::Header(const Module& module) {
  const ModuleConfig& c = module.config();
  StrAppend(out_, "HloModule ", o_.canonical ? std::string_view("module") : module.name());
  if (c.is_scheduled) out_.append(", is_scheduled=true");
  if (!c.input_output_alias.empty()) {
    out_.append(", input_output_alias={ ");
    for (size_t i = 0; i < c.input_output_alias.size(); ++i) {
      const InputOutputAlias& a = c.input_output_alias[i];
      if (i > 0) out_.append(", ");
      AppendIndexText(out_, a.output);
      StrAppend(out_, ": (", a.parameter, ", ");
      AppendIndexText(out_, a.parameter_index);
      out_.append(a.kind == AliasKind::kMust ? ", must-alias)" : ", may-alias)");
    }
    out_.append(" }");
  }
  if (!c.buffer_donors.empty()) {
    out_.append(", buffer_donor={ ");
    for (size_t i = 0; i < c.buffer_donors.size(); ++i) {
      StrAppend(out_, i > 0 ? ", (" : "(", c.buffer_donors[i].parameter, ", ");
      AppendIndexText(out_, c.buffer_donors[i].index);
      out_.push_back(')');
    }
    out_.append(" }");
  }
  if (c.alias_passthrough_params) out_.append(", alias_passthrough_params=true");
  if (c.entry_layout) {
    out_.append(", entry_computation_layout={(");
    for (size_t i = 0; i < c.entry_layout->parameters.size(); ++i) {
      if (i > 0) out_.append(", ");
      ShapeText(c.entry_layout->parameters[i]);
    }
    out_.append(")->");
    ShapeText(c.entry_layout->result);
    out_.push_back('}');
  }
  AppendBools(out_, "allow_spmd_sharding_propagation_to_parameters",
              c.propagate_sharding_to_parameters);
  AppendBools(out_, "allow_spmd_sharding_propagation_to_output", c.propagate_sharding_to_output);
  bool canonical_one = o_.canonical;
  if (canonical_one ? c.replica_count != 1 : c.replica_count_written || c.replica_count != 1) {
    StrAppend(out_, ", replica_count=", c.replica_count);
  }
  if (canonical_one ? c.num_partitions != 1 : c.num_partitions_written || c.num_partitions != 1) {
    StrAppend(out_, ", num_partitions=", c.num_partitions);
  }
  if (o_.frontend_attributes && !c.frontend_attributes.empty()) {
    out_.append(", frontend_attributes=");
    FrontendText(c.frontend_attributes);
  }
  if (o_.origin && !c.origin_recovery_table.empty()) {
    StrAppend(out_, ", origin_recovery_table=", c.origin_recovery_table);
  }
  if (o_.origin && !c.debug_attributes.empty()) {
    StrAppend(out_, ", debug_attributes=", c.debug_attributes);
  }
  out_.append("\n\n");
}

void Printer::Tables(const StackFrames& t) {
  auto strings = [&](std::string_view title, const std::vector<std::string>& list) {
    StrAppend(out_, title, "\n");
    for (size_t i = 0; i < list.size(); ++i) {
      StrAppend(out_, i + 1, " ");
      AppendQuoted(out_, list[i]);
      out_.push_back('\n');
    }
    out_.push_back('\n');
  };
  strings("FileNames", t.files);
  strings("FunctionNames", t.functions);
  out_.append("FileLocations\n");
  for (size_t i = 0; i < t.locations.size(); ++i) {
    const FileLocation& l = t.locations[i];
    StrAppend(out_, i + 1, " {file_name_id=", l.file, " function_name_id=", l.function,
              " line=", l.line, " end_line=", l.end_line, " column=", l.column,
              " end_column=", l.end_column, "}\n");
  }
  out_.append("\nStackFrames\n");
  for (size_t i = 0; i < t.frames.size(); ++i) {
    StrAppend(out_, i + 1, " {file_location_id=", t.frames[i].location,
              " parent_frame_id=", int64_t{t.frames[i].parent} + 1, "}\n");
  }
  out_.append("\n");
}

void Printer::FindSugar(const Module& module) {
  sugar_known_ = true;
  if (!o_.async_sugar) return;
  std::unordered_set<const Computation*> plain;  // has a caller that needs it by name
  for (const auto& computation : module.computations()) {
    for (const Instruction* i : *computation) {
      if (!HasTrait(i->op(), kCalls)) continue;
      if (!i->attrs().Is<AsyncAttrs>()) {
        for (const Computation* called : i->called_computations()) plain.insert(called);
        continue;
      }
      const Computation* calls = i->attrs<AsyncAttrs>().calls;
      if (calls == nullptr) continue;
      bool sugar = false;
      if (i->op() == Op::kAsyncStart) {
        sugar = HasSugar(*i, o_);
      } else if (i->operand_count() > 0) {
        const Instruction* producer = FindAsyncProducer(i->operand(0));
        sugar = producer != nullptr && producer->op() != Op::kAsyncDone &&
                producer->attrs<AsyncAttrs>().calls == calls;
      }
      (sugar ? sugared_ : plain).insert(calls);
    }
  }
  if (module.entry() != nullptr) plain.insert(module.entry());
  for (const Computation* c : plain) sugared_.erase(c);
}

// Callees before callers; all of them, or in canonical form those that the entry reaches, in the
// order in which it does.
std::vector<const Computation*> Printer::Order(const Module& module) {
  std::vector<const Computation*> order;
  if (!o_.canonical || module.entry() == nullptr) {
    for (const auto& c : module.computations()) order.push_back(c.get());
    return order;
  }
  struct Frame {
    const Computation* computation;
    std::vector<const Computation*> called;
    size_t next = 0;
  };
  std::unordered_set<const Computation*> seen;
  std::vector<Frame> stack;
  auto enter = [&](const Computation* c) {
    if (!seen.insert(c).second) return;
    Frame frame{c, {}, 0};
    for (const Instruction* i : *c) {
      for (const Computation* called : i->called_computations()) frame.called.push_back(called);
    }
    stack.push_back(std::move(frame));
  };
  enter(module.entry());
  while (!stack.empty()) {
    Frame& frame = stack.back();
    if (frame.next < frame.called.size()) {
      enter(frame.called[frame.next++]);
    } else {
      order.push_back(frame.computation);
      stack.pop_back();
    }
  }
  return order;
}

void Printer::Number(const Module& module) {
  for (const Computation* c : Order(module)) {
    if (sugared_.contains(c)) continue;
    computation_numbers_.emplace(c, static_cast<int64_t>(computation_numbers_.size()));
  }
}

void Printer::PrintModule(const Module& module) {
  FindSugar(module);
  if (o_.canonical) Number(module);
  if (o_.header) Header(module);
  if (o_.stack_frames && !module.stack_frames().empty()) Tables(module.stack_frames());
  bool first = true;
  for (const Computation* c : Order(module)) {
    if (sugared_.contains(c)) continue;
    if (!first) out_.push_back('\n');
    first = false;
    PrintComputation(*c);
  }
}

void Printer::Signature(const Computation& c) {
  out_.append(" (");
  bool first = true;
  for (const Instruction* p : c.parameters()) {
    if (p == nullptr) continue;
    if (!first) out_.append(", ");
    first = false;
    StrAppend(out_, p->name(), ": ");
    p->shape().AppendTo(out_, false);
  }
  out_.append(") -> ");
  if (c.root() != nullptr) c.root()->shape().AppendTo(out_, false);
}

void Printer::PrintComputation(const Computation& c) {
  if (o_.canonical) {
    for (const Instruction* i : c) numbers_.emplace(i, static_cast<int64_t>(numbers_.size()));
  }
  if (c.IsEntry()) out_.append("ENTRY ");
  Name(&c);
  if (!o_.canonical) Signature(c);
  out_.append(" {\n");
  for (const Instruction* i : c) {
    out_.append(i->IsRoot() ? "  ROOT " : "  ");
    PrintInstruction(*i);
    out_.push_back('\n');
  }
  out_.push_back('}');
  if (!c.execution_thread().empty()) {
    out_.append(", execution_thread=");
    AppendQuoted(out_, c.execution_thread());
  }
  out_.push_back('\n');
  numbers_.clear();
}

}  // namespace weft::hlo::text

namespace weft::hlo {

PrintOptions PrintOptions::Short() {
  PrintOptions o;
  o.percent = o.layouts = o.metadata = o.backend_config = false;
  o.frontend_attributes = o.origin = o.stack_frames = false;
  o.max_constant_elements = 16;
  return o;
}

PrintOptions PrintOptions::Canonical() {
  PrintOptions o;
  o.metadata = o.origin = o.stack_frames = false;
  o.canonical = o.sort_json = true;
  return o;
}

std::string PrintModule(const Module& module, const PrintOptions& options) {
  std::string out;
  text::Printer(out, options).PrintModule(module);
  return out;
}

std::string PrintComputation(const Computation& computation, const PrintOptions& options) {
  std::string out;
  text::Printer(out, options).PrintComputation(computation);
  return out;
}

std::string PrintInstruction(const Instruction& instruction, const PrintOptions& options) {
  std::string out;
  text::Printer(out, options).PrintInstruction(instruction);
  return out;
}

uint64_t Fingerprint(const Module& module) {
  std::string text = PrintModule(module, PrintOptions::Canonical());
  // FNV-1a, then mixed: the same on every machine.
  uint64_t h = 0xcbf29ce484222325ull;
  for (unsigned char c : text) h = (h ^ c) * 0x100000001b3ull;
  h ^= h >> 32;
  h *= 0xff51afd7ed558ccdull;
  return h ^ (h >> 29);
}

}  // namespace weft::hlo
