// HloModuleProto to a Module.
#include "hlo/import/hlo_proto.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "base/wire.h"
#include "hlo/import/import.h"
#include "hlo/verify.h"

namespace weft::hlo {
namespace {

struct ComputationProto {
  std::string_view name, execution_thread;
  int64_t id = 0, root_id = 0;
  std::vector<std::string_view> instructions;
};

class ModuleProtoReader {
 public:
  Result<std::unique_ptr<Module>> Read(std::string_view bytes) {
    module_ = std::make_unique<Module>("");
    WireReader reader(bytes);
    int64_t entry_id = 0;
    std::vector<ComputationProto> computations;
    while (reader.Next()) {
      switch (reader.field()) {
        case 1: module_->set_name(std::string(reader.Bytes())); break;
        case 3: computations.push_back(TRY(ReadComputation(reader.Bytes()))); break;
        case 4: TRY(ReadEntryLayout(reader.Bytes())); break;
        case 6: entry_id = reader.Int(); break;
        case 7: TRY(ReadSchedule(reader.Bytes())); break;
        case 8: TRY(ReadAliases(reader.Bytes())); break;
        case 17: TRY(ReadStackFrames(reader.Bytes())); break;
        case 18: TRY(ReadDonors(reader.Bytes())); break;
        case 19:
          module_->config().frontend_attributes = TRY(ReadFrontendAttributesProto(reader.Bytes()));
          break;
        default: break;
      }
    }
    if (!reader.ok()) return MalformedProto("HloModuleProto");
    if (computations.empty()) return InvalidArgument("HLO proto: a module without computations");
    // Each computation comes before those that call it.
    for (const ComputationProto& proto : computations) {
      Result<Computation*> made = AddComputation(proto);
      if (!made) {
        made.error().Prefix(StrCat("HLO proto: computation ", proto.name, ": "));
        return std::unexpected(std::move(made).error());
      }
      computations_[proto.id] = *made;
    }
    auto entry = computations_.find(entry_id);
    if (entry == computations_.end()) return InvalidArgument("HLO proto: no entry computation");
    module_->set_entry(entry->second);
    return std::move(module_);
  }

 private:
  Result<ComputationProto> ReadComputation(std::string_view bytes) {
    ComputationProto proto;
    WireReader reader(bytes);
    while (reader.Next()) {
      switch (reader.field()) {
        case 1: proto.name = reader.Bytes(); break;
        case 2: proto.instructions.push_back(reader.Bytes()); break;
        case 5: proto.id = reader.Int(); break;
        case 6: proto.root_id = reader.Int(); break;
        case 8: proto.execution_thread = reader.Bytes(); break;
        default: break;
      }
    }
    if (!reader.ok()) return MalformedProto("HloComputationProto");
    return proto;
  }

  Result<Computation*> AddComputation(const ComputationProto& proto) {
    Computation* computation = module_->AddComputation(std::string(proto.name));
    if (proto.execution_thread != "main") {
      computation->set_execution_thread(std::string(proto.execution_thread));
    }
    std::vector<InstructionProto> protos;
    for (std::string_view bytes : proto.instructions) {
      protos.push_back(TRY(ReadInstructionProto(bytes)));
    }
    TRY(Order(proto.id, protos));
    std::unordered_map<int64_t, Instruction*> by_id;
    for (const InstructionProto& p : protos) {
      Result<Instruction*> added = AddInstruction(*computation, p, by_id, protos.size());
      if (!added) {
        added.error().Prefix(StrCat(p.name, ": "));
        return std::unexpected(std::move(added).error());
      }
      if (!by_id.emplace(p.id, *added).second) return InvalidArgument("two have the id ", p.id);
    }
    for (const InstructionProto& p : protos) {
      for (int64_t id : p.control_predecessor_ids) {
        Instruction* before = Find(by_id, id);
        if (before == nullptr) return InvalidArgument("no instruction has the id ", id);
        by_id[p.id]->AddControlPredecessor(before);
      }
    }
    Instruction* root = Find(by_id, proto.root_id);
    if (root == nullptr) return InvalidArgument("no root");
    computation->set_root(root);
    if (!computation->SortTopologically()) return InvalidArgument("it has a cycle");
    return computation;
  }

