// What the client's custom calls are done by: registered handlers and Python's callbacks.
#include "pjrt/ffi/ffi.h"

#include "client/custom_calls.h"
#include "pjrt/ffi/ffi_call.h"

namespace weft::pjrt {
namespace {

class FfiCalls : public client::ForeignCalls {
 public:
  bool Has(std::string_view target) const override { return FindFfiTarget(target).has_value(); }
  Result<std::unique_ptr<client::ForeignCall>> Prepare(
      const hlo::Instruction& call) const override {
    std::unique_ptr<client::ForeignCall> made = TRY(FfiCall::Create(call));
    return made;
  }
  Result<Literal> CallBack(const hlo::Instruction& call,
                           std::span<Literal> operands) const override {
    return RunHostCallback(call, operands);
  }
  bool IsPartitioned(const hlo::Instruction& call) const override {
    auto attributes = FfiAttributes::Parse(client::BackendConfig(call));
    return attributes && (*attributes)->FindInteger("partitioned").value_or(0) != 0;
  }
  Status Tell(uint64_t id, std::string_view bytes) const override { return TellPython(id, bytes); }
  Result<std::string> Ask(uint64_t id, std::string_view bytes) const override {
    return AskPython(id, bytes);
  }
};

}  // namespace

void DoForeignCalls() {
  static const FfiCalls calls;
  client::SetForeignCalls(&calls);
}

XLA_FFI_DataType ToFfiType(DType dtype) {
  // clang-format off
  switch (dtype) {
    case DType::kPred: return XLA_FFI_DataType_PRED;
    case DType::kS1: return XLA_FFI_DataType_S1;
    case DType::kS2: return XLA_FFI_DataType_S2;
    case DType::kS4: return XLA_FFI_DataType_S4;
    case DType::kS8: return XLA_FFI_DataType_S8;
    case DType::kS16: return XLA_FFI_DataType_S16;
    case DType::kS32: return XLA_FFI_DataType_S32;
    case DType::kS64: return XLA_FFI_DataType_S64;
    case DType::kU1: return XLA_FFI_DataType_U1;
    case DType::kU2: return XLA_FFI_DataType_U2;
    case DType::kU4: return XLA_FFI_DataType_U4;
    case DType::kU8: return XLA_FFI_DataType_U8;
    case DType::kU16: return XLA_FFI_DataType_U16;
    case DType::kU32: return XLA_FFI_DataType_U32;
    case DType::kU64: return XLA_FFI_DataType_U64;
    case DType::kF16: return XLA_FFI_DataType_F16;
    case DType::kF32: return XLA_FFI_DataType_F32;
    case DType::kF64: return XLA_FFI_DataType_F64;
    case DType::kBF16: return XLA_FFI_DataType_BF16;
    case DType::kC64: return XLA_FFI_DataType_C64;
    case DType::kC128: return XLA_FFI_DataType_C128;
    case DType::kF8E5M2: return XLA_FFI_DataType_F8E5M2;
    case DType::kF8E3M4: return XLA_FFI_DataType_F8E3M4;
    case DType::kF8E4M3: return XLA_FFI_DataType_F8E4M3;
    case DType::kF8E4M3FN: return XLA_FFI_DataType_F8E4M3FN;
    case DType::kF8E4M3B11FNUZ: return XLA_FFI_DataType_F8E4M3B11FNUZ;
    case DType::kF8E5M2FNUZ: return XLA_FFI_DataType_F8E5M2FNUZ;
    case DType::kF8E4M3FNUZ: return XLA_FFI_DataType_F8E4M3FNUZ;
    case DType::kF4E2M1FN: return XLA_FFI_DataType_F4E2M1FN;
    case DType::kF8E8M0FNU: return XLA_FFI_DataType_F8E8M0FNU;
    case DType::kToken: return XLA_FFI_DataType_TOKEN;
    default: return XLA_FFI_DataType_INVALID;
  }
  // clang-format on
}

}  // namespace weft::pjrt
