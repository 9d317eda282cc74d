#include "gpu/render_cuda.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/check.h"
#include "gpu/narrow_indices.h"
#include "gpu/render_ops.h"
#include "program/cost.h"

namespace weft::gpu {
namespace {

using program::Branch;
using program::Instr;
using program::Kernel;
using program::LoopKind;
using program::Memory;
using program::Op;
using program::Type;
using program::ValueId;

constexpr int64_t kFlatThreads = 256;       // of a block without thread loops
constexpr int64_t kMaxBlocks = 2147483647;  // of a launch
// More shared memory than this is asked for at launch. The rest of 48 KiB is for combines.
constexpr int64_t kStaticShared = 40 << 10;
constexpr int64_t kWarp = 32;           // threads that shuffle
constexpr int64_t kWarpsOfBlock = 8;    // that run an iteration of the grid each
constexpr int64_t kMaxUnrolled = 4096;  // instructions that an `unroll` loop becomes
constexpr int64_t kPackedBytes = 16;    // of one memory access

// How threads take part in the code at hand.
enum class Role {
  kAlone,     // each thread for itself: its own iteration of the grid or of a thread loop
  kTogether,  // all threads run the same; stores are thread 0's
};

class KernelRenderer {
 public:
  KernelRenderer(const Kernel& kernel, int64_t threads, bool in_block, CudaText& text)
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

  void Render() {
    blocks_ = MatchBlocks(kernel_);
    names_.resize(kernel_.values.size());
    bool grid = !Extents(kernel_).grid.empty();
    // A lone iteration is thread 0's.
    bool guarded = in_block_ && !grid && !has_threads_ && threads_ > 1;
    if (guarded) text_.Open("if (threadIdx.x == 0) {");
    if (dynamic_shared_) text_.Line("extern __shared__ __align__(128) u8 shared[];");
    if (by_warps_) {
      text_.Line("const u32 t = threadIdx.x % ", kWarp, ", w = threadIdx.x / ", kWarp, ";");
    }
    RenderBlock(0, kernel_.code.size());
    if (guarded) text_.Close();
  }

 private:
  // Barriers among code that threads run together. A pending one is written when the next access
  // needs it: what other threads stored is about to be read, or what they may still read written.
  void Barrier() {
    if (threads_ > 1) text_.Line(by_warps_ ? "__syncwarp();" : "__syncthreads();");
    stored_.assign(kernel_.memories.size(), false);
    loaded_ = stored_;
    pending_ = false;
  }
  void Flush() {
    if (role_ == Role::kTogether && pending_) Barrier();
  }

  // A value as an operand: a lane `l` of it, or a given one.
  std::string Lane(ValueId id, std::string_view lane = "l") const {
    const program::Value& value = kernel_.value(id);
    if (value.is_constant) return CudaConstant(value);
    if (value.type.lanes == 1) return names_[id];
    return StrCat(names_[id], ".v[", lane, "]");
  }
  // Declares the value, and says what its lanes are.
  void Define(ValueId id, const std::string& expression, bool constant = true) {
    names_[id] = StrCat("v", id);
    Type type = kernel_.type(id);
    if (type.lanes == 1) {
      text_.Line(constant ? "const " : "", CudaType(type), " ", names_[id], " = ", expression, ";");
      return;
    }
    text_.Line(CudaType(type), " ", names_[id], ";");
    text_.Line("LANES(", type.lanes, ") ", names_[id], ".v[l] = ", expression, ";");
  }
  void Assign(const std::string& name, Type type, const std::string& expression) {
    if (type.lanes == 1) return text_.Line(name, " = ", expression, ";");
    text_.Line("LANES(", type.lanes, ") ", name, ".v[l] = ", expression, ";");
  }

