// Factorisations of few large matrices by cuSOLVER, triangular systems by cuBLAS. Their matrices
// are column-major: triangles and products are transposed in the mind, others in memory.
#include <algorithm>

#include "base/str.h"
#include "gpu/library_text.h"
#include "gpu/routines/convert.h"
#include "gpu/routines/gemm.h"
#include "gpu/routines/permute.h"
#include "gpu/routines/ways.h"
#include "program/library.h"

namespace weft::gpu {
namespace {

// A block a matrix is faster for small ones, and for many of middling size.
constexpr int64_t kSmallMatrix = 128, kLargeMatrix = 512, kManyMatrices = 32;

Status CheckWorthwhile(const RoutineInputs& inputs, int64_t order, int64_t batch) {
  DType real = RealType(inputs.type(0));
  if (real != DType::kF32 && real != DType::kF64) {
    return Unimplemented("no factors of ", Name(inputs.type(0)));
  }
  if (order <= kSmallMatrix || (order <= kLargeMatrix && batch > kManyMatrices)) {
    return Unimplemented(batch, " matrices of order ", order, " are small");
  }
  if (order > INT32_MAX) return Unimplemented("order ", order);
  return {};
}

// The transpose of each of the batch.
Result<PermuteStep> MakeTranspose(const RoutineInputs& inputs, int64_t batch, int64_t rows,
                                  int64_t columns) {
  int64_t size = rows * columns;
  return MakePermute(inputs, inputs.type(0),
                     {{batch, size, size}, {columns, 1, rows}, {rows, columns, 1}});
}

class SolverRoutine : public PreparedRoutine {
 public:
  explicit SolverRoutine(const RoutineInputs& inputs)
      : solver_(nullptr),
        type_(*CudaDataType(inputs.type(0))),
        width_(ByteWidth(inputs.type(0))),
        m_(IntAttr(inputs.call(), "m", 0)),
        n_(IntAttr(inputs.call(), "n", 0)),
        batch_(IntAttr(inputs.call(), "batch", 1)),
        described_(StrCat(inputs.call().routine, " of ", batch_, " x ", m_, " x ", n_)) {}
  int64_t scratch_bytes() const override { return scratch_.bytes(); }

 protected:
  // What the library says it needs for one matrix.
  Status Reserve(int code, size_t device, size_t host) {
    if (Status status = solver_->Check(code, described_); !status) {
      return Unimplemented(status.error().message());
    }
    device_bytes_ = device;
    work_ = scratch_.Add(static_cast<int64_t>(device));
    host_.resize(host);
    return {};
  }
  Status Check(int code) const { return solver_->Check(code, described_); }

  const Cusolver* solver_;
  const int type_;
  const int64_t width_, m_, n_, batch_;
  const std::string described_;
  ScratchPlan scratch_;
  int64_t work_ = 0;
  size_t device_bytes_ = 0;
  mutable std::vector<std::byte> host_;  // guarded by the solver's mutex
};

class CholeskyBySolver : public SolverRoutine {
 public:
  using SolverRoutine::SolverRoutine;
  Status Prepare(const RoutineInputs& inputs) {
    solver_ = TRY(inputs.libraries.cusolver());
    upper_ = BoolAttr(inputs.call(), "lower", true);  // the transpose of a lower one
    size_t device = 0, host = 0;
    TRY(Reserve(solver_->CholeskyBytes(solver_->handle, solver_->params, upper_, n_, type_, nullptr,
                                       n_, type_, &device, &host),
                device, host));
    info_ = scratch_.Add(batch_ * 4);
    std::string text = StrCat(
        kLinalgText, ElementText("E", inputs.type(0)),
        "extern \"C\" __global__ void finish(E::Storage* w, const s32* info, s64 n, s64 "
        "batch, s64 lower) {\n  if (s64(blockIdx.x) * blockDim.x + threadIdx.x < batch * n * "
        "n) FinishCholesky<E>(w, info, n, lower != 0);\n}\n");
    finish_ = TRY(MakeKernel(inputs, text, "finish"));
    return {};
  }
  Status Enqueue(const RoutineCall& call) const override {
    int64_t bytes = batch_ * n_ * n_ * width_;
    TRY(call.stream.Copy(runtime::CopyKind::kOnDevice, call.memory[1], call.memory[0], bytes));
    std::byte* info = call.scratch + info_;
    {
      MutexLock lock(solver_->mutex);
      TRY(Check(solver_->SetStream(solver_->handle, call.stream.handle())));
      for (int64_t i = 0; i < batch_; ++i) {
        TRY(Check(solver_->Cholesky(solver_->handle, solver_->params, upper_, n_, type_,
                                    call.memory[1] + i * n_ * n_ * width_, n_, type_,
                                    call.scratch + work_, device_bytes_, host_.data(), host_.size(),
                                    reinterpret_cast<int*>(info + i * 4))));
      }
    }
    return LaunchWith(call, finish_, BlocksFor(batch_ * n_ * n_), kRoutineThreads, call.memory[1],
                      info, n_, batch_, int64_t{upper_});
  }

