// convolution by cuDNN: forward, by the input (dgrad: holes in the input) or by the kernel (wgrad:
// a window larger than the result). Kernels are brought into the order that the library takes.
#include "gpu/routines/convolution_cudnn.h"

#include <algorithm>
#include <numeric>

#include "base/str.h"
#include "gpu/routines/gemm.h"
#include "gpu/routines/permute.h"
#include "gpu/routines/ways.h"
#include "program/library.h"

namespace weft::gpu {

using Dims = DnnProblem::Dims;

namespace {

constexpr int64_t kMostConvWorkspace = int64_t{1} << 30;

// What has to be padded behind, for so many positions; -1: no padding does that.
int64_t PostPadding(int64_t in, int64_t pre, int64_t extent, int64_t stride, int64_t out) {
  auto gives = [&](int64_t post) {
    int64_t room = in + pre + post - extent;
    return room >= 0 && room / stride + 1 == out;
  };
  if (gives(pre)) return pre;  // more engines take padding that is the same on both sides
  if (gives(0)) return 0;
  int64_t least = (out - 1) * stride + extent - in - pre;
  return least >= 0 && gives(least) ? least : -1;
}

}  // namespace

Result<DnnProblem> DnnProblemOf(const program::ConvolutionForm& f) {
  if (f.axes.empty() || f.axes.size() > 3) return Unimplemented(f.axes.size(), " dimensions");
  int64_t positions = 1, taps = 1;
  bool holes = false, strided = false, reversed = f.axes[0].reversal;
  for (const auto& a : f.axes) {
    positions *= a.out;
    taps *= a.window;
    holes |= a.base_dilation > 1;
    strided |= a.stride > 1;
    if (a.reversal != reversed) return Unimplemented("some dimensions are reversed");
  }
  DnnProblem p;
  if (holes) {
    if (strided || f.batch_groups > 1) return Unimplemented("holes with strides or batch groups");
    int64_t per = f.out_features / f.feature_groups;
    p.operation = kDnnBackwardData;
    p.y = {f.batch_in, f.in_features}, p.y_strides = {f.in_batch_stride, f.in_feature_stride};
    p.x = {f.batch, f.out_features}, p.x_strides = {f.out_batch_stride, f.out_feature_stride};
    p.w = {f.in_features, per}, p.w_strides = {f.kernel_in_stride, f.kernel_out_stride};
    p.groups = f.feature_groups, p.per_group = f.kernel_in;
    p.group_stride = per * f.kernel_out_stride;
    p.flipped = !reversed;
    p.uses[0] = 2, p.uses[1] = 1, p.uses[2] = 0;
  } else if (taps > positions && f.feature_groups == 1 && !reversed) {
    p.operation = kDnnBackwardFilter;
    p.x = {f.in_features, f.batch_in}, p.x_strides = {f.in_feature_stride, f.in_batch_stride};
    p.y = {f.kernel_in, f.kernel_out}, p.y_strides = {f.kernel_in_stride, f.kernel_out_stride};
    p.w = {f.out_features, f.batch}, p.w_strides = {f.out_feature_stride, f.out_batch_stride};
    p.uses[0] = 0, p.uses[1] = 2, p.uses[2] = 1;
  } else {
    if (f.batch_groups > 1) return Unimplemented("batch groups");
    p.x = {f.batch_in, f.in_features}, p.x_strides = {f.in_batch_stride, f.in_feature_stride};
    p.y = {f.batch, f.out_features}, p.y_strides = {f.out_batch_stride, f.out_feature_stride};
    p.w = {f.kernel_out, f.kernel_in}, p.w_strides = {f.kernel_out_stride, f.kernel_in_stride};
    p.flipped = reversed;
    p.uses[0] = 0, p.uses[1] = 1, p.uses[2] = 2;
  }
  bool forward = p.operation == kDnnForward, filter = p.operation == kDnnBackwardFilter;
  auto add = [&](int64_t in, int64_t in_stride, int64_t out, int64_t out_stride, int64_t window,
                 int64_t window_stride) {
    p.x.push_back(in), p.x_strides.push_back(in_stride);
    p.y.push_back(out), p.y_strides.push_back(out_stride);
    p.w.push_back(window), p.w_strides.push_back(window_stride);
  };
  for (const auto& a : f.axes) {
    int64_t pad = a.pad;
    if (forward) {
      add(a.in, a.in_stride, a.out, a.out_stride, a.window, a.window_stride);
      p.strides.push_back(a.stride), p.dilations.push_back(a.window_dilation);
    } else if (filter) {
      add(a.in, a.in_stride, a.window, a.window_stride, a.out, a.out_stride);
      p.strides.push_back(a.window_dilation), p.dilations.push_back(a.stride);
    } else {
      add(a.out, a.out_stride, a.in, a.in_stride, a.window, a.window_stride);
      p.strides.push_back(a.base_dilation), p.dilations.push_back(a.window_dilation);
      pad = (a.window - 1) * a.window_dilation - a.pad;
    }
    int64_t extent = (p.w.back() - 1) * p.dilations.back() + 1;
    int64_t post = PostPadding(p.x.back(), pad, extent, p.strides.back(), p.y.back());
    if (pad < 0 || post < 0) return Unimplemented("padding of ", pad, " and ", post);
    p.pre.push_back(pad), p.post.push_back(post);
  }
  if (f.axes.size() > 1) return p;
  // The library has two spatial dimensions at least: one of size 1 comes first.
  auto widen = [](Dims& dims, Dims& strides) {
    strides.insert(strides.begin() + 2, dims[2] * strides[2]);
    dims.insert(dims.begin() + 2, 1);
  };
  widen(p.x, p.x_strides), widen(p.y, p.y_strides), widen(p.w, p.w_strides);
  for (Dims* ones : {&p.strides, &p.dilations}) ones->insert(ones->begin(), 1);
  for (Dims* zeros : {&p.pre, &p.post}) zeros->insert(zeros->begin(), 0);
  return p;
}

namespace {

class ConvolutionByCudnn : public PreparedRoutine {
 public:
  ConvolutionByCudnn(const Cudnn& dnn, DnnProblem problem) : dnn_(dnn), p_(std::move(problem)) {}
  Status Prepare(const RoutineInputs& inputs);
  Status Enqueue(const RoutineCall& call) const override;
  int64_t scratch_bytes() const override { return scratch_.bytes(); }

