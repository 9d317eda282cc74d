#include "hlo/module.h"

#include <algorithm>
#include <unordered_set>

namespace weft::hlo {

Module::~Module() = default;

Computation* Module::AddComputation(std::string name, Computation* before) {
  std::unique_ptr<Computation> computation(new Computation());
  computation->name_ = std::move(name);
  computation->module_ = this;
  computation->id_ = NextId();
  Computation* result = computation.get();
  // From the end: a computation is mostly added next to the last.
  auto it = computations_.end();
  if (before != nullptr) {
    while (it != computations_.begin() && it[-1].get() != before) --it;
    CHECK(it != computations_.begin()) << before->name();
    --it;
  }
  computations_.insert(it, std::move(computation));
  return result;
}

void Module::RemoveComputation(Computation* computation) {
  CHECK(computation != entry_) << computation->name();
  std::erase_if(computations_, [&](const auto& c) { return c.get() == computation; });
}

void Module::RemoveUnusedComputations() {
  std::unordered_set<const Computation*> reached = {entry_};
  std::vector<const Computation*> stack = {entry_};
  while (!stack.empty()) {
    const Computation* c = stack.back();
    stack.pop_back();
    for (Instruction* i : *c) {
      for (Computation* called : i->called_computations()) {
        if (reached.insert(called).second) stack.push_back(called);
      }
    }
  }
  std::erase_if(computations_, [&](const auto& c) { return !reached.contains(c.get()); });
}

Computation* Module::FindComputation(std::string_view name) const {
  for (const auto& c : computations_) {
    if (c->name() == name) return c.get();
  }
  return nullptr;
}

int64_t Module::instruction_count() const {
  int64_t n = 0;
  for (const auto& c : computations_) n += c->size();
  return n;
}

std::string Module::UniqueName(std::string_view base) {
  if (!names_known_) {
    names_known_ = true;
    for (const auto& c : computations_) {
      names_.emplace(c->name(), 2);
      for (Instruction* i : *c) names_.emplace(i->name(), 2);
    }
  }
  std::string name(base);
  auto [it, is_new] = names_.emplace(name, 2);
  if (is_new) return name;
  // `add.7` continues the numbers of `add`.
  size_t dot = name.rfind('.');
  if (dot != std::string::npos && dot + 1 < name.size() &&
      std::all_of(name.begin() + dot + 1, name.end(),
                  [](char c) { return c >= '0' && c <= '9'; })) {
    name.resize(dot);
    it = names_.emplace(name, 2).first;
  }
  for (;;) {
    std::string candidate = StrCat(name, ".", it->second++);
    if (names_.emplace(candidate, 2).second) return candidate;
    it = names_.find(name);
  }
}

}  // namespace weft::hlo
