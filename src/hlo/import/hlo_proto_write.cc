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

// Attributes that are one field of HloInstructionProto. Enums are written as their number.
struct PlainField {
  std::string_view name;
  uint32_t field;
};
constexpr PlainField kPlainFields[] = {
    {"index", 13},
    {"dimensions", 14},
    {"exponent_bits", 18},
    {"mantissa_bits", 19},
    {"dynamic_slice_sizes", 20},
    {"outfeed_config", 22},
    {"distribution", 23},
    {"feature_index", 25},
    {"channel_id", 26},
    {"infeed_config", 27},
    {"custom_call_target", 28},
    {"fft_type", 31},
    {"fft_length", 32},
    {"is_host_transfer", 47},
    {"feature_group_count", 50},
    {"constrain_layout", 56},
    {"batch_group_count", 58},
    {"is_stable", 60},
    {"custom_call_has_side_effect", 65},
    {"delta", 66},
    {"indices_are_sorted", 67},
    {"unique_indices", 69},
    {"use_global_device_ids", 71},
    {"padding_type", 75},
    {"schedule", 76},
    {"async_execution_thread", 79},
    {"cross_program_prefetch_index", 80},
    {"k", 81},
    {"largest", 85},
    {"is_composite", 89},
    {"is_reverse", 94},
    {"num_carries", 95},
    {"convolution_kind", 97},
    {"has_dynamic_root", 100},
};

std::string_view EnumText(const FieldRef& f) {
  return f.enum_names[f.As<uint8_t>()];
}

// The fields of one instruction's attributes.
class ProtoAttrsWriter {
 public:
  ProtoAttrsWriter(const Instruction& instruction, WireWriter& to)
      : i_(instruction), fields_(instruction.attrs().Fields()), w_(to) {}

  void Write() {
    for (const FieldRef& f : fields_) {
      auto plain = std::ranges::find(kPlainFields, f.name, &PlainField::name);
      if (plain != std::end(kPlainFields)) {
        WritePlain(plain->field, f);
      } else {
        WriteSpecial(f);
      }
    }
    WriteDotDims();
    WriteGatherDims();
    WritePrecision();
    WriteTriangularSolve();
    if (i_.op() == Op::kDomain) {
      w_.Message(54, WriteShardingProto(i_.attrs<DomainAttrs>().entry));
      w_.Message(55, WriteShardingProto(i_.attrs<DomainAttrs>().exit));
    }
  }

 private:
  void WritePlain(uint32_t field, const FieldRef& f) {
    switch (f.type) {
      case FieldType::kBool: w_.Int(field, f.As<bool>()); break;
      case FieldType::kInt: w_.Int(field, f.As<int64_t>()); break;
      case FieldType::kEnum: w_.Int(field, f.As<uint8_t>()); break;
      case FieldType::kString: w_.Bytes(field, f.As<std::string>()); break;
      case FieldType::kIntList: w_.Ints(field, f.As<Ints>()); break;
      case FieldType::kOptionalInt:
        if (auto value = f.As<std::optional<int64_t>>()) w_.IntAlways(field, *value);
        break;
      default: break;
    }
  }

