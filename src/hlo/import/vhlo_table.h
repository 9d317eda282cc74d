// The operations that bytecode may hold, and what each version of them has for attributes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace weft::hlo::mlir {

struct BytecodeOp {
  std::string_view name;   // without dialect and version
  int32_t version;         // 0: of a dialect without versions
  std::string_view since;  // VHLO's version
  // In the order of the properties: by name. `?`: may be absent; `@`: strings that name functions.
  std::string_view attrs;
  // What brings an older version up to the newest: `name=empty` (no dimensions), `name=array` (no
  // elements) and `name=false` are added, `-name` goes. What the newest has besides is absent,
  // which means the default.
  std::string_view upgrade;
};

// "vhlo", "all_gather_v1". Null: not known.
const BytecodeOp* FindBytecodeOp(std::string_view dialect, std::string_view name);
std::span<const BytecodeOp> VhloOps();

}  // namespace weft::hlo::mlir
