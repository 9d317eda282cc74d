// sort and topk: kernels/sort.cu with the order of the step printed into it.
#include <algorithm>
#include <bit>

#include "base/str.h"
#include "gpu/library_text.h"
#include "gpu/routines/gemm.h"
#include "gpu/routines/kernels.h"
#include "gpu/routines/sort_text.h"
#include "gpu/routines/ways.h"
#include "program/library.h"

namespace weft::gpu {
namespace {

class SortRoutineOnGpu : public PreparedRoutine {
 public:
  explicit SortRoutineOnGpu(SortPlan plan) : plan_(std::move(plan)) {}
  Status Prepare(const RoutineInputs& inputs);
  bool capturable() const override { return true; }
  Status Enqueue(const RoutineCall& call) const override;
  int64_t scratch_bytes() const override { return scratch_.bytes(); }

 private:
  struct KeyPass {  // by one operand
    RoutineKernel load, count, distribute;
    int bits;    // of a key
    int sorted;  // the lower ones, all that differ
  };
  Status PrepareRuns(const RoutineInputs& inputs, std::string text);
  Status PrepareRadix(const RoutineInputs& inputs, std::string text);
  Status PrepareDirect(const RoutineInputs& inputs, std::string text);
  Status PreparePlaces(const RoutineInputs& inputs, const std::string& text, int bits);
  bool MovesElements(const RoutineInputs& inputs) const;
  Result<const std::byte*> EnqueueRuns(const RoutineCall& call, std::vector<std::byte*>& in) const;
  Result<const std::byte*> EnqueueRadix(const RoutineCall& call, std::vector<std::byte*>& in) const;
  struct Moved {  // keys and what goes along with them
    std::byte *keys, *values;
  };
  Status EnqueuePass(const RoutineCall& call, const KeyPass& pass, int64_t shift, Moved from,
                     Moved to) const;
  Status EnqueueDirect(const RoutineCall& call) const;
  int64_t total() const { return plan_.size.rows * plan_.size.n; }
  // A byte is sorted at a time.
  int SortedBits(int bits) const {
    return plan_.bits == 0 ? bits : std::min(bits, static_cast<int>(plan_.bits + 7) / 8 * 8);
  }
  int64_t tiles(int bits) const { return BlocksFor(plan_.size.n, bits == 64 ? 2048 : 4096); }