  void RenderBlock(size_t begin, size_t end) {
    for (size_t pc = begin; pc < end; ++pc) {
      const Instr& instr = kernel_.code[pc];
      switch (instr.op) {
        case Op::kLoop:
          RenderLoop(pc);
          pc = blocks_.end_at[pc];
          break;
        case Op::kIf:
          RenderIf(pc);
          pc = blocks_.end_at[pc];
          break;
        case Op::kArray: DeclareArray(instr.memory); break;
        case Op::kLoad: RenderLoad(instr); break;
        case Op::kStore: RenderStore(instr); break;
        case Op::kAtomic: RenderAtomic(instr); break;
        default: RenderCompute(instr);
      }
    }
  }

  void RenderCompute(const Instr& instr) {
    ValueId result = instr.results[0];
    if (Info(instr.op).cls == program::OpClass::kLanes) return RenderLanes(instr, result);
    std::vector<std::string> args;
    std::vector<Type> types;
    for (ValueId id : instr.args) {
      args.push_back(Lane(id));
      types.push_back(kernel_.type(id));
    }
    Define(result, RenderOp(instr, args, types));
  }

  void RenderLanes(const Instr& instr, ValueId result) {
    switch (instr.op) {
      case Op::kSplat: return Define(result, Lane(instr.args[0]));
      case Op::kIota: {
        std::string_view lane = instr.type.lanes == 1 ? "0" : "l";
        return Define(result, StrCat(CudaType(instr.type.dtype), "(", lane, ")"));
      }
      case Op::kExtract: return Define(result, Lane(instr.args[0], StrCat(instr.lanes[0])));
      case Op::kAny: {
        int lanes = kernel_.type(instr.args[0]).lanes;
        std::string any;
        for (int i = 0; i < lanes; ++i) {
          StrAppend(any, i > 0 ? " | " : "", Lane(instr.args[0], StrCat(i)));
        }
        return Define(result, any);
      }
      default: break;
    }
    int from = kernel_.type(instr.args[0]).lanes;
    std::string values;
    for (int32_t lane : instr.lanes) {
      StrAppend(values, values.empty() ? "" : ", ",
                Lane(instr.args[static_cast<size_t>(lane / from)], StrCat(lane % from)));
    }
    if (instr.type.lanes == 1) return Define(result, values);
    names_[result] = StrCat("v", result);
    text_.Line("const ", CudaType(instr.type), " ", names_[result], " = {{", values, "}};");
  }

  void RenderIf(size_t pc) {
    const Instr& end = kernel_.code[blocks_.end_at[pc]];
    bool has_else = blocks_.else_at[pc] != 0;
    Flush();
    for (ValueId id : end.results) {
      names_[id] = StrCat("v", id);
      text_.Line(CudaType(kernel_.type(id)), " ", names_[id], ";");
    }
    std::string condition = Lane(kernel_.code[pc].args[0]);
    if (Branch branch = kernel_.code[pc].branch; branch != Branch::kEven) {
      int expected = branch == Branch::kUnlikely ? 0 : 1;
      condition = StrCat("__builtin_expect(", condition, ", ", expected, ")");
    }
    text_.Open("if (", condition, ") {");
    RenderBlock(pc + 1, has_else ? blocks_.else_at[pc] : blocks_.end_at[pc]);
    if (has_else) {
      Yield(end.results, kernel_.code[blocks_.else_at[pc]].args);
      Flush();
      text_.Else();
      RenderBlock(blocks_.else_at[pc] + 1, blocks_.end_at[pc]);
      Yield(end.results, end.args);
    }
    Flush();
    text_.Close();
  }
  template <class Results, class Args>
  void Yield(const Results& results, const Args& args) {
    for (size_t i = 0; i < results.size(); ++i) {
      Assign(names_[results[i]], kernel_.type(results[i]), Lane(args[i]));
    }
  }

  void RenderLoop(size_t pc) {
    switch (kernel_.code[pc].loop) {
      case LoopKind::kParallel: return RenderGrid(pc);
      case LoopKind::kThread: return RenderThreads(pc);
      default: return RenderSerial(pc);
    }
  }

