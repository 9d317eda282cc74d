// Arithmetic on elements of known types. For element/ alone.
#pragma once

#include <span>

#include "base/error.h"
#include "compiler/lower/element/context.h"

namespace weft::compiler {

Result<Element> EmitElementwise(ElementContext& e, const hlo::Instruction& instruction,
                                std::span<Element> args);
// complex.cc
Result<Element> EmitComplex(ElementContext& e, const hlo::Instruction& instruction,
                            std::span<Element> args);
// convert.cc
Element ConvertElement(ElementContext& e, Element value, DType from, DType to);
ValueId RoundToStorage(KernelBuilder& b, ValueId value, DType to);  // to what the type holds
// Rounds to so many exponent and mantissa bits, in the integer bits of the number.
ValueId ReducePrecision(KernelBuilder& b, const hlo::Instruction& instruction, ValueId x);
// integers.cc: the upper half of a product, of 64 bits, and of at most 32.
ValueId HighProduct(KernelBuilder& b, ValueId x, ValueId y);
ValueId NarrowHighProduct(KernelBuilder& b, DType from, ValueId x, ValueId y);
// A quotient or remainder of lanes by floats, where the dividend is known to be small; -1: it is
// not.
ValueId DivideSmall(ElementContext& e, const hlo::Instruction& instruction,
                    std::span<const Element> args);
ValueId IntegerPower(KernelBuilder& b, ValueId x, ValueId y);
ValueId EmitShift(KernelBuilder& b, hlo::Op op, DType from, ValueId x, ValueId y);
ValueId CountBits(KernelBuilder& b, hlo::Op op, DType from, ValueId x);  // ones, leading zeros
ValueId SignOfInteger(KernelBuilder& b, DType from, ValueId x);

}  // namespace weft::compiler
