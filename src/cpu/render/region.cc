// Functions of native regions: their parameters, the buffers that live in registers, addresses.
#include <algorithm>

#include "cpu/render/function_renderer.h"
#include "program/target_facts.h"

namespace weft::cpu {

using program::BufferId;
using program::Slice;

namespace {

constexpr int64_t kManyPointers =
    3 * program::TargetFacts::kGeneralRegisters / 2;  // buffers of a region

}  // namespace

std::string FunctionRenderer::Signature() const {
  if (!region_) return "i32 @weft_run(ptr %ctx, ptr %buffers)";
  std::string text = StrCat("internal i32 @region_", plan_.region_numbers.at(region_->loop),
                            "(ptr nocapture readonly %ctx");
  bool shares = SharesArena(*region_);
  if (shares) {
    StrAppend(text, ", ptr noalias nocapture align 64 dereferenceable(", plan_.arena_bytes,
              ") %arena");
  }
  for (size_t i = 0; i < region_->pointers.size(); ++i) {
    BufferId id = region_->pointers[i];
    if (shares && InArena(id)) continue;
    StrAppend(text, ", ptr noalias nocapture ", region_->written[i] ? "writable" : "readonly",
              " align ", AlignOf(id));
    int64_t bytes = plan_.places[id].bytes;
    if (bytes > 0) StrAppend(text, " dereferenceable(", bytes, ")");
    StrAppend(text, " %b", id);
  }
  if (LooksUp(*region_)) return text + ", ptr noalias nocapture readonly %buffers)";
  for (const program::RegionLocal& local : region_->locals) {
    if (local.copy_in || local.copy_out)
      StrAppend(text, ", ptr noalias nocapture %o", local.buffer);
  }
  return text + ")";
}

int64_t FunctionRenderer::AlignOf(BufferId id) const {
  const program::Buffer& buffer = program_.buffers[id];
  if (plan_.places[id].bytes < 64) return ByteWidth(RealType(buffer.shape.dtype()));
  bool ours =
      buffer.kind == program::BufferKind::kTemp || buffer.kind == program::BufferKind::kConstant;
  return std::min<int64_t>(buffer.align, ours ? 64 : 16);
}

bool FunctionRenderer::SharesArena(const Region& region) const {
  return std::count_if(region.pointers.begin(), region.pointers.end(),
                       [&](BufferId id) { return InArena(id); }) > kManyPointers;
}

bool FunctionRenderer::LooksUp(const Region& region) {
  return std::count_if(region.locals.begin(), region.locals.end(),
                       [](const program::RegionLocal& local) {
                         return local.copy_in || local.copy_out;
                       }) > kManyPointers;
}

void FunctionRenderer::BeginRegion() {
  bool shares = SharesArena(*region_);
  for (BufferId id : region_->pointers) {
    if (!shares || !InArena(id)) continue;
    StrAppend(entry_, "  %b", id, " = getelementptr inbounds i8, ptr %arena, i64 ",
              plan_.places[id].offset, "\n");
  }
  for (const program::RegionLocal& local : region_->locals) {
    int64_t bytes = plan_.places[local.buffer].bytes;
    StrAppend(entry_, "  %b", local.buffer, " = alloca [", bytes, " x i8], align ",
              std::max<int64_t>(program_.buffers[local.buffer].align, 16), "\n");
    if (local.copy_in) {
      CopyBytes(StrCat("%b", local.buffer), Outside(local, "%buffers"), bytes);
    }
  }
}

void FunctionRenderer::EndRegion() {
  std::string table = "%buffers";
  // LLVM is not to know that it has these addresses already.
  if (LooksUp(*region_)) table = ir_.Def("call ptr asm \"\", \"=r,0\"(ptr %buffers) nounwind");
  for (const program::RegionLocal& local : region_->locals) {
    if (!local.copy_out) continue;
    CopyBytes(Outside(local, table), StrCat("%b", local.buffer), plan_.places[local.buffer].bytes);
  }
}

std::string FunctionRenderer::TableEntry(BufferId id, std::string_view table) {
  const Place& place = plan_.places[id];
  std::string entry = Offset(std::string(table), int64_t{place.slot} * 8);
  std::string base = ir_.Def("load ptr, ptr ", entry, ", align 8, !invariant.load !0");
  return Offset(base, place.offset);
}

std::string FunctionRenderer::Address(const program::Use& use) {
  Slice slice = Resolve(program_, use.slice);
  if (!region_) return Offset(TableEntry(slice.buffer), slice.offset);
  const std::vector<BufferId>& constants = region_->constants;
  bool known = std::binary_search(constants.begin(), constants.end(), slice.buffer);
  return Offset(StrCat(known ? "@constant_" : "%b", slice.buffer), slice.offset);
}

}  // namespace weft::cpu
