// Control flow of a kernel as LLVM IR: branches, guards and slow paths, loops, unrolled loops and
// the grid of a parallel nest.
#include <algorithm>
#include <cstdlib>

#include "base/check.h"
#include "cpu/render/kernel_context.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::cpu {
namespace {

using program::Branch;
using program::Instr;
using program::LoopKind;
using program::Op;
using program::Type;
using program::ValueId;

// An `unroll` loop is written out when that makes no more instructions than this.
constexpr int64_t kMaxUnrolled = program::TargetFacts::kDecodedOps;

}  // namespace

std::string Likely(KernelContext& cx) {
  if (cx.likely.empty()) cx.likely = cx.metadata.Add("!{!\"branch_weights\", i32 1000, i32 1}");
  return StrCat(", !prof ", cx.likely);
}

std::string Unlikely(KernelContext& cx) {
  if (cx.unlikely.empty()) cx.unlikely = cx.metadata.Add("!{!\"branch_weights\", i32 1, i32 1000}");
  return StrCat(", !prof ", cx.unlikely);
}

std::string Weights(KernelContext& cx, Branch branch) {
  if (branch == Branch::kEven) return "";
  return branch == Branch::kUnlikely ? Unlikely(cx) : Likely(cx);
}

std::map<ValueId, std::string> BlockSpeculation(KernelContext& cx, size_t begin, size_t end) {
  std::map<ValueId, std::string> before;
  for (size_t pc = begin; pc <= end; ++pc) {
    for (ValueId id : cx.kernel.code[pc].args) {
      int32_t made = cx.access.DefinedAt(id);
      Type type = cx.kernel.type(id);
      bool inside = made >= static_cast<int32_t>(begin) && made < static_cast<int32_t>(end);
      if (made < 0 || inside || type.lanes != 1 || !IsInteger(type.dtype)) continue;
      if (NameOf(cx, id).empty()) continue;  // part of a sum, which has other numbers
      if (!before.insert({id, NameOf(cx, id)}).second) continue;
      cx.names[id] = cx.ir.Def("call ", IrType(type), " asm sideeffect \"\", \"=r,0\"(",
                               Typed(cx, id), ") nounwind willreturn memory(none)");
    }
  }
  if (before.empty()) cx.ir.Line("call void asm sideeffect \"\", \"\"() nounwind willreturn");
  return before;
}

const Instr* LoadBehind(const KernelContext& cx, size_t pc) {
  size_t end = cx.blocks.end_at[pc];
  if (cx.kernel.code[end].results.size() != 1 || end + 1 == cx.kernel.code.size()) return nullptr;
  const Instr& load = cx.kernel.code[end + 1];
  ValueId place = cx.kernel.code[end].results[0];
  if (load.op != Op::kLoad || load.args[0] != place || load.type.lanes != 1 ||
      AccessRenderer::HasMask(load)) {
    return nullptr;
  }
  int64_t uses = 0;
  for (const Instr& instr : cx.kernel.code) {
    uses += std::count(instr.args.begin(), instr.args.end(), place);
  }
  return uses == 1 ? &load : nullptr;
}

size_t RenderGuard(KernelContext& cx, size_t pc) {
  size_t other = cx.blocks.else_at[pc], end = cx.blocks.end_at[pc];
  std::string likely = cx.ir.NewLabel(), unlikely = cx.ir.NewLabel(), after = cx.ir.NewLabel();
  const Instr* load = LoadBehind(cx, pc);
  const InlineVec<ValueId, 2>& results = load ? load->results : cx.kernel.code[end].results;
  // What a block gives.
  auto given = [&](const InlineVec<ValueId, 4>& args, std::string_view how) {
    std::vector<std::string> names;
    if (load) cx.names[load->args[0]] = NameOf(cx, args[0]);
    if (load) return std::vector<std::string>{cx.access.Load(*load, how)};
    for (ValueId id : args) names.push_back(NameOf(cx, id));
    return names;
  };
  cx.ir.Branch(NameOf(cx, cx.kernel.code[pc].args[0]), likely, unlikely, Likely(cx));
  cx.ir.Begin(likely);
  RenderBlock(cx, pc + 1, other);
  std::string likely_end = cx.ir.block();
  std::vector<std::string> chosen = given(cx.kernel.code[other].args, "");
  cx.ir.Branch(after);
  cx.ir.Begin(unlikely);
  std::map<ValueId, std::string> renamed = BlockSpeculation(cx, other + 1, end);
  RenderBlock(cx, other + 1, end);
  std::string last = cx.ir.block();
  // LLVM would make one load of two that are alike.
  std::vector<std::string> otherwise = given(cx.kernel.code[end].args, "volatile ");
  for (auto& [id, name] : renamed) cx.names[id] = std::move(name);
  cx.ir.Branch(after);
  cx.ir.Begin(after);
  for (size_t i = 0; i < results.size(); ++i) {
    cx.names[results[i]] = cx.ir.Def("phi ", IrType(cx.kernel.type(results[i])), " [", chosen[i],
                                     ", %", likely_end, "], [", otherwise[i], ", %", last, "]");
  }
  return load ? end + 1 : end;
}

