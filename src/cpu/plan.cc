#include "cpu/plan.h"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>

#include "cpu/render/kernel.h"

namespace weft::cpu {
namespace {

using program::BufferId;
using program::BufferKind;
using program::Kernel;
using program::Op;
using program::Program;
using program::Step;

constexpr size_t kRegionKernelCode = 1500;  // instructions of one kernel in a region ...
constexpr size_t kRegionCode = 5000;        // ... and of all
constexpr int kRegionDepth = 8;  // loops in loops: passes for loops look at each from all others
constexpr int64_t kRegionGridWork = 1 << 15;  // a grid of more work is worth several threads
constexpr int64_t kLocalBytes = 4096, kLocalBytesInAll = 16384;
constexpr int64_t kCopiedLocalBytes = 1024;  // of one whose content comes from or goes outside
constexpr int64_t kBorrowedBytes = 256;      // of parameters and results kept on the stack
constexpr int64_t kConstantBytes = 1024;     // of constants that become part of the code
constexpr int64_t kBeforeBytes = 4096;       // of copies and fills before a region
constexpr size_t kStepsBefore = 64;          // looked at

// Instructions, of which those in an `if` count a fourth: cold code costs little but its place.
size_t HotCode(const Kernel& kernel) {
  size_t always = 0, sometimes = 0, ifs = 0;
  std::vector<bool> open;
  for (const program::Instr& instr : kernel.code) {
    if (instr.op == program::Op::kIf || instr.op == program::Op::kLoop) {
      open.push_back(instr.op == program::Op::kIf);
      ifs += open.back();
    } else if (instr.op == program::Op::kEnd) {
      ifs -= open.back();
      open.pop_back();
    }
    ++(ifs > 0 ? sometimes : always);
  }
  return always + sometimes / 4;
}

int64_t ArrayBytes(const Kernel& kernel) {
  int64_t bytes = 0, threads = Extents(kernel).threads;
  for (size_t i = static_cast<size_t>(kernel.num_params); i < kernel.memories.size(); ++i) {
    const program::Memory& m = kernel.memories[i];
    bytes += m.count * ByteWidth(m.dtype) * (m.per_thread ? threads : 1);
  }
  return bytes;
}

class Planner {
 public:
  Planner(const Program& program, const RenderTarget& target)
      : program_(program), target_(target) {}

  Result<Plan> Make() {
    TRY(PlaceBuffers());
    size_t kernels = program_.kernels.size();
    plan_.launched.resize(kernels);
    plan_.inlined.resize(kernels);
    plan_.called.resize(kernels);
    FindEqualKernels();
    FindRegions(program_.steps);
    ForEachStep(program_.steps, [&](const Step& step) { CountUses(step, outside_, 1); });
    for (Region& region : plan_.regions) {
      std::vector<int> inside(program_.buffers.size());
      ForRegion(region, [&](const Step& step) {
        CountUses(step, outside_, -1);
        CountUses(step, inside, 1);
      });
      PlaceLocals(region, inside);
      ForRegion(region, [&](const Step& step) { CountUses(step, outside_, 1); });
    }
    Walk(program_.steps);
    return std::move(plan_);
  }

 private:
  // Layers of a model are the same kernels over and over: their text, which has no names, says so.
  // Most programs have no two kernels of the same size, and need none of it.
  void FindEqualKernels() {
    auto size_of = [](const program::Kernel& k) {
      return std::tuple(k.code.size(), k.values.size(), k.memories.size());
    };
    std::map<std::tuple<size_t, size_t, size_t>, int> sizes;
    for (const program::Kernel& kernel : program_.kernels) ++sizes[size_of(kernel)];
    std::unordered_map<std::string, int32_t> seen;
    for (size_t i = 0; i < program_.kernels.size(); ++i) {
      int32_t number = static_cast<int32_t>(i);
      const program::Kernel& kernel = program_.kernels[i];
      if (sizes[size_of(kernel)] == 1) {
        plan_.same_as.push_back(number);
        continue;
      }
      IrMetadata metadata;
      std::string text;
      RenderKernel(kernel, {"kernel", "internal", "#0"}, target_, metadata, text);
      plan_.same_as.push_back(seen.emplace(std::move(text), number).first->second);
    }
  }

  Status PlaceBuffers() {
    plan_.places.resize(program_.buffers.size());
    outside_.resize(program_.buffers.size());
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      const program::Buffer& buffer = program_.buffers[i];
      if (buffer.base >= 0) continue;
      Place& place = plan_.places[i];
      place.bytes = *ByteSize(buffer);
      if (buffer.kind != BufferKind::kTemp) {
        place.slot = plan_.slots++;
        continue;
      }
      int64_t align = std::max<int64_t>(buffer.align, 64);
      place.slot = 0;
      place.offset = (plan_.arena_bytes + align - 1) / align * align;
      if (__builtin_add_overflow(place.offset, place.bytes, &plan_.arena_bytes)) {
        return ResourceExhausted("program ", program_.name, ": temps take too much memory");
      }
    }
    return {};
  }