  void WriteSpecial(const FieldRef& f) {
    switch (f.type) {
      case FieldType::kEnum: WriteEnum(f); break;
      case FieldType::kWindow: WriteWindow(f.As<Window>()); break;
      case FieldType::kConvDims: WriteConvDims(f.As<ConvDims>()); break;
      case FieldType::kPadding: WritePadding(f.As<Padding>()); break;
      case FieldType::kSliceDims: WriteSlice(f.As<SliceDims>()); break;
      case FieldType::kReplicaGroups: WriteReplicaGroups(f.As<ReplicaGroups>(), w_); break;
      case FieldType::kIntPairs:
        for (const auto& [source, target] : f.As<IntPairs>()) {
          WireWriter part;
          part.Int(1, source);
          part.Int(2, target);
          w_.Message(52, part);
        }
        break;
      case FieldType::kIntListList: {  // the in-place collective-permute: one after the other
        Ints all;
        for (const Ints& list : f.As<std::vector<Ints>>()) {
          all.insert(all.end(), list.begin(), list.end());
        }
        w_.Ints(20, all);
        break;
      }
      case FieldType::kShape:
        if (f.As<Shape>().IsValid()) w_.Message(29, WriteShapeProto(f.As<Shape>()));
        break;
      case FieldType::kShapeList:
        w_.Int(56, !f.As<std::vector<Shape>>().empty());
        for (const Shape& s : f.As<std::vector<Shape>>()) w_.Message(57, WriteShapeProto(s));
        break;
      case FieldType::kLiteral:
        if (f.As<Literal>().IsValid()) w_.Message(8, WriteLiteralProto(f.As<Literal>()));
        break;
      case FieldType::kOperandAliases: WriteAliases(f.As<OperandAliases>()); break;
      case FieldType::kResultAccuracy: WriteAccuracy(f.As<ResultAccuracy>()); break;
      default: WriteNumber(f); break;
    }
  }

  void WriteNumber(const FieldRef& f) {
    if (f.name == "iota_dimension") w_.Ints(14, Ints{f.As<int64_t>()});
    if (f.name == "inferred_dimension") {
      if (auto value = f.As<std::optional<int64_t>>()) w_.Ints(14, Ints{*value});
    }
    if (f.name == "epsilon") w_.Float(24, static_cast<float>(f.As<double>()));
    if (f.name == "is_associative") w_.Int(96, f.As<bool>() ? 1 : 2);
    if (f.name == "slice_sizes") w_.Ints(34, f.As<Ints>());
    if (f.name == "lower" && i_.op() == Op::kCholesky) {
      WireWriter part;
      part.Int(1, f.As<bool>());
      w_.Message(62, part);
    }
  }

  void WriteEnum(const FieldRef& f) {
    if (f.name == "direction") w_.Bytes(63, EnumText(f));
    if (f.name == "kind") w_.Bytes(11, EnumText(f));
    if (f.name == "type") {
      bool total = i_.attrs<CompareAttrs>().order == CompareOrder::kTotal;
      bool floats = IsFloat(i_.operand(0)->shape().dtype());
      w_.Bytes(72, total && floats ? std::string_view("TOTALORDER") : EnumText(f));
    }
    // Absent in text is the original version.
    if (f.name == "api_version") w_.Int(77, std::max<int64_t>(f.As<uint8_t>(), 1));
    if (f.name == "algorithm" && i_.op() == Op::kRngBitGenerator) w_.Int(70, f.As<uint8_t>());
  }

  void WriteWindow(const Window& window) {
    if (window.dims.empty() && i_.op() == Op::kCustomCall) return;
    WireWriter w;
    for (const WindowDim& dim : window.dims) {
      WireWriter part;
      part.Int(1, dim.size);
      part.Int(2, dim.stride);
      part.Int(3, dim.pad_low);
      part.Int(4, dim.pad_high);
      part.Int(5, dim.window_dilation);
      part.Int(6, dim.base_dilation);
      part.Int(7, dim.reversal);
      w.Message(1, part);
    }
    w_.Message(15, w);
  }

  void WriteConvDims(const ConvDims& dims) {
    if (dims.input_rank == 0) return;
    WireWriter w;
    w.Int(3, dims.kernel_input);
    w.Int(4, dims.kernel_output);
    w.Ints(6, dims.kernel_spatial);
    w.Int(7, dims.input_batch);
    w.Int(8, dims.input_feature);
    w.Int(9, dims.output_batch);
    w.Int(10, dims.output_feature);
    w.Ints(11, dims.input_spatial);
    w.Ints(12, dims.output_spatial);
    w_.Message(16, w);
  }

  void WritePadding(const Padding& padding) {
    WireWriter w;
    for (const PaddingDim& dim : padding) {
      WireWriter part;
      part.Int(1, dim.low);
      part.Int(2, dim.high);
      part.Int(3, dim.interior);
      w.Message(1, part);
    }
    w_.Message(21, w);
  }

