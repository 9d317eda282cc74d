#include "gpu/render_cuda.h"

#include <algorithm>

#include "gpu/kernel_renderer.h"
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

void KernelRenderer::Render() {
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

std::string KernelRenderer::Lane(ValueId id, std::string_view lane) const {
  const program::Value& value = kernel_.value(id);
  if (value.is_constant) return CudaConstant(value);
  if (value.type.lanes == 1) return names_[id];
  return StrCat(names_[id], ".v[", lane, "]");
}

void KernelRenderer::Define(ValueId id, const std::string& expression, bool constant) {
  names_[id] = StrCat("v", id);
  Type type = kernel_.type(id);
  if (type.lanes == 1) {
    text_.Line(constant ? "const " : "", CudaType(type), " ", names_[id], " = ", expression, ";");
    return;
  }
  text_.Line(CudaType(type), " ", names_[id], ";");
  text_.Line("LANES(", type.lanes, ") ", names_[id], ".v[l] = ", expression, ";");
}

void KernelRenderer::Assign(const std::string& name, Type type, const std::string& expression) {
  if (type.lanes == 1) return text_.Line(name, " = ", expression, ";");
  text_.Line("LANES(", type.lanes, ") ", name, ".v[l] = ", expression, ";");
}

void KernelRenderer::RenderBlock(size_t begin, size_t end) {
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

void KernelRenderer::RenderCompute(const Instr& instr) {
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

void KernelRenderer::RenderLanes(const Instr& instr, ValueId result) {
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

void KernelRenderer::RenderIf(size_t pc) {
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

void KernelRenderer::RenderLoop(size_t pc) {
  switch (kernel_.code[pc].loop) {
    case LoopKind::kParallel: return RenderGrid(pc);
    case LoopKind::kThread: return RenderThreads(pc);
    default: return RenderSerial(pc);
  }
}

bool KernelRenderer::StepFits(const Instr& loop) const {
  std::optional<int64_t> end = MostOf(loop.args[1]);
  int64_t step = kernel_.value(loop.args[2]).AsInt(), last;
  if (step == 1) return true;
  return end && !__builtin_add_overflow(*end, step, &last) &&
         program::FitsInteger(last, loop.type.dtype);
}

std::optional<int64_t> KernelRenderer::MostOf(ValueId id) const {
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

void KernelRenderer::RenderSerial(size_t pc) {
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

void KernelRenderer::CarryOver(const Instr& loop, const Instr& end, size_t carried) {
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
