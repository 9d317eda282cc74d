// gemm for every type, by a kernel of ours.
#include "base/str.h"
#include "gpu/library_text.h"
#include "gpu/routines/gemm.h"
#include "gpu/routines/kernels.h"
#include "gpu/routines/ways.h"
#include "program/library.h"

namespace weft::gpu {

GemmForm GemmFormOf(const program::LibraryStep& call) {
  return {IntAttr(call, "m", 0),
          IntAttr(call, "n", 0),
          IntAttr(call, "k", 0),
          IntAttr(call, "batch", 1),
          BoolAttr(call, "trans_a", false),
          BoolAttr(call, "trans_b", false),
          DoubleAttr(call, "alpha", 1.0),
          DoubleAttr(call, "beta", 0.0),
          StringAttr(call, "precision", "highest"),
          MatrixViewOf(call, "a_view"),
          MatrixViewOf(call, "b_view")};
}

std::string GemmForm::ToString() const {
  return StrCat(batch > 1 ? StrCat(batch, " of ") : "", m, " x ", n, " x ", k);
}

namespace {

class NoWork : public PreparedRoutine {
 public:
  bool capturable() const override { return true; }
  Status Enqueue(const RoutineCall&) const override { return {}; }
};

// As kernels/gemm.cu declares them.
struct GemmKernelBatch {
  int64_t inner_count, inner, outer;
};
struct GemmKernelSizes {
  int64_t m, n, k;
  int64_t a_row, a_column, b_row, b_column;
  double alpha, beta;
  GemmKernelBatch a_batch, b_batch;
};

GemmKernelBatch BatchOf(const std::optional<MatrixView>& view, int64_t matrix, int64_t batch) {
  if (view) return {view->inner_count, view->inner, view->outer};
  return {batch, matrix, 0};
}

class GemmByKernel : public PreparedRoutine {
 public:
  GemmByKernel(RoutineKernel kernel, const GemmForm& f) : kernel_(std::move(kernel)) {
    // Of a matrix as it lies.
    int64_t a_row = f.a_view ? f.a_view->row : f.trans_a ? f.m : f.k;
    int64_t b_row = f.b_view ? f.b_view->row : f.trans_b ? f.k : f.n;
    sizes_ = {f.m,
              f.n,
              f.k,
              f.trans_a ? 1 : a_row,
              f.trans_a ? a_row : 1,
              f.trans_b ? 1 : b_row,
              f.trans_b ? b_row : 1,
              f.alpha,
              f.beta,
              BatchOf(f.a_view, f.m * f.k, f.batch),
              BatchOf(f.b_view, f.k * f.n, f.batch)};
    constexpr int64_t kTile = 64;  // of kernels/gemm.cu
    blocks_ = f.batch * BlocksFor(f.m, kTile) * BlocksFor(f.n, kTile);
  }
  bool capturable() const override { return true; }
  Status Enqueue(const RoutineCall& call) const override {
    return LaunchWith(call, kernel_, blocks_, kRoutineThreads, call.memory[0], call.memory[1],
                      call.memory[2], sizes_);
  }

 private:
  RoutineKernel kernel_;
  GemmKernelSizes sizes_;
  int64_t blocks_;
};

}  // namespace

PreparedPtr NothingToDo() {
  return std::make_unique<NoWork>();
}

Result<PreparedPtr> PrepareGemmKernel(const RoutineInputs& inputs) {
  GemmForm form = GemmFormOf(inputs.call());
  if (form.empty()) return NothingToDo();
  std::string value = ValueTypeOf(inputs.type(2));
  std::string text =
      StrCat(kGemmText, ElementText("A", inputs.type(0), value),
             ElementText("B", inputs.type(1), value), ElementText("C", inputs.type(2)),
             "extern \"C\" __global__ void __launch_bounds__(256) gemm(const A::Storage* a, const "
             "B::Storage* b, C::Storage* c, GemmSizes s) {\n  Gemm<A, B, C>(a, b, c, s);\n}\n");
  return std::make_unique<GemmByKernel>(TRY(MakeKernel(inputs, text, "gemm")), form);
}

}  // namespace weft::gpu