  template <class Fn>
  static void ForRegion(const Region& region, const Fn& fn) {
    for (const Step* step : region.before) fn(*step);
    fn(*region.loop);
    const auto& loop = std::get<program::WhileStep>(region.loop->op);
    ForEachStep(loop.condition, fn);
    ForEachStep(loop.body, fn);
  }

  bool CanBeRegion(const Step& step) const {
    const auto& loop = std::get<program::WhileStep>(step.op);
    size_t code = 0;
    bool fits = true;
    auto check = [&](const Step& s) {
      if (auto* launch = std::get_if<program::KernelStep>(&s.op)) {
        const Kernel& kernel = program_.kernels[launch->kernel];
        size_t of_kernel = HotCode(kernel);
        code += of_kernel;
        bool small = of_kernel <= kRegionKernelCode && ArrayBytes(kernel) <= kLocalBytesInAll &&
                     (GridSize(kernel) <= 1 || WorkOf(kernel) <= kRegionGridWork);
        fits = fits && small;
        return;
      }
      fits = fits && (std::holds_alternative<program::CopyStep>(s.op) ||
                      std::holds_alternative<program::FillStep>(s.op) ||
                      std::holds_alternative<program::WaitStep>(s.op) ||
                      std::holds_alternative<program::WhileStep>(s.op) ||
                      std::holds_alternative<program::ConditionalStep>(s.op));
    };
    ForEachStep(loop.condition, check);
    ForEachStep(loop.body, check);
    return fits && code <= kRegionCode && LoopDepth(loop.body) < kRegionDepth;
  }

  bool Conflict(const Step& a, const Step& b) const {
    for (const program::Use& x : a.uses) {
      for (const program::Use& y : b.uses) {
        if (!Writes(x.access) && !Writes(y.access)) continue;
        if (Overlap(Resolve(program_, x.slice), Resolve(program_, y.slice))) return true;
      }
    }
    return false;
  }

  // Small copies and fills before the loop that may as well run right before it. Running them
  // twice would do no harm.
  std::vector<const Step*> StepsBefore(const std::vector<Step>& steps, size_t loop) const {
    std::vector<const Step*> found;
    size_t first = loop - std::min(loop, kStepsBefore);
    for (size_t i = loop; i-- > first;) {
      const Step& step = steps[i];
      bool copy = std::holds_alternative<program::CopyStep>(step.op);
      bool fill = std::holds_alternative<program::FillStep>(step.op);
      bool launch = std::holds_alternative<program::KernelStep>(step.op);
      if (!step.event.empty() || !(copy || fill || launch)) break;
      if (launch || step.uses[0].slice.size > kBeforeBytes) continue;
      bool moves = true;
      for (size_t k = i + 1; k < loop && moves; ++k) moves = !Conflict(step, steps[k]);
      if (moves) found.push_back(&step);
    }
    std::reverse(found.begin(), found.end());
    return found;
  }

  void FindRegions(const std::vector<Step>& steps) {
    for (size_t i = 0; i < steps.size(); ++i) {
      const Step& step = steps[i];
      if (auto* loop = std::get_if<program::WhileStep>(&step.op)) {
        if (CanBeRegion(step)) {
          plan_.region_numbers[&step] = static_cast<int32_t>(plan_.regions.size());
          std::vector<const Step*> before = StepsBefore(steps, i);
          absorbed_.insert(before.begin(), before.end());
          plan_.regions.push_back({&step, {}, {}, {}, {}, std::move(before)});
          continue;
        }
        FindRegions(loop->condition);
        FindRegions(loop->body);
      }
      if (auto* branches = std::get_if<program::ConditionalStep>(&step.op)) {
        for (const auto& branch : branches->branches) FindRegions(branch);
      }
    }
  }

  void CountUses(const Step& step, std::vector<int>& counts, int n) const {
    for (const program::Use& use : step.uses) counts[Resolve(program_, use.slice).buffer] += n;
  }

