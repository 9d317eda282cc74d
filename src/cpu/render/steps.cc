#include "cpu/render/steps.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <map>
#include <set>
#include <span>

#include "base/check.h"
#include "cpu/render/critical_path.h"
#include "cpu/render/kernel.h"
#include "program/cost.h"
#include "program/interpret.h"
#include "program/target.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::cpu {
namespace {

using program::BufferId;
using program::CancelPolling;
using program::Program;
using program::Slice;
using program::Step;

// Iterations of a loop with little code.
constexpr int64_t kUnrolledIterations = program::CodeBounds::kCopies;
// Registers of invariant loads.
constexpr int64_t kManyRegisters = 4 * program::TargetFacts::kGeneralRegisters;
constexpr int64_t kManyPointers =
    3 * program::TargetFacts::kGeneralRegisters / 2;  // buffers of a region
// Instructions of an iteration.
constexpr size_t kTinyCode = program::CodeBounds::kLongBody,
                 kLittleCode = program::CodeBounds::kLargeBody;
constexpr int64_t kManyIterations = program::CodeBounds::kShortLoop;  // iterations
// Fills of as many elements are written out.
constexpr int64_t kUnrolledFill = program::CodeBounds::kWrittenOut / 2;

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

// One function: weft_run, a region, or one that calls a region.
class FunctionRenderer {
 public:
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
  void RenderEntry(const Step& loop, std::string& out) {
    RenderStep(loop, std::get<program::WhileStep>(loop.op));
    ir_.Line("ret i32 0");
    StrAppend(out, "define i32 @", RegionName(plan_.region_numbers.at(&loop)),
              "(ptr %ctx, ptr %buffers) #0 {\nentry:\n", entry_, ir_.text(), "}\n");
  }

  void Render(std::string& out) {
    if (region_) {
      BeginRegion();
      for (const Step* step : region_->prologue) {
        std::visit([&](const auto& op) { RenderStep(*step, op); }, step->op);
      }
      RenderWhile(*region_->loop);
      EndRegion();
    } else {
      RenderSteps(program_.steps);
    }
    ir_.Line("ret i32 0");
    StrAppend(out, "define ", Signature(), " ", attributes_, " {\nentry:\n", entry_, ir_.text(),
              "}\n");
  }

 private:
  std::string Signature() const {
    if (!region_) return "i32 @weft_run(ptr %ctx, ptr %buffers)";
    std::string text = StrCat("internal i32 @region_", plan_.region_numbers.at(region_->loop),
                              "(ptr nocapture readonly %ctx");
    bool shares = SharesArena(*region_);
    if (shares) {
      StrAppend(text, ", ptr noalias nocapture align 64 dereferenceable(", plan_.arena_bytes,
                ") %arena");
    }
    for (size_t i = 0; i < region_->pointers.size(); ++i) {
      BufferId id = region_->pointers[i];
      if (shares && InArena(id)) continue;
      StrAppend(text, ", ptr noalias nocapture ", region_->written[i] ? "writable" : "readonly",
                " align ", AlignOf(id));
      int64_t bytes = plan_.places[id].bytes;
      if (bytes > 0) StrAppend(text, " dereferenceable(", bytes, ")");
      StrAppend(text, " %b", id);
    }
    if (LooksUp(*region_)) return text + ", ptr noalias nocapture readonly %buffers)";
    for (const program::RegionLocal& local : region_->locals) {
      if (local.copy_in || local.copy_out)
        StrAppend(text, ", ptr noalias nocapture %o", local.buffer);
    }
    return text + ")";
  }

  // What the caller promises of an address (runtime/device.h).
  int64_t AlignOf(BufferId id) const {
    const program::Buffer& buffer = program_.buffers[id];
    if (plan_.places[id].bytes < 64) return ByteWidth(RealType(buffer.shape.dtype()));
    bool ours =
        buffer.kind == program::BufferKind::kTemp || buffer.kind == program::BufferKind::kConstant;
    return std::min<int64_t>(buffer.align, ours ? 64 : 16);
  }

  // A region that uses more temporaries than there are registers has the address of the arena, of
  // which theirs are made where they are needed: as parameters they would be kept on the stack.
  bool InArena(BufferId id) const {
    return program_.buffers[id].kind == program::BufferKind::kTemp && plan_.places[id].slot == 0;
  }
  bool SharesArena(const Region& region) const {
    return std::count_if(region.pointers.begin(), region.pointers.end(),
                         [&](BufferId id) { return InArena(id); }) > kManyPointers;
  }

