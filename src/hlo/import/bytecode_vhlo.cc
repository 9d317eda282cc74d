// Attributes and types of VHLO, the versioned form of StableHLO.
#include <array>

#include "hlo/import/bytecode_entries.h"

namespace weft::hlo::mlir {
namespace {

template <size_t N>
const Attr* VhloEnum(EntryReader& r, const std::array<std::string_view, N>& names) {
  uint64_t value = r.VarInt();
  if (!r.ready()) return nullptr;
  if (value >= N || names[value].empty()) {
    return r.Fail(
        StrCat("enum value ", value, " where the last is ", N - 1, " (", names[N - 1], ")"));
  }
  return MakeString(r, names[value], Attr::Kind::kEnum);
}

constexpr std::array<std::string_view, 6> kVhloDirections = {"EQ", "NE", "GE", "GT", "LE", "LT"};
constexpr std::array<std::string_view, 5> kVhloCompareTypes = {"NOTYPE", "FLOAT", "TOTALORDER",
                                                               "SIGNED", "UNSIGNED"};
constexpr std::array<std::string_view, 5> kVhloApiVersions = {
    "API_VERSION_UNSPECIFIED", "API_VERSION_ORIGINAL", "API_VERSION_STATUS_RETURNING",
    "API_VERSION_STATUS_RETURNING_UNIFIED", "API_VERSION_TYPED_FFI"};
constexpr std::array<std::string_view, 4> kVhloFftTypes = {"FFT", "IFFT", "RFFT", "IRFFT"};
constexpr std::array<std::string_view, 3> kVhloPrecisions = {"DEFAULT", "HIGH", "HIGHEST"};
constexpr std::array<std::string_view, 3> kVhloRngAlgorithms = {"DEFAULT", "THREE_FRY", "PHILOX"};
constexpr std::array<std::string_view, 3> kVhloRngDistributions = {"", "UNIFORM", "NORMAL"};
constexpr std::array<std::string_view, 4> kVhloTransposes = {"TRANSPOSE_INVALID", "NO_TRANSPOSE",
                                                             "TRANSPOSE", "ADJOINT"};
constexpr std::array<std::string_view, 3> kVhloAccuracyModes = {"DEFAULT", "HIGHEST", "TOLERANCE"};

const Attr* VhloDict(EntryReader& r) {
  std::vector<std::pair<std::string_view, const Attr*>> fields(r.Count());
  for (auto& [name, value] : fields) {
    const Attr* key = r.AttrRef();
    value = r.AttrRef();
    if (r.ready() && key->kind != Attr::Kind::kString) {
      return r.Fail("dictionary with a key that is not a string");
    }
    name = key->text;
  }
  return MakeDict(r, "", std::move(fields));
}

const Attr* VhloInts(EntryReader& r, std::vector<int64_t> ints) {
  if (!r.ready()) return nullptr;
  Attr* attr = r.tree().NewAttr(Attr::Kind::kInts);
  attr->type = MakeElement(r, DType::kS64);
  attr->ints = std::move(ints);
  return attr;
}

const Attr* VhloAlias(EntryReader& r) {
  std::vector<int64_t> output = r.SignedInts();
  int64_t operand = r.SignedVarInt();
  std::vector<int64_t> inner = r.SignedInts();
  return MakeDict(r, "output_operand_alias",
                  {{"output_tuple_indices", VhloInts(r, std::move(output))},
                   {"operand_index", MakeI64(r, operand)},
                   {"operand_tuple_indices", VhloInts(r, std::move(inner))}});
}

// None is VHLO's way to say that an attribute is absent. tf32 is the one type without a DType.
const Attr* VhloTypeAttr(EntryReader& r) {
  const Type* type = r.TypeRef();
  if (!r.ready()) return nullptr;
  bool none = type->kind == Type::Kind::kNone;
  Attr* attr = r.tree().NewAttr(none ? Attr::Kind::kNone : Attr::Kind::kType);
  if (none) return attr;
  attr->type = type;
  if (type->kind == Type::Kind::kElement && type->dtype == DType::kInvalid) attr->text = "tf32";
  return attr;
}

const Attr* VhloAccuracy(EntryReader& r) {
  const Attr* atol = MakeFloat(r, MakeElement(r, DType::kF64));
  const Attr* rtol = MakeFloat(r, MakeElement(r, DType::kF64));
  int64_t ulps = r.SignedVarInt();
  const Attr* mode = r.AttrRef();
  return MakeDict(r, "result_accuracy",
                  {{"atol", atol}, {"rtol", rtol}, {"ulps", MakeI64(r, ulps)}, {"mode", mode}});
}

const Attr* VhloMeshPart(EntryReader& r, uint64_t kind) {
  switch (kind) {
    case 21: {
      int64_t pre_size = r.SignedVarInt(), size = r.SignedVarInt();
      return MakeDict(r, "sub_axis_info",
                      {{"pre_size", MakeI64(r, pre_size)}, {"size", MakeI64(r, size)}});
    }
    case 22: {
      const Attr* name = r.AttrRef();
      const Attr* part = r.VarInt() != 0 ? r.AttrRef() : nullptr;
      return MakeDict(r, "axis_ref", {{"name", name}, {"sub_axis_info", part}});
    }
    case 23: {
      const Attr* mesh = r.AttrRef();
      const Attr* axes = r.AttrRef();
      if (r.ready() && mesh->kind == Attr::Kind::kString) {
        mesh = MakeString(r, mesh->text, Attr::Kind::kSymbol);
      }
      return MakeDict(r, "replica_group_mesh_axes", {{"mesh", mesh}, {"axes", axes}});
    }
    case 24: {
      const Attr* name = r.AttrRef();
      int64_t size = r.SignedVarInt();
      return MakeDict(r, "mesh_axis", {{"name", name}, {"size", MakeI64(r, size)}});
    }
    default: {
      const Attr* axes = r.AttrRef();
      bool present = false;
      const Attr* ids = r.OptionalAttr(present);
      return MakeDict(r, "mesh", {{"axes", axes}, {"device_ids", ids}});
    }
  }
}

DType VhloElement(uint64_t kind) {
  switch (kind) {
    case 0: return DType::kPred;
    case 2: return DType::kBF16;
    case 3: return DType::kF16;
    case 4: return DType::kF32;
    case 5: return DType::kF64;
    case 6: return DType::kF8E4M3FN;
    case 7: return DType::kF8E5M2;
    case 10: return DType::kS4;
    case 11: return DType::kS8;
    case 12: return DType::kS16;
    case 13: return DType::kS32;
    case 14: return DType::kS64;
    case 15: return DType::kU4;
    case 16: return DType::kU8;
    case 17: return DType::kU16;
    case 18: return DType::kU32;
    case 19: return DType::kU64;
    case 27: return DType::kF8E4M3FNUZ;
    case 28: return DType::kF8E5M2FNUZ;
    case 29: return DType::kF8E4M3B11FNUZ;
    case 31: return DType::kS2;
    case 32: return DType::kU2;
    case 35: return DType::kF8E4M3;
    case 36: return DType::kF8E3M4;
    case 37: return DType::kF4E2M1FN;
    case 38: return DType::kF6E2M3FN;
    case 39: return DType::kF6E3M2FN;
    case 40: return DType::kF8E8M0FNU;
    default: return DType::kInvalid;
  }
}

const Type* VhloList(EntryReader& r, Type::Kind kind) {
  std::vector<const Type*> elements = r.Types(), results;
  if (kind == Type::Kind::kFunction) results = r.Types();
  if (!r.ready()) return nullptr;
  Type* type = r.tree().NewType();
  type->kind = kind;
  type->elements = std::move(elements);
  type->results = std::move(results);
  return type;
}

}  // namespace

const Attr* DecodeVhloAttr(EntryReader& r) {
  uint64_t kind = r.VarInt();
  switch (kind) {
    case 1: return MakeArray(r, r.Attrs());
    case 2: {
      uint64_t value = r.VarInt();
      if (!r.ready()) return nullptr;
      if (value > 1) return r.Fail(StrCat("boolean of value ", value));
      Attr* attr = r.tree().NewAttr(Attr::Kind::kBool);
      attr->boolean = value == 1;
      return attr;
    }
    case 3: return VhloEnum(r, kVhloDirections);
    case 4: return VhloEnum(r, kVhloCompareTypes);
    case 5: return VhloEnum(r, kVhloApiVersions);
    case 6: return VhloDict(r);
    case 7: return VhloEnum(r, kVhloFftTypes);
    case 8: return MakeFloat(r, r.TypeRef());
    case 9: return MakeInt(r, r.TypeRef());
    case 10: return VhloAlias(r);
    case 11: return VhloEnum(r, kVhloPrecisions);
    case 12: return VhloEnum(r, kVhloRngAlgorithms);
    case 13: return VhloEnum(r, kVhloRngDistributions);
    case 14: return MakeString(r, r.String());
    case 15: {
      const Type* type = r.TypeRef();
      std::string_view bytes = r.Bytes(r.VarInt());
      return r.ready() ? MakeDense(r, type, bytes) : nullptr;
    }
    case 16: return VhloEnum(r, kVhloTransposes);
    case 17: return VhloTypeAttr(r);
    case 18: return VhloInts(r, r.SignedInts());
    case 19: return VhloEnum(r, kVhloAccuracyModes);
    case 20: return VhloAccuracy(r);
    case 21:
    case 22:
    case 23:
    case 24:
    case 25: return VhloMeshPart(r, kind);
    default: return r.Fail(StrCat("unknown VHLO attribute kind ", kind));
  }
}

const Type* DecodeVhloType(EntryReader& r) {
  uint64_t kind = r.VarInt();
  if (DType dtype = VhloElement(kind); dtype != DType::kInvalid) return MakeElement(r, dtype);
  switch (kind) {
    case 1: return MakeComplex(r, r.TypeRef());
    case 8: return VhloList(r, Type::Kind::kFunction);
    case 20:
    case 21: {
      const Attr* encoding = kind == 21 ? r.AttrRef() : nullptr;
      std::vector<int64_t> dims = r.SignedInts();
      return MakeTensor(r, std::move(dims), r.TypeRef(), encoding);
    }
    case 23: return VhloList(r, Type::Kind::kTuple);
    case 42: return VhloList(r, Type::Kind::kFuture);
    case 34: return MakeElement(r, DType::kInvalid);
    case 24:
    case 30: return r.Fail("quantized types are not supported");
    case 25: return r.Fail("tensors without a rank are not supported");
    case 41: {  // A buffer, which custom calls pin and unpin: values go through as those of
                // tensors.
      std::vector<int64_t> dims = r.SignedInts();
      return MakeTensor(r, std::move(dims), r.TypeRef(), nullptr);
    }
    case 9:
    case 22:
    case 33: {
      if (!r.ready()) return nullptr;
      Type* type = r.tree().NewType();
      type->kind = kind == 9    ? Type::Kind::kIndex
                   : kind == 22 ? Type::Kind::kToken
                                : Type::Kind::kNone;
      return type;
    }
    default: return r.Fail(StrCat("unknown VHLO type kind ", kind));
  }
}

}  // namespace weft::hlo::mlir
