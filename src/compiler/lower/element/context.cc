// What is bound to memory and what is computed already (local CSE, by block).
#include "compiler/lower/element/context.h"

#include <algorithm>

namespace weft::compiler {

using hlo::Instruction;

namespace {

bool SameCoord(const Coord& a, const Coord& b) {
  return a.base == b.base && a.step == b.step && a.each == b.each;
}

bool SameIndex(const Index& a, const Index& b) {
  if (a.is_linear != b.is_linear) return false;
  if (a.is_linear) return SameCoord(a.linear, b.linear);
  return std::equal(a.coords.begin(), a.coords.end(), b.coords.begin(), b.coords.end(), SameCoord);
}

}  // namespace

void ElementContext::Bind(const Instruction& instruction, KernelBuilder::MemoryId memory) {
  bound[&instruction] = memory;
}

void ElementContext::BindAt(const Instruction& instruction, KernelBuilder::MemoryId memory,
                            Place place) {
  bound[&instruction] = memory;
  places[&instruction] = std::move(place);
  cache.erase(&instruction);
}

void ElementContext::Know(const Instruction& instruction, Literal its_numbers) {
  numbers.insert_or_assign(&instruction, std::move(its_numbers));
}

void ElementContext::SetValue(const Instruction& instruction, Element value) {
  Cached& cached = cache[&instruction].emplace_back();
  cached = {{}, value, b.block(), 0};
}

const Element* ElementContext::FindCached(const Instruction& instruction, const Index& index) {
  std::vector<Cached>& cached = cache[&instruction];
  for (size_t i = cached.size(); i-- > 0;) {
    if (!b.IsOpen(cached[i].block)) {
      cached[i] = cached.back();
      cached.pop_back();
    } else if (cached[i].lanes == 0 ||
               (cached[i].lanes == lanes && SameIndex(cached[i].index, index))) {
      return &cached[i].value;
    }
  }
  return nullptr;
}

}  // namespace weft::compiler
