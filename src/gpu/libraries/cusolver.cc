#include "gpu/libraries/cusolver.h"

#include "base/str.h"

namespace weft::gpu {

Status Cusolver::FindAll() {
  WEFT_CUSOLVER_FUNCTIONS(WEFT_FIND_SYMBOL)
  return {};
}

Result<std::unique_ptr<Cusolver>> Cusolver::Load(std::span<const std::string> folders) {
  static constexpr std::string_view kNames[] = {"libcusolver.so.12", "libcusolver.so.11"};
  auto solver = std::unique_ptr<Cusolver>(new Cusolver);
  solver->library_ = TRY(DynamicLibrary::Open(kNames, folders));
  TRY(solver->FindAll());
  TRY(solver->Check(solver->Create(&solver->handle), "create"));
  TRY(solver->Check(solver->CreateParams(&solver->params), "create"));
  return solver;
}

Cusolver::~Cusolver() {
  if (params != nullptr) DestroyParams(params);
  if (handle != nullptr) Destroy(handle);
}

Status Cusolver::Check(int code, std::string_view what) const {
  if (code == 0) return {};
  constexpr std::string_view kCodes[] = {"",
                                         "NOT_INITIALIZED",
                                         "ALLOC_FAILED",
                                         "INVALID_VALUE",
                                         "ARCH_MISMATCH",
                                         "MAPPING_ERROR",
                                         "EXECUTION_FAILED",
                                         "INTERNAL_ERROR",
                                         "MATRIX_TYPE_NOT_SUPPORTED",
                                         "NOT_SUPPORTED"};
  std::string name = code > 0 && code < static_cast<int>(std::size(kCodes))
                         ? StrCat("CUSOLVER_STATUS_", kCodes[code])
                         : StrCat("status ", code);
  return MakeError(Code::kInternal, "cuSOLVER: ", what, ": ", name);
}

Status Cublas::FindAll() {
  WEFT_CUBLAS_FUNCTIONS(WEFT_FIND_SYMBOL)
  return {};
}

Result<std::unique_ptr<Cublas>> Cublas::Load(std::span<const std::string> folders) {
  static constexpr std::string_view kNames[] = {"libcublas.so.13", "libcublas.so.12"};
  auto blas = std::unique_ptr<Cublas>(new Cublas);
  blas->library_ = TRY(DynamicLibrary::Open(kNames, folders));
  TRY(blas->FindAll());
  TRY(blas->Check(blas->Create(&blas->handle), "create"));
  return blas;
}

Cublas::~Cublas() {
  if (handle != nullptr) Destroy(handle);
}

Status Cublas::Check(int code, std::string_view what) const {
  if (code == 0) return {};
  return MakeError(Code::kInternal, "cuBLAS: ", what, ": status ", code);
}

}  // namespace weft::gpu
