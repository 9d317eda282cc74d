// Loops of steps as LLVM IR: strip mining between polls, countable loops, unrolling, invariant
// loads.
#include <algorithm>

#include "cpu/render/function_context.h"
#include "program/cost.h"
#include "program/target.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::cpu {

using program::BufferId;
using program::CancelPolling;
using program::Step;

namespace {

// Iterations of a loop with little code.
constexpr int64_t kUnrolledIterations = program::CodeBounds::kCopies;
// Registers of invariant loads.
constexpr int64_t kManyRegisters = 4 * program::TargetFacts::kGeneralRegisters;
// Instructions of an iteration.
constexpr size_t kTinyCode = program::CodeBounds::kLongBody,
                 kLittleCode = program::CodeBounds::kLargeBody;
constexpr int64_t kManyIterations = program::CodeBounds::kShortLoop;  // iterations

// Strip mining: a number of iterations, about `every`, of which `trips` is a multiple; 0: there is
// none.
int64_t BlockOf(int64_t trips, int64_t every) {
  // Where iterations are many it may as well be more.
  int64_t most = trips >= CancelPolling::kShortLoop && every == CancelPolling::kMostIterations
                     ? 4 * every
                     : every;
  for (int64_t parts : {8, 4, 2, 1}) {
    for (int64_t block = every; block <= most; block += parts) {
      if (trips % block == 0) return block;
    }
    for (int64_t block = every; block >= std::max<int64_t>(every / 4, 1); block -= parts) {
      if (trips % block == 0) return block;
    }
  }
  return 0;
}

}  // namespace

std::string UnrollHint(FunctionContext& cx, const program::WhileStep& loop) {
  if (!cx.region || loop.trip_count.value_or(0) < kManyIterations ||
      CodeOf(cx.program, loop, kLittleCode) >= kLittleCode) {
    return "";
  }
  std::string twice = cx.metadata.Add("!{!\"llvm.loop.unroll.count\", i32 2}");
  return StrCat(", !llvm.loop ", cx.metadata.AddLoop(", ", twice));
}

void RenderIteration(FunctionContext& cx, const Step& step) {
  const auto& loop = std::get<program::WhileStep>(step.op);
  KeepLoadsInLoop(cx, loop);
  RenderSteps(cx, loop.condition);
  std::string value = cx.ir.Def("load i8, ptr ", Address(cx, step.uses[0]), ", align 1");
  cx.ir.Line("call void @llvm.assume(i1 ", cx.ir.Def("icmp ne i8 ", value, ", 0"), ")");
  RenderSteps(cx, loop.body);
}

void RenderBlocks(FunctionContext& cx, const Step& step, int64_t block) {
  const auto& loop = std::get<program::WhileStep>(step.op);
  std::string outer = cx.ir.NewLabel(), inner = cx.ir.NewLabel(), look = cx.ir.NewLabel();
  std::string after = cx.ir.NewLabel();
  std::string blocks = NewCounter(cx, outer), iterations = NewCounter(cx, inner);
  cx.ir.Branch(outer);
  cx.ir.Begin(outer);
  cx.ir.Line("store i64 0, ptr ", iterations, ", align 8");
  cx.ir.Branch(inner);
  cx.ir.Begin(inner);
  RenderIteration(cx, step);
  cx.ir.Branch(CountsTo(cx, iterations, StrCat(block)), look, inner, UnrollHint(cx, loop));
  cx.ir.Begin(look);
  PollCancel(cx);
  cx.ir.Branch(CountsTo(cx, blocks, StrCat(*loop.trip_count / block)), after, outer);
  cx.ir.Begin(after);
}

