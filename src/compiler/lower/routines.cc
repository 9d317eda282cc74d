// Ops that are calls of library routines: transforms, random numbers, convolutions, custom calls.
#include <algorithm>

#include "base/str.h"
#include "compiler/lower/dot.h"
#include "compiler/lower/table.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Access;
using program::Attr;
using program::Step;
using HloOp = hlo::Op;

namespace {

std::vector<int64_t> ToVector(const Dims& dims) {
  return {dims.begin(), dims.end()};
}

}  // namespace

Step Routine(LowerContext& cx, std::string name, const Instruction& instruction,
             std::vector<Attr> attrs) {
  Step step;
  step.op = program::LibraryStep{std::move(name), std::move(attrs), false};
  for (const Instruction* operand : instruction.operands()) {
    for (MemValue v : cx.memory.Leaves(*operand)) {
      if (v >= 0) step.uses.push_back(In(cx.program, cx.Buffer(v)));
    }
  }
  for (MemValue v : cx.memory.Leaves(instruction)) {
    if (v >= 0) step.uses.push_back(Out(cx.program, cx.Buffer(v)));
  }
  step.name = instruction.name();
  step.source = instruction.SourceLocation();
  return step;
}

namespace {

Decision MatchRoutine(Subject&) {
  return Take("it is a call of a library routine");
}

Status LowerFft(Subject& subject) {
  LowerContext& cx = subject.cx;
  Steps& steps = subject.steps;
  const Instruction& i = subject.instruction;
  const auto& attrs = i.attrs<hlo::FftAttrs>();
  static constexpr const char* kTypes[] = {"fft", "ifft", "rfft", "irfft"};
  int64_t batch = 1, rank = i.shape().rank();
  for (int64_t d = 0; d + static_cast<int64_t>(attrs.fft_length.size()) < rank; ++d) {
    batch *= i.shape().dim(d);
  }
  // Of complex numbers to complex numbers the operand's sizes count.
  std::vector<int64_t> lengths(attrs.fft_length.begin(), attrs.fft_length.end());
  if (attrs.fft_type == hlo::FftType::kFft || attrs.fft_type == hlo::FftType::kIfft) {
    lengths.assign(i.shape().dims().end() - std::ssize(lengths), i.shape().dims().end());
  }
  steps.push_back(Routine(cx, "fft", i,
                          {{"type", std::string(kTypes[static_cast<int>(attrs.fft_type)])},
                           {"lengths", lengths},
                           {"batch", batch}}));
  return {};
}

Status LowerTopK(Subject& subject) {
  LowerContext& cx = subject.cx;
  Steps& steps = subject.steps;
  const Instruction& i = subject.instruction;
  const auto& attrs = i.attrs<hlo::TopKAttrs>();
  const Shape& from = i.operand(0)->shape();
  int64_t n = from.dim(from.rank() - 1);
  steps.push_back(Routine(
      cx, "topk", i,
      {{"rows", from.elements() / n}, {"n", n}, {"k", attrs.k}, {"largest", attrs.largest}}));
  return {};
}

Status LowerRng(Subject& subject) {
  LowerContext& cx = subject.cx;
  Steps& steps = subject.steps;
  const Instruction& i = subject.instruction;
  if (cx.random_counter < 0) {
    cx.random_counter = cx.Scratch(Shape::Scalar(DType::kU64), "random_counter");
  }
  std::string kind = "bits";
  if (i.op() == HloOp::kRng) {
    bool normal = i.attrs<hlo::RngAttrs>().distribution == hlo::Distribution::kNormal;
    kind = normal ? "normal" : "uniform";
  }
  Step step = Routine(cx, "rng", i, {{"distribution", kind}});
  // A third operand repeats the shape.
  if (step.uses.size() > 3) step.uses.erase(step.uses.begin() + 2, step.uses.end() - 1);
  program::Use counter = In(cx.program, cx.random_counter);
  counter.access = Access::kReadWrite;
  step.uses.insert(step.uses.begin(), counter);
  steps.push_back(std::move(step));
  return {};
}

Status LowerRngBitGenerator(Subject& subject) {
  LowerContext& cx = subject.cx;
  Steps& steps = subject.steps;
  const Instruction& i = subject.instruction;
  static constexpr const char* kNames[] = {"default", "three_fry", "philox"};
  const auto& attrs = i.attrs<hlo::RngBitGeneratorAttrs>();
  bool alone = !i.shape().IsTuple();  // the bits, without the next state
  const Shape& bits = alone ? i.shape() : i.shape().tuple_element(1);
  Step step = Routine(cx, "rng_bit_generator", i,
                      {{"dims", ToVector(bits.dims())},
                       {"algorithm", std::string(kNames[static_cast<int>(attrs.algorithm)])}});
  if (alone) {
    program::BufferId next = cx.Scratch(i.operand(0)->shape(), "next_state");
    step.uses.insert(step.uses.begin() + 1, Out(cx.program, next));
  }
  steps.push_back(std::move(step));
  return {};
}

Status LowerConvolution(Subject& subject) {
  LowerContext& cx = subject.cx;
  Steps& steps = subject.steps;
  const Instruction& i = subject.instruction;
  const auto& attrs = i.attrs<hlo::ConvolutionAttrs>();
  const hlo::ConvDims& dims = attrs.dim_labels;
  std::vector<int64_t> strides, pads, base, dilation, reversal;
  for (const hlo::WindowDim& w : attrs.window.dims) {
    strides.push_back(w.stride);
    pads.push_back(w.pad_low);
    base.push_back(w.base_dilation);
    dilation.push_back(w.window_dilation);
    reversal.push_back(w.reversal);
  }
  auto layout = [](int64_t a, int64_t b, const std::vector<int64_t>& spatial) {
    std::vector<int64_t> all = {a, b};
    all.insert(all.end(), spatial.begin(), spatial.end());
    return all;
  };
  std::vector<Attr> list = {
      {"input_shape", ToVector(i.operand(0)->shape().dims())},
      {"kernel_shape", ToVector(i.operand(1)->shape().dims())},
      {"output_shape", ToVector(i.shape().dims())},
      {"input_layout", layout(dims.input_batch, dims.input_feature, dims.input_spatial)},
      {"kernel_layout", layout(dims.kernel_input, dims.kernel_output, dims.kernel_spatial)},
      {"output_layout", layout(dims.output_batch, dims.output_feature, dims.output_spatial)},
      {"strides", strides},
      {"pads", pads},
      {"base_dilation", base},
      {"window_dilation", dilation},
      {"reversal", reversal},
      {"feature_groups", attrs.feature_group_count},
      {"batch_groups", attrs.batch_group_count}};
  AddPrecision(cx, i, attrs.operand_precision, attrs.algorithm, list);
  steps.push_back(Routine(cx, "convolution", i, std::move(list)));
  return {};
}

// Of the calls that are householder_qr and householder_product: the factors of reflections.
const Shape& TausOf(const Instruction& call, bool product) {
  return product ? call.operand(1)->shape() : call.shape().tuple_element(1);
}

bool IsHouseholderProduct(const Instruction& call) {
  return call.attrs<hlo::CustomCallAttrs>().custom_call_target ==
         "ProductOfElementaryHouseholderReflectors";
}

Decision MatchHouseholder(Subject& subject) {
  const Instruction& call = subject.instruction;
  bool product = IsHouseholderProduct(call);
  if (!product && call.attrs<hlo::CustomCallAttrs>().custom_call_target != "Qr") {
    return Refuse("it is another call");
  }
  if (call.operand_count() != (product ? 2 : 1)) return Refuse("it has other operands");
  const Shape& a = call.operand(0)->shape();
  if (!a.IsArray() || a.rank() < 2 || a.elements() == 0 || TausOf(call, product).elements() == 0) {
    return Refuse("there are no reflections");
  }
  return Take("the library has reflections");
}

Status LowerHouseholder(Subject& subject) {
  const Instruction& call = subject.instruction;
  bool product = IsHouseholderProduct(call);
  const Shape &a = call.operand(0)->shape(), &taus = TausOf(call, product);
  int64_t m = a.dim(a.rank() - 2), n = a.dim(a.rank() - 1);
  std::vector<Attr> list = {{"m", m}, {"n", n}, {"batch", a.elements() / (m * n)}};
  if (product) list.push_back({"k", taus.dim(taus.rank() - 1)});
  subject.steps.push_back(Routine(subject.cx, product ? "householder_product" : "householder_qr",
                                  call, std::move(list)));
  return {};
}

Status LowerCustomCall(Subject& subject) {
  const Instruction& i = subject.instruction;
  const auto& attrs = i.attrs<hlo::CustomCallAttrs>();
  Step step =
      Routine(subject.cx, "custom_call", i, {{"target", attrs.custom_call_target}, {"id", i.id()}});
  std::get<program::LibraryStep>(step.op).has_effects = attrs.custom_call_has_side_effect;
  subject.steps.push_back(std::move(step));
  return {};
}

}  // namespace

extern constinit const LoweringRow kFft = {"library FFT", {HloOp::kFft}, MatchRoutine, LowerFft};
extern constinit const LoweringRow kTopK = {
    "library top-k", {HloOp::kTopK}, MatchRoutine, LowerTopK};
extern constinit const LoweringRow kRng = {
    "random numbers", {HloOp::kRng, HloOp::kRngGetAndUpdateState}, MatchRoutine, LowerRng};
extern constinit const LoweringRow kRngBitGenerator = {
    "random bits", {HloOp::kRngBitGenerator}, MatchRoutine, LowerRngBitGenerator};
extern constinit const LoweringRow kConvolution = {
    "library convolution", {HloOp::kConvolution}, MatchRoutine, LowerConvolution};
extern constinit const LoweringRow kHouseholder = {
    "Householder reflections", {HloOp::kCustomCall}, MatchHouseholder, LowerHouseholder};
extern constinit const LoweringRow kCustomCall = {
    "custom call", {HloOp::kCustomCall}, MatchRoutine, LowerCustomCall};

}  // namespace weft::compiler