 private:
  bool upper_ = false;
  int64_t info_ = 0;
  RoutineKernel finish_;
};

class LuBySolver : public SolverRoutine {
 public:
  using SolverRoutine::SolverRoutine;
  Status Prepare(const RoutineInputs& inputs) {
    solver_ = TRY(inputs.libraries.cusolver());
    size_t device = 0, host = 0;
    TRY(Reserve(solver_->LuBytes(solver_->handle, solver_->params, m_, n_, type_, nullptr, m_,
                                 type_, &device, &host),
                device, host));
    int64_t pivots = batch_ * std::min(m_, n_);
    matrix_ = scratch_.Add(batch_ * m_ * n_ * width_);
    pivots_ = scratch_.Add(pivots * 8);
    to_columns_ = TRY(MakeTranspose(inputs, batch_, m_, n_));
    to_rows_ = TRY(MakeTranspose(inputs, batch_, n_, m_));
    narrow_ = TRY(MakeConversion(inputs, DType::kS64, DType::kS32, pivots));
    return {};
  }
  Status Enqueue(const RoutineCall& call) const override {
    std::byte *matrix = call.scratch + matrix_, *pivots = call.scratch + pivots_;
    TRY(to_columns_.Enqueue(call, call.memory[0], matrix));
    {
      MutexLock lock(solver_->mutex);
      TRY(Check(solver_->SetStream(solver_->handle, call.stream.handle())));
      for (int64_t i = 0; i < batch_; ++i) {
        TRY(Check(solver_->Lu(solver_->handle, solver_->params, m_, n_, type_,
                              matrix + i * m_ * n_ * width_, m_,
                              reinterpret_cast<int64_t*>(pivots + i * std::min(m_, n_) * 8), type_,
                              call.scratch + work_, device_bytes_, host_.data(), host_.size(),
                              reinterpret_cast<int*>(call.memory[3] + i * 4))));
      }
    }
    TRY(to_rows_.Enqueue(call, matrix, call.memory[1]));
    return narrow_.Enqueue(call, pivots, call.memory[2]);
  }

 private:
  int64_t matrix_ = 0, pivots_ = 0;
  PermuteStep to_columns_, to_rows_;
  Conversion narrow_;
};

class QrBySolver : public SolverRoutine {
 public:
  using SolverRoutine::SolverRoutine;
  Status Prepare(const RoutineInputs& inputs) {
    solver_ = TRY(inputs.libraries.cusolver());
    size_t device = 0, host = 0;
    TRY(Reserve(solver_->QrBytes(solver_->handle, solver_->params, m_, n_, type_, nullptr, m_,
                                 type_, nullptr, type_, &device, &host),
                device, host));
    matrix_ = scratch_.Add(batch_ * m_ * n_ * width_);
    info_ = scratch_.Add(4);
    to_columns_ = TRY(MakeTranspose(inputs, batch_, m_, n_));
    to_rows_ = TRY(MakeTranspose(inputs, batch_, n_, m_));
    return {};
  }
  Status Enqueue(const RoutineCall& call) const override {
    std::byte* matrix = call.scratch + matrix_;
    TRY(to_columns_.Enqueue(call, call.memory[0], matrix));
    {
      MutexLock lock(solver_->mutex);
      TRY(Check(solver_->SetStream(solver_->handle, call.stream.handle())));
      for (int64_t i = 0; i < batch_; ++i) {
        TRY(Check(solver_->Qr(solver_->handle, solver_->params, m_, n_, type_,
                              matrix + i * m_ * n_ * width_, m_, type_,
                              call.memory[2] + i * std::min(m_, n_) * width_, type_,
                              call.scratch + work_, device_bytes_, host_.data(), host_.size(),
                              reinterpret_cast<int*>(call.scratch + info_))));
      }
    }
    return to_rows_.Enqueue(call, matrix, call.memory[1]);
  }

