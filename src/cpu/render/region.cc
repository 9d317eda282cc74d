// Functions of native regions: their parameters, the buffers that live in registers, addresses.
#include <algorithm>

#include "cpu/render/function_context.h"
#include "program/target_facts.h"

namespace weft::cpu {

using program::BufferId;
using program::Slice;

namespace {

constexpr int64_t kManyPointers =
    3 * program::TargetFacts::kGeneralRegisters / 2;  // buffers of a region

}  // namespace

std::string Signature(const FunctionContext& cx) {
  if (!cx.region) return StrCat("i32 @", cx.name, "(ptr %ctx, ptr %buffers)");
  std::string text = StrCat("internal i32 @region_", cx.plan.region_numbers.at(cx.region->loop),
                            "(ptr nocapture readonly %ctx");
  bool shares = SharesArena(cx, *cx.region);
  if (shares) {
    StrAppend(text, ", ptr noalias nocapture align 64 dereferenceable(", cx.plan.arena_bytes,
              ") %arena");
  }
  for (size_t i = 0; i < cx.region->pointers.size(); ++i) {
    BufferId id = cx.region->pointers[i];
    if (shares && InArena(cx, id)) continue;
    StrAppend(text, ", ptr noalias nocapture ", cx.region->written[i] ? "writable" : "readonly",
              " align ", AlignOf(cx, id));
    int64_t bytes = cx.plan.places[id].bytes;
    if (bytes > 0) StrAppend(text, " dereferenceable(", bytes, ")");
    StrAppend(text, " %b", id);
  }
  if (LooksUp(*cx.region)) return text + ", ptr noalias nocapture readonly %buffers)";
  for (const program::RegionLocal& local : cx.region->locals) {
    if (local.copy_in || local.copy_out)
      StrAppend(text, ", ptr noalias nocapture %o", local.buffer);
  }
  return text + ")";
}

int64_t AlignOf(const FunctionContext& cx, BufferId id) {
  const program::Buffer& buffer = cx.program.buffers[id];
  if (cx.plan.places[id].bytes < 64) return ByteWidth(RealType(buffer.shape.dtype()));
  bool ours =
      buffer.kind == program::BufferKind::kTemp || buffer.kind == program::BufferKind::kConstant;
  return std::min<int64_t>(buffer.align, ours ? 64 : 16);
}

bool SharesArena(const FunctionContext& cx, const Region& region) {
  return std::count_if(region.pointers.begin(), region.pointers.end(),
                       [&](BufferId id) { return InArena(cx, id); }) > kManyPointers;
}

bool LooksUp(const Region& region) {
  return std::count_if(region.locals.begin(), region.locals.end(),
                       [](const program::RegionLocal& local) {
                         return local.copy_in || local.copy_out;
                       }) > kManyPointers;
}

void BeginRegion(FunctionContext& cx) {
  bool shares = SharesArena(cx, *cx.region);
  for (BufferId id : cx.region->pointers) {
    if (!shares || !InArena(cx, id)) continue;
    StrAppend(cx.entry, "  %b", id, " = getelementptr inbounds i8, ptr %arena, i64 ",
              cx.plan.places[id].offset, "\n");
  }
  for (const program::RegionLocal& local : cx.region->locals) {
    int64_t bytes = cx.plan.places[local.buffer].bytes;
    StrAppend(cx.entry, "  %b", local.buffer, " = alloca [", bytes, " x i8], align ",
              std::max<int64_t>(cx.program.buffers[local.buffer].align, 16), "\n");
    if (local.copy_in) {
      CopyBytes(cx, StrCat("%b", local.buffer), Outside(cx, local, "%buffers"), bytes);
    }
  }
}

void EndRegion(FunctionContext& cx) {
  std::string table = "%buffers";
  // LLVM is not to know that it has these addresses already.
  if (LooksUp(*cx.region)) table = cx.ir.Def("call ptr asm \"\", \"=r,0\"(ptr %buffers) nounwind");
  for (const program::RegionLocal& local : cx.region->locals) {
    if (!local.copy_out) continue;
    CopyBytes(cx, Outside(cx, local, table), StrCat("%b", local.buffer),
              cx.plan.places[local.buffer].bytes);
  }
}

std::string TableEntry(FunctionContext& cx, BufferId id, std::string_view table) {
  const Place& place = cx.plan.places[id];
  std::string entry = Offset(cx, std::string(table), int64_t{place.slot} * 8);
  std::string base = cx.ir.Def("load ptr, ptr ", entry, ", align 8, !invariant.load !0");
  return Offset(cx, base, place.offset);
}

std::string Address(FunctionContext& cx, const program::Use& use) {
  Slice slice = Resolve(cx.program, use.slice);
  if (!cx.region) return Offset(cx, TableEntry(cx, slice.buffer), slice.offset);
  const std::vector<BufferId>& constants = cx.region->constants;
  bool known = std::binary_search(constants.begin(), constants.end(), slice.buffer);
  return Offset(cx, StrCat(known ? "@constant_" : "%b", slice.buffer), slice.offset);
}

}  // namespace weft::cpu
