// cuSOLVER's dense factorisations and cuBLAS' triangular systems, loaded when they are found.
// Handles are pointers, codes ints; matrices are column-major.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/error.h"
#include "base/mutex.h"
#include "gpu/libraries/dynamic_library.h"

namespace weft::gpu {

// The same for the four types of numbers, S D C Z.
#define WEFT_REFLECTIONS(F, letter, name)                                                        \
  F(cusolverDn##letter##name##_bufferSize, letter##ProductBytes,                                 \
    (void* handle, int m, int n, int k, const void* a, int leading, const void* tau, int* work)) \
  F(cusolverDn##letter##name, letter##Product,                                                   \
    (void* handle, int m, int n, int k, void* a, int leading, const void* tau, void* work,       \
     int work_elements, int* info))

#define WEFT_CUSOLVER_FUNCTIONS(F)                                                               \
  F(cusolverDnCreate, Create, (void** handle))                                                   \
  F(cusolverDnDestroy, Destroy, (void* handle))                                                  \
  F(cusolverDnSetStream, SetStream, (void* handle, void* stream))                                \
  F(cusolverDnCreateParams, CreateParams, (void** params))                                       \
  F(cusolverDnDestroyParams, DestroyParams, (void* params))                                      \
  F(cusolverDnXpotrf_bufferSize, CholeskyBytes,                                                  \
    (void* handle, void* params, int upper, int64_t n, int type, const void* a, int64_t leading, \
     int compute, size_t* device, size_t* host))                                                 \
  F(cusolverDnXpotrf, Cholesky,                                                                  \
    (void* handle, void* params, int upper, int64_t n, int type, void* a, int64_t leading,       \
     int compute, void* device, size_t device_bytes, void* host, size_t host_bytes, int* info))  \
  F(cusolverDnXgetrf_bufferSize, LuBytes,                                                        \
    (void* handle, void* params, int64_t m, int64_t n, int type, const void* a, int64_t leading, \
     int compute, size_t* device, size_t* host))                                                 \
  F(cusolverDnXgetrf, Lu,                                                                        \
    (void* handle, void* params, int64_t m, int64_t n, int type, void* a, int64_t leading,       \
     int64_t* pivots, int compute, void* device, size_t device_bytes, void* host,                \
     size_t host_bytes, int* info))                                                              \
  F(cusolverDnXgeqrf_bufferSize, QrBytes,                                                        \
    (void* handle, void* params, int64_t m, int64_t n, int type, const void* a, int64_t leading, \
     int tau_type, const void* tau, int compute, size_t* device, size_t* host))                  \
  F(cusolverDnXgeqrf, Qr,                                                                        \
    (void* handle, void* params, int64_t m, int64_t n, int type, void* a, int64_t leading,       \
     int tau_type, void* tau, int compute, void* device, size_t device_bytes, void* host,        \
     size_t host_bytes, int* info))                                                              \
  WEFT_REFLECTIONS(F, S, orgqr)                                                                  \
  WEFT_REFLECTIONS(F, D, orgqr)                                                                  \
  WEFT_REFLECTIONS(F, C, ungqr)                                                                  \
  WEFT_REFLECTIONS(F, Z, ungqr)

#define WEFT_TRSM(F, letter)                                                                       \
  F(cublas##letter##trsm_v2, letter##Trsm,                                                         \
    (void* handle, int right, int upper, int transpose, int unit, int m, int n, const void* alpha, \
     const void* a, int a_leading, void* b, int b_leading))

#define WEFT_CUBLAS_FUNCTIONS(F)                                 \
  F(cublasCreate_v2, Create, (void** handle))                    \
  F(cublasDestroy_v2, Destroy, (void* handle))                   \
  F(cublasSetStream_v2, SetStream, (void* handle, void* stream)) \
  WEFT_TRSM(F, S)                                                \
  WEFT_TRSM(F, D)                                                \
  WEFT_TRSM(F, C)                                                \
  WEFT_TRSM(F, Z)

// A handle has one stream at a time: whoever enqueues holds the mutex.
class Cusolver {
 public:
  static Result<std::unique_ptr<Cusolver>> Load(std::span<const std::string> folders);
  ~Cusolver();
  Status Check(int code, std::string_view what) const;

  WEFT_CUSOLVER_FUNCTIONS(WEFT_DECLARE_SYMBOL)
  void *handle = nullptr, *params = nullptr;
  mutable Mutex mutex;

 private:
  Cusolver() = default;
  Status FindAll();
  std::unique_ptr<DynamicLibrary> library_;
};

class Cublas {
 public:
  static Result<std::unique_ptr<Cublas>> Load(std::span<const std::string> folders);
  ~Cublas();
  Status Check(int code, std::string_view what) const;

  WEFT_CUBLAS_FUNCTIONS(WEFT_DECLARE_SYMBOL)
  void* handle = nullptr;
  mutable Mutex mutex;

 private:
  Cublas() = default;
  Status FindAll();
  std::unique_ptr<DynamicLibrary> library_;
};

}  // namespace weft::gpu
