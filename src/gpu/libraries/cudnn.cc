#include "gpu/libraries/cudnn.h"

#include <algorithm>

#include "base/str.h"

namespace weft::gpu {

std::optional<int> CudnnDataType(DType dtype) {
  switch (dtype) {
    case DType::kF32: return 0;
    case DType::kF64: return 1;
    case DType::kF16: return 2;
    case DType::kBF16: return 9;
    default: return std::nullopt;
  }
}

Status Cudnn::FindAll() {
  WEFT_CUDNN_FUNCTIONS(WEFT_FIND_SYMBOL)
  error_string_ = reinterpret_cast<decltype(error_string_)>(library_->Find("cudnnGetErrorString"));
  version_ = reinterpret_cast<decltype(version_)>(library_->Find("cudnnGetVersion"));
  return {};
}

Result<std::unique_ptr<Cudnn>> Cudnn::Load(std::span<const std::string> folders) {
  static constexpr std::string_view kNames[] = {"libcudnn.so.9", "libcudnn_graph.so.9"};
  auto dnn = std::unique_ptr<Cudnn>(new Cudnn);
  dnn->library_ = TRY(DynamicLibrary::Open(kNames, folders));
  TRY(dnn->FindAll());
  TRY(dnn->Check(dnn->Create(&dnn->handle_), "create"));
  return dnn;
}

Cudnn::~Cudnn() {
  if (handle_ != nullptr) Destroy(handle_);
}

Status Cudnn::Check(int code, std::string_view what) const {
  if (code == 0) return {};
  std::string name = error_string_ != nullptr ? error_string_(code) : StrCat("status ", code);
  return MakeError(Code::kInternal, "cuDNN: ", what, ": ", name);
}

Status Cudnn::Run(void* plan, void* pack, void* stream, std::string_view what) const {
  MutexLock lock(mutex_);
  TRY(Check(SetStream(handle_, stream), what));
  return Check(Execute(handle_, plan, pack), what);
}

namespace {

constexpr int64_t kMostConfigs = 16;  // that heuristics are asked for
constexpr int64_t kMostDnnWorkspace = int64_t{1} << 30;

// Same bits in every run; and full f32 where that is asked for.
bool IsAllowed(const Cudnn& dnn, const CudnnObject& config, bool exact) {
  CudnnObject engine(dnn, kDnnEngine);
  void* at = engine.get();
  int64_t count = 0;
  if (dnn.GetAttribute(config.get(), kDnnEngineConfigEngine, kDnnDescriptor, 1, &count, &at) != 0) {
    return false;
  }
  int notes[kDnnNoteCount] = {};
  if (dnn.GetAttribute(engine.get(), kDnnEngineNumericalNote, kDnnNumericalNote, kDnnNoteCount,
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

}  // namespace

Result<std::vector<CudnnPlan>> MakeCudnnPlans(const Cudnn& dnn, const CudnnObject& graph,
                                              const CudnnPlanning& how, const std::string& what) {
  CudnnObject heuristic(dnn, kDnnHeuristic);
  heuristic.Set(kDnnHeuristicGraph, graph).Set(kDnnHeuristicModeOf, kDnnHeuristicMode, how.mode);
  TRY(heuristic.Finish(what));
  std::vector<CudnnObject> configs;
  std::vector<void*> pointers;
  for (int64_t i = 0; i < kMostConfigs; ++i) {
    configs.emplace_back(dnn, kDnnEngineConfig);
    pointers.push_back(configs.back().get());
  }
  int64_t count = 0;
  TRY(dnn.Check(dnn.GetAttribute(heuristic.get(), kDnnHeuristicResults, kDnnDescriptor,
                                 kMostConfigs, &count, pointers.data()),
                what));
  std::vector<CudnnPlan> plans;
  for (int64_t i = 0; i < std::min(count, kMostConfigs) && plans.size() < how.most; ++i) {
    CudnnObject& config = configs[static_cast<size_t>(i)];
    if (!IsAllowed(dnn, config, how.exact)) continue;
    CudnnObject plan(dnn, kDnnPlan);
    plan.Set(kDnnPlanHandle, kDnnHandle, dnn.handle()).Set(kDnnPlanEngineConfig, config);
    if (!plan.Finish(what)) continue;
    int64_t bytes = 0, got = 0;
    dnn.GetAttribute(plan.get(), kDnnPlanWorkspace, kDnnInt64, 1, &got, &bytes);
    if (bytes > kMostDnnWorkspace) continue;
    plans.push_back({std::move(config), std::move(plan), bytes});
  }
  if (plans.empty()) return Unimplemented(what, ": no engine of ", count);
  return plans;
}

}  // namespace weft::gpu
