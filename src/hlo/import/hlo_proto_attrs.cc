// Attributes of an instruction from the fields of HloInstructionProto.
#include <algorithm>
#include <numeric>

#include "hlo/import/hlo_proto.h"

namespace weft::hlo {
namespace {

// Fills the attributes of one instruction by the names of their fields.
class ProtoAttrs {
 public:
  ProtoAttrs(const InstructionProto& proto, std::vector<Computation*> called, DType operand)
      : p_(proto), called_(std::move(called)), operand_(operand) {}

  Status Fill(Op op, Attrs& attrs) {
    if (op == Op::kConstant) {
      if (!p_.literal) return InvalidArgument("a constant without its value");
      attrs = ConstantAttrs{.literal = *p_.literal};
      return {};
    }
    if (op == Op::kDomain) {
      DomainAttrs domain;
      domain.kind = "sharding";
      if (p_.domain_entry) domain.entry = *p_.domain_entry;
      if (p_.domain_exit) domain.exit = *p_.domain_exit;
      attrs = std::move(domain);
      return {};
    }
    op_ = op;
    for (const FieldRef& field : attrs.MutableFields()) TRY(FillOne(field));
    return {};
  }

 private:
  Status FillOne(const FieldRef& f) {
    switch (f.type) {
      case FieldType::kEnum: return FillEnum(f);
      case FieldType::kComputation:
      case FieldType::kComputationList: return FillComputation(f);
      case FieldType::kIntList: FillInts(f); return {};
      case FieldType::kIntListList: Set(f, "slice_sizes", SliceSizes()); return {};
      default: break;
    }
    Set(f, "index", p_.tuple_index);
    Set(f, "iota_dimension", p_.dimensions.empty() ? int64_t{0} : p_.dimensions[0]);
    Set(f, "k", p_.k);
    Set(f, "largest", p_.largest);
    Set(f, "is_stable", p_.is_stable || op_ == Op::kTopK);  // older files do not say
    Set(f, "channel_id", Optional(p_.channel_id > 0, p_.channel_id));
    Set(f, "inferred_dimension",
        Optional(!p_.dimensions.empty() && p_.dimensions[0] >= 0,
                 p_.dimensions.empty() ? 0 : p_.dimensions[0]));
    Set(f, "cross_program_prefetch_index", p_.cross_program_prefetch_index);
    Set(f, "replica_groups", p_.replica_groups);
    Set(f, "constrain_layout", p_.constrain_layout);
    Set(f, "use_global_device_ids", p_.use_global_device_ids);
    Set(f, "has_dynamic_root", p_.has_dynamic_root);
    Set(f, "source_target_pairs", p_.source_target_pairs);
    Set(f, "async_execution_thread", std::string(p_.async_thread == "main" ? "" : p_.async_thread));
    Set(f, "output_to_operand_aliasing", p_.output_operand_aliasing);
    Set(f, "is_host_transfer", p_.is_host_transfer);
    Set(f, "is_composite", p_.is_composite);
    Set(f, "window", p_.window);
    Set(f, "dim_labels", p_.dim_labels);
    Set(f, "feature_group_count", p_.feature_group_count);
    Set(f, "batch_group_count", p_.batch_group_count);
    Set(f, "operand_precision", p_.operand_precision);
    Set(f, "left_side", p_.left_side);
    Set(f, "lower", p_.lower);
    Set(f, "unit_diagonal", p_.unit_diagonal);
    Set(f, "num_carries", p_.num_carries);
    Set(f, "is_reverse", p_.is_reverse);
    Set(f, "is_associative", p_.is_associative);
    Set(f, "slice", p_.slice);
    Set(f, "epsilon", p_.epsilon);
    Set(f, "feature_index", p_.feature_index);
    Set(f, "padding", p_.padding);
    Set(f, "infeed_config", std::string(p_.infeed_config));
    Set(f, "outfeed_config", std::string(p_.outfeed_config));
    Set(f, "outfeed_shape", p_.outfeed_shape);
    Set(f, "delta", p_.delta);
    Set(f, "exponent_bits", p_.exponent_bits);
    Set(f, "mantissa_bits", p_.mantissa_bits);
    Set(f, "custom_call_target", std::string(p_.custom_call_target));
    if (p_.constrain_layout) Set(f, "operand_layout_constraints", p_.operand_layouts);
    Set(f, "custom_call_has_side_effect", p_.has_side_effect);
    if (p_.literal) Set(f, "literal", *p_.literal);
    Set(f, "index_vector_dim", p_.index_vector_dim);
    Set(f, "indices_are_sorted", p_.indices_are_sorted);
    Set(f, "unique_indices", p_.unique_indices);
    Set(f, "result_accuracy", p_.result_accuracy);
    return {};
  }

  // Of the in-place collective-permute: one after the other, as many slices of each array.
  std::vector<Ints> SliceSizes() const {
    std::vector<int64_t> ranks;
    if (p_.shape.IsTuple()) {
      for (const Shape& part : p_.shape.elements_of_tuple()) {
        if (part.IsArray()) ranks.push_back(part.rank());
      }
    } else if (p_.shape.IsArray()) {
      ranks.push_back(p_.shape.rank());
    }
    int64_t all = std::accumulate(ranks.begin(), ranks.end(), int64_t{0});
    std::vector<Ints> sizes;
    auto at = p_.dynamic_slice_sizes.begin(), end = p_.dynamic_slice_sizes.end();
    if (all == 0) return sizes;
    int64_t slices = (end - at) / all;
    for (int64_t rank : ranks) {
      for (int64_t k = 0; k < slices; ++k, at += rank) sizes.emplace_back(at, at + rank);
    }
    return sizes;
  }

