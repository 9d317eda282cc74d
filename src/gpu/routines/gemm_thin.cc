// gemm of a few rows with matrices that do not lie one behind the other, by kernels of ours:
// libraries want a call for each of the fewer of two levels of the batch.
#include <algorithm>
#include <bit>

#include "base/str.h"
#include "gpu/library_text.h"
#include "gpu/routines/gemm.h"
#include "gpu/routines/kernels.h"
#include "gpu/routines/ways.h"
#include "program/target_facts.h"

namespace weft::gpu {
namespace {

constexpr int64_t kTogether = program::TargetFacts::kAccessBytes;
constexpr int64_t kEight = kTogether / 2;  // 16-bit elements that a thread reads at once
constexpr int64_t kWarp = program::TargetFacts::kWarpThreads;  // and so many threads a row at most
// Of the small operand: as many f32 sums each as elements are read, in a quarter of the registers.
constexpr int64_t kMostRows = program::TargetFacts::kThreadRegisterBytes / 4 / 4 / kEight;
constexpr int64_t kDotsABlock = 128;  // columns
constexpr int64_t kLeastChunk = 256;  // rows that a block adds up at least
constexpr int64_t kBlocksACore = 8;   // where there are more of them

// As kernels/gemm_thin.cu declares them.
struct ThinBatch {
  int64_t inner_count, inner, outer;
};
struct ThinSizes {
  int64_t n, k, chunk, chunks;
  int64_t small_row, small_column, large_row, c_row, c_column;
  double alpha;
  ThinBatch small_batch, large_batch, c_batch;
};

// An operand as rows along the result (of m or n) and columns along k, or the other way round.
struct ThinOperand {
  size_t use;
  int64_t count;  // m or n
  bool k_inside;  // elements along k are neighbours
  int64_t row;    // from one row in memory to the next
  ThinBatch batch;
};

ThinOperand OperandOf(const GemmForm& f, size_t use) {
  const auto& view = use == 0 ? f.a_view : f.b_view;
  const int64_t count = use == 0 ? f.m : f.n;
  const bool k_inside = use == 0 ? !f.trans_a : f.trans_b;
  return {use, count, k_inside,
          view       ? view->row
          : k_inside ? f.k
                     : count,
          view ? ThinBatch{view->inner_count, view->inner, view->outer}
               : ThinBatch{f.batch, count * f.k, 0}};
}

bool IsThinType(DType type) {
  return type == DType::kBF16 || type == DType::kF16 || type == DType::kF32;
}

class ThinGemm : public PreparedRoutine {
 public:
  Status Prepare(const RoutineInputs& inputs);
  bool capturable() const override { return true; }
  int64_t scratch_bytes() const override { return scratch_.bytes(); }
  Status Enqueue(const RoutineCall& call) const override {
    std::byte *small = call.memory[small_], *large = call.memory[1 - small_], *c = call.memory[2];
    std::byte* partial = call.scratch;
    if (dots_) return LaunchWith(call, kernel_, blocks_, kRoutineThreads, small, large, c, sizes_);
    TRY(LaunchWith(call, kernel_, blocks_, kRoutineThreads, small, large, c, partial, sizes_));
    if (sizes_.chunks == 1) return {};
    return LaunchWith(call, join_, BlocksFor(batch_ * rows_ * sizes_.n), kRoutineThreads, partial,
                      c, batch_, sizes_);
  }

 private:
  Status Take(const RoutineInputs& inputs, const GemmForm& form);
  Status MakeKernels(const RoutineInputs& inputs);
  // Columns of the large operand that a block of sums has; 0: they do not divide.
  int64_t Columns() const {
    constexpr int64_t kMost = 128;
    if (sizes_.n % kMost == 0) return kMost;
    return sizes_.n >= kEight && sizes_.n < kMost && std::has_single_bit(uint64_t(sizes_.n))
               ? sizes_.n
               : 0;
  }