void RenderIf(KernelContext& cx, size_t pc) {
  const Instr& instr = cx.kernel.code[pc];
  const Instr& end = cx.kernel.code[cx.blocks.end_at[pc]];
  bool has_else = cx.blocks.else_at[pc] != 0;
  std::string yes = cx.ir.NewLabel(), no = has_else ? cx.ir.NewLabel() : "",
              after = cx.ir.NewLabel();
  std::optional<SlowPath> slow_path;
  if (has_else && instr.branch == Branch::kUnlikely) {
    slow_path = FindSlowPath(cx.kernel, pc, cx.blocks.else_at[pc]);
  }
  cx.ir.Branch(NameOf(cx, instr.args[0]), yes, has_else ? no : after, Weights(cx, instr.branch));
  cx.ir.Begin(yes);
  if (slow_path) {
    cx.slow_path_calls.Render(cx.kernel, *slow_path, cx.target, cx.metadata, cx.ir, cx.names);
  } else {
    RenderBlock(cx, pc + 1, has_else ? cx.blocks.else_at[pc] : cx.blocks.end_at[pc]);
  }
  std::string yes_end = cx.ir.block();
  std::vector<std::string> chosen;
  if (has_else) {
    for (ValueId id : cx.kernel.code[cx.blocks.else_at[pc]].args) chosen.push_back(NameOf(cx, id));
  }
  cx.ir.Branch(after);
  if (!has_else) {
    cx.ir.Begin(after);
    return;
  }
  cx.ir.Begin(no);
  RenderBlock(cx, cx.blocks.else_at[pc] + 1, cx.blocks.end_at[pc]);
  std::string no_end = cx.ir.block();
  cx.ir.Branch(after);
  cx.ir.Begin(after);
  for (size_t i = 0; i < end.results.size(); ++i) {
    cx.names[end.results[i]] =
        cx.ir.Def("phi ", IrType(cx.kernel.type(end.results[i])), " [", chosen[i], ", %", yes_end,
                  "], [", NameOf(cx, end.args[i]), ", %", no_end, "]");
  }
}

void RenderLoop(KernelContext& cx, size_t pc) {
  const Instr& loop = cx.kernel.code[pc];
  std::optional<int64_t> trips = TripCount(cx.kernel, loop);
  if (loop.loop == LoopKind::kParallel) return RenderGrid(cx, pc);
  if (loop.loop == LoopKind::kThread) {
    cx.access.threads().push_back({"", cx.kernel.value(loop.args[0]).AsInt(),
                                   cx.kernel.value(loop.args[2]).AsInt(), *trips, loop.type});
  }
  int64_t size = static_cast<int64_t>(cx.blocks.end_at[pc] - pc);
  bool unrolled = trips && (*trips <= 1 || (loop.loop == LoopKind::kUnroll &&
                                            *trips <= kMaxUnrolled / size / cx.copies));
  if (unrolled) {
    RenderUnrolled(cx, pc, *trips);
  } else {
    RenderRealLoop(cx, pc, trips);
  }
  if (loop.loop == LoopKind::kThread) cx.access.threads().pop_back();
}

void SetCounter(KernelContext& cx, const Instr& loop, std::string name) {
  if (loop.loop == LoopKind::kThread) cx.access.threads().back().counter = name;
  cx.names[loop.results[0]] = std::move(name);
}

void RenderUnrolled(KernelContext& cx, size_t pc, int64_t trips) {
  const Instr& loop = cx.kernel.code[pc];
  const Instr& end = cx.kernel.code[cx.blocks.end_at[pc]];
  std::vector<std::string> carried;
  for (size_t i = 3; i < loop.args.size(); ++i) carried.push_back(NameOf(cx, loop.args[i]));
  int64_t begin = cx.kernel.value(loop.args[0]).AsInt(),
          step = cx.kernel.value(loop.args[2]).AsInt();
  cx.copies *= std::max<int64_t>(trips, 1);
  for (int64_t n = 0; n < trips; ++n) {
    SetCounter(cx, loop, StrCat(begin + n * step));
    for (size_t i = 0; i < carried.size(); ++i) cx.names[loop.results[i + 1]] = carried[i];
    RenderBlock(cx, pc + 1, cx.blocks.end_at[pc]);
    for (size_t i = 0; i < carried.size(); ++i) carried[i] = NameOf(cx, end.args[i]);
  }
  cx.copies /= std::max<int64_t>(trips, 1);
  for (size_t i = 0; i < carried.size(); ++i) cx.names[end.results[i]] = carried[i];
}

