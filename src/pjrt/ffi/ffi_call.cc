#include "pjrt/ffi/ffi_call.h"

#include <algorithm>
#include <cstring>
#include <exception>

#include "base/float_mode.h"
#include "base/storage.h"
#include "base/trace.h"
#include "client/executor.h"
#include "client/strided.h"
#include "hlo/attrs.h"
#include "pjrt/ffi/ffi.h"

namespace weft::pjrt {
namespace {

constexpr int64_t kFfiAlignment = 64;

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

// Where a handler leaves its error: an optional string of the library that it was built with. What
// is certain is that nothing is written when there is none.
struct LegacyStatus {
  alignas(16) char bytes[64] = {};
  Status Read() const {
    if (std::all_of(std::begin(bytes), std::end(bytes), [](char c) { return c == 0; })) return {};
    return MakeError(Code::kInternal, "the custom call reported an error");
  }
};

}  // namespace

Result<std::unique_ptr<FfiCall>> FfiCall::Create(const hlo::Instruction& call) {
  const auto& attrs = call.attrs<hlo::CustomCallAttrs>();
  std::unique_ptr<FfiCall> made(new FfiCall);
  made->name_ = attrs.custom_call_target;
  made->config_ = BackendConfig(call);
  made->tuple_ = call.shape().IsTuple();
  std::optional<FfiTarget> target = FindFfiTarget(made->name_);
  if (!target) return std::unexpected(client::NoForeignCall(made->name_));
  made->target_ = *target;
  if (target->api_version == hlo::ApiVersion::kTypedFfi) {
    made->attributes_ = TRY(FfiAttributes::Parse(made->config_));
  }
  std::vector<size_t> first_leaf;  // of each operand
  for (int64_t i = 0; i < call.operand_count(); ++i) {
    first_leaf.push_back(made->arguments_.size());
    const Shape& shape = call.operand(i)->shape();
    bool constrained = i < std::ssize(attrs.operand_layout_constraints);
    TRY(made->AddArrays(shape, constrained ? attrs.operand_layout_constraints[i] : shape,
                        made->arguments_));
  }
  TRY(made->AddArrays(call.shape(), call.shape(), made->results_));
  made->AddAliases(call, first_leaf);
  auto count_scratch = [&](const Array& array) {
    if (!array.ordered.empty()) {
      made->scratch_bytes_ += (array.bytes + kFfiAlignment - 1) / kFfiAlignment * kFfiAlignment;
    }
  };
  for (const Array& array : made->arguments_) {
    if (array.alias < 0) count_scratch(array);
  }
  for (const Array& array : made->results_) count_scratch(array);
  return made;
}

Status FfiCall::AddArrays(const Shape& shape, const Shape& layouts, std::vector<Array>& arrays) {
  if (shape.IsTuple()) {
    const auto elements = shape.elements_of_tuple();
    if (!layouts.IsTuple() || layouts.elements_of_tuple().size() != elements.size()) {
      return InvalidArgument("custom-call ", name_, ": layouts do not fit the operands");
    }
    for (size_t i = 0; i < elements.size(); ++i) {
      TRY(AddArrays(elements[i], layouts.elements_of_tuple()[i], arrays));
    }
    return {};
  }
  Array array;
  if (!shape.IsToken()) {
    if (!shape.IsArray() || IsSubByte(shape.dtype())) {
      return Unimplemented("custom-call ", name_, ": an operand or result ", shape);
    }
    array.type = ToFfiType(shape.dtype());
    array.dims = shape.dims();
    array.memory = arrays_++;
    array.element_bytes = ByteWidth(shape.dtype());
    array.bytes = shape.ByteSize();
    array.strides = RowMajorStrides(shape.dims(), array.element_bytes);
    const Layout* layout = layouts.IsArray() ? layouts.layout() : nullptr;
    if (layout != nullptr && std::ssize(layout->minor_to_major) == shape.rank() &&
        !layout->IsRowMajor()) {
      array.ordered = array.strides;
      int64_t step = array.element_bytes;
      for (int64_t d : layout->minor_to_major) {
        array.ordered[d] = step;
        step *= shape.dim(d);
      }
    }
  }
  arrays.push_back(std::move(array));
  return {};
}

void FfiCall::AddAliases(const hlo::Instruction& call, std::span<const size_t> first_leaf) {
  for (const hlo::OperandAlias& a : call.attrs<hlo::CustomCallAttrs>().output_to_operand_aliasing) {
    if (a.operand < 0 || a.operand >= std::ssize(first_leaf) || !a.operand_index.empty() ||
        a.output.size() > 1) {
      continue;  // a nested alias is only a permission
    }
    const size_t from = first_leaf[a.operand];
    const size_t to = a.output.empty() ? 0 : static_cast<size_t>(a.output[0]);
    if (to >= results_.size()) continue;
    Array &operand = arguments_[from], &result = results_[to];
    if (operand.type != result.type || operand.dims != result.dims || operand.alias >= 0 ||
        result.alias >= 0) {
      continue;
    }
    operand.alias = static_cast<int64_t>(to);
    result.alias = static_cast<int64_t>(from);
  }
}

// Where handlers find each array: in its own memory, or in scratch memory in their order. What is
// aliased starts as its operand.
void FfiCall::PlaceArrays(std::span<const std::span<std::byte>> memory, std::byte* scratch,
                          std::span<void*> arguments, std::span<void*> results) const {
  auto place = [&](const Array& array, const Array* from) -> void* {
    if (array.memory < 0) return nullptr;
    std::byte* own = memory[array.memory].data();
    const std::byte* start = from == nullptr ? nullptr : memory[from->memory].data();
    if (array.ordered.empty()) {
      if (start != nullptr && start != own) {
        std::memcpy(own, start, static_cast<size_t>(array.bytes));
      }
      return own;
    }
    std::byte* ordered = scratch;
    scratch += (array.bytes + kFfiAlignment - 1) / kFfiAlignment * kFfiAlignment;
    if (start != nullptr) {
      CopyStrided(array.dims, array.element_bytes, ordered, array.ordered, start, array.strides);
    }
    return ordered;
  };
  for (size_t i = 0; i < results_.size(); ++i) {
    const Array& array = results_[i];
    results[i] = place(array, array.alias < 0 ? nullptr : &arguments_[array.alias]);
  }
  for (size_t i = 0; i < arguments_.size(); ++i) {
    const Array& array = arguments_[i];
    arguments[i] = array.alias >= 0 ? results[array.alias] : place(array, &array);
  }
}

Status FfiCall::Run(std::span<const std::span<std::byte>> memory) const {
  if (std::ssize(memory) != arrays_) {
    return InvalidArgument("custom-call ", name_, ": ", memory.size(), " arrays, not ", arrays_);
  }
  std::shared_ptr<std::byte[]> scratch =
      AllocateStorage(static_cast<size_t>(scratch_bytes_), false);
  if (!scratch && scratch_bytes_ > 0) {
    return ResourceExhausted("custom-call ", name_, ": ", scratch_bytes_, " bytes");
  }
  std::vector<void*> arguments(arguments_.size()), results(results_.size());
  PlaceArrays(memory, scratch.get(), arguments, results);
  const bool lapack = name_.starts_with(kLapackPrefix);
  Executor::BlockingScope blocking(/*leavable=*/lapack);  // it may wait, or take its time
  trace::Span span(trace::Kind::kCallback, [this] { return trace::What{.name = name_}; });
  // Python and the user's code compute as they do elsewhere.
  FloatMode mode(FloatMode::Flushes() && lapack);
  Status status = target_.api_version == hlo::ApiVersion::kTypedFfi ? RunTyped(arguments, results)
                                                                    : RunOlder(arguments, results);
  if (!status) {
    Error error = status.error();
    return std::unexpected(std::move(error.Prefix(StrCat("custom-call ", name_, ": "))));
  }
  for (size_t i = 0; i < results_.size(); ++i) {
    const Array& array = results_[i];
    if (array.ordered.empty()) continue;
    CopyStrided(array.dims, array.element_bytes, memory[array.memory].data(), array.strides,
                static_cast<const std::byte*>(results[i]), array.ordered);
  }
  return {};
}

// The arrays as typed handlers get them.
struct FfiCall::Frame {
  std::vector<XLA_FFI_Buffer> buffers;
  std::vector<int32_t> types;
  std::vector<void*> pointers;

