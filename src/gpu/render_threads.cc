// The grid and thread loops of a kernel, and what the threads of a block combine.
#include <algorithm>

#include "gpu/kernel_renderer.h"
#include "program/cost.h"

namespace weft::gpu {

using program::Instr;
using program::LoopKind;
using program::Op;
using program::ValueId;

void KernelRenderer::RenderGrid(size_t pc) {
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

void KernelRenderer::OpenGrid() {
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

void KernelRenderer::DefineCounter(const Instr& loop, const std::string& number) {
  std::string type(CudaType(loop.type));
  int64_t begin = kernel_.value(loop.args[0]).AsInt(), step = kernel_.value(loop.args[2]).AsInt();
  std::string value = StrCat(type, "(", number, ")");
  if (step != 1) StrAppend(value, " * ", Lane(loop.args[2]));
  if (begin != 0) StrAppend(value, " + ", Lane(loop.args[0]));
  Define(loop.results[0], value);
}

int64_t KernelRenderer::ThreadsOf(size_t pc) const {
  int64_t n = *TripCount(kernel_, kernel_.code[pc]);
  for (size_t i = pc + 1; i < blocks_.end_at[pc]; ++i) {
    const Instr& instr = kernel_.code[i];
    if (instr.op == Op::kLoop && instr.loop == LoopKind::kThread) return n * ThreadsOf(i);
  }
  return n;
}

void KernelRenderer::RenderThreads(size_t pc) {
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

std::span<const ValueId> KernelRenderer::CombinedBy(size_t pc) const {
  if (blocks_.else_at[pc] == 0) return {};
  const auto& args = kernel_.code[blocks_.else_at[pc]].args;
  return {args.begin(), args.end()};
}

void KernelRenderer::RenderCombine(size_t pc, int64_t n) {
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

void KernelRenderer::RenderCombiner(size_t pc) {
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

void KernelRenderer::Shuffles(size_t pc, int64_t n) {
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

}  // namespace weft::gpu
