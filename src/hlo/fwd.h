#pragma once

#include <cstdint>

namespace weft::hlo {

enum class Op : uint8_t;
class Attrs;
class Computation;
class Instruction;
class Module;
struct OpDef;

}  // namespace weft::hlo