  // i + step is within the type for every i < end, so that the plain loop is right.
  bool StepFits(const Instr& loop) const {
    std::optional<int64_t> end = MostOf(loop.args[1]);
    int64_t step = kernel_.value(loop.args[2]).AsInt(), last;
    if (step == 1) return true;
    return end && !__builtin_add_overflow(*end, step, &last) &&
           program::FitsInteger(last, loop.type.dtype);
  }
  // What the value surely does not exceed.
  std::optional<int64_t> MostOf(ValueId id) const {
    const program::Value& value = kernel_.value(id);
    if (value.is_constant) return value.AsInt();
    for (const Instr& instr : kernel_.code) {
      if (instr.op != Op::kMin || instr.results.empty() || instr.results[0] != id) continue;
      for (ValueId arg : instr.args) {
        if (kernel_.value(arg).is_constant) return kernel_.value(arg).AsInt();
      }
    }
    return std::nullopt;
  }

  void RenderSerial(size_t pc) {
    const Instr& loop = kernel_.code[pc];
    const Instr& end = kernel_.code[blocks_.end_at[pc]];
    Flush();
    size_t carried = loop.args.size() - 3;
    for (size_t i = 0; i < carried; ++i) {
      Define(loop.results[i + 1], Lane(loop.args[i + 3]), false);
    }
    std::optional<int64_t> trips = TripCount(kernel_, loop);
    int64_t size = static_cast<int64_t>(blocks_.end_at[pc] - pc);
    if (loop.loop == LoopKind::kUnroll && trips && *trips <= kMaxUnrolled / size) {
      text_.Line("#pragma unroll");
    }
    std::string type(CudaType(loop.type)), i = StrCat("v", loop.results[0]);
    std::string limit = Lane(loop.args[1]), step = Lane(loop.args[2]);
    names_[loop.results[0]] = i;
    std::string next = StepFits(loop) ? StrCat(i, " += ", step)
                                      : StrCat(i, " = Next(", i, ", ", limit, ", ", step, ")");
    text_.Open("for (", type, " ", i, " = ", Lane(loop.args[0]), "; ", i, " < ", limit, "; ", next,
               ") {");
    ++serial_;
    RenderBlock(pc + 1, blocks_.end_at[pc]);
    --serial_;
    CarryOver(loop, end, carried);
    Flush();
    text_.Close();
    for (size_t k = 0; k < carried; ++k) names_[end.results[k]] = names_[loop.results[k + 1]];
  }

  // All at once: one that yields another carried value sees the old one.
  void CarryOver(const Instr& loop, const Instr& end, size_t carried) {
    auto is_carried = [&](ValueId id) {
      return std::find(loop.results.begin(), loop.results.end(), id) != loop.results.end();
    };
    bool aside = carried > 1 && std::any_of(end.args.begin(), end.args.end(), is_carried);
    for (size_t k = 0; k < carried && aside; ++k) {
      Type type = kernel_.type(end.args[k]);
      std::string name = StrCat("t", loop.results[k + 1]);
      text_.Line(CudaType(type), " ", name, ";");
      Assign(name, type, Lane(end.args[k]));
    }
    for (size_t k = 0; k < carried; ++k) {
      Type type = kernel_.type(end.args[k]);
      std::string from = Lane(end.args[k]);
      if (aside) from = StrCat("t", loop.results[k + 1], type.lanes > 1 ? ".v[l]" : "");
      Assign(names_[loop.results[k + 1]], type, from);
    }
  }

  void RenderGrid(size_t pc) {
    bool first = grid_.empty();
    if (first) {
      grid_ = Extents(kernel_).grid;
      grid_size_ = GridSize(kernel_);
      if (grid_size_ == 0) return;
      OpenGrid();
    }
    int64_t trips = grid_[grid_level_++], inner = 1;
    for (size_t i = grid_level_; i < grid_.size(); ++i) inner *= grid_[i];
    std::string suffix = grid_size_ > kMaxBlocks ? "ull" : "u", number = "n";
    if (inner > 1) number = StrCat(number, " / ", inner, suffix);
    if (grid_level_ > 1) number = StrCat(number, " % ", trips, suffix);
    DefineCounter(kernel_.code[pc], number);
    RenderBlock(pc + 1, blocks_.end_at[pc]);
    if (first && grid_is_loop_) {
      Flush();
      text_.Close();
    }
  }

