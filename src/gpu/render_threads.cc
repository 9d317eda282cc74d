// The grid and thread loops of a kernel, and what the threads of a block combine.
#include <algorithm>

#include "gpu/kernel_context.h"
#include "program/cost.h"

namespace weft::gpu {

using program::Instr;
using program::LoopKind;
using program::Op;
using program::ValueId;

void RenderGrid(KernelContext& cx, size_t pc) {
  bool first = cx.grid.empty();
  if (first) {
    cx.grid = Extents(cx.kernel).grid;
    cx.grid_size = GridSize(cx.kernel);
    if (cx.grid_size == 0) return;
    OpenGrid(cx);
  }
  int64_t trips = cx.grid[cx.grid_level++], inner = 1;
  for (size_t i = cx.grid_level; i < cx.grid.size(); ++i) inner *= cx.grid[i];
  std::string suffix = cx.grid_size > kMaxBlocks ? "ull" : "u", number = "n";
  if (inner > 1) number = StrCat(number, " / ", inner, suffix);
  if (cx.grid_level > 1) number = StrCat(number, " % ", trips, suffix);
  DefineCounter(cx, cx.kernel.code[pc], number);
  RenderBlock(cx, pc + 1, cx.blocks.end_at[pc]);
  if (first && cx.grid_is_loop) {
    Flush(cx);
    cx.text.Close();
  }
}

void OpenGrid(KernelContext& cx) {
  bool wide = cx.grid_size > kMaxBlocks;
  std::string_view type = wide ? "u64" : "u32", suffix = wide ? "ull" : "u";
  std::string limit = StrCat(cx.grid_size, suffix), first, stride;
  if (cx.in_block) {
    first = cx.has_threads ? "0" : "threadIdx.x";
    stride = cx.has_threads ? "1" : StrCat(cx.threads);
  } else if (cx.by_warps) {
    first = StrCat("blockIdx.x * ", kWarpsOfBlock, " + w");
  } else if (cx.has_threads) {
    first = "blockIdx.x";
    stride = "gridDim.x";
  } else {
    first = StrCat(type, "(blockIdx.x) * ", cx.threads, " + threadIdx.x");
    stride = StrCat(type, "(gridDim.x) * ", cx.threads);
  }
  cx.grid_is_loop = cx.in_block || wide;
  if (cx.grid_is_loop) {
    cx.text.Open("for (", type, " n = ", first, "; n < ", limit, "; n += ", stride, ") {");
    return;
  }
  cx.text.Line("const ", type, " n = ", first, ";");
  bool whole = cx.by_warps      ? cx.grid_size % kWarpsOfBlock == 0
               : cx.has_threads ? true
                                : cx.grid_size % cx.threads == 0;
  if (!whole) cx.text.Line("if (n >= ", limit, ") return;");
}

void DefineCounter(KernelContext& cx, const Instr& loop, const std::string& number) {
  std::string type(CudaType(loop.type));
  int64_t begin = cx.kernel.value(loop.args[0]).AsInt(),
          step = cx.kernel.value(loop.args[2]).AsInt();
  std::string value = StrCat(type, "(", number, ")");
  if (step != 1) StrAppend(value, " * ", Lane(cx, loop.args[2]));
  if (begin != 0) StrAppend(value, " + ", Lane(cx, loop.args[0]));
  Define(cx, loop.results[0], value);
}

int64_t ThreadsOf(const KernelContext& cx, size_t pc) {
  int64_t n = *TripCount(cx.kernel, cx.kernel.code[pc]);
  for (size_t i = pc + 1; i < cx.blocks.end_at[pc]; ++i) {
    const Instr& instr = cx.kernel.code[i];
    if (instr.op == Op::kLoop && instr.loop == LoopKind::kThread) return n * ThreadsOf(cx, i);
  }
  return n;
}

void RenderThreads(KernelContext& cx, size_t pc) {
  bool outermost = cx.role == Role::kTogether;
  int64_t n = ThreadsOf(cx, pc), trips = *TripCount(cx.kernel, cx.kernel.code[pc]);
  if (outermost) {
    Flush(cx);
    if (n == 0) return;
    for (ValueId id : CombinedBy(cx, pc)) {
      cx.text.Line(CudaType(cx.kernel.type(id)), " x", id, "{};");
    }
    if (n < cx.threads) {
      cx.text.Open("if (", cx.thread, " < ", n, ") {");
    } else {
      cx.text.Open("{");
    }
    cx.role = Role::kAlone;
  }
  int64_t inner = n / trips;
  std::string number(cx.thread);
  if (inner > 1) number = StrCat(number, " / ", inner);
  if (!outermost) number = StrCat(number, " % ", trips);
  DefineCounter(cx, cx.kernel.code[pc], number);
  size_t combine = cx.blocks.else_at[pc];
  RenderBlock(cx, pc + 1, combine != 0 ? combine : cx.blocks.end_at[pc]);
  if (!outermost) return;
  for (ValueId id : CombinedBy(cx, pc)) cx.text.Line("x", id, " = ", Lane(cx, id), ";");
  cx.text.Close();
  cx.stored.assign(cx.kernel.memories.size(), true);
  cx.loaded = cx.stored;
  cx.pending = true;
  if (combine != 0) RenderCombine(cx, pc, n);
  cx.role = Role::kTogether;
}

std::span<const ValueId> CombinedBy(const KernelContext& cx, size_t pc) {
  if (cx.blocks.else_at[pc] == 0) return {};
  const auto& args = cx.kernel.code[cx.blocks.else_at[pc]].args;
  return {args.begin(), args.end()};
}

void RenderCombine(KernelContext& cx, size_t pc, int64_t n) {
  const Instr& combine = cx.kernel.code[cx.blocks.else_at[pc]];
  RenderCombiner(cx, pc);
  Shuffles(cx, pc, std::min(n, kWarp));
  int64_t warps = std::max<int64_t>(n / kWarp, 1);
  if (cx.threads > kWarp) {
    for (ValueId id : combine.args) {
      cx.text.Line("__shared__ ", CudaType(cx.kernel.type(id)), " y", id, "[", warps, "];");
    }
    cx.text.Open("if (", cx.thread, " % ", kWarp, " == 0 && ", cx.thread, " < ", n, ") {");
    for (ValueId id : combine.args) {
      cx.text.Line("y", id, "[", cx.thread, " / ", kWarp, "] = x", id, ";");
    }
    cx.text.Close();
    Barrier(cx);
    for (ValueId id : combine.args) {
      cx.text.Line("x", id, " = y", id, "[", cx.thread, " % ", warps, "];");
    }
    Shuffles(cx, pc, warps);
    // The arrays are written again.
    cx.pending = cx.serial > 0 || cx.grid_is_loop;
    if (cx.in_block) Barrier(cx);
  }
  const Instr& end = cx.kernel.code[cx.blocks.end_at[pc]];
  for (size_t i = 0; i < combine.args.size(); ++i) {
    std::string x = StrCat("x", combine.args[i]);
    cx.text.Line(x, " = ShuffleFrom(", x, ", 0);");
    cx.names[end.results[i]] = x;
  }
}

void RenderCombiner(KernelContext& cx, size_t pc) {
  const Instr& combine = cx.kernel.code[cx.blocks.else_at[pc]];
  const Instr& end = cx.kernel.code[cx.blocks.end_at[pc]];
  std::string parameters;
  for (ValueId id : combine.results) {
    cx.names[id] = StrCat("v", id);
    StrAppend(parameters, parameters.empty() ? "" : ", ", CudaType(cx.kernel.type(id)), " ",
              cx.names[id]);
  }
  for (size_t i = 0; i < combine.args.size(); ++i) {
    StrAppend(parameters, ", ", CudaType(cx.kernel.type(combine.args[i])), "& r", i);
  }
  cx.text.Open("auto combine", pc, " = [&](", parameters, ") {");
  RenderBlock(cx, cx.blocks.else_at[pc] + 1, cx.blocks.end_at[pc]);
  for (size_t i = 0; i < end.args.size(); ++i)
    cx.text.Line("r", i, " = ", Lane(cx, end.args[i]), ";");
  cx.text.Close("};");
}

void Shuffles(KernelContext& cx, size_t pc, int64_t n) {
  if (n < 2) return;
  std::string mine, others;
  for (ValueId id : cx.kernel.code[cx.blocks.else_at[pc]].args) {
    StrAppend(mine, mine.empty() ? "" : ", ", "x", id);
    StrAppend(others, "ShuffleDown(x", id, ", d), ");
  }
  cx.text.Line("#pragma unroll");
  cx.text.Line("for (u32 d = 1; d < ", n, "; d *= 2) combine", pc, "(", mine, ", ", others, mine,
               ");");
}

}  // namespace weft::gpu
