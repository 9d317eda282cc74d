// What programs were compiled from, by name, to say why one is compiled again.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "hlo/module.h"

namespace weft::client {

class Cache;

// Named facts, the ones that explain most first; arguments one by one.
using CompileFacts = std::vector<std::pair<std::string, std::string>>;
CompileFacts FactsOf(const hlo::Module& module, std::string_view options, std::string_view machine);

// "argument 0 is f32[3], was f32[2]"; empty when all is the same.
std::string DifferenceOf(const CompileFacts& before, const CompileFacts& now);

// May be used by several threads.
class CompileHistory {
 public:
  // Why the program is not what was compiled under its name before, in this process or (where there
  // is a cache) in another one; remembers it as the one to compare with.
  std::string Explain(const std::string& name, CompileFacts facts, Cache* cache)
      WEFT_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  std::map<std::string, CompileFacts> last_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::client
