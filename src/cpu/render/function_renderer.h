// The text of one function that runs steps: weft_run, a region, or one that calls a region. Steps
// (steps.cc), loops (while.cc), parameters and registers of regions (region.cc).
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "cpu/render/ir_text.h"
#include "cpu/render/steps.h"
#include "program/program.h"

namespace weft::cpu {

class FunctionRenderer {
 public:
  using BufferId = program::BufferId;
  using Program = program::Program;
  using Step = program::Step;

  // `attributes`: of the function.
  FunctionRenderer(const Program& program, const Plan& plan, const Region* region,
                   std::set<int32_t>& inlined, IrMetadata& metadata,
                   std::string_view attributes = "#0")
      : program_(program),
        plan_(plan),
        region_(region),
        inlined_(inlined),
        metadata_(metadata),
        attributes_(attributes) {}

  // A function with weft_run's parameters that runs one loop, which is a region.
  void RenderEntry(const Step& loop, std::string& out);

  void Render(std::string& out);

 private:
  std::string Signature() const;

  // What the caller promises of an address (runtime/device.h).
  int64_t AlignOf(BufferId id) const;

  // A region that uses more temporaries than there are registers has the address of the arena, of
  // which theirs are made where they are needed: as parameters they would be kept on the stack.
  bool InArena(BufferId id) const {
    return program_.buffers[id].kind == program::BufferKind::kTemp && plan_.places[id].slot == 0;
  }
  bool SharesArena(const Region& region) const;

  // Likewise for what is copied before the loop and after it: the addresses come from the table.
  static bool LooksUp(const Region& region);
  std::string Outside(const program::RegionLocal& local, std::string_view table) {
    return LooksUp(*region_) ? TableEntry(local.buffer, table) : StrCat("%o", local.buffer);
  }

  void BeginRegion();
  void EndRegion();
  void CopyBytes(const std::string& to, const std::string& from, int64_t bytes);
  std::string Offset(const std::string& pointer, int64_t bytes);
  std::string TableEntry(BufferId id, std::string_view table = "%buffers");
  std::string Address(const program::Use& use);
  void RenderSteps(const std::vector<Step>& steps);
  void RenderStep(const Step& step, const program::KernelStep& op);
  void RenderSequence(int32_t number);
  void RenderStep(const Step& step, const program::CopyStep&);
  void RenderStep(const Step& step, const program::FillStep& op);
  void FillWith(const std::string& to, const std::vector<std::byte>& pattern, int64_t bytes);

  // Regions have no other steps.
  template <class Op>
  void RenderStep(const Step& step, const Op&) {
    CHECK(false) << KindName(step);
  }

  void ReturnUnlessZero(const std::string& code);
  void RenderStep(const Step&, const program::WaitStep&) {}

  void RenderStep(const Step& step, const program::WhileStep&);

  // Tells whoever records.
  void NoteRegion(int32_t number, bool is_end);

  // Loop metadata on the backedge of a loop of known trip count: one of little code is unrolled by
  // two, so that what one iteration leaves need not be moved to where the next expects it.
  std::string UnrollHint(const program::WhileStep& loop);

  // An iteration that is known to come: the condition becomes an assumption about the state.
  void RenderIteration(const Step& step);

  // A loop of known trip count, strip-mined: polls are between the strips. What is left are two
  // countable loops with one exit each, which LLVM understands; the condition becomes an assumption
  // about the state.
  void RenderBlocks(const Step& step, int64_t block);

  // The same where the trip count is known when the loop begins.
  void RenderCounted(const Step& step);
  std::string NewCounter(const std::string& label);
  // One more; whether that is the last.
  std::string CountsTo(const std::string& counter, const std::string& end);

  // Loop-invariant loads from memory that outlives the loop, in registers.
  int64_t InvariantLoads(const program::WhileStep& loop) const;

  // LICM would hoist invariant loads. More of them than there are registers it would spill to the
  // stack, to load them from there: a memory barrier keeps them in the loop.
  void KeepLoadsInLoop(const program::WhileStep& loop);
  void RenderWhile(const Step& step);

  // Iterations are counted up beside a counter of the program, which LLVM makes one of the two, and
  // down where there is none.
  void PollCancel(const std::string& counter = "", bool up = true, int64_t every = 1);
  void RenderStep(const Step& step, const program::ConditionalStep& op);

  const Program& program_;
  const Plan& plan_;
  const Region* region_;
  std::set<int32_t>& inlined_;
  IrMetadata& metadata_;
  std::string_view attributes_;
  IrBody ir_;
  std::string entry_;
};

}  // namespace weft::cpu