 private:
  int64_t matrix_ = 0, info_ = 0;
  PermuteStep to_columns_, to_rows_;
};

class ReflectionsBySolver : public SolverRoutine {
 public:
  using SolverRoutine::SolverRoutine;
  Status Prepare(const RoutineInputs& inputs) {
    solver_ = TRY(inputs.libraries.cusolver());
    k_ = IntAttr(inputs.call(), "k", std::min(m_, n_));
    if (n_ > m_) return Unimplemented("more columns than rows");
    auto bytes = solver_->SProductBytes;
    run_ = solver_->SProduct;
    if (inputs.type(0) == DType::kF64) bytes = solver_->DProductBytes, run_ = solver_->DProduct;
    if (inputs.type(0) == DType::kC64) bytes = solver_->CProductBytes, run_ = solver_->CProduct;
    if (inputs.type(0) == DType::kC128) bytes = solver_->ZProductBytes, run_ = solver_->ZProduct;
    int code =
        bytes(solver_->handle, int(m_), int(n_), int(k_), nullptr, int(m_), nullptr, &work_n_);
    TRY(Reserve(code, static_cast<size_t>(work_n_) * static_cast<size_t>(width_), 0));
    matrix_ = scratch_.Add(batch_ * m_ * n_ * width_);
    info_ = scratch_.Add(4);
    to_columns_ = TRY(MakeTranspose(inputs, batch_, m_, n_));
    to_rows_ = TRY(MakeTranspose(inputs, batch_, n_, m_));
    return {};
  }
  Status Enqueue(const RoutineCall& call) const override {
    std::byte* matrix = call.scratch + matrix_;
    TRY(to_columns_.Enqueue(call, call.memory[0], matrix));
    {
      MutexLock lock(solver_->mutex);
      TRY(Check(solver_->SetStream(solver_->handle, call.stream.handle())));
      for (int64_t i = 0; i < batch_; ++i) {
        TRY(Check(run_(solver_->handle, int(m_), int(n_), int(k_), matrix + i * m_ * n_ * width_,
                       int(m_), call.memory[1] + i * k_ * width_, call.scratch + work_, work_n_,
                       reinterpret_cast<int*>(call.scratch + info_))));
      }
    }
    return to_rows_.Enqueue(call, matrix, call.memory[2]);
  }

