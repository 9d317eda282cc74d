#include "gpu/libraries/cudnn.h"

#include "base/str.h"

namespace weft::gpu {

std::optional<int> CudnnDataType(DType dtype) {
  switch (dtype) {
    case DType::kF32: return 0;
    case DType::kF64: return 1;
    case DType::kF16: return 2;
    case DType::kBF16: return 9;
    default: return std::nullopt;
  }
}

Status Cudnn::FindAll() {
  WEFT_CUDNN_FUNCTIONS(WEFT_FIND_SYMBOL)
  error_string_ = reinterpret_cast<decltype(error_string_)>(library_->Find("cudnnGetErrorString"));
  return {};
}

Result<std::unique_ptr<Cudnn>> Cudnn::Load(std::span<const std::string> folders) {
  static constexpr std::string_view kNames[] = {"libcudnn.so.9", "libcudnn_graph.so.9"};
  auto dnn = std::unique_ptr<Cudnn>(new Cudnn);
  dnn->library_ = TRY(DynamicLibrary::Open(kNames, folders));
  TRY(dnn->FindAll());
  TRY(dnn->Check(dnn->Create(&dnn->handle_), "create"));
  return dnn;
}

Cudnn::~Cudnn() {
  if (handle_ != nullptr) Destroy(handle_);
}

Status Cudnn::Check(int code, std::string_view what) const {
  if (code == 0) return {};
  std::string name = error_string_ != nullptr ? error_string_(code) : StrCat("status ", code);
  return MakeError(Code::kInternal, "cuDNN: ", what, ": ", name);
}

Status Cudnn::Run(void* plan, void* pack, void* stream, std::string_view what) const {
  MutexLock lock(mutex_);
  TRY(Check(SetStream(handle_, stream), what));
  return Check(Execute(handle_, plan, pack), what);
}

}  // namespace weft::gpu
