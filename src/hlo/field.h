// Reflection for attribute structs. A struct lists its fields once:
//
//   struct SortAttrs {
//     std::vector<int64_t> dimensions;
//     Computation* to_apply = nullptr;
//     bool is_stable = false;
//     void Fields(FieldList& f) { f.Required("dimensions", dimensions); f.Required("to_apply",
//     to_apply); f("is_stable", is_stable); }
//   };
//
// and parsing, printing, equality, hashing, cloning and the call graph all work from that listing.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/literal.h"
#include "base/shape.h"
#include "hlo/attr_types.h"
#include "hlo/fwd.h"
#include "hlo/sharding.h"

namespace weft::hlo {

enum class FieldType : uint8_t {
  kBool,
  kInt,
  kOptionalInt,
  kDouble,
  kString,
  kIntList,
  kIntListList,
  kIntPairs,
  kEnum,
  kPrecisionList,
  kWindow,
  kConvDims,
  kPadding,
  kSliceDims,
  kReplicaGroups,
  kSharding,
  kComputation,
  kComputationList,
  kShape,
  kShapeList,
  kLiteral,
  kOperandAliases,
  kResultAccuracy,
  kSparsity,
};

template <class T>
struct FieldTypeOf;
#define WEFT_FIELD_TYPE(cpp_type, field_type)                 \
  template <>                                                 \
  struct FieldTypeOf<cpp_type> {                              \
    static constexpr FieldType value = FieldType::field_type; \
  };
WEFT_FIELD_TYPE(bool, kBool)
WEFT_FIELD_TYPE(int64_t, kInt)
WEFT_FIELD_TYPE(std::optional<int64_t>, kOptionalInt)
WEFT_FIELD_TYPE(double, kDouble)
WEFT_FIELD_TYPE(std::string, kString)
WEFT_FIELD_TYPE(std::vector<int64_t>, kIntList)
WEFT_FIELD_TYPE(std::vector<std::vector<int64_t>>, kIntListList)
WEFT_FIELD_TYPE(IntPairs, kIntPairs)
WEFT_FIELD_TYPE(std::vector<Precision>, kPrecisionList)
WEFT_FIELD_TYPE(Window, kWindow)
WEFT_FIELD_TYPE(ConvDims, kConvDims)
WEFT_FIELD_TYPE(Padding, kPadding)
WEFT_FIELD_TYPE(SliceDims, kSliceDims)
WEFT_FIELD_TYPE(ReplicaGroups, kReplicaGroups)
WEFT_FIELD_TYPE(Sharding, kSharding)
WEFT_FIELD_TYPE(Computation*, kComputation)
WEFT_FIELD_TYPE(std::vector<Computation*>, kComputationList)
WEFT_FIELD_TYPE(Shape, kShape)
WEFT_FIELD_TYPE(std::vector<Shape>, kShapeList)
WEFT_FIELD_TYPE(Literal, kLiteral)
WEFT_FIELD_TYPE(OperandAliases, kOperandAliases)
WEFT_FIELD_TYPE(ResultAccuracy, kResultAccuracy)
WEFT_FIELD_TYPE(SparsityConfig, kSparsity)

struct FieldRef {
  std::string_view name;
  FieldType type = FieldType::kBool;
  bool required = false;  // must be written; always printed. Otherwise printed when it differs from
                          // the default.
  void* value = nullptr;
  std::span<const std::string_view> enum_names;  // kEnum: value is a uint8_t enum

  template <class T>
  T& As() const {
    return *static_cast<T*>(value);
  }
};

class FieldList {
 public:
  template <class T>
  void operator()(std::string_view name, T& value) {
    Add(name, value, false);
  }
  template <class T>
  void Required(std::string_view name, T& value) {
    Add(name, value, true);
  }
  const FieldRef* begin() const { return fields_; }
  const FieldRef* end() const { return fields_ + size_; }
  int size() const { return size_; }
  const FieldRef& operator[](int i) const { return fields_[i]; }
  const FieldRef* Find(std::string_view name) const {
    for (const FieldRef& f : *this) {
      if (f.name == name) return &f;
    }
    return nullptr;
  }

 private:
  template <class T>
  void Add(std::string_view name, T& value, bool required) {
    CHECK(size_ < kMax);
    FieldRef& f = fields_[size_++];
    f.name = name;
    f.required = required;
    f.value = &value;
    if constexpr (std::is_enum_v<T>) {
      static_assert(sizeof(T) == 1);
      f.type = FieldType::kEnum;
      f.enum_names = Names(T());
    } else {
      f.type = FieldTypeOf<T>::value;
    }
  }
  static constexpr int kMax = 20;
  FieldRef fields_[kMax];
  int size_ = 0;
};

bool FieldsEqual(const FieldRef& a, const FieldRef& b);  // computations by pointer
size_t HashField(const FieldRef& f);                     // computations not included

}  // namespace weft::hlo
