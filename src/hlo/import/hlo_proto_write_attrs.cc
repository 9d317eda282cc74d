// Attributes of an instruction to the fields of HloInstructionProto.
#include <algorithm>

#include "base/str.h"
#include "base/wire.h"
#include "hlo/import/hlo_proto.h"

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

}  // namespace

void WriteAttrsProto(const Instruction& instruction, WireWriter& to) {
  ProtoAttrsWriter(instruction, to).Write();
}

}  // namespace weft::hlo
