// scaled_gemm: dequantization inside of packing. Numbers are read, scaled and rounded there, so
// that no copy of the operands as bf16 or f32 is in memory.
#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "cpu/routines/gemm_product.h"
#include "cpu/routines/machine.h"
#include "cpu/routines/narrow_product.h"
#include "cpu/routines/prepare.h"
#include "cpu/routines/scaled_runs.h"
#include "program/sum_order.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::cpu {
namespace {

// Numbers of a vector that are read before they are packed.
constexpr int64_t kScaledDepth = program::SumOrder::kBlock;
// Vectors of a panel.
constexpr int64_t kMostScaled =
    program::CodeBounds::kCopies * program::TargetFacts::kLineBytes / sizeof(float);
// Where vectors lie beside each other: how many, and numbers of each.
constexpr int64_t kScaledRow = kScaledDepth, kScaledRows = program::SumOrder::kRun;

// Runs of other vectors are asked for in time: they are too short for a processor's prefetcher.
void AskFor(const ScaledNumbers& s, int64_t vector, int64_t k0, int64_t n) {
  int64_t bits = s.packed ? BitWidth(s.dtype) : 8 * ByteWidth(s.dtype);
  const std::byte* from = s.data + (s.first + vector * s.vector_stride + k0) * bits / 8;
  for (int64_t at = 0; at < n * bits / 8; at += program::TargetFacts::kLineBytes) {
    __builtin_prefetch(from + at);
  }
}

// Panels from numbers that were read as they are wanted: pack(vectors, from, vector stride,
// k stride, first vector, first number, count of numbers). Runs along k of all vectors of a panel,
// or rows of many vectors.
template <class T, class PackPart>
void ForReadParts(const ScaledNumbers& numbers, int64_t first, int64_t count, int64_t k0,
                  int64_t kn, int64_t width, const PackPart& pack) {
  alignas(64) T room[std::max(kMostScaled * kScaledDepth, kScaledRow * kScaledRows)];
  CHECK(width <= kMostScaled);
  if (numbers.k_stride == 1) {
    for (int64_t at = 0; at < count; at += width) {
      int64_t vectors = std::min(width, count - at);
      for (int64_t p = 0; p < kn; p += kScaledDepth) {
        int64_t n = std::min(kScaledDepth, kn - p);
        for (int64_t i = 0; i < vectors; ++i) {
          AskFor(numbers, first + at + i + program::TargetFacts::kLinesAhead, k0 + p, n);
          ReadAlong<T>(numbers, first + at + i, k0 + p, n, room + i * kScaledDepth);
        }
        pack(vectors, room, kScaledDepth, 1, at, p, n);
      }
    }
    return;
  }
  int64_t most = kScaledRow / width * width;
  for (int64_t at = 0; at < count; at += most) {
    int64_t vectors = std::min(most, count - at);
    for (int64_t p = 0; p < kn; p += kScaledRows) {
      int64_t n = std::min(kScaledRows, kn - p);
      ReadAcross<T>(numbers, first + at, vectors, k0 + p, n, room, kScaledRow);
      pack(vectors, room, 1, kScaledRow, at, p, n);
    }
  }
}

// Panels of words of four bf16, as arm64's instructions take them.
void PackScaledWords(const ScaledNumbers& s, int64_t first, int64_t count, int64_t k0, int64_t kn,
                     int64_t width, int64_t panel, std::byte* out) {
  constexpr int64_t kAhead = 2 * program::TargetFacts::kLinesAhead;  // vectors
  int64_t words = (kn * int64_t{sizeof(Bf16Bits)} + 7) / 8;
  for (int64_t at = 0; at < count; at += width, out += panel) {
    auto* to = reinterpret_cast<uint64_t*>(out);
    for (int64_t i = 0; i < width; ++i) {
      if (at + i < count) {
        AskFor(s, first + at + i + kAhead, k0, kn);
        ReadWords(s, first + at + i, k0, kn, to + i, width);
        continue;
      }
      for (int64_t word = 0; word < words; ++word) to[word * width + i] = 0;
    }
  }
}

// By a micro-kernel for bf16.
class ScaledBf16Product : public NarrowPanelProduct<float> {
 public:
  ScaledBf16Product(const NarrowKernel& kernel, const ScaledNumbers& a, const ScaledNumbers& b)
      : NarrowPanelProduct<float>(kernel), a_(a), b_(b) {}

