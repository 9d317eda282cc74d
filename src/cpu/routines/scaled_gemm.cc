// scaled_gemm: products of block-scaled numbers, decoded where panels are packed: to bf16 where
// that is exact and the processor has products of it, otherwise to f32.
#include <algorithm>

#include "base/check.h"
#include "base/float_formats.h"
#include "cpu/routines/convert_runs.h"
#include "cpu/routines/multiply.h"
#include "cpu/routines/narrow_product.h"
#include "cpu/routines/prepare.h"
#include "cpu/routines/tiles.h"
#include "program/scaled_gemm_form.h"

namespace weft::cpu {
namespace {

// A side as it lies in memory.
struct ScaledOperand {
  program::ScaledGemmForm::Side side;
  int64_t k;
  DType dtype, scale_type;
  const std::byte *data = nullptr, *scale = nullptr;

  int64_t scale_vectors() const { return side.vectors / side.vector_block; }
  int64_t scale_k() const { return k / side.k_block; }
};

// Numbers of 8 bits are looked up.
struct NumberTable {
  float values[256];
  explicit NumberTable(DType dtype) {
    for (int i = 0; i < 256; ++i) {
      auto bits = static_cast<std::byte>(i);
      LoadRun<float>(dtype, &bits, 1, &values[i]);
    }
  }
};

// Elements k0 to k0 + n of a vector, scaled.
class ScaledReader {
 public:
  explicit ScaledReader(const ScaledOperand& operand)
      : x_(operand),
        looks_up_(ByteWidth(operand.dtype) == 1),
        table_(looks_up_ ? operand.dtype : DType::kU8) {}

  void Read(int64_t vector, int64_t k0, int64_t n, float* out) const {
    const auto& side = x_.side;
    int64_t width = ByteWidth(x_.dtype), step = side.transposed ? side.vectors : 1;
    int64_t first = side.transposed ? k0 * side.vectors + vector : vector * x_.k + k0;
    const std::byte* from = x_.data + first * width;
    if (looks_up_) {
      for (int64_t p = 0; p < n; ++p) {
        out[p] = table_.values[std::to_integer<uint8_t>(from[p * step])];
      }
    } else if (step == 1) {
      LoadRun<float>(x_.dtype, from, n, out);
    } else {
      for (int64_t p = 0; p < n; ++p) LoadRun<float>(x_.dtype, from + p * step * width, 1, out + p);
    }
    if (x_.scale == nullptr) return;
    for (int64_t p = 0; p < n;) {
      int64_t block = (k0 + p) / side.k_block;
      int64_t end = std::min(n, (block + 1) * side.k_block - k0);
      float factor = Scale(vector / side.vector_block, block);
      for (; p < end; ++p) out[p] *= factor;
    }
  }

 private:
  float Scale(int64_t vector, int64_t block) const {
    int64_t at =
        x_.side.transposed ? block * x_.scale_vectors() + vector : vector * x_.scale_k() + block;
    float factor;
    LoadRun<float>(x_.scale_type, x_.scale + at * ByteWidth(x_.scale_type), 1, &factor);
    return factor;
  }

  const ScaledOperand& x_;
  bool looks_up_;
  NumberTable table_;
};

// As panels of f32: runs of each vector are decoded, then turned.
class ScaledPanels : public PanelSource<float> {
 public:
  explicit ScaledPanels(const ScaledOperand& operand) : reader_(operand) {}
  void Pack(int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width,
            float* out) const override {
    constexpr int64_t kMostVectors = 64, kTurned = 64;
    CHECK(width <= kMostVectors);
    alignas(64) float runs[kMostVectors * kTurned];
    const float* rows[kMostVectors];
    for (int64_t i = 0; i < width; ++i) rows[i] = runs + i * kTurned;
    std::fill(runs + count * kTurned, runs + width * kTurned, 0.0F);
    for (int64_t p = 0; p < kn; p += kTurned) {
      int64_t n = std::min(kTurned, kn - p);
      for (int64_t i = 0; i < count; ++i) {
        reader_.Read(first + i, k0 + p, n, runs + i * kTurned);
      }
      PackAcross<float>(rows, n, width, out + p * width);
    }
  }