  // Likewise for what is copied before the loop and after it: the addresses come from the table.
  static bool LooksUp(const Region& region) {
    return std::count_if(region.locals.begin(), region.locals.end(),
                         [](const program::RegionLocal& local) {
                           return local.copy_in || local.copy_out;
                         }) > kManyPointers;
  }
  std::string Outside(const program::RegionLocal& local, std::string_view table) {
    return LooksUp(*region_) ? TableEntry(local.buffer, table) : StrCat("%o", local.buffer);
  }

  void BeginRegion() {
    bool shares = SharesArena(*region_);
    for (BufferId id : region_->pointers) {
      if (!shares || !InArena(id)) continue;
      StrAppend(entry_, "  %b", id, " = getelementptr inbounds i8, ptr %arena, i64 ",
                plan_.places[id].offset, "\n");
    }
    for (const program::RegionLocal& local : region_->locals) {
      int64_t bytes = plan_.places[local.buffer].bytes;
      StrAppend(entry_, "  %b", local.buffer, " = alloca [", bytes, " x i8], align ",
                std::max<int64_t>(program_.buffers[local.buffer].align, 16), "\n");
      if (local.copy_in) {
        CopyBytes(StrCat("%b", local.buffer), Outside(local, "%buffers"), bytes);
      }
    }
  }

  void EndRegion() {
    std::string table = "%buffers";
    // LLVM is not to know that it has these addresses already.
    if (LooksUp(*region_)) table = ir_.Def("call ptr asm \"\", \"=r,0\"(ptr %buffers) nounwind");
    for (const program::RegionLocal& local : region_->locals) {
      if (!local.copy_out) continue;
      CopyBytes(Outside(local, table), StrCat("%b", local.buffer),
                plan_.places[local.buffer].bytes);
    }
  }

  void CopyBytes(const std::string& to, const std::string& from, int64_t bytes) {
    ir_.Line("call void @llvm.memcpy.p0.p0.i64(ptr ", to, ", ptr ", from, ", i64 ", bytes,
             ", i1 false)");
  }

  std::string Offset(const std::string& pointer, int64_t bytes) {
    if (bytes == 0) return pointer;
    return ir_.Def("getelementptr inbounds i8, ptr ", pointer, ", i64 ", bytes);
  }

  std::string TableEntry(BufferId id, std::string_view table = "%buffers") {
    const Place& place = plan_.places[id];
    std::string entry = Offset(std::string(table), int64_t{place.slot} * 8);
    std::string base = ir_.Def("load ptr, ptr ", entry, ", align 8, !invariant.load !0");
    return Offset(base, place.offset);
  }

  std::string Address(const program::Use& use) {
    Slice slice = Resolve(program_, use.slice);
    if (!region_) return Offset(TableEntry(slice.buffer), slice.offset);
    const std::vector<BufferId>& constants = region_->constants;
    bool known = std::binary_search(constants.begin(), constants.end(), slice.buffer);
    return Offset(StrCat(known ? "@constant_" : "%b", slice.buffer), slice.offset);
  }

  void RenderSteps(const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      bool block = std::holds_alternative<program::WhileStep>(step.op) ||
                   std::holds_alternative<program::ConditionalStep>(step.op);
      if (region_ || block) {
        std::visit([&](const auto& op) { RenderStep(step, op); }, step.op);
      } else if (auto found = plan_.sequence_numbers.find(&step);
                 found != plan_.sequence_numbers.end()) {
        RenderSequence(found->second);
      }
    }
  }

  void RenderStep(const Step& step, const program::KernelStep& op) {
    int32_t number = plan_.same_as[op.kernel];
    int64_t grid = GridSize(program_.kernels[number]);
    if (grid == 0) return;
    inlined_.insert(number);
    std::string arguments;
    for (const program::Use& use : step.uses) StrAppend(arguments, "ptr ", Address(use), ", ");
    ir_.Line("call void @inline_", number, "(", arguments, "i64 0, i64 ", grid, ")");
  }

  void RenderSequence(int32_t number) {
    std::string sequence = ir_.Def("load ptr, ptr %ctx, align 8, !invariant.load !0");
    ReturnUnlessZero(ir_.Def("call i32 ", sequence, "(ptr %ctx, i64 ", number, ", ptr %buffers)"));
  }

