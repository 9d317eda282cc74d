// scaled_gemm, slowly.
#include <algorithm>

#include "base/elements.h"
#include "program/library_routines.h"
#include "program/scaled_gemm_form.h"

namespace weft::program {
namespace {

bool IsScaledOperand(DType dtype) {
  return (IsFloat(dtype) && BitWidth(dtype) <= 32) || (IsInteger(dtype) && BitWidth(dtype) <= 8);
}

Status CheckScaledSide(const Program& program, const Step& step, const ScaledGemmForm& form,
                       bool is_left) {
  const ScaledGemmForm::Side& side = is_left ? form.a : form.b;
  std::string_view name = is_left ? "a" : "b";
  const Use& use = step.uses[side.operand];
  if (!IsScaledOperand(DTypeOf(program, use))) {
    return InvalidArgument("scaled_gemm: does not take ", weft::Name(DTypeOf(program, use)));
  }
  TRY(CheckElements(program, use, Product({form.batch, side.vectors, form.k}), "scaled_gemm",
                    name));
  if (side.scale == 0) return {};
  const Use& scale = step.uses[side.scale];
  DType dtype = DTypeOf(program, scale);
  if (!IsFloat(dtype) || BitWidth(dtype) > 32) {
    return InvalidArgument("scaled_gemm: does not take scales of ", weft::Name(dtype));
  }
  if (side.vector_block < 1 || side.k_block < 1 || side.vectors % side.vector_block != 0 ||
      form.k % side.k_block != 0) {
    return InvalidArgument("scaled_gemm: blocks of ", side.vector_block, " x ", side.k_block,
                           " do not divide ", side.vectors, " x ", form.k);
  }
  return CheckElements(
      program, scale,
      Product({form.batch, side.vectors / side.vector_block, form.k / side.k_block}), "scaled_gemm",
      "a scale");
}

Status VerifyScaledGemm(const Program& program, const Step& step) {
  ScaledGemmForm form = ScaledGemmFormOf(std::get<LibraryStep>(step.op));
  size_t count = size_t{3} + (form.a.scale != 0) + (form.b.scale != 0);
  bool good = step.uses.size() == count && step.uses.back().access == Access::kWrite;
  for (size_t i = 0; good && i + 1 < count; ++i) good = step.uses[i].access == Access::kRead;
  if (!good) {
    return InvalidArgument(
        "scaled_gemm: takes (read a, read b [, read a scale] [, read b scale], write c)");
  }
  if (form.a.vectors < 1 || form.b.vectors < 1 || form.k < 1 || form.batch < 1) {
    return InvalidArgument("scaled_gemm: needs m, n and k above 0");
  }
  TRY(CheckScaledSide(program, step, form, true));
  TRY(CheckScaledSide(program, step, form, false));
  DType c = DTypeOf(program, step.uses.back());
  if (c != DType::kF32 && c != DType::kBF16 && c != DType::kF16) {
    return InvalidArgument("scaled_gemm: does not give ", weft::Name(c));
  }
  return CheckElements(program, step.uses.back(),
                       Product({form.batch, form.a.vectors, form.b.vectors}), "scaled_gemm", "c");
}

// Element p of vector i, scaled.
float ScaledAt(const Program& program, const Step& step, const ScaledGemmForm& form,
               const ScaledGemmForm::Side& side, std::span<const std::span<std::byte>> memory,
               int64_t batch, int64_t i, int64_t p) {
  auto load = [&](size_t use, int64_t at) {
    DType dtype = DTypeOf(program, step.uses[use]);
    const std::byte* from = memory[use].data() + at * ByteWidth(dtype);
    float x;
    if (IsFloat(dtype)) {
      LoadF32(dtype, from, 1, &x);
    } else {
      int64_t value;
      LoadI64(dtype, from, 1, &value);
      x = static_cast<float>(value);
    }
    return x;
  };
  auto place = [&](int64_t vectors, int64_t k, int64_t v, int64_t q) {
    return batch * vectors * k + (side.transposed ? q * vectors + v : v * k + q);
  };
  float x = load(side.operand, place(side.vectors, form.k, i, p));
  if (side.scale == 0) return x;
  return x * load(side.scale, place(side.vectors / side.vector_block, form.k / side.k_block,
                                    i / side.vector_block, p / side.k_block));
}

Status InterpretScaledGemm(const Program& program, const Step& step, int64_t,
                           std::span<const std::span<std::byte>> memory) {
  ScaledGemmForm form = ScaledGemmFormOf(std::get<LibraryStep>(step.op));
  int64_t m = form.a.vectors, n = form.b.vectors;
  DType dtype = DTypeOf(program, step.uses.back());
  for (int64_t batch = 0; batch < form.batch; ++batch) {
    for (int64_t i = 0; i < m * n; ++i) {
      double sum = 0;
      for (int64_t p = 0; p < form.k; ++p) {
        sum += double{ScaledAt(program, step, form, form.a, memory, batch, i / n, p)} *
               ScaledAt(program, step, form, form.b, memory, batch, i % n, p);
      }
      float x = static_cast<float>(sum);
      StoreF32(dtype, &x, 1, memory.back().data() + (batch * m * n + i) * ByteWidth(dtype));
    }
  }
  return {};
}

int64_t ScaledGemmCost(const Program&, const Step& step) {
  ScaledGemmForm form = ScaledGemmFormOf(std::get<LibraryStep>(step.op));
  return SaturatingCost({form.batch, form.a.vectors, form.b.vectors, form.k, 4});
}

}  // namespace

ScaledGemmForm ScaledGemmFormOf(const LibraryStep& call) {
  ScaledGemmForm form;
  form.k = IntAttr(call, "k", 0);
  form.batch = IntAttr(call, "batch", 1);
  form.a.vectors = IntAttr(call, "m", 0);
  form.b.vectors = IntAttr(call, "n", 0);
  form.a.transposed = BoolAttr(call, "trans_a", false);
  form.b.transposed = !BoolAttr(call, "trans_b", false);
  form.b.operand = 1;
  size_t next = 2;
  for (ScaledGemmForm::Side* side : {&form.a, &form.b}) {
    const auto* blocks = IntsAttr(call, side == &form.a ? "a_block" : "b_block");
    if (blocks == nullptr || blocks->size() != 2) continue;
    side->scale = next++;
    side->vector_block = (*blocks)[0];
    side->k_block = (*blocks)[1];
  }
  return form;
}

Routine ScaledGemmRoutine() {
  return {"scaled_gemm", VerifyScaledGemm, ScaledGemmCost, InterpretScaledGemm};
}

}  // namespace weft::program
