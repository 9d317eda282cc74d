// HloInstructionProto.
#include "base/wire.h"
#include "hlo/import/hlo_proto.h"

namespace weft::hlo {
namespace {

// Lists of integers: field 1 goes to the first list, and so on; other fields are left out.
Status ReadLists(std::string_view bytes, std::initializer_list<std::pair<uint32_t, Ints*>> lists,
                 std::string_view message) {
  WireReader reader(bytes);
  while (reader.Next()) {
    for (const auto& [field, list] : lists) {
      if (reader.field() == field) reader.Ints(*list);
    }
  }
  if (!reader.ok()) return MalformedProto(message);
  return {};
}

Status ReadNumbers(std::string_view bytes,
                   std::initializer_list<std::pair<uint32_t, int64_t*>> numbers,
                   std::string_view message) {
  WireReader reader(bytes);
  while (reader.Next()) {
    for (const auto& [field, number] : numbers) {
      if (reader.field() == field) *number = reader.Int();
    }
  }
  if (!reader.ok()) return MalformedProto(message);
  return {};
}

Result<Window> ReadWindowProto(std::string_view bytes) {
  Window window;
  WireReader reader(bytes);
  while (reader.Next()) {
    if (reader.field() != 1) continue;
    WindowDim& dim = window.dims.emplace_back(WindowDim{.size = 0, .stride = 0});
    int64_t reversal = 0;
    dim.window_dilation = dim.base_dilation = 0;
    TRY(ReadNumbers(reader.Bytes(),
                    {{1, &dim.size},
                     {2, &dim.stride},
                     {3, &dim.pad_low},
                     {4, &dim.pad_high},
                     {5, &dim.window_dilation},
                     {6, &dim.base_dilation},
                     {7, &reversal}},
                    "WindowDimension"));
    dim.reversal = reversal != 0;
  }
  if (!reader.ok()) return MalformedProto("Window");
  return window;
}

Result<ConvDims> ReadConvDimsProto(std::string_view bytes) {
  ConvDims dims;
  TRY(ReadNumbers(bytes,
                  {{7, &dims.input_batch},
                   {8, &dims.input_feature},
                   {3, &dims.kernel_input},
                   {4, &dims.kernel_output},
                   {9, &dims.output_batch},
                   {10, &dims.output_feature}},
                  "ConvolutionDimensionNumbers"));
  return dims;
}

Status ReadConvLists(std::string_view bytes, ConvDims& dims) {
  TRY(ReadLists(bytes,
                {{11, &dims.input_spatial}, {6, &dims.kernel_spatial}, {12, &dims.output_spatial}},
                "ConvolutionDimensionNumbers"));
  dims.input_rank = static_cast<int64_t>(dims.input_spatial.size()) + 2;
  dims.kernel_rank = static_cast<int64_t>(dims.kernel_spatial.size()) + 2;
  dims.output_rank = static_cast<int64_t>(dims.output_spatial.size()) + 2;
  return {};
}

Status ReadPaddingProto(std::string_view bytes, Padding& padding) {
  WireReader reader(bytes);
  while (reader.Next()) {
    if (reader.field() != 1) continue;
    PaddingDim& dim = padding.emplace_back();
    TRY(ReadNumbers(reader.Bytes(), {{1, &dim.low}, {2, &dim.high}, {3, &dim.interior}},
                    "PaddingConfigDimension"));
  }
  if (!reader.ok()) return MalformedProto("PaddingConfig");
  return {};
}

Status ReadDotDims(std::string_view bytes, InstructionProto& proto) {
  return ReadLists(bytes,
                   {{1, &proto.lhs_contracting_dims},
                    {2, &proto.rhs_contracting_dims},
                    {3, &proto.lhs_batch_dims},
                    {4, &proto.rhs_batch_dims}},
                   "DotDimensionNumbers");
}

Status ReadRaggedDotDims(std::string_view bytes, InstructionProto& proto) {
  WireReader reader(bytes);
  while (reader.Next()) {
    if (reader.field() == 1) TRY(ReadDotDims(reader.Bytes(), proto));
    if (reader.field() == 2) reader.Ints(proto.lhs_ragged_dims);
    if (reader.field() == 3) reader.Ints(proto.rhs_group_dims);
  }
  if (!reader.ok()) return MalformedProto("RaggedDotDimensionNumbers");
  return {};
}

Status ReadPrecisionProto(std::string_view bytes, InstructionProto& proto) {
  WireReader reader(bytes);
  Ints precisions;
  while (reader.Next()) {
    if (reader.field() == 1) reader.Ints(precisions);
    if (reader.field() == 2) proto.dot_algorithm = reader.Varint();
  }
  if (!reader.ok()) return MalformedProto("PrecisionConfig");
  bool written = false;  // text leaves out what is all default
  for (int64_t precision : precisions) {
    if (precision < 0 || precision > 2) return InvalidArgument("precision ", precision);
    written |= precision != 0;
    proto.operand_precision.push_back(static_cast<Precision>(precision));
  }
  if (!written) proto.operand_precision.clear();
  return {};
}

Status ReadAccuracyProto(std::string_view bytes, ResultAccuracy& accuracy) {
  WireReader reader(bytes);
  while (reader.Next()) {
    if (reader.field() == 1) {
      accuracy.mode =
          reader.Varint() == 1 ? ResultAccuracy::Mode::kHighest : ResultAccuracy::Mode::kDefault;
    } else if (reader.field() == 2) {
      accuracy.mode = ResultAccuracy::Mode::kTolerance;
      WireReader part(reader.Bytes());
      while (part.Next()) {
        if (part.field() == 1) accuracy.atol = part.Double();
        if (part.field() == 2) accuracy.rtol = part.Double();
        if (part.field() == 3) accuracy.ulps = part.Int();
      }
      if (!part.ok()) return MalformedProto("Tolerance");
    }
  }
  if (!reader.ok()) return MalformedProto("ResultAccuracy");
  return {};
}

Status ReadAliasingProto(std::string_view bytes, OperandAliases& aliases) {
  Ints output, index;
  OperandAlias alias;
  TRY(ReadLists(bytes, {{1, &output}, {3, &index}}, "OutputOperandAliasing"));
  WireReader reader(bytes);
  while (reader.Next()) {
    if (reader.field() == 2) alias.operand = reader.Int();
  }
  alias.output = ShapeIndex(output);
  alias.operand_index = ShapeIndex(index);
  aliases.push_back(std::move(alias));
  return {};
}

Status ReadTriangularSolve(std::string_view bytes, InstructionProto& proto) {
  WireReader reader(bytes);
  while (reader.Next()) {
    if (reader.field() == 1) proto.left_side = reader.Bool();
    if (reader.field() == 2) proto.lower = reader.Bool();
    if (reader.field() == 3) proto.unit_diagonal = reader.Bool();
    if (reader.field() == 4) proto.transpose_a = reader.Varint();
  }
  if (!reader.ok()) return MalformedProto("TriangularSolveOptions");
  return {};
}

Status ReadGatherDims(std::string_view bytes, InstructionProto& proto) {
  WireReader reader(bytes);
  while (reader.Next()) {
    switch (reader.field()) {
      case 1: reader.Ints(proto.offset_dims); break;
      case 2: reader.Ints(proto.collapsed_slice_dims); break;
      case 3: reader.Ints(proto.start_index_map); break;
      case 4: proto.index_vector_dim = reader.Int(); break;
      case 5: reader.Ints(proto.operand_batching_dims); break;
      case 6: reader.Ints(proto.start_indices_batching_dims); break;
      default: break;
    }
  }
  if (!reader.ok()) return MalformedProto("GatherDimensionNumbers");
  return {};
}

Status ReadScatterDims(std::string_view bytes, InstructionProto& proto) {
  WireReader reader(bytes);
  while (reader.Next()) {
    switch (reader.field()) {
      case 1: reader.Ints(proto.update_window_dims); break;
      case 2: reader.Ints(proto.inserted_window_dims); break;
      case 3: reader.Ints(proto.scatter_dims_to_operand_dims); break;
      case 4: proto.index_vector_dim = reader.Int(); break;
      case 5: reader.Ints(proto.input_batching_dims); break;
      case 6: reader.Ints(proto.scatter_indices_batching_dims); break;
      default: break;
    }
  }
  if (!reader.ok()) return MalformedProto("ScatterDimensionNumbers");
  return {};
}

Status ReadDimLabels(std::string_view bytes, InstructionProto& proto) {
  proto.dim_labels = TRY(ReadConvDimsProto(bytes));
  return ReadConvLists(bytes, proto.dim_labels);
}

Status ReadParameterReplication(std::string_view bytes, InstructionProto& proto) {
  Ints leaves;
  TRY(ReadLists(bytes, {{1, &leaves}}, "ParameterReplication"));
  for (int64_t leaf : leaves) proto.parameter_replication.push_back(leaf != 0);
  return {};
}

// Fields that are messages; false when the field is none of them.
Result<bool> ReadMessageField(WireReader& reader, InstructionProto& proto) {
  switch (reader.field()) {
    case 3: proto.shape = TRY(ReadShapeProto(reader.Bytes())); return true;
    case 7: proto.metadata = TRY(ReadMetadataProto(reader.Bytes())); return true;
    case 8: proto.literal = TRY(ReadLiteralProto(reader.Bytes())); return true;
    case 15: proto.window = TRY(ReadWindowProto(reader.Bytes())); return true;
    case 16: TRY(ReadDimLabels(reader.Bytes(), proto)); return true;
    case 17: {
      SliceDim& dim = proto.slice.emplace_back(SliceDim{.start = 0, .limit = 0, .stride = 0});
      TRY(ReadNumbers(reader.Bytes(), {{1, &dim.start}, {2, &dim.limit}, {3, &dim.stride}},
                      "SliceDimensions"));
      return true;
    }
    case 21: TRY(ReadPaddingProto(reader.Bytes(), proto.padding)); return true;
    case 29: proto.outfeed_shape = TRY(ReadShapeProto(reader.Bytes())); return true;
    case 30: TRY(ReadDotDims(reader.Bytes(), proto)); return true;
    case 33: TRY(ReadGatherDims(reader.Bytes(), proto)); return true;
    case 40: proto.sharding = TRY(ReadShardingProto(reader.Bytes())); return true;
    case 48: TRY(ReadScatterDims(reader.Bytes(), proto)); return true;
    case 49: {
      ReplicaGroups group = TRY(ReadReplicaGroupsProto(reader.Bytes(), 49));
      proto.replica_groups.groups.push_back(std::move(group.groups[0]));
      return true;
    }
    case 51: TRY(ReadPrecisionProto(reader.Bytes(), proto)); return true;
    case 52: {
      auto& [source, target] = proto.source_target_pairs.emplace_back(0, 0);
      TRY(ReadNumbers(reader.Bytes(), {{1, &source}, {2, &target}}, "SourceTarget"));
      return true;
    }
    case 54: proto.domain_entry = TRY(ReadShardingProto(reader.Bytes())); return true;
    case 55: proto.domain_exit = TRY(ReadShardingProto(reader.Bytes())); return true;
    case 57: proto.operand_layouts.push_back(TRY(ReadShapeProto(reader.Bytes()))); return true;
    case 59: TRY(ReadTriangularSolve(reader.Bytes(), proto)); return true;
    case 61: TRY(ReadParameterReplication(reader.Bytes(), proto)); return true;
    case 62: {
      int64_t lower = 0;
      TRY(ReadNumbers(reader.Bytes(), {{1, &lower}}, "CholeskyOptions"));
      proto.lower = lower != 0;
      return true;
    }
    case 68:
      proto.frontend_attributes = TRY(ReadFrontendAttributesProto(reader.Bytes()));
      return true;
    case 74: TRY(ReadAliasingProto(reader.Bytes(), proto.output_operand_aliasing)); return true;
    case 87:
    case 92:
    case 93:
      proto.replica_groups = TRY(ReadReplicaGroupsProto(reader.Bytes(), reader.field()));
      return true;
    case 90: TRY(ReadRaggedDotDims(reader.Bytes(), proto)); return true;
    case 91: TRY(ReadAccuracyProto(reader.Bytes(), proto.result_accuracy)); return true;
    default: return false;
  }
}

// Fields that are numbers; false when the field is none of them.
bool ReadNumberField(WireReader& reader, InstructionProto& p) {
  switch (reader.field()) {
    case 9: p.parameter_number = reader.Int(); return true;
    case 13: p.tuple_index = reader.Int(); return true;
    case 18: p.exponent_bits = reader.Int(); return true;
    case 19: p.mantissa_bits = reader.Int(); return true;
    case 23: p.distribution = reader.Varint(); return true;
    case 24: p.epsilon = static_cast<double>(reader.Float()); return true;
    case 25: p.feature_index = reader.Int(); return true;
    case 26: p.channel_id = reader.Int(); return true;
    case 31: p.fft_type = reader.Varint(); return true;
    case 35: p.id = reader.Int(); return true;
    case 50: p.feature_group_count = reader.Int(); return true;
    case 58: p.batch_group_count = reader.Int(); return true;
    case 66: p.delta = reader.Int(); return true;
    case 70: p.rng_algorithm = reader.Varint(); return true;
    case 75: p.padding_type = reader.Varint(); return true;
    case 76: p.schedule = reader.Varint(); return true;
    case 77: p.api_version = reader.Varint(); return true;
    case 80: p.cross_program_prefetch_index = reader.Int(); return true;
    case 81: p.k = reader.Int(); return true;
    case 95: p.num_carries = reader.Int(); return true;
    case 96: p.is_associative = reader.Varint() == 1; return true;
    case 97: p.conv_kind = reader.Varint(); return true;
    default: return false;
  }
}

// Names, flags and lists.
void ReadOtherField(WireReader& reader, InstructionProto& p) {
  switch (reader.field()) {
    case 1: p.name = reader.Bytes(); break;
    case 2: p.opcode = reader.Bytes(); break;
    case 11: p.fusion_kind = reader.Bytes(); break;
    case 14: reader.Ints(p.dimensions); break;
    case 20: reader.Ints(p.dynamic_slice_sizes); break;
    case 22: p.outfeed_config = reader.Bytes(); break;
    case 27: p.infeed_config = reader.Bytes(); break;
    case 28: p.custom_call_target = reader.Bytes(); break;
    case 32: reader.Ints(p.fft_length); break;
    case 34: reader.Ints(p.gather_slice_sizes); break;
    case 36: reader.Ints(p.operand_ids); break;
    case 37: reader.Ints(p.control_predecessor_ids); break;
    case 38: reader.Ints(p.called_ids); break;
    case 43: p.backend_config = reader.Bytes(); break;
    case 47: p.is_host_transfer = reader.Bool(); break;
    case 56: p.constrain_layout = reader.Bool(); break;
    case 60: p.is_stable = reader.Bool(); break;
    case 63: p.direction = reader.Bytes(); break;
    case 65: p.has_side_effect = reader.Bool(); break;
    case 67: p.indices_are_sorted = reader.Bool(); break;
    case 69: p.unique_indices = reader.Bool(); break;
    case 71: p.use_global_device_ids = reader.Bool(); break;
    case 72: p.comparison_type = reader.Bytes(); break;
    case 79: p.async_thread = reader.Bytes(); break;
    case 85: p.largest = reader.Bool(); break;
    case 89: p.is_composite = reader.Bool(); break;
    case 94: p.is_reverse = reader.Bool(); break;
    case 100: p.has_dynamic_root = reader.Bool(); break;
    default: break;
  }
}

}  // namespace

Result<InstructionProto> ReadInstructionProto(std::string_view bytes) {
  InstructionProto p;
  WireReader reader(bytes);
  while (reader.Next()) {
    if (TRY(ReadMessageField(reader, p)) || ReadNumberField(reader, p)) continue;
    ReadOtherField(reader, p);
  }
  if (!reader.ok()) return MalformedProto("HloInstructionProto");
  return p;
}

}  // namespace weft::hlo