  void RenderStep(const Step& step, const program::CopyStep&) {
    int64_t bytes = step.uses[0].slice.size;
    if (bytes == 0) return;
    std::string from = Address(step.uses[0]), to = Address(step.uses[1]);
    CopyBytes(to, from, bytes);
  }

  void RenderStep(const Step& step, const program::FillStep& op) {
    int64_t bytes = step.uses[0].slice.size;
    if (bytes == 0) return;
    std::string to = Address(step.uses[0]);
    bool same = std::all_of(op.pattern.begin(), op.pattern.end(),
                            [&](std::byte b) { return b == op.pattern[0]; });
    if (same) {
      ir_.Line("call void @llvm.memset.p0.i64(ptr ", to, ", i8 ", static_cast<int>(op.pattern[0]),
               ", i64 ", bytes, ", i1 false)");
      return;
    }
    FillWith(to, op.pattern, bytes);
  }

  void FillWith(const std::string& to, const std::vector<std::byte>& pattern, int64_t bytes) {
    int64_t width = static_cast<int64_t>(pattern.size()), count = bytes / width;
    std::string type = StrCat("<", width, " x i8>"), value;
    for (std::byte b : pattern) {
      StrAppend(value, value.empty() ? "<i8 " : ", i8 ", static_cast<int>(b));
    }
    value += ">";
    if (count <= kUnrolledFill) {
      for (int64_t i = 0; i < count; ++i) {
        ir_.Line("store ", type, " ", value, ", ptr ", Offset(to, i * width), ", align 1");
      }
      return;
    }
    std::string body = ir_.NewLabel(), after = ir_.NewLabel(), before = ir_.block();
    ir_.Branch(body);
    ir_.Begin(body);
    std::string i = StrCat("%", body, ".i"), next = StrCat("%", body, ".next");
    ir_.Line(i, " = phi i64 [0, %", before, "], [", next, ", %", body, "]");
    std::string at = ir_.Def("getelementptr inbounds i8, ptr ", to, ", i64 ", i);
    ir_.Line("store ", type, " ", value, ", ptr ", at, ", align 1");
    ir_.Line(next, " = add nuw nsw i64 ", i, ", ", width);
    std::string again = ir_.Def("icmp ne i64 ", next, ", ", bytes);
    ir_.Branch(again, body, after);
    ir_.Begin(after);
  }

  // Regions have no other steps.
  template <class Op>
  void RenderStep(const Step& step, const Op&) {
    CHECK(false) << KindName(step);
  }

  void ReturnUnlessZero(const std::string& code) {
    std::string bad = ir_.NewLabel(), good = ir_.NewLabel();
    std::string fine = ir_.Def("icmp eq i32 ", code, ", 0");
    ir_.Branch(fine, good, bad);
    ir_.Begin(bad);
    ir_.Line("ret i32 ", code);
    ir_.Begin(good);
  }

  void RenderStep(const Step&, const program::WaitStep&) {}

  void RenderStep(const Step& step, const program::WhileStep&) {
    auto found = plan_.region_numbers.find(&step);
    if (region_ || found == plan_.region_numbers.end()) return RenderWhile(step);
    const Region& region = plan_.regions[found->second];
    std::string arguments;
    bool shares = SharesArena(region);
    if (shares) {
      std::string arena = ir_.Def("load ptr, ptr %buffers, align 8, !invariant.load !0");
      StrAppend(arguments, ", ptr ", arena);
    }
    for (BufferId id : region.pointers) {
      if (!shares || !InArena(id)) StrAppend(arguments, ", ptr ", TableEntry(id));
    }
    bool looks_up = LooksUp(region);
    if (looks_up) StrAppend(arguments, ", ptr %buffers");
    for (const program::RegionLocal& local : region.locals) {
      if (looks_up || !(local.copy_in || local.copy_out)) continue;
      StrAppend(arguments, ", ptr ", TableEntry(local.buffer));
    }
    // For crash reports (base/doing.h).
    std::string running = Offset("%ctx", offsetof(NativeContext, region));
    ir_.Line("store i32 ", found->second, ", ptr ", running, ", align 4");
    NoteRegion(found->second, false);
    std::string code = ir_.Def("call i32 @region_", found->second, "(ptr %ctx", arguments, ")");
    NoteRegion(found->second, true);
    ir_.Line("store i32 -1, ptr ", running, ", align 4");
    ReturnUnlessZero(code);
  }

