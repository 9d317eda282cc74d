// The text of one function that runs steps: weft_run, a list, a region, or what calls one. Steps
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

struct FunctionContext {
  // `attributes`: of the function.
  FunctionContext(const program::Program& program, const Plan& plan, const Region* region,
                  std::set<int32_t>& inlined, IrMetadata& metadata,
                  std::string_view attributes = "#0")
      : program(program),
        plan(plan),
        region(region),
        inlined(inlined),
        metadata(metadata),
        attributes(attributes) {}
  const program::Program& program;
  const Plan& plan;
  const Region* region;
  std::set<int32_t>& inlined;
  IrMetadata& metadata;
  std::string_view attributes;
  // Where there is no region: what runs, and the function's name.
  const std::vector<program::Step>* steps = &program.steps;
  std::string name = "weft_run";
  IrBody ir;
  std::string entry;
};

// A function with weft_run's parameters that runs one loop, which is a region.
void RenderEntry(FunctionContext& cx, const program::Step& loop, std::string& out);
void RenderFunction(FunctionContext& cx, std::string& out);
std::string Signature(const FunctionContext& cx);
// What the caller promises of an address (runtime/device.h).
int64_t AlignOf(const FunctionContext& cx, program::BufferId id);
bool SharesArena(const FunctionContext& cx, const Region& region);
// Likewise for what is copied before the loop and after it: the addresses come from the table.
bool LooksUp(const Region& region);
void BeginRegion(FunctionContext& cx);
void EndRegion(FunctionContext& cx);
void CopyBytes(FunctionContext& cx, const std::string& to, const std::string& from, int64_t bytes);
std::string Offset(FunctionContext& cx, const std::string& pointer, int64_t bytes);
std::string TableEntry(FunctionContext& cx, program::BufferId id,
                       std::string_view table = "%buffers");
std::string Address(FunctionContext& cx, const program::Use& use);
void RenderSteps(FunctionContext& cx, const std::vector<program::Step>& steps);
void RenderStep(FunctionContext& cx, const program::Step& step, const program::KernelStep& op);
void RenderSequence(FunctionContext& cx, int32_t number);
void RenderStep(FunctionContext& cx, const program::Step& step, const program::CopyStep&);
void RenderStep(FunctionContext& cx, const program::Step& step, const program::FillStep& op);
void FillWith(FunctionContext& cx, const std::string& to, const std::vector<std::byte>& pattern,
              int64_t bytes);
void ReturnUnlessZero(FunctionContext& cx, const std::string& code);
void RenderStep(FunctionContext& cx, const program::Step& step, const program::WhileStep&);
// Tells whoever records.
void NoteRegion(FunctionContext& cx, int32_t number, bool is_end);
// Loop metadata on the backedge of a loop of known trip count: one of little code is unrolled by
// two, so that what one iteration leaves need not be moved to where the next expects it.
std::string UnrollHint(FunctionContext& cx, const program::WhileStep& loop);
// An iteration that is known to come: the condition becomes an assumption about the state.
void RenderIteration(FunctionContext& cx, const program::Step& step);
// A loop of known trip count, strip-mined: polls are between the strips. What is left are two
// countable loops with one exit each, which LLVM understands; the condition becomes an assumption
// about the state.
void RenderBlocks(FunctionContext& cx, const program::Step& step, int64_t block);
// The same where the trip count is known when the loop begins.
void RenderCounted(FunctionContext& cx, const program::Step& step);
std::string NewCounter(FunctionContext& cx, const std::string& label);
// One more; whether that is the last.
std::string CountsTo(FunctionContext& cx, const std::string& counter, const std::string& end);
// Loop-invariant loads from memory that outlives the loop, in registers.
int64_t InvariantLoads(const FunctionContext& cx, const program::WhileStep& loop);
// LICM would hoist invariant loads. More of them than there are registers it would spill to the
// stack, to load them from there: a memory barrier keeps them in the loop.
void KeepLoadsInLoop(FunctionContext& cx, const program::WhileStep& loop);
void RenderWhile(FunctionContext& cx, const program::Step& step);
// Iterations are counted up beside a counter of the program, which LLVM makes one of the two, and
// down where there is none.
void PollCancel(FunctionContext& cx, const std::string& counter = "", bool up = true,
                int64_t every = 1);
void RenderStep(FunctionContext& cx, const program::Step& step, const program::ConditionalStep& op);
void RenderStep(FunctionContext& cx, const program::Step& step, const program::ListStep& op);

// A region that uses more temporaries than there are registers has the address of the arena, of
// which theirs are made where they are needed: as parameters they would be kept on the stack.
inline bool InArena(const FunctionContext& cx, program::BufferId id) {
  return cx.program.buffers[id].kind == program::BufferKind::kTemp && cx.plan.places[id].slot == 0;
}
inline std::string Outside(FunctionContext& cx, const program::RegionLocal& local,
                           std::string_view table) {
  return LooksUp(*cx.region) ? TableEntry(cx, local.buffer, table) : StrCat("%o", local.buffer);
}
// Regions have no other steps.
template <class Op>
void RenderStep(FunctionContext&, const program::Step& step, const Op&) {
  CHECK(false) << KindName(step);
}
inline void RenderStep(FunctionContext&, const program::Step&, const program::WaitStep&) {}

}  // namespace weft::cpu