void RenderCounted(FunctionContext& cx, const Step& step) {
  const auto& loop = std::get<program::WhileStep>(step.op);
  auto number = [&](size_t k) {
    bool wide = step.uses[k].slice.size == 8;
    std::string type = wide ? "i64" : "i32";
    std::string value = cx.ir.Def("load ", type, ", ptr ", Address(cx, step.uses[k]), ", align ",
                                  step.uses[k].slice.size);
    return wide ? value : cx.ir.Def("sext i32 ", value, " to i64");
  };
  std::string limit = loop.count_limit ? StrCat(*loop.count_limit) : number(2);
  std::string start = number(1);
  std::string outer = cx.ir.NewLabel(), inner = cx.ir.NewLabel(), look = cx.ir.NewLabel();
  std::string after = cx.ir.NewLabel(), some = cx.ir.NewLabel(), rest = cx.ir.NewLabel();
  std::string left = NewCounter(cx, outer), iterations = NewCounter(cx, inner);
  cx.ir.Branch(cx.ir.Def("icmp slt i64 ", start, ", ", limit), some, after);
  cx.ir.Begin(some);
  std::string far = cx.ir.Def("sub i64 ", limit, ", ", start);  // unsigned
  if (loop.count_step > 1) {
    std::string last =
        cx.ir.Def("udiv i64 ", cx.ir.Def("add i64 ", far, ", -1"), ", ", loop.count_step);
    far = cx.ir.Def("add nuw i64 ", last, ", 1");
  }
  cx.ir.Line("store i64 ", far, ", ptr ", left, ", align 8");
  cx.ir.Branch(outer);
  cx.ir.Begin(outer);
  cx.ir.Line("store i64 0, ptr ", iterations, ", align 8");
  std::string all = cx.ir.Def("load i64, ptr ", left, ", align 8");
  int64_t every = program::CancelPollingOf(cx.program, loop).every;
  std::string few = cx.ir.Def("icmp ult i64 ", all, ", ", every);
  std::string now = cx.ir.Def("select i1 ", few, ", i64 ", all, ", i64 ", every);
  cx.ir.Branch(inner);
  cx.ir.Begin(inner);
  RenderIteration(cx, step);
  cx.ir.Branch(CountsTo(cx, iterations, now), look, inner);
  cx.ir.Begin(look);
  std::string still = cx.ir.Def("sub nuw i64 ", all, ", ", now);
  cx.ir.Line("store i64 ", still, ", ptr ", left, ", align 8");
  cx.ir.Branch(cx.ir.Def("icmp eq i64 ", still, ", 0"), after, rest);
  cx.ir.Begin(rest);
  PollCancel(cx);
  cx.ir.Branch(outer);
  cx.ir.Begin(after);
}

std::string NewCounter(FunctionContext& cx, const std::string& label) {
  std::string counter = StrCat("%", label, ".count");
  StrAppend(cx.entry, "  ", counter, " = alloca i64, align 8\n");
  cx.ir.Line("store i64 0, ptr ", counter, ", align 8");
  return counter;
}

std::string CountsTo(FunctionContext& cx, const std::string& counter, const std::string& end) {
  std::string old = cx.ir.Def("load i64, ptr ", counter, ", align 8");
  std::string next = cx.ir.Def("add nuw nsw i64 ", old, ", 1");
  cx.ir.Line("store i64 ", next, ", ptr ", counter, ", align 8");
  return cx.ir.Def("icmp eq i64 ", next, ", ", end);
}

int64_t InvariantLoads(const FunctionContext& cx, const program::WhileStep& loop) {
  int64_t bytes = 0;
  auto count = [&](const Step& step) {
    auto* launch = std::get_if<program::KernelStep>(&step.op);
    if (!launch) return;
    const program::Kernel& kernel = cx.program.kernels[launch->kernel];
    for (const program::Instr& instr : kernel.code) {
      if (Info(instr.op).cls == program::OpClass::kControl) return;  // straight code alone
      if (instr.op != program::Op::kLoad || !kernel.value(instr.args[0]).is_constant) continue;
      if (instr.memory >= kernel.num_params) continue;  // an array of the kernel's own
      BufferId buffer = Resolve(cx.program, step.uses[instr.memory].slice).buffer;
      const std::vector<BufferId>& far = cx.region->pointers;
      bool outlives = std::find(far.begin(), far.end(), buffer) != far.end();
      if (outlives) bytes += instr.type.lanes * ByteWidth(kernel.memories[instr.memory].dtype);
    }
  };
  ForEachStep(loop.body, count);
  return bytes / program::TargetInfo::kNarrowVectorBytes;
}

