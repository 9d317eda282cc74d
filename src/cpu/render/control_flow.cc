// Control flow of a kernel as LLVM IR: branches, guards and slow paths, loops, unrolled loops and
// the grid of a parallel nest.
#include <algorithm>
#include <cstdlib>

#include "base/check.h"
#include "cpu/render/kernel_renderer.h"
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

std::string KernelRenderer::Likely() {
  if (likely_.empty()) likely_ = metadata_.Add("!{!\"branch_weights\", i32 1000, i32 1}");
  return StrCat(", !prof ", likely_);
}

std::string KernelRenderer::Unlikely() {
  if (unlikely_.empty()) unlikely_ = metadata_.Add("!{!\"branch_weights\", i32 1, i32 1000}");
  return StrCat(", !prof ", unlikely_);
}

std::string KernelRenderer::Weights(Branch branch) {
  if (branch == Branch::kEven) return "";
  return branch == Branch::kUnlikely ? Unlikely() : Likely();
}

std::map<ValueId, std::string> KernelRenderer::BlockSpeculation(size_t begin, size_t end) {
  std::map<ValueId, std::string> before;
  for (size_t pc = begin; pc <= end; ++pc) {
    for (ValueId id : kernel_.code[pc].args) {
      int32_t made = access_.DefinedAt(id);
      Type type = kernel_.type(id);
      bool inside = made >= static_cast<int32_t>(begin) && made < static_cast<int32_t>(end);
      if (made < 0 || inside || type.lanes != 1 || !IsInteger(type.dtype)) continue;
      if (NameOf(id).empty()) continue;  // part of a sum, which has other numbers
      if (!before.insert({id, NameOf(id)}).second) continue;
      names_[id] = ir_.Def("call ", IrType(type), " asm sideeffect \"\", \"=r,0\"(", Typed(id),
                           ") nounwind willreturn memory(none)");
    }
  }
  if (before.empty()) ir_.Line("call void asm sideeffect \"\", \"\"() nounwind willreturn");
  return before;
}

const Instr* KernelRenderer::LoadBehind(size_t pc) const {
  size_t end = blocks_.end_at[pc];
  if (kernel_.code[end].results.size() != 1 || end + 1 == kernel_.code.size()) return nullptr;
  const Instr& load = kernel_.code[end + 1];
  ValueId place = kernel_.code[end].results[0];
  if (load.op != Op::kLoad || load.args[0] != place || load.type.lanes != 1 ||
      AccessRenderer::HasMask(load)) {
    return nullptr;
  }
  int64_t uses = 0;
  for (const Instr& instr : kernel_.code) {
    uses += std::count(instr.args.begin(), instr.args.end(), place);
  }
  return uses == 1 ? &load : nullptr;
}

size_t KernelRenderer::RenderGuard(size_t pc) {
  size_t other = blocks_.else_at[pc], end = blocks_.end_at[pc];
  std::string likely = ir_.NewLabel(), unlikely = ir_.NewLabel(), after = ir_.NewLabel();
  const Instr* load = LoadBehind(pc);
  const InlineVec<ValueId, 2>& results = load ? load->results : kernel_.code[end].results;
  // What a block gives.
  auto given = [&](const InlineVec<ValueId, 4>& args, std::string_view how) {
    std::vector<std::string> names;
    if (load) names_[load->args[0]] = NameOf(args[0]);
    if (load) return std::vector<std::string>{access_.Load(*load, how)};
    for (ValueId id : args) names.push_back(NameOf(id));
    return names;
  };
  ir_.Branch(NameOf(kernel_.code[pc].args[0]), likely, unlikely, Likely());
  ir_.Begin(likely);
  RenderBlock(pc + 1, other);
  std::string likely_end = ir_.block();
  std::vector<std::string> chosen = given(kernel_.code[other].args, "");
  ir_.Branch(after);
  ir_.Begin(unlikely);
  std::map<ValueId, std::string> renamed = BlockSpeculation(other + 1, end);
  RenderBlock(other + 1, end);
  std::string last = ir_.block();
  // LLVM would make one load of two that are alike.
  std::vector<std::string> otherwise = given(kernel_.code[end].args, "volatile ");
  for (auto& [id, name] : renamed) names_[id] = std::move(name);
  ir_.Branch(after);
  ir_.Begin(after);
  for (size_t i = 0; i < results.size(); ++i) {
    names_[results[i]] = ir_.Def("phi ", IrType(kernel_.type(results[i])), " [", chosen[i], ", %",
                                 likely_end, "], [", otherwise[i], ", %", last, "]");
  }
  return load ? end + 1 : end;
}

