#include "cpu/render/alias_scopes.h"

#include <algorithm>

#include "program/work_bounds.h"

namespace weft::cpu {
namespace {

// Scopes that stores may name: of many arrays nothing is said.
constexpr size_t kMostScopes = program::WorkBounds::kVisits;

}  // namespace

AccessScopes::AccessScopes(const program::Kernel& kernel, IrMetadata& metadata) {
  size_t count = kernel.memories.size();
  std::vector<bool> stored(count);
  for (const program::Instr& instr : kernel.code) {
    bool stores = instr.op == program::Op::kStore || instr.op == program::Op::kAtomic;
    if (stores) stored[instr.memory] = true;
  }
  auto written = static_cast<size_t>(std::count(stored.begin(), stored.end(), true));
  if (count < 2 || written * count > kMostScopes) return;
  std::string domain = metadata.AddLoop();
  std::vector<std::string> scopes(count);
  for (std::string& scope : scopes) scope = metadata.AddLoop(", ", domain);
  loads_.resize(count);
  stores_.resize(count);
  for (size_t m = 0; m < count; ++m) {
    loads_[m] = StrCat(", !alias.scope ", metadata.Add("!{", scopes[m], "}"));
    if (!stored[m]) continue;
    std::string others;
    for (size_t i = 0; i < count; ++i) {
      if (i != m) StrAppend(others, others.empty() ? "" : ", ", scopes[i]);
    }
    stores_[m] = StrCat(loads_[m], ", !noalias ", metadata.Add("!{", others, "}"));
  }
}

std::string_view AccessScopes::Of(const program::Instr& instr) const {
  const std::vector<std::string>& texts = instr.op == program::Op::kLoad ? loads_ : stores_;
  return texts.empty() ? std::string_view() : texts[static_cast<size_t>(instr.memory)];
}

}  // namespace weft::cpu