  // n: the number of the iteration in the flattened nest.
  void OpenGrid() {
    bool wide = grid_size_ > kMaxBlocks;
    std::string_view type = wide ? "u64" : "u32", suffix = wide ? "ull" : "u";
    std::string limit = StrCat(grid_size_, suffix), first, stride;
    if (in_block_) {
      first = has_threads_ ? "0" : "threadIdx.x";
      stride = has_threads_ ? "1" : StrCat(threads_);
    } else if (by_warps_) {
      first = StrCat("blockIdx.x * ", kWarpsOfBlock, " + w");
    } else if (has_threads_) {
      first = "blockIdx.x";
      stride = "gridDim.x";
    } else {
      first = StrCat(type, "(blockIdx.x) * ", threads_, " + threadIdx.x");
      stride = StrCat(type, "(gridDim.x) * ", threads_);
    }
    grid_is_loop_ = in_block_ || wide;
    if (grid_is_loop_) {
      text_.Open("for (", type, " n = ", first, "; n < ", limit, "; n += ", stride, ") {");
      return;
    }
    text_.Line("const ", type, " n = ", first, ";");
    bool whole = by_warps_      ? grid_size_ % kWarpsOfBlock == 0
                 : has_threads_ ? true
                                : grid_size_ % threads_ == 0;
    if (!whole) text_.Line("if (n >= ", limit, ") return;");
  }

  // The counter of an iteration by its number.
  void DefineCounter(const Instr& loop, const std::string& number) {
    std::string type(CudaType(loop.type));
    int64_t begin = kernel_.value(loop.args[0]).AsInt(), step = kernel_.value(loop.args[2]).AsInt();
    std::string value = StrCat(type, "(", number, ")");
    if (step != 1) StrAppend(value, " * ", Lane(loop.args[2]));
    if (begin != 0) StrAppend(value, " + ", Lane(loop.args[0]));
    Define(loop.results[0], value);
  }

  // Iterations of a thread loop and those nested in it.
  int64_t ThreadsOf(size_t pc) const {
    int64_t n = *TripCount(kernel_, kernel_.code[pc]);
    for (size_t i = pc + 1; i < blocks_.end_at[pc]; ++i) {
      const Instr& instr = kernel_.code[i];
      if (instr.op == Op::kLoop && instr.loop == LoopKind::kThread) return n * ThreadsOf(i);
    }
    return n;
  }

  void RenderThreads(size_t pc) {
    bool outermost = role_ == Role::kTogether;
    int64_t n = ThreadsOf(pc), trips = *TripCount(kernel_, kernel_.code[pc]);
    if (outermost) {
      Flush();
      if (n == 0) return;
      for (ValueId id : CombinedBy(pc)) {
        text_.Line(CudaType(kernel_.type(id)), " x", id, "{};");
      }
      if (n < threads_) {
        text_.Open("if (", thread_, " < ", n, ") {");
      } else {
        text_.Open("{");
      }
      role_ = Role::kAlone;
    }
    int64_t inner = n / trips;
    std::string number(thread_);
    if (inner > 1) number = StrCat(number, " / ", inner);
    if (!outermost) number = StrCat(number, " % ", trips);
    DefineCounter(kernel_.code[pc], number);
    size_t combine = blocks_.else_at[pc];
    RenderBlock(pc + 1, combine != 0 ? combine : blocks_.end_at[pc]);
    if (!outermost) return;
    for (ValueId id : CombinedBy(pc)) text_.Line("x", id, " = ", Lane(id), ";");
    text_.Close();
    stored_.assign(kernel_.memories.size(), true);
    loaded_ = stored_;
    pending_ = true;
    if (combine != 0) RenderCombine(pc, n);
    role_ = Role::kTogether;
  }

  // What the iterations of a thread loop yield to be combined.
  std::span<const ValueId> CombinedBy(size_t pc) const {
    if (blocks_.else_at[pc] == 0) return {};
    const auto& args = kernel_.code[blocks_.else_at[pc]].args;
    return {args.begin(), args.end()};
  }

