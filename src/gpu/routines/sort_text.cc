#include "gpu/routines/sort_text.h"

#include <algorithm>

#include "base/str.h"
#include "gpu/cuda_text.h"
#include "gpu/render_cuda.h"
#include "gpu/render_ops.h"

namespace weft::gpu {

int KeyBits(DType dtype) {
  if (dtype == DType::kPred) return 8;
  return IsFloat(dtype) && BitWidth(dtype) < 16 ? 32 : std::max(BitWidth(dtype), 8);
}
std::string_view KeyType(DType dtype) {
  return KeyBits(dtype) == 64 ? "u64" : "u32";
}

// An expression for the number whose order is that of element `x`, in its storage type.
std::string KeyOf(const SortPlan& plan, DType dtype, const std::string& x) {
  std::string key;
  std::string flags = StrCat(", ", plan.zeros_equal ? "true" : "false", ", ",
                             plan.nans_equal ? "true" : "false", ")");
  if (dtype == DType::kF64) {
    key = StrCat("FloatKey<u64>(u64(__double_as_longlong(", x, ")), 0x7ff0000000000000ull", flags);
  } else if (dtype == DType::kBF16 || dtype == DType::kF16) {
    key = StrCat("FloatKey<u16>(", x, ", u16(", dtype == DType::kBF16 ? "0x7f80" : "0x7c00", ")",
                 flags);
  } else if (IsFloat(dtype)) {
    key = StrCat("FloatKey<u32>(__float_as_uint(", FromStorage(dtype, x), "), 0x7f800000u", flags);
  } else {
    int bits = KeyBits(dtype);
    std::string_view type = KeyType(dtype);
    key = StrCat(type, "(", x, ")");
    if (IsSigned(dtype)) key = StrCat("(", key, " ^ ", type, "(", type, "(1) << ", bits - 1, "))");
    if (bits < 32) key = StrCat("(", key, " & ", (1 << bits) - 1, "u)");
  }
  if (!plan.descending) return StrCat(KeyType(dtype), "(", key, ")");
  int bits = KeyBits(dtype);
  std::string mask = bits >= 32 ? "" : StrCat(" & ", (1 << bits) - 1, "u");
  return StrCat("(~", KeyType(dtype), "(", key, ")", mask, ")");
}

std::string StorageName(DType dtype) {
  return IsComplex(dtype) ? StrCat("Cx<", Name(RealType(dtype)), ">")
                          : std::string(CudaStorageType(dtype));
}

std::string KeyOrderText(const SortPlan& plan, std::string_view name, DType dtype) {
  std::string storage = StorageName(dtype);
  return StrCat(
      "struct ", name, " {\n  typedef ", KeyType(dtype), " Key;\n  const ", storage,
      "* x;\n  Rows s;\n  __device__ inline Key Load(s64 row, s64 i) const {\n    ", storage,
      " e = x[s.At(row, i)];\n    return ", KeyOf(plan, dtype, "e"),
      ";\n  }\n  __device__ inline bool Before(Key a, Key b) const { return a < b; }\n};\n");
}

std::string TupleOrderText(const SortPlan& plan, const RoutineInputs& inputs) {
  std::string fields, body;
  for (size_t i = 0; i < plan.operands; ++i) {
    StrAppend(fields, "  const ", StorageName(inputs.type(i)), "* x", i, ";\n");
  }
  std::string before;
  if (plan.comparator != nullptr) {
    std::string parameters, arguments;
    const program::Kernel& kernel = *plan.comparator;
    for (int32_t p = 0; p < kernel.num_params; ++p) {
      const program::Memory& m = kernel.memories[p];
      std::string_view type = CudaStorageType(m.dtype);
      StrAppend(parameters, p > 0 ? ", " : "", Writes(m.access) ? "" : "const ", type, "* m", p);
      if (p + 1 == kernel.num_params) break;
      StrAppend(arguments, "(const ", type, "*)(x", p / 2, " + ", p % 2 == 0 ? "a" : "b", "), ");
    }
    CudaText text;
    text.Open("__device__ inline void Compare(", parameters, ") {");
    RenderInBlock(kernel, 1, text);
    text.Close();
    body = text.text();
    before = StrCat("    u8 out = 0;\n    Compare(", arguments, "&out);\n    return out != 0;\n");
  } else {
    for (size_t i = 0; i < static_cast<size_t>(plan.keys); ++i) {
      DType dtype = inputs.type(i);
      StrAppend(before, "    {\n      ", KeyType(dtype),
                " p = ", KeyOf(plan, dtype, StrCat("x", i, "[a]")),
                ", q = ", KeyOf(plan, dtype, StrCat("x", i, "[b]")),
                ";\n      if (p != q) return p < q;\n    }\n");
    }
    StrAppend(before, "    return false;\n");
  }
  return StrCat(body, "struct Tuples {\n  typedef s64 Key;\n", fields,
                "  Rows s;\n  __device__ inline Key Load(s64 row, s64 i) const { return s.At(row, "
                "i); }\n  __device__ inline bool Before(Key a, Key b) const {\n",
                before, "  }\n};\n");
}

std::string PointersText(const RoutineInputs& inputs, size_t operands) {
  std::string fields;
  for (size_t i = 0; i < operands; ++i) {
    std::string type = StorageName(inputs.type(i));
    StrAppend(fields, "  const ", type, "* x", i, ";\n");
  }
  for (size_t i = 0; i < operands; ++i) {
    StrAppend(fields, "  ", StorageName(inputs.type(i)), "* y", i, ";\n");
  }
  return StrCat("struct Pointers {\n", fields, "};\n");
}

std::string ElementOrderText(const SortPlan& plan, DType dtype) {
  std::string storage = StorageName(dtype);
  std::string_view key = KeyType(dtype);
  return StrCat("struct ElementOrder {\n  typedef ", storage, " Raw;\n  typedef ", key,
                " Key;\n  static __device__ inline Key Of(Raw e) { return ",
                KeyOf(plan, dtype, "e"), "; }\n};\n");
}

std::string PassText(std::string_view suffix, std::string_view order, std::string_view value) {
  // Of a core: ranks wait for each other, so that warps are worth a few spilled registers.
  int blocks = value == "NoValue" ? 4 : 3;
  return StrCat(
      "extern \"C\" __global__ void __launch_bounds__(256) count_", suffix, "(const ", order,
      "::Raw* keys, Rows s, s64 shift, u32* counts) {\n  CountDigits<", order,
      ">(keys, s, int(shift), counts);\n}\nextern \"C\" __global__ void __launch_bounds__(256, ",
      blocks, ") distribute_", suffix, "(const ", order, "::Raw* keys, const ", value,
      "* values, Rows s, s64 shift, const u32* places, ", order, "::Raw* keys_out, ", value,
      "* values_out) {\n  Distribute<", order, ", ", value,
      ">(keys, values, s, int(shift), places, keys_out, values_out);\n}\n");
}

std::string ResultText(const SortPlan& plan) {
  constexpr std::string_view kHead =
      "  s64 at = s64(blockIdx.x) * blockDim.x + threadIdx.x;\n  if (at >= s.rows * ";
  if (plan.is_topk) {
    return StrCat(
        "extern \"C\" __global__ void take(Pointers p, s32* numbers, Rows s, s64 k, const "
        "u32* perm) {\n",
        kHead,
        "k) return;\n  s64 row = at / k;\n  u32 number = perm[row * s.n + at % k];\n  "
        "p.y0[at] = p.x0[row * s.n + number];\n  numbers[at] = s32(number);\n}\n");
  }
  std::string body;
  for (size_t i = 0; i < plan.operands; ++i)
    StrAppend(body, "  p.y", i, "[to] = p.x", i, "[from];\n");
  return StrCat("extern \"C\" __global__ void take(Pointers p, Rows s, const u32* perm) {\n", kHead,
                "s.n) return;\n  s64 row = at / s.n, to = s.At(row, at % s.n), from = s.At(row, "
                "perm[at]);\n",
                body, "}\n");
}

}  // namespace weft::gpu
