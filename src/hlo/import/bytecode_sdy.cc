// Attributes of Shardy's dialect: dictionaries whose text names the attribute.
#include "hlo/import/bytecode_entries.h"

namespace weft::hlo::mlir {
namespace {

const Attr* SdyBool(EntryReader& r, bool value) {
  if (!r.ready()) return nullptr;
  Attr* attr = r.tree().NewAttr(Attr::Kind::kBool);
  attr->boolean = value;
  return attr;
}

const Attr* SdyInts(EntryReader& r, std::vector<int64_t> ints) {
  if (!r.ready()) return nullptr;
  Attr* attr = r.tree().NewAttr(Attr::Kind::kInts);
  attr->type = MakeElement(r, DType::kS64);
  attr->ints = std::move(ints);
  return attr;
}

// Kinds 6, 15 and 17: each has one field more.
const Attr* SdySharding(EntryReader& r, uint64_t kind) {
  const Attr* mesh = r.AttrRef();
  std::vector<const Attr*> dims = r.Attrs(), replicated = r.Attrs(), unreduced;
  if (kind != 6) unreduced = r.Attrs();
  int64_t reduction = kind == 17 ? r.SignedVarInt() : 0;
  return MakeDict(r, "sharding",
                  {{"mesh_or_ref", mesh},
                   {"dim_shardings", MakeArray(r, std::move(dims))},
                   {"replicated_axes", MakeArray(r, std::move(replicated))},
                   {"unreduced_axes", MakeArray(r, std::move(unreduced))},
                   {"reduction_op", kind == 17 ? MakeI64(r, reduction) : nullptr}});
}

const Attr* SdyDimSharding(EntryReader& r) {
  std::vector<const Attr*> axes = r.Attrs();
  bool closed = r.Byte() != 0, present = false;
  uint64_t priority = r.VarIntWithFlag(present);
  return MakeDict(r, "dim_sharding",
                  {{"axes", MakeArray(r, std::move(axes))},
                   {"is_closed", SdyBool(r, closed)},
                   {"priority", present ? MakeI64(r, static_cast<int64_t>(priority)) : nullptr}});
}

const Attr* SdyRule(EntryReader& r) {
  std::vector<int64_t> sizes = r.SignedInts();
  std::vector<const Attr*> operands = r.Attrs(), results = r.Attrs();
  std::vector<int64_t> reduction = r.SignedInts(), replication = r.SignedInts();
  std::vector<int64_t> permutation = r.SignedInts(), blocked = r.SignedInts();
  bool custom = r.Byte() != 0;
  return MakeDict(r, "op_sharding_rule",
                  {{"factor_sizes", SdyInts(r, std::move(sizes))},
                   {"operand_mappings", MakeArray(r, std::move(operands))},
                   {"result_mappings", MakeArray(r, std::move(results))},
                   {"reduction_factors", SdyInts(r, std::move(reduction))},
                   {"need_replication_factors", SdyInts(r, std::move(replication))},
                   {"permutation_factors", SdyInts(r, std::move(permutation))},
                   {"blocked_propagation_factors", SdyInts(r, std::move(blocked))},
                   {"is_custom_rule", SdyBool(r, custom)}});
}

}  // namespace

const Attr* DecodeSdyAttr(EntryReader& r) {
  uint64_t kind = r.VarInt();
  auto list = [&](std::string_view text, std::string_view field) {
    return MakeDict(r, text, {{field, MakeArray(r, r.Attrs())}});
  };
  switch (kind) {
    case 0: return list("manual_axes", "value");
    case 1: {
      std::string_view name = r.String();
      int64_t size = r.SignedVarInt();
      return MakeDict(r, "mesh_axis", {{"name", MakeString(r, name)}, {"size", MakeI64(r, size)}});
    }
    case 2: {
      std::vector<const Attr*> axes = r.Attrs();
      std::vector<int64_t> ids = r.SignedInts();
      return MakeDict(
          r, "mesh",
          {{"axes", MakeArray(r, std::move(axes))}, {"device_ids", SdyInts(r, std::move(ids))}});
    }
    case 3: {
      int64_t pre_size = r.SignedVarInt(), size = r.SignedVarInt();
      return MakeDict(r, "sub_axis_info",
                      {{"pre_size", MakeI64(r, pre_size)}, {"size", MakeI64(r, size)}});
    }
    case 4: {
      std::string_view name = r.String();
      bool present = false;
      const Attr* part = r.OptionalAttr(present);
      return MakeDict(r, "axis_ref", {{"name", MakeString(r, name)}, {"sub_axis_info", part}});
    }
    case 5: return SdyDimSharding(r);
    case 6:
    case 15:
    case 17: return SdySharding(r, kind);
    case 7:
    case 16: return list("sharding_per_value", "shardings");
    case 8: return MakeDict(r, "dim_mapping", {{"factor_indices", SdyInts(r, r.SignedInts())}});
    case 9: return list("tensor_mapping", "dim_mappings");
    case 10: return SdyRule(r);
    case 11: return list("axis_ref_list", "value");
    case 12: return list("list_of_axis_ref_lists", "value");
    case 13: {
      std::vector<const Attr*> axes = r.Attrs();
      int64_t source = r.SignedVarInt(), target = r.SignedVarInt();
      return MakeDict(r, "all_to_all_param",
                      {{"axes", MakeArray(r, std::move(axes))},
                       {"src_dim", MakeI64(r, source)},
                       {"tgt_dim", MakeI64(r, target)}});
    }
    case 14: return list("all_to_all_param_list", "value");
    default: return r.Fail(StrCat("unknown sdy attribute kind ", kind));
  }
}

}  // namespace weft::hlo::mlir
