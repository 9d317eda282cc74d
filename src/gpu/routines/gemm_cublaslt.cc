// gemm by cuBLASLt. Matrices here are row-major and there column-major: c^T = op(b)^T op(a)^T.
// Types that the library does not multiply are converted before and behind, where that is exact.
#include <algorithm>
#include <optional>

#include "base/str.h"
#include "gpu/routines/convert.h"
#include "gpu/routines/gemm.h"
#include "gpu/routines/kernels.h"
#include "gpu/routines/library_epilogue.h"
#include "gpu/routines/tune.h"
#include "gpu/routines/ways.h"

namespace weft::gpu {
namespace {

constexpr int kMostAlgorithms = 8;                       // that are tried
constexpr uint64_t kMostWorkspace = uint64_t{32} << 20;  // what NVIDIA recommends for Hopper

// What the library is asked to multiply.
struct LtTypes {
  DType a, b, c;
  int compute, scale;
  bool fast_accumulation = false;
};

bool IsSmallFloat(DType t) {
  return IsFloat(t) && BitWidth(t) <= 8;
}

// Types to try, in order.
std::vector<LtTypes> TypesFor(const RoutineInputs& inputs, const GemmForm& form) {
  DType a = inputs.type(0), b = inputs.type(1), c = inputs.type(2);
  bool exact = form.precision == "highest";
  int f32 = exact                      ? kCublasComputeF32
            : form.precision == "bf16" ? kCublasComputeBf16
                                       : kCublasComputeTf32;
  if (IsComplex(c)) {
    return {{a, b, c, c == DType::kC64 ? f32 : kCublasComputeF64, *CudaDataType(c)}};
  }
  if (!IsFloat(c)) {
    if (a != DType::kS8 || b != DType::kS8 || c != DType::kS32) return {};
    return {{a, b, c, kCublasComputeS32, *CudaDataType(c)}};
  }
  if (c == DType::kF64) return {{c, c, c, kCublasComputeF64, *CudaDataType(c)}};
  std::vector<LtTypes> types;
  int scale = *CudaDataType(DType::kF32);
  auto add = [&](DType operand_a, DType operand_b, int compute, bool fast) {
    bool direct = c == DType::kF32 || c == operand_a ||
                  (BitWidth(operand_a) == 8 && (c == DType::kBF16 || c == DType::kF16));
    if (IsSmallFloat(c)) direct = false;
    types.push_back({operand_a, operand_b, direct ? c : DType::kF32, compute, scale, fast});
  };
  bool narrow = CudaDataType(a) && CudaDataType(b) && IsSmallFloat(a) && IsSmallFloat(b);
  // Hopper multiplies 8 bits along rows of both only.
  if (narrow && !form.trans_a && form.trans_b) {
    add(a, b, kCublasComputeF32, form.precision == "fast_accum");
  }
  bool to_bf16 = (IsSmallFloat(a) || a == DType::kBF16) && (IsSmallFloat(b) || b == DType::kBF16);
  if (to_bf16) {
    add(DType::kBF16, DType::kBF16, kCublasComputeF32, false);
  } else if (a == b && a == DType::kF16) {
    add(a, b, kCublasComputeF32, false);
  } else {
    // Numbers of 16 bits and less are what they are in TF32, but for bf16 beyond f16's range,
    // which TF32 has too.
    bool short_operands = BitWidth(a) <= 16 && BitWidth(b) <= 16;
    add(DType::kF32, DType::kF32, short_operands ? kCublasComputeTf32 : f32, false);
  }
  return types;
}

class CublasLtGemm : public PreparedRoutine {
 public:
  CublasLtGemm(const CublasLt& lt, const GemmForm& form, const LtTypes& types)
      : lt_(lt), form_(form), types_(types) {}
  // Before it is prepared.
  void Fuse(const LibraryEpilogue& epilogue, int64_t alignment) {
    epilogue_ = epilogue, added_alignment_ = alignment;
    if (has_residual()) form_.beta = 1;
  }
  ~CublasLtGemm() override {
    for (void* layout : layouts_) {
      if (layout != nullptr) lt_.LayoutDestroy(layout);
    }
    if (operation_ != nullptr) lt_.OperationDestroy(operation_);
  }
  CublasLtGemm(const CublasLtGemm&) = delete;
  CublasLtGemm& operator=(const CublasLtGemm&) = delete;