 private:
  decltype(Cusolver::SProduct) run_ = nullptr;
  int64_t k_ = 0, matrix_ = 0, info_ = 0;
  int work_n_ = 0;
  PermuteStep to_columns_, to_rows_;
};

// op(a) x = b of rows is x^T op(a)^T = b^T of columns.
class SolveByCublas : public PreparedRoutine {
 public:
  SolveByCublas(const Cublas& blas, const RoutineInputs& inputs)
      : blas_(blas),
        dtype_(inputs.type(0)),
        m_(IntAttr(inputs.call(), "m", 0)),
        n_(IntAttr(inputs.call(), "n", 0)),
        batch_(IntAttr(inputs.call(), "batch", 1)),
        left_(BoolAttr(inputs.call(), "left_side", true)),
        upper_(BoolAttr(inputs.call(), "lower", true)),  // transposed
        unit_(BoolAttr(inputs.call(), "unit_diagonal", false)) {
    bool conjugate = IsComplex(dtype_) && BoolAttr(inputs.call(), "conjugate", false);
    transpose_ = BoolAttr(inputs.call(), "transpose", false) ? (conjugate ? 2 : 1) : 0;
  }
  Status Enqueue(const RoutineCall& call) const override {
    std::string described = StrCat("triangular_solve of ", batch_, " x ", m_, " x ", n_);
    int64_t width = ByteWidth(dtype_), order = left_ ? m_ : n_;
    TRY(call.stream.Copy(runtime::CopyKind::kOnDevice, call.memory[2], call.memory[1],
                         batch_ * m_ * n_ * width));
    auto trsm = dtype_ == DType::kF32   ? blas_.STrsm
                : dtype_ == DType::kF64 ? blas_.DTrsm
                : dtype_ == DType::kC64 ? blas_.CTrsm
                                        : blas_.ZTrsm;
    const float single[2] = {1, 0};
    const double wide[2] = {1, 0};
    bool is_single = RealType(dtype_) == DType::kF32;
    const void* one = is_single ? static_cast<const void*>(single) : wide;
    MutexLock lock(blas_.mutex);
    TRY(blas_.Check(blas_.SetStream(blas_.handle, call.stream.handle()), described));
    for (int64_t i = 0; i < batch_; ++i) {
      TRY(blas_.Check(trsm(blas_.handle, left_, upper_, transpose_, unit_, int(n_), int(m_), one,
                           call.memory[0] + i * order * order * width, int(order),
                           call.memory[2] + i * m_ * n_ * width, int(n_)),
                      described));
    }
    return {};
  }

 private:
  const Cublas& blas_;
  const DType dtype_;
  const int64_t m_, n_, batch_;
  const bool left_, upper_, unit_;
  int transpose_ = 0;
};

template <class Routine>
Result<PreparedPtr> PrepareSolver(const RoutineInputs& inputs, int64_t order) {
  TRY(CheckWorthwhile(inputs, order, IntAttr(inputs.call(), "batch", 1)));
  auto routine = std::make_unique<Routine>(inputs);
  TRY(routine->Prepare(inputs));
  return routine;
}

int64_t SmallerSide(const RoutineInputs& inputs) {
  return std::min(IntAttr(inputs.call(), "m", 0), IntAttr(inputs.call(), "n", 0));
}

}  // namespace

Result<PreparedPtr> PrepareCholeskySolver(const RoutineInputs& inputs) {
  return PrepareSolver<CholeskyBySolver>(inputs, IntAttr(inputs.call(), "n", 0));
}
Result<PreparedPtr> PrepareLuSolver(const RoutineInputs& inputs) {
  return PrepareSolver<LuBySolver>(inputs, SmallerSide(inputs));
}
Result<PreparedPtr> PrepareHouseholderQrSolver(const RoutineInputs& inputs) {
  return PrepareSolver<QrBySolver>(inputs, SmallerSide(inputs));
}
Result<PreparedPtr> PrepareHouseholderProductSolver(const RoutineInputs& inputs) {
  return PrepareSolver<ReflectionsBySolver>(inputs, SmallerSide(inputs));
}
Result<PreparedPtr> PrepareTriangularSolveCublas(const RoutineInputs& inputs) {
  const program::LibraryStep& call = inputs.call();
  int64_t m = IntAttr(call, "m", 0), n = IntAttr(call, "n", 0);
  TRY(CheckWorthwhile(inputs, BoolAttr(call, "left_side", true) ? m : n,
                      IntAttr(call, "batch", 1)));
  if (std::max(m, n) > INT32_MAX) return Unimplemented(m, " x ", n);
  bool conjugate = IsComplex(inputs.type(0)) && BoolAttr(call, "conjugate", false);
  if (conjugate && !BoolAttr(call, "transpose", false)) {
    return Unimplemented("a conjugate that is not transposed");
  }
  return std::make_unique<SolveByCublas>(*TRY(inputs.libraries.cublas()), inputs);
}

}  // namespace weft::gpu
