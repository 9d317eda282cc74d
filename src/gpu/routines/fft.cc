// fft by cuFFT.
#include "base/mutex.h"
#include "base/str.h"
#include "gpu/library_text.h"
#include "gpu/routines/gemm.h"
#include "gpu/routines/kernels.h"
#include "gpu/routines/ways.h"
#include "program/library.h"

namespace weft::gpu {
namespace {

// As kernels/fft.cu declares it.
struct HalfSpectrum {
  int64_t elements, outer, middle, columns, even;
};

class FftByCufft : public PreparedRoutine {
 public:
  explicit FftByCufft(const Cufft& cufft) : cufft_(cufft) {}
  ~FftByCufft() override {
    if (plan_ >= 0) cufft_.Destroy(plan_);
  }
  Status Prepare(const RoutineInputs& inputs);
  Status Enqueue(const RoutineCall& call) const override;
  int64_t scratch_bytes() const override { return scratch_.bytes(); }

 private:
  Status MakePlan(int type, std::vector<long long> lengths, int64_t batch);
  Status PrepareHermitian(const RoutineInputs& inputs, const std::vector<int64_t>& lengths);
  Status ToWhole(const RoutineCall& call, std::byte* half) const;

  const Cufft& cufft_;
  int plan_ = -1, type_ = kCufftC2C, direction_ = -1;
  std::string described_;
  bool is_double_ = false;
  double factor_ = 1;                // of inverse transforms
  RoutineKernel hermitian_, scale_;  // one of them, or none
  // irfft of several dimensions: cuFFT 12 fails to execute plans from complex to real ones, so the
  // whole spectrum is transformed.
  RoutineKernel whole_, real_;
  int64_t spectrum_ = -1, length_ = 0;
  HalfSpectrum half_ = {};
  int64_t reals_ = 0;  // of the result
  int64_t input_ = -1, workspace_ = 0;
  ScratchPlan scratch_;
  mutable Mutex mutex_;  // a plan has one stream and one work area at a time
};

Status FftByCufft::MakePlan(int type, std::vector<long long> lengths, int64_t batch) {
  TRY(cufft_.Check(cufft_.Create(&plan_), described_));
  TRY(cufft_.Check(cufft_.SetAutoAllocation(plan_, 0), described_));
  size_t bytes = 0;
  int code = cufft_.MakePlan(plan_, static_cast<int>(lengths.size()), lengths.data(), nullptr, 1, 0,
                             nullptr, 1, 0, type, batch, &bytes);
  if (Status status = cufft_.Check(code, described_); !status) {
    return Unimplemented(status.error().message());
  }
  workspace_ = scratch_.Add(static_cast<int64_t>(bytes));
  return {};
}

Status FftByCufft::PrepareHermitian(const RoutineInputs& inputs,
                                    const std::vector<int64_t>& lengths) {
  size_t rank = lengths.size();
  half_ = {inputs.elements(0), rank > 2 ? lengths[0] : 1, rank > 1 ? lengths[rank - 2] : 1,
           lengths.back() / 2 + 1, lengths.back() % 2 == 0};
  std::string_view real = is_double_ ? "f64" : "f32";
  std::string text =
      StrCat(kFftText, "extern \"C\" __global__ void hermitian(const Cx<", real, ">* in, Cx<", real,
             ">* out, HalfSpectrum f, ", real, " by) {\n  TakeHermitian(in, out, f, by);\n}\n");
  hermitian_ = TRY(MakeKernel(inputs, text, "hermitian"));
  input_ = scratch_.Add(inputs.step.uses[0].slice.size);
  if (rank == 1) return {};
  text =
      StrCat(kFftText, "extern \"C\" __global__ void whole(const Cx<", real, ">* half, Cx<", real,
             ">* out, HalfSpectrum f, s64 length) {\n  TakeWhole(half, out, f, length);\n}\n");
  whole_ = TRY(MakeKernel(inputs, text, "whole"));
  text = StrCat(kFftText, "extern \"C\" __global__ void reals(const Cx<", real, ">* in, ", real,
                "* out, s64 n) {\n  TakeReal(in, out, n);\n}\n");
  real_ = TRY(MakeKernel(inputs, text, "reals"));
  length_ = lengths.back();
  reals_ = inputs.elements(1);
  spectrum_ = scratch_.Add(2 * inputs.step.uses[1].slice.size);
  return {};
}

Status FftByCufft::ToWhole(const RoutineCall& call, std::byte* half) const {
  HalfSpectrum whole = half_;
  whole.elements = reals_;
  return LaunchWith(call, whole_, BlocksFor(reals_), kRoutineThreads, half,
                    call.scratch + spectrum_, whole, length_);
}

Status FftByCufft::Prepare(const RoutineInputs& inputs) {
  const program::LibraryStep& call = inputs.call();
  std::string_view type = StringAttr(call, "type", "");
  const std::vector<int64_t>& lengths = *IntsAttr(call, "lengths");
  int64_t batch = IntAttr(call, "batch", 1);
  is_double_ = RealType(inputs.type(0)) == DType::kF64;
  described_ = StrCat(type, " of ", batch, " x ", StrJoin(lengths, " x "));
  bool to_real = type == "irfft" && lengths.size() == 1;
  int kind = type == "rfft" ? kCufftR2C : to_real ? kCufftC2R : kCufftC2C;
  if (is_double_) kind += kCufftDouble;
  type_ = kind;
  TRY(MakePlan(kind, {lengths.begin(), lengths.end()}, batch));
  if (type == "ifft" || type == "irfft") {
    direction_ = 1;
    for (int64_t n : lengths) factor_ /= static_cast<double>(n);
  }
  if (type == "irfft") return PrepareHermitian(inputs, lengths);
  if (type != "ifft") return {};
  reals_ = 2 * inputs.elements(1);
  std::string_view real = is_double_ ? "f64" : "f32";
  std::string text = StrCat(kFftText, "extern \"C\" __global__ void scale(", real, "* x, s64 n, ",
                            real, " by) {\n  ScaleAll(x, n, by);\n}\n");
  scale_ = TRY(MakeKernel(inputs, text, "scale"));
  return {};
}

Status FftByCufft::Enqueue(const RoutineCall& call) const {
  std::byte *in = call.memory[0], *out = call.memory[1];
  auto single = static_cast<float>(factor_);
  if (input_ >= 0) {
    // The transform overwrites its input.
    std::byte* copy = call.scratch + input_;
    int64_t blocks = BlocksFor(half_.elements);
    TRY(is_double_
            ? LaunchWith(call, hermitian_, blocks, kRoutineThreads, in, copy, half_, factor_)
            : LaunchWith(call, hermitian_, blocks, kRoutineThreads, in, copy, half_, single));
    in = copy;
  }
  if (spectrum_ >= 0) {
    TRY(ToWhole(call, in));
    in = out = call.scratch + spectrum_;
  }
  {
    MutexLock lock(mutex_);
    TRY(cufft_.Check(cufft_.SetStream(plan_, call.stream.handle()), described_));
    TRY(cufft_.Check(cufft_.SetWorkArea(plan_, call.scratch + workspace_), described_));
    TRY(cufft_.Check(cufft_.Execute(plan_, type_, in, out, direction_), described_));
  }
  if (spectrum_ >= 0) {
    return LaunchWith(call, real_, BlocksFor(reals_), kRoutineThreads, out, call.memory[1], reals_);
  }
  if (scale_.function == nullptr) return {};
  int64_t blocks = BlocksFor(reals_);
  return is_double_ ? LaunchWith(call, scale_, blocks, kRoutineThreads, out, reals_, factor_)
                    : LaunchWith(call, scale_, blocks, kRoutineThreads, out, reals_, single);
}

}  // namespace

Result<PreparedPtr> PrepareCufft(const RoutineInputs& inputs) {
  if (inputs.elements(0) == 0 || inputs.elements(1) == 0) return NothingToDo();
  auto fft = std::make_unique<FftByCufft>(*TRY(inputs.libraries.cufft()));
  TRY(fft->Prepare(inputs));
  return fft;
}

}  // namespace weft::gpu