  const SortPlan plan_;
  RoutineKernel runs_, merge_, take_, sum_chunks_, scan_sums_, scan_chunks_, scan_row_;
  std::vector<KeyPass> passes_;  // radix, the last key first
  bool direct_ = false;          // elements are moved, not numbers of theirs
  int64_t perm_[2] = {}, keys_[2] = {}, counts_ = 0, sums_ = 0;  // in the scratch memory
  ScratchPlan scratch_;
};

Status SortRoutineOnGpu::PrepareRuns(const RoutineInputs& inputs, std::string text) {
  bool tuples = plan_.comparator != nullptr || plan_.keys > 1;
  std::string order = tuples ? "Tuples" : "Order", members;
  StrAppend(text,
            tuples ? TupleOrderText(plan_, inputs) : KeyOrderText(plan_, order, inputs.type(0)));
  for (size_t i = 0; i < (tuples ? plan_.operands : 1); ++i) StrAppend(members, "p.x", i, ", ");
  StrAppend(text, "extern \"C\" __global__ void runs(Pointers p, Rows s, u32* perm) {\n  ", order,
            " order = {", members, "s};\n  SortRuns(order, s, perm);\n}\n",
            "extern \"C\" __global__ void merge(Pointers p, Rows s, s64 run, const u32* from, u32* "
            "to) {\n  ",
            order, " order = {", members, "s};\n  MergeRuns(order, s, run, from, to);\n}\n");
  runs_ = TRY(MakeKernel(inputs, text, "runs"));
  merge_ = TRY(MakeKernel(inputs, text, "merge"));
  take_ = TRY(MakeKernel(inputs, text, "take"));
  return {};
}

Status SortRoutineOnGpu::PrepareRadix(const RoutineInputs& inputs, std::string text) {
  int widest = 32;
  for (int64_t i = plan_.keys; i-- > 0;) {
    DType dtype = inputs.type(static_cast<size_t>(i));
    std::string_view key = KeyType(dtype);
    StrAppend(text, KeyOrderText(plan_, StrCat("Order", i), dtype),
              "extern \"C\" __global__ void load", i,
              "(Pointers p, Rows s, const u32* perm, s64 first, ", key,
              "* keys, u32* index) {\n  Order", i, " order = {p.x", i,
              ", s};\n  LoadKeys(order, s, perm, first != 0, keys, index);\n}\n");
    widest = std::max(widest, KeyBits(dtype));
  }
  for (std::string_view key : {"u32", "u64"}) {
    StrAppend(text, PassText(key, StrCat("NumberOrder<", key, ">"), "u32"));
  }
  StrAppend(text, kPlacesText);
  for (int64_t i = plan_.keys; i-- > 0;) {
    DType dtype = inputs.type(static_cast<size_t>(i));
    std::string key(KeyType(dtype));
    passes_.push_back({TRY(MakeKernel(inputs, text, StrCat("load", i))),
                       TRY(MakeKernel(inputs, text, "count_" + key)),
                       TRY(MakeKernel(inputs, text, "distribute_" + key)), KeyBits(dtype),
                       SortedBits(KeyBits(dtype))});
  }
  take_ = TRY(MakeKernel(inputs, text, "take"));
  for (int64_t& at : keys_) at = scratch_.Add(total() * widest / 8);
  return PreparePlaces(inputs, text, widest);
}

Status SortRoutineOnGpu::PreparePlaces(const RoutineInputs& inputs, const std::string& text,
                                       int bits) {
  sum_chunks_ = TRY(MakeKernel(inputs, text, "sum_chunks"));
  scan_sums_ = TRY(MakeKernel(inputs, text, "scan_sums"));
  scan_chunks_ = TRY(MakeKernel(inputs, text, "scan_chunks"));
  scan_row_ = TRY(MakeKernel(inputs, text, "scan_row"));
  int64_t length = plan_.size.rows * 256 * tiles(bits);
  counts_ = scratch_.Add(length * 4);
  sums_ = scratch_.Add((plan_.size.rows + length / kSortChunk + 1) * 4);
  return {};
}

// Long rows by one key, with one operand besides at most: neither a permutation nor gathers.
bool SortRoutineOnGpu::MovesElements(const RoutineInputs& inputs) const {
  bool one_key = plan_.comparator == nullptr && plan_.keys == 1 && plan_.size.inner == 1;
  return one_key && !plan_.is_topk && plan_.operands <= 2 && !IsComplex(inputs.type(0)) &&
         (plan_.operands == 1 || ByteWidth(inputs.type(1)) <= 8);
}

Status SortRoutineOnGpu::PrepareDirect(const RoutineInputs& inputs, std::string text) {
  direct_ = true;
  bool alone = plan_.operands == 1;
  StrAppend(text, ElementOrderText(plan_, inputs.type(0)),
            PassText("elements", "ElementOrder", alone ? "NoValue" : StorageName(inputs.type(1))),
            kPlacesText);
  int bits = KeyBits(inputs.type(0));
  passes_.push_back({{},
                     TRY(MakeKernel(inputs, text, "count_elements")),
                     TRY(MakeKernel(inputs, text, "distribute_elements")),
                     bits,
                     SortedBits(bits)});
  keys_[0] = scratch_.Add(total() * ByteWidth(inputs.type(0)));
  if (!alone) perm_[0] = scratch_.Add(total() * ByteWidth(inputs.type(1)));
  return PreparePlaces(inputs, text, bits);
}

Status SortRoutineOnGpu::Prepare(const RoutineInputs& inputs) {
  std::string text = StrCat(kSortText, PointersText(inputs, plan_.operands), ResultText(plan_));
  bool radix = plan_.comparator == nullptr && plan_.size.n > kSortRun;
  if (radix && MovesElements(inputs)) return PrepareDirect(inputs, std::move(text));
  for (int64_t& at : perm_) at = scratch_.Add(total() * 4);
  return radix ? PrepareRadix(inputs, std::move(text)) : PrepareRuns(inputs, std::move(text));
}

// Both return where the permutation is.
Result<const std::byte*> SortRoutineOnGpu::EnqueueRuns(const RoutineCall& call,
                                                       std::vector<std::byte*>& in) const {
  const SortRows& s = plan_.size;
  auto rows = s;
  std::byte *from = call.scratch + perm_[0], *to = call.scratch + perm_[1];
  int64_t threads = std::clamp<int64_t>(
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(s.n))) / 2, 32, kSortRun / 2);
  TRY(LaunchRoutine(call, runs_, s.rows * BlocksFor(s.n, kSortRun), threads,
                    {in.data(), &rows, &from}));
  for (int64_t run = kSortRun; run < s.n; run *= 2) {
    TRY(LaunchRoutine(call, merge_, BlocksFor(total()), kRoutineThreads,
                      {in.data(), &rows, &run, &from, &to}));
    std::swap(from, to);
  }
  return from;
}

Status SortRoutineOnGpu::EnqueuePass(const RoutineCall& call, const KeyPass& pass, int64_t shift,
                                     Moved from, Moved to) const {
  auto rows = plan_.size;
  std::byte *counts = call.scratch + counts_, *sums = call.scratch + sums_;
  int64_t blocks = rows.rows * tiles(pass.bits), length = 256 * tiles(pass.bits);
  int64_t chunks = BlocksFor(length, kSortChunk);
  TRY(LaunchWith(call, pass.count, blocks, kSortThreads, from.keys, rows, shift, counts));
  if (chunks <= kScannedByABlock) {
    TRY(LaunchWith(call, scan_row_, rows.rows, kSortThreads, counts, length));
  } else {
    TRY(LaunchWith(call, sum_chunks_, rows.rows * chunks, kSortThreads, counts, length, sums));
    TRY(LaunchWith(call, scan_sums_, rows.rows, kSortThreads, sums, chunks));
    TRY(LaunchWith(call, scan_chunks_, rows.rows * chunks, kSortThreads, counts, length, sums));
  }
  return LaunchWith(call, pass.distribute, blocks, kSortThreads, from.keys, from.values, rows,
                    shift, counts, to.keys, to.values);
}

