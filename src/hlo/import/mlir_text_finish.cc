// From what StableHLO text says to what VHLO says: bare names, one attribute for each field of a
// structured one, and every attribute given.
#include <algorithm>
#include <array>

#include "hlo/import/mlir_text.h"

namespace weft::hlo::mlir {
namespace {

// The attributes of an operation in VHLO's order, `name=rule` for those with a default.
struct OpAttrs {
  std::string_view name, attrs;
};

constexpr std::array kOpAttrs = {
    OpAttrs{"all_gather", "all_gather_dim channel_id=0 replica_groups use_global_device_ids=false"},
    OpAttrs{"all_reduce", "channel_id=0 replica_groups use_global_device_ids=false"},
    OpAttrs{"all_to_all",
            "channel_id=0 concat_dimension replica_groups split_count split_dimension"},
    OpAttrs{"batch_norm_grad", "epsilon feature_index"},
    OpAttrs{"batch_norm_inference", "epsilon feature_index"},
    OpAttrs{"batch_norm_training", "epsilon feature_index"},
    OpAttrs{"broadcast", "broadcast_sizes"},
    OpAttrs{"broadcast_in_dim", "broadcast_dimensions"},
    OpAttrs{"call", "callee"},
    OpAttrs{"cbrt", "result_accuracy=accuracy"},
    OpAttrs{"cholesky", "lower=false"},
    OpAttrs{"collective_broadcast", "channel_id=0 has_dynamic_root=false replica_groups"},
    OpAttrs{"collective_permute", "channel_id=0 source_target_pairs"},
    OpAttrs{"collective_reduce",
            "channel_id=0 has_dynamic_root=false replica_groups use_global_device_ids=false"},
    OpAttrs{"compare", "compare_type=NOTYPE comparison_direction"},
    OpAttrs{"composite", "composite_attributes={} decomposition name version=0"},
    OpAttrs{"concatenate", "dimension"},
    OpAttrs{"constant", "value"},
    OpAttrs{"convolution",
            "batch_group_count feature_group_count input_batch_dimension "
            "input_feature_dimension input_spatial_dimensions "
            "kernel_input_feature_dimension kernel_output_feature_dimension "
            "kernel_spatial_dimensions lhs_dilation=ones output_batch_dimension "
            "output_feature_dimension output_spatial_dimensions padding=pairs "
            "precision_config=precision rhs_dilation=ones window_reversal=falses "
            "window_strides=ones"},
    OpAttrs{"cosine", "result_accuracy=accuracy"},
    OpAttrs{"cross-replica-sum", "replica_groups"},
    OpAttrs{"custom_call",
            "api_version=ORIGINAL backend_config=backend_config call_target_name "
            "called_computations=[] has_side_effect=false operand_layouts=[] "
            "output_operand_aliases=[] result_layouts=[] result_tilings=[]"},
    OpAttrs{"dot", "precision_config=precision"},
    OpAttrs{"dot_general",
            "accumulation_type=none allow_imprecise_accumulation=none "
            "lhs_batching_dimensions=ints lhs_component_count=none "
            "lhs_contracting_dimensions=ints lhs_precision_type=none "
            "num_primitive_operations=none precision_config=precision "
            "rhs_batching_dimensions=ints rhs_component_count=none "
            "rhs_contracting_dimensions=ints rhs_precision_type=none"},
    OpAttrs{"dynamic_broadcast_in_dim",
            "broadcast_dimensions known_expanding_dimensions=ints "
            "known_nonexpanding_dimensions=ints"},
    OpAttrs{"dynamic_conv",
            "batch_group_count feature_group_count input_batch_dimension "
            "input_feature_dimension input_spatial_dimensions "
            "kernel_input_feature_dimension kernel_output_feature_dimension "
            "kernel_spatial_dimensions lhs_dilation=ones output_batch_dimension "
            "output_feature_dimension output_spatial_dimensions precision_config=precision "
            "rhs_dilation=ones window_reversal=falses window_strides=ones"},
    OpAttrs{"dynamic_gather",
            "collapsed_slice_dims=ints index_vector_dim=0 indices_are_sorted=false "
            "offset_dims=ints operand_batching_dims=ints start_index_map=ints "
            "start_indices_batching_dims=ints"},
    OpAttrs{"dynamic_iota", "iota_dimension"},
    OpAttrs{"dynamic_slice", "slice_sizes"},
    OpAttrs{"einsum", "einsum_config"},
    OpAttrs{"exponential", "result_accuracy=accuracy"},
    OpAttrs{"exponential_minus_one", "result_accuracy=accuracy"},
    OpAttrs{"fft", "fft_length fft_type"},
    OpAttrs{"func", "arg_attrs=[] function_type res_attrs=[] sym_name sym_visibility=\"\""},
    OpAttrs{"gather",
            "collapsed_slice_dims=ints index_vector_dim=0 indices_are_sorted=false "
            "offset_dims=ints operand_batching_dims=ints slice_sizes start_index_map=ints "
            "start_indices_batching_dims=ints"},
    OpAttrs{"get_dimension_size", "dimension"},
    OpAttrs{"get_tuple_element", "index"},
    OpAttrs{"infeed", "infeed_config=\"\" layout=[]"},
    OpAttrs{"iota", "iota_dimension"},
    OpAttrs{"log", "result_accuracy=accuracy"},
    OpAttrs{"log_plus_one", "result_accuracy=accuracy"},
    OpAttrs{"logistic", "result_accuracy=accuracy"},
    OpAttrs{"map", "dimensions"},
    OpAttrs{"outfeed", "outfeed_config=\"\""},
    OpAttrs{"pad", "edge_padding_high edge_padding_low interior_padding"},
    OpAttrs{"recv", "channel_id=0 channel_type=0 is_host_transfer=false source_target_pairs=ints"},
    OpAttrs{"reduce", "dimensions"},
    OpAttrs{"reduce_precision", "exponent_bits mantissa_bits"},
    OpAttrs{"reduce_scatter",
            "channel_id=0 replica_groups scatter_dimension use_global_device_ids=false"},
    OpAttrs{"reduce_window",
            "base_dilations=ones padding=pairs window_dilations=ones window_dimensions "
            "window_strides=ones"},
    OpAttrs{"reverse", "dimensions"},
    OpAttrs{"rng", "rng_distribution"},
    OpAttrs{"rng_bit_generator", "rng_algorithm"},
    OpAttrs{"rsqrt", "result_accuracy=accuracy"},
    OpAttrs{"scatter",
            "index_vector_dim=0 indices_are_sorted=false input_batching_dims=ints "
            "inserted_window_dims=ints scatter_dims_to_operand_dims=ints "
            "scatter_indices_batching_dims=ints unique_indices=false "
            "update_window_dims=ints"},
    OpAttrs{"select_and_scatter", "padding=pairs window_dimensions window_strides=ones"},
    OpAttrs{"send", "channel_id=0 channel_type=0 is_host_transfer=false source_target_pairs=ints"},
    OpAttrs{"set_dimension_size", "dimension"},
    OpAttrs{"sine", "result_accuracy=accuracy"},
    OpAttrs{"slice", "limit_indices start_indices strides"},
    OpAttrs{"sort", "dimension=-1 is_stable=false"},
    OpAttrs{"sqrt", "result_accuracy=accuracy"},
    OpAttrs{"tan", "result_accuracy=accuracy"},
    OpAttrs{"tanh", "result_accuracy=accuracy"},
    OpAttrs{"torch_index_select", "batch_dims dim"},
    OpAttrs{"transpose", "permutation"},
    OpAttrs{"triangular_solve", "left_side lower transpose_a unit_diagonal"},
    OpAttrs{"unary_einsum", "einsum_config"},
};
static_assert(std::ranges::is_sorted(kOpAttrs, {}, &OpAttrs::name));

constexpr std::array kTextApiVersions = {
    "API_VERSION_UNSPECIFIED",      "API_VERSION_ORIGINAL",
    "API_VERSION_STATUS_RETURNING", "API_VERSION_STATUS_RETURNING_UNIFIED",
    "API_VERSION_TYPED_FFI",
};

std::string_view NextAttr(std::string_view& attrs) {
  size_t end = std::min(attrs.find(' '), attrs.size());
  std::string_view attr = attrs.substr(0, end);
  attrs.remove_prefix(std::min(end + 1, attrs.size()));
  return attr;
}

// How many spatial dimensions a window has.
size_t WindowRank(const Operation& op) {
  for (std::string_view name : {"window_dimensions", "input_spatial_dimensions"}) {
    const Attr* attr = op.Find(name);
    if (attr == nullptr) continue;
    if (attr->kind == Attr::Kind::kInts) return attr->ints.size();
    if (attr->kind == Attr::Kind::kDense && attr->type->dims.size() == 1) {
      return static_cast<size_t>(std::clamp<int64_t>(attr->type->dims[0], 0, kMaxRank));
    }
  }
  return 0;
}

bool IsFlattened(std::string_view structure) {
  return structure == "gather" || structure == "scatter" || structure == "dot" ||
         structure == "conv" || structure == "dot_algorithm" || structure == "channel_handle";
}

}  // namespace

Status TextReader::Finish(Operation& op, std::string_view name) {
  bool vhlo = name.starts_with("stablehlo.") || name.starts_with("func.");
  op.name = vhlo ? name.substr(name.find('.') + 1) : name;
  if (!vhlo) {  // those of other dialects first
    std::ranges::sort(op.attrs, {}, [](const NamedAttr& attr) {
      return std::pair(attr.name.find('.') == std::string_view::npos, attr.name);
    });
    return {};
  }
  auto it = std::ranges::lower_bound(kOpAttrs, op.name, {}, &OpAttrs::name);
  bool known = it != kOpAttrs.end() && it->name == op.name;
  if (op.attrs.empty() && !known) return {};
  Flatten(op);
  for (NamedAttr& attr : op.attrs) attr.value = Convert(attr.name, attr.value);
  std::ranges::sort(op.attrs, {}, &NamedAttr::name);
  for (size_t i = 1; i < op.attrs.size(); ++i) {
    if (op.attrs[i].name == op.attrs[i - 1].name) {
      return Fail(op.name, ": the attribute ", op.attrs[i].name, " is given twice");
    }
  }
  if (!known) return {};
  Attrs ordered;  // behind those that VHLO does not know
  for (std::string_view attrs = it->attrs; !attrs.empty();) {
    std::string_view wanted = NextAttr(attrs);
    size_t equal = wanted.find('=');
    std::string_view rule;
    if (equal != std::string_view::npos) {
      rule = wanted.substr(equal + 1);
      wanted = wanted.substr(0, equal);
    }
    auto given = std::ranges::find(op.attrs, wanted, &NamedAttr::name);
    if (given != op.attrs.end()) {
      ordered.push_back(*given);
    } else if (!rule.empty()) {
      ordered.push_back({wanted, Default(op, rule)});
    } else {
      return Fail(op.name, ": the attribute ", wanted, " is missing");
    }
  }
  std::erase_if(op.attrs, [&](const NamedAttr& attr) {
    return std::ranges::find(ordered, attr.name, &NamedAttr::name) != ordered.end();
  });
  op.attrs.insert(op.attrs.end(), ordered.begin(), ordered.end());
  return {};
}

void TextReader::Flatten(Operation& op) {
  for (size_t i = 0; i < op.attrs.size(); ++i) {
    const Attr& attr = *op.attrs[i].value;
    if (attr.kind != Attr::Kind::kDict || !IsFlattened(attr.text)) continue;
    Attrs fields;
    for (size_t f = 0; f < attr.names.size(); ++f) {
      if (attr.text != "channel_handle") {
        fields.push_back({attr.names[f], attr.elements[f]});
      } else if (attr.names[f] == "handle") {
        fields.push_back({"channel_id", attr.elements[f]});
      } else if (op.name == "send" || op.name == "recv") {
        fields.push_back({"channel_type", attr.elements[f]});
      }
    }
    op.attrs.erase(op.attrs.begin() + static_cast<ptrdiff_t>(i));
    op.attrs.insert(op.attrs.end(), fields.begin(), fields.end());
    --i;
  }
}

const Attr* TextReader::Convert(std::string_view name, const Attr* attr) {
  switch (attr->kind) {
    case Attr::Kind::kInts:
      if (attr->type->dtype == DType::kS64 || attr->type->dtype == DType::kPred) {
        auto size = static_cast<int64_t>(attr->ints.size());
        return DenseInts(attr->ints, {size}, attr->type->dtype);
      }
      return attr;
    case Attr::Kind::kUnit:
      return name == "use_global_device_ids" || name == "has_dynamic_root" ? Bool(true) : attr;
    case Attr::Kind::kInt:
      if (name == "api_version" && attr->integer >= 0 &&
          attr->integer < static_cast<int64_t>(kTextApiVersions.size())) {
        return Text(Attr::Kind::kEnum, kTextApiVersions[static_cast<size_t>(attr->integer)]);
      }
      return attr;
    default: return attr;
  }
}

const Attr* TextReader::Default(const Operation& op, std::string_view rule) {
  if (rule == "false") return Bool(false);
  if (rule == "0" || rule == "-1") return Int(rule == "0" ? 0 : -1);
  if (rule == "\"\"") return Text(Attr::Kind::kString, "");
  if (rule == "[]") return Array({});
  if (rule == "{}") return NewDict("");
  if (rule == "none") return tree_.NewAttr(Attr::Kind::kNone);
  if (rule == "ints") return DenseInts({}, {0});
  if (rule == "NOTYPE") return Text(Attr::Kind::kEnum, rule);
  if (rule == "ORIGINAL") return Text(Attr::Kind::kEnum, kTextApiVersions[1]);
  if (rule == "backend_config") {
    const Attr* version = op.Find("api_version");
    if (version != nullptr && version->text == kTextApiVersions[4]) return NewDict("");
    return Text(Attr::Kind::kString, "");
  }
  if (rule == "precision") {
    const Attr* precision = Text(Attr::Kind::kEnum, "DEFAULT");
    return Array({precision, precision});
  }
  if (rule == "accuracy") {
    Attr* zero = tree_.NewAttr(Attr::Kind::kFloat);
    zero->type = Element(DType::kF64);
    Attr* dict = NewDict("result_accuracy");
    dict->names = {"atol", "rtol", "ulps", "mode"};
    dict->elements = {zero, zero, Int(0), Text(Attr::Kind::kEnum, "DEFAULT")};
    return dict;
  }
  auto rank = static_cast<int64_t>(WindowRank(op));
  if (rule == "pairs") return DenseInts(std::vector<int64_t>(rank * 2, 0), {rank, 2});
  bool ones = rule == "ones";
  return DenseInts(std::vector<int64_t>(rank, ones ? 1 : 0), {rank},
                   ones ? DType::kS64 : DType::kPred);
}

}  // namespace weft::hlo::mlir
