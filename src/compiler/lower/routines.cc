// Ops that are calls of library routines: products, sorts, transforms, custom calls.
#include <algorithm>

#include "base/str.h"
#include "compiler/lower/lowering.h"
#include "compiler/lower/sort_order.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Access;
using program::Attr;
using program::Step;
using HloOp = hlo::Op;

namespace {

// Products below this many multiplications are loops of their own kernel.
constexpr int64_t kInlineDot = 16'384;

std::vector<int64_t> ToVector(const Dims& dims) {
  return {dims.begin(), dims.end()};
}

}  // namespace

Step Lowering::Routine(std::string name, const Instruction& instruction, std::vector<Attr> attrs) {
  Step step;
  step.op = program::LibraryStep{std::move(name), std::move(attrs), false};
  for (const Instruction* operand : instruction.operands()) {
    for (MemValue v : memory_.Leaves(*operand)) {
      if (v >= 0) step.uses.push_back(In(program_, Buffer(v)));
    }
  }
  for (MemValue v : memory_.Leaves(instruction)) {
    if (v >= 0) step.uses.push_back(Out(program_, Buffer(v)));
  }
  step.name = instruction.name();
  step.source = instruction.SourceLocation();
  return step;
}

// canonicalize-dots leaves [batch..., m, k] x [batch..., k, n], either side possibly transposed.
Status Lowering::LowerDot(const Instruction& dot, Steps& steps) {
  const auto& attrs = dot.attrs<hlo::DotAttrs>();
  const Shape &lhs = dot.operand(0)->shape(), &rhs = dot.operand(1)->shape();
  int64_t batch_rank = static_cast<int64_t>(attrs.lhs_batch_dims.size());
  bool canonical = attrs.lhs_contracting_dims.size() == 1;
  for (int64_t i = 0; i < batch_rank; ++i) {
    canonical &= attrs.lhs_batch_dims[static_cast<size_t>(i)] == i &&
                 attrs.rhs_batch_dims[static_cast<size_t>(i)] == i;
  }
  int64_t lhs_free = lhs.rank() - batch_rank - 1, rhs_free = rhs.rank() - batch_rank - 1;
  canonical &= lhs_free >= 0 && lhs_free <= 1 && rhs_free >= 0 && rhs_free <= 1;
  if (!canonical) return LowerKernel(dot, steps);
  int64_t k_dim = attrs.lhs_contracting_dims[0], r_dim = attrs.rhs_contracting_dims[0];
  int64_t k = lhs.dim(k_dim), batch = 1;
  for (int64_t i = 0; i < batch_rank; ++i) batch *= lhs.dim(i);
  bool trans_a = lhs_free == 1 && k_dim == batch_rank;
  bool trans_b = rhs_free == 1 && r_dim == batch_rank + 1;
  int64_t m = lhs_free == 1 ? lhs.dim(trans_a ? batch_rank + 1 : batch_rank) : 1;
  int64_t n = rhs_free == 1 ? rhs.dim(trans_b ? batch_rank : batch_rank + 1) : 1;
  DotSizes sizes{batch, m, n, k, trans_a, trans_b};
  if (DotLanes along = LanesOfDot(dot, sizes); along != DotLanes::kNone) {
    return LowerDotInLanes(dot, sizes, along, steps);
  }
  if (IsLongDot(dot, sizes)) return LowerLongDot(dot, sizes, steps);
  bool vectors = batch > 1 && (m == 1 || n == 1) && m * n * k <= kInlineDot;
  if (vectors && LiesAlongContraction(dot, sizes)) {
    return LowerDotAlongContraction(dot, sizes, steps);
  }
  if (serial_ || batch * m * n * k <= kInlineDot || dot.shape().dtype() == DType::kPred) {
    if (LiesAlongContraction(dot, sizes)) return LowerDotAlongContraction(dot, sizes, steps);
    if (LiesAlongColumns(dot, sizes)) return LowerDotAlongColumns(dot, sizes, steps);
    return LowerKernel(dot, steps);
  }
  std::vector<Attr> list = {{"m", m}, {"n", n}, {"k", k}};
  if (batch > 1) list.push_back({"batch", batch});
  if (trans_a) list.push_back({"trans_a", true});
  if (trans_b) list.push_back({"trans_b", true});
  steps.push_back(Routine("gemm", dot, std::move(list)));
  return {};
}