// From the operands to the results, by way of the scratch memory in every other pass.
Status SortRoutineOnGpu::EnqueueDirect(const RoutineCall& call) const {
  const KeyPass& pass = passes_[0];
  bool alone = plan_.operands == 1;
  auto memory = [&](size_t i) { return call.memory[i]; };
  Moved from = {memory(0), alone ? nullptr : memory(1)};
  Moved result = {memory(plan_.operands), alone ? nullptr : memory(3)};
  Moved aside = {call.scratch + keys_[0], alone ? nullptr : call.scratch + perm_[0]};
  for (int64_t shift = 0; shift < pass.sorted; shift += 8) {
    bool last_but_even = (pass.sorted - shift) / 8 % 2 == 1;
    Moved to = last_but_even ? result : aside;
    TRY(EnqueuePass(call, pass, shift, from, to));
    from = to;
  }
  return {};
}

Result<const std::byte*> SortRoutineOnGpu::EnqueueRadix(const RoutineCall& call,
                                                        std::vector<std::byte*>& in) const {
  auto rows = plan_.size;
  std::byte *from = call.scratch + perm_[0], *to = call.scratch + perm_[1];
  std::byte *keys = call.scratch + keys_[0], *keys_to = call.scratch + keys_[1];
  int64_t first = 1;
  for (const KeyPass& pass : passes_) {
    TRY(LaunchRoutine(call, pass.load, BlocksFor(total()), kRoutineThreads,
                      {in.data(), &rows, &from, &first, &keys, &from}));
    first = 0;
    for (int64_t shift = 0; shift < pass.sorted; shift += 8) {
      TRY(EnqueuePass(call, pass, shift, {keys, from}, {keys_to, to}));
      std::swap(keys, keys_to);
      std::swap(from, to);
    }
  }
  return from;
}

Status SortRoutineOnGpu::Enqueue(const RoutineCall& call) const {
  if (direct_) return EnqueueDirect(call);
  std::vector<std::byte*> pointers(call.memory.begin(),
                                   call.memory.begin() + static_cast<long>(2 * plan_.operands));
  const std::byte* perm =
      TRY(passes_.empty() ? EnqueueRuns(call, pointers) : EnqueueRadix(call, pointers));
  auto rows = plan_.size;
  if (plan_.is_topk) {
    std::byte* numbers = call.memory[2];
    int64_t k = plan_.k;
    return LaunchRoutine(call, take_, BlocksFor(rows.rows * k), kRoutineThreads,
                         {pointers.data(), &numbers, &rows, &k, &perm});
  }
  return LaunchRoutine(call, take_, BlocksFor(total()), kRoutineThreads,
                       {pointers.data(), &rows, &perm});
}

Result<PreparedPtr> Planned(const RoutineInputs& inputs, SortPlan plan) {
  if (plan.size.rows * plan.size.n == 0) return NothingToDo();
  if (plan.size.n >= int64_t{1} << 32) return Unimplemented("rows of ", plan.size.n, " elements");
  // Parameters of a kernel are 4 KiB.
  if (plan.operands > 200) return Unimplemented(plan.operands, " operands");
  auto sort = std::make_unique<SortRoutineOnGpu>(std::move(plan));
  TRY(sort->Prepare(inputs));
  return sort;
}

}  // namespace

Result<PreparedPtr> PrepareSortKernel(const RoutineInputs& inputs) {
  const program::LibraryStep& call = inputs.call();
  SortPlan plan;
  plan.size.inner = IntAttr(call, "inner", 1);
  plan.size.rows = IntAttr(call, "outer", 1) * plan.size.inner;
  plan.size.n = IntAttr(call, "n", 0);
  plan.operands = inputs.step.uses.size() / 2;
  plan.keys = IntAttr(call, "keys", 1);
  plan.bits = IntAttr(call, "bits", 0);
  plan.descending = StringAttr(call, "order", "asc") == "desc";
  plan.zeros_equal = BoolAttr(call, "zeros_equal", false);
  plan.nans_equal = BoolAttr(call, "nans_equal", false);
  if (std::string_view name = StringAttr(call, "comparator", ""); !name.empty()) {
    for (const program::Kernel& kernel : inputs.program.kernels) {
      if (kernel.name == name) plan.comparator = &kernel;
    }
  }
  return Planned(inputs, std::move(plan));
}

Result<PreparedPtr> PrepareTopKKernel(const RoutineInputs& inputs) {
  const program::LibraryStep& call = inputs.call();
  SortPlan plan;
  plan.size = {IntAttr(call, "rows", 1), IntAttr(call, "n", 0), 1};
  plan.descending = BoolAttr(call, "largest", true);
  plan.is_topk = true;
  plan.k = IntAttr(call, "k", 0);
  if (plan.k == 0) return NothingToDo();
  if (SelectsTopK(plan)) return PrepareTopKBySelection(inputs, plan);
  return Planned(inputs, std::move(plan));
}

}  // namespace weft::gpu