  // The tree of a combine: neighbours in a warp by shuffles, then those of the warps, which are put
  // in shared memory; every warp has the result then, and all its threads.
  void RenderCombine(size_t pc, int64_t n) {
    const Instr& combine = kernel_.code[blocks_.else_at[pc]];
    RenderCombiner(pc);
    Shuffles(pc, std::min(n, kWarp));
    int64_t warps = std::max<int64_t>(n / kWarp, 1);
    if (threads_ > kWarp) {
      for (ValueId id : combine.args) {
        text_.Line("__shared__ ", CudaType(kernel_.type(id)), " y", id, "[", warps, "];");
      }
      text_.Open("if (", thread_, " % ", kWarp, " == 0 && ", thread_, " < ", n, ") {");
      for (ValueId id : combine.args) {
        text_.Line("y", id, "[", thread_, " / ", kWarp, "] = x", id, ";");
      }
      text_.Close();
      Barrier();
      for (ValueId id : combine.args) {
        text_.Line("x", id, " = y", id, "[", thread_, " % ", warps, "];");
      }
      Shuffles(pc, warps);
      // The arrays are written again.
      pending_ = serial_ > 0 || grid_is_loop_;
      if (in_block_) Barrier();
    }
    const Instr& end = kernel_.code[blocks_.end_at[pc]];
    for (size_t i = 0; i < combine.args.size(); ++i) {
      std::string x = StrCat("x", combine.args[i]);
      text_.Line(x, " = ShuffleFrom(", x, ", 0);");
      names_[end.results[i]] = x;
    }
  }

  // The block that combines two, as a function of both that changes its last arguments.
  void RenderCombiner(size_t pc) {
    const Instr& combine = kernel_.code[blocks_.else_at[pc]];
    const Instr& end = kernel_.code[blocks_.end_at[pc]];
    std::string parameters;
    for (ValueId id : combine.results) {
      names_[id] = StrCat("v", id);
      StrAppend(parameters, parameters.empty() ? "" : ", ", CudaType(kernel_.type(id)), " ",
                names_[id]);
    }
    for (size_t i = 0; i < combine.args.size(); ++i) {
      StrAppend(parameters, ", ", CudaType(kernel_.type(combine.args[i])), "& r", i);
    }
    text_.Open("auto combine", pc, " = [&](", parameters, ") {");
    RenderBlock(blocks_.else_at[pc] + 1, blocks_.end_at[pc]);
    for (size_t i = 0; i < end.args.size(); ++i) text_.Line("r", i, " = ", Lane(end.args[i]), ";");
    text_.Close("};");
  }

  // Lanes 0 to n of a warp: lane 0 gets what they make together.
  void Shuffles(size_t pc, int64_t n) {
    if (n < 2) return;
    std::string mine, others;
    for (ValueId id : kernel_.code[blocks_.else_at[pc]].args) {
      StrAppend(mine, mine.empty() ? "" : ", ", "x", id);
      StrAppend(others, "ShuffleDown(x", id, ", d), ");
    }
    text_.Line("#pragma unroll");
    text_.Line("for (u32 d = 1; d < ", n, "; d *= 2) combine", pc, "(", mine, ", ", others, mine,
               ");");
  }

  void DeclareArray(int32_t memory) {
    const Memory& m = kernel_.memories[memory];
    int64_t align =
        std::max(m.align, std::min<int64_t>(kPackedBytes, m.count * ByteWidth(m.dtype)));
    align = std::max<int64_t>(align, ByteWidth(m.dtype));
    while ((align & (align - 1)) != 0) align &= align - 1;
    bool shared = role_ == Role::kTogether && !m.per_thread;
    std::string_view type = CudaStorageType(m.dtype);
    int64_t count = std::max<int64_t>(m.count, 1);
    if (shared && by_warps_) {
      int64_t each = (count * ByteWidth(m.dtype) + kPackedBytes - 1) / kPackedBytes * kPackedBytes;
      text_.Line("__shared__ alignas(", kPackedBytes, ") u8 s", memory, "[", kWarpsOfBlock * each,
                 "];");
      text_.Line(type, "* m", memory, " = (", type, "*)(s", memory, " + w * ", each, ");");
      return;
    }
    if (shared && dynamic_shared_) {
      text_.Line(type, "* m", memory, " = (", type, "*)(shared + ", shared_offset_, ");");
      shared_offset_ += (count * ByteWidth(m.dtype) + 127) / 128 * 128;
      return;
    }
    text_.Line(shared ? "__shared__ " : "", "alignas(", align, ") ", type, " m", memory, "[", count,
               "];");
  }

