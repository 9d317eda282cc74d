#include "gpu/render_cuda.h"

#include <algorithm>

#include "gpu/kernel_context.h"
#include "gpu/narrow_indices.h"
#include "program/cost.h"

namespace weft::gpu {

using program::Branch;
using program::Instr;
using program::Kernel;
using program::LoopKind;
using program::Memory;
using program::Op;
using program::Type;
using program::ValueId;

namespace {

constexpr int64_t kMaxUnrolled = 4096;  // instructions that an `unroll` loop becomes

}  // namespace

void RenderBody(KernelContext& cx) {
  cx.blocks = MatchBlocks(cx.kernel);
  cx.names.resize(cx.kernel.values.size());
  bool grid = !Extents(cx.kernel).grid.empty();
  // A lone iteration is thread 0's.
  bool guarded = cx.in_block && !grid && !cx.has_threads && cx.threads > 1;
  if (guarded) cx.text.Open("if (threadIdx.x == 0) {");
  if (cx.dynamic_shared) cx.text.Line("extern __shared__ __align__(128) u8 shared[];");
  if (cx.by_warps) {
    cx.text.Line("const u32 t = threadIdx.x % ", kWarp, ", w = threadIdx.x / ", kWarp, ";");
  }
  RenderBlock(cx, 0, cx.kernel.code.size());
  if (guarded) cx.text.Close();
}

std::string Lane(const KernelContext& cx, ValueId id, std::string_view lane) {
  const program::Value& value = cx.kernel.value(id);
  if (value.is_constant) return CudaConstant(value);
  if (value.type.lanes == 1) return cx.names[id];
  return StrCat(cx.names[id], ".v[", lane, "]");
}

void Define(KernelContext& cx, ValueId id, const std::string& expression, bool constant) {
  cx.names[id] = StrCat("v", id);
  Type type = cx.kernel.type(id);
  if (type.lanes == 1) {
    cx.text.Line(constant ? "const " : "", CudaType(type), " ", cx.names[id], " = ", expression,
                 ";");
    return;
  }
  cx.text.Line(CudaType(type), " ", cx.names[id], ";");
  cx.text.Line("LANES(", type.lanes, ") ", cx.names[id], ".v[l] = ", expression, ";");
}

void Assign(KernelContext& cx, const std::string& name, Type type, const std::string& expression) {
  if (type.lanes == 1) return cx.text.Line(name, " = ", expression, ";");
  cx.text.Line("LANES(", type.lanes, ") ", name, ".v[l] = ", expression, ";");
}

void RenderBlock(KernelContext& cx, size_t begin, size_t end) {
  for (size_t pc = begin; pc < end; ++pc) {
    const Instr& instr = cx.kernel.code[pc];
    switch (instr.op) {
      case Op::kLoop:
        RenderLoop(cx, pc);
        pc = cx.blocks.end_at[pc];
        break;
      case Op::kIf:
        RenderIf(cx, pc);
        pc = cx.blocks.end_at[pc];
        break;
      case Op::kArray: DeclareArray(cx, instr.memory); break;
      case Op::kLoad: RenderLoad(cx, instr); break;
      case Op::kStore: RenderStore(cx, instr); break;
      case Op::kAtomic: RenderAtomic(cx, instr); break;
      default: RenderCompute(cx, instr);
    }
  }
}

void RenderCompute(KernelContext& cx, const Instr& instr) {
  ValueId result = instr.results[0];
  if (Info(instr.op).cls == program::OpClass::kLanes) return RenderLanes(cx, instr, result);
  std::vector<std::string> args;
  std::vector<Type> types;
  for (ValueId id : instr.args) {
    args.push_back(Lane(cx, id));
    types.push_back(cx.kernel.type(id));
  }
  Define(cx, result, RenderOp(instr, args, types));
}

void RenderLanes(KernelContext& cx, const Instr& instr, ValueId result) {
  switch (instr.op) {
    case Op::kSplat: return Define(cx, result, Lane(cx, instr.args[0]));
    case Op::kIota: {
      std::string_view lane = instr.type.lanes == 1 ? "0" : "l";
      return Define(cx, result, StrCat(CudaType(instr.type.dtype), "(", lane, ")"));
    }
    case Op::kExtract: return Define(cx, result, Lane(cx, instr.args[0], StrCat(instr.lanes[0])));
    case Op::kAny: {
      int lanes = cx.kernel.type(instr.args[0]).lanes;
      std::string any;
      for (int i = 0; i < lanes; ++i) {
        StrAppend(any, i > 0 ? " | " : "", Lane(cx, instr.args[0], StrCat(i)));
      }
      return Define(cx, result, any);
    }
    default: break;
  }
  int from = cx.kernel.type(instr.args[0]).lanes;
  std::string values;
  for (int32_t lane : instr.lanes) {
    StrAppend(values, values.empty() ? "" : ", ",
              Lane(cx, instr.args[static_cast<size_t>(lane / from)], StrCat(lane % from)));
  }
  if (instr.type.lanes == 1) return Define(cx, result, values);
  cx.names[result] = StrCat("v", result);
  cx.text.Line("const ", CudaType(instr.type), " ", cx.names[result], " = {{", values, "}};");
}

void RenderIf(KernelContext& cx, size_t pc) {
  const Instr& end = cx.kernel.code[cx.blocks.end_at[pc]];
  bool has_else = cx.blocks.else_at[pc] != 0;
  Flush(cx);
  for (ValueId id : end.results) {
    cx.names[id] = StrCat("v", id);
    cx.text.Line(CudaType(cx.kernel.type(id)), " ", cx.names[id], ";");
  }
  std::string condition = Lane(cx, cx.kernel.code[pc].args[0]);
  if (Branch branch = cx.kernel.code[pc].branch; branch != Branch::kEven) {
    int expected = branch == Branch::kUnlikely ? 0 : 1;
    condition = StrCat("__builtin_expect(", condition, ", ", expected, ")");
  }
  cx.text.Open("if (", condition, ") {");
  RenderBlock(cx, pc + 1, has_else ? cx.blocks.else_at[pc] : cx.blocks.end_at[pc]);
  if (has_else) {
    Yield(cx, end.results, cx.kernel.code[cx.blocks.else_at[pc]].args);
    Flush(cx);
    cx.text.Else();
    RenderBlock(cx, cx.blocks.else_at[pc] + 1, cx.blocks.end_at[pc]);
    Yield(cx, end.results, end.args);
  }
  Flush(cx);
  cx.text.Close();
}

void RenderLoop(KernelContext& cx, size_t pc) {
  switch (cx.kernel.code[pc].loop) {
    case LoopKind::kParallel: return RenderGrid(cx, pc);
    case LoopKind::kThread: return RenderThreads(cx, pc);
    default: return RenderSerial(cx, pc);
  }
}

bool StepFits(const KernelContext& cx, const Instr& loop) {
  std::optional<int64_t> end = MostOf(cx, loop.args[1]);
  int64_t step = cx.kernel.value(loop.args[2]).AsInt(), last;
  if (step == 1) return true;
  return end && !__builtin_add_overflow(*end, step, &last) &&
         program::FitsInteger(last, loop.type.dtype);
}

std::optional<int64_t> MostOf(const KernelContext& cx, ValueId id) {
  const program::Value& value = cx.kernel.value(id);
  if (value.is_constant) return value.AsInt();
  for (const Instr& instr : cx.kernel.code) {
    if (instr.op != Op::kMin || instr.results.empty() || instr.results[0] != id) continue;
    for (ValueId arg : instr.args) {
      if (cx.kernel.value(arg).is_constant) return cx.kernel.value(arg).AsInt();
    }
  }
  return std::nullopt;
}

void RenderSerial(KernelContext& cx, size_t pc) {
  const Instr& loop = cx.kernel.code[pc];
  const Instr& end = cx.kernel.code[cx.blocks.end_at[pc]];
  Flush(cx);
  size_t carried = loop.args.size() - 3;
  for (size_t i = 0; i < carried; ++i) {
    Define(cx, loop.results[i + 1], Lane(cx, loop.args[i + 3]), false);
  }
  std::optional<int64_t> trips = TripCount(cx.kernel, loop);
  int64_t size = static_cast<int64_t>(cx.blocks.end_at[pc] - pc);
  if (loop.loop == LoopKind::kUnroll && trips && *trips <= kMaxUnrolled / size) {
    cx.text.Line("#pragma unroll");
  }
  std::string type(CudaType(loop.type)), i = StrCat("v", loop.results[0]);
  std::string limit = Lane(cx, loop.args[1]), step = Lane(cx, loop.args[2]);
  cx.names[loop.results[0]] = i;
  std::string next = StepFits(cx, loop) ? StrCat(i, " += ", step)
                                        : StrCat(i, " = Next(", i, ", ", limit, ", ", step, ")");
  cx.text.Open("for (", type, " ", i, " = ", Lane(cx, loop.args[0]), "; ", i, " < ", limit, "; ",
               next, ") {");
  ++cx.serial;
  RenderBlock(cx, pc + 1, cx.blocks.end_at[pc]);
  --cx.serial;
  CarryOver(cx, loop, end, carried);
  Flush(cx);
  cx.text.Close();
  for (size_t k = 0; k < carried; ++k) cx.names[end.results[k]] = cx.names[loop.results[k + 1]];
}

void CarryOver(KernelContext& cx, const Instr& loop, const Instr& end, size_t carried) {
  auto is_carried = [&](ValueId id) {
    return std::find(loop.results.begin(), loop.results.end(), id) != loop.results.end();
  };
  bool aside = carried > 1 && std::any_of(end.args.begin(), end.args.end(), is_carried);
  for (size_t k = 0; k < carried && aside; ++k) {
    Type type = cx.kernel.type(end.args[k]);
    std::string name = StrCat("t", loop.results[k + 1]);
    cx.text.Line(CudaType(type), " ", name, ";");
    Assign(cx, name, type, Lane(cx, end.args[k]));
  }
  for (size_t k = 0; k < carried; ++k) {
    Type type = cx.kernel.type(end.args[k]);
    std::string from = Lane(cx, end.args[k]);
    if (aside) from = StrCat("t", loop.results[k + 1], type.lanes > 1 ? ".v[l]" : "");
    Assign(cx, cx.names[loop.results[k + 1]], type, from);
  }
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
  KernelContext cx(narrow, launch.threads, false, text);
  RenderBody(cx);
  text.Close();
  out += text.text();
}

void RenderInBlock(const Kernel& kernel, int64_t threads, CudaText& text) {
  Kernel narrow = NarrowIndices(kernel);
  KernelContext cx(narrow, threads, true, text);
  RenderBody(cx);
}

}  // namespace weft::gpu