void KernelRenderer::RenderIf(size_t pc) {
  const Instr& instr = kernel_.code[pc];
  const Instr& end = kernel_.code[blocks_.end_at[pc]];
  bool has_else = blocks_.else_at[pc] != 0;
  std::string yes = ir_.NewLabel(), no = has_else ? ir_.NewLabel() : "", after = ir_.NewLabel();
  std::optional<SlowPath> slow_path;
  if (has_else && instr.branch == Branch::kUnlikely) {
    slow_path = FindSlowPath(kernel_, pc, blocks_.else_at[pc]);
  }
  ir_.Branch(NameOf(instr.args[0]), yes, has_else ? no : after, Weights(instr.branch));
  ir_.Begin(yes);
  if (slow_path) {
    slow_path_calls_.Render(kernel_, *slow_path, target_, metadata_, ir_, names_);
  } else {
    RenderBlock(pc + 1, has_else ? blocks_.else_at[pc] : blocks_.end_at[pc]);
  }
  std::string yes_end = ir_.block();
  std::vector<std::string> chosen;
  if (has_else) {
    for (ValueId id : kernel_.code[blocks_.else_at[pc]].args) chosen.push_back(NameOf(id));
  }
  ir_.Branch(after);
  if (!has_else) {
    ir_.Begin(after);
    return;
  }
  ir_.Begin(no);
  RenderBlock(blocks_.else_at[pc] + 1, blocks_.end_at[pc]);
  std::string no_end = ir_.block();
  ir_.Branch(after);
  ir_.Begin(after);
  for (size_t i = 0; i < end.results.size(); ++i) {
    names_[end.results[i]] =
        ir_.Def("phi ", IrType(kernel_.type(end.results[i])), " [", chosen[i], ", %", yes_end,
                "], [", NameOf(end.args[i]), ", %", no_end, "]");
  }
}

void KernelRenderer::RenderLoop(size_t pc) {
  const Instr& loop = kernel_.code[pc];
  std::optional<int64_t> trips = TripCount(kernel_, loop);
  if (loop.loop == LoopKind::kParallel) return RenderGrid(pc);
  if (loop.loop == LoopKind::kThread) {
    access_.threads().push_back({"", kernel_.value(loop.args[0]).AsInt(),
                                 kernel_.value(loop.args[2]).AsInt(), *trips, loop.type});
  }
  int64_t size = static_cast<int64_t>(blocks_.end_at[pc] - pc);
  bool unrolled =
      trips &&
      (*trips <= 1 || (loop.loop == LoopKind::kUnroll && *trips <= kMaxUnrolled / size / copies_));
  if (unrolled) {
    RenderUnrolled(pc, *trips);
  } else {
    RenderRealLoop(pc, trips);
  }
  if (loop.loop == LoopKind::kThread) access_.threads().pop_back();
}

void KernelRenderer::SetCounter(const Instr& loop, std::string name) {
  if (loop.loop == LoopKind::kThread) access_.threads().back().counter = name;
  names_[loop.results[0]] = std::move(name);
}

void KernelRenderer::RenderUnrolled(size_t pc, int64_t trips) {
  const Instr& loop = kernel_.code[pc];
  const Instr& end = kernel_.code[blocks_.end_at[pc]];
  std::vector<std::string> carried;
  for (size_t i = 3; i < loop.args.size(); ++i) carried.push_back(NameOf(loop.args[i]));
  int64_t begin = kernel_.value(loop.args[0]).AsInt(), step = kernel_.value(loop.args[2]).AsInt();
  copies_ *= std::max<int64_t>(trips, 1);
  for (int64_t n = 0; n < trips; ++n) {
    SetCounter(loop, StrCat(begin + n * step));
    for (size_t i = 0; i < carried.size(); ++i) names_[loop.results[i + 1]] = carried[i];
    RenderBlock(pc + 1, blocks_.end_at[pc]);
    for (size_t i = 0; i < carried.size(); ++i) carried[i] = NameOf(end.args[i]);
  }
  copies_ /= std::max<int64_t>(trips, 1);
  for (size_t i = 0; i < carried.size(); ++i) names_[end.results[i]] = carried[i];
}

