#include "gpu/routines/convert.h"

#include "base/str.h"

namespace weft::gpu {

Status Conversion::Enqueue(const RoutineCall& call, std::byte* from, std::byte* to) const {
  if (kernel.function == nullptr) return {};
  return LaunchWith(call, kernel, BlocksFor(elements), kRoutineThreads, from, to, elements);
}

Result<Conversion> MakeConversion(const RoutineInputs& inputs, DType from, DType to,
                                  int64_t elements) {
  std::string text =
      StrCat(ElementText("From", from), ElementText("To", to),
             "extern \"C\" __global__ void __launch_bounds__(256) convert(const From::Storage* in, "
             "To::Storage* out, s64 n) {\n  ConvertElements<From, To>(in, out, n);\n}\n");
  return Conversion{TRY(MakeKernel(inputs, text, "convert")), elements};
}

}  // namespace weft::gpu