  void Pack(bool is_left, int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t panel,
            std::byte* out) const override {
    const ScaledNumbers& s = is_left ? a_ : b_;
    auto pack = [&](const NarrowSource& from, int64_t at, int64_t vectors, int64_t p0, int64_t n,
                    std::byte* to) {
      PackNarrow(kernel_, is_left, from, DType::kBF16, at, vectors, p0, n, panel, to);
    };
    if (s.dtype == DType::kBF16 && s.scales == nullptr) {
      const std::byte* data = s.data + s.first * ByteWidth(s.dtype);
      return pack({s.dtype, data, s.vector_stride, s.k_stride}, first, count, k0, kn, out);
    }
    int64_t width = is_left ? kernel_.rows : kernel_.cols;
    int64_t word = (is_left ? kernel_.a_group : kernel_.b_group) * kernel_.element_bytes();
    if (s.k_stride == 1 && word == int64_t{sizeof(uint64_t)} && kernel_.step * 2 == word) {
      return PackScaledWords(s, first, count, k0, kn, width, panel, out);
    }
    ForReadParts<Bf16Bits>(
        s, first, count, k0, kn, width,
        [&](int64_t vectors, const Bf16Bits* from, int64_t vector_stride, int64_t k_stride,
            int64_t at, int64_t p, int64_t n) {
          pack({DType::kBF16, reinterpret_cast<const std::byte*>(from), vector_stride, k_stride}, 0,
               vectors, 0, n, out + at / width * panel + p * width * kernel_.element_bytes());
        });
  }

 private:
  const ScaledNumbers &a_, &b_;
};

// As f32.
class ScaledPanels : public PanelSource<float> {
 public:
  explicit ScaledPanels(const ScaledNumbers& numbers, DType operands)
      : numbers_(numbers), rounds_(operands == DType::kBF16) {}

  void Pack(int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width,
            float* out) const override {
    PackMany(first, count, k0, kn, width, 0, out);
  }
  void PackMany(int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width, int64_t panel,
                float* out) const override {
    rounds_ ? PackAs<Bf16Bits>(DType::kBF16, first, count, k0, kn, width, panel, out)
            : PackAs<float>(DType::kF32, first, count, k0, kn, width, panel, out);
  }

 private:
  template <class T>
  void PackAs(DType type, int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width,
              int64_t panel, float* out) const {
    ForReadParts<T>(numbers_, first, count, k0, kn, width,
                    [&](int64_t vectors, const T* from, int64_t vector_stride, int64_t k_stride,
                        int64_t at, int64_t p, int64_t n) {
                      StridedPanels<float>(type, reinterpret_cast<const std::byte*>(from),
                                           vector_stride, k_stride)
                          .PackMany(0, vectors, 0, n, width, panel,
                                    out + at / width * panel + p * width);
                    });
  }

  const ScaledNumbers& numbers_;
  bool rounds_;
};

// Rows of a, which lie in f32 without scales, by columns whose numbers are consecutive: dot
// products with some columns at a time, as they were read. c: f32, rows n apart.
void MultiplyScaledDots(const Means& means, const ProductSizes& s, const ScaledNumbers& a,
                        const ScaledNumbers& b, float* c) {
  const TileKernel<float>& kernel = *FindTileKernel<float>(INT64_MAX);
  const float* left = reinterpret_cast<const float*>(a.data) + a.first;
  double cost = static_cast<double>(s.k * kDotRows) / 4;
  const bool once = s.m == 1 && TakesDots(b, s.k);  // each number is wanted once
  ForPieces(means.pool, CeilDivide(s.n, kDotRows), cost, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin * kDotRows; once && j < std::min(s.n, end * kDotRows); ++j) {
      c[j] = DotAlong(b, j, s.k, left);
    }
    if (once) return;
    alignas(64) float room[kDotRows * kScaledDepth];
    for (int64_t j = begin * kDotRows; j < std::min(s.n, end * kDotRows); j += kDotRows) {
      int64_t count = std::min(kDotRows, s.n - j);
      for (int64_t p = 0; p < s.k; p += kScaledDepth) {
        int64_t kn = std::min(kScaledDepth, s.k - p);
        for (int64_t i = 0; i < count; ++i) {
          ReadAlong<float>(b, j + i, p, kn, room + i * kScaledDepth);
        }
        for (int64_t i = 0; i < s.m; ++i) {
          kernel.rows_times_vector(count, kn, room, kScaledDepth, left + i * s.k + p,
                                   c + i * s.n + j, 1, 1.0F, p == 0 ? 0.0F : 1.0F);
        }
      }
    }
  });
}

