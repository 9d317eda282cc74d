// topk by selection: runs are sorted in shared memory, and of each only the first k go on.
#include <algorithm>
#include <bit>

#include "base/str.h"
#include "gpu/library_text.h"
#include "gpu/routines/kernels.h"
#include "gpu/routines/sort_text.h"

namespace weft::gpu {
namespace {

// Each stage leaves a part of the elements, so that all of them together take little more than the
// first.
constexpr int64_t kLeastShrink = 4;

// Elements of a row that are left when each run has given its first k.
int64_t KeptOf(int64_t n, int64_t k) {
  return n / kSortRun * k + std::min(k, n % kSortRun);
}

constexpr std::string_view kKeepText =
    "extern \"C\" __global__ void keep(const Order::Raw* x, const u32* numbers, const u32* perm, "
    "Rows "
    "s, s64 k, s64 kept, Order::Raw* y, u32* numbers_out) {\n"
    "  s64 at = s64(blockIdx.x) * blockDim.x + threadIdx.x;\n"
    "  if (at >= s.rows * kept) return;\n"
    "  s64 row = at / kept, i = at % kept, from = i / k * kRun + i % k;\n"
    "  u32 number = perm[row * s.n + from];\n"
    "  y[at] = x[row * s.n + number];\n"
    "  numbers_out[at] = numbers == 0 ? number : numbers[row * s.n + number];\n}\n";

class TopKBySelection : public PreparedRoutine {
 public:
  explicit TopKBySelection(const SortPlan& plan) : plan_(plan) {}
  bool capturable() const override { return true; }
  int64_t scratch_bytes() const override { return scratch_.bytes(); }

  Status Prepare(const RoutineInputs& inputs) {
    DType dtype = inputs.type(0);
    std::string text =
        StrCat(kSortText, PointersText(inputs, 1), KeyOrderText(plan_, "KeyOrder", dtype),
               "struct Order : KeyOrder { typedef ", StorageName(dtype), " Raw; };\n",
               "extern \"C\" __global__ void runs(const Order::Raw* x, Rows s, u32* perm) "
               "{\n  KeyOrder order = {x, s};\n  SortRuns(order, s, perm);\n}\n",
               kKeepText);
    runs_ = TRY(MakeKernel(inputs, text, "runs"));
    keep_ = TRY(MakeKernel(inputs, text, "keep"));
    int64_t kept = plan_.size.rows * KeptOf(plan_.size.n, plan_.k);
    perm_ = scratch_.Add(plan_.size.rows * plan_.size.n * 4);
    for (int64_t i = 0; i < 2; ++i) {
      values_[i] = scratch_.Add(kept * ByteWidth(dtype));
      numbers_[i] = scratch_.Add(kept * 4);
    }
    return {};
  }

  Status Enqueue(const RoutineCall& call) const override {
    SortRows rows = plan_.size;
    std::byte *x = call.memory[0], *numbers = nullptr, *perm = call.scratch + perm_;
    for (int64_t turn = 0;; turn ^= 1) {
      bool last = rows.n <= kSortRun;
      int64_t kept = last ? plan_.k : KeptOf(rows.n, plan_.k), k = plan_.k;
      std::byte* y = last ? call.memory[1] : call.scratch + values_[turn];
      std::byte* y_numbers = last ? call.memory[2] : call.scratch + numbers_[turn];
      int64_t threads = std::clamp<int64_t>(
          static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows.n))) / 2, 32, kSortRun / 2);
      TRY(LaunchWith(call, runs_, rows.rows * BlocksFor(rows.n, kSortRun), threads, x, rows, perm));
      TRY(LaunchWith(call, keep_, BlocksFor(rows.rows * kept), kRoutineThreads, x, numbers, perm,
                     rows, k, kept, y, y_numbers));
      if (last) return {};
      x = y, numbers = y_numbers, rows.n = kept;
    }
  }

 private:
  const SortPlan plan_;
  RoutineKernel runs_, keep_;
  int64_t perm_ = 0, values_[2] = {}, numbers_[2] = {};  // in the scratch memory
  ScratchPlan scratch_;
};

}  // namespace

bool SelectsTopK(const SortPlan& plan) {
  return plan.size.n > kSortRun && plan.k * kLeastShrink <= kSortRun &&
         plan.size.n < int64_t{1} << 32;
}

Result<PreparedPtr> PrepareTopKBySelection(const RoutineInputs& inputs, const SortPlan& plan) {
  if (plan.size.rows == 0 || IsComplex(inputs.type(0))) return Unimplemented("rows to select from");
  auto topk = std::make_unique<TopKBySelection>(plan);
  TRY(topk->Prepare(inputs));
  return topk;
}

}  // namespace weft::gpu
