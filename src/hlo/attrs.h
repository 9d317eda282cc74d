// Attribute structs, one per op family, and Attrs, the owner of one of them. Required fields must
// be written in text. ops.def says which op has which struct.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/literal.h"
#include "hlo/attr_types.h"
#include "hlo/collective_attrs.h"
#include "hlo/field.h"
#include "hlo/fwd.h"
#include "hlo/sharding.h"

namespace weft::hlo {

struct NoAttrs {
  void Fields(FieldList&) {}
};
struct ParameterAttrs {  // parameter(3): written between the parentheses
  int64_t number = 0;
  void Fields(FieldList&) {}
};
struct ConstantAttrs {  // constant({1, 2}): written between the parentheses
  Literal literal;
  // constant({...}): the elements are filler, or, for large ones, missing (the literal not valid).
  bool elided = false;
  void Fields(FieldList&) {}
};
struct UnaryMathAttrs {
  ResultAccuracy result_accuracy;
  void Fields(FieldList& f) { f("result_accuracy", result_accuracy); }
};
struct CompareAttrs {  // `order=TOTAL` is the newer spelling of `type=TOTALORDER`
  Direction direction = Direction::kEq;
  ComparisonType type = ComparisonType::kUnset;  // unset: by the operands' dtype
  CompareOrder order = CompareOrder::kUnset;
  bool total_order() const {
    return type == ComparisonType::kTotalOrder || order == CompareOrder::kTotal;
  }
  void Fields(FieldList& f) {
    f.Required("direction", direction), f("type", type), f("order", order);
  }
};
struct DimensionsAttrs {  // reverse, transpose, concatenate, get-/set-dimension-size
  Ints dimensions;
  void Fields(FieldList& f) { f.Required("dimensions", dimensions); }
};
struct BroadcastAttrs {  // operand dimension i becomes result dimension dimensions[i]
  Ints dimensions;
  void Fields(FieldList& f) { f("dimensions", dimensions); }
};
struct IotaAttrs {
  int64_t iota_dimension = 0;
  void Fields(FieldList& f) { f.Required("iota_dimension", iota_dimension); }
};
struct TopKAttrs {
  int64_t k = 0;
  bool largest = true, is_stable = true;
  void Fields(FieldList& f) {
    f.Required("k", k), f("largest", largest), f("is_stable", is_stable);
  }
};

// async-start/update/done. The sugar `X-start(...)` is the same thing with a computation of one X.
struct AsyncAttrs {
  Computation* calls =
      nullptr;  // on update and done: the start's, null when the start cannot be reached
  std::string async_execution_thread;
  OperandAliases output_to_operand_aliasing;
  void Fields(FieldList& f) {
    f("async_execution_thread", async_execution_thread);
    f("output_to_operand_aliasing", output_to_operand_aliasing), f("calls", calls);
  }
};
struct CopyStartAttrs {
  std::optional<int64_t> cross_program_prefetch_index;
  void Fields(FieldList& f) { f("cross_program_prefetch_index", cross_program_prefetch_index); }
};
struct ReshapeAttrs {
  std::optional<int64_t> inferred_dimension;
  void Fields(FieldList& f) { f("inferred_dimension", inferred_dimension); }
};
struct SortAttrs {
  Ints dimensions;
  bool is_stable = false;
  Computation* to_apply = nullptr;
  void Fields(FieldList& f) {
    f.Required("dimensions", dimensions), f("is_stable", is_stable),
        f.Required("to_apply", to_apply);
  }
};
struct WhileAttrs {
  Computation* condition = nullptr;
  Computation* body = nullptr;
  void Fields(FieldList& f) { f.Required("condition", condition), f.Required("body", body); }
};
struct GetTupleElementAttrs {
  int64_t index = 0;
  void Fields(FieldList& f) { f.Required("index", index); }
};
struct CallAttrs {
  Computation* to_apply = nullptr;
  bool is_composite = false;
  void Fields(FieldList& f) { f.Required("to_apply", to_apply), f("is_composite", is_composite); }
};
struct ReduceWindowAttrs {
  Window window;
  Computation* to_apply = nullptr;
  void Fields(FieldList& f) { f("window", window), f.Required("to_apply", to_apply); }
};
struct SelectAndScatterAttrs {
  Window window;
  Computation* select = nullptr;
  Computation* scatter = nullptr;
  void Fields(FieldList& f) {
    f("window", window), f.Required("select", select), f.Required("scatter", scatter);
  }
};
struct ConvolutionAttrs {
  Window window;
  ConvDims dim_labels;
  int64_t feature_group_count = 1, batch_group_count = 1;
  ConvKind convolution_kind = ConvKind::kUnset;
  std::vector<Precision> operand_precision;
  DotAlgorithm algorithm = DotAlgorithm::kUnset;
  SparsityConfig sparsity_config;
  void Fields(FieldList& f) {
    f("window", window), f.Required("dim_labels", dim_labels),
        f("feature_group_count", feature_group_count);
    f("batch_group_count", batch_group_count), f("convolution_kind", convolution_kind);
    f("operand_precision", operand_precision), f("algorithm", algorithm),
        f("sparsity_config", sparsity_config);
  }
};
struct FftAttrs {
  FftType fft_type = FftType::kFft;
  Ints fft_length;
  void Fields(FieldList& f) {
    f.Required("fft_type", fft_type), f.Required("fft_length", fft_length);
  }
};
struct TriangularSolveAttrs {
  bool left_side = false, lower = false, unit_diagonal = false;
  TransposeA transpose_a = TransposeA::kUnset;
  void Fields(FieldList& f) {
    f("left_side", left_side), f("lower", lower), f("unit_diagonal", unit_diagonal),
        f("transpose_a", transpose_a);
  }
};
struct CholeskyAttrs {
  bool lower = false;
  void Fields(FieldList& f) { f("lower", lower); }
};
struct ReduceAttrs {
  Ints dimensions;
  Computation* to_apply = nullptr;
  void Fields(FieldList& f) {
    f.Required("dimensions", dimensions), f.Required("to_apply", to_apply);
  }
};
struct MapAttrs {
  Ints dimensions;
  Computation* to_apply = nullptr;
  void Fields(FieldList& f) { f("dimensions", dimensions), f.Required("to_apply", to_apply); }
};
struct ScanAttrs {
  Ints dimensions;
  int64_t num_carries = 0;
  bool is_reverse = false, is_associative = false;
  Computation* to_apply = nullptr;
  void Fields(FieldList& f);
};
struct SliceAttrs {
  SliceDims slice;
  void Fields(FieldList& f) { f.Required("slice", slice); }
};
struct DynamicSliceAttrs {
  Ints dynamic_slice_sizes;
  void Fields(FieldList& f) { f.Required("dynamic_slice_sizes", dynamic_slice_sizes); }
};
struct BatchNormAttrs {
  double epsilon = 0;
  int64_t feature_index = 0;
  void Fields(FieldList& f) {
    f.Required("epsilon", epsilon), f.Required("feature_index", feature_index);
  }
};
struct PadAttrs {
  Padding padding;
  void Fields(FieldList& f) { f.Required("padding", padding); }
};
struct FusionAttrs {
  FusionKind kind = FusionKind::kLoop;
  OperandAliases output_to_operand_aliasing;
  Computation* calls = nullptr;
  void Fields(FieldList& f) {
    f.Required("kind", kind), f("output_to_operand_aliasing", output_to_operand_aliasing);
    f.Required("calls", calls);
  }
};
struct InfeedAttrs {
  std::string infeed_config;
  void Fields(FieldList& f) { f("infeed_config", infeed_config); }
};
struct OutfeedAttrs {
  Shape outfeed_shape;
  std::string outfeed_config;
  void Fields(FieldList& f) {
    f("outfeed_shape", outfeed_shape), f("outfeed_config", outfeed_config);
  }
};
struct RngAttrs {
  Distribution distribution = Distribution::kUnset;
  void Fields(FieldList& f) { f.Required("distribution", distribution); }
};
struct RngStateAttrs {
  int64_t delta = 0;
  void Fields(FieldList& f) { f.Required("delta", delta); }
};
struct RngBitGeneratorAttrs {
  RngAlgorithm algorithm = RngAlgorithm::kDefault;
  void Fields(FieldList& f) { f.Required("algorithm", algorithm); }
};
struct ReducePrecisionAttrs {
  int64_t exponent_bits = 0, mantissa_bits = 0;
  void Fields(FieldList& f) {
    f.Required("exponent_bits", exponent_bits), f.Required("mantissa_bits", mantissa_bits);
  }
};
struct ConditionalAttrs {  // one of the two forms; branches() hides which
  Computation* true_computation = nullptr;
  Computation* false_computation = nullptr;
  std::vector<Computation*> branch_computations;
  // In branch order: {true, false} for a pred selector.
  std::vector<Computation*> branches() const {
    if (true_computation != nullptr) return {true_computation, false_computation};
    return branch_computations;
  }
  void Fields(FieldList& f) {
    f("true_computation", true_computation), f("false_computation", false_computation);
    f("branch_computations", branch_computations);
  }
};
struct CustomCallAttrs {
  std::string custom_call_target;
  Window window;
  ConvDims dim_labels;
  int64_t feature_group_count = 1, batch_group_count = 1;
  std::vector<Shape> operand_layout_constraints;
  bool custom_call_has_side_effect = false;
  Computation* to_apply = nullptr;
  std::vector<Computation*> called_computations;
  OperandAliases output_to_operand_aliasing;
  PaddingType padding_type = PaddingType::kInvalid;
  Literal literal;
  std::vector<Precision> operand_precision;
  CustomCallSchedule schedule = CustomCallSchedule::kNone;
  ApiVersion api_version = ApiVersion::kUnspecified;
  void Fields(FieldList& f);
};
struct DotAttrs {  // dot, scaled-dot
  Ints lhs_batch_dims, lhs_contracting_dims, rhs_batch_dims, rhs_contracting_dims;
  std::vector<Precision> operand_precision;
  DotAlgorithm algorithm = DotAlgorithm::kUnset;
  void Fields(FieldList& f);
};
struct RaggedDotAttrs {
  Ints lhs_batch_dims, lhs_contracting_dims, rhs_batch_dims, rhs_contracting_dims, lhs_ragged_dims,
      rhs_group_dims;
  std::vector<Precision> operand_precision;
  void Fields(FieldList& f);
};
struct GatherAttrs {
  Ints offset_dims, collapsed_slice_dims, start_index_map, operand_batching_dims,
      start_indices_batching_dims;
  int64_t index_vector_dim = 0;
  Ints slice_sizes;
  bool indices_are_sorted = false;
  void Fields(FieldList& f);
};
struct ScatterAttrs {
  Ints update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims, input_batching_dims,
      scatter_indices_batching_dims;
  int64_t index_vector_dim = 0;
  bool indices_are_sorted = false, unique_indices = false;
  Computation* to_apply = nullptr;
  void Fields(FieldList& f);
};
struct DomainAttrs {  // domain={kind="sharding", entry={...}, exit={...}}: read and printed as a
                      // whole
  std::string kind;
  Sharding entry, exit;
  void Fields(FieldList&) {}
};

// What Attrs needs to know about a struct; one instance per struct type.
struct AttrsType {
  void (*fields)(void*, FieldList&);
  void* (*clone)(const void*);
  void (*destroy)(void*);
  void* (*defaults)();                    // a shared default-constructed instance, never written
  CollectiveAttrs* (*collective)(void*);  // null unless the struct derives from CollectiveAttrs
};

template <class T>
inline constexpr AttrsType kAttrsType = {
    [](void* p, FieldList& f) { static_cast<T*>(p)->Fields(f); },
    [](const void* p) -> void* { return new T(*static_cast<const T*>(p)); },
    [](void* p) { delete static_cast<T*>(p); },
    []() -> void* {
      static T instance;
      return &instance;
    },
    [](void* p) -> CollectiveAttrs* {
      if constexpr (std::derived_from<T, CollectiveAttrs>) return static_cast<T*>(p);
      (void)p;
      return nullptr;
    },
};

// Owns the attributes of one instruction. Default values take no memory.
class Attrs {
 public:
  Attrs() : Attrs(&kAttrsType<NoAttrs>) {}
  explicit Attrs(const AttrsType* type) : type_(type) {}
  template <class T>
    requires(!std::same_as<std::remove_cvref_t<T>, Attrs> &&
             std::is_class_v<std::remove_cvref_t<T>>)
  Attrs(T value)  // NOLINT: Attrs(SortAttrs{...}) reads well without a name
      : type_(&kAttrsType<T>), value_(new T(std::move(value))) {}
  Attrs(const Attrs& o) : type_(o.type_), value_(o.value_ ? o.type_->clone(o.value_) : nullptr) {}
  Attrs(Attrs&& o) noexcept : type_(o.type_), value_(std::exchange(o.value_, nullptr)) {}
  Attrs& operator=(Attrs o) noexcept {
    std::swap(type_, o.type_);
    std::swap(value_, o.value_);
    return *this;
  }
  ~Attrs() {
    if (value_ != nullptr) type_->destroy(value_);
  }