 private:
  ScaledReader reader_;
};

constexpr int64_t kDecodedRun = 256;  // elements of a vector that are decoded at once

// As panels of bf16, for the kernels that take them.
class ScaledNarrowProduct : public PackedProduct<float> {
 public:
  ScaledNarrowProduct(const NarrowKernel& kernel, const ScaledOperand& a, const ScaledOperand& b)
      : kernel_(kernel), a_(a), b_(b) {}
  PanelForm form() const override { return NarrowForm(kernel_); }
  void Pack(bool is_left, int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t panel,
            std::byte* out) const override {
    const ScaledReader& reader = is_left ? a_ : b_;
    int64_t width = is_left ? kernel_.rows : kernel_.cols;
    std::vector<uint16_t> rows(static_cast<size_t>(width * kn));
    for (int64_t at = 0; at < count; at += width, out += panel) {
      int64_t n = std::min(width, count - at);
      for (int64_t i = 0; i < n; ++i) {
        float run[kDecodedRun];
        for (int64_t p = 0; p < kn; p += kDecodedRun) {
          int64_t part = std::min(kDecodedRun, kn - p);
          reader.Read(first + at + i, k0 + p, part, run);
          RoundToBf16(run, part, reinterpret_cast<std::byte*>(rows.data() + i * kn + p));
        }
      }
      NarrowSource source = {DType::kBF16, reinterpret_cast<const std::byte*>(rows.data()), kn, 1};
      PackNarrow(kernel_, is_left, source, DType::kBF16, 0, n, 0, kn, panel, out);
    }
  }
  void Run(int64_t k, const std::byte* a, const std::byte* b, float* c, int64_t ldc,
           float /*alpha*/, float beta) const override {
    kernel_.run(k, a, b, reinterpret_cast<std::byte*>(c), ldc, beta != 0);
  }
  void Enter() const override {
    if (kernel_.enter != nullptr) kernel_.enter();
  }
  void Leave() const override {
    if (kernel_.leave != nullptr) kernel_.leave();
  }

 private:
  const NarrowKernel& kernel_;
  ScaledReader a_, b_;
};

// Whether a scaled number is one of bf16, whose range is that of f32.
bool IsExactInBf16(DType dtype, bool scaled, DType scale) {
  auto significant = [](DType t) {
    if (IsInteger(t)) return BitWidth(t);
    FloatFormat f = FormatOf(t);
    return f.specials == FloatSpecials::kExponentOnly ? 0 : f.mantissa_bits + 1;
  };
  if (dtype == DType::kF16 || (scaled && scale == DType::kF16)) return false;
  int bits = significant(dtype) + (scaled ? significant(scale) : 0);
  return bits <= significant(DType::kBF16);
}

class ScaledGemm : public PreparedRoutine {
 public:
  ScaledGemm(const program::ScaledGemmForm& form, ScaledOperand a, ScaledOperand b, DType c)
      : form_(form), a_(std::move(a)), b_(std::move(b)), c_(c) {
    bool narrow = IsExactInBf16(a_.dtype, a_.side.scale != 0, a_.scale_type) &&
                  IsExactInBf16(b_.dtype, b_.side.scale != 0, b_.scale_type);
    kernel_ = narrow ? FindNarrowKernel(DType::kBF16, DType::kBF16) : nullptr;
  }

  Status Run(const RoutineContext& context) const override {
    Means means = context.means();
    int64_t m = a_.side.vectors, n = b_.side.vectors;
    for (int64_t batch = 0; batch < form_.batch; ++batch) {
      ScaledOperand a = At(a_, context, batch), b = At(b_, context, batch);
      std::byte* c = context.memory.back() + batch * m * n * ByteWidth(c_);
      ProductSizes sizes = {m, n, form_.k};
      if (kernel_ != nullptr) {
        ScaledNarrowProduct product(*kernel_, a, b);
        TRY(MultiplyPacked<float>(means, sizes, product, {c_, c, n}, 1, 0));
      } else {
        TRY(Multiply<float>(means, sizes, ScaledPanels(a), ScaledPanels(b), {c_, c, n}, 1, 0));
      }
    }
    return {};
  }

  int64_t ScratchBytes(int64_t threads) const override {
    ProductSizes sizes = {a_.side.vectors, b_.side.vectors, form_.k};
    if (kernel_ != nullptr) return PackedScratch<float>(NarrowForm(*kernel_), sizes, threads);
    return MultiplyScratch<float>(sizes.m, sizes.n, sizes.k, threads);
  }

 private:
  static ScaledOperand At(ScaledOperand x, const RoutineContext& context, int64_t batch) {
    x.data = context.memory[x.side.operand] + batch * x.side.vectors * x.k * ByteWidth(x.dtype);
    if (x.side.scale != 0) {
      x.scale = context.memory[x.side.scale] +
                batch * x.scale_vectors() * x.scale_k() * ByteWidth(x.scale_type);
    }
    return x;
  }

  program::ScaledGemmForm form_;
  ScaledOperand a_, b_;
  DType c_;
  const NarrowKernel* kernel_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<PreparedRoutine>> PrepareScaledGemm(const RoutineInputs& inputs) {
  TRY(VerifyCall(inputs, "scaled_gemm"));
  program::ScaledGemmForm form =
      program::ScaledGemmFormOf(std::get<program::LibraryStep>(inputs.step.op));
  auto operand = [&](const program::ScaledGemmForm::Side& side) {
    return ScaledOperand{side, form.k, UseDType(inputs, side.operand),
                         UseDType(inputs, side.scale != 0 ? side.scale : side.operand)};
  };
  return std::make_unique<ScaledGemm>(form, operand(form.a), operand(form.b),
                                      UseDType(inputs, inputs.step.uses.size() - 1));
}

}  // namespace weft::cpu