  static bool HasMask(const Instr& instr) {
    return instr.args.size() > (instr.op == Op::kLoad ? 1u : 2u);
  }
  // The element that lane l accesses.
  std::string Element(const Instr& instr) const {
    std::string index = Lane(instr.args[0]);
    bool consecutive = instr.type.lanes > 1 && kernel_.type(instr.args[0]).lanes == 1;
    return StrCat("m", instr.memory, "[", index, consecutive ? " + l" : "", "]");
  }
  // The type of one access for all lanes, if alignment allows one.
  std::string PackedType(const Instr& instr) const {
    DType dtype = kernel_.memories[instr.memory].dtype;
    int64_t bytes = ByteWidth(dtype) * instr.type.lanes, align = std::min(bytes, kPackedBytes);
    bool gathers = kernel_.type(instr.args[0]).lanes > 1;
    if (instr.type.lanes == 1 || gathers || HasMask(instr) || instr.align < align) return "";
    return StrCat("Packed<", CudaStorageType(dtype), ", ", instr.type.lanes, ", ", align, ">");
  }

  void RenderLoad(const Instr& instr) {
    const Memory& m = kernel_.memories[instr.memory];
    bool fixed = instr.memory < kernel_.num_params && !Writes(m.access);
    if (role_ == Role::kTogether && !fixed) {
      if (stored_[instr.memory]) Barrier();
      loaded_[instr.memory] = pending_ = true;
    }
    ValueId result = instr.results[0];
    if (std::string packed = PackedType(instr); !packed.empty()) {
      std::string name = StrCat("p", result);
      text_.Line("const ", packed, " ", name, " = *(const ", packed, "*)(m", instr.memory, " + ",
                 Lane(instr.args[0]), ");");
      return Define(result, FromStorage(m.dtype, StrCat(name, ".v[l]")));
    }
    std::string value = FromStorage(m.dtype, Element(instr));
    if (HasMask(instr)) {
      std::string zero = StrCat(CudaType(instr.type.dtype), "(0)");
      value = StrCat(Lane(instr.args[1]), " ? ", value, " : ", zero);
    }
    Define(result, value);
  }

  void RenderStore(const Instr& instr) {
    const Memory& m = kernel_.memories[instr.memory];
    bool together = role_ == Role::kTogether;
    if (together) {
      if (loaded_[instr.memory]) Barrier();
      stored_[instr.memory] = pending_ = true;
    }
    std::string value = ToStorage(m.dtype, Lane(instr.args[1]));
    bool guarded = together && threads_ > 1;
    if (guarded) text_.Open("if (", thread_, " == 0) {");
    if (std::string packed = PackedType(instr); !packed.empty()) {
      text_.Open("{");
      text_.Line(packed, " p;");
      text_.Line("LANES(", instr.type.lanes, ") p.v[l] = ", value, ";");
      text_.Line("*(", packed, "*)(m", instr.memory, " + ", Lane(instr.args[0]), ") = p;");
      text_.Close();
    } else {
      std::string lanes = instr.type.lanes > 1 ? StrCat("LANES(", instr.type.lanes, ") ") : "";
      std::string mask = HasMask(instr) ? StrCat("if (", Lane(instr.args[2]), ") ") : "";
      text_.Line(lanes, mask, Element(instr), " = ", value, ";");
    }
    if (guarded) text_.Close();
  }