  // By the schedule, where there is one.
  Status Order(int64_t computation, std::vector<InstructionProto>& protos) {
    auto it = schedule_.find(computation);
    if (it == schedule_.end()) return {};
    std::unordered_map<int64_t, size_t> place;  // ids are unique
    for (size_t i = 0; i < it->second.size(); ++i) place[it->second[i]] = i;
    for (const InstructionProto& p : protos) {
      if (!place.contains(p.id)) return InvalidArgument(p.name, " is not in the schedule");
    }
    std::ranges::sort(protos, {}, [&](const InstructionProto& p) { return place[p.id]; });
    return {};
  }

  // Ids are either of the whole module or, in their lower half, of the computation.
  static Instruction* Find(const std::unordered_map<int64_t, Instruction*>& by_id, int64_t id) {
    auto it = by_id.find(id);
    if (it == by_id.end()) it = by_id.find(id & 0xffffffff);
    return it == by_id.end() ? nullptr : it->second;
  }

  Result<Instruction*> AddInstruction(Computation& computation, const InstructionProto& p,
                                      const std::unordered_map<int64_t, Instruction*>& by_id,
                                      size_t count) {
    std::optional<Op> op = FindOp(p.opcode);
    if (!op) return Unimplemented("the operation ", p.opcode, " is not known");
    std::vector<Instruction*> operands;
    for (int64_t id : p.operand_ids) {
      Instruction* operand = Find(by_id, id);
      if (operand == nullptr) return InvalidArgument("no operand before it has the id ", id);
      operands.push_back(operand);
    }
    std::vector<Computation*> called;
    for (int64_t id : p.called_ids) {
      auto it = computations_.find(id);
      if (it == computations_.end()) return InvalidArgument("calls no computation before it: ", id);
      called.push_back(it->second);
    }
    Attrs attrs(GetOp(*op).attrs);
    if (*op == Op::kParameter) {
      if (p.parameter_number < 0 || p.parameter_number >= static_cast<int64_t>(count)) {
        return InvalidArgument("parameter ", p.parameter_number);
      }
      attrs = ParameterAttrs{.number = p.parameter_number};
    } else {
      DType operand = operands.empty() ? DType::kInvalid : operands[0]->shape().dtype();
      TRY(FillAttrs(p, std::move(called), operand, *op, attrs));
    }
    if (!p.shape.IsValid()) return InvalidArgument("it has no shape");
    Instruction* instruction =
        computation.Add(*op, std::string(p.name), p.shape, operands, std::move(attrs));
    AddFacts(*instruction, p);
    return instruction;
  }

  static void AddFacts(Instruction& instruction, const InstructionProto& p) {
    if (p.metadata && *p.metadata != Metadata()) instruction.mutable_metadata() = *p.metadata;
    if (p.sharding) instruction.mutable_extras().sharding.Make() = *p.sharding;
    if (!p.frontend_attributes.empty()) {
      instruction.mutable_extras().frontend_attributes = p.frontend_attributes;
    }
    if (!p.backend_config.empty()) {
      bool dict = p.backend_config.starts_with('{') && p.backend_config.ends_with('}');
      instruction.mutable_extras().backend_config = {.text = std::string(p.backend_config),
                                                     .is_dict = dict};
    }
    if (!p.parameter_replication.empty()) {
      instruction.mutable_extras().parameter_replication = p.parameter_replication;
    }
  }

  Status ReadEntryLayout(std::string_view bytes) {
    EntryLayout layout;
    WireReader reader(bytes);
    while (reader.Next()) {
      if (reader.field() == 1) layout.parameters.push_back(TRY(ReadShapeProto(reader.Bytes())));
      if (reader.field() == 2) layout.result = TRY(ReadShapeProto(reader.Bytes()));
    }
    if (!reader.ok()) return MalformedProto("ProgramShapeProto");
    if (layout.result.IsValid()) module_->config().entry_layout = std::move(layout);
    return {};
  }

  // map<int64, {repeated int64 instruction_ids = 1}> sequences = 1
  Status ReadSchedule(std::string_view bytes) {
    WireReader reader(bytes);
    while (reader.Next()) {
      if (reader.field() != 1) continue;
      int64_t computation = 0;
      std::vector<int64_t> ids;
      WireReader entry(reader.Bytes());
      while (entry.Next()) {
        if (entry.field() == 1) computation = entry.Int();
        if (entry.field() == 2) {
          WireReader sequence(entry.Bytes());
          while (sequence.Next()) {
            if (sequence.field() == 1) sequence.Ints(ids);
          }
          if (!sequence.ok()) return MalformedProto("InstructionSequence");
        }
      }
      if (!entry.ok()) return MalformedProto("HloScheduleProto");
      schedule_[computation] = std::move(ids);
    }
    if (!reader.ok()) return MalformedProto("HloScheduleProto");
    module_->config().is_scheduled = !schedule_.empty();
    return {};
  }