  Status Prepare(const RoutineInputs& inputs);
  bool capturable() const override { return true; }
  Status Enqueue(const RoutineCall& call) const override;
  int64_t scratch_bytes() const override { return scratch_.bytes(); }

 private:
  Status MakeLayout(int which, DType dtype, int64_t rows, int64_t columns,
                    const std::optional<MatrixView>& view);
  void SplitBatch();
  Result<std::vector<CublasLtHeuristic>> Recommended(const RoutineInputs& inputs) const;
  Status Choose(const RoutineInputs& inputs);
  TuneRequest TuningOf(const RoutineInputs& inputs) const;
  Status Multiply(const RoutineCall& call, const CublasLtHeuristic& choice) const;
  Result<void*> MakeOperation(const std::byte* bias) const;
  bool has_bias() const { return epilogue_.added >= 0 && epilogue_.by_column; }
  bool has_residual() const { return epilogue_.added >= 0 && !epilogue_.by_column; }
  std::string Described() const {
    return StrCat("gemm ", form_.ToString(), " of ", Name(types_.a), ", ", Name(types_.b), " to ",
                  Name(types_.c), epilogue_.any() ? " with " : "",
                  epilogue_.any() ? epilogue_.name() : "");
  }

  const CublasLt& lt_;
  GemmForm form_;
  const LtTypes types_;
  void *operation_ = nullptr, *layouts_[3] = {};  // of a, b, c
  // The batch of a call, and the calls: one, or where a batch has two levels one for each of the
  // fewer, for which operands begin so many bytes behind each other.
  int64_t batch_ = 1, calls_ = 1, between_[3] = {}, inner_count_ = 1;
  CublasLtHeuristic choice_ = {};
  LibraryEpilogue epilogue_;
  int64_t added_alignment_ = 0;
  Conversion before_[3], after_;
  int64_t places_[3] = {-1, -1, -1}, workspace_ = 0;  // in the scratch memory; -1: as it is
  ScratchPlan scratch_;
};

void CublasLtGemm::SplitBatch() {
  batch_ = inner_count_ = form_.batch;
  for (const auto* view : {&form_.a_view, &form_.b_view}) {
    if (*view) inner_count_ = (*view)->inner_count;
  }
  calls_ = std::min(inner_count_, form_.batch / inner_count_);
  batch_ = form_.batch / calls_;
}

Status CublasLtGemm::MakeLayout(int which, DType dtype, int64_t rows, int64_t columns,
                                const std::optional<MatrixView>& view) {
  // Row-major rows x columns.
  TRY(lt_.Check(
      lt_.LayoutCreate(&layouts_[which], *CudaDataType(dtype), static_cast<uint64_t>(columns),
                       static_cast<uint64_t>(rows), view ? view->row : columns),
      Described()));
  if (form_.batch == 1) return {};
  auto count = static_cast<int32_t>(batch_);
  int64_t inner = view ? view->inner : rows * columns;
  int64_t outer = view ? view->outer : inner * inner_count_;
  bool calls_inner = calls_ > 1 && calls_ == inner_count_;
  int64_t stride = calls_ == 1 || !calls_inner ? inner : outer;
  between_[which] = (calls_inner ? inner : outer) * ByteWidth(dtype);
  TRY(lt_.Check(lt_.LayoutSet(layouts_[which], kLtLayoutBatchCount, &count, sizeof(count)),
                Described()));
  return lt_.Check(lt_.LayoutSet(layouts_[which], kLtLayoutBatchStride, &stride, sizeof(stride)),
                   Described());
}

// Algorithms, the one that the library takes for the best first.
Result<std::vector<CublasLtHeuristic>> CublasLtGemm::Recommended(
    const RoutineInputs& inputs) const {
  void* preference = nullptr;
  TRY(lt_.Check(lt_.PreferenceCreate(&preference), Described()));
  auto set = [&](int attribute, auto value) {
    lt_.PreferenceSet(preference, attribute, &value, sizeof(value));
  };
  auto align = [&](size_t use) {
    int64_t bytes = places_[use] >= 0 ? 256 : inputs.alignment(use);
    while (calls_ > 1 && between_[use] % bytes != 0) bytes /= 2;
    return static_cast<uint32_t>(bytes);
  };
  set(kLtPreferenceWorkspace, kMostWorkspace);
  set(kLtPreferenceReductions, kLtReduceInComputeType);
  set(kLtPreferenceAlignA, align(1));
  set(kLtPreferenceAlignB, align(0));
  set(kLtPreferenceAlignC, has_residual() ? static_cast<uint32_t>(added_alignment_) : align(2));
  set(kLtPreferenceAlignD, align(2));
  int found = 0;
  std::vector<CublasLtHeuristic> all(kMostAlgorithms);
  int code = lt_.GetHeuristic(lt_.handle(), operation_, layouts_[1], layouts_[0], layouts_[2],
                              layouts_[2], preference, kMostAlgorithms, all.data(), &found);
  lt_.PreferenceDestroy(preference);
  all.resize(static_cast<size_t>(code == 0 ? found : 0));
  if (!all.empty()) code = all[0].state;
  std::erase_if(all, [](const CublasLtHeuristic& h) { return h.state != 0; });
  if (code == 0 && !all.empty()) return all;
  Status status = lt_.Check(code == 0 ? 15 : code, Described());  // 15: not supported
  return Unimplemented(status.error().message());
}

TuneRequest CublasLtGemm::TuningOf(const RoutineInputs& inputs) const {
  TuneRequest request;
  request.key = StrCat("cuBLASLt ", lt_.version(), ": ", Described(), form_.trans_a ? ", a^T" : "",
                       form_.trans_b ? ", b^T" : "", ", ", types_.compute, ", ", form_.precision,
                       ", ", added_alignment_);
  for (size_t i = 0; i < 3; ++i) {
    request.operands.push_back({inputs.type(i), inputs.step.uses[i].slice.size});
    StrAppend(request.key, ", ", inputs.alignment(i));
  }
  request.result = 2;
  auto number = [](int64_t x) { return static_cast<double>(x); };
  double bytes = number(request.operands[0].bytes) + number(request.operands[1].bytes) +
                 number(request.operands[2].bytes);
  double flops = 2 * number(form_.m) * number(form_.n) * number(form_.k) * number(form_.batch);
  request.seconds = std::max(bytes / inputs.core.target.bytes_per_second,
                             flops / inputs.core.target.bf16_matrix_flops);
  if (epilogue_.added >= 0) {  // behind the uses that come before it
    request.operands.resize(3 + static_cast<size_t>(epilogue_.added), {DType::kU8, 0});
    request.operands.push_back(
        {types_.c, has_bias() ? form_.n * ByteWidth(types_.c) : request.operands[2].bytes});
  }
  return request;
}

Status CublasLtGemm::Choose(const RoutineInputs& inputs) {
  std::vector<CublasLtHeuristic> all = TRY(Recommended(inputs));
  choice_ = all[0];
  // Operands that are converted, or lie apart, are not tried: small ones, or few calls.
  bool plain = std::ranges::all_of(places_, [](int64_t at) { return at < 0; }) && calls_ == 1 &&
               IsFloat(types_.a) && BitWidth(types_.a) >= 16 &&
               (form_.beta == 0 || has_residual()) && !form_.a_view && !form_.b_view;
  TuneRequest request = TuningOf(inputs);
  request.keeps_nan = epilogue_.relu;
  if (!plain && epilogue_.relu) return Unimplemented(Described(), ": ReLU of what is not tried");
  if (!plain) return {};
  request.candidates = std::ssize(all);
  for (const CublasLtHeuristic& h : all) {
    request.scratch_bytes = std::max(request.scratch_bytes, static_cast<int64_t>(h.workspace));
  }
  request.run = [&](int64_t candidate, const RoutineCall& call) {
    return Multiply(call, all[static_cast<size_t>(candidate)]);
  };
  choice_ = all[static_cast<size_t>(TRY(FastestOf(inputs, request)))];
  return {};
}

// A description has the address of the bias: one for each call then.
Result<void*> CublasLtGemm::MakeOperation(const std::byte* bias) const {
  void* operation = nullptr;
  TRY(lt_.Check(lt_.OperationCreate(&operation, types_.compute, types_.scale), Described()));
  int code = 0;
  auto set = [&](int attribute, auto value) {
    if (code == 0) code = lt_.OperationSet(operation, attribute, &value, sizeof(value));
  };
  set(kLtOperationTransA, int32_t{form_.trans_b});
  set(kLtOperationTransB, int32_t{form_.trans_a});
  if (types_.fast_accumulation) set(kLtOperationFastAccumulation, int8_t{1});
  int32_t kinds = (epilogue_.relu ? kLtEpilogueRelu : 0) | (has_bias() ? kLtEpilogueBias : 0);
  if (kinds != 0) set(kLtOperationEpilogue, kinds);
  if (has_bias()) set(kLtOperationBiasPointer, bias);
  Status status = lt_.Check(code, Described());
  if (status) return operation;
  lt_.OperationDestroy(operation);
  return std::unexpected(status.error());
}

Status CublasLtGemm::Prepare(const RoutineInputs& inputs) {
  const DType wanted[3] = {types_.a, types_.b, types_.c};
  for (size_t i = 0; i < 3; ++i) {
    if (inputs.type(i) == wanted[i]) continue;
    if (epilogue_.any() && i == 2) return Unimplemented(Described(), ": a result of another type");
    places_[i] = scratch_.Add(inputs.elements(i) * ByteWidth(wanted[i]));
    if (i < 2 || form_.beta != 0) {
      before_[i] = TRY(MakeConversion(inputs, inputs.type(i), wanted[i], inputs.elements(i)));
    }
    if (i == 2) after_ = TRY(MakeConversion(inputs, wanted[i], inputs.type(i), inputs.elements(i)));
  }
  // The choice of an algorithm asks for some address of the bias, and looks at its alignment only.
  operation_ = TRY(MakeOperation(reinterpret_cast<const std::byte*>(added_alignment_)));
  const GemmForm& f = form_;
  SplitBatch();
  if (calls_ > 1 && epilogue_.any()) return Unimplemented(Described(), ": in several calls");
  TRY(MakeLayout(0, types_.a, f.trans_a ? f.k : f.m, f.trans_a ? f.m : f.k, f.a_view));
  TRY(MakeLayout(1, types_.b, f.trans_b ? f.n : f.k, f.trans_b ? f.k : f.n, f.b_view));
  TRY(MakeLayout(2, types_.c, f.m, f.n, std::nullopt));
  TRY(Choose(inputs));
  workspace_ = scratch_.Add(static_cast<int64_t>(choice_.workspace));
  return {};
}

Status CublasLtGemm::Enqueue(const RoutineCall& call) const {
  return Multiply(call, choice_);
}

Status CublasLtGemm::Multiply(const RoutineCall& call, const CublasLtHeuristic& choice) const {
  std::byte* at[3];
  for (size_t i = 0; i < 3; ++i) {
    at[i] = places_[i] < 0 ? call.memory[i] : call.scratch + places_[i];
    TRY(before_[i].Enqueue(call, call.memory[i], at[i]));
  }
  // Factors of the scale type, complex ones with an imaginary part of 0.
  float alpha_f32[2] = {static_cast<float>(form_.alpha), 0};
  float beta_f32[2] = {static_cast<float>(form_.beta), 0};
  double alpha_f64[2] = {form_.alpha, 0}, beta_f64[2] = {form_.beta, 0};
  auto alpha_s32 = static_cast<int32_t>(form_.alpha), beta_s32 = static_cast<int32_t>(form_.beta);
  const void *alpha = alpha_f32, *beta = beta_f32;
  if (types_.compute == kCublasComputeF64) alpha = alpha_f64, beta = beta_f64;
  if (types_.compute == kCublasComputeS32) alpha = &alpha_s32, beta = &beta_s32;
  const std::byte *a = at[0], *b = at[1];
  std::byte* c = at[2];
  const std::byte* added =
      epilogue_.added < 0 ? nullptr : call.memory[3 + static_cast<size_t>(epilogue_.added)];
  void* operation = has_bias() ? TRY(MakeOperation(added)) : operation_;
  int code = 0;
  for (int64_t i = 0; i < calls_ && code == 0; ++i) {
    code = lt_.Matmul(lt_.handle(), operation, alpha, b, layouts_[1], a, layouts_[0], beta,
                      has_residual() ? added : c, layouts_[2], c, layouts_[2], &choice.algorithm,
                      call.scratch + workspace_, choice.workspace, call.stream.handle());
    a += between_[0], b += between_[1], c += between_[2];
  }
  if (operation != operation_) lt_.OperationDestroy(operation);
  TRY(lt_.Check(code, Described()));
  return after_.Enqueue(call, at[2], call.memory[2]);
}

// `epilogue`: nothing behind it if null; `alignment`: of what that reads.
Result<PreparedPtr> PrepareLtGemm(const RoutineInputs& inputs, const GemmForm& form,
                                  const LibraryEpilogue* epilogue, int64_t alignment) {
  if (form.empty()) return NothingToDo();
  if (form.k == 0) return Unimplemented("a sum of nothing");
  if (form.batch > INT32_MAX) return Unimplemented("a batch of ", form.batch);
  std::vector<LtTypes> all = TypesFor(inputs, form);
  if (all.empty()) {
    return Unimplemented("no products of ", Name(inputs.type(0)), " and ", Name(inputs.type(1)));
  }
  const CublasLt* lt = TRY(inputs.libraries.cublaslt());
  Status last;
  for (const LtTypes& types : all) {
    auto gemm = std::make_unique<CublasLtGemm>(*lt, form, types);
    if (epilogue != nullptr) gemm->Fuse(*epilogue, alignment);
    last = gemm->Prepare(inputs);
    if (last) return gemm;
    if (last.error().code() != Code::kUnimplemented) break;
  }
  return std::unexpected(last.error());
}

}  // namespace

Result<PreparedPtr> PrepareCublasLtGemm(const RoutineInputs& inputs) {
  return PrepareLtGemm(inputs, GemmFormOf(inputs.call()), nullptr, 0);
}

// Its ReLU has to let NaN stay NaN, as HLO's maximum does: algorithms for 16 bits do (seen on an
// H200), those for f32 do not, so they are asked (tune.h). Of 16 bits the product is not
// rounded before it is added to: closer to the exact sum, by less than the product may be off.
Result<PreparedPtr> PrepareCublasLtGemmWithEpilogue(const RoutineInputs& inputs,
                                                    const program::Step& next) {
  GemmForm form = GemmFormOf(inputs.call());
  LibraryEpilogue epilogue = TRY(LibraryEpilogueBehind(inputs, next, form.n));
  if (form.empty() || form.beta != 0 || !IsFloat(inputs.type(2))) {
    return Unimplemented("a product that has no epilogue");
  }
  int64_t alignment =
      epilogue.added < 0 ? 0 : inputs.alignment(next.uses[static_cast<size_t>(epilogue.added)]);
  return PrepareLtGemm(inputs, form, &epilogue, alignment);
}

}  // namespace weft::gpu