  size_t small_ = 0;
  int64_t rows_ = 0, batch_ = 0, blocks_ = 0;
  bool dots_ = false;
  ThinSizes sizes_ = {};
  RoutineKernel kernel_, join_;
  ScratchPlan scratch_;
};

Status ThinGemm::Take(const RoutineInputs& inputs, const GemmForm& f) {
  const bool few_in_a = f.m <= f.n;
  const ThinOperand small = OperandOf(f, few_in_a ? 0 : 1), large = OperandOf(f, few_in_a ? 1 : 0);
  const DType type = inputs.type(large.use);
  dots_ = large.k_inside;
  small_ = small.use, rows_ = small.count, batch_ = f.batch;
  sizes_ = {.n = large.count,
            .k = f.k,
            .chunk = f.k,
            .chunks = 1,
            .small_row = small.k_inside ? small.row : 1,
            .small_column = small.k_inside ? 1 : small.row,
            .large_row = large.row,
            .c_row = few_in_a ? f.n : 1,
            .c_column = few_in_a ? 1 : f.n,
            .alpha = f.alpha,
            .small_batch = small.batch,
            .large_batch = large.batch,
            .c_batch = {f.batch, f.m * f.n, 0}};
  if (rows_ > kMostRows || f.beta != 0 || !IsThinType(type) || inputs.type(small_) != type ||
      !IsThinType(inputs.type(2))) {
    return Unimplemented("no few rows of a type that it takes");
  }
  auto lies_well = [&](const ThinOperand& x) {
    const int64_t width = ByteWidth(inputs.type(x.use));
    return inputs.alignment(x.use) >= kTogether && x.row * width % kTogether == 0 &&
           x.batch.inner * width % kTogether == 0 && x.batch.outer * width % kTogether == 0;
  };
  const bool fits = dots_ ? small.k_inside && f.k >= kEight && f.k <= kEight * kWarp &&
                                std::has_single_bit(uint64_t(f.k)) && lies_well(small)
                          : Columns() > 0;
  if (!fits || !lies_well(large)) return Unimplemented("rows that are not read 16 bytes at a time");
  return {};
}

Status ThinGemm::MakeKernels(const RoutineInputs& inputs) {
  const std::string types = StrCat("<S, L, C, ", rows_, ", ");
  const std::string text = StrCat(
      kGemmText, kGemmThinText, ElementText("S", inputs.type(small_), "f32"),
      ElementText("L", inputs.type(1 - small_), "f32"), ElementText("C", inputs.type(2)),
      "extern \"C\" __global__ void __launch_bounds__(256) thin(const S::Storage* small, const "
      "L::Storage* large, C::Storage* c, ",
      dots_ ? StrCat("ThinSizes s) {\n  ThinDots", types, sizes_.k / kEight, ", ", kDotsABlock,
                     ">(small, large, c, s);\n}\n")
            : StrCat("f32* partial, ThinSizes s) {\n  ThinSums", types, Columns(),
                     ">(small, large, c, partial, s);\n}\nextern \"C\" __global__ void join(const "
                     "f32* partial, C::Storage* c, s64 batch, ThinSizes s) {\n  ThinJoin<C, ",
                     rows_, ">(partial, c, batch, s);\n}\n"));
  kernel_ = TRY(MakeKernel(inputs, text, "thin"));
  if (!dots_) join_ = TRY(MakeKernel(inputs, text, "join"));
  return {};
}

Status ThinGemm::Prepare(const RoutineInputs& inputs) {
  TRY(Take(inputs, GemmFormOf(inputs.call())));
  if (dots_) {
    blocks_ = batch_ * BlocksFor(sizes_.n, kDotsABlock);
  } else {
    const int64_t tiles = batch_ * (sizes_.n / Columns());
    const int64_t all = std::max<int64_t>(1, kBlocksACore * inputs.core.target.cores / tiles);
    sizes_.chunk = std::max(kLeastChunk, BlocksFor(sizes_.k, all));
    sizes_.chunks = BlocksFor(sizes_.k, sizes_.chunk);
    blocks_ = tiles * sizes_.chunks;
    if (sizes_.chunks > 1) scratch_.Add(batch_ * sizes_.chunks * rows_ * sizes_.n * 4);
  }
  return MakeKernels(inputs);
}

}  // namespace

Result<PreparedPtr> PrepareThinGemm(const RoutineInputs& inputs) {
  const GemmForm form = GemmFormOf(inputs.call());
  if (form.empty()) return NothingToDo();
  if (form.k == 0 || !(form.a_view || form.b_view)) {
    return Unimplemented("matrices that lie one behind the other");
  }
  auto gemm = std::make_unique<ThinGemm>();
  TRY(gemm->Prepare(inputs));
  return gemm;
}

}  // namespace weft::gpu