std::string LoopMetadata(KernelContext& cx, LoopKind kind) {
  if (kind == LoopKind::kVector) {
    cx.access.group() = cx.metadata.Add("distinct !{}");
    std::string accesses =
        cx.metadata.Add("!{!\"llvm.loop.parallel_accesses\", ", cx.access.group(), "}");
    std::string hint = cx.metadata.Add("!{!\"llvm.loop.vectorize.enable\", i1 true}");
    return StrCat(", !llvm.loop ", cx.metadata.AddLoop(", ", accesses, ", ", hint));
  }
  if (kind == LoopKind::kUnroll) {
    std::string hint = cx.metadata.Add("!{!\"llvm.loop.unroll.enable\"}");
    return StrCat(", !llvm.loop ", cx.metadata.AddLoop(", ", hint));
  }
  return "";
}

std::optional<int64_t> MostOf(const KernelContext& cx, ValueId id, int depth) {
  constexpr int64_t kLarge = int64_t{1} << 31;
  const program::Value& value = cx.kernel.value(id);
  if (value.type.dtype != DType::kS64 || value.type.lanes != 1) return std::nullopt;
  if (value.is_constant) {
    int64_t number = value.AsInt();
    return number < kLarge && number > -kLarge ? std::optional(std::abs(number)) : std::nullopt;
  }
  const Instr* made = cx.access.Definition(id);
  constexpr int kDeep = program::WorkBounds::kTree;  // operations behind each other
  if (made == nullptr || depth == kDeep) return std::nullopt;
  bool counts = made->op == Op::kLoop && made->results[0] == id;
  if (!counts && made->op != Op::kAdd && made->op != Op::kMul) return std::nullopt;
  std::optional<int64_t> a = MostOf(cx, made->args[0], depth + 1);
  std::optional<int64_t> b = MostOf(cx, made->args[1], depth + 1);
  if (!a || !b) return std::nullopt;
  int64_t most = counts ? std::max(*a, *b) : made->op == Op::kAdd ? *a + *b : *a * *b;
  return most < kLarge ? std::optional(most) : std::nullopt;
}

bool AlwaysRuns(const KernelContext& cx, const Instr& loop) {
  const Instr* limit = cx.access.Definition(loop.args[1]);
  if (limit == nullptr || limit->op != Op::kAdd || limit->args[0] != loop.args[0]) return false;
  const program::Value& length = cx.kernel.value(limit->args[1]);
  return length.is_constant && length.AsInt() > 0 && MostOf(cx, loop.args[1]);
}

void RenderRealLoop(KernelContext& cx, size_t pc, std::optional<int64_t> trips) {
  const Instr& loop = cx.kernel.code[pc];
  const Instr& end = cx.kernel.code[cx.blocks.end_at[pc]];
  std::string type = IrType(loop.type), body = cx.ir.NewLabel(), after = cx.ir.NewLabel();
  const std::string& first = NameOf(cx, loop.args[0]);
  const std::string& limit = NameOf(cx, loop.args[1]);
  bool runs = trips || AlwaysRuns(cx, loop);
  if (runs) {
    cx.ir.Branch(body);
  } else {
    std::string some = cx.ir.Def("icmp slt ", type, " ", first, ", ", limit);
    cx.ir.Branch(some, body, after);
  }
  std::string before = cx.ir.block();
  cx.ir.Begin(body);
  // The phis name what the end of the body will define: names of their own, fixed now.
  std::string id = StrCat("l", cx.next_loop++);
  std::string from_body = StrCat("%", id, ".end");
  cx.ir.Line("%", id, ".i = phi ", type, " [", first, ", %", before, "], [%", id, ".next, ",
             from_body, "]");
  SetCounter(cx, loop, StrCat("%", id, ".i"));
  std::vector<std::string> initial;
  for (size_t i = 3; i < loop.args.size(); ++i) {
    initial.push_back(NameOf(cx, loop.args[i]));
    std::string name = StrCat("%", id, ".c", i - 3);
    cx.names[loop.results[i - 2]] = name;
  }
  // Carried values: the value at the end of the body is known after it, so the line is put in
  // then.
  size_t at = cx.ir.text().size();
  std::string outer_group = cx.access.group();
  std::string tail = LoopMetadata(cx, loop.loop);
  RenderBlock(cx, pc + 1, cx.blocks.end_at[pc]);
  if (loop.loop == LoopKind::kVector) cx.access.group() = outer_group;
  std::string lines;
  for (size_t i = 0; i < initial.size(); ++i) {
    StrAppend(lines, "  %", id, ".c", i, " = phi ", IrType(cx.kernel.type(end.args[i])), " [",
              initial[i], ", %", before, "], [", NameOf(cx, end.args[i]), ", ", from_body, "]\n");
  }
  cx.ir.text().insert(at, lines);
  std::string last = StrCat(id, ".end");
  cx.ir.Branch(last);
  cx.ir.Begin(last);
  std::string again = RenderStep(cx, loop, trips, id);
  cx.ir.Branch(again, body, after, tail);
  cx.ir.Begin(after);
  for (size_t i = 0; i < initial.size(); ++i) {
    std::string result = NameOf(cx, end.args[i]);
    if (!runs) {
      result = cx.ir.Def("phi ", IrType(cx.kernel.type(end.args[i])), " [", initial[i], ", %",
                         before, "], [", result, ", %", last, "]");
    }
    cx.names[end.results[i]] = result;
  }
}

