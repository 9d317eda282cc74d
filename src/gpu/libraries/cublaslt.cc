#include "gpu/libraries/cublaslt.h"

#include <optional>

#include "base/str.h"

namespace weft::gpu {

std::optional<int> CudaDataType(DType dtype) {
  switch (dtype) {
    case DType::kF32: return 0;
    case DType::kF64: return 1;
    case DType::kF16: return 2;
    case DType::kS8: return 3;
    case DType::kC64: return 4;
    case DType::kC128: return 5;
    case DType::kU8: return 8;
    case DType::kS32: return 10;
    case DType::kU32: return 12;
    case DType::kBF16: return 14;
    case DType::kF8E4M3FN: return 28;
    case DType::kF8E5M2: return 29;
    default: return std::nullopt;
  }
}

Status CublasLt::FindAll() {
  WEFT_CUBLASLT_FUNCTIONS(WEFT_FIND_SYMBOL)
  status_name_ = reinterpret_cast<decltype(status_name_)>(library_->Find("cublasLtGetStatusName"));
  version_ = reinterpret_cast<decltype(version_)>(library_->Find("cublasLtGetVersion"));
  return {};
}

Result<std::unique_ptr<CublasLt>> CublasLt::Load(std::span<const std::string> folders) {
  static constexpr std::string_view kNames[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
  auto lt = std::unique_ptr<CublasLt>(new CublasLt);
  lt->library_ = TRY(DynamicLibrary::Open(kNames, folders));
  TRY(lt->FindAll());
  TRY(lt->Check(lt->Create(&lt->handle_), "create"));
  return lt;
}

CublasLt::~CublasLt() {
  if (handle_ != nullptr) Destroy(handle_);
}

Status CublasLt::Check(int code, std::string_view what) const {
  if (code == 0) return {};
  std::string name = status_name_ != nullptr ? status_name_(code) : StrCat("status ", code);
  return MakeError(Code::kInternal, "cuBLASLt: ", what, ": ", name);
}

}  // namespace weft::gpu