std::string KernelRenderer::LoopMetadata(LoopKind kind) {
  if (kind == LoopKind::kVector) {
    access_.group() = metadata_.Add("distinct !{}");
    std::string accesses =
        metadata_.Add("!{!\"llvm.loop.parallel_accesses\", ", access_.group(), "}");
    std::string wish = metadata_.Add("!{!\"llvm.loop.vectorize.enable\", i1 true}");
    return StrCat(", !llvm.loop ", metadata_.AddLoop(", ", accesses, ", ", wish));
  }
  if (kind == LoopKind::kUnroll) {
    std::string wish = metadata_.Add("!{!\"llvm.loop.unroll.enable\"}");
    return StrCat(", !llvm.loop ", metadata_.AddLoop(", ", wish));
  }
  return "";
}

std::optional<int64_t> KernelRenderer::MostOf(ValueId id, int depth) const {
  constexpr int64_t kLarge = int64_t{1} << 31;
  const program::Value& value = kernel_.value(id);
  if (value.type.dtype != DType::kS64 || value.type.lanes != 1) return std::nullopt;
  if (value.is_constant) {
    int64_t number = value.AsInt();
    return number < kLarge && number > -kLarge ? std::optional(std::abs(number)) : std::nullopt;
  }
  const Instr* made = access_.Definition(id);
  constexpr int kDeep = program::WorkBounds::kTree;  // operations behind each other
  if (made == nullptr || depth == kDeep) return std::nullopt;
  bool counts = made->op == Op::kLoop && made->results[0] == id;
  if (!counts && made->op != Op::kAdd && made->op != Op::kMul) return std::nullopt;
  std::optional<int64_t> a = MostOf(made->args[0], depth + 1);
  std::optional<int64_t> b = MostOf(made->args[1], depth + 1);
  if (!a || !b) return std::nullopt;
  int64_t most = counts ? std::max(*a, *b) : made->op == Op::kAdd ? *a + *b : *a * *b;
  return most < kLarge ? std::optional(most) : std::nullopt;
}

bool KernelRenderer::AlwaysRuns(const Instr& loop) const {
  const Instr* limit = access_.Definition(loop.args[1]);
  if (limit == nullptr || limit->op != Op::kAdd || limit->args[0] != loop.args[0]) return false;
  const program::Value& length = kernel_.value(limit->args[1]);
  return length.is_constant && length.AsInt() > 0 && MostOf(loop.args[1]);
}

void KernelRenderer::RenderRealLoop(size_t pc, std::optional<int64_t> trips) {
  const Instr& loop = kernel_.code[pc];
  const Instr& end = kernel_.code[blocks_.end_at[pc]];
  std::string type = IrType(loop.type), body = ir_.NewLabel(), after = ir_.NewLabel();
  const std::string& first = NameOf(loop.args[0]);
  const std::string& limit = NameOf(loop.args[1]);
  bool runs = trips || AlwaysRuns(loop);
  if (runs) {
    ir_.Branch(body);
  } else {
    std::string some = ir_.Def("icmp slt ", type, " ", first, ", ", limit);
    ir_.Branch(some, body, after);
  }
  std::string before = ir_.block();
  ir_.Begin(body);
  // The phis name what the end of the body will define: names of their own, fixed now.
  std::string id = StrCat("l", next_loop_++);
  std::string from_body = StrCat("%", id, ".end");
  ir_.Line("%", id, ".i = phi ", type, " [", first, ", %", before, "], [%", id, ".next, ",
           from_body, "]");
  SetCounter(loop, StrCat("%", id, ".i"));
  std::vector<std::string> initial;
  for (size_t i = 3; i < loop.args.size(); ++i) {
    initial.push_back(NameOf(loop.args[i]));
    std::string name = StrCat("%", id, ".c", i - 3);
    names_[loop.results[i - 2]] = name;
  }
  // Carried values: the value at the end of the body is known after it, so the line is put in
  // then.
  size_t at = ir_.text().size();
  std::string outer_group = access_.group();
  std::string tail = LoopMetadata(loop.loop);
  RenderBlock(pc + 1, blocks_.end_at[pc]);
  if (loop.loop == LoopKind::kVector) access_.group() = outer_group;
  std::string lines;
  for (size_t i = 0; i < initial.size(); ++i) {
    StrAppend(lines, "  %", id, ".c", i, " = phi ", IrType(kernel_.type(end.args[i])), " [",
              initial[i], ", %", before, "], [", NameOf(end.args[i]), ", ", from_body, "]\n");
  }
  ir_.text().insert(at, lines);
  std::string last = StrCat(id, ".end");
  ir_.Branch(last);
  ir_.Begin(last);
  std::string again = RenderStep(loop, trips, id);
  ir_.Branch(again, body, after, tail);
  ir_.Begin(after);
  for (size_t i = 0; i < initial.size(); ++i) {
    std::string result = NameOf(end.args[i]);
    if (!runs) {
      result = ir_.Def("phi ", IrType(kernel_.type(end.args[i])), " [", initial[i], ", %", before,
                       "], [", result, ", %", last, "]");
    }
    names_[end.results[i]] = result;
  }
}

