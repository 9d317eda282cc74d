// Alias scopes (!alias.scope, !noalias): what `noalias` says of a kernel's parameters, for
// addresses that come from memory. Each memory has a scope, to which its accesses belong and the
// stores to all others do not.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cpu/render/ir_text.h"
#include "program/kernel.h"

namespace weft::cpu {

class AccessScopes {
 public:
  AccessScopes() = default;
  AccessScopes(const program::Kernel& kernel, IrMetadata& metadata);
  // What stands behind a load or store; nothing where nothing is known.
  std::string_view Of(const program::Instr& instr) const;

 private:
  std::vector<std::string> loads_, stores_;  // by memory
};

}  // namespace weft::cpu