  void WriteSlice(const SliceDims& slice) {
    for (const SliceDim& dim : slice) {
      WireWriter part;
      part.Int(1, dim.start);
      part.Int(2, dim.limit);
      part.Int(3, dim.stride);
      w_.Message(17, part);
    }
  }

  void WriteAliases(const OperandAliases& aliases) {
    for (const OperandAlias& alias : aliases) {
      WireWriter part;
      part.Ints(1, alias.output);
      part.Int(2, alias.operand);
      part.Ints(3, alias.operand_index);
      w_.Message(74, part);
    }
  }

  void WriteAccuracy(const ResultAccuracy& accuracy) {
    if (accuracy == ResultAccuracy()) return;
    WireWriter w;
    if (accuracy.mode == ResultAccuracy::Mode::kTolerance) {
      WireWriter part;
      part.Double(1, accuracy.atol);
      part.Double(2, accuracy.rtol);
      part.Int(3, accuracy.ulps);
      w.Message(2, part);
    } else {
      w.Int(1, accuracy.mode == ResultAccuracy::Mode::kHighest);
    }
    w_.Message(91, w);
  }

  // Lists and numbers that are fields of one message.
  WireWriter Grouped(std::initializer_list<PlainField> parts) const {
    WireWriter w;
    for (const auto& [name, field] : parts) {
      const FieldRef* f = fields_.Find(name);
      if (f == nullptr) continue;
      if (f->type == FieldType::kIntList) w.Ints(field, f->As<Ints>());
      if (f->type == FieldType::kInt) w.Int(field, f->As<int64_t>());
      if (f->type == FieldType::kBool) w.Int(field, f->As<bool>());
      if (f->type == FieldType::kEnum) w.Int(field, f->As<uint8_t>());
    }
    return w;
  }

  void WriteDotDims() {
    if (fields_.Find("lhs_contracting_dims") == nullptr) return;
    WireWriter dims = Grouped({{"lhs_contracting_dims", 1},
                               {"rhs_contracting_dims", 2},
                               {"lhs_batch_dims", 3},
                               {"rhs_batch_dims", 4}});
    if (i_.op() != Op::kRaggedDot) return w_.Message(30, dims);
    WireWriter ragged = Grouped({{"lhs_ragged_dims", 2}, {"rhs_group_dims", 3}});
    ragged.Message(1, dims);
    w_.Message(90, ragged);
  }

  void WriteGatherDims() {
    if (i_.op() == Op::kGather) {
      w_.Message(33, Grouped({{"offset_dims", 1},
                              {"collapsed_slice_dims", 2},
                              {"start_index_map", 3},
                              {"index_vector_dim", 4},
                              {"operand_batching_dims", 5},
                              {"start_indices_batching_dims", 6}}));
    } else if (i_.op() == Op::kScatter) {
      w_.Message(48, Grouped({{"update_window_dims", 1},
                              {"inserted_window_dims", 2},
                              {"scatter_dims_to_operand_dims", 3},
                              {"index_vector_dim", 4},
                              {"input_batching_dims", 5},
                              {"scatter_indices_batching_dims", 6}}));
    }
  }

  void WritePrecision() {
    const FieldRef* precision = fields_.Find("operand_precision");
    if (precision == nullptr) return;
    WireWriter w = Grouped({{"algorithm", 2}});
    w.Ints(1, precision->As<std::vector<Precision>>());
    if (!w.empty()) w_.Message(51, w);
  }

  void WriteTriangularSolve() {
    if (i_.op() != Op::kTriangularSolve) return;
    w_.Message(59,
               Grouped({{"left_side", 1}, {"lower", 2}, {"unit_diagonal", 3}, {"transpose_a", 4}}));
  }

  const Instruction& i_;
  FieldList fields_;
  WireWriter& w_;
};

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
      ProtoAttrsWriter(i, w).Write();
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