  void RenderAtomic(const Instr& instr) {
    DType dtype = kernel_.memories[instr.memory].dtype;
    bool together = role_ == Role::kTogether;
    if (together) {
      if (loaded_[instr.memory] || stored_[instr.memory]) Barrier();
      stored_[instr.memory] = pending_ = true;
    }
    text_.Line(
        together && threads_ > 1 ? StrCat("if (", thread_, " == 0) ") : "",
        RenderAtomicCall(instr.atomic, dtype, StrCat("m", instr.memory, " + ", Lane(instr.args[0])),
                         Lane(instr.args[1])),
        ";");
  }

  const Kernel& kernel_;
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

}  // namespace

bool HasThreadLoops(const Kernel& kernel) {
  return std::any_of(kernel.code.begin(), kernel.code.end(), [](const Instr& i) {
    return i.op == Op::kLoop && i.loop == LoopKind::kThread;
  });
}

bool RunsByWarps(const Kernel& kernel) {
  int64_t grid = GridSize(kernel);
  return HasThreadLoops(kernel) && Extents(kernel).threads <= kWarp && grid >= kWarpsOfBlock &&
         grid <= kMaxBlocks && SharedArrayBytes(kernel) * kWarpsOfBlock <= kStaticShared;
}

int64_t SharedArrayBytes(const Kernel& kernel) {
  if (!HasThreadLoops(kernel)) return 0;
  int64_t bytes = 0;
  std::vector<bool> open;  // blocks; whether they are inside a thread loop
  for (const Instr& instr : kernel.code) {
    bool inside = !open.empty() && open.back();
    if (instr.op == Op::kLoop) open.push_back(inside || instr.loop == LoopKind::kThread);
    if (instr.op == Op::kIf) open.push_back(inside);
    if (instr.op == Op::kEnd) open.pop_back();
    if (instr.op != Op::kArray || inside) continue;
    const Memory& m = kernel.memories[instr.memory];
    if (!m.per_thread) bytes += (m.count * ByteWidth(m.dtype) + 127) / 128 * 128;
  }
  return bytes;
}

Launch LaunchOf(const Kernel& kernel) {
  Launch launch;
  int64_t grid = GridSize(kernel);
  launch.blocks = std::min(grid, kMaxBlocks);
  if (RunsByWarps(kernel)) {
    launch.threads = kWarp * kWarpsOfBlock;
    launch.blocks = (grid + kWarpsOfBlock - 1) / kWarpsOfBlock;
  } else if (HasThreadLoops(kernel)) {
    // Whole warps: those that shuffle must all be there.
    launch.threads = std::max<int64_t>((Extents(kernel).threads + kWarp - 1) / kWarp * kWarp, 1);
    int64_t shared = SharedArrayBytes(kernel);
    if (shared > kStaticShared) launch.shared_bytes = shared;
  } else if (grid > 1) {
    launch.threads = std::min(kFlatThreads, (grid + 31) / 32 * 32);
    launch.blocks = std::min((grid + launch.threads - 1) / launch.threads, kMaxBlocks);
  }
  return launch;
}

void RenderKernel(const Kernel& kernel, std::string_view name, std::string& out) {
  Launch launch = LaunchOf(kernel);
  CudaText text;
  std::string parameters;
  for (int32_t i = 0; i < kernel.num_params; ++i) {
    const Memory& m = kernel.memories[i];
    StrAppend(parameters, i > 0 ? ", " : "", Writes(m.access) ? "" : "const ",
              CudaStorageType(m.dtype), "* __restrict__ m", i);
  }
  text.Open("extern \"C\" __global__ void __launch_bounds__(", launch.threads, ") ", name, "(",
            parameters, ") {");
  Kernel narrow = NarrowIndices(kernel);
  KernelRenderer(narrow, launch.threads, false, text).Render();
  text.Close();
  out += text.text();
}

void RenderInBlock(const Kernel& kernel, int64_t threads, CudaText& text) {
  Kernel narrow = NarrowIndices(kernel);
  KernelRenderer(narrow, threads, true, text).Render();
}

}  // namespace weft::gpu
