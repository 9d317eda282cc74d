// Loops of steps as LLVM IR: strip mining between polls, countable loops, unrolling, invariant
// loads.
#include <algorithm>

#include "cpu/render/function_renderer.h"
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

std::string FunctionRenderer::UnrollHint(const program::WhileStep& loop) {
  if (!region_ || loop.trip_count.value_or(0) < kManyIterations ||
      CodeOf(program_, loop, kLittleCode) >= kLittleCode) {
    return "";
  }
  std::string twice = metadata_.Add("!{!\"llvm.loop.unroll.count\", i32 2}");
  return StrCat(", !llvm.loop ", metadata_.AddLoop(", ", twice));
}

void FunctionRenderer::RenderIteration(const Step& step) {
  const auto& loop = std::get<program::WhileStep>(step.op);
  KeepLoadsInLoop(loop);
  RenderSteps(loop.condition);
  std::string value = ir_.Def("load i8, ptr ", Address(step.uses[0]), ", align 1");
  ir_.Line("call void @llvm.assume(i1 ", ir_.Def("icmp ne i8 ", value, ", 0"), ")");
  RenderSteps(loop.body);
}

void FunctionRenderer::RenderBlocks(const Step& step, int64_t block) {
  const auto& loop = std::get<program::WhileStep>(step.op);
  std::string outer = ir_.NewLabel(), inner = ir_.NewLabel(), look = ir_.NewLabel();
  std::string after = ir_.NewLabel();
  std::string blocks = NewCounter(outer), iterations = NewCounter(inner);
  ir_.Branch(outer);
  ir_.Begin(outer);
  ir_.Line("store i64 0, ptr ", iterations, ", align 8");
  ir_.Branch(inner);
  ir_.Begin(inner);
  RenderIteration(step);
  ir_.Branch(CountsTo(iterations, StrCat(block)), look, inner, UnrollHint(loop));
  ir_.Begin(look);
  PollCancel();
  ir_.Branch(CountsTo(blocks, StrCat(*loop.trip_count / block)), after, outer);
  ir_.Begin(after);
}

void FunctionRenderer::RenderCounted(const Step& step) {
  const auto& loop = std::get<program::WhileStep>(step.op);
  auto number = [&](size_t k) {
    bool wide = step.uses[k].slice.size == 8;
    std::string type = wide ? "i64" : "i32";
    std::string value = ir_.Def("load ", type, ", ptr ", Address(step.uses[k]), ", align ",
                                step.uses[k].slice.size);
    return wide ? value : ir_.Def("sext i32 ", value, " to i64");
  };
  std::string limit = loop.count_limit ? StrCat(*loop.count_limit) : number(2);
  std::string start = number(1);
  std::string outer = ir_.NewLabel(), inner = ir_.NewLabel(), look = ir_.NewLabel();
  std::string after = ir_.NewLabel(), some = ir_.NewLabel(), rest = ir_.NewLabel();
  std::string left = NewCounter(outer), iterations = NewCounter(inner);
  ir_.Branch(ir_.Def("icmp slt i64 ", start, ", ", limit), some, after);
  ir_.Begin(some);
  std::string far = ir_.Def("sub i64 ", limit, ", ", start);  // unsigned
  if (loop.count_step > 1) {
    std::string last =
        ir_.Def("udiv i64 ", ir_.Def("add i64 ", far, ", -1"), ", ", loop.count_step);
    far = ir_.Def("add nuw i64 ", last, ", 1");
  }
  ir_.Line("store i64 ", far, ", ptr ", left, ", align 8");
  ir_.Branch(outer);
  ir_.Begin(outer);
  ir_.Line("store i64 0, ptr ", iterations, ", align 8");
  std::string all = ir_.Def("load i64, ptr ", left, ", align 8");
  int64_t every = program::CancelPollingOf(program_, loop).every;
  std::string few = ir_.Def("icmp ult i64 ", all, ", ", every);
  std::string now = ir_.Def("select i1 ", few, ", i64 ", all, ", i64 ", every);
  ir_.Branch(inner);
  ir_.Begin(inner);
  RenderIteration(step);
  ir_.Branch(CountsTo(iterations, now), look, inner);
  ir_.Begin(look);
  std::string still = ir_.Def("sub nuw i64 ", all, ", ", now);
  ir_.Line("store i64 ", still, ", ptr ", left, ", align 8");
  ir_.Branch(ir_.Def("icmp eq i64 ", still, ", 0"), after, rest);
  ir_.Begin(rest);
  PollCancel();
  ir_.Branch(outer);
  ir_.Begin(after);
}

std::string FunctionRenderer::NewCounter(const std::string& label) {
  std::string counter = StrCat("%", label, ".count");
  StrAppend(entry_, "  ", counter, " = alloca i64, align 8\n");
  ir_.Line("store i64 0, ptr ", counter, ", align 8");
  return counter;
}

