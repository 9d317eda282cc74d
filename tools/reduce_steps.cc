#include "reduce_steps.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "hlo/clone.h"

namespace weft::tools {
namespace {

using hlo::Instruction;
using hlo::Module;

void CollectSizes(const Shape& shape, std::set<int64_t, std::greater<>>& sizes) {
  if (shape.IsTuple()) {
    for (const Shape& element : shape.elements_of_tuple()) CollectSizes(element, sizes);
  } else if (shape.IsArray()) {
    for (int64_t dim : shape.dims()) {
      if (dim > 2) sizes.insert(dim);
    }
  }
}

// What takes much away with few trials comes first: halves before quarters before single
// instructions, and what makes the trials themselves quicker before the rest.
class Reducer {
 public:
  Reducer(ModulePtr now, const FirstFailing& first_failing,
          const std::function<void(const Module&)>& smaller)
      : now_(std::move(now)), first_failing_(first_failing), smaller_(smaller) {}

  ModulePtr Run() {
    TryList(2, [&](size_t i) { return StripFacts(*now_, i == 0); });
    DropRoots();
    TryList(1, [&](size_t) { return InlineCalls(*now_); });
    for (bool progress = true; progress;) {
      const int64_t before = now_->instruction_count();
      PromoteComputations();
      FindPrefix();
      DropRoots();
      MoveRoot();
      FindSuffix();
      ShrinkDimensions();
      InChunks();
      MakeConstants();
      TryList(1, [&](size_t) { return ForOneDevice(*now_); });
      progress = now_->instruction_count() < before;
    }
    return std::move(now_);
  }

 private:
  using Make = std::function<ModulePtr(size_t)>;

  size_t EntrySize() const { return static_cast<size_t>(now_->entry()->size()); }
  size_t AllSize() const { return static_cast<size_t>(now_->instruction_count()); }

  // The first of n modules that fails becomes the module; its number.
  int TryList(size_t n, const Make& make) {
    int found = n == 0 ? -1 : first_failing_(n, make);
    if (found < 0) return -1;
    now_ = make(static_cast<size_t>(found));
    if (smaller_) smaller_(*now_);
    return found;
  }
  // The same of those that are smaller than now.
  int TrySmaller(size_t n, const Make& make) {
    const int64_t count = now_->instruction_count();
    return TryList(n, [&](size_t i) {
      ModulePtr module = make(i);
      return module && module->instruction_count() < count ? std::move(module) : nullptr;
    });
  }

  // Pieces of the instructions: halves, quarters, ..., single ones. All ways to do without a piece
  // are tried before smaller pieces are: a chain cannot be cut and goes at once when bypassed.
  void InChunks() {
    for (size_t chunk = std::max<size_t>(AllSize() / 2, 1);; chunk /= 2) {
      EachChunk(EntrySize(), chunk, [&](size_t at) { return CutRange(*now_, at, chunk); });
      EachChunk(AllSize(), chunk, [&](size_t at) { return Bypass(*now_, at, chunk); });
      EachChunk(AllSize() - EntrySize(), chunk,
                [&](size_t at) { return PutZeros(*now_, at, chunk); });
      if (chunk <= 1) return;
      chunk = std::min(chunk, AllSize());
    }
  }
  // What was taken away moves the rest up, so that the next piece begins where it began.
  template <class Edit>
  void EachChunk(size_t size, size_t chunk, const Edit& edit) {
    for (size_t at = 0; at < size;) {
      const int64_t before = now_->instruction_count();
      int found = TrySmaller((size - at + chunk - 1) / chunk,
                             [&](size_t i) { return edit(at + i * chunk); });
      if (found < 0) return;
      at += static_cast<size_t>(found) * chunk;
      size -= std::min(size, static_cast<size_t>(before - now_->instruction_count()));
    }
  }

  // Results in chunks.
  void DropRoots() {
    for (size_t chunk = std::max<size_t>(RootsOf(*now_).size() / 2, 1);; chunk /= 2) {
      size_t at = 0;
      while (RootsOf(*now_).size() > 1) {
        const size_t count = RootsOf(*now_).size();
        if (at >= count) break;
        int found = TryList((count - at + chunk - 1) / chunk, [&](size_t i) -> ModulePtr {
          Roots roots = RootsOf(*now_);
          size_t begin = at + i * chunk, end = std::min(begin + chunk, count);
          roots.erase(roots.begin() + static_cast<std::ptrdiff_t>(begin),
                      roots.begin() + static_cast<std::ptrdiff_t>(end));
          return roots.empty() ? nullptr : CutEntry(*now_, roots, {});
        });
        if (found < 0) break;
        at += static_cast<size_t>(found) * chunk;
      }
      if (chunk <= 1) return;
    }
  }

