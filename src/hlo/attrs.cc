#include "hlo/attrs.h"

#include <cstring>

#include "base/hash.h"

namespace weft::hlo {
namespace {

uint64_t HashText(std::string_view text) {
  return std::hash<std::string_view>()(text);
}
uint64_t HashInts(const std::vector<int64_t>& ints) {
  uint64_t h = ints.size();
  for (int64_t i : ints) h = MixHash(h, static_cast<uint64_t>(i));
  return h;
}

// All field types but kEnum, whose C++ type is not known here.
template <class F>
auto VisitField(const FieldRef& f, F&& fn) {
  switch (f.type) {
    case FieldType::kBool: return fn.template operator()<bool>();
    case FieldType::kInt: return fn.template operator()<int64_t>();
    case FieldType::kOptionalInt: return fn.template operator()<std::optional<int64_t>>();
    case FieldType::kDouble: return fn.template operator()<double>();
    case FieldType::kString: return fn.template operator()<std::string>();
    case FieldType::kIntList: return fn.template operator()<std::vector<int64_t>>();
    case FieldType::kIntListList:
      return fn.template operator()<std::vector<std::vector<int64_t>>>();
    case FieldType::kIntPairs: return fn.template operator()<IntPairs>();
    case FieldType::kEnum: return fn.template operator()<uint8_t>();
    case FieldType::kPrecisionList: return fn.template operator()<std::vector<Precision>>();
    case FieldType::kWindow: return fn.template operator()<Window>();
    case FieldType::kConvDims: return fn.template operator()<ConvDims>();
    case FieldType::kPadding: return fn.template operator()<Padding>();
    case FieldType::kSliceDims: return fn.template operator()<SliceDims>();
    case FieldType::kReplicaGroups: return fn.template operator()<ReplicaGroups>();
    case FieldType::kSharding: return fn.template operator()<Sharding>();
    case FieldType::kComputation: return fn.template operator()<Computation*>();
    case FieldType::kComputationList: return fn.template operator()<std::vector<Computation*>>();
    case FieldType::kShape: return fn.template operator()<Shape>();
    case FieldType::kShapeList: return fn.template operator()<std::vector<Shape>>();
    case FieldType::kLiteral: return fn.template operator()<Literal>();
    case FieldType::kOperandAliases: return fn.template operator()<OperandAliases>();
    case FieldType::kResultAccuracy: return fn.template operator()<ResultAccuracy>();
    case FieldType::kSparsity: return fn.template operator()<SparsityConfig>();
  }
  __builtin_unreachable();
}

}  // namespace

void ScanAttrs::Fields(FieldList& f) {
  f.Required("dimensions", dimensions), f("is_reverse", is_reverse),
      f("is_associative", is_associative);
  f.Required("num_carries", num_carries), f.Required("to_apply", to_apply);
}

void CustomCallAttrs::Fields(FieldList& f) {
  f.Required("custom_call_target", custom_call_target), f("window", window),
      f("dim_labels", dim_labels);
  f("feature_group_count", feature_group_count), f("batch_group_count", batch_group_count);
  f("operand_layout_constraints", operand_layout_constraints);
  f("custom_call_has_side_effect", custom_call_has_side_effect), f("to_apply", to_apply);
  f("called_computations", called_computations),
      f("output_to_operand_aliasing", output_to_operand_aliasing);
  f("padding_type", padding_type), f("literal", literal), f("operand_precision", operand_precision);
  f("schedule", schedule), f("api_version", api_version);
}

void DotAttrs::Fields(FieldList& f) {
  f("lhs_batch_dims", lhs_batch_dims), f("lhs_contracting_dims", lhs_contracting_dims);
  f("rhs_batch_dims", rhs_batch_dims), f("rhs_contracting_dims", rhs_contracting_dims);
  f("operand_precision", operand_precision), f("algorithm", algorithm);
}

void RaggedDotAttrs::Fields(FieldList& f) {
  f("lhs_batch_dims", lhs_batch_dims), f("lhs_contracting_dims", lhs_contracting_dims);
  f("rhs_batch_dims", rhs_batch_dims), f("rhs_contracting_dims", rhs_contracting_dims);
  f("lhs_ragged_dims", lhs_ragged_dims), f("rhs_group_dims", rhs_group_dims);
  f("operand_precision", operand_precision);
}

void GatherAttrs::Fields(FieldList& f) {
  f.Required("offset_dims", offset_dims), f.Required("collapsed_slice_dims", collapsed_slice_dims);
  f.Required("start_index_map", start_index_map), f("operand_batching_dims", operand_batching_dims);
  f("start_indices_batching_dims", start_indices_batching_dims);
  f.Required("index_vector_dim", index_vector_dim), f.Required("slice_sizes", slice_sizes);
  f("indices_are_sorted", indices_are_sorted);
}

void ScatterAttrs::Fields(FieldList& f) {
  f.Required("update_window_dims", update_window_dims);
  f.Required("inserted_window_dims", inserted_window_dims);
  f.Required("scatter_dims_to_operand_dims", scatter_dims_to_operand_dims);
  f("input_batching_dims", input_batching_dims);
  f("scatter_indices_batching_dims", scatter_indices_batching_dims);
  f.Required("index_vector_dim", index_vector_dim), f("indices_are_sorted", indices_are_sorted);
  f("unique_indices", unique_indices), f.Required("to_apply", to_apply);
}

bool FieldsEqual(const FieldRef& a, const FieldRef& b) {
  if (a.type != b.type || a.name != b.name) return false;
  return VisitField(a, [&]<class T>() { return a.As<T>() == b.As<T>(); });
}

size_t HashField(const FieldRef& f) {
  uint64_t h = HashText(f.name);
  switch (f.type) {
    case FieldType::kBool: return MixHash(h, f.As<bool>());
    case FieldType::kEnum: return MixHash(h, f.As<uint8_t>());
    case FieldType::kInt: return MixHash(h, static_cast<uint64_t>(f.As<int64_t>()));
    case FieldType::kOptionalInt:
      return MixHash(h, static_cast<uint64_t>(f.As<std::optional<int64_t>>().value_or(-1)));
    case FieldType::kString: return MixHash(h, HashText(f.As<std::string>()));
    case FieldType::kIntList: return MixHash(h, HashInts(f.As<std::vector<int64_t>>()));
    case FieldType::kShape: return MixHash(h, f.As<Shape>().Hash());
    case FieldType::kSliceDims:
      for (const SliceDim& d : f.As<SliceDims>()) h = MixHash(MixHash(h, d.start), d.limit);
      return h;
    case FieldType::kPadding:
      for (const PaddingDim& d : f.As<Padding>()) h = MixHash(MixHash(h, d.low), d.high);
      return h;
    case FieldType::kWindow:
      for (const WindowDim& d : f.As<Window>().dims) h = MixHash(MixHash(h, d.size), d.stride);
      return h;
    default: return h;  // rarely what tells two instructions apart
  }
}

bool Attrs::operator==(const Attrs& other) const {
  if (type_ != other.type_) return false;
  if (Is<ParameterAttrs>()) return As<ParameterAttrs>().number == other.As<ParameterAttrs>().number;
  if (Is<ConstantAttrs>()) return As<ConstantAttrs>().literal == other.As<ConstantAttrs>().literal;
  if (Is<DomainAttrs>()) {
    const auto& a = As<DomainAttrs>();
    const auto& b = other.As<DomainAttrs>();
    return a.kind == b.kind && a.entry == b.entry && a.exit == b.exit;
  }
  FieldList a = Fields(), b = other.Fields();
  for (int i = 0; i < a.size(); ++i) {
    if (!FieldsEqual(a[i], b[i])) return false;
  }
  return true;
}

size_t Attrs::Hash() const {
  uint64_t h = 17;
  if (Is<ParameterAttrs>()) return MixHash(h, static_cast<uint64_t>(As<ParameterAttrs>().number));
  if (Is<ConstantAttrs>()) {
    const Literal& l = As<ConstantAttrs>().literal;
    h = MixHash(h, l.shape().Hash());
    if (!l.shape().IsArray()) return h;
    // The first kilobyte tells most constants apart.
    size_t n = static_cast<size_t>(std::min<int64_t>(l.byte_size(), 1024));
    return MixHash(h, HashText({reinterpret_cast<const char*>(l.data()), n}));
  }
  for (const FieldRef& f : Fields()) h = MixHash(h, HashField(f));
  return h;
}

}  // namespace weft::hlo
