// The text of one kernel in CUDA C: its state; statements and serial control flow (render_cuda.cc),
// the grid, thread loops and combines (render_threads.cc), memory and barriers (render_access.cc).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/render_cuda.h"
#include "gpu/render_ops.h"
#include "program/cost.h"
#include "program/kernel.h"

namespace weft::gpu {

inline constexpr int64_t kMaxBlocks = 2147483647;  // of a launch
// More shared memory than this is asked for at launch. The rest of 48 KiB is for combines.
inline constexpr int64_t kStaticShared = 40 << 10;
inline constexpr int64_t kWarp = 32;         // threads that shuffle
inline constexpr int64_t kWarpsOfBlock = 8;  // that run an iteration of the grid each

// How threads take part in the code at hand.
enum class Role {
  kAlone,     // each thread for itself: its own iteration of the grid or of a thread loop
  kTogether,  // all threads run the same; stores are thread 0's
};

struct KernelContext {
  KernelContext(const program::Kernel& kernel, int64_t threads, bool in_block, CudaText& text)
      : kernel(kernel), threads(threads), in_block(in_block), text(text) {
    has_threads = HasThreadLoops(kernel);
    role = has_threads ? Role::kTogether : Role::kAlone;
    dynamic_shared = SharedArrayBytes(kernel) > kStaticShared;
    by_warps = !in_block && RunsByWarps(kernel);
    if (by_warps) {
      this->threads = kWarp;
      thread = "t";
    }
    stored.resize(kernel.memories.size());
    loaded.resize(kernel.memories.size());
  }
  const program::Kernel& kernel;
  int64_t threads;
  bool in_block;
  CudaText& text;
  bool has_threads = false, dynamic_shared = false;
  Role role = Role::kAlone;
  std::vector<bool> stored, loaded;  // memories that others may have, since the last barrier
  bool pending = false;              // one of them
  program::Blocks blocks;
  std::vector<std::string> names;
  std::vector<int64_t> grid;
  int64_t grid_size = 1, shared_offset = 0;
  size_t grid_level = 0;
  bool grid_is_loop = false;
  bool by_warps = false;  // a warp runs an iteration of the grid
  std::string_view thread = "threadIdx.x";
  int serial = 0;  // open serial loops
};

void RenderBody(KernelContext& cx);
// Barriers among code that threads run together. A pending one is written when the next access
// needs it: what other threads stored is about to be read, or what they may still read written.
void Barrier(KernelContext& cx);
// A value as an operand: a lane `l` of it, or a given one.
std::string Lane(const KernelContext& cx, program::ValueId id, std::string_view lane = "l");
// Declares the value, and says what its lanes are.
void Define(KernelContext& cx, program::ValueId id, const std::string& expression,
            bool constant = true);
void Assign(KernelContext& cx, const std::string& name, program::Type type,
            const std::string& expression);
void RenderBlock(KernelContext& cx, size_t begin, size_t end);
void RenderCompute(KernelContext& cx, const program::Instr& instr);
void RenderLanes(KernelContext& cx, const program::Instr& instr, program::ValueId result);
void RenderIf(KernelContext& cx, size_t pc);
void RenderLoop(KernelContext& cx, size_t pc);
// i + step is within the type for every i < end, so that the plain loop is right.
bool StepFits(const KernelContext& cx, const program::Instr& loop);
// What the value surely does not exceed.
std::optional<int64_t> MostOf(const KernelContext& cx, program::ValueId id);
void RenderSerial(KernelContext& cx, size_t pc);
// All at once: one that yields another carried value sees the old one.
void CarryOver(KernelContext& cx, const program::Instr& loop, const program::Instr& end,
               size_t carried);
void RenderGrid(KernelContext& cx, size_t pc);
// n: the number of the iteration in the flattened nest.
void OpenGrid(KernelContext& cx);
// The counter of an iteration by its number.
void DefineCounter(KernelContext& cx, const program::Instr& loop, const std::string& number);
// Iterations of a thread loop and those nested in it.
int64_t ThreadsOf(const KernelContext& cx, size_t pc);
void RenderThreads(KernelContext& cx, size_t pc);
// What the iterations of a thread loop yield to be combined.
std::span<const program::ValueId> CombinedBy(const KernelContext& cx, size_t pc);
// The tree of a combine: neighbours in a warp by shuffles, then those of the warps, which are put
// in shared memory; every warp has the result then, and all its threads.
void RenderCombine(KernelContext& cx, size_t pc, int64_t n);
// The block that combines two, as a function of both that changes its last arguments.
void RenderCombiner(KernelContext& cx, size_t pc);
// Lanes 0 to n of a warp: lane 0 gets what they make together.
void Shuffles(KernelContext& cx, size_t pc, int64_t n);
void DeclareArray(KernelContext& cx, int32_t memory);
// The element that lane l accesses.
std::string Element(const KernelContext& cx, const program::Instr& instr);
// The type of one access for all lanes, if alignment allows one.
std::string PackedType(const KernelContext& cx, const program::Instr& instr);
void RenderLoad(KernelContext& cx, const program::Instr& instr);
void RenderStore(KernelContext& cx, const program::Instr& instr);
void RenderAtomic(KernelContext& cx, const program::Instr& instr);

inline void Flush(KernelContext& cx) {
  if (cx.role == Role::kTogether && cx.pending) Barrier(cx);
}
template <class Results, class Args>
void Yield(KernelContext& cx, const Results& results, const Args& args) {
  for (size_t i = 0; i < results.size(); ++i) {
    Assign(cx, cx.names[results[i]], cx.kernel.type(results[i]), Lane(cx, args[i]));
  }
}
inline bool HasMask(const program::Instr& instr) {
  return instr.args.size() > (instr.op == program::Op::kLoad ? 1u : 2u);
}

}  // namespace weft::gpu
