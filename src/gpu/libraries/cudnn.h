// cuDNN's graph interface ("backend"), loaded when it is found. Descriptors and handles are
// pointers, codes ints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "base/mutex.h"
#include "gpu/libraries/dynamic_library.h"

namespace weft::gpu {

#define WEFT_CUDNN_FUNCTIONS(F)                                                                  \
  F(cudnnCreate, Create, (void** handle))                                                        \
  F(cudnnDestroy, Destroy, (void* handle))                                                       \
  F(cudnnSetStream, SetStream, (void* handle, void* stream))                                     \
  F(cudnnBackendCreateDescriptor, CreateDescriptor, (int type, void** descriptor))               \
  F(cudnnBackendDestroyDescriptor, DestroyDescriptor, (void* descriptor))                        \
  F(cudnnBackendFinalize, Finalize, (void* descriptor))                                          \
  F(cudnnBackendSetAttribute, SetAttribute,                                                      \
    (void* descriptor, int attribute, int type, int64_t count, const void* elements))            \
  F(cudnnBackendGetAttribute, GetAttribute,                                                      \
    (void* descriptor, int attribute, int type, int64_t wanted, int64_t* count, void* elements)) \
  F(cudnnBackendExecute, Execute, (void* handle, void* plan, void* pack))

// Numbers of the ABI: kinds of descriptors, ...
enum CudnnKind : int {
  kDnnPointwise = 0,
  kDnnConvolution = 1,
  kDnnEngine = 2,
  kDnnEngineConfig = 3,
  kDnnHeuristic = 4,
  kDnnPlan = 5,
  kDnnForward = 10,
  kDnnBackwardFilter = 11,
  kDnnBackwardData = 12,
  kDnnPointwiseOperation = 13,
  kDnnGraph = 15,
  kDnnVariantPack = 16,
  kDnnTensor = 17,
};
// ... types of attributes, ...
enum CudnnType : int {
  kDnnHandle = 0,
  kDnnDataType = 1,
  kDnnBoolean = 2,
  kDnnInt64 = 3,
  kDnnFloat = 4,
  kDnnDouble = 5,
  kDnnPointer = 6,
  kDnnConvolutionMode = 7,
  kDnnHeuristicMode = 8,
  kDnnNanPropagation = 10,
  kDnnNumericalNote = 11,
  kDnnPointwiseMode = 14,
  kDnnDescriptor = 15,
};
// ... and attributes.
enum CudnnAttribute : int {
  kDnnPointwiseModeOf = 0,
  kDnnPointwiseCompute = 1,
  kDnnPointwiseNan = 2,
  kDnnConvolutionCompute = 100,
  kDnnConvolutionConvMode = 101,
  kDnnConvolutionDilations = 102,
  kDnnConvolutionStrides = 103,
  kDnnConvolutionPostPaddings = 104,
  kDnnConvolutionPrePaddings = 105,
  kDnnConvolutionSpatialDims = 106,
  kDnnHeuristicModeOf = 200,
  kDnnHeuristicGraph = 201,
  kDnnHeuristicResults = 202,
  kDnnEngineConfigEngine = 300,
  kDnnPlanHandle = 400,
  kDnnPlanEngineConfig = 401,
  kDnnPlanWorkspace = 402,
  // Of an operation: factors, the convolution, then three tensors; those of the gradients follow.
  kDnnForwardFirst = 700,
  kDnnBackwardDataFirst = 706,
  kDnnBackwardFilterFirst = 712,
  kDnnPointwiseOf = 750,
  kDnnPointwiseX = 751,
  kDnnPointwiseB = 752,
  kDnnPointwiseY = 753,
  kDnnGraphHandle = 800,
  kDnnGraphOperations = 801,
  kDnnTensorAlignment = 900,
  kDnnTensorDataType = 901,
  kDnnTensorDimensions = 902,
  kDnnTensorStrides = 903,
  kDnnTensorId = 906,
  kDnnTensorVirtual = 907,
  kDnnPackIds = 1000,
  kDnnPackPointers = 1001,
  kDnnPackWorkspace = 1003,
  kDnnEngineNumericalNote = 1303,
};
enum CudnnPointwise : int { kDnnAdd = 0, kDnnRelu = 100 };
enum CudnnNote : int {
  kDnnNoteTensorCore = 0,
  kDnnNoteDownConvert = 1,
  kDnnNoteReducedReduction = 2,
  kDnnNoteFft = 3,
  kDnnNoteNondeterministic = 4,
  kDnnNoteWinograd = 5,
  kDnnNoteCount = 10,
};

std::optional<int> CudnnDataType(DType dtype);

class Cudnn {
 public:
  // For the current context.
  static Result<std::unique_ptr<Cudnn>> Load(std::span<const std::string> folders);
  ~Cudnn();

