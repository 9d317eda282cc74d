// convolution by cuDNN: forward, by the input (dgrad: holes in the input) or by the kernel (wgrad:
// a window larger than the result). Kernels are brought into the order that the library takes.
#include "gpu/routines/convolution_cudnn.h"

#include <algorithm>
#include <numeric>

#include "base/str.h"
#include "gpu/routines/gemm.h"
#include "gpu/routines/library_epilogue.h"
#include "gpu/routines/permute.h"
#include "gpu/routines/tune.h"
#include "gpu/routines/ways.h"
#include "program/library.h"

namespace weft::gpu {

namespace {

using Dims = DnnProblem::Dims;

constexpr size_t kMostPlans = 2;  // that are tried: making one takes 0.3 s

class ConvolutionByCudnn : public PreparedRoutine {
 public:
  ConvolutionByCudnn(const Cudnn& dnn, DnnProblem problem) : dnn_(dnn), p_(std::move(problem)) {}
  // Before it is prepared. `alignment`: of what the epilogue adds.
  void Fuse(const LibraryEpilogue& epilogue, int64_t alignment) {
    epilogue_ = epilogue, added_alignment_ = alignment;
  }
  Status Prepare(const RoutineInputs& inputs);
  Status Enqueue(const RoutineCall& call) const override;
  int64_t scratch_bytes() const override { return scratch_.bytes(); }

 private:
  Status PrepareKernel(const RoutineInputs& inputs);
  Status MakeConvolution(const RoutineInputs& inputs, const CudnnObject& result);
  Status MakeEpilogue(const RoutineInputs& inputs);
  Status AddPointwise(int mode, const CudnnObject* other, CudnnObject to);
  Status MakeGraph(const RoutineInputs& inputs);
  double SecondsAtBest(const RoutineInputs& inputs) const;
  TuneRequest TuningOf(const RoutineInputs& inputs, bool exact) const;
  Status ChoosePlan(const RoutineInputs& inputs, bool exact);
  Status Convolve(const RoutineCall& call, const CudnnPlan& plan) const;
  CudnnObject MakeTensor(int64_t id, const RoutineInputs& inputs, const Dims& dims,
                         const Dims& strides);
  CudnnObject MakeVirtual(int64_t id) const;
  CudnnObject MakeAdded(DType dtype) const;

