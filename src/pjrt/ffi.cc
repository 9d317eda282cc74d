// Custom calls: arguments and results as handlers want them, and the calls of each interface.
#include "pjrt/ffi.h"

#include <algorithm>
#include <cstring>
#include <exception>

#include "base/log.h"
#include "hlo/attrs.h"
#include "hlo/computation.h"
#include "hlo/evaluate/custom_calls.h"
#include "pjrt/executor.h"
#include "pjrt/ffi_internal.h"

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

namespace {

// One operand or result in the layout that the call asks for.
struct FfiArray {
  Literal* literal = nullptr;
  Layout layout;                  // empty: row-major
  std::vector<std::byte> copied;  // the elements in `layout`, when it is not row-major
  Dims dims;
  void* data = nullptr;
};

// Copies between row-major and `layout` order.
void Relayout(const Shape& shape, const Layout& layout, const std::byte* row_major_in,
              std::byte* row_major_out, std::byte* ordered) {
  const int64_t rank = shape.rank(), width = ByteWidth(shape.dtype());
  std::vector<int64_t> stride(rank), index(rank, 0);
  int64_t step = width;
  for (int64_t d : layout.minor_to_major) {
    stride[d] = step;
    step *= shape.dim(d);
  }
  const int64_t count = shape.elements();
  int64_t at = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (row_major_out == nullptr) {
      std::memcpy(ordered + at, row_major_in + i * width, width);
    } else {
      std::memcpy(row_major_out + i * width, ordered + at, width);
    }
    for (int64_t d = rank - 1; d >= 0; --d) {
      at += stride[d];
      if (++index[d] < shape.dim(d)) break;
      at -= stride[d] * shape.dim(d);
      index[d] = 0;
    }
  }
}

Status Prepare(FfiArray& array, Literal& literal, const Layout* layout, bool is_result) {
  const Shape& shape = literal.shape();
  array.literal = &literal;
  array.dims = shape.dims();
  if (shape.IsToken()) return {};
  if (!shape.IsArray() || IsSubByte(shape.dtype())) {
    return Unimplemented("custom-call: an operand or result ", shape);
  }
  // Handlers do not write to operands, but their interface lets them.
  array.data = is_result ? literal.mutable_data() : const_cast<std::byte*>(literal.data());
  if (layout != nullptr && static_cast<int64_t>(layout->minor_to_major.size()) == shape.rank() &&
      !layout->IsRowMajor()) {
    array.layout = *layout;
    array.copied.resize(static_cast<size_t>(literal.byte_size()));
    Relayout(shape, array.layout, literal.data(), nullptr, array.copied.data());
    array.data = array.copied.data();
  }
  return {};
}

// Operands and results of one call. An operand that a result aliases shares its memory.
struct FfiCall {
  std::vector<FfiArray> arguments, results;
  Literal result;

  Status Init(const hlo::Instruction& call, std::span<Literal> operands);
  void Finish();
};

Status FfiCall::Init(const hlo::Instruction& call, std::span<Literal> operands) {
  const auto& attrs = call.attrs<hlo::CustomCallAttrs>();
  result = TRY(AllocateResult(call.shape()));
  std::vector<Literal*> result_leaves, operand_leaves;
  CollectLeaves(result, result_leaves);
  std::vector<const Shape*> result_shapes, operand_shapes;
  auto leaf_shapes = [](const Shape& shape, std::vector<const Shape*>& out) {
    shape.ForEachSubShape([&](const Shape& s, const ShapeIndex&) {
      if (!s.IsTuple()) out.push_back(&s);
    });
  };
  leaf_shapes(call.shape(), result_shapes);
  std::vector<size_t> first_leaf;  // of each operand
  for (size_t i = 0; i < operands.size(); ++i) {
    first_leaf.push_back(operand_leaves.size());
    CollectLeaves(operands[i], operand_leaves);
    const bool constrained = i < attrs.operand_layout_constraints.size();
    leaf_shapes(constrained ? attrs.operand_layout_constraints[i] : operands[i].shape(),
                operand_shapes);
  }
  if (operand_shapes.size() != operand_leaves.size()) {
    return InvalidArgument("custom-call: operand layouts do not fit the operands");
  }
  // Aliased results start as their operands.
  std::vector<int64_t> alias(operand_leaves.size(), -1);
  for (const hlo::OperandAlias& a : attrs.output_to_operand_aliasing) {
    if (a.operand < 0 || a.operand >= static_cast<int64_t>(operands.size()) ||
        !a.operand_index.empty() || a.output.size() > 1) {
      continue;  // a nested alias is only a permission
    }
    const size_t from = first_leaf[a.operand];
    const size_t to = a.output.empty() ? 0 : static_cast<size_t>(a.output[0]);
    if (to >= result_leaves.size() ||
        !Shape::Compatible(operand_leaves[from]->shape(), result_leaves[to]->shape())) {
      continue;
    }
    *result_leaves[to] = std::move(*operand_leaves[from]);
    alias[from] = static_cast<int64_t>(to);
  }
  results.resize(result_leaves.size());
  for (size_t i = 0; i < results.size(); ++i) {
    TRY(Prepare(results[i], *result_leaves[i], result_shapes[i]->layout(), true));
  }
  arguments.resize(operand_leaves.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (alias[i] >= 0) {
      const FfiArray& shared = results[alias[i]];
      arguments[i].literal = shared.literal;
      arguments[i].dims = shared.dims;
      arguments[i].data = shared.data;
      continue;
    }
    TRY(Prepare(arguments[i], *operand_leaves[i], operand_shapes[i]->layout(), false));
  }
  return {};
}