  Status Check(int code, std::string_view what) const;
  void* handle() const { return handle_; }
  size_t version() const { return version_ == nullptr ? 0 : version_(); }
  // In the stream's order. The handle has one stream at a time.
  Status Run(void* plan, void* pack, void* stream, std::string_view what) const;

  WEFT_CUDNN_FUNCTIONS(WEFT_DECLARE_SYMBOL)

 private:
  Cudnn() = default;
  Status FindAll();

  std::unique_ptr<DynamicLibrary> library_;
  const char* (*error_string_)(int code) = nullptr;
  size_t (*version_)() = nullptr;
  void* handle_ = nullptr;
  mutable Mutex mutex_;
};

// A descriptor of the graph interface, set up attribute by attribute. The first failure sticks.
class CudnnObject {
 public:
  CudnnObject() = default;
  CudnnObject(const Cudnn& dnn, int kind) : dnn_(&dnn) {
    Note(dnn.CreateDescriptor(kind, &descriptor_));
  }
  ~CudnnObject() {
    if (descriptor_ != nullptr) dnn_->DestroyDescriptor(descriptor_);
  }
  CudnnObject(CudnnObject&& other) noexcept { *this = std::move(other); }
  CudnnObject& operator=(CudnnObject&& other) noexcept {
    std::swap(dnn_, other.dnn_);
    std::swap(descriptor_, other.descriptor_);
    std::swap(code_, other.code_);
    return *this;
  }

  void* get() const { return descriptor_; }
  template <class T>
  CudnnObject& Set(int attribute, int type, const T& value) {
    return SetMany(attribute, type, 1, &value);
  }
  CudnnObject& Set(int attribute, const CudnnObject& object) {
    void* other = object.get();
    return SetMany(attribute, kDnnDescriptor, 1, &other);
  }
  CudnnObject& Set(int attribute, const std::vector<int64_t>& values) {
    return SetMany(attribute, kDnnInt64, std::ssize(values), values.data());
  }
  CudnnObject& SetMany(int attribute, int type, int64_t count, const void* values) {
    if (code_ == 0) Note(dnn_->SetAttribute(descriptor_, attribute, type, count, values));
    return *this;
  }
  Status Finish(std::string_view what) {
    if (code_ == 0) Note(dnn_->Finalize(descriptor_));
    return dnn_->Check(code_, what);
  }

 private:
  void Note(int code) {
    if (code_ == 0) code_ = code;
  }
  const Cudnn* dnn_ = nullptr;
  void* descriptor_ = nullptr;
  int code_ = 0;
};

enum CudnnHeuristicMode : int { kDnnHeuristicFallback = 2, kDnnHeuristicA = 3 };

// An engine with its knobs, ready to run a graph.
struct CudnnPlan {
  CudnnObject config, plan;
  int64_t workspace_bytes = 0;
};
struct CudnnPlanning {
  CudnnHeuristicMode mode;
  bool exact;   // full f32
  size_t most;  // plans
};
// For engines that give the same bits in every run, in the order of the heuristics; at least one.
Result<std::vector<CudnnPlan>> MakeCudnnPlans(const Cudnn& dnn, const CudnnObject& graph,
                                              const CudnnPlanning& how, const std::string& what);

}  // namespace weft::gpu
