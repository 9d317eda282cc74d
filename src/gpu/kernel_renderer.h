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

class KernelRenderer {
 public:
  KernelRenderer(const program::Kernel& kernel, int64_t threads, bool in_block, CudaText& text)
      : kernel_(kernel), threads_(threads), in_block_(in_block), text_(text) {
    has_threads_ = HasThreadLoops(kernel);
    role_ = has_threads_ ? Role::kTogether : Role::kAlone;
    dynamic_shared_ = SharedArrayBytes(kernel) > kStaticShared;
    by_warps_ = !in_block && RunsByWarps(kernel);
    if (by_warps_) {
      threads_ = kWarp;
      thread_ = "t";
    }
    stored_.resize(kernel.memories.size());
    loaded_.resize(kernel.memories.size());
  }

  void Render();

 private:
  using Instr = program::Instr;
  using Op = program::Op;
  using Type = program::Type;
  using ValueId = program::ValueId;

  // Barriers among code that threads run together. A pending one is written when the next access
  // needs it: what other threads stored is about to be read, or what they may still read written.
  void Barrier();
  void Flush() {
    if (role_ == Role::kTogether && pending_) Barrier();
  }

  // A value as an operand: a lane `l` of it, or a given one.
  std::string Lane(ValueId id, std::string_view lane = "l") const;
  // Declares the value, and says what its lanes are.
  void Define(ValueId id, const std::string& expression, bool constant = true);
  void Assign(const std::string& name, Type type, const std::string& expression);
  void RenderBlock(size_t begin, size_t end);
  void RenderCompute(const Instr& instr);
  void RenderLanes(const Instr& instr, ValueId result);
  void RenderIf(size_t pc);
  template <class Results, class Args>
  void Yield(const Results& results, const Args& args) {
    for (size_t i = 0; i < results.size(); ++i) {
      Assign(names_[results[i]], kernel_.type(results[i]), Lane(args[i]));
    }
  }

  void RenderLoop(size_t pc);

  // i + step is within the type for every i < end, so that the plain loop is right.
  bool StepFits(const Instr& loop) const;
  // What the value surely does not exceed.
  std::optional<int64_t> MostOf(ValueId id) const;
  void RenderSerial(size_t pc);

  // All at once: one that yields another carried value sees the old one.
  void CarryOver(const Instr& loop, const Instr& end, size_t carried);
  void RenderGrid(size_t pc);

  // n: the number of the iteration in the flattened nest.
  void OpenGrid();

  // The counter of an iteration by its number.
  void DefineCounter(const Instr& loop, const std::string& number);

  // Iterations of a thread loop and those nested in it.
  int64_t ThreadsOf(size_t pc) const;
  void RenderThreads(size_t pc);

  // What the iterations of a thread loop yield to be combined.
  std::span<const ValueId> CombinedBy(size_t pc) const;

  // The tree of a combine: neighbours in a warp by shuffles, then those of the warps, which are put
  // in shared memory; every warp has the result then, and all its threads.
  void RenderCombine(size_t pc, int64_t n);

  // The block that combines two, as a function of both that changes its last arguments.
  void RenderCombiner(size_t pc);

  // Lanes 0 to n of a warp: lane 0 gets what they make together.
  void Shuffles(size_t pc, int64_t n);
  void DeclareArray(int32_t memory);
  static bool HasMask(const Instr& instr) {
    return instr.args.size() > (instr.op == Op::kLoad ? 1u : 2u);
  }
  // The element that lane l accesses.
  std::string Element(const Instr& instr) const;
  // The type of one access for all lanes, if alignment allows one.
  std::string PackedType(const Instr& instr) const;
  void RenderLoad(const Instr& instr);
  void RenderStore(const Instr& instr);
  void RenderAtomic(const Instr& instr);

  const program::Kernel& kernel_;
  int64_t threads_;
  bool in_block_;
  CudaText& text_;
  bool has_threads_ = false, dynamic_shared_ = false;
  Role role_ = Role::kAlone;
  std::vector<bool> stored_, loaded_;  // memories that others may have, since the last barrier
  bool pending_ = false;               // one of them
  program::Blocks blocks_;
  std::vector<std::string> names_;
  std::vector<int64_t> grid_;
  int64_t grid_size_ = 1, shared_offset_ = 0;
  size_t grid_level_ = 0;
  bool grid_is_loop_ = false;
  bool by_warps_ = false;  // a warp runs an iteration of the grid
  std::string_view thread_ = "threadIdx.x";
  int serial_ = 0;  // open serial loops
};

}  // namespace weft::gpu