// The keys come first, in the order of their significance.
Status Lowering::LowerOrderedSort(const Instruction& sort, const SortOrder& order,
                                  std::vector<Attr> list, Steps& steps) {
  std::vector<int64_t> operands = order.keys;
  for (int64_t i = 0; i < sort.operand_count(); ++i) {
    if (std::find(operands.begin(), operands.end(), i) == operands.end()) operands.push_back(i);
  }
  if (order.descending) list.push_back({"order", std::string("desc")});
  if (order.keys.size() > 1) list.push_back({"keys", static_cast<int64_t>(order.keys.size())});
  if (order.zeros_equal) list.push_back({"zeros_equal", true});
  if (order.nans_equal) list.push_back({"nans_equal", true});
  Step step = Routine("sort", sort, std::move(list));
  step.uses.clear();
  for (int64_t i : operands) {
    step.uses.push_back(In(program_, Buffer(memory_.Leaf(*sort.operand(i)))));
  }
  for (int64_t i : operands) step.uses.push_back(Out(program_, Buffer(memory_.Leaf(sort, i))));
  steps.push_back(std::move(step));
  return {};
}

Status Lowering::LowerSort(const Instruction& sort, Steps& steps) {
  const auto& attrs = sort.attrs<hlo::SortAttrs>();
  const Shape& shape = sort.operand(0)->shape();
  int64_t dim = attrs.dimensions[0], outer = 1, inner = 1;
  for (int64_t d = 0; d < dim; ++d) outer *= shape.dim(d);
  for (int64_t d = dim + 1; d < shape.rank(); ++d) inner *= shape.dim(d);
  std::vector<Attr> list = {{"n", shape.dim(dim)}, {"outer", outer}, {"inner", inner}};
  if (shape.elements() == 0) return {};
  if (IsFewSorted(sort)) return LowerFewSorted(sort, steps);
  const hlo::Computation& compare = *attrs.to_apply;
  if (std::optional<SortOrder> order = OrderOfComparator(compare)) {
    return LowerOrderedSort(sort, *order, std::move(list), steps);
  }
  // The comparator as a kernel of one element each.
  KernelBuilder b(StrCat(sort.name(), ".compare"));
  b.ReuseValues();
  std::vector<Element> args;
  std::vector<KernelBuilder::MemoryId> memory;
  for (const Instruction* p : compare.parameters()) {
    DType type = p->shape().dtype();
    memory.push_back(b.Param(StrCat("x", p->parameter_number()), RealType(type),
                             IsComplex(type) ? 2 : 1, Access::kRead));
  }
  KernelBuilder::MemoryId out = b.Param("before", DType::kPred, 1, Access::kWrite);
  ElementEmitter e(b);
  for (size_t i = 0; i < memory.size(); ++i) {
    args.push_back(e.LoadAt(memory[i], compare.parameter(static_cast<int64_t>(i))->shape().dtype(),
                            e.Constant(0)));
  }
  Element before = TRY(e.Call(compare, args))[0];
  b.Store(out, b.Int(0), before.re);
  int32_t kernel = kernels_.Add(program_, std::move(b).Build());
  list.push_back({"comparator", program_.kernels[static_cast<size_t>(kernel)].name});
  steps.push_back(Routine("sort", sort, std::move(list)));
  return {};
}

