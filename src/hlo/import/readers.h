// From bytes to a Tree. Every input is answered: with a Tree or an Error that says where and why.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "hlo/import/tree.h"

namespace weft::hlo::mlir {

inline constexpr std::string_view kBytecodeMagic = "ML\xefR";

// MLIR bytecode v6 with VHLO 0.15 to 1.20, builtin and sdy: what PJRT_Client_Compile receives and
// jax.export saves.
Result<std::unique_ptr<Tree>> ReadBytecode(std::string bytes);

// StableHLO text, pretty or generic, as `jax.jit(f).lower(x).as_text()` prints it. With debug info
// (`loc(...)`) or without.
Result<std::unique_ptr<Tree>> ReadText(std::string text);

// One attribute in MLIR text, e.g. `{index = 3 : ui64, names = ["a"]}`: the backend_config of a
// custom call. The attribute lives as long as the tree.
Result<const Attr*> ReadAttr(std::string_view text, Tree& tree);

}  // namespace weft::hlo::mlir
