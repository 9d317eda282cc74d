// cuBLASLt, loaded when it is found: matrix products by plans. Handles are pointers, codes ints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/error.h"
#include "gpu/libraries/dynamic_library.h"

namespace weft::gpu {

struct CublasLtAlgorithm {
  uint64_t data[8];
};
struct CublasLtHeuristic {
  CublasLtAlgorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(CublasLtHeuristic) == 96);

#define WEFT_CUBLASLT_FUNCTIONS(F)                                                                \
  F(cublasLtCreate, Create, (void** handle))                                                      \
  F(cublasLtDestroy, Destroy, (void* handle))                                                     \
  F(cublasLtMatmul, Matmul,                                                                       \
    (void* handle, void* operation, const void* alpha, const void* a, void* a_layout,             \
     const void* b, void* b_layout, const void* beta, const void* c, void* c_layout, void* d,     \
     void* d_layout, const CublasLtAlgorithm* algorithm, void* workspace, size_t workspace_bytes, \
     void* stream))                                                                               \
  F(cublasLtMatrixLayoutCreate, LayoutCreate,                                                     \
    (void** layout, int type, uint64_t rows, uint64_t columns, int64_t leading))                  \
  F(cublasLtMatrixLayoutDestroy, LayoutDestroy, (void* layout))                                   \
  F(cublasLtMatrixLayoutSetAttribute, LayoutSet,                                                  \
    (void* layout, int attribute, const void* value, size_t bytes))                               \
  F(cublasLtMatmulDescCreate, OperationCreate, (void** operation, int compute, int scale))        \
  F(cublasLtMatmulDescDestroy, OperationDestroy, (void* operation))                               \
  F(cublasLtMatmulDescSetAttribute, OperationSet,                                                 \
    (void* operation, int attribute, const void* value, size_t bytes))                            \
  F(cublasLtMatmulPreferenceCreate, PreferenceCreate, (void** preference))                        \
  F(cublasLtMatmulPreferenceDestroy, PreferenceDestroy, (void* preference))                       \
  F(cublasLtMatmulPreferenceSetAttribute, PreferenceSet,                                          \
    (void* preference, int attribute, const void* value, size_t bytes))                           \
  F(cublasLtMatmulAlgoGetHeuristic, GetHeuristic,                                                 \
    (void* handle, void* operation, void* a_layout, void* b_layout, void* c_layout,               \
     void* d_layout, void* preference, int wanted, CublasLtHeuristic* results, int* found))

// Numbers of the ABI.
enum CublasLtCompute : int {
  kCublasComputeF32 = 68,
  kCublasComputeF64 = 70,
  kCublasComputeS32 = 72,
  kCublasComputeBf16 = 75,  // f32 operands may be rounded to bf16
  kCublasComputeTf32 = 77,  // f32 operands may be rounded to TF32
};
enum CublasLtAttribute : int {
  kLtLayoutBatchCount = 5,   // s32
  kLtLayoutBatchStride = 6,  // s64, elements
  kLtOperationTransA = 3,    // s32
  kLtOperationTransB = 4,
  kLtOperationEpilogue = 7,           // s32, of kLtEpilogue...
  kLtOperationBiasPointer = 8,        // one number a row of the library's result
  kLtOperationFastAccumulation = 25,  // s8
  kLtPreferenceWorkspace = 1,         // u64
  kLtPreferenceReductions = 3,        // u32, a mask
  kLtPreferenceAlignA = 5,            // u32, bytes
  kLtPreferenceAlignB = 6,
  kLtPreferenceAlignC = 7,
  kLtPreferenceAlignD = 8,
};
enum CublasLtEpilogue : int { kLtEpilogueNone = 1, kLtEpilogueRelu = 2, kLtEpilogueBias = 4 };
// Parts of a sum may be added up in the type that it is computed in, in a fixed order.
inline constexpr uint32_t kLtReduceInComputeType = 2;

// What CUDA's libraries call a type of elements; nothing: they do not have it.
std::optional<int> CudaDataType(DType dtype);

class CublasLt {
 public:
  // For the current context.
  static Result<std::unique_ptr<CublasLt>> Load(std::span<const std::string> folders);
  ~CublasLt();

  void* handle() const { return handle_; }
  Status Check(int code, std::string_view what) const;
  size_t version() const { return version_ == nullptr ? 0 : version_(); }

  WEFT_CUBLASLT_FUNCTIONS(WEFT_DECLARE_SYMBOL)

 private:
  CublasLt() = default;
  Status FindAll();

  std::unique_ptr<DynamicLibrary> library_;
  const char* (*status_name_)(int code) = nullptr;
  size_t (*version_)() = nullptr;
  void* handle_ = nullptr;
};

}  // namespace weft::gpu
