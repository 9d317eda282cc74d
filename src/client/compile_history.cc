#include "client/compile_history.h"

#include <optional>

#include "base/digest.h"
#include "base/str.h"
#include "client/build.h"
#include "client/cache.h"
#include "hlo/text.h"

namespace weft::client {
namespace {

constexpr size_t kMostNames = 10'000;

std::string KeyOfHistory(const std::string& name) {
  return StrCat("facts-", Digest::Hex(name).substr(0, 32));
}

std::string WriteFacts(const CompileFacts& facts) {
  std::string text;
  for (const auto& [name, value] : facts) StrAppend(text, name, "\t", value, "\n");
  return text;
}

CompileFacts ReadFacts(std::string_view text) {
  CompileFacts facts;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    size_t tab = line.find('\t');
    if (tab != line.npos) facts.emplace_back(line.substr(0, tab), line.substr(tab + 1));
  }
  return facts;
}

const std::string* FindFact(const CompileFacts& facts, const std::string& name) {
  for (const auto& [key, value] : facts) {
    if (key == name) return &value;
  }
  return nullptr;
}

}  // namespace

CompileFacts FactsOf(const hlo::Module& module, std::string_view options,
                     std::string_view machine) {
  CompileFacts facts;
  facts.emplace_back("the compiler", SourceHash());
  facts.emplace_back("the machine", machine);
  facts.emplace_back("WEFT_OPTIONS", options);
  const auto parameters = module.entry()->parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    facts.emplace_back(StrCat("argument ", i), parameters[i]->shape().ToStringWithoutLayout());
  }
  facts.emplace_back("the result", module.entry()->root()->shape().ToStringWithoutLayout());
  facts.emplace_back("the number of operations", StrCat(module.instruction_count()));
  facts.emplace_back("the program", StrCat("number ", hlo::Fingerprint(module)));
  return facts;
}

std::string DifferenceOf(const CompileFacts& before, const CompileFacts& now) {
  for (const auto& [name, value] : now) {
    const std::string* old = FindFact(before, name);
    if (old != nullptr && *old == value) continue;
    if (name == "the program") return "its operations or constants are others than before";
    if (old == nullptr) return StrCat(name, " is new: ", value);
    return StrCat(name, " is ", value.empty() ? "not set" : value, ", was ",
                  old->empty() ? "not set" : *old);
  }
  for (const auto& [name, value] : before) {
    if (FindFact(now, name) == nullptr) return StrCat(name, " is gone, it was ", value);
  }
  return "";
}

std::string CompileHistory::Explain(const std::string& name, CompileFacts facts, Cache* cache) {
  std::optional<CompileFacts> before;
  {
    MutexLock lock(mutex_);
    if (auto found = last_.find(name); found != last_.end()) before = found->second;
    if (last_.size() >= kMostNames) last_.clear();
    last_[name] = facts;
  }
  if (cache != nullptr) {
    std::string key = KeyOfHistory(name);
    if (!before) {
      if (auto saved = cache->Find(key)) before = ReadFacts(*saved);
    }
    if (!before || *before != facts) cache->Store(key, WriteFacts(facts));
  }
  if (!before) return StrCat("no program of the name ", name, " was compiled before");
  std::string difference = DifferenceOf(*before, facts);
  return difference.empty() ? "the same program was compiled before, its code is gone" : difference;
}

}  // namespace weft::client