  void PlaceLocals(Region& region, const std::vector<int>& inside) {
    std::set<BufferId> written;
    ForRegion(region, [&](const Step& step) {
      for (const program::Use& use : step.uses) {
        if (Writes(use.access)) written.insert(Resolve(program_, use.slice).buffer);
      }
    });
    int64_t in_all = 0;
    for (size_t i = 0; i < inside.size(); ++i) {
      if (inside[i] == 0) continue;
      BufferId id = static_cast<BufferId>(i);
      const program::Buffer& buffer = program_.buffers[i];
      int64_t bytes = plan_.places[i].bytes;
      const Layout* layout = buffer.shape.layout();
      if (buffer.kind == BufferKind::kConstant && bytes > 0 && bytes <= kConstantBytes &&
          (!layout || layout->IsRowMajor())) {
        region.constants.push_back(id);
        continue;
      }
      bool temp = buffer.kind == BufferKind::kTemp, shared = !temp || outside_[i] > 0;
      int64_t limit = !temp ? kBorrowedBytes : shared ? kCopiedLocalBytes : kLocalBytes;
      bool local = bytes > 0 && bytes <= limit && in_all + bytes <= kLocalBytesInAll &&
                   (temp || written.contains(id));
      if (!local) {
        region.pointers.push_back(id);
        region.written.push_back(written.contains(id));
        continue;
      }
      in_all += bytes;
      region.locals.push_back({id, shared, shared && written.contains(id)});
    }
  }

  void MarkCalled(const program::LibraryStep& call) {
    for (const program::Attr& attr : call.attrs) {
      auto* text = std::get_if<std::string>(&attr.value);
      if (!text) continue;
      for (size_t i = 0; i < program_.kernels.size(); ++i) {
        if (program_.kernels[i].name != *text) continue;
        auto& marks = attr.name == "epilogue" ? plan_.launched : plan_.called;
        marks[plan_.same_as[i]] = true;
      }
    }
  }

  void Walk(const std::vector<Step>& steps) {
    bool open = false;  // a sequence that the next step may join
    for (const Step& step : steps) {
      if (auto* loop = std::get_if<program::WhileStep>(&step.op)) {
        open = false;
        WalkLoop(step, *loop);
      } else if (auto* branches = std::get_if<program::ConditionalStep>(&step.op)) {
        open = false;
        for (const auto& branch : branches->branches) Walk(branch);
      } else if (!std::holds_alternative<program::WaitStep>(step.op) &&
                 !absorbed_.contains(&step)) {
        if (!open) {
          plan_.sequence_numbers[&step] = static_cast<int32_t>(plan_.sequences.size());
          plan_.sequences.emplace_back();
        }
        open = true;
        plan_.sequences.back().push_back(&step);
        AddToSequence(step);
      }
    }
  }

  void WalkLoop(const Step& step, const program::WhileStep& loop) {
    if (plan_.region_numbers.contains(&step)) {
      ForEachStep(loop.condition, [&](const Step& s) { MarkInlined(s); });
      ForEachStep(loop.body, [&](const Step& s) { MarkInlined(s); });
    } else {
      Walk(loop.condition);
      Walk(loop.body);
    }
  }

  void AddToSequence(const Step& step) {
    if (auto* launch = std::get_if<program::KernelStep>(&step.op)) {
      plan_.launched[plan_.same_as[launch->kernel]] = true;
    } else if (!std::holds_alternative<program::CopyStep>(step.op) &&
               !std::holds_alternative<program::FillStep>(step.op)) {
      plan_.call_numbers[&step] = static_cast<int32_t>(plan_.calls.size());
      plan_.calls.push_back(&step);
      if (auto* call = std::get_if<program::LibraryStep>(&step.op)) MarkCalled(*call);
    }
  }

  void MarkInlined(const Step& step) {
    if (auto* launch = std::get_if<program::KernelStep>(&step.op)) {
      plan_.inlined[plan_.same_as[launch->kernel]] = true;
    }
  }

  const Program& program_;
  const RenderTarget& target_;
  Plan plan_;
  std::vector<int> outside_;        // uses of each buffer with storage
  std::set<const Step*> absorbed_;  // steps that run in regions
};

}  // namespace

int64_t WorkOf(const program::Kernel& kernel) {
  constexpr double kLimit = 1e15;
  double work = 0;
  std::vector<double> times = {1};
  for (const program::Instr& instr : kernel.code) {
    work += times.back();
    if (instr.op == Op::kEnd) times.pop_back();
    if (instr.op != Op::kLoop && instr.op != Op::kIf) continue;
    double trips = 1;
    if (instr.op == Op::kLoop) trips = static_cast<double>(TripCount(kernel, instr).value_or(16));
    times.push_back(times.back() * trips);
  }
  return static_cast<int64_t>(std::min(work, kLimit));
}

int LoopDepth(const std::vector<program::Step>& steps) {
  int most = 0;
  for (const program::Step& step : steps) {
    if (auto* loop = std::get_if<program::WhileStep>(&step.op)) {
      most = std::max(most, 1 + std::max(LoopDepth(loop->condition), LoopDepth(loop->body)));
    } else if (auto* branches = std::get_if<program::ConditionalStep>(&step.op)) {
      for (const auto& branch : branches->branches) most = std::max(most, LoopDepth(branch));
    }
  }
  return most;
}

Result<Plan> MakePlan(const Program& program, const RenderTarget& target) {
  return Planner(program, target).Make();
}

}  // namespace weft::cpu
