// The rules of native regions.
#include <set>

#include "base/str.h"
#include "program/verify.h"

namespace weft::program {
namespace {

class RegionVerifier {
 public:
  RegionVerifier(const Program& program, std::string_view text)
      : program_(program), text_(text), uses_(program.buffers.size()) {}

  Status Run() {
    bool any = false;
    const Step* odd = nullptr;
    ForEachStep(program_.steps, [&](const Step& step) {
      for (const Use& use : step.uses) {
        bool launch = std::holds_alternative<KernelStep>(step.op);
        if (use.depth < 0 || (use.depth > 0 && !launch)) odd = &step;
      }
      auto* loop = std::get_if<WhileStep>(&step.op);
      any |= loop && loop->region;
      Count(step, uses_);
    });
    if (odd != nullptr) {
      return VerifyError(text_, odd->pos, StrCat(KindName(*odd), " ", odd->name, ": has a depth"));
    }
    return any ? CheckSteps(program_.steps, false) : Status();
  }

 private:
  template <class... Args>
  std::unexpected<Error> Fail(const Step& step, const Args&... args) const {
    return VerifyError(text_, step.pos, StrCat("region of while ", step.name, ": ", args...));
  }

  void Count(const Step& step, std::vector<int64_t>& counts) const {
    for (const Use& use : step.uses) ++counts[Resolve(program_, use.slice).buffer];
  }

  Status CheckSteps(const std::vector<Step>& steps, bool inside) const {
    for (size_t i = 0; i < steps.size(); ++i) {
      if (auto* loop = std::get_if<WhileStep>(&steps[i].op)) {
        if (loop->region) {
          if (inside) return Fail(steps[i], "it is part of another one");
          TRY(CheckRegion(steps, i, *loop));
        }
        TRY(CheckSteps(loop->condition, inside || loop->region));
        TRY(CheckSteps(loop->body, inside || loop->region));
      } else if (auto* branches = std::get_if<ConditionalStep>(&steps[i].op)) {
        for (const auto& branch : branches->branches) TRY(CheckSteps(branch, inside));
      } else if (auto* list = std::get_if<ListStep>(&steps[i].op)) {
        TRY(CheckSteps(list->steps, inside));
      }
    }
    return {};
  }

  Status CheckRegion(const std::vector<Step>& steps, size_t at, const WhileStep& loop) const {
    const Region& region = *loop.region;
    if (region.prologue < 0 || region.prologue > static_cast<int64_t>(at)) {
      return Fail(steps[at], "prologue of ", region.prologue, " steps");
    }
    std::vector<int64_t> inside(program_.buffers.size());
    std::set<BufferId> written;
    const Step* odd = nullptr;
    bool odd_first = false;
    int64_t number = 0;
    ForRegion(steps, at, region.prologue, [&](const Step& step) {
      bool prologue = number++ < region.prologue;
      bool plain =
          std::holds_alternative<CopyStep>(step.op) || std::holds_alternative<FillStep>(step.op);
      if (prologue ? !plain || !step.event.empty() : !RunsInRegion(step)) {
        odd = &step;
        odd_first = prologue;
      }
      Count(step, inside);
      for (const Use& use : step.uses) {
        if (Writes(use.access)) written.insert(Resolve(program_, use.slice).buffer);
      }
    });
    if (odd != nullptr) {
      return Fail(steps[at], KindName(*odd), " cannot be part of ",
                  odd_first ? "its prologue" : "it");
    }
    return CheckBuffers(steps[at], region, inside, written);
  }

  Status CheckBuffers(const Step& step, const Region& region, const std::vector<int64_t>& inside,
                      const std::set<BufferId>& written) const {
    std::set<BufferId> seen;
    auto check = [&](BufferId id, bool constant) -> Status {
      if (id < 0 || id >= std::ssize(program_.buffers)) return Fail(step, "buffer ", id);
      const Buffer& buffer = program_.buffers[static_cast<size_t>(id)];
      if (buffer.base >= 0 || (buffer.kind == BufferKind::kConstant) != constant) {
        return Fail(step, "'", buffer.name, "' cannot be ", constant ? "a constant" : "a local");
      }
      if (!seen.insert(id).second) return Fail(step, "'", buffer.name, "' is named twice");
      return {};
    };
    for (BufferId id : region.constants) TRY(check(id, true));
    for (const RegionLocal& local : region.locals) {
      TRY(check(local.buffer, false));
      size_t i = static_cast<size_t>(local.buffer);
      const Buffer& buffer = program_.buffers[i];
      bool shared = buffer.kind != BufferKind::kTemp || uses_[i] > inside[i];
      if (shared && (!local.copy_in || (written.contains(local.buffer) && !local.copy_out))) {
        return Fail(step, "'", buffer.name, "' is used outside and not copied");
      }
    }
    return {};
  }

  const Program& program_;
  std::string_view text_;
  std::vector<int64_t> uses_;  // of each buffer with storage
};

}  // namespace

Status VerifyRegions(const Program& program, std::string_view text) {
  return RegionVerifier(program, text).Run();
}

}  // namespace weft::program
