// cholesky, triangular_solve, lu, householder_qr and householder_product by kernels of a block a
// matrix.
#include <algorithm>

#include "base/str.h"
#include "gpu/library_text.h"
#include "gpu/routines/gemm.h"
#include "gpu/routines/kernels.h"
#include "gpu/routines/ways.h"
#include "program/library.h"

namespace weft::gpu {
namespace {

// As kernels/linalg.cu declares it.
struct SolveForm {
  int64_t order, columns, a_row, a_column, x_row, x_column;
  int64_t lower, conjugate, unit_diagonal;
};
constexpr int64_t kSolveColumns = 32;

// A kernel of the addresses of all uses, work memory and some numbers.
class MatrixRoutine : public PreparedRoutine {
 public:
  MatrixRoutine(RoutineKernel kernel, int64_t blocks, int64_t work_bytes,
                std::vector<int64_t> numbers)
      : kernel_(std::move(kernel)),
        blocks_(blocks),
        work_bytes_(work_bytes),
        numbers_(std::move(numbers)) {}
  int64_t scratch_bytes() const override { return work_bytes_; }
  Status Enqueue(const RoutineCall& call) const override {
    std::vector<std::byte*> pointers(call.memory.begin(), call.memory.end());
    pointers.push_back(call.scratch);
    // One struct of pointers, one of numbers.
    std::vector<int64_t> numbers = numbers_;
    return LaunchRoutine(call, kernel_, blocks_, kRoutineThreads,
                         {pointers.data(), numbers.data()});
  }

 private:
  RoutineKernel kernel_;
  int64_t blocks_, work_bytes_;
  std::vector<int64_t> numbers_;
};

struct MatrixKernel {
  std::string_view pointers;  // fields of a struct
  std::string_view call;      // of p and s
  std::vector<int64_t> numbers;
  int64_t blocks, work;  // in elements
};

Result<PreparedPtr> PrepareMatrix(const RoutineInputs& inputs, const MatrixKernel& k) {
  DType dtype = inputs.type(0);
  std::string text = StrCat(kLinalgText, ElementText("E", dtype), "struct Pointers {\n", k.pointers,
                            "  E::Value* work;\n};\nstruct Sizes {\n  s64 s[", k.numbers.size(),
                            "];\n};\nextern \"C\" __global__ void __launch_bounds__(256) "
                            "matrix(Pointers p, Sizes sizes) {\n  const s64* s = sizes.s;\n  ",
                            k.call, ";\n}\n");
  RoutineKernel kernel = TRY(MakeKernel(inputs, text, "matrix"));
  int64_t width = std::max<int64_t>(ByteWidth(dtype), 4);
  return std::make_unique<MatrixRoutine>(std::move(kernel), k.blocks, k.work * width, k.numbers);
}

struct MatrixSizes {
  int64_t m, n, batch;
};
MatrixSizes MatrixSizesOf(const RoutineInputs& inputs) {
  return {IntAttr(inputs.call(), "m", 0), IntAttr(inputs.call(), "n", 0),
          IntAttr(inputs.call(), "batch", 1)};
}

}  // namespace

Result<PreparedPtr> PrepareCholeskyKernel(const RoutineInputs& inputs) {
  int64_t n = MatrixSizesOf(inputs).n, batch = MatrixSizesOf(inputs).batch;
  if (n * batch == 0) return NothingToDo();
  return PrepareMatrix(inputs, {"  const E::Storage* a;\n  E::Storage* out;\n",
                                "Cholesky<E>(p.a, p.out, p.work, s[0], s[1] != 0)",
                                {n, BoolAttr(inputs.call(), "lower", true)},
                                batch,
                                batch * n * n});
}

Result<PreparedPtr> PrepareLuKernel(const RoutineInputs& inputs) {
  auto [m, n, batch] = MatrixSizesOf(inputs);
  if (batch == 0) return NothingToDo();
  return PrepareMatrix(inputs,
                       {"  const E::Storage* a;\n  E::Storage* out;\n  s32 *pivots, *info;\n",
                        "Lu<E>(p.a, p.out, p.pivots, p.info, p.work, s[0], s[1])",
                        {m, n},
                        batch,
                        batch * m * n});
}

Result<PreparedPtr> PrepareTriangularSolveKernel(const RoutineInputs& inputs) {
  auto [m, n, batch] = MatrixSizesOf(inputs);
  if (m * n * batch == 0) return NothingToDo();
  const program::LibraryStep& call = inputs.call();
  bool left = BoolAttr(call, "left_side", true), lower = BoolAttr(call, "lower", true);
  bool transpose = BoolAttr(call, "transpose", false);
  int64_t order = left ? m : n, columns = left ? n : m;
  // x a = b is a^T x^T = b^T.
  bool swapped = transpose != !left;
  SolveForm f = {order,
                 columns,
                 swapped ? 1 : order,
                 swapped ? order : 1,
                 left ? n : 1,
                 left ? 1 : n,
                 lower != swapped,
                 BoolAttr(call, "conjugate", false),
                 BoolAttr(call, "unit_diagonal", false)};
  return PrepareMatrix(
      inputs, {"  const E::Storage *a, *b;\n  E::Storage* x;\n",
               "SolveForm f = {s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8]};\n  "
               "TriangularSolve<E>(p.a, p.b, p.x, p.work, f)",
               {f.order, f.columns, f.a_row, f.a_column, f.x_row, f.x_column, f.lower, f.conjugate,
                f.unit_diagonal},
               batch * BlocksFor(columns, kSolveColumns),
               batch * m * n});
}

Result<PreparedPtr> PrepareHouseholderQrKernel(const RoutineInputs& inputs) {
  auto [m, n, batch] = MatrixSizesOf(inputs);
  if (m * n * batch == 0) return NothingToDo();
  return PrepareMatrix(inputs, {"  const E::Storage* a;\n  E::Storage *out, *taus;\n",
                                "HouseholderQr<E>(p.a, p.out, p.taus, p.work, s[0], s[1])",
                                {m, n},
                                batch,
                                batch * m * n});
}

Result<PreparedPtr> PrepareHouseholderProductKernel(const RoutineInputs& inputs) {
  auto [m, n, batch] = MatrixSizesOf(inputs);
  if (m * n * batch == 0) return NothingToDo();
  return PrepareMatrix(inputs,
                       {"  const E::Storage *a, *taus;\n  E::Storage* out;\n",
                        "HouseholderProduct<E>(p.a, p.taus, p.out, p.work, s[0], s[1], s[2])",
                        {m, n, IntAttr(inputs.call(), "k", std::min(m, n))},
                        batch,
                        2 * batch * m * n});
}

}  // namespace weft::gpu
