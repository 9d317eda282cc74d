// Contiguous slices, whose elements follow each other in memory: a memcpy, for which no code is
// compiled.
#include "compiler/lower/table.h"

namespace weft::compiler {

using hlo::Instruction;

namespace {

Decision MatchPartCopy(Subject& subject) {
  LowerContext& cx = subject.cx;
  const Instruction& slice = subject.instruction;
  // There a kernel is inlined, and what it makes may stay in registers.
  if (cx.serial || cx.in_loop) return Refuse("it is inside of a loop");
  if (!StartOfPart(slice)) return Refuse("its elements do not follow each other");
  if (cx.Buffer(cx.memory.Leaf(*slice.operand(0))) == cx.Buffer(cx.memory.Leaf(slice))) {
    return Refuse("it lies on its operand");
  }
  return Take("its elements follow each other in the operand");
}

Status LowerPartCopy(Subject& subject) {
  LowerContext& cx = subject.cx;
  const Instruction& slice = subject.instruction;
  CopyInto(cx, cx.Buffer(cx.memory.Leaf(*slice.operand(0))), slice.shape().ByteSize(),
           cx.Buffer(cx.memory.Leaf(slice)), 0, slice, subject.steps, *StartOfPart(slice));
  return {};
}

}  // namespace

extern constinit const LoweringRow kPartCopy = {
    "copy of a part", {hlo::Op::kSlice}, MatchPartCopy, LowerPartCopy};

}  // namespace weft::compiler