  template <class T>
  bool Is() const {
    return type_ == &kAttrsType<T>;
  }
  template <class T>
  const T& As() const {
    CHECK(Is<T>()) << "attributes are of another op family";
    return *static_cast<const T*>(value_ != nullptr ? value_ : type_->defaults());
  }
  template <class T>
  T& Mutable() {
    CHECK(Is<T>()) << "attributes are of another op family";
    return *static_cast<T*>(MutableValue());
  }
  const CollectiveAttrs* Collective() const {
    return type_->collective(value_ != nullptr ? value_ : type_->defaults());
  }
  CollectiveAttrs* MutableCollective() { return type_->collective(MutableValue()); }
  // The fields of these attributes: Fields() to read, MutableFields() to write through.
  FieldList Fields() const {
    FieldList list;
    type_->fields(value_ != nullptr ? value_ : type_->defaults(), list);
    return list;
  }
  FieldList MutableFields() {
    FieldList list;
    type_->fields(MutableValue(), list);
    return list;
  }
  FieldList DefaultFields() const {
    FieldList list;
    type_->fields(type_->defaults(), list);
    return list;
  }
  const AttrsType* type() const { return type_; }
  bool operator==(
      const Attrs& other) const;  // computations by pointer; parameter number, literal, domain too
  size_t Hash() const;            // computations not included

 private:
  void* MutableValue() {
    if (value_ == nullptr) value_ = type_->clone(type_->defaults());
    return value_;
  }
  const AttrsType* type_;
  void* value_ = nullptr;
};

}  // namespace weft::hlo