std::string RenderStep(KernelContext& cx, const Instr& loop, std::optional<int64_t> trips,
                       const std::string& id) {
  std::string type = IrType(loop.type);
  const std::string& limit = NameOf(cx, loop.args[1]);
  int64_t step = cx.kernel.value(loop.args[2]).AsInt();
  if (trips) {
    int64_t begin = cx.kernel.value(loop.args[0]).AsInt(), stop;
    bool fits = !__builtin_mul_overflow(*trips, step, &stop) &&
                !__builtin_add_overflow(stop, begin, &stop) &&
                program::FitsInteger(stop, loop.type.dtype);
    cx.ir.Line("%", id, ".next = add ", fits ? "nsw " : "", type, " %", id, ".i, ", step);
    if (fits) return cx.ir.Def("icmp ne ", type, " %", id, ".next, ", stop);
  } else {
    cx.ir.Line("%", id, ".next = add ", step == 1 ? "nsw " : "", type, " %", id, ".i, ", step);
    if (step == 1) return cx.ir.Def("icmp slt ", type, " %", id, ".next, ", limit);
  }
  std::string left = cx.ir.Def("sub ", type, " ", limit, ", %", id, ".i");
  return cx.ir.Def("icmp ugt ", type, " ", left, ", ", step);
}

void RenderGrid(KernelContext& cx, size_t pc) {
  if (cx.grid.empty()) {
    cx.grid = Extents(cx.kernel).grid;
    int64_t size = 1;
    for (int64_t n : cx.grid) size *= n;
    std::string body = cx.ir.NewLabel(), after = cx.ir.NewLabel(), before = cx.ir.block();
    std::string some = cx.ir.Def("icmp slt i64 %begin, %end");
    cx.ir.Branch(some, body, after);
    cx.ir.Begin(body);
    cx.ir.Line("%grid.i = phi i64 [%begin, %", before, "], [%grid.next, %grid.end]");
    RenderGridLevel(cx, pc, size);
    cx.ir.Branch("grid.end");
    cx.ir.Begin("grid.end");
    cx.ir.Line("%grid.next = add nuw nsw i64 %grid.i, 1");
    std::string again = cx.ir.Def("icmp slt i64 %grid.next, %end");
    cx.ir.Branch(again, body, after);
    cx.ir.Begin(after);
    return;
  }
  int64_t below = 1;
  for (size_t i = cx.grid_level; i < cx.grid.size(); ++i) below *= cx.grid[i];
  RenderGridLevel(cx, pc, below);
}

void RenderGridLevel(KernelContext& cx, size_t pc, int64_t size) {
  const Instr& loop = cx.kernel.code[pc];
  int64_t trips = cx.grid[cx.grid_level++];
  int64_t inner = trips == 0 ? 1 : size / std::max<int64_t>(trips, 1);
  std::string number = "%grid.i";
  if (inner > 1) number = cx.ir.Def("udiv i64 ", number, ", ", inner);
  if (cx.grid_level > 1 && trips > 0) number = cx.ir.Def("urem i64 ", number, ", ", trips);
  int64_t begin = cx.kernel.value(loop.args[0]).AsInt(),
          step = cx.kernel.value(loop.args[2]).AsInt();
  if (step != 1) number = cx.ir.Def("mul nuw nsw i64 ", number, ", ", step);
  if (begin != 0) number = cx.ir.Def("add nsw i64 ", number, ", ", begin);
  if (loop.type.dtype == DType::kS32) number = cx.ir.Def("trunc i64 ", number, " to i32");
  cx.names[loop.results[0]] = number;
  RenderBlock(cx, pc + 1, cx.blocks.end_at[pc]);
}

}  // namespace weft::cpu
