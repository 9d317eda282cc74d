// Memory of a kernel: shared and private arrays, loads and stores by 16 bytes, and the barriers
// between accesses of the threads of a block.
#include <algorithm>

#include "gpu/kernel_renderer.h"

namespace weft::gpu {

using program::Instr;
using program::Memory;
using program::Op;
using program::ValueId;

namespace {

constexpr int64_t kPackedBytes = 16;  // of one memory access

}  // namespace

void KernelRenderer::Barrier() {
  if (threads_ > 1) text_.Line(by_warps_ ? "__syncwarp();" : "__syncthreads();");
  stored_.assign(kernel_.memories.size(), false);
  loaded_ = stored_;
  pending_ = false;
}

void KernelRenderer::DeclareArray(int32_t memory) {
  const Memory& m = kernel_.memories[memory];
  int64_t align = std::max(m.align, std::min<int64_t>(kPackedBytes, m.count * ByteWidth(m.dtype)));
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

std::string KernelRenderer::Element(const Instr& instr) const {
  std::string index = Lane(instr.args[0]);
  bool consecutive = instr.type.lanes > 1 && kernel_.type(instr.args[0]).lanes == 1;
  return StrCat("m", instr.memory, "[", index, consecutive ? " + l" : "", "]");
}

std::string KernelRenderer::PackedType(const Instr& instr) const {
  DType dtype = kernel_.memories[instr.memory].dtype;
  int64_t bytes = ByteWidth(dtype) * instr.type.lanes, align = std::min(bytes, kPackedBytes);
  bool gathers = kernel_.type(instr.args[0]).lanes > 1;
  if (instr.type.lanes == 1 || gathers || HasMask(instr) || instr.align < align) return "";
  return StrCat("Packed<", CudaStorageType(dtype), ", ", instr.type.lanes, ", ", align, ">");
}

void KernelRenderer::RenderLoad(const Instr& instr) {
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

void KernelRenderer::RenderStore(const Instr& instr) {
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

void KernelRenderer::RenderAtomic(const Instr& instr) {
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

}  // namespace weft::gpu
