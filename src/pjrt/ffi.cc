// Custom calls: who does them, and their operands and results as literals.
#include "pjrt/ffi.h"

#include "hlo/attrs.h"
#include "hlo/computation.h"
#include "hlo/evaluate/custom_calls.h"
#include "pjrt/ffi_call.h"

namespace weft::pjrt {

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

void CollectLeaves(Literal& value, std::vector<Literal*>& leaves) {
  if (!value.shape().IsTuple()) {
    leaves.push_back(&value);
    return;
  }
  for (Literal& element : value.mutable_tuple()) CollectLeaves(element, leaves);
}

Result<Literal> AllocateResult(const Shape& shape) {
  if (shape.IsTuple()) {
    std::vector<Literal> elements;
    for (const Shape& element : shape.elements_of_tuple()) {
      elements.push_back(TRY(AllocateResult(element)));
    }
    return Literal::Tuple(std::move(elements));
  }
  if (shape.IsToken()) return Literal::Token();
  Shape plain = shape;
  plain.ClearLayout();
  return Literal::Allocate(std::move(plain));
}

std::string_view BackendConfig(const hlo::Instruction& call) {
  return call.extras() == nullptr ? std::string_view() : call.extras()->backend_config.text;
}

Error NoFfiTarget(std::string_view name) {
  Error error(Code::kUnimplemented, StrCat("custom-call: no target ", name, " is registered"));
  error.Hint(StrCat("jax.ffi.register_ffi_target(\"", name, "\", ..., platform=\"weft\")"));
  return error;
}

Status CheckCustomCall(const hlo::Instruction& call) {
  const auto& attrs = call.attrs<hlo::CustomCallAttrs>();
  const std::string& name = attrs.custom_call_target;
  if (name == kCallbackTarget || hlo::IsKnownCustomCall(name) || FindFfiTarget(name)) return {};
  if (call.users().empty() && !call.IsRoot() && !attrs.custom_call_has_side_effect) return {};
  Error error = NoFfiTarget(name);
  error.Note(StrCat("in ", call.ToString()));
  if (std::string where = call.SourceLocation(); !where.empty()) error.Source(std::move(where));
  return std::unexpected(std::move(error));
}

Result<Literal> RunCustomCall(const hlo::Instruction& call, std::span<Literal> operands) {
  if (call.attrs<hlo::CustomCallAttrs>().custom_call_target == kCallbackTarget) {
    return RunHostCallback(call, operands);
  }
  std::unique_ptr<FfiCall> prepared = TRY(FfiCall::Create(call));
  Literal result = TRY(AllocateResult(call.shape()));
  std::vector<Literal*> leaves;
  for (Literal& operand : operands) CollectLeaves(operand, leaves);
  const size_t operand_leaves = leaves.size();
  CollectLeaves(result, leaves);
  std::vector<std::span<std::byte>> memory;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i]->shape().IsArray()) continue;
    std::byte* data =
        i < operand_leaves ? const_cast<std::byte*>(leaves[i]->data()) : leaves[i]->mutable_data();
    memory.emplace_back(data, static_cast<size_t>(leaves[i]->byte_size()));
  }
  TRY(prepared->Run(memory));
  return result;
}

// Whether a custom call of the module has a target for which `matches` holds.
template <class Matches>
static bool AnyTarget(const hlo::Module& module, const Matches& matches) {
  for (const auto& computation : module.computations()) {
    for (const hlo::Instruction* instruction : *computation) {
      if (instruction->op() == hlo::Op::kCustomCall &&
          matches(instruction->attrs<hlo::CustomCallAttrs>().custom_call_target)) {
        return true;
      }
    }
  }
  return false;
}

bool CallsBack(const hlo::Module& module) {
  return AnyTarget(module, [](const std::string& name) { return name == kCallbackTarget; });
}

bool CallsOut(const hlo::Module& module) {
  return AnyTarget(module, [](const std::string& name) {
    return name == kCallbackTarget || FindFfiTarget(name).has_value();
  });
}

bool CallsOutBeyondLapack(const hlo::Module& module) {
  return AnyTarget(module, [](const std::string& name) {
    return name == kCallbackTarget ||
           (!name.starts_with(kLapackPrefix) && FindFfiTarget(name).has_value());
  });
}

}  // namespace weft::pjrt
