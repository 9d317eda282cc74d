// Kernels that do the same are one.
#include "base/hash.h"
#include "base/str.h"
#include "compiler/lower/draft.h"

namespace weft::compiler {

using program::Instr;
using program::Kernel;

namespace {

size_t HashOf(const Kernel& kernel) {
  size_t h = MixHash(kernel.code.size(), kernel.values.size());
  for (const program::Memory& m : kernel.memories) {
    h = MixHash(h, static_cast<size_t>(m.dtype) * 4 + static_cast<size_t>(m.access));
    h = MixHash(h, static_cast<size_t>(m.count));
  }
  for (const program::Value& v : kernel.values) {
    h = MixHash(h, static_cast<size_t>(v.type.dtype) * 128 + static_cast<size_t>(v.type.lanes));
    if (v.is_constant) h = MixHash(h, v.bits);
  }
  for (const Instr& i : kernel.code) {
    h = MixHash(h, static_cast<size_t>(i.op) * 64 + static_cast<size_t>(i.loop));
    for (program::ValueId id : i.args) h = MixHash(h, static_cast<size_t>(id));
  }
  return h;
}

bool SameMemory(const program::Memory& a, const program::Memory& b) {
  return a.dtype == b.dtype && a.count == b.count && a.access == b.access && a.align == b.align &&
         a.per_thread == b.per_thread;
}

bool SameValue(const program::Value& a, const program::Value& b) {
  return a.type == b.type && a.is_constant == b.is_constant && a.bits == b.bits;
}

bool SameCode(const Instr& a, const Instr& b) {
  return a.op == b.op && a.loop == b.loop && a.format == b.format && a.type == b.type &&
         a.memory == b.memory && a.align == b.align && a.args == b.args && a.results == b.results &&
         a.lanes == b.lanes && a.nowrap == b.nowrap && a.rounded == b.rounded;
}

bool Same(const Kernel& a, const Kernel& b) {
  return a.num_params == b.num_params &&
         std::equal(a.memories.begin(), a.memories.end(), b.memories.begin(), b.memories.end(),
                    SameMemory) &&
         std::equal(a.values.begin(), a.values.end(), b.values.begin(), b.values.end(),
                    SameValue) &&
         std::equal(a.code.begin(), a.code.end(), b.code.begin(), b.code.end(), SameCode);
}

}  // namespace

int32_t UniqueKernels::Add(program::Program& program, Kernel kernel) {
  size_t hash = HashOf(kernel);
  auto [from, to] = by_hash_.equal_range(hash);
  for (auto it = from; it != to; ++it) {
    if (Same(program.kernels[static_cast<size_t>(it->second)], kernel)) return it->second;
  }
  std::string name = kernel.name;
  int& taken = taken_[name];
  while (!names_.insert(kernel.name).second) kernel.name = StrCat(name, ".", ++taken);
  int32_t id = AddKernel(program, std::move(kernel));
  by_hash_.emplace(hash, id);
  return id;
}

}  // namespace weft::compiler