void KeepLoadsInLoop(FunctionContext& cx, const program::WhileStep& loop) {
  if (!cx.region || InvariantLoads(cx, loop) <= kManyRegisters) return;
  cx.ir.Line("call void asm sideeffect \"\", \"~{memory}\"() nounwind willreturn");
}

void RenderWhile(FunctionContext& cx, const Step& step) {
  const auto& loop = std::get<program::WhileStep>(step.op);
  const auto [of_iteration, poll, every] = program::CancelPollingOf(cx.program, loop);
  if (cx.region && poll && loop.trip_count) {
    if (int64_t block = BlockOf(*loop.trip_count, every)) return RenderBlocks(cx, step, block);
  }
  if (cx.region && loop.count_step > 0) return RenderCounted(cx, step);
  std::string head = cx.ir.NewLabel(), after = cx.ir.NewLabel();
  std::string counter = poll && cx.region && every > 1 ? StrCat("%", head, ".count") : "";
  if (!counter.empty()) {
    StrAppend(cx.entry, "  ", counter, " = alloca i64, align 8\n");
    cx.ir.Line("store i64 ", loop.trip_count ? 0 : every, ", ptr ", counter, ", align 8");
  }
  cx.ir.Branch(head);
  cx.ir.Begin(head);
  KeepLoadsInLoop(cx, loop);
  // Iterations of little code, whose number is not known, are unrolled: counting them would cost
  // as much as they do.
  int64_t unrolled =
      !counter.empty() && !loop.trip_count && CodeOf(cx.program, loop, kLittleCode) < kTinyCode
          ? kUnrolledIterations
          : 1;
  for (int64_t i = 0; i < unrolled; ++i) {
    RenderSteps(cx, loop.condition);
    std::string value = cx.ir.Def("load i8, ptr ", Address(cx, step.uses[0]), ", align 1");
    std::string go = cx.ir.Def("icmp ne i8 ", value, ", 0"), body = cx.ir.NewLabel();
    cx.ir.Branch(go, body, after);
    cx.ir.Begin(body);
    RenderSteps(cx, loop.body);
  }
  if (poll) PollCancel(cx, counter, loop.trip_count.has_value(), every);
  cx.ir.Branch(head, UnrollHint(cx, loop));
  cx.ir.Begin(after);
}

void PollCancel(FunctionContext& cx, const std::string& counter, bool up, int64_t every) {
  std::string go_on = cx.ir.NewLabel(), stop = cx.ir.NewLabel();
  if (!counter.empty()) {
    std::string look = cx.ir.NewLabel();
    std::string old = cx.ir.Def("load i64, ptr ", counter, ", align 8");
    std::string next = cx.ir.Def("add i64 ", old, ", ", up ? 1 : -1);
    cx.ir.Line("store i64 ", next, ", ptr ", counter, ", align 8");
    std::string low = up ? cx.ir.Def("and i64 ", next, ", ", every - 1) : next;
    std::string due = cx.ir.Def("icmp eq i64 ", low, ", 0");
    cx.ir.Branch(due, look, go_on, ", !prof !1");
    cx.ir.Begin(look);
    if (!up) cx.ir.Line("store i64 ", every, ", ptr ", counter, ", align 8");
  }
  std::string at = Offset(cx, "%ctx", 8);
  std::string flag = cx.ir.Def("load ptr, ptr ", at, ", align 8, !invariant.load !0");
  std::string value = cx.ir.Def("load atomic i8, ptr ", flag, " monotonic, align 1");
  std::string set = cx.ir.Def("icmp ne i8 ", value, ", 0");
  cx.ir.Branch(set, stop, go_on, ", !prof !1");
  cx.ir.Begin(stop);
  cx.ir.Line("ret i32 ", static_cast<int32_t>(kRunCancelled));
  cx.ir.Begin(go_on);
}

}  // namespace weft::cpu
