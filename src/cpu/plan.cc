#include "cpu/plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>

#include "cpu/render/kernel.h"

namespace weft::cpu {
namespace {

using program::BufferId;
using program::BufferKind;
using program::Program;
using program::Step;

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
    ForEachStep(program_.steps, [&](const Step& step) {
      if (IsAsyncList(step)) list_events_.insert(step.event);
    });
    Walk(program_.steps);
    // Behind all others: a list may have lists inside.
    for (size_t i = 0; i < plan_.lists.size(); ++i) {
      const size_t before = plan_.sequences.size();
      Walk(std::get<program::ListStep>(plan_.lists[i].step->op).steps);
      if (plan_.sequences.size() > before) plan_.lists[i].sequence = static_cast<int32_t>(before);
    }
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

  // What the program says of its loops (program/regions.h).
  void FindRegions(const std::vector<Step>& steps) {
    for (size_t i = 0; i < steps.size(); ++i) {
      const Step& step = steps[i];
      if (auto* loop = std::get_if<program::WhileStep>(&step.op)) {
        if (loop->region) {
          AddRegion(steps, i, *loop->region);
          continue;
        }
      }
      ForEachList(step, [&](const std::vector<Step>& list) { FindRegions(list); });
    }
  }

  void AddRegion(const std::vector<Step>& steps, size_t at, const program::Region& facts) {
    plan_.region_numbers[&steps[at]] = static_cast<int32_t>(plan_.regions.size());
    Region& region = plan_.regions.emplace_back();
    region.loop = &steps[at];
    region.locals = facts.locals;
    region.constants = facts.constants;
    std::sort(region.constants.begin(), region.constants.end());
    for (size_t i = at - static_cast<size_t>(facts.prologue); i < at; ++i) {
      region.prologue.push_back(&steps[i]);
      absorbed_.insert(&steps[i]);
    }
    std::map<BufferId, bool> written;  // of all buffers that it uses
    ForRegion(steps, at, facts.prologue, [&](const Step& step) {
      for (const program::Use& use : step.uses) {
        written[Resolve(program_, use.slice).buffer] |= Writes(use.access);
      }
    });
    for (const program::RegionLocal& local : region.locals) written.erase(local.buffer);
    for (BufferId id : region.constants) written.erase(id);
    for (auto [id, writes] : written) {
      region.pointers.push_back(id);
      region.written.push_back(writes);
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
      } else if (auto* list = std::get_if<program::ListStep>(&step.op);
                 list != nullptr && step.event.empty()) {
        open = false;
        Walk(list->steps);
      } else if (!absorbed_.contains(&step) && !IsIdle(step)) {
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

  // A wait for what runs in place: only lists and collectives of several devices do not.
  bool IsIdle(const Step& step) const {
    auto* wait = std::get_if<program::WaitStep>(&step.op);
    return wait != nullptr && program_.devices == 1 && !list_events_.contains(wait->event);
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
      if (IsAsyncList(step)) {
        plan_.list_numbers[&step] = static_cast<int32_t>(plan_.lists.size());
        plan_.lists.push_back({&step});
      }
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
  std::set<const Step*> absorbed_;     // steps that run in regions
  std::set<std::string> list_events_;  // of asynchronous lists
};

}  // namespace

Result<Plan> MakePlan(const Program& program, const RenderTarget& target) {
  return Planner(program, target).Make();
}

}  // namespace weft::cpu
