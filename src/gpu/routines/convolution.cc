// convolution by a kernel of a thread an element of the result, for every type and form.
#include <vector>

#include "base/str.h"
#include "gpu/library_text.h"
#include "gpu/routines/gemm.h"
#include "gpu/routines/kernels.h"
#include "gpu/routines/ways.h"
#include "program/library.h"

namespace weft::gpu {
namespace {

// ConvForm of kernels/convolution.cu, field by field.
std::vector<int64_t> FieldsOf(const program::ConvolutionForm& f) {
  int64_t positions = 1, taps = 1;
  for (const auto& a : f.axes) positions *= a.out, taps *= a.window;
  std::vector<int64_t> fields = {f.batch,
                                 f.out_features,
                                 f.kernel_in,
                                 f.out_features / (f.feature_groups * f.batch_groups),
                                 positions,
                                 taps,
                                 f.in_batch_stride,
                                 f.in_feature_stride,
                                 f.kernel_in_stride,
                                 f.kernel_out_stride,
                                 f.out_batch_stride,
                                 f.out_feature_stride,
                                 f.feature_groups > 1,
                                 f.batch_groups > 1};
  for (const auto& a : f.axes) {
    fields.insert(fields.end(), {a.in, a.out, a.window, a.in_stride, a.out_stride, a.window_stride,
                                 a.stride, a.pad, a.base_dilation, a.window_dilation, a.reversal});
  }
  if (f.axes.empty()) fields.resize(fields.size() + 11);
  return fields;
}

class ConvolutionByKernel : public PreparedRoutine {
 public:
  ConvolutionByKernel(RoutineKernel kernel, std::vector<int64_t> fields, int64_t elements)
      : kernel_(std::move(kernel)), fields_(std::move(fields)), elements_(elements) {}
  bool capturable() const override { return true; }
  Status Enqueue(const RoutineCall& call) const override {
    std::vector<int64_t> fields = fields_;
    std::byte *input = call.memory[0], *kernel = call.memory[1], *output = call.memory[2];
    return LaunchRoutine(call, kernel_, BlocksFor(elements_), kRoutineThreads,
                         {&input, &kernel, &output, fields.data()});
  }

 private:
  RoutineKernel kernel_;
  std::vector<int64_t> fields_;
  int64_t elements_;
};

}  // namespace

Result<PreparedPtr> PrepareConvolutionKernel(const RoutineInputs& inputs) {
  program::ConvolutionForm form = program::ConvolutionFormOf(inputs.call());
  if (inputs.elements(2) == 0) return NothingToDo();
  std::string value = ValueTypeOf(inputs.type(2));
  std::string text =
      StrCat(kConvolutionText, ElementText("In", inputs.type(0), value),
             ElementText("K", inputs.type(1), value), ElementText("Out", inputs.type(2)),
             "extern \"C\" __global__ void __launch_bounds__(256) convolution(const In::Storage* "
             "input, const K::Storage* kernel, Out::Storage* output, ConvForm<",
             form.axes.size(), "> f) {\n  Convolve<In, K, Out, ", form.axes.size(),
             ">(input, kernel, output, f);\n}\n");
  return std::make_unique<ConvolutionByKernel>(TRY(MakeKernel(inputs, text, "convolution")),
                                               FieldsOf(form), inputs.elements(2));
}

}  // namespace weft::gpu