  Status ReadAliases(std::string_view bytes) {
    WireReader reader(bytes);
    while (reader.Next()) {
      if (reader.field() != 1) continue;
      InputOutputAlias& alias = module_->config().input_output_alias.emplace_back();
      std::vector<int64_t> output, index;
      WireReader entry(reader.Bytes());
      while (entry.Next()) {
        if (entry.field() == 1) entry.Ints(output);
        if (entry.field() == 2) alias.parameter = entry.Int();
        if (entry.field() == 3) entry.Ints(index);
        if (entry.field() == 4)
          alias.kind = entry.Varint() == 2 ? AliasKind::kMust : AliasKind::kMay;
      }
      if (!entry.ok()) return MalformedProto("AliasEntryProto");
      alias.output = ShapeIndex(output);
      alias.parameter_index = ShapeIndex(index);
    }
    if (!reader.ok()) return MalformedProto("HloInputOutputAliasProto");
    return {};
  }

  Status ReadDonors(std::string_view bytes) {
    WireReader reader(bytes);
    while (reader.Next()) {
      if (reader.field() != 1) continue;
      BufferDonor& donor = module_->config().buffer_donors.emplace_back();
      std::vector<int64_t> index;
      WireReader entry(reader.Bytes());
      while (entry.Next()) {
        if (entry.field() == 1) donor.parameter = entry.Int();
        if (entry.field() == 2) entry.Ints(index);
      }
      if (!entry.ok()) return MalformedProto("BufferDonorEntryProto");
      donor.index = ShapeIndex(index);
    }
    if (!reader.ok()) return MalformedProto("HloBufferDonorProto");
    return {};
  }

  Status ReadStackFrames(std::string_view bytes) {
    StackFrames& frames = module_->stack_frames();
    WireReader reader(bytes);
    auto number = [](WireReader& from) { return static_cast<int32_t>(from.Varint()); };
    while (reader.Next()) {
      if (reader.field() == 1) frames.files.emplace_back(reader.Bytes());
      if (reader.field() == 2) frames.functions.emplace_back(reader.Bytes());
      if (reader.field() == 3) {
        FileLocation& location = frames.locations.emplace_back();
        WireReader part(reader.Bytes());
        while (part.Next()) {
          if (part.field() == 1) location.file = number(part);
          if (part.field() == 2) location.function = number(part);
          if (part.field() == 3) location.line = number(part);
          if (part.field() == 4) location.column = number(part);
          if (part.field() == 5) location.end_line = number(part);
          if (part.field() == 6) location.end_column = number(part);
        }
        if (!part.ok()) return MalformedProto("FileLocation");
      }
      if (reader.field() == 4) {
        StackFrame& frame = frames.frames.emplace_back();
        WireReader part(reader.Bytes());
        while (part.Next()) {
          if (part.field() == 1) frame.location = number(part);
          if (part.field() == 2) frame.parent = number(part);
        }
        if (!part.ok()) return MalformedProto("StackFrame");
      }
    }
    if (!reader.ok()) return MalformedProto("StackFrameIndexProto");
    return {};
  }

  std::unique_ptr<Module> module_;
  std::unordered_map<int64_t, Computation*> computations_;
  std::unordered_map<int64_t, std::vector<int64_t>> schedule_;
};

// An HloProto has the module in field 1, where a module has its name, and field 3; an
// HloModuleProtoWithConfig has it there and field 2. A module has all three.
std::string_view ModuleBytes(std::string_view bytes) {
  WireReader reader(bytes);
  std::string_view first;
  bool has_second = false, has_third = false;
  while (reader.Next()) {
    if (reader.field() > 3) return bytes;
    if (reader.field() == 1) first = reader.Bytes();
    has_second |= reader.field() == 2;
    has_third |= reader.field() == 3;
  }
  if (has_second && has_third) return bytes;
  WireReader inner(first);
  bool computation = false;
  while (inner.Next()) computation |= inner.field() == 3;
  return reader.ok() && inner.ok() && computation ? first : bytes;
}

}  // namespace

Result<std::unique_ptr<Module>> ImportHloProto(std::string_view bytes) {
  std::unique_ptr<Module> module = TRY(ModuleProtoReader().Read(ModuleBytes(bytes)));
  TRY(Verify(*module));
  return module;
}

}  // namespace weft::hlo