  // Tells whoever records.
  void NoteRegion(int32_t number, bool is_end) {
    std::string tell = ir_.NewLabel(), after = ir_.NewLabel();
    std::string at = Offset("%ctx", offsetof(NativeContext, note_region));
    std::string function = ir_.Def("load ptr, ptr ", at, ", align 8, !invariant.load !0");
    std::string nobody = ir_.Def("icmp eq ptr ", function, ", null");
    ir_.Branch(nobody, after, tell);
    ir_.Begin(tell);
    ir_.Line("call void ", function, "(ptr %ctx, i64 ", number, ", i64 ", is_end ? 1 : 0, ")");
    ir_.Branch(after);
    ir_.Begin(after);
  }

  // Loop metadata on the backedge of a loop of known trip count: one of little code is unrolled by
  // two, so that what one iteration leaves need not be moved to where the next expects it.
  std::string UnrollHint(const program::WhileStep& loop) {
    if (!region_ || loop.trip_count.value_or(0) < kManyIterations ||
        CodeOf(program_, loop, kLittleCode) >= kLittleCode) {
      return "";
    }
    std::string twice = metadata_.Add("!{!\"llvm.loop.unroll.count\", i32 2}");
    return StrCat(", !llvm.loop ", metadata_.AddLoop(", ", twice));
  }

  // An iteration that is known to come: the condition becomes an assumption about the state.
  void RenderIteration(const Step& step) {
    const auto& loop = std::get<program::WhileStep>(step.op);
    KeepLoadsInLoop(loop);
    RenderSteps(loop.condition);
    std::string value = ir_.Def("load i8, ptr ", Address(step.uses[0]), ", align 1");
    ir_.Line("call void @llvm.assume(i1 ", ir_.Def("icmp ne i8 ", value, ", 0"), ")");
    RenderSteps(loop.body);
  }