std::string KernelRenderer::RenderStep(const Instr& loop, std::optional<int64_t> trips,
                                       const std::string& id) {
  std::string type = IrType(loop.type);
  const std::string& limit = NameOf(loop.args[1]);
  int64_t step = kernel_.value(loop.args[2]).AsInt();
  if (trips) {
    int64_t begin = kernel_.value(loop.args[0]).AsInt(), stop;
    bool fits = !__builtin_mul_overflow(*trips, step, &stop) &&
                !__builtin_add_overflow(stop, begin, &stop) &&
                program::FitsInteger(stop, loop.type.dtype);
    ir_.Line("%", id, ".next = add ", fits ? "nsw " : "", type, " %", id, ".i, ", step);
    if (fits) return ir_.Def("icmp ne ", type, " %", id, ".next, ", stop);
  } else {
    ir_.Line("%", id, ".next = add ", step == 1 ? "nsw " : "", type, " %", id, ".i, ", step);
    if (step == 1) return ir_.Def("icmp slt ", type, " %", id, ".next, ", limit);
  }
  std::string left = ir_.Def("sub ", type, " ", limit, ", %", id, ".i");
  return ir_.Def("icmp ugt ", type, " ", left, ", ", step);
}

void KernelRenderer::RenderGrid(size_t pc) {
  if (grid_.empty()) {
    grid_ = Extents(kernel_).grid;
    int64_t size = 1;
    for (int64_t n : grid_) size *= n;
    std::string body = ir_.NewLabel(), after = ir_.NewLabel(), before = ir_.block();
    std::string some = ir_.Def("icmp slt i64 %begin, %end");
    ir_.Branch(some, body, after);
    ir_.Begin(body);
    ir_.Line("%grid.i = phi i64 [%begin, %", before, "], [%grid.next, %grid.end]");
    RenderGridLevel(pc, size);
    ir_.Branch("grid.end");
    ir_.Begin("grid.end");
    ir_.Line("%grid.next = add nuw nsw i64 %grid.i, 1");
    std::string again = ir_.Def("icmp slt i64 %grid.next, %end");
    ir_.Branch(again, body, after);
    ir_.Begin(after);
    return;
  }
  int64_t below = 1;
  for (size_t i = grid_level_; i < grid_.size(); ++i) below *= grid_[i];
  RenderGridLevel(pc, below);
}

void KernelRenderer::RenderGridLevel(size_t pc, int64_t size) {
  const Instr& loop = kernel_.code[pc];
  int64_t trips = grid_[grid_level_++];
  int64_t inner = trips == 0 ? 1 : size / std::max<int64_t>(trips, 1);
  std::string number = "%grid.i";
  if (inner > 1) number = ir_.Def("udiv i64 ", number, ", ", inner);
  if (grid_level_ > 1 && trips > 0) number = ir_.Def("urem i64 ", number, ", ", trips);
  int64_t begin = kernel_.value(loop.args[0]).AsInt(), step = kernel_.value(loop.args[2]).AsInt();
  if (step != 1) number = ir_.Def("mul nuw nsw i64 ", number, ", ", step);
  if (begin != 0) number = ir_.Def("add nsw i64 ", number, ", ", begin);
  if (loop.type.dtype == DType::kS32) number = ir_.Def("trunc i64 ", number, " to i32");
  names_[loop.results[0]] = number;
  RenderBlock(pc + 1, blocks_.end_at[pc]);
}

}  // namespace weft::cpu
