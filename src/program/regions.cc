#include "program/regions.h"

#include <algorithm>
#include <set>
#include <utility>

#include "program/cost.h"
#include "program/critical_path.h"

namespace weft::program {
namespace {

class RegionChooser {
 public:
  RegionChooser(Program& program, const RegionLimits& limits)
      : program_(program), limits_(limits), uses_(program.buffers.size()) {}

  void Run() {
    ForEachStep(program_.steps, [&](Step& step) {
      if (auto* loop = std::get_if<WhileStep>(&step.op)) loop->region.reset();
      for (Use& use : step.uses) use.depth = 0;
      CountUses(step, uses_);
    });
    Find(program_.steps);
    NoteRecurrenceDepths(program_, limits_.latency);
  }

 private:
  bool IsSmall(const Kernel& kernel) const {
    return HotCode(kernel) <= limits_.kernel_code && ArrayBytes(kernel) <= limits_.array_bytes &&
           (GridSize(kernel) <= 1 || WorkOf(kernel) <= limits_.grid_work);
  }

  bool Fits(const WhileStep& loop) const {
    size_t code = 0;
    bool fits = true;
    auto check = [&](const Step& step) {
      if (auto* launch = std::get_if<KernelStep>(&step.op)) {
        const Kernel& kernel = program_.kernels[launch->kernel];
        code += HotCode(kernel);
        fits = fits && IsSmall(kernel);
        return;
      }
      fits = fits && RunsInRegion(step);
    };
    ForEachStep(loop.condition, check);
    ForEachStep(loop.body, check);
    return fits && code <= limits_.code && LoopDepth(loop.body) < limits_.depth;
  }

  bool Conflict(const Step& a, const Step& b) const {
    for (const Use& x : a.uses) {
      for (const Use& y : b.uses) {
        if (!Writes(x.access) && !Writes(y.access)) continue;
        if (Overlap(Resolve(program_, x.slice), Resolve(program_, y.slice))) return true;
      }
    }
    return false;
  }

  // Small copies and fills that may as well run right before the loop: they move there. Their
  // number.
  int64_t MovePrologue(std::vector<Step>& steps, size_t loop) const {
    int64_t found = 0;
    size_t first = loop - std::min(loop, limits_.prologue_steps), to = loop;
    for (size_t i = loop; i-- > first;) {
      const Step& step = steps[i];
      bool copy = std::holds_alternative<CopyStep>(step.op);
      bool fill = std::holds_alternative<FillStep>(step.op);
      bool launch = std::holds_alternative<KernelStep>(step.op);
      if (!step.event.empty() || !(copy || fill || launch)) break;
      if (launch || step.uses[0].slice.size > limits_.prologue_bytes) continue;
      bool moves = true;
      for (size_t k = i + 1; k < loop && moves; ++k) moves = !Conflict(step, steps[k]);
      if (!moves) continue;
      auto at = [&](size_t n) { return steps.begin() + static_cast<ptrdiff_t>(n); };
      std::rotate(at(i), at(i + 1), at(to));
      --to;
      ++found;
    }
    return found;
  }

  void Find(std::vector<Step>& steps) {
    for (size_t i = 0; i < steps.size(); ++i) {
      if (auto* loop = std::get_if<WhileStep>(&steps[i].op)) {
        if (!Fits(*loop)) {
          Find(loop->condition);
          Find(loop->body);
          continue;
        }
        int64_t prologue = MovePrologue(steps, i);
        std::get<WhileStep>(steps[i].op).region = RegionOf(steps, i, prologue);
      } else {
        ForEachList(steps[i], [&](auto& list) { Find(list); });
      }
    }
  }

  void CountUses(const Step& step, std::vector<int64_t>& counts) const {
    for (const Use& use : step.uses) ++counts[Resolve(program_, use.slice).buffer];
  }

  Region RegionOf(const std::vector<Step>& steps, size_t at, int64_t prologue) const {
    Region region;
    region.prologue = prologue;
    std::vector<int64_t> inside(program_.buffers.size());
    std::set<BufferId> written;
    ForRegion(steps, at, prologue, [&](const Step& step) {
      CountUses(step, inside);
      for (const Use& use : step.uses) {
        if (Writes(use.access)) written.insert(Resolve(program_, use.slice).buffer);
      }
    });
    int64_t in_all = 0;
    for (size_t i = 0; i < inside.size(); ++i) {
      if (inside[i] == 0) continue;
      BufferId id = static_cast<BufferId>(i);
      const Buffer& buffer = program_.buffers[i];
      int64_t bytes = *ByteSize(buffer);
      const Layout* layout = buffer.shape.layout();
      if (buffer.kind == BufferKind::kConstant && bytes > 0 && bytes <= limits_.constant_bytes &&
          (!layout || layout->IsRowMajor())) {
        region.constants.push_back(id);
        continue;
      }
      bool temp = buffer.kind == BufferKind::kTemp, shared = !temp || uses_[i] > inside[i];
      int64_t limit = !temp    ? limits_.borrowed_bytes
                      : shared ? limits_.copied_bytes
                               : limits_.local_bytes;
      bool local = bytes > 0 && bytes <= limit && in_all + bytes <= limits_.local_bytes_in_all &&
                   (temp || written.contains(id));
      if (!local) continue;
      in_all += bytes;
      region.locals.push_back({id, shared, shared && written.contains(id)});
    }
    return region;
  }

  Program& program_;
  const RegionLimits& limits_;
  std::vector<int64_t> uses_;  // of each buffer with storage, in the whole program
};

}  // namespace

void ChooseRegions(Program& program, const RegionLimits& limits) {
  RegionChooser(program, limits).Run();
}

}  // namespace weft::program