  Frame(std::span<const Array> arrays, std::span<void* const> data)
      : buffers(arrays.size()), types(arrays.size(), 1), pointers(arrays.size()) {
    for (size_t i = 0; i < arrays.size(); ++i) {
      buffers[i].struct_size = sizeof(XLA_FFI_Buffer);
      buffers[i].extension_start = nullptr;
      buffers[i].dtype = arrays[i].type;
      buffers[i].data = data[i];
      buffers[i].rank = std::ssize(arrays[i].dims);
      // The interface does not say const; nobody writes to them.
      buffers[i].dims = const_cast<int64_t*>(arrays[i].dims.data());
      pointers[i] = &buffers[i];
    }
  }
};

Status FfiCall::RunTyped(std::span<void*> argument_data, std::span<void*> result_data) const {
  Frame arguments(arguments_, argument_data), results(results_, result_data);
  XLA_FFI_ExecutionContext context;
  XLA_FFI_CallFrame frame{};
  // Up to the attributes: handlers compare with the size of the interface without `future`.
  frame.struct_size = sizeof(frame) - sizeof(frame.future);
  frame.api = GetFfiApi();
  frame.ctx = &context;
  frame.attrs = attributes_->attrs();
  frame.args.struct_size = sizeof(frame.args);
  frame.rets.struct_size = sizeof(frame.rets);
  TRY(RunStage(target_.bundle.instantiate, XLA_FFI_ExecutionStage_INSTANTIATE, frame));
  frame.args.size = std::ssize(arguments.buffers);
  frame.args.types = arguments.types.data();
  frame.args.args = arguments.pointers.data();
  frame.rets.size = std::ssize(results.buffers);
  frame.rets.types = results.types.data();
  frame.rets.rets = results.pointers.data();
  TRY(RunStage(target_.bundle.prepare, XLA_FFI_ExecutionStage_PREPARE, frame));
  TRY(RunStage(target_.bundle.initialize, XLA_FFI_ExecutionStage_INITIALIZE, frame));
  return RunStage(target_.bundle.execute, XLA_FFI_ExecutionStage_EXECUTE, frame);
}

Status FfiCall::RunOlder(std::span<void*> arguments, std::span<void*> results) const {
  std::vector<const void*> in(arguments.begin(), arguments.end());
  void* out = tuple_ ? static_cast<void*>(results.data()) : results.empty() ? nullptr : results[0];
  LegacyStatus status;
  TRY(Guarded([&] {
    switch (target_.api_version) {
      case hlo::ApiVersion::kStatusReturning:
        reinterpret_cast<void (*)(void*, const void**, void*)>(target_.function)(out, in.data(),
                                                                                 status.bytes);
        break;
      case hlo::ApiVersion::kStatusReturningUnified:
        reinterpret_cast<void (*)(void*, const void**, const char*, size_t, void*)>(
            target_.function)(out, in.data(), config_.data(), config_.size(), status.bytes);
        break;
      default: reinterpret_cast<void (*)(void*, const void**)>(target_.function)(out, in.data());
    }
  }));
  return status.Read();
}

}  // namespace weft::pjrt
