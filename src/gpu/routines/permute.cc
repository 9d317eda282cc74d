#include "gpu/routines/permute.h"

#include "base/str.h"
#include "gpu/library_text.h"

namespace weft::gpu {

Status PermuteStep::Enqueue(const RoutineCall& call, std::byte* from, std::byte* to) const {
  if (kernel.function == nullptr) return {};
  std::vector<int64_t> own = fields;
  return LaunchRoutine(call, kernel, BlocksFor(elements), kRoutineThreads,
                       {&from, &to, own.data()});
}

Result<PermuteStep> MakePermute(const RoutineInputs& inputs, DType dtype,
                                const std::vector<PermutedDim>& dims, int64_t from) {
  PermuteStep step;
  step.elements = 1;
  for (const PermutedDim& d : dims) step.elements *= d.size;
  step.fields = {step.elements, from, 0};
  for (const PermutedDim& d : dims) step.fields.push_back(d.size);
  for (const PermutedDim& d : dims) step.fields.push_back(d.in);
  for (const PermutedDim& d : dims) step.fields.push_back(d.out);
  std::string type = ByteWidth(dtype) == 16 ? "Cx<f64>" : StrCat("u", 8 * ByteWidth(dtype));
  std::string text =
      StrCat(kPermuteText, "extern \"C\" __global__ void permute(const ", type, "* in, ", type,
             "* out, Permutation<", dims.size(), "> p) {\n  Permute(in, out, p);\n}\n");
  step.kernel = TRY(MakeKernel(inputs, text, "permute"));
  return step;
}

}  // namespace weft::gpu
