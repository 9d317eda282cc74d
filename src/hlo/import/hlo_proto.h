// The messages of XLA's hlo.proto and xla_data.proto as the values that HLO is made of.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "base/shape.h"
#include "base/wire.h"
#include "hlo/module.h"

namespace weft::hlo {

// HloInstructionProto. Numbers of enums as XLA has them.
struct InstructionProto {
  std::string_view name, opcode;
  int64_t id = 0;
  Shape shape;
  std::vector<int64_t> operand_ids, control_predecessor_ids, called_ids;
  std::optional<Metadata> metadata;
  std::optional<Sharding> sharding, domain_entry, domain_exit;
  FrontendAttributes frontend_attributes;
  std::string_view backend_config;
  std::vector<bool> parameter_replication;

  int64_t parameter_number = 0, tuple_index = 0, channel_id = 0, delta = 0, k = 0;
  int64_t feature_group_count = 1, batch_group_count = 1, feature_index = 0, num_carries = 0;
  int64_t exponent_bits = 0, mantissa_bits = 0, index_vector_dim = 0;
  std::optional<int64_t> cross_program_prefetch_index;
  double epsilon = 0;
  bool use_global_device_ids = false, is_host_transfer = false, is_stable = false;
  bool constrain_layout = false, has_side_effect = false, indices_are_sorted = false;
  bool unique_indices = false, largest = false, is_composite = false, is_reverse = false;
  bool is_associative = false, has_dynamic_root = false;
  bool left_side = false, lower = false, unit_diagonal = false;
  uint64_t distribution = 0, fft_type = 0, rng_algorithm = 0, transpose_a = 0, schedule = 0,
           api_version = 0, padding_type = 0, conv_kind = 0, dot_algorithm = 0;
  std::string_view fusion_kind, direction, comparison_type, custom_call_target, infeed_config,
      outfeed_config, async_thread;
  Shape outfeed_shape;
  std::optional<Literal> literal;
  Ints dimensions, dynamic_slice_sizes, fft_length, gather_slice_sizes;
  Ints offset_dims, collapsed_slice_dims, start_index_map, operand_batching_dims,
      start_indices_batching_dims;
  Ints update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims, input_batching_dims,
      scatter_indices_batching_dims;
  Ints lhs_contracting_dims, rhs_contracting_dims, lhs_batch_dims, rhs_batch_dims, lhs_ragged_dims,
      rhs_group_dims;
  Window window;
  ConvDims dim_labels;
  SliceDims slice;
  Padding padding;
  std::vector<Precision> operand_precision;
  IntPairs source_target_pairs;
  ReplicaGroups replica_groups;
  std::vector<Shape> operand_layouts;
  OperandAliases output_operand_aliasing;
  ResultAccuracy result_accuracy;
};

Result<InstructionProto> ReadInstructionProto(std::string_view bytes);
// hlo_proto_attrs.cc: attributes by the names of their fields; `operand`: the type of the first.
Status FillAttrs(const InstructionProto& proto, std::vector<Computation*> called, DType operand,
                 Op op, Attrs& attrs);
// hlo_proto_write_attrs.cc
void WriteAttrsProto(const Instruction& instruction, WireWriter& to);

inline constexpr int kMaxProtoDepth = 64;  // of messages within each other

// xla_data.proto.
Result<Shape> ReadShapeProto(std::string_view bytes);
Result<Literal> ReadLiteralProto(std::string_view bytes);
Result<Sharding> ReadShardingProto(std::string_view bytes);
Result<Metadata> ReadMetadataProto(std::string_view bytes);
Result<FrontendAttributes> ReadFrontendAttributesProto(std::string_view bytes);
Result<ReplicaGroups> ReadReplicaGroupsProto(std::string_view bytes, uint32_t field);

// The number of XLA's PrimitiveType, and the way back (kInvalid: not known).
uint64_t ProtoOfDType(DType dtype);
DType DTypeOfProto(uint64_t value);
// Which field of a LiteralProto has elements of this type: as bytes, or as a list of numbers. One
// of the two is 0.
uint32_t LiteralBytesField(DType dtype);
uint32_t LiteralNumbersField(DType dtype);

// The same messages written. Arrays without a layout are written row-major.
WireWriter WriteShapeProto(const Shape& shape);
WireWriter WriteLiteralProto(const Literal& literal);
WireWriter WriteShardingProto(const Sharding& sharding);
WireWriter WriteMetadataProto(const Metadata& metadata);
WireWriter WriteFrontendAttributesProto(const FrontendAttributes& attributes);
void WriteReplicaGroups(const ReplicaGroups& groups, WireWriter& to);  // into an instruction

std::unexpected<Error> MalformedProto(std::string_view message);

}  // namespace weft::hlo
