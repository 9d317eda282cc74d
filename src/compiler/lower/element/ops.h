// The element of each op that is more than arithmetic on its operands' elements. For element/
// alone.
#pragma once

#include <functional>
#include <optional>

#include "compiler/lower/element/element.h"

namespace weft::compiler {

// moved.cc: ops whose element is an element of the operand, at another index.
Result<Element> EmitMoved(ElementContext& e, const hlo::Instruction& instruction,
                          const Index& index);
// The index of a reshape's operand.
Index ReshapedIndex(ElementContext& e, const Shape& from, const Shape& to, const Index& index);
// indexed.cc
Result<Element> EmitPad(ElementContext& e, const hlo::Instruction& pad, const Index& index);
Result<Element> EmitDynamicSlice(ElementContext& e, const hlo::Instruction& slice,
                                 const Index& index);
Result<Element> EmitGather(ElementContext& e, const hlo::Instruction& gather, const Index& index);
// update.cc
Result<Element> EmitDynamicUpdateSlice(ElementContext& e, const hlo::Instruction& update,
                                       const Index& index);
// concatenate.cc
Result<Element> EmitConcatenate(ElementContext& e, const hlo::Instruction& concatenate,
                                const Index& index);
// Lanes go along dimension d, one element each.
bool IsLaneRun(const ElementContext& e, const Index& at, size_t d);
// loops.cc
Result<Element> EmitReduce(ElementContext& e, const hlo::Instruction& reduce, int64_t output,
                           const Index& index);
Result<Element> EmitDot(ElementContext& e, const hlo::Instruction& dot, const Index& index);
Result<Element> EmitReduceWindow(ElementContext& e, const hlo::Instruction& op, int64_t output,
                                 const Index& index);
// bitcast.cc
Result<Element> EmitBitcastConvert(ElementContext& e, const hlo::Instruction& convert,
                                   const Index& index);
// select.cc: a branch.
Result<Element> EmitEither(ElementContext& e, ValueId condition,
                           const std::function<Result<Element>()>& yes,
                           const std::function<Result<Element>()>& no);
// A select as a branch; none: both sides are to be computed.
Result<std::optional<Element>> EmitOneSide(ElementContext& e, const hlo::Instruction& select,
                                           const Index& index);
// argmin.cc; none: the select is not one of an argmin.
Result<std::optional<Element>> EmitLeastOf(ElementContext& e, const hlo::Instruction& select,
                                           const Index& index);
// short_circuit.cc
bool IsShortCircuited(const ElementContext& e, const hlo::Instruction& instruction);
Result<Element> EmitShortCircuit(ElementContext& e, const hlo::Instruction& instruction,
                                 const Index& index);

}  // namespace weft::compiler