  // A loop of known trip count, strip-mined: polls are between the strips. What is left are two
  // countable loops with one exit each, which LLVM understands; the condition becomes an assumption
  // about the state.
  void RenderBlocks(const Step& step, int64_t block) {
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

  // The same where the trip count is known when the loop begins.
  void RenderCounted(const Step& step) {
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

  std::string NewCounter(const std::string& label) {
    std::string counter = StrCat("%", label, ".count");
    StrAppend(entry_, "  ", counter, " = alloca i64, align 8\n");
    ir_.Line("store i64 0, ptr ", counter, ", align 8");
    return counter;
  }
  // One more; whether that is the last.
  std::string CountsTo(const std::string& counter, const std::string& end) {
    std::string old = ir_.Def("load i64, ptr ", counter, ", align 8");
    std::string next = ir_.Def("add nuw nsw i64 ", old, ", 1");
    ir_.Line("store i64 ", next, ", ptr ", counter, ", align 8");
    return ir_.Def("icmp eq i64 ", next, ", ", end);
  }

  // Loop-invariant loads from memory that outlives the loop, in registers.
  int64_t InvariantLoads(const program::WhileStep& loop) const {
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

  // LICM would hoist invariant loads. More of them than there are registers it would spill to the
  // stack, to load them from there: a memory barrier keeps them in the loop.
  void KeepLoadsInLoop(const program::WhileStep& loop) {
    if (!region_ || InvariantLoads(loop) <= kManyRegisters) return;
    ir_.Line("call void asm sideeffect \"\", \"~{memory}\"() nounwind willreturn");
  }

  void RenderWhile(const Step& step) {
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

  // Iterations are counted up beside a counter of the program, which LLVM makes one of the two, and
  // down where there is none.
  void PollCancel(const std::string& counter = "", bool up = true, int64_t every = 1) {
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

  void RenderStep(const Step& step, const program::ConditionalStep& op) {
    std::string after = ir_.NewLabel();
    std::vector<std::string> labels;
    for (size_t i = 0; i < op.branches.size(); ++i) labels.push_back(ir_.NewLabel());
    std::string address = Address(step.uses[0]);
    if (step.uses[0].slice.size == 1) {
      std::string value = ir_.Def("load i8, ptr ", address, ", align 1");
      std::string yes = ir_.Def("icmp ne i8 ", value, ", 0");
      ir_.Branch(yes, labels[0], labels.size() > 1 ? labels[1] : after);
    } else {
      std::string value = ir_.Def("load i32, ptr ", address, ", align 4");
      std::string cases;
      for (size_t i = 0; i + 1 < labels.size(); ++i) {
        StrAppend(cases, " i32 ", i, ", label %", labels[i]);
      }
      ir_.Line("switch i32 ", value, ", label %", labels.back(), " [", cases, " ]");
    }
    for (size_t i = 0; i < labels.size(); ++i) {
      ir_.Begin(labels[i]);
      RenderSteps(op.branches[i]);
      ir_.Branch(after);
    }
    ir_.Begin(after);
  }

  const Program& program_;
  const Plan& plan_;
  const Region* region_;
  std::set<int32_t>& inlined_;
  IrMetadata& metadata_;
  std::string_view attributes_;
  IrBody ir_;
  std::string entry_;
};

// By kernel of regions: recurrence depths of what its parameters hold, the deepest of all launches.
std::map<int32_t, std::vector<int64_t>> DepthsOf(const Plan& plan) {
  std::map<int32_t, std::vector<int64_t>> depths;
  auto note = [&](const Step& step) {
    auto* launch = std::get_if<program::KernelStep>(&step.op);
    if (!launch) return;
    std::vector<int64_t>& most = depths[plan.same_as[launch->kernel]];
    most.resize(step.uses.size());
    for (size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], step.uses[i].depth);
  };
  for (const Region& region : plan.regions) {
    const auto& loop = std::get<program::WhileStep>(region.loop->op);
    ForEachStep(loop.condition, note);
    ForEachStep(loop.body, note);
  }
  return depths;
}

// The constants that regions hold.
void RenderConstants(const Program& program, const Plan& plan, std::string& out) {
  std::set<BufferId> constants;
  for (const Region& region : plan.regions) {
    constants.insert(region.constants.begin(), region.constants.end());
  }
  for (BufferId id : constants) {
    const program::Buffer& buffer = program.buffers[id];
    std::vector<std::byte> bytes = program::ConstantBytes(buffer);
    StrAppend(out, "@constant_", id, " = private unnamed_addr constant [", bytes.size(),
              " x i8] c\"");
    for (std::byte b : bytes) {
      constexpr std::string_view kDigits = "0123456789ABCDEF";
      out += '\\';
      out += kDigits[static_cast<size_t>(b) >> 4];
      out += kDigits[static_cast<size_t>(b) & 15];
    }
    StrAppend(out, "\", align 64\n");
  }
}

}  // namespace

RenderedModule RenderMain(const Program& program, const Plan& plan, const RenderTarget& target,
                          const std::vector<int32_t>& kernels, bool only_regions) {
  RenderedModule module;
  module.name = "main";
  // Passes for loops look at each loop from all those around it.
  constexpr int kDeepLoops = program::WorkBounds::kPath / 2;
  module.loops = !plan.regions.empty() && LoopDepth(program.steps) <= kDeepLoops;
  module.integers = true;
  module.kernels = static_cast<int64_t>(kernels.size());
  IrMetadata metadata;
  metadata.Add("!{}");                                        // !0: of invariant loads
  metadata.Add("!{!\"branch_weights\", i32 1, i32 100000}");  // !1: of cold paths
  std::set<int32_t> inlined;
  RenderConstants(program, plan, module.text);
  bool narrow = KeepsAvx512Frequency(program, plan, target);
  for (const Region& region : plan.regions) {
    FunctionRenderer(program, plan, &region, inlined, metadata, narrow ? "#4" : "#0")
        .Render(module.text);
  }
  if (only_regions) {
    for (const Region& region : plan.regions) {
      FunctionRenderer(program, plan, nullptr, inlined, metadata)
          .RenderEntry(*region.loop, module.text);
    }
  } else {
    FunctionRenderer(program, plan, nullptr, inlined, metadata).Render(module.text);
  }
  std::map<int32_t, std::vector<int64_t>> depths = DepthsOf(plan);
  for (int32_t k : inlined) {
    const program::Kernel& kernel = program.kernels[k];
    std::string name = StrCat("inline_", k);
    AppendComment(module.text, kernel.name);
    RenderKernel(kernel, {name, "internal", narrow ? "#5" : "#1", false, false, false, depths[k]},
                 target, metadata, module.text);
  }
  RenderLaunched(program, plan, target, kernels, metadata, module.text);
  StrAppend(module.text, kModuleTail, metadata.text());
  return module;
}

}  // namespace weft::cpu
