// A Module to HloModuleProto: the inverse of hlo_proto.cc.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/str.h"
#include "base/wire.h"
#include "hlo/import/hlo_proto.h"
#include "hlo/import/import.h"

namespace weft::hlo {
namespace {

// In the order of the proto, which has a loop's body before its condition.
std::vector<const Computation*> CalledInOrder(const Instruction& i) {
  if (i.op() == Op::kWhile) {
    return {i.attrs<WhileAttrs>().body, i.attrs<WhileAttrs>().condition};
  }
  auto called = i.called_computations();
  return {called.begin(), called.end()};
}

class ModuleProtoWriter {
 public:
  explicit ModuleProtoWriter(const Module& module) : module_(module) { Number(); }

  std::string Write() {
    WireWriter w;
    w.Bytes(1, module_.name());
    for (const auto& computation : module_.computations()) {
      w.Message(3, WriteComputation(*computation));
    }
    if (const Computation* entry = module_.entry()) {
      w.Bytes(2, names_[entry]);
      w.Int(6, ids_[entry]);
      w.Message(4, WriteEntryShape());
    }
    if (module_.config().is_scheduled) w.Message(7, WriteSchedule());
    WriteAliases(w);
    if (!module_.stack_frames().empty()) w.Message(17, WriteStackFrames());
    if (!module_.config().frontend_attributes.empty()) {
      w.Message(19, WriteFrontendAttributesProto(module_.config().frontend_attributes));
    }
    return w.Take();
  }

  WireWriter WriteEntryShape() {
    const auto& layout = module_.config().entry_layout;
    return WriteProgramShape(*module_.entry(), layout ? &*layout : nullptr);
  }

 private:
  // Computations from 1; an instruction's number has its computation's in the upper half and its
  // place in the lower. No two instructions have the same name, and no two computations.
  void Number() {
    std::unordered_set<std::string> computations, instructions;
    int64_t next = 1;
    auto name = [&](const void* of, const std::string& wanted,
                    std::unordered_set<std::string>& taken) {
      std::string unique = wanted.empty() ? "unnamed" : wanted;
      while (!taken.insert(unique).second) unique = StrCat(wanted, ".", ++last_suffix_[wanted]);
      names_[of] = std::move(unique);
    };
    for (const auto& computation : module_.computations()) {
      ids_[computation.get()] = next;
      name(computation.get(), computation->name(), computations);
      int64_t place = 0;
      for (const Instruction* i : *computation) {
        ids_[i] = next << 32 | place++;
        name(i, i->name(), instructions);
      }
      ++next;
    }
  }

  WireWriter WriteProgramShape(const Computation& computation, const EntryLayout* layout) {
    WireWriter w;
    size_t n = 0;
    for (const Instruction* parameter : computation.parameters()) {
      bool given = layout != nullptr && n < layout->parameters.size();
      w.Message(1, WriteShapeProto(given ? layout->parameters[n] : parameter->shape()));
      ++n;
    }
    bool given = layout != nullptr && layout->result.IsValid();
    w.Message(2, WriteShapeProto(given ? layout->result : computation.root()->shape()));
    for (const Instruction* parameter : computation.parameters()) {
      w.BytesAlways(3, names_[parameter]);
    }
    return w;
  }

  WireWriter WriteComputation(const Computation& computation) {
    WireWriter w;
    w.Bytes(1, names_[&computation]);
    for (const Instruction* i : computation) w.Message(2, WriteInstruction(*i));
    w.Message(4, WriteProgramShape(computation, nullptr));
    w.Int(5, ids_[&computation]);
    w.IntAlways(6, ids_[computation.root()]);
    w.Bytes(8, computation.execution_thread().empty() ? "main" : computation.execution_thread());
    return w;
  }

  WireWriter WriteInstruction(const Instruction& i) {
    WireWriter w;
    w.Bytes(1, names_[&i]);
    w.Bytes(2, i.def().mnemonic);
    Shape shape = i.shape();
    if (i.IsConstant()) {
      shape.ClearLayout();  // as that of its literal
      if (i.literal().IsValid()) w.Message(8, WriteLiteralProto(i.literal()));
    }
    w.Message(3, WriteShapeProto(shape));
    if (i.metadata() != nullptr) w.Message(7, WriteMetadataProto(*i.metadata()));
    if (i.IsParameter()) w.Int(9, i.parameter_number());
    w.IntAlways(35, ids_[&i]);
    w.Ints(36, IdsOf(i.operands()));
    w.Ints(37, IdsOf(i.control_predecessors()));
    w.Ints(38, IdsOf(CalledInOrder(i)));
    if (!i.attrs().Is<ParameterAttrs>() && !i.attrs().Is<ConstantAttrs>()) {
      WriteAttrsProto(i, w);
    }
    if (i.extras() != nullptr) WriteExtras(*i.extras(), w);
    return w;
  }

