#include "program/program.h"

#include <array>

#include "base/packing.h"

namespace weft::program {

std::optional<int64_t> ByteSize(const Buffer& buffer) {
  if (!buffer.shape.IsArray() || buffer.shape.HasDynamicDims()) return std::nullopt;
  std::optional<int64_t> elements = buffer.shape.CheckedElements();
  int64_t bytes;
  if (elements && buffer.packed) return PackedBytes(buffer.shape.dtype(), *elements);
  if (!elements || __builtin_mul_overflow(*elements, ByteWidth(buffer.shape.dtype()), &bytes)) {
    return std::nullopt;
  }
  return bytes;
}

bool HasLists(const Step& step) {
  return std::holds_alternative<WhileStep>(step.op) ||
         std::holds_alternative<ConditionalStep>(step.op) ||
         std::holds_alternative<ListStep>(step.op);
}

bool IsAsyncList(const Step& step) {
  return !step.event.empty() && std::holds_alternative<ListStep>(step.op);
}

bool RunsInRegion(const Step& step) {
  return std::holds_alternative<KernelStep>(step.op) || std::holds_alternative<CopyStep>(step.op) ||
         std::holds_alternative<FillStep>(step.op) || std::holds_alternative<WaitStep>(step.op) ||
         std::holds_alternative<WhileStep>(step.op) ||
         std::holds_alternative<ConditionalStep>(step.op);
}

std::string_view KindName(const Step& step) {
  static constexpr std::array<std::string_view, 11> kNames = {"launch",     "copy", "fill", "call",
                                                              "collective", "send", "recv", "wait",
                                                              "while",      "if",   "steps"};
  return kNames[step.op.index()];
}

bool HasEffects(const Step& step) {
  bool effects = false;
  ForEachStep(std::span(&step, 1), [&](const Step& s) {
    auto* library = std::get_if<LibraryStep>(&s.op);
    effects |= library ? library->has_effects
                       : std::holds_alternative<CollectiveStep>(s.op) ||
                             std::holds_alternative<SendStep>(s.op) ||
                             std::holds_alternative<RecvStep>(s.op);
  });
  return effects;
}

std::vector<Use> AllUses(const Step& step) {
  std::vector<Use> uses;
  ForEachStep(std::span(&step, 1),
              [&](const Step& s) { uses.insert(uses.end(), s.uses.begin(), s.uses.end()); });
  return uses;
}

Slice Resolve(const Program& program, const Slice& slice) {
  const Buffer& buffer = program.buffers[slice.buffer];
  if (buffer.base < 0) return slice;
  return {buffer.base, slice.offset + buffer.offset, slice.size};
}

bool Overlap(const Slice& a, const Slice& b) {
  return a.buffer == b.buffer && a.offset < b.offset + b.size && b.offset < a.offset + a.size &&
         a.size > 0 && b.size > 0;
}

}  // namespace weft::program