std::string FunctionRenderer::CountsTo(const std::string& counter, const std::string& end) {
  std::string old = ir_.Def("load i64, ptr ", counter, ", align 8");
  std::string next = ir_.Def("add nuw nsw i64 ", old, ", 1");
  ir_.Line("store i64 ", next, ", ptr ", counter, ", align 8");
  return ir_.Def("icmp eq i64 ", next, ", ", end);
}

int64_t FunctionRenderer::InvariantLoads(const program::WhileStep& loop) const {
  int64_t bytes = 0;
  auto count = [&](const Step& step) {
    auto* launch = std::get_if<program::KernelStep>(&step.op);
    if (!launch) return;
    const program::Kernel& kernel = program_.kernels[launch->kernel];
    for (const program::Instr& instr : kernel.code) {
      if (Info(instr.op).cls == program::OpClass::kControl) return;  // straight code alone
      if (instr.op != program::Op::kLoad || !kernel.value(instr.args[0]).is_constant) continue;
      BufferId buffer = Resolve(program_, step.uses[instr.memory].slice).buffer;
      const std::vector<BufferId>& far = region_->pointers;
      bool outlives = std::find(far.begin(), far.end(), buffer) != far.end();
      if (outlives) bytes += instr.type.lanes * ByteWidth(kernel.memories[instr.memory].dtype);
    }
  };
  ForEachStep(loop.body, count);
  return bytes / program::TargetInfo::kNarrowVectorBytes;
}

void FunctionRenderer::KeepLoadsInLoop(const program::WhileStep& loop) {
  if (!region_ || InvariantLoads(loop) <= kManyRegisters) return;
  ir_.Line("call void asm sideeffect \"\", \"~{memory}\"() nounwind willreturn");
}

void FunctionRenderer::RenderWhile(const Step& step) {
  const auto& loop = std::get<program::WhileStep>(step.op);
  const auto [of_iteration, poll, every] = program::CancelPollingOf(program_, loop);
  if (region_ && poll && loop.trip_count) {
    if (int64_t block = BlockOf(*loop.trip_count, every)) return RenderBlocks(step, block);
  }
  if (region_ && loop.count_step > 0) return RenderCounted(step);
  std::string head = ir_.NewLabel(), after = ir_.NewLabel();
  std::string counter = poll && region_ && every > 1 ? StrCat("%", head, ".count") : "";
  if (!counter.empty()) {
    StrAppend(entry_, "  ", counter, " = alloca i64, align 8\n");
    ir_.Line("store i64 ", loop.trip_count ? 0 : every, ", ptr ", counter, ", align 8");
  }
  ir_.Branch(head);
  ir_.Begin(head);
  KeepLoadsInLoop(loop);
  // Iterations of little code, whose number is not known, are unrolled: counting them would cost
  // as much as they do.
  int64_t unrolled =
      !counter.empty() && !loop.trip_count && CodeOf(program_, loop, kLittleCode) < kTinyCode
          ? kUnrolledIterations
          : 1;
  for (int64_t i = 0; i < unrolled; ++i) {
    RenderSteps(loop.condition);
    std::string value = ir_.Def("load i8, ptr ", Address(step.uses[0]), ", align 1");
    std::string go = ir_.Def("icmp ne i8 ", value, ", 0"), body = ir_.NewLabel();
    ir_.Branch(go, body, after);
    ir_.Begin(body);
    RenderSteps(loop.body);
  }
  if (poll) PollCancel(counter, loop.trip_count.has_value(), every);
  ir_.Branch(head, UnrollHint(loop));
  ir_.Begin(after);
}

void FunctionRenderer::PollCancel(const std::string& counter, bool up, int64_t every) {
  std::string go_on = ir_.NewLabel(), stop = ir_.NewLabel();
  if (!counter.empty()) {
    std::string look = ir_.NewLabel();
    std::string old = ir_.Def("load i64, ptr ", counter, ", align 8");
    std::string next = ir_.Def("add i64 ", old, ", ", up ? 1 : -1);
    ir_.Line("store i64 ", next, ", ptr ", counter, ", align 8");
    std::string low = up ? ir_.Def("and i64 ", next, ", ", every - 1) : next;
    std::string due = ir_.Def("icmp eq i64 ", low, ", 0");
    ir_.Branch(due, look, go_on, ", !prof !1");
    ir_.Begin(look);
    if (!up) ir_.Line("store i64 ", every, ", ptr ", counter, ", align 8");
  }
  std::string at = Offset("%ctx", 8);
  std::string flag = ir_.Def("load ptr, ptr ", at, ", align 8, !invariant.load !0");
  std::string value = ir_.Def("load atomic i8, ptr ", flag, " monotonic, align 1");
  std::string set = ir_.Def("icmp ne i8 ", value, ", 0");
  ir_.Branch(set, stop, go_on, ", !prof !1");
  ir_.Begin(stop);
  ir_.Line("ret i32 ", static_cast<int32_t>(kRunCancelled));
  ir_.Begin(go_on);
}

}  // namespace weft::cpu