void FfiCall::Finish() {
  for (FfiArray& array : results) {
    if (array.layout.minor_to_major.empty()) continue;
    Relayout(array.literal->shape(), array.layout, nullptr, array.literal->mutable_data(),
             array.copied.data());
  }
}

// --- Typed handlers -----------------------------------------------------------------------------

struct FfiFrame {
  std::vector<XLA_FFI_Buffer> buffers;
  std::vector<int32_t> types;
  std::vector<void*> pointers;

  explicit FfiFrame(std::vector<FfiArray>& arrays) {
    buffers.resize(arrays.size());
    types.assign(arrays.size(), 1);
    for (size_t i = 0; i < arrays.size(); ++i) {
      buffers[i].struct_size = sizeof(XLA_FFI_Buffer);
      buffers[i].extension_start = nullptr;
      buffers[i].dtype = ToFfiType(arrays[i].literal->dtype());
      buffers[i].data = arrays[i].data;
      buffers[i].rank = static_cast<int64_t>(arrays[i].dims.size());
      buffers[i].dims = arrays[i].dims.data();
      pointers.push_back(&buffers[i]);
    }
  }
};

// Foreign code may throw; what it throws ends here. (It may be of another C++ library, so that
// nothing more is asked about it than a standard exception can tell.)
template <class Call>
Status Guarded(Call call) {
  try {
    call();
  } catch (const std::exception& exception) {
    return MakeError(Code::kInternal, "an exception: ", exception.what());
  } catch (...) {
    return MakeError(Code::kInternal, "an exception of an unknown kind");
  }
  return {};
}

Status RunStage(XLA_FFI_Handler* handler, XLA_FFI_ExecutionStage stage, XLA_FFI_CallFrame& frame) {
  if (handler == nullptr) return {};
  frame.stage = stage;
  frame.future = nullptr;
  std::unique_ptr<XLA_FFI_Error> error;
  TRY(Guarded([&] { error.reset(handler(&frame)); }));
  std::unique_ptr<XLA_FFI_Future> future(frame.future);
  if (error != nullptr) return std::unexpected(error->error);
  if (future == nullptr) return {};
  return future->done->Await();
}

Status RunTyped(const FfiTarget& target, std::string_view config, FfiCall& call) {
  std::unique_ptr<FfiAttributes> attributes = TRY(FfiAttributes::Parse(config));
  FfiFrame arguments(call.arguments), results(call.results);
  XLA_FFI_ExecutionContext context;
  XLA_FFI_CallFrame frame{};
  // Up to the attributes: handlers compare with the size of the interface without `future`.
  frame.struct_size = sizeof(frame) - sizeof(frame.future);
  frame.api = GetFfiApi();
  frame.ctx = &context;
  frame.attrs = attributes->attrs();
  frame.args.struct_size = sizeof(frame.args);
  frame.rets.struct_size = sizeof(frame.rets);
  TRY(RunStage(target.bundle.instantiate, XLA_FFI_ExecutionStage_INSTANTIATE, frame));
  frame.args.size = static_cast<int64_t>(arguments.buffers.size());
  frame.args.types = arguments.types.data();
  frame.args.args = arguments.pointers.data();
  frame.rets.size = static_cast<int64_t>(results.buffers.size());
  frame.rets.types = results.types.data();
  frame.rets.rets = results.pointers.data();
  TRY(RunStage(target.bundle.prepare, XLA_FFI_ExecutionStage_PREPARE, frame));
  TRY(RunStage(target.bundle.initialize, XLA_FFI_ExecutionStage_INITIALIZE, frame));
  return RunStage(target.bundle.execute, XLA_FFI_ExecutionStage_EXECUTE, frame);
}

