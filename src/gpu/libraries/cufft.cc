#include "gpu/libraries/cufft.h"

#include "base/str.h"

namespace weft::gpu {
namespace {

std::string CufftName(int code) {
  switch (code) {
    case 1: return "CUFFT_INVALID_PLAN";
    case 2: return "CUFFT_ALLOC_FAILED";
    case 3: return "CUFFT_INVALID_TYPE";
    case 4: return "CUFFT_INVALID_VALUE";
    case 5: return "CUFFT_INTERNAL_ERROR";
    case 6: return "CUFFT_EXEC_FAILED";
    case 7: return "CUFFT_SETUP_FAILED";
    case 8: return "CUFFT_INVALID_SIZE";
    case 16: return "CUFFT_NOT_SUPPORTED";
    default: return StrCat("status ", code);
  }
}

}  // namespace

Status Cufft::FindAll() {
  WEFT_CUFFT_FUNCTIONS(WEFT_FIND_SYMBOL)
  return {};
}

Result<std::unique_ptr<Cufft>> Cufft::Load(std::span<const std::string> folders) {
  static constexpr std::string_view kNames[] = {"libcufft.so.12", "libcufft.so.11"};
  auto cufft = std::unique_ptr<Cufft>(new Cufft);
  cufft->library_ = TRY(DynamicLibrary::Open(kNames, folders));
  TRY(cufft->FindAll());
  return cufft;
}

int Cufft::Execute(int plan, int type, void* in, void* out, int direction) const {
  switch (type) {
    case kCufftR2C: return ExecuteR2C(plan, in, out);
    case kCufftC2R: return ExecuteC2R(plan, in, out);
    case kCufftR2C + kCufftDouble: return ExecuteD2Z(plan, in, out);
    case kCufftC2R + kCufftDouble: return ExecuteZ2D(plan, in, out);
    case kCufftC2C + kCufftDouble: return ExecuteZ2Z(plan, in, out, direction);
    default: return ExecuteC2C(plan, in, out, direction);
  }
}

Status Cufft::Check(int code, std::string_view what) const {
  if (code == 0) return {};
  return MakeError(Code::kInternal, "cuFFT: ", what, ": ", CufftName(code));
}

}  // namespace weft::gpu
