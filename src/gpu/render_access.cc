// Memory of a kernel: shared and private arrays, loads and stores by 16 bytes, and the barriers
// between accesses of the threads of a block.
#include <algorithm>

#include "gpu/kernel_context.h"

namespace weft::gpu {

using program::Instr;
using program::Memory;
using program::Op;
using program::ValueId;

namespace {

constexpr int64_t kPackedBytes = 16;  // of one memory access

}  // namespace

void Barrier(KernelContext& cx) {
  if (cx.threads > 1) cx.text.Line(cx.by_warps ? "__syncwarp();" : "__syncthreads();");
  cx.stored.assign(cx.kernel.memories.size(), false);
  cx.loaded = cx.stored;
  cx.pending = false;
}

void DeclareArray(KernelContext& cx, int32_t memory) {
  const Memory& m = cx.kernel.memories[memory];
  int64_t align = std::max(m.align, std::min<int64_t>(kPackedBytes, m.count * ByteWidth(m.dtype)));
  align = std::max<int64_t>(align, ByteWidth(m.dtype));
  while ((align & (align - 1)) != 0) align &= align - 1;
  bool shared = cx.role == Role::kTogether && !m.per_thread;
  std::string_view type = CudaStorageType(m.dtype);
  int64_t count = std::max<int64_t>(m.count, 1);
  if (shared && cx.by_warps) {
    int64_t each = (count * ByteWidth(m.dtype) + kPackedBytes - 1) / kPackedBytes * kPackedBytes;
    cx.text.Line("__shared__ alignas(", kPackedBytes, ") u8 s", memory, "[", kWarpsOfBlock * each,
                 "];");
    cx.text.Line(type, "* m", memory, " = (", type, "*)(s", memory, " + w * ", each, ");");
    return;
  }
  if (shared && cx.dynamic_shared) {
    cx.text.Line(type, "* m", memory, " = (", type, "*)(shared + ", cx.shared_offset, ");");
    cx.shared_offset += (count * ByteWidth(m.dtype) + 127) / 128 * 128;
    return;
  }
  cx.text.Line(shared ? "__shared__ " : "", "alignas(", align, ") ", type, " m", memory, "[", count,
               "];");
}

std::string Element(const KernelContext& cx, const Instr& instr) {
  std::string index = Lane(cx, instr.args[0]);
  bool consecutive = instr.type.lanes > 1 && cx.kernel.type(instr.args[0]).lanes == 1;
  return StrCat("m", instr.memory, "[", index, consecutive ? " + l" : "", "]");
}

std::string PackedType(const KernelContext& cx, const Instr& instr) {
  DType dtype = cx.kernel.memories[instr.memory].dtype;
  int64_t bytes = ByteWidth(dtype) * instr.type.lanes, align = std::min(bytes, kPackedBytes);
  bool gathers = cx.kernel.type(instr.args[0]).lanes > 1;
  if (instr.type.lanes == 1 || gathers || HasMask(instr) || instr.align < align) return "";
  return StrCat("Packed<", CudaStorageType(dtype), ", ", instr.type.lanes, ", ", align, ">");
}

void RenderLoad(KernelContext& cx, const Instr& instr) {
  const Memory& m = cx.kernel.memories[instr.memory];
  bool fixed = instr.memory < cx.kernel.num_params && !Writes(m.access);
  if (cx.role == Role::kTogether && !fixed) {
    if (cx.stored[instr.memory]) Barrier(cx);
    cx.loaded[instr.memory] = cx.pending = true;
  }
  ValueId result = instr.results[0];
  if (std::string packed = PackedType(cx, instr); !packed.empty()) {
    std::string name = StrCat("p", result);
    cx.text.Line("const ", packed, " ", name, " = *(const ", packed, "*)(m", instr.memory, " + ",
                 Lane(cx, instr.args[0]), ");");
    return Define(cx, result, FromStorage(m.dtype, StrCat(name, ".v[l]")));
  }
  std::string value = FromStorage(m.dtype, Element(cx, instr));
  if (HasMask(instr)) {
    std::string zero = StrCat(CudaType(instr.type.dtype), "(0)");
    value = StrCat(Lane(cx, instr.args[1]), " ? ", value, " : ", zero);
  }
  Define(cx, result, value);
}

void RenderStore(KernelContext& cx, const Instr& instr) {
  const Memory& m = cx.kernel.memories[instr.memory];
  bool together = cx.role == Role::kTogether;
  if (together) {
    if (cx.loaded[instr.memory]) Barrier(cx);
    cx.stored[instr.memory] = cx.pending = true;
  }
  std::string value = ToStorage(m.dtype, Lane(cx, instr.args[1]));
  bool guarded = together && cx.threads > 1;
  if (guarded) cx.text.Open("if (", cx.thread, " == 0) {");
  if (std::string packed = PackedType(cx, instr); !packed.empty()) {
    cx.text.Open("{");
    cx.text.Line(packed, " p;");
    cx.text.Line("LANES(", instr.type.lanes, ") p.v[l] = ", value, ";");
    cx.text.Line("*(", packed, "*)(m", instr.memory, " + ", Lane(cx, instr.args[0]), ") = p;");
    cx.text.Close();
  } else {
    std::string lanes = instr.type.lanes > 1 ? StrCat("LANES(", instr.type.lanes, ") ") : "";
    std::string mask = HasMask(instr) ? StrCat("if (", Lane(cx, instr.args[2]), ") ") : "";
    cx.text.Line(lanes, mask, Element(cx, instr), " = ", value, ";");
  }
  if (guarded) cx.text.Close();
}

void RenderAtomic(KernelContext& cx, const Instr& instr) {
  DType dtype = cx.kernel.memories[instr.memory].dtype;
  bool together = cx.role == Role::kTogether;
  if (together) {
    if (cx.loaded[instr.memory] || cx.stored[instr.memory]) Barrier(cx);
    cx.stored[instr.memory] = cx.pending = true;
  }
  cx.text.Line(together && cx.threads > 1 ? StrCat("if (", cx.thread, " == 0) ") : "",
               RenderAtomicCall(instr.atomic, dtype,
                                StrCat("m", instr.memory, " + ", Lane(cx, instr.args[0])),
                                Lane(cx, instr.args[1])),
               ";");
}

}  // namespace weft::gpu