class ScaledGemm : public PreparedRoutine {
 public:
  ScaledGemm(const program::ScaledGemmForm& form, const RoutineInputs& inputs)
      : form_(form), c_(UseDType(inputs, 4)) {
    for (size_t side : {0, 1}) {
      types_[side] = UseDType(inputs, side);
      scale_types_[side] = UseDType(inputs, side + 2);
      auto buffer = static_cast<size_t>(inputs.step.uses[side].slice.buffer);
      packed_[side] = inputs.program.buffers[buffer].packed;
    }
  }

  Status Run(const RoutineContext& context) const override {
    if (form_.m == 0 || form_.n == 0) return {};
    Means means = context.means();
    for (int64_t i = 0; i < form_.batch; ++i) {
      ScaledNumbers a = Side(context, true, i), b = Side(context, false, i);
      ResultMatrix result = {c_, context.memory[4] + i * form_.m * form_.n * ByteWidth(c_),
                             form_.n};
      if (IsPlain() && HasScaleOne(a) && HasScaleOne(b)) {
        TRY(MultiplyOne<float>(means, PlainProduct(a, b, result.data), {}));
      } else if (Streams()) {
        OneProduct product = PlainProduct(a, b, result.data);
        product.scaled_b = &b;
        TRY(MultiplyStream<float>(means, product));
      } else if (TakesColumnDots()) {
        MultiplyScaledDots(means, Sizes(), a, b, reinterpret_cast<float*>(result.data));
      } else if (const NarrowKernel* kernel = Kernel()) {
        ScaledBf16Product product(*kernel, a, b);
        TRY(MultiplyPacked<float>(means, Sizes(), product, result, 1, 0));
      } else {
        ScaledPanels left(a, form_.operands), right(b, form_.operands);
        TRY(Multiply<float>(means, Sizes(), left, right, result, 1, 0));
      }
    }
    return {};
  }

  int64_t ScratchBytes(int64_t threads) const override {
    if (const NarrowKernel* kernel = Kernel()) {
      return PackedScratch<float>(NarrowForm(*kernel), Sizes(), threads);
    }
    int64_t plain = IsPlain() ? ScratchOfOne<float>(PlainProduct({}, {}, nullptr), threads) : 0;
    static constexpr ScaledNumbers kSome = {};
    OneProduct streamed = PlainProduct({}, {}, nullptr);
    streamed.scaled_b = &kSome;
    int64_t stream = Streams() ? StreamScratch<float>(streamed) : 0;
    VLOG("cpu", 3) << "scaled product of " << form_.m << " x " << form_.n << " x " << form_.k
                   << ": "
                   << (Streams()           ? "rows are scaled as they are read"
                       : TakesColumnDots() ? "dot products by columns as they are read"
                                           : "packed")
                   << (IsPlain() ? ", plain where all scales are 1" : "");
    return std::max({plain, stream, MultiplyScratch<float>(Sizes(), threads)});
  }

