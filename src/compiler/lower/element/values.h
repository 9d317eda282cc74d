// Elements as values of all lanes: splats, selects, constants.
#pragma once

#include "base/error.h"
#include "compiler/lower/element/context.h"

namespace weft::compiler {

// Both with as many lanes as the wider one has.
void MatchLanes(ElementContext& e, ValueId& a, ValueId& b);
Element SpreadToLanes(ElementContext& e, Element value);
Element SelectElement(ElementContext& e, ValueId pred, Element a, Element b);
Element ZeroElement(ElementContext& e, DType dtype);
Result<Element> ConstantElement(ElementContext& e, const Literal& literal, int64_t i);

}  // namespace weft::compiler
