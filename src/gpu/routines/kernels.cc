#include "gpu/routines/kernels.h"

#include <vector>

#include "base/str.h"
#include "gpu/cuda_text.h"
#include "gpu/library_text.h"
#include "gpu/render_ops.h"
#include "gpu/render_program.h"

namespace weft::gpu {

std::string ValueTypeOf(DType dtype) {
  if (IsComplex(dtype)) return StrCat("Cx<", Name(RealType(dtype)), ">");
  if (dtype == DType::kF64) return "f64";
  if (IsFloat(dtype)) return "f32";
  return BitWidth(dtype) > 32 ? "u64" : "u32";
}

std::string ElementText(std::string_view name, DType dtype, std::string_view value_type) {
  std::string storage, load, store;
  if (IsComplex(dtype)) {
    storage = StrCat("Cx<", Name(RealType(dtype)), ">");
    load = store = "x";
  } else {
    storage = CudaStorageType(dtype);
    std::string_view compute = CudaType(program::ComputeType(dtype));
    load = FromStorage(dtype, "x");
    // Signed integers get their sign when they get wider.
    if (IsInteger(dtype)) load = StrCat(IsSigned(dtype) ? "s64" : "u64", "(", load, ")");
    store = ToStorage(dtype, StrCat(compute, "(x)"));
  }
  return StrCat("struct ", name, " {\n  typedef ", storage, " Storage;\n  typedef ", value_type,
                " Value;\n  static __device__ inline Value Load(Storage x) { return Value(", load,
                "); }\n  static __device__ inline Storage Store(Value x) { return Storage(", store,
                "); }\n};\n");
}

Result<RoutineKernel> MakeKernel(const RoutineInputs& inputs, const std::string& text,
                                 const std::string& function) {
  std::string all = StrCat(Prelude(text), "\n", kElementsText, "\n", text);
  void* handle =
      TRY(inputs.libraries.Function(inputs.compiler, inputs.call().routine + ".cu", all, function));
  return RoutineKernel{handle, inputs.call().routine};
}

int64_t BlocksFor(int64_t elements, int64_t each) {
  return (elements + each - 1) / each;
}

Status LaunchRoutine(const RoutineCall& call, const RoutineKernel& kernel, int64_t blocks,
                     int64_t threads, std::initializer_list<void*> parameters) {
  if (blocks == 0) return {};
  const CudaCore& core = *call.stream.core();
  if (blocks > core.limits.blocks) {
    return ResourceExhausted(kernel.name, ": too many blocks: asked for ", blocks,
                             ", the device has ", core.limits.blocks);
  }
  std::vector<void*> list(parameters);
  int code = core.cuda->LaunchKernel(kernel.function, static_cast<unsigned>(blocks), 1, 1,
                                     static_cast<unsigned>(threads), 1, 1, 0, call.stream.handle(),
                                     list.data(), nullptr);
  return core.cuda->Check(code, StrCat("launch ", kernel.name));
}

}  // namespace weft::gpu