  const Cudnn& dnn_;
  const DnnProblem p_;
  std::string described_;
  Dims packed_;          // strides of w as the library sees it
  PermuteStep permute_;  // of w, before or behind
  int64_t w_at_ = -1, workspace_ = 0;
  ScratchPlan scratch_;
  LibraryEpilogue epilogue_;
  int64_t added_alignment_ = 0;
  CudnnObject tensors_[3], convolution_, graph_;
  CudnnPlan plan_;
  CudnnObject added_;                     // what the epilogue reads
  std::vector<CudnnObject> steps_;        // the convolution, then what is done to each element
  std::vector<CudnnObject> descriptors_;  // of those
  std::vector<CudnnObject> between_;      // what they leave to the next one
};

// Numbers of tensors; those of operands are 1 to 3.
constexpr int64_t kAddedId = 4, kFirstVirtualId = 5;

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

// A result that is kept in registers, as it is computed.
CudnnObject ConvolutionByCudnn::MakeVirtual(int64_t id) const {
  CudnnObject tensor(dnn_, kDnnTensor);
  tensor.Set(kDnnTensorDataType, kDnnDataType, *CudnnDataType(DType::kF32))
      .Set(kDnnTensorDimensions, p_.y)
      .Set(kDnnTensorStrides, p_.y_strides)
      .Set(kDnnTensorId, kDnnInt64, id)
      .Set(kDnnTensorAlignment, kDnnInt64, int64_t{16})
      .Set(kDnnTensorVirtual, kDnnBoolean, true);
  return tensor;
}

CudnnObject ConvolutionByCudnn::MakeAdded(DType dtype) const {
  Dims dims = p_.y, strides = p_.y_strides;
  if (epilogue_.by_column) {  // one number a feature
    dims.assign(p_.y.size(), 1), strides.assign(p_.y.size(), p_.y[1]);
    dims[1] = p_.y[1], strides[1] = 1;
  }
  CudnnObject tensor(dnn_, kDnnTensor);
  tensor.Set(kDnnTensorDataType, kDnnDataType, *CudnnDataType(dtype))
      .Set(kDnnTensorDimensions, dims)
      .Set(kDnnTensorStrides, strides)
      .Set(kDnnTensorId, kDnnInt64, kAddedId)
      .Set(kDnnTensorAlignment, kDnnInt64, added_alignment_);
  return tensor;
}

// One more operation on the last result; `to`: where it goes, the step's own result if empty.
Status ConvolutionByCudnn::AddPointwise(int mode, const CudnnObject* other, CudnnObject to) {
  constexpr int kPropagateNan = 1;
  CudnnObject pointwise(dnn_, kDnnPointwise);
  pointwise.Set(kDnnPointwiseModeOf, kDnnPointwiseMode, mode)
      .Set(kDnnPointwiseCompute, kDnnDataType, *CudnnDataType(DType::kF32));
  if (mode == kDnnRelu) pointwise.Set(kDnnPointwiseNan, kDnnNanPropagation, kPropagateNan);
  TRY(pointwise.Finish(described_));
  CudnnObject operation(dnn_, kDnnPointwiseOperation);
  operation.Set(kDnnPointwiseOf, pointwise).Set(kDnnPointwiseX, between_.back());
  if (other != nullptr) operation.Set(kDnnPointwiseB, *other);
  if (to.get() == nullptr) {
    operation.Set(kDnnPointwiseY, tensors_[2]);
  } else {
    TRY(to.Finish(described_));
    operation.Set(kDnnPointwiseY, to);
    between_.push_back(std::move(to));
  }
  TRY(operation.Finish(described_));
  descriptors_.push_back(std::move(pointwise));
  steps_.push_back(std::move(operation));
  return {};
}

Status ConvolutionByCudnn::MakeEpilogue(const RoutineInputs& inputs) {
  if (epilogue_.added >= 0) {
    added_ = MakeAdded(inputs.type(2));
    TRY(added_.Finish(described_));
    TRY(AddPointwise(kDnnAdd, &added_,
                     epilogue_.relu ? MakeVirtual(kFirstVirtualId + 1) : CudnnObject()));
  }
  return epilogue_.relu ? AddPointwise(kDnnRelu, nullptr, CudnnObject()) : Status();
}

Status ConvolutionByCudnn::MakeGraph(const RoutineInputs& inputs) {
  tensors_[0] = MakeTensor(1, inputs, p_.x, p_.x_strides);
  tensors_[1] = MakeTensor(2, inputs, p_.w, packed_);
  tensors_[2] = MakeTensor(3, inputs, p_.y, p_.y_strides);
  for (CudnnObject& tensor : tensors_) TRY(tensor.Finish(described_));
  if (epilogue_.any()) {
    between_.push_back(MakeVirtual(kFirstVirtualId));
    TRY(between_.back().Finish(described_));
  }
  TRY(MakeConvolution(inputs, epilogue_.any() ? between_.back() : tensors_[2]));
  TRY(MakeEpilogue(inputs));
  std::vector<void*> operations;
  for (const CudnnObject& step : steps_) operations.push_back(step.get());
  graph_ = CudnnObject(dnn_, kDnnGraph);
  graph_.SetMany(kDnnGraphOperations, kDnnDescriptor, std::ssize(operations), operations.data())
      .Set(kDnnGraphHandle, kDnnHandle, dnn_.handle());
  return graph_.Finish(described_);
}

Status ConvolutionByCudnn::MakeConvolution(const RoutineInputs& inputs, const CudnnObject& result) {
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
  CudnnObject operation(dnn_, p_.operation);
  // Attributes of the three operations: alpha, beta, convolution, then w x y, w dx dy, dw x dy.
  int first = p_.operation == kDnnForward        ? kDnnForwardFirst
              : p_.operation == kDnnBackwardData ? kDnnBackwardDataFirst
                                                 : kDnnBackwardFilterFirst;
  double one = 1, zero = 0;
  float single_one = 1, single_zero = 0;
  if (wide) {
    operation.Set(first, kDnnDouble, one).Set(first + 1, kDnnDouble, zero);
  } else {
    operation.Set(first, kDnnFloat, single_one).Set(first + 1, kDnnFloat, single_zero);
  }
  operation.Set(first + 2, convolution_)
      .Set(first + 3, tensors_[1])
      .Set(first + 4, tensors_[0])
      .Set(first + 5, result);
  TRY(operation.Finish(described_));
  steps_.push_back(std::move(operation));
  return {};
}

double ConvolutionByCudnn::SecondsAtBest(const RoutineInputs& inputs) const {
  double bytes = 0, flops = 2;
  for (const program::Use& use : inputs.step.uses) bytes += static_cast<double>(use.slice.size);
  for (int64_t size : p_.y) flops *= static_cast<double>(size);
  for (size_t d = 1; d < p_.w.size(); ++d) flops *= static_cast<double>(p_.w[d]);
  return std::max(bytes / inputs.core.target.bytes_per_second,
                  flops / inputs.core.target.bf16_matrix_flops);
}

TuneRequest ConvolutionByCudnn::TuningOf(const RoutineInputs& inputs, bool exact) const {
  TuneRequest request;
  request.seconds = SecondsAtBest(inputs);
  request.keeps_nan = epilogue_.relu;
  request.key = StrCat("cuDNN ", dnn_.version(), ": ", described_, ", ", Name(inputs.type(0)),
                       exact ? " f32, " : ", ", added_alignment_);
  for (const Dims* dims : {&p_.strides, &p_.dilations, &p_.pre, &p_.x_strides, &p_.y_strides}) {
    StrAppend(request.key, ", ", StrJoin(*dims, " x "));
  }
  for (size_t i = 0; i < 3; ++i) {
    request.operands.push_back({inputs.type(i), inputs.step.uses[i].slice.size});
    StrAppend(request.key, ", ", inputs.alignment(i));
  }
  request.result = static_cast<size_t>(p_.operation == kDnnForward        ? p_.uses[2]
                                       : p_.operation == kDnnBackwardData ? p_.uses[0]
                                                                          : p_.uses[1]);
  if (epilogue_.added >= 0) {  // behind the uses that come before it
    int64_t bytes =
        epilogue_.by_column ? p_.y[1] * ByteWidth(inputs.type(2)) : request.operands[2].bytes;
    request.operands.resize(3 + static_cast<size_t>(epilogue_.added), {DType::kU8, 0});
    request.operands.push_back({inputs.type(2), bytes});
  }
  return request;
}

Status ConvolutionByCudnn::ChoosePlan(const RoutineInputs& inputs, bool exact) {
  TuneRequest request = TuningOf(inputs, exact);
  size_t most = IsWorthTuning(inputs, request.seconds) ? kMostPlans : 1;
  if (auto known = KnownChoice(inputs, request)) {  // no more than that one are made
    if (*known == kNoChoice) return Unimplemented(described_, ": ReLU makes 0 of NaN");
    most = static_cast<size_t>(*known) + 1;
  }
  auto plans = MakeCudnnPlans(dnn_, graph_, {kDnnHeuristicA, exact, most}, described_);
  if (!plans) plans = MakeCudnnPlans(dnn_, graph_, {kDnnHeuristicFallback, exact, 1}, described_);
  if (!plans) return std::unexpected(plans.error());
  workspace_ = scratch_.bytes();
  request.candidates = std::ssize(*plans);
  for (const CudnnPlan& plan : *plans) {
    request.scratch_bytes = std::max(request.scratch_bytes, workspace_ + plan.workspace_bytes);
  }
  request.run = [&](int64_t candidate, const RoutineCall& call) {
    return Convolve(call, (*plans)[static_cast<size_t>(candidate)]);
  };
  plan_ = std::move((*plans)[static_cast<size_t>(TRY(FastestOf(inputs, request)))]);
  scratch_.Add(plan_.workspace_bytes);
  return {};
}

Status ConvolutionByCudnn::Prepare(const RoutineInputs& inputs) {
  const char* kind = p_.operation == kDnnForward        ? "forward "
                     : p_.operation == kDnnBackwardData ? "dgrad "
                                                        : "wgrad ";
  described_ = StrCat("convolution ", kind, StrJoin(p_.x, " x "), " by ", StrJoin(p_.w, " x "),
                      epilogue_.any() ? " with " : "", epilogue_.any() ? epilogue_.name() : "");
  TRY(PrepareKernel(inputs));
  bool f32 = inputs.type(0) == DType::kF32;
  bool exact = f32 && StringAttr(inputs.call(), "precision", "highest") == "highest";
  Status status = MakeGraph(inputs);
  if (status) status = ChoosePlan(inputs, exact);
  if (!status) return Unimplemented(status.error().message());
  return {};
}

Status ConvolutionByCudnn::Enqueue(const RoutineCall& call) const {
  return Convolve(call, plan_);
}

Status ConvolutionByCudnn::Convolve(const RoutineCall& call, const CudnnPlan& plan) const {
  std::byte* w = call.memory[static_cast<size_t>(p_.uses[1])];
  std::byte* packed = w_at_ < 0 ? w : call.scratch + w_at_;
  bool filter = p_.operation == kDnnBackwardFilter;
  if (!filter) TRY(permute_.Enqueue(call, w, packed));
  Dims ids = {1, 2, 3};
  std::vector<void*> pointers = {call.memory[static_cast<size_t>(p_.uses[0])], packed,
                                 call.memory[static_cast<size_t>(p_.uses[2])]};
  if (epilogue_.added >= 0) {
    ids.push_back(kAddedId);
    pointers.push_back(call.memory[3 + static_cast<size_t>(epilogue_.added)]);
  }
  void* workspace = call.scratch + workspace_;
  CudnnObject pack(dnn_, kDnnVariantPack);
  pack.Set(kDnnPackIds, ids)
      .SetMany(kDnnPackPointers, kDnnPointer, std::ssize(pointers), pointers.data())
      .Set(kDnnPackWorkspace, kDnnPointer, workspace);
  TRY(pack.Finish(described_));
  TRY(dnn_.Run(plan.plan.get(), pack.get(), call.stream.handle(), described_));
  return filter ? permute_.Enqueue(call, packed, w) : Status();
}

Result<DnnProblem> CudnnProblemOf(const RoutineInputs& inputs) {
  for (size_t i = 0; i < 3; ++i) {
    if (inputs.elements(i) == 0) return Unimplemented("nothing to convolve");
    if (!CudnnDataType(inputs.type(i)) || inputs.type(i) != inputs.type(0)) {
      return Unimplemented("types ", Name(inputs.type(0)), ", ", Name(inputs.type(1)), " and ",
                           Name(inputs.type(2)));
    }
  }
  return DnnProblemOf(program::ConvolutionFormOf(inputs.call()));
}

}  // namespace

Result<PreparedPtr> PrepareCudnnConvolution(const RoutineInputs& inputs) {
  DnnProblem problem = TRY(CudnnProblemOf(inputs));
  const Cudnn* dnn = TRY(inputs.libraries.cudnn());
  auto convolution = std::make_unique<ConvolutionByCudnn>(*dnn, std::move(problem));
  TRY(convolution->Prepare(inputs));
  return convolution;
}

// Rounds as cuBLASLt with an epilogue does.
Result<PreparedPtr> PrepareCudnnConvolutionWithEpilogue(const RoutineInputs& inputs,
                                                        const program::Step& next) {
  DnnProblem problem = TRY(CudnnProblemOf(inputs));
  // Columns are features where these lie beside each other.
  int64_t columns = problem.y_strides[1] == 1 ? problem.y[1] : 0;
  LibraryEpilogue epilogue = TRY(LibraryEpilogueBehind(inputs, next, columns));
  if (problem.operation != kDnnForward || inputs.type(2) == DType::kF64) {
    return Unimplemented("a convolution that has no epilogue");
  }
  const Cudnn* dnn = TRY(inputs.libraries.cudnn());
  auto convolution = std::make_unique<ConvolutionByCudnn>(*dnn, std::move(problem));
  convolution->Fuse(
      epilogue,
      epilogue.added < 0 ? 0 : inputs.alignment(next.uses[static_cast<size_t>(epilogue.added)]));
  TRY(convolution->Prepare(inputs));
  return convolution;
}

}  // namespace weft::gpu
