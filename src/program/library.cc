#include "program/library.h"

#include <algorithm>

#include "base/elements.h"
#include "base/str.h"
#include "program/library_routines.h"

namespace weft::program {

namespace {

template <class T>
const T* FindAttr(const LibraryStep& call, std::string_view name) {
  for (const Attr& attr : call.attrs) {
    if (attr.name == name) return std::get_if<T>(&attr.value);
  }
  return nullptr;
}

Status VerifyDeviceId(const Program& program, const Step& step) {
  bool good = step.uses.size() == 1 && step.uses[0].access == Access::kWrite &&
              step.uses[0].slice.size == 4 && IsInteger(DTypeOf(program, step.uses[0]));
  if (!good) return InvalidArgument("device_id: takes (write u32 or s32)");
  const auto& call = std::get<LibraryStep>(step.op);
  if (IntAttr(call, "divide", 1) < 1 || IntAttr(call, "modulo", 1) < 1) {
    return InvalidArgument("device_id: divide and modulo must be above 0");
  }
  return {};
}

Status InterpretDeviceId(const Program&, const Step& step, int64_t device,
                         std::span<const std::span<std::byte>> memory) {
  const auto& call = std::get<LibraryStep>(step.op);
  device /= IntAttr(call, "divide", 1);
  if (int64_t modulo = IntAttr(call, "modulo", 0); modulo > 0) device %= modulo;
  StoreI64(DType::kU32, &device, 1, memory[0].data());
  return {};
}

Status VerifyHostRecv(const Program&, const Step& step) {
  return CheckAccess(step, {Access::kWrite}, "host_recv", "(write data)");
}

Status InterpretHostRecv(const Program&, const Step&, int64_t,
                         std::span<const std::span<std::byte>>) {
  auto error = Unimplemented("the host sends nothing");
  error.error().Hint("give the data to the program as an argument, or call the host back");
  return error;
}

int64_t UnitCost(const Program&, const Step&) {
  return 1;
}

}  // namespace

DType DTypeOf(const Program& program, const Use& use) {
  return program.buffers[static_cast<size_t>(use.slice.buffer)].shape.dtype();
}

const Kernel* FindKernel(const Program& program, std::string_view name) {
  for (const Kernel& kernel : program.kernels) {
    if (kernel.name == name) return &kernel;
  }
  return nullptr;
}

int64_t Product(std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (int64_t factor : factors) {
    if (factor < 0 || __builtin_mul_overflow(product, factor, &product)) return -1;
  }
  return product;
}

int64_t SaturatingCost(std::initializer_list<int64_t> factors) {
  int64_t cost = 1;
  for (int64_t factor : factors) {
    if (__builtin_mul_overflow(cost, std::max<int64_t>(factor, 1), &cost)) return INT64_MAX;
  }
  return cost;
}

Status CheckElements(const Program& program, const Use& use, int64_t elements,
                     std::string_view routine, std::string_view name) {
  DType dtype = DTypeOf(program, use);
  int64_t bytes;
  if (elements < 0 || __builtin_mul_overflow(elements, ByteWidth(dtype), &bytes) ||
      bytes != use.slice.size) {
    return InvalidArgument(routine, ": ", name, " is ", elements, " ", weft::Name(dtype),
                           " and its buffer has ", use.slice.size, " bytes");
  }
  return {};
}

Status CheckAccess(const Step& step, std::initializer_list<Access> accesses,
                   std::string_view routine, std::string_view form) {
  bool good = std::equal(accesses.begin(), accesses.end(), step.uses.begin(), step.uses.end(),
                         [](Access access, const Use& use) { return access == use.access; });
  if (!good) return InvalidArgument(routine, ": takes ", form);
  return {};
}

const Routine* FindRoutine(std::string_view name) {
  static const Routine kRoutines[] = {
      {"device_id", VerifyDeviceId, UnitCost, InterpretDeviceId},
      {"host_recv", VerifyHostRecv, UnitCost, InterpretHostRecv},
      AttentionGradientRoutine(),
      AttentionRoutine(),
      CholeskyRoutine(),
      LuRoutine(),
      ConvolutionRoutine(),
      FftRoutine(),
      GemmRoutine(),
      ScaledGemmRoutine(),
      HouseholderProductRoutine(),
      HouseholderQrRoutine(),
      RngBitGeneratorRoutine(),
      RngRoutine(),
      SortRoutine(),
      TopKRoutine(),
      TriangularSolveRoutine(),
  };
  for (const Routine& routine : kRoutines) {
    if (routine.name == name) return &routine;
  }
  return nullptr;
}

const std::vector<int64_t>* IntsAttr(const LibraryStep& call, std::string_view name) {
  return FindAttr<std::vector<int64_t>>(call, name);
}
std::string_view StringAttr(const LibraryStep& call, std::string_view name,
                            std::string_view otherwise) {
  const std::string* value = FindAttr<std::string>(call, name);
  return value ? std::string_view(*value) : otherwise;
}
int64_t IntAttr(const LibraryStep& call, std::string_view name, int64_t otherwise) {
  const int64_t* value = FindAttr<int64_t>(call, name);
  return value ? *value : otherwise;
}
double DoubleAttr(const LibraryStep& call, std::string_view name, double otherwise) {
  const double* value = FindAttr<double>(call, name);
  return value ? *value : otherwise;
}
bool BoolAttr(const LibraryStep& call, std::string_view name, bool otherwise) {
  const bool* value = FindAttr<bool>(call, name);
  return value ? *value : otherwise;
}

}  // namespace weft::program
