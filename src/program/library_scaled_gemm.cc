// scaled_gemm, slowly.
#include <algorithm>

#include "base/elements.h"
#include "base/packing.h"
#include "program/library_routines.h"

namespace weft::program {
namespace {

constexpr std::string_view kName = "scaled_gemm";

// Sizes [batch, vectors, k] of a side.
struct SideSizes {
  int64_t batch, vectors, k;
};
SideSizes SizesOfSide(const ScaledGemmForm& form, bool is_left) {
  return {form.batch, is_left ? form.m : form.n, form.k};
}

Status CheckSide(const Program& program, const Step& step, const ScaledGemmForm& form,
                 bool is_left) {
  const Use &data = step.uses[is_left ? 0 : 1], &scale = step.uses[is_left ? 2 : 3];
  const ScaledSide& side = is_left ? form.a : form.b;
  SideSizes s = SizesOfSide(form, is_left);
  std::string_view name = is_left ? "a" : "b";
  const Buffer& buffer = program.buffers[static_cast<size_t>(data.slice.buffer)];
  int64_t elements = Product({s.batch, s.vectors, s.k});
  DType dtype = buffer.shape.dtype();
  if (elements < 0 || (!IsFloat(dtype) && !IsInteger(dtype)) || BitWidth(dtype) > 32) {
    return InvalidArgument(kName, ": does not take ", weft::Name(dtype));
  }
  if (buffer.packed) {
    if (data.slice.offset != 0 || data.slice.size != PackedBytes(dtype, elements)) {
      return InvalidArgument(kName, ": ", name, " is packed, and not a whole buffer");
    }
  } else {
    TRY(CheckElements(program, data, elements, kName, name));
  }
  if (!side.has_scale) return {};
  bool divides = side.batch_block > 0 && side.vector_block > 0 && side.k_block > 0 &&
                 s.batch % side.batch_block == 0 && s.vectors % side.vector_block == 0 &&
                 s.k % side.k_block == 0;
  if (!divides) return InvalidArgument(kName, ": ", name, "_block does not divide the operand");
  DType scale_type = DTypeOf(program, scale);
  if (!IsFloat(scale_type) || BitWidth(scale_type) > 32 || BitWidth(scale_type) < 8) {
    return InvalidArgument(kName, ": does not take scales of ", weft::Name(scale_type));
  }
  return CheckElements(
      program, scale,
      s.batch / side.batch_block * (s.vectors / side.vector_block) * (s.k / side.k_block), kName,
      is_left ? "a_scale" : "b_scale");
}

Status VerifyScaledGemm(const Program& program, const Step& step) {
  TRY(CheckAccess(step,
                  {Access::kRead, Access::kRead, Access::kRead, Access::kRead, Access::kWrite},
                  kName, "(read a, read b, read a_scale, read b_scale, write c)"));
  ScaledGemmForm form = ScaledGemmFormOf(std::get<LibraryStep>(step.op));
  if (form.m < 0 || form.n < 0 || form.k < 0 || form.batch < 0) {
    return InvalidArgument(kName, ": needs m, n and k");
  }
  if (form.operands != DType::kBF16 && form.operands != DType::kF32) {
    return InvalidArgument(kName, ": operands are bf16 or f32");
  }
  TRY(CheckSide(program, step, form, true));
  TRY(CheckSide(program, step, form, false));
  DType c = DTypeOf(program, step.uses[4]);
  if (!IsFloat(c) || BitWidth(c) > 32) {
    return InvalidArgument(kName, ": does not take ", weft::Name(c));
  }
  return CheckElements(program, step.uses[4], Product({form.batch, form.m, form.n}), kName, "c");
}

// All numbers of one side, in the order of memory, scaled and rounded.
std::vector<float> NumbersOfSide(const Program& program, const Step& step,
                                 std::span<const std::span<std::byte>> memory,
                                 const ScaledGemmForm& form, bool is_left) {
  const ScaledSide& side = is_left ? form.a : form.b;
  SideSizes s = SizesOfSide(form, is_left);
  size_t data = is_left ? 0 : 1, scale = is_left ? 2 : 3;
  int64_t elements = s.batch * s.vectors * s.k;
  std::vector<float> numbers(static_cast<size_t>(elements));
  const Buffer& buffer = program.buffers[static_cast<size_t>(step.uses[data].slice.buffer)];
  DType dtype = buffer.shape.dtype();
  std::vector<std::byte> bytes;
  const std::byte* from = memory[data].data();
  if (buffer.packed) {
    bytes.resize(numbers.size());
    UnpackElements(dtype, from, elements, bytes.data());
    from = bytes.data();
  }
  LoadF32(dtype, from, elements, numbers.data());
  if (side.has_scale) {
    int64_t vectors = s.vectors / side.vector_block, blocks = s.k / side.k_block;
    std::vector<float> factors(static_cast<size_t>(s.batch / side.batch_block * vectors * blocks));
    LoadF32(DTypeOf(program, step.uses[scale]), memory[scale].data(), std::ssize(factors),
            factors.data());
    for (int64_t i = 0; i < elements; ++i) {
      int64_t rest = i % (s.vectors * s.k);
      int64_t vector = side.k_first ? rest % s.vectors : rest / s.k;
      int64_t p = side.k_first ? rest / s.vectors : rest % s.k;
      int64_t v = vector / side.vector_block, q = p / side.k_block;
      int64_t at = i / (s.vectors * s.k) / side.batch_block * vectors * blocks +
                   (side.k_first ? q * vectors + v : v * blocks + q);
      numbers[static_cast<size_t>(i)] *= factors[static_cast<size_t>(at)];
    }
  }
  if (form.operands == DType::kBF16) {
    std::vector<std::byte> rounded(numbers.size() * 2);
    StoreF32(DType::kBF16, numbers.data(), elements, rounded.data());
    LoadF32(DType::kBF16, rounded.data(), elements, numbers.data());
  }
  return numbers;
}

Status InterpretScaledGemm(const Program& program, const Step& step, int64_t,
                           std::span<const std::span<std::byte>> memory) {
  ScaledGemmForm s = ScaledGemmFormOf(std::get<LibraryStep>(step.op));
  std::vector<float> a = NumbersOfSide(program, step, memory, s, true);
  std::vector<float> b = NumbersOfSide(program, step, memory, s, false);
  std::vector<float> row(static_cast<size_t>(s.n));
  DType c = DTypeOf(program, step.uses[4]);
  for (int64_t i = 0; i < s.batch * s.m; ++i) {
    const float* left = a.data() + i / s.m * s.m * s.k;
    const float* right = b.data() + i / s.m * s.n * s.k;
    int64_t y = i % s.m;
    for (int64_t x = 0; x < s.n; ++x) {
      double sum = 0;
      for (int64_t p = 0; p < s.k; ++p) {
        sum += double{left[s.a.k_first ? p * s.m + y : y * s.k + p]} *
               right[s.b.k_first ? p * s.n + x : x * s.k + p];
      }
      row[static_cast<size_t>(x)] = static_cast<float>(sum);
    }
    StoreF32(c, row.data(), s.n, memory[4].data() + i * s.n * ByteWidth(c));
  }
  return {};
}

int64_t ScaledGemmCost(const Program&, const Step& step) {
  ScaledGemmForm s = ScaledGemmFormOf(std::get<LibraryStep>(step.op));
  return SaturatingCost({s.batch, s.m, s.n, s.k});
}

ScaledSide SideOf(const LibraryStep& call, std::string_view block, bool k_first) {
  ScaledSide side = {.k_first = k_first};
  const std::vector<int64_t>* sizes = IntsAttr(call, block);
  if (sizes == nullptr || sizes->size() != 3) return side;
  side.has_scale = true;
  side.batch_block = (*sizes)[0];
  side.vector_block = (*sizes)[1];
  side.k_block = (*sizes)[2];
  return side;
}

}  // namespace

ScaledGemmForm ScaledGemmFormOf(const LibraryStep& call) {
  std::string_view operands = StringAttr(call, "operands", "f32");
  return {IntAttr(call, "m", -1),
          IntAttr(call, "n", -1),
          IntAttr(call, "k", -1),
          IntAttr(call, "batch", 1),
          operands == "bf16"  ? DType::kBF16
          : operands == "f32" ? DType::kF32
                              : DType::kInvalid,
          SideOf(call, "a_block", BoolAttr(call, "trans_a", false)),
          SideOf(call, "b_block", !BoolAttr(call, "trans_b", false))};
}

bool TakesPacked(const Step& step, size_t use) {
  const auto* call = std::get_if<LibraryStep>(&step.op);
  return call != nullptr && call->routine == kName && use < 2;
}

Routine ScaledGemmRoutine() {
  return {kName, VerifyScaledGemm, ScaledGemmCost, InterpretScaledGemm};
}

}  // namespace weft::program