  void FillInts(const FieldRef& f) {
    Set(f, "dimensions", p_.dimensions);
    Set(f, "fft_length", p_.fft_length);
    Set(f, "dynamic_slice_sizes", p_.dynamic_slice_sizes);
    Set(f, "slice_sizes", p_.gather_slice_sizes);
    Set(f, "offset_dims", p_.offset_dims);
    Set(f, "collapsed_slice_dims", p_.collapsed_slice_dims);
    Set(f, "start_index_map", p_.start_index_map);
    Set(f, "operand_batching_dims", p_.operand_batching_dims);
    Set(f, "start_indices_batching_dims", p_.start_indices_batching_dims);
    Set(f, "update_window_dims", p_.update_window_dims);
    Set(f, "inserted_window_dims", p_.inserted_window_dims);
    Set(f, "scatter_dims_to_operand_dims", p_.scatter_dims_to_operand_dims);
    Set(f, "input_batching_dims", p_.input_batching_dims);
    Set(f, "scatter_indices_batching_dims", p_.scatter_indices_batching_dims);
    Set(f, "lhs_batch_dims", p_.lhs_batch_dims);
    Set(f, "lhs_contracting_dims", p_.lhs_contracting_dims);
    Set(f, "rhs_batch_dims", p_.rhs_batch_dims);
    Set(f, "rhs_contracting_dims", p_.rhs_contracting_dims);
    Set(f, "lhs_ragged_dims", p_.lhs_ragged_dims);
    Set(f, "rhs_group_dims", p_.rhs_group_dims);
  }

  Status FillEnum(const FieldRef& f) {
    if (f.name == "direction") return SetName(f, p_.direction);
    if (f.name == "kind") return SetName(f, p_.fusion_kind);
    if (f.name == "type") {  // text leaves out what the operands' type says
      std::string_view usual = IsFloat(operand_) || IsComplex(operand_) ? "FLOAT"
                               : IsSigned(operand_)                     ? "SIGNED"
                                                                        : "UNSIGNED";
      return SetName(f, p_.comparison_type == usual ? "" : p_.comparison_type);
    }
    std::pair<std::string_view, uint64_t> numbers[] = {
        {"fft_type", p_.fft_type},
        {"transpose_a", p_.transpose_a},
        {"distribution", p_.distribution},
        {"algorithm", op_ == Op::kRngBitGenerator ? p_.rng_algorithm : p_.dot_algorithm},
        {"convolution_kind", p_.conv_kind},
        {"schedule", p_.schedule},
        // Text leaves the original version out.
        {"api_version", p_.api_version == 1 ? 0 : p_.api_version},
        {"padding_type", p_.padding_type},
    };
    for (const auto& [name, value] : numbers) {
      if (f.name != name) continue;
      if (value >= f.enum_names.size()) return InvalidArgument(name, " is ", value);
      f.As<uint8_t>() = static_cast<uint8_t>(value);
    }
    return {};
  }

  static Status SetName(const FieldRef& f, std::string_view name) {
    auto it = std::ranges::find(f.enum_names, name);
    if (it == f.enum_names.end()) return InvalidArgument(f.name, " is \"", name, "\"");
    f.As<uint8_t>() = static_cast<uint8_t>(it - f.enum_names.begin());
    return {};
  }

  Status FillComputation(const FieldRef& f) {
    if (f.type == FieldType::kComputationList) {
      bool by_index = f.name == "called_computations" ||
                      (f.name == "branch_computations" && operand_ != DType::kPred);
      if (by_index) f.As<std::vector<Computation*>>() = called_;
      return {};
    }
    size_t at = 0;
    if (op_ == Op::kCustomCall) return {};
    if (f.name == "condition" || f.name == "scatter" || f.name == "false_computation") at = 1;
    if (op_ == Op::kConditional && operand_ != DType::kPred) return {};
    if (at >= called_.size()) {
      if (!f.required) return {};
      return InvalidArgument(f.name, " is missing");
    }
    f.As<Computation*>() = called_[at];
    return {};
  }

  static std::optional<int64_t> Optional(bool given, int64_t value) {
    return given ? std::optional<int64_t>(value) : std::nullopt;
  }
  template <class T>
  static void Set(const FieldRef& f, std::string_view name, const T& value) {
    if (f.name == name && f.type == FieldTypeOf<T>::value) f.As<T>() = value;
  }

  const InstructionProto& p_;
  std::vector<Computation*> called_;
  DType operand_;
  Op op_ = Op::kAdd;
};

}  // namespace

Status FillAttrs(const InstructionProto& proto, std::vector<Computation*> called, DType operand,
                 Op op, Attrs& attrs) {
  return ProtoAttrs(proto, std::move(called), operand).Fill(op, attrs);
}

}  // namespace weft::hlo