// --- Older interfaces ---------------------------------------------------------------------------

// Where a handler leaves its error: an optional string of the library that it was built with. What
// is certain is that nothing is written when there is none.
struct LegacyStatus {
  alignas(16) char bytes[64] = {};
  Status Read() const {
    if (std::all_of(std::begin(bytes), std::end(bytes), [](char c) { return c == 0; })) return {};
    return MakeError(Code::kInternal, "the custom call reported an error");
  }
};

Status RunLegacy(const FfiTarget& target, std::string_view config, bool tuple, FfiCall& call) {
  std::vector<const void*> in;
  std::vector<void*> outs;
  for (const FfiArray& array : call.arguments) in.push_back(array.data);
  for (const FfiArray& array : call.results) outs.push_back(array.data);
  void* out = tuple ? static_cast<void*>(outs.data()) : outs.empty() ? nullptr : outs[0];
  LegacyStatus status;
  TRY(Guarded([&] {
    switch (target.api_version) {
      case hlo::ApiVersion::kStatusReturning:
        reinterpret_cast<void (*)(void*, const void**, void*)>(target.function)(out, in.data(),
                                                                                status.bytes);
        break;
      case hlo::ApiVersion::kStatusReturningUnified:
        reinterpret_cast<void (*)(void*, const void**, const char*, size_t, void*)>(
            target.function)(out, in.data(), config.data(), config.size(), status.bytes);
        break;
      default: reinterpret_cast<void (*)(void*, const void**)>(target.function)(out, in.data());
    }
  }));
  return status.Read();
}

}  // namespace

namespace {

Error NoTarget(std::string_view name) {
  Error error(Code::kUnimplemented, StrCat("custom-call: no target ", name, " is registered"));
  error.Hint(StrCat("jax.ffi.register_ffi_target(\"", name, "\", ..., platform=\"weft\")"));
  return error;
}

}  // namespace

Status CheckCustomCall(const hlo::Instruction& call) {
  const auto& attrs = call.attrs<hlo::CustomCallAttrs>();
  const std::string& name = attrs.custom_call_target;
  if (name == kCallbackTarget || hlo::IsKnownCustomCall(name) || FindFfiTarget(name)) return {};
  if (call.users().empty() && !call.IsRoot() && !attrs.custom_call_has_side_effect) return {};
  Error error = NoTarget(name);
  error.Note(StrCat("in ", call.ToString()));
  if (std::string where = call.SourceLocation(); !where.empty()) error.Source(std::move(where));
  return std::unexpected(std::move(error));
}

Result<Literal> RunCustomCall(const hlo::Instruction& call, std::span<Literal> operands) {
  const std::string& name = call.attrs<hlo::CustomCallAttrs>().custom_call_target;
  if (name == kCallbackTarget) return RunHostCallback(call, operands);
  const std::optional<FfiTarget> target = FindFfiTarget(name);
  if (!target) return std::unexpected(NoTarget(name));
  FfiCall state;
  TRY(state.Init(call, operands));
  Executor::BlockingScope blocking;  // it may wait, or take its time
  Status status = target->api_version == hlo::ApiVersion::kTypedFfi
                      ? RunTyped(*target, BackendConfig(call), state)
                      : RunLegacy(*target, BackendConfig(call), call.shape().IsTuple(), state);
  if (!status) {
    Error error = status.error();
    return std::unexpected(std::move(error.Prefix(StrCat("custom-call ", name, ": "))));
  }
  state.Finish();
  return std::move(state.result);
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

}  // namespace weft::pjrt