  // A body, branch or called computation alone; large ones first.
  void PromoteComputations() {
    for (bool again = true; again;) {
      std::vector<const hlo::Computation*> all;
      for (const auto& computation : now_->computations()) {
        if (!computation->IsEntry() && computation->size() > 3) all.push_back(computation.get());
      }
      std::sort(all.begin(), all.end(), [](const auto* a, const auto* b) {
        return std::pair(-a->size(), a->id()) < std::pair(-b->size(), b->id());
      });
      again = TrySmaller(all.size(), [&](size_t i) { return Promote(*now_, *all[i]); }) >= 0;
    }
  }

  // The shortest beginning of the entry that fails: where it first goes wrong. Quarters of what is
  // left between one that does not and one that does.
  void FindPrefix() {
    const ModulePtr whole = hlo::CloneModule(*now_);
    size_t fine = 0, fails = EntrySize();
    while (fails - fine > 1) {
      std::vector<size_t> tries;
      for (size_t k = 1; k < 4; ++k) {
        size_t n = fine + (fails - fine) * k / 4;
        if (n > fine && (tries.empty() || tries.back() < n)) tries.push_back(n);
      }
      int found = TrySmaller(tries.size(), [&](size_t i) { return TakePrefix(*whole, tries[i]); });
      if (found < 0) {
        fine = tries.back();
      } else {
        fails = tries[static_cast<size_t>(found)];
        if (found > 0) fine = tries[static_cast<size_t>(found) - 1];
      }
    }
  }

  // Something further up as the only result: far ones first, then the operands of the results.
  void MoveRoot() {
    for (bool moved = true; moved;) {
      std::vector<Instruction*> all = now_->entry()->Snapshot();
      std::vector<const Instruction*> tries;
      for (const Instruction* root : RootsOf(*now_)) tries.push_back(root);
      for (size_t parts = 2; parts <= 16; parts *= 2) {
        for (size_t k = 1; k < parts; k += 2) tries.push_back(all[all.size() * k / parts]);
      }
      for (const Instruction* root : RootsOf(*now_)) {
        tries.insert(tries.end(), root->operands().begin(), root->operands().end());
      }
      moved = TrySmaller(tries.size(), [&](size_t i) -> ModulePtr {
                if (tries[i]->IsParameter()) return nullptr;
                return CutEntry(*now_, {tries[i]}, {});
              }) >= 0;
    }
  }

  // As much as possible of the beginning of the entry as parameters.
  void FindSuffix() {
    for (bool again = true; again;) {
      const size_t size = EntrySize();
      std::vector<size_t> tries;
      for (size_t k = 15; k > 0; --k) tries.push_back(size * k / 16);
      again = TrySmaller(tries.size(), [&](size_t i) { return CutRange(*now_, 0, tries[i]); }) >= 0;
    }
  }

  void MakeConstants() {
    for (int64_t k = 0; k < static_cast<int64_t>(now_->entry()->parameters().size()); ++k) {
      if (now_->entry()->parameter(k)->shape().IsTuple()) continue;
      if (TryList(1, [&](size_t) { return MakeConstant(*now_, k); }) >= 0) --k;
    }
  }

  void ShrinkDimensions() {
    std::set<int64_t, std::greater<>> sizes;
    for (const auto& computation : now_->computations()) {
      for (const Instruction* i : *computation) CollectSizes(i->shape(), sizes);
    }
    for (int64_t size : sizes) {
      struct Way {
        int64_t smaller;
        bool multiples;
      };
      std::vector<Way> ways;
      for (int64_t smaller : {int64_t{2}, size / 8, size / 2}) {
        if (smaller < 2 || smaller >= size) continue;
        ways.push_back({smaller, false});
        ways.push_back({smaller, true});
      }
      TryList(ways.size(),
              [&](size_t i) { return Resize(*now_, size, ways[i].smaller, ways[i].multiples); });
    }
  }

  ModulePtr now_;
  const FirstFailing& first_failing_;
  const std::function<void(const Module&)>& smaller_;
};

}  // namespace

ModulePtr ReduceModule(ModulePtr now, const FirstFailing& first_failing,
                       const std::function<void(const Module&)>& smaller) {
  return Reducer(std::move(now), first_failing, smaller).Run();
}

}  // namespace weft::tools