// The calls that are householder_qr and householder_product.
std::optional<Step> Lowering::HouseholderStep(const Instruction& call) {
  const std::string& target = call.attrs<hlo::CustomCallAttrs>().custom_call_target;
  bool product = target == "ProductOfElementaryHouseholderReflectors";
  if ((!product && target != "Qr") || call.operand_count() != (product ? 2 : 1)) {
    return std::nullopt;
  }
  const Shape& a = call.operand(0)->shape();
  const Shape& taus = product ? call.operand(1)->shape() : call.shape().tuple_element(1);
  if (!a.IsArray() || a.rank() < 2 || a.elements() == 0 || taus.elements() == 0) {
    return std::nullopt;
  }
  int64_t m = a.dim(a.rank() - 2), n = a.dim(a.rank() - 1);
  std::vector<Attr> list = {{"m", m}, {"n", n}, {"batch", a.elements() / (m * n)}};
  if (product) list.push_back({"k", taus.dim(taus.rank() - 1)});
  return Routine(product ? "householder_product" : "householder_qr", call, std::move(list));
}

Status Lowering::LowerRoutine(const Instruction& i, Steps& steps) {
  switch (i.op()) {
    case HloOp::kFft: {
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
      steps.push_back(Routine("fft", i,
                              {{"type", std::string(kTypes[static_cast<int>(attrs.fft_type)])},
                               {"lengths", lengths},
                               {"batch", batch}}));
      return {};
    }
    case HloOp::kTopK: {
      if (IsFewSorted(i)) return LowerFewSorted(i, steps);
      const auto& attrs = i.attrs<hlo::TopKAttrs>();
      const Shape& from = i.operand(0)->shape();
      int64_t n = from.dim(from.rank() - 1);
      steps.push_back(Routine(
          "topk", i,
          {{"rows", from.elements() / n}, {"n", n}, {"k", attrs.k}, {"largest", attrs.largest}}));
      return {};
    }
    case HloOp::kRng:
    case HloOp::kRngGetAndUpdateState: {
      if (random_counter_ < 0) {
        random_counter_ = Scratch(Shape::Scalar(DType::kU64), "random_counter");
      }
      std::string kind = "bits";
      if (i.op() == HloOp::kRng) {
        bool normal = i.attrs<hlo::RngAttrs>().distribution == hlo::Distribution::kNormal;
        kind = normal ? "normal" : "uniform";
      }
      Step step = Routine("rng", i, {{"distribution", kind}});
      // A third operand repeats the shape.
      if (step.uses.size() > 3) step.uses.erase(step.uses.begin() + 2, step.uses.end() - 1);
      program::Use counter = In(program_, random_counter_);
      counter.access = Access::kReadWrite;
      step.uses.insert(step.uses.begin(), counter);
      steps.push_back(std::move(step));
      return {};
    }
    case HloOp::kRngBitGenerator: {
      static constexpr const char* kNames[] = {"default", "three_fry", "philox"};
      const auto& attrs = i.attrs<hlo::RngBitGeneratorAttrs>();
      bool alone = !i.shape().IsTuple();  // the bits, without the next state
      const Shape& bits = alone ? i.shape() : i.shape().tuple_element(1);
      Step step = Routine("rng_bit_generator", i,
                          {{"dims", ToVector(bits.dims())},
                           {"algorithm", std::string(kNames[static_cast<int>(attrs.algorithm)])}});
      if (alone) {
        program::BufferId next = Scratch(i.operand(0)->shape(), "next_state");
        step.uses.insert(step.uses.begin() + 1, Out(program_, next));
      }
      steps.push_back(std::move(step));
      return {};
    }
    case HloOp::kConvolution: {
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
      steps.push_back(Routine(
          "convolution", i,
          {{"input_shape", ToVector(i.operand(0)->shape().dims())},
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
           {"batch_groups", attrs.batch_group_count}}));
      return {};
    }
    case HloOp::kCustomCall: {
      const auto& attrs = i.attrs<hlo::CustomCallAttrs>();
      if (attrs.custom_call_target == "weft.lu") return LowerLu(i, steps);
      if (std::optional<Step> step = HouseholderStep(i)) {
        steps.push_back(std::move(*step));
        return {};
      }
      Step step = Routine("custom_call", i, {{"target", attrs.custom_call_target}, {"id", i.id()}});
      std::get<program::LibraryStep>(step.op).has_effects = attrs.custom_call_has_side_effect;
      steps.push_back(std::move(step));
      return {};
    }
    default: return Unimplemented(hlo::Mnemonic(i.op()), ": no native lowering");
  }
}

}  // namespace weft::compiler
