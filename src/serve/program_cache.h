// Compiled programs of a graph by what they take. Compiling happens outside of the lock, once for
// all who wait; other keys are served meanwhile. What failed is forgotten. After Freeze, and while
// a scope without compilation lives, a key without a program is refused.
#pragma once

#include <algorithm>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "base/shape.h"

namespace weft::serve {

// Types and shapes of the inputs, in the order of their names. Never a joined string: `-` and `,`
// may be in names.
struct ProgramKey {
  std::string graph;
  std::vector<Shape> inputs;

  std::string ToString() const {
    std::string out = StrCat(graph, "(");
    for (size_t i = 0; i < inputs.size(); ++i) {
      StrAppend(out, i > 0 ? ", " : "", inputs[i].ToStringWithoutLayout());
    }
    return out + ")";
  }
  bool operator==(const ProgramKey& other) const {
    return graph == other.graph && std::ranges::equal(inputs, other.inputs, &Shape::Compatible);
  }
  bool operator<(const ProgramKey& other) const {
    auto less = [](const Shape& a, const Shape& b) {
      if (a.dtype() != b.dtype()) return a.dtype() < b.dtype();
      return std::ranges::lexicographical_compare(a.dims(), b.dims());
    };
    if (graph != other.graph) return graph < other.graph;
    return std::ranges::lexicographical_compare(inputs, other.inputs, less);
  }
};

template <class Compiled>
class ProgramCache {
 public:
  using Ref = std::shared_ptr<const Compiled>;
  using Compile = std::function<Result<Ref>()>;

  Result<Ref> Get(const ProgramKey& key, const Compile& compile) WEFT_EXCLUDES(mutex_) {
    std::promise<Result<Ref>> mine;
    std::shared_future<Result<Ref>> theirs;
    {
      MutexLock lock(mutex_);
      auto found = entries_.find(key);
      if (found != entries_.end()) {
        theirs = found->second;
      } else if (frozen_ || disabled_ > 0) {
        return Refuse(key);
      } else {
        entries_.emplace(key, mine.get_future().share());
        ++compiles_;
      }
    }
    if (theirs.valid()) return theirs.get();
    Result<Ref> made = compile();
    if (!made) {
      MutexLock lock(mutex_);
      entries_.erase(key);
    }
    mine.set_value(made);
    return made;
  }

  void Freeze() WEFT_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    frozen_ = true;
  }
  // How many compilations began.
  int64_t compiles() const WEFT_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return compiles_;
  }

  // While one lives nothing is compiled.
  class NoCompileScope {
   public:
    explicit NoCompileScope(ProgramCache& cache) : cache_(cache) {
      MutexLock lock(cache_.mutex_);
      ++cache_.disabled_;
    }
    ~NoCompileScope() {
      MutexLock lock(cache_.mutex_);
      --cache_.disabled_;
    }
    NoCompileScope(const NoCompileScope&) = delete;

   private:
    ProgramCache& cache_;
  };

 private:
  std::unexpected<Error> Refuse(const ProgramKey& key) const WEFT_REQUIRES(mutex_) {
    std::string known;
    for (const auto& [other, program] : entries_) {
      StrAppend(known, known.empty() ? "" : ", ", other);
    }
    std::string why = frozen_ ? "the graph is frozen" : "";
    if (disabled_ > 0) StrAppend(why, why.empty() ? "" : " and ", "compilation is disabled");
    return FailedPrecondition("no program for ", key, ", and ", why,
                              "; there are: ", known.empty() ? "none" : known);
  }

  mutable Mutex mutex_;
  std::map<ProgramKey, std::shared_future<Result<Ref>>> entries_ WEFT_GUARDED_BY(mutex_);
  bool frozen_ WEFT_GUARDED_BY(mutex_) = false;
  int disabled_ WEFT_GUARDED_BY(mutex_) = 0;
  int64_t compiles_ WEFT_GUARDED_BY(mutex_) = 0;
};

}  // namespace weft::serve