  template <class Range>
  std::vector<int64_t> IdsOf(const Range& range) {
    std::vector<int64_t> ids;
    for (const auto* of : range) ids.push_back(ids_[of]);
    return ids;
  }

  static void WriteExtras(const InstructionExtras& extras, WireWriter& w) {
    if (extras.sharding) w.Message(40, WriteShardingProto(*extras.sharding));
    w.Bytes(43, extras.backend_config.text);
    if (!extras.parameter_replication.empty()) {
      WireWriter part;
      part.Ints(1, extras.parameter_replication);
      w.Message(61, part);
    }
    if (!extras.frontend_attributes.empty()) {
      w.Message(68, WriteFrontendAttributesProto(extras.frontend_attributes));
    }
  }

  WireWriter WriteSchedule() {
    WireWriter w;
    for (const auto& computation : module_.computations()) {
      std::vector<int64_t> ids;
      for (const Instruction* i : *computation) ids.push_back(ids_[i]);
      WireWriter sequence, entry;
      sequence.Ints(1, ids);
      entry.Int(1, ids_[computation.get()]);
      entry.Message(2, sequence);
      w.Message(1, entry);
    }
    return w;
  }

  void WriteAliases(WireWriter& w) {
    WireWriter aliases, donors;
    for (const InputOutputAlias& alias : module_.config().input_output_alias) {
      WireWriter entry;
      entry.Ints(1, alias.output);
      entry.Int(2, alias.parameter);
      entry.Ints(3, alias.parameter_index);
      entry.Int(4, alias.kind == AliasKind::kMust ? 2 : 1);
      aliases.Message(1, entry);
    }
    for (const BufferDonor& donor : module_.config().buffer_donors) {
      WireWriter entry;
      entry.Int(1, donor.parameter);
      entry.Ints(2, donor.index);
      donors.Message(1, entry);
    }
    w.Bytes(8, aliases.str());
    w.Bytes(18, donors.str());
  }

  WireWriter WriteStackFrames() {
    const StackFrames& frames = module_.stack_frames();
    WireWriter w;
    for (const std::string& file : frames.files) w.BytesAlways(1, file);
    for (const std::string& function : frames.functions) w.BytesAlways(2, function);
    for (const FileLocation& location : frames.locations) {
      WireWriter part;
      part.Int(1, location.file);
      part.Int(2, location.function);
      part.Int(3, location.line);
      part.Int(4, location.column);
      part.Int(5, location.end_line);
      part.Int(6, location.end_column);
      w.Message(3, part);
    }
    for (const StackFrame& frame : frames.frames) {
      WireWriter part;
      part.Int(1, frame.location);
      part.Int(2, frame.parent);
      w.Message(4, part);
    }
    return w;
  }

  const Module& module_;
  std::unordered_map<const void*, int64_t> ids_;
  std::unordered_map<const void*, std::string> names_;
  std::unordered_map<std::string, int64_t> last_suffix_;
};

}  // namespace

std::string ExportHloProto(const Module& module) {
  return ModuleProtoWriter(module).Write();
}

std::string ExportHloProtoWithConfig(const Module& module, std::string_view module_fields) {
  ModuleProtoWriter writer(module);
  const ModuleConfig& c = module.config();
  WireWriter w, config;
  if (module.entry() != nullptr) config.Message(1, writer.WriteEntryShape());
  config.Int(4, c.replica_count);
  config.Int(5, c.num_partitions);
  config.Int(7, c.num_partitions > 1);
  config.Int(17, c.alias_passthrough_params);
  auto flags = [&](uint32_t field, const std::vector<bool>& given) {
    config.Ints(field, given.empty() ? std::vector<bool>{false} : given);
  };
  flags(27, c.propagate_sharding_to_output);
  flags(33, c.propagate_sharding_to_parameters);
  w.BytesAlways(1, writer.Write().append(module_fields));
  w.Message(2, config);
  return w.Take();
}

}  // namespace weft::hlo