 private:
  Status PrepareKernel(const RoutineInputs& inputs);
  Status MakeGraph(const RoutineInputs& inputs);
  Status ChoosePlan(bool exact);
  Status TryPlans(int mode, bool exact);
  bool Allowed(const CudnnObject& config, bool exact) const;
  CudnnObject MakeTensor(int64_t id, const RoutineInputs& inputs, const Dims& dims,
                         const Dims& strides);

  const Cudnn& dnn_;
  const DnnProblem p_;
  std::string described_;
  Dims packed_;          // strides of w as the library sees it
  PermuteStep permute_;  // of w, before or behind
  int64_t w_at_ = -1, workspace_ = 0, workspace_bytes_ = 0;
  ScratchPlan scratch_;
  CudnnObject tensors_[3], convolution_, operation_, graph_, config_, plan_;
};

// w as [feature of y][spatial][feature of x] where the images are so, else with the features of x
// before the spatial dimensions.
Status ConvolutionByCudnn::PrepareKernel(const RoutineInputs& inputs) {
  size_t rank = p_.w.size();
  bool last = p_.x_strides[1] == 1 && p_.x[1] > 1;
  std::vector<size_t> order = {0};
  if (!last) order.push_back(1);
  for (size_t d = 2; d < rank; ++d) order.push_back(d);
  if (last) order.push_back(1);
  packed_.assign(rank, 1);
  for (size_t i = rank - 1; i-- > 0;) {
    packed_[order[i]] = packed_[order[i + 1]] * p_.w[order[i + 1]];
  }
  std::vector<PermutedDim> dims;
  int64_t from = 0;
  bool same = !p_.flipped && p_.groups == 1;
  for (size_t d = 0; d < rank; ++d) {
    bool flip = p_.flipped && d >= 2;
    if (flip) from += (p_.w[d] - 1) * p_.w_strides[d];
    same &= p_.w[d] == 1 || p_.w_strides[d] == packed_[d];
    if (d == 0 && p_.groups > 1) {
      dims.push_back({p_.groups, p_.group_stride, p_.per_group * packed_[0]});
      dims.push_back({p_.per_group, p_.w_strides[0], packed_[0]});
      continue;
    }
    dims.push_back({p_.w[d], flip ? -p_.w_strides[d] : p_.w_strides[d], packed_[d]});
  }
  if (same) return {};
  DType dtype = inputs.type(static_cast<size_t>(p_.uses[1]));
  if (p_.operation == kDnnBackwardFilter) {
    for (PermutedDim& d : dims) std::swap(d.in, d.out);
  }
  permute_ = TRY(MakePermute(inputs, dtype, dims, from));
  w_at_ = scratch_.Add(permute_.elements * ByteWidth(dtype));
  return {};
}

CudnnObject ConvolutionByCudnn::MakeTensor(int64_t id, const RoutineInputs& inputs,
                                           const Dims& dims, const Dims& strides) {
  auto use = static_cast<size_t>(p_.uses[id - 1]);
  int64_t align = id == 2 && w_at_ >= 0 ? 256 : inputs.alignment(use);
  CudnnObject tensor(dnn_, kDnnTensor);
  tensor.Set(kDnnTensorDataType, kDnnDataType, *CudnnDataType(inputs.type(use)))
      .Set(kDnnTensorDimensions, dims)
      .Set(kDnnTensorStrides, strides)
      .Set(kDnnTensorId, kDnnInt64, id)
      .Set(kDnnTensorAlignment, kDnnInt64, align);
  return tensor;
}

Status ConvolutionByCudnn::MakeGraph(const RoutineInputs& inputs) {
  tensors_[0] = MakeTensor(1, inputs, p_.x, p_.x_strides);
  tensors_[1] = MakeTensor(2, inputs, p_.w, packed_);
  tensors_[2] = MakeTensor(3, inputs, p_.y, p_.y_strides);
  for (CudnnObject& tensor : tensors_) TRY(tensor.Finish(described_));
  bool wide = inputs.type(0) == DType::kF64;
  int compute = *CudnnDataType(wide ? DType::kF64 : DType::kF32);
  constexpr int kCrossCorrelation = 1;
  convolution_ = CudnnObject(dnn_, kDnnConvolution);
  convolution_.Set(kDnnConvolutionCompute, kDnnDataType, compute)
      .Set(kDnnConvolutionConvMode, kDnnConvolutionMode, kCrossCorrelation)
      .Set(kDnnConvolutionSpatialDims, kDnnInt64, std::ssize(p_.strides))
      .Set(kDnnConvolutionStrides, p_.strides)
      .Set(kDnnConvolutionDilations, p_.dilations)
      .Set(kDnnConvolutionPrePaddings, p_.pre)
      .Set(kDnnConvolutionPostPaddings, p_.post);
  TRY(convolution_.Finish(described_));
  operation_ = CudnnObject(dnn_, p_.operation);
  // Attributes of the three operations: alpha, beta, convolution, then w x y, w dx dy, dw x dy.
  int first = p_.operation == kDnnForward        ? kDnnForwardFirst
              : p_.operation == kDnnBackwardData ? kDnnBackwardDataFirst
                                                 : kDnnBackwardFilterFirst;
  double one = 1, zero = 0;
  float single_one = 1, single_zero = 0;
  if (wide) {
    operation_.Set(first, kDnnDouble, one).Set(first + 1, kDnnDouble, zero);
  } else {
    operation_.Set(first, kDnnFloat, single_one).Set(first + 1, kDnnFloat, single_zero);
  }
  operation_.Set(first + 2, convolution_)
      .Set(first + 3, tensors_[1])
      .Set(first + 4, tensors_[0])
      .Set(first + 5, tensors_[2]);
  TRY(operation_.Finish(described_));
  graph_ = CudnnObject(dnn_, kDnnGraph);
  graph_.Set(kDnnGraphOperations, operation_).Set(kDnnGraphHandle, kDnnHandle, dnn_.handle());
  return graph_.Finish(described_);
}

// Same bits in every run; and full f32 where that is asked for.
bool ConvolutionByCudnn::Allowed(const CudnnObject& config, bool exact) const {
  CudnnObject engine(dnn_, kDnnEngine);
  void* at = engine.get();
  int64_t count = 0;
  if (dnn_.GetAttribute(config.get(), kDnnEngineConfigEngine, kDnnDescriptor, 1, &count, &at) !=
      0) {
    return false;
  }
  int notes[kDnnNoteCount] = {};
  if (dnn_.GetAttribute(engine.get(), kDnnEngineNumericalNote, kDnnNumericalNote, kDnnNoteCount,
                        &count, notes) != 0) {
    return false;
  }
  for (int64_t i = 0; i < count; ++i) {
    if (notes[i] == kDnnNoteNondeterministic || notes[i] == kDnnNoteReducedReduction) return false;
    bool rounds = notes[i] == kDnnNoteTensorCore || notes[i] == kDnnNoteDownConvert ||
                  notes[i] == kDnnNoteFft || notes[i] == kDnnNoteWinograd;
    if (exact && rounds) return false;
  }
  return true;
}

Status ConvolutionByCudnn::TryPlans(int mode, bool exact) {
  CudnnObject heuristic(dnn_, kDnnHeuristic);
  heuristic.Set(kDnnHeuristicGraph, graph_).Set(kDnnHeuristicModeOf, kDnnHeuristicMode, mode);
  TRY(heuristic.Finish(described_));
  constexpr int64_t kMostConfigs = 16;
  std::vector<CudnnObject> configs;
  std::vector<void*> pointers;
  for (int64_t i = 0; i < kMostConfigs; ++i) {
    configs.emplace_back(dnn_, kDnnEngineConfig);
    pointers.push_back(configs.back().get());
  }
  int64_t count = 0;
  TRY(dnn_.Check(dnn_.GetAttribute(heuristic.get(), kDnnHeuristicResults, kDnnDescriptor,
                                   kMostConfigs, &count, pointers.data()),
                 described_));
  for (int64_t i = 0; i < std::min(count, kMostConfigs); ++i) {
    CudnnObject& config = configs[static_cast<size_t>(i)];
    if (!Allowed(config, exact)) continue;
    CudnnObject plan(dnn_, kDnnPlan);
    plan.Set(kDnnPlanHandle, kDnnHandle, dnn_.handle()).Set(kDnnPlanEngineConfig, config);
    if (!plan.Finish(described_)) continue;
    int64_t bytes = 0, got = 0;
    dnn_.GetAttribute(plan.get(), kDnnPlanWorkspace, kDnnInt64, 1, &got, &bytes);
    if (bytes > kMostConvWorkspace) continue;
    config_ = std::move(config);
    plan_ = std::move(plan);
    workspace_bytes_ = bytes;
    return {};
  }
  return Unimplemented(described_, ": no engine of ", count);
}

Status ConvolutionByCudnn::ChoosePlan(bool exact) {
  constexpr int kModeA = 3, kModeFallback = 2;
  if (TryPlans(kModeA, exact)) return {};
  return TryPlans(kModeFallback, exact);
}

Status ConvolutionByCudnn::Prepare(const RoutineInputs& inputs) {
  const char* kind = p_.operation == kDnnForward        ? "forward "
                     : p_.operation == kDnnBackwardData ? "dgrad "
                                                        : "wgrad ";
  described_ = StrCat("convolution ", kind, StrJoin(p_.x, " x "), " by ", StrJoin(p_.w, " x "));
  TRY(PrepareKernel(inputs));
  bool f32 = inputs.type(0) == DType::kF32;
  bool exact = f32 && StringAttr(inputs.call(), "precision", "highest") == "highest";
  Status status = MakeGraph(inputs);
  if (status) status = ChoosePlan(exact);
  if (!status) return Unimplemented(status.error().message());
  workspace_ = scratch_.Add(workspace_bytes_);
  return {};
}

Status ConvolutionByCudnn::Enqueue(const RoutineCall& call) const {
  std::byte* w = call.memory[static_cast<size_t>(p_.uses[1])];
  std::byte* packed = w_at_ < 0 ? w : call.scratch + w_at_;
  bool filter = p_.operation == kDnnBackwardFilter;
  if (!filter) TRY(permute_.Enqueue(call, w, packed));
  void* pointers[] = {call.memory[static_cast<size_t>(p_.uses[0])], packed,
                      call.memory[static_cast<size_t>(p_.uses[2])]};
  void* workspace = call.scratch + workspace_;
  CudnnObject pack(dnn_, kDnnVariantPack);
  pack.Set(kDnnPackIds, Dims{1, 2, 3})
      .SetMany(kDnnPackPointers, kDnnPointer, 3, pointers)
      .Set(kDnnPackWorkspace, kDnnPointer, workspace);
  TRY(pack.Finish(described_));
  TRY(dnn_.Run(plan_.get(), pack.get(), call.stream.handle(), described_));
  return filter ? permute_.Enqueue(call, packed, w) : Status();
}

}  // namespace

Result<PreparedPtr> PrepareCudnnConvolution(const RoutineInputs& inputs) {
  for (size_t i = 0; i < 3; ++i) {
    if (inputs.elements(i) == 0) return Unimplemented("nothing to convolve");
    if (!CudnnDataType(inputs.type(i)) || inputs.type(i) != inputs.type(0)) {
      return Unimplemented("types ", Name(inputs.type(0)), ", ", Name(inputs.type(1)), " and ",
                           Name(inputs.type(2)));
    }
  }
  DnnProblem problem = TRY(DnnProblemOf(program::ConvolutionFormOf(inputs.call())));
  const Cudnn* dnn = TRY(inputs.libraries.cudnn());
  auto convolution = std::make_unique<ConvolutionByCudnn>(*dnn, std::move(problem));
  TRY(convolution->Prepare(inputs));
  return convolution;
}

}  // namespace weft::gpu
