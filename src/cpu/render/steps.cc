#include "cpu/render/steps.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <span>

#include "cpu/render/critical_path.h"
#include "cpu/render/function_context.h"
#include "cpu/render/kernel.h"
#include "program/cost.h"
#include "program/interpret.h"
#include "program/work_bounds.h"

namespace weft::cpu {

using program::BufferId;
using program::Program;
using program::Step;

namespace {

// Fills of as many elements are written out.
constexpr int64_t kUnrolledFill = program::CodeBounds::kWrittenOut / 2;

}  // namespace

void RenderEntry(FunctionContext& cx, const Step& loop, std::string& out) {
  RenderStep(cx, loop, std::get<program::WhileStep>(loop.op));
  cx.ir.Line("ret i32 0");
  StrAppend(out, "define i32 @", RegionName(cx.plan.region_numbers.at(&loop)),
            "(ptr %ctx, ptr %buffers) #0 {\nentry:\n", cx.entry, cx.ir.text(), "}\n");
}

void RenderFunction(FunctionContext& cx, std::string& out) {
  if (cx.region) {
    BeginRegion(cx);
    for (const Step* step : cx.region->prologue) {
      std::visit([&](const auto& op) { RenderStep(cx, *step, op); }, step->op);
    }
    RenderWhile(cx, *cx.region->loop);
    EndRegion(cx);
  } else {
    RenderSteps(cx, *cx.steps);
  }
  cx.ir.Line("ret i32 0");
  StrAppend(out, "define ", Signature(cx), " ", cx.attributes, " {\nentry:\n", cx.entry,
            cx.ir.text(), "}\n");
}

void CopyBytes(FunctionContext& cx, const std::string& to, const std::string& from, int64_t bytes) {
  cx.ir.Line("call void @llvm.memcpy.p0.p0.i64(ptr ", to, ", ptr ", from, ", i64 ", bytes,
             ", i1 false)");
}

std::string Offset(FunctionContext& cx, const std::string& pointer, int64_t bytes) {
  if (bytes == 0) return pointer;
  return cx.ir.Def("getelementptr inbounds i8, ptr ", pointer, ", i64 ", bytes);
}

void RenderSteps(FunctionContext& cx, const std::vector<Step>& steps) {
  for (const Step& step : steps) {
    bool block = HasLists(step) && !IsAsyncList(step);
    if (cx.region || block) {
      std::visit([&](const auto& op) { RenderStep(cx, step, op); }, step.op);
    } else if (auto found = cx.plan.sequence_numbers.find(&step);
               found != cx.plan.sequence_numbers.end()) {
      RenderSequence(cx, found->second);
    }
  }
}

void RenderStep(FunctionContext& cx, const Step& step, const program::KernelStep& op) {
  int32_t number = cx.plan.same_as[op.kernel];
  int64_t grid = GridSize(cx.program.kernels[number]);
  if (grid == 0) return;
  cx.inlined.insert(number);
  std::string arguments;
  for (const program::Use& use : step.uses) StrAppend(arguments, "ptr ", Address(cx, use), ", ");
  cx.ir.Line("call void @inline_", number, "(", arguments, "i64 0, i64 ", grid, ")");
}

void RenderSequence(FunctionContext& cx, int32_t number) {
  std::string sequence = cx.ir.Def("load ptr, ptr %ctx, align 8, !invariant.load !0");
  ReturnUnlessZero(cx,
                   cx.ir.Def("call i32 ", sequence, "(ptr %ctx, i64 ", number, ", ptr %buffers)"));
}

void RenderStep(FunctionContext& cx, const Step& step, const program::CopyStep&) {
  int64_t bytes = step.uses[0].slice.size;
  if (bytes == 0) return;
  std::string from = Address(cx, step.uses[0]), to = Address(cx, step.uses[1]);
  CopyBytes(cx, to, from, bytes);
}

void RenderStep(FunctionContext& cx, const Step& step, const program::FillStep& op) {
  int64_t bytes = step.uses[0].slice.size;
  if (bytes == 0) return;
  std::string to = Address(cx, step.uses[0]);
  bool same = std::all_of(op.pattern.begin(), op.pattern.end(),
                          [&](std::byte b) { return b == op.pattern[0]; });
  if (same) {
    cx.ir.Line("call void @llvm.memset.p0.i64(ptr ", to, ", i8 ", static_cast<int>(op.pattern[0]),
               ", i64 ", bytes, ", i1 false)");
    return;
  }
  FillWith(cx, to, op.pattern, bytes);
}

void FillWith(FunctionContext& cx, const std::string& to, const std::vector<std::byte>& pattern,
              int64_t bytes) {
  int64_t width = static_cast<int64_t>(pattern.size()), count = bytes / width;
  std::string type = StrCat("<", width, " x i8>"), value;
  for (std::byte b : pattern) {
    StrAppend(value, value.empty() ? "<i8 " : ", i8 ", static_cast<int>(b));
  }
  value += ">";
  if (count <= kUnrolledFill) {
    for (int64_t i = 0; i < count; ++i) {
      cx.ir.Line("store ", type, " ", value, ", ptr ", Offset(cx, to, i * width), ", align 1");
    }
    return;
  }
  std::string body = cx.ir.NewLabel(), after = cx.ir.NewLabel(), before = cx.ir.block();
  cx.ir.Branch(body);
  cx.ir.Begin(body);
  std::string i = StrCat("%", body, ".i"), next = StrCat("%", body, ".next");
  cx.ir.Line(i, " = phi i64 [0, %", before, "], [", next, ", %", body, "]");
  std::string at = cx.ir.Def("getelementptr inbounds i8, ptr ", to, ", i64 ", i);
  cx.ir.Line("store ", type, " ", value, ", ptr ", at, ", align 1");
  cx.ir.Line(next, " = add nuw nsw i64 ", i, ", ", width);
  std::string again = cx.ir.Def("icmp ne i64 ", next, ", ", bytes);
  cx.ir.Branch(again, body, after);
  cx.ir.Begin(after);
}

void ReturnUnlessZero(FunctionContext& cx, const std::string& code) {
  std::string bad = cx.ir.NewLabel(), good = cx.ir.NewLabel();
  std::string fine = cx.ir.Def("icmp eq i32 ", code, ", 0");
  cx.ir.Branch(fine, good, bad);
  cx.ir.Begin(bad);
  cx.ir.Line("ret i32 ", code);
  cx.ir.Begin(good);
}

void RenderStep(FunctionContext& cx, const Step& step, const program::WhileStep&) {
  auto found = cx.plan.region_numbers.find(&step);
  if (cx.region || found == cx.plan.region_numbers.end()) return RenderWhile(cx, step);
  const Region& region = cx.plan.regions[found->second];
  std::string arguments;
  bool shares = SharesArena(cx, region);
  if (shares) {
    std::string arena = cx.ir.Def("load ptr, ptr %buffers, align 8, !invariant.load !0");
    StrAppend(arguments, ", ptr ", arena);
  }
  for (BufferId id : region.pointers) {
    if (!shares || !InArena(cx, id)) StrAppend(arguments, ", ptr ", TableEntry(cx, id));
  }
  bool looks_up = LooksUp(region);
  if (looks_up) StrAppend(arguments, ", ptr %buffers");
  for (const program::RegionLocal& local : region.locals) {
    if (looks_up || !(local.copy_in || local.copy_out)) continue;
    StrAppend(arguments, ", ptr ", TableEntry(cx, local.buffer));
  }
  // For crash reports (base/doing.h).
  std::string running = Offset(cx, "%ctx", offsetof(NativeContext, region));
  cx.ir.Line("store i32 ", found->second, ", ptr ", running, ", align 4");
  NoteRegion(cx, found->second, false);
  std::string code = cx.ir.Def("call i32 @region_", found->second, "(ptr %ctx", arguments, ")");
  NoteRegion(cx, found->second, true);
  cx.ir.Line("store i32 -1, ptr ", running, ", align 4");
  ReturnUnlessZero(cx, code);
}

void NoteRegion(FunctionContext& cx, int32_t number, bool is_end) {
  std::string tell = cx.ir.NewLabel(), after = cx.ir.NewLabel();
  std::string at = Offset(cx, "%ctx", offsetof(NativeContext, note_region));
  std::string function = cx.ir.Def("load ptr, ptr ", at, ", align 8, !invariant.load !0");
  std::string nobody = cx.ir.Def("icmp eq ptr ", function, ", null");
  cx.ir.Branch(nobody, after, tell);
  cx.ir.Begin(tell);
  cx.ir.Line("call void ", function, "(ptr %ctx, i64 ", number, ", i64 ", is_end ? 1 : 0, ")");
  cx.ir.Branch(after);
  cx.ir.Begin(after);
}

void RenderStep(FunctionContext& cx, const Step& step, const program::ConditionalStep& op) {
  std::string after = cx.ir.NewLabel();
  std::vector<std::string> labels;
  for (size_t i = 0; i < op.branches.size(); ++i) labels.push_back(cx.ir.NewLabel());
  std::string address = Address(cx, step.uses[0]);
  if (step.uses[0].slice.size == 1) {
    std::string value = cx.ir.Def("load i8, ptr ", address, ", align 1");
    std::string yes = cx.ir.Def("icmp ne i8 ", value, ", 0");
    cx.ir.Branch(yes, labels[0], labels.size() > 1 ? labels[1] : after);
  } else {
    std::string value = cx.ir.Def("load i32, ptr ", address, ", align 4");
    std::string cases;
    for (size_t i = 0; i + 1 < labels.size(); ++i) {
      StrAppend(cases, " i32 ", i, ", label %", labels[i]);
    }
    cx.ir.Line("switch i32 ", value, ", label %", labels.back(), " [", cases, " ]");
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    cx.ir.Begin(labels[i]);
    RenderSteps(cx, op.branches[i]);
    cx.ir.Branch(after);
  }
  cx.ir.Begin(after);
}

void RenderStep(FunctionContext& cx, const Step&, const program::ListStep& op) {
  RenderSteps(cx, op.steps);
}

namespace {

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
    FunctionContext cx(program, plan, &region, inlined, metadata, narrow ? "#4" : "#0");
    RenderFunction(cx, module.text);
  }
  if (only_regions) {
    for (const Region& region : plan.regions) {
      FunctionContext cx(program, plan, nullptr, inlined, metadata);
      RenderEntry(cx, *region.loop, module.text);
    }
  } else {
    FunctionContext cx(program, plan, nullptr, inlined, metadata);
    RenderFunction(cx, module.text);
    for (size_t i = 0; i < plan.lists.size(); ++i) {
      FunctionContext list(program, plan, nullptr, inlined, metadata);
      list.steps = &std::get<program::ListStep>(plan.lists[i].step->op).steps;
      list.name = ListName(static_cast<int32_t>(i));
      RenderFunction(list, module.text);
    }
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