 private:
  // Null: there is none for bf16, or f32 is asked for.
  const NarrowKernel* Kernel() const {
    bool narrow = form_.operands == DType::kBF16;
    return narrow ? FindNarrowKernel(DType::kBF16, DType::kBF16) : nullptr;
  }
  // Whether gemm takes the numbers as they are, where they have no scales: it has ways for few rows
  // and for rows that are consecutive.
  bool IsPlain() const {
    auto takes = [this](size_t side) {
      DType type = types_[side];
      bool rounds = type == DType::kF32 && form_.operands == DType::kBF16;
      bool known =
          type == DType::kF32 || type == DType::kBF16 || type == DType::kS8 || type == DType::kU8;
      return known && !rounds && !packed_[side];
    };
    // Kernels for two integers make integers.
    bool any_float = IsFloat(types_[0]) || IsFloat(types_[1]);
    return Kernel() == nullptr && any_float && takes(0) && takes(1);
  }
  // Few rows of f32 by rows of scaled numbers, which are read once, as they lie: packing them would
  // take longer than the product.
  bool Streams() const {
    bool plain_left = types_[0] == DType::kF32 && !form_.a.has_scale;
    return plain_left && form_.operands == DType::kF32 && BitWidth(types_[1]) <= 8 &&
           form_.b.k_first && form_.m <= kStreamRows && form_.n >= kStreamRows;
  }
  // The same by columns whose numbers are consecutive.
  bool TakesColumnDots() const {
    bool plain_left = types_[0] == DType::kF32 && !form_.a.has_scale;
    return plain_left && form_.operands == DType::kF32 && c_ == DType::kF32 &&
           BitWidth(types_[1]) <= 8 && !form_.b.k_first && (!form_.a.k_first || form_.m == 1) &&
           form_.m <= kDotSquare && form_.k > 0;
  }
  OneProduct PlainProduct(const ScaledNumbers& a, const ScaledNumbers& b, std::byte* c) const {
    auto at = [](const ScaledNumbers& s) {
      return s.data == nullptr ? nullptr : s.data + s.first * ByteWidth(s.dtype);
    };
    auto strides = [&](const program::ScaledSide& side, int64_t vectors) {
      return side.k_first ? OperandStrides{1, vectors} : OperandStrides{form_.k, 1};
    };
    OperandStrides bs = strides(form_.b, form_.n);
    return {form_.m,          form_.n,   form_.k,   at(a), at(b), c, strides(form_.a, form_.m),
            {bs.col, bs.row}, types_[0], types_[1], c_,    1,     0};
  }
  // None, or one for all numbers, which is 1.
  static bool HasScaleOne(const ScaledNumbers& s) {
    if (s.scales == nullptr) return true;
    float scale = 0;
    if (s.is_one_block) LoadRun<float>(s.scale_type, s.scales, 1, &scale);
    return scale == 1;
  }

  ProductSizes Sizes() const { return {form_.m, form_.n, form_.k, false, !form_.b.k_first}; }

  // Matrix i of the batch.
  ScaledNumbers Side(const RoutineContext& context, bool is_left, int64_t i) const {
    size_t number = is_left ? 0 : 1;
    const program::ScaledSide& side = is_left ? form_.a : form_.b;
    int64_t vectors = is_left ? form_.m : form_.n, k = form_.k;
    ScaledNumbers s = {.dtype = types_[number],
                       .packed = packed_[number],
                       .data = context.memory[number],
                       .first = i * vectors * k,
                       .vector_stride = side.k_first ? 1 : k,
                       .k_stride = side.k_first ? vectors : 1};
    if (!side.has_scale) return s;
    int64_t scale_vectors = vectors / side.vector_block, blocks = k / side.k_block;
    s.scale_type = scale_types_[number];
    s.scales = context.memory[number + 2] +
               i / side.batch_block * scale_vectors * blocks * ByteWidth(s.scale_type);
    s.scale_vector_stride = side.k_first ? 1 : blocks;
    s.scale_k_stride = side.k_first ? scale_vectors : 1;
    s.vector_block = side.vector_block;
    s.k_block = side.k_block;
    s.is_one_block = scale_vectors == 1 && blocks == 1;
    return s;
  }

  program::ScaledGemmForm form_;
  DType c_;
  DType types_[2], scale_types_[2];
  bool packed_[2];
};

}  // namespace

Result<std::unique_ptr<PreparedRoutine>> PrepareScaledGemm(const RoutineInputs& inputs) {
  TRY(VerifyCall(inputs, "scaled_gemm"));
  const auto& call = std::get<program::LibraryStep>(inputs.step.op);
  return std::make_unique<ScaledGemm>(program::ScaledGemmFormOf(call), inputs);
}

}  // namespace weft::cpu
