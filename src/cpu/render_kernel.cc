#include "cpu/render_kernel.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <vector>

#include "base/check.h"
#include "cpu/index_sums.h"
#include "cpu/lateness.h"
#include "cpu/rare.h"
#include "cpu/render_ops.h"
#include "cpu/render_scopes.h"
#include "cpu/repeats.h"

namespace weft::cpu {
namespace {

using program::Instr;
using program::Kernel;
using program::LoopKind;
using program::Memory;
using program::Op;
using program::Type;
using program::ValueId;

// Larger arrays are allocated, not on the stack: a thread has 8 MB.
constexpr int64_t kMaxStackBytes = 256 << 10;
// An `unroll` loop is written out when that makes no more instructions than this.
constexpr int64_t kMaxUnrolled = 4096;

class KernelRenderer {
 public:
  KernelRenderer(const Kernel& kernel, const RenderTarget& target, IrMetadata& metadata)
      : kernel_(kernel), target_(target), metadata_(metadata) {}

  void Render(const KernelText& how, std::string& out) {
    blocks_ = MatchBlocks(kernel_);
    NameConstants();
    defined_.assign(kernel_.values.size(), -1);
    for (size_t i = 0; i < kernel_.code.size(); ++i) {
      for (ValueId id : kernel_.code[i].results) {
        defined_[static_cast<size_t>(id)] = static_cast<int32_t>(i);
      }
    }
    if (how.share) PlaceRepeats();
    if (how.indices) PlaceIndices();
    if (how.task) scopes_ = AccessScopes(kernel_, metadata_);
    in_round_ = !how.lateness.empty();
    if (in_round_) {
      early_ = EarlyProducts(kernel_, how.lateness);
      shorter_ = ShorterForms(kernel_, how.lateness);
    }
    threads_in_all_ = Extents(kernel_).threads;
    RenderBlock(0, kernel_.code.size());
    for (const std::string& array : allocated_) ir_.Line("call void @free(ptr ", array, ")");
    ir_.Line("ret void");
    StrAppend(out, "define ", how.task ? "" : how.linkage, " void @", how.name, "(");
    if (how.task) StrAppend(out, "ptr %parameters, ");
    for (int32_t i = 0; i < kernel_.num_params; ++i) {
      if (how.task) {
        LoadParam(i);
      } else {
        AppendParam(i, out);
      }
    }
    StrAppend(out, "i64 %begin, i64 %end) ", how.attributes, " {\nentry:\n", entry_,
              rare_calls_.entry(), ir_.text(), "}\n");
  }

 private:
  struct ThreadLoop {
    std::string counter;
    int64_t begin, step, trips;
    Type type;
  };

  void AppendParam(int32_t i, std::string& out) const {
    const Memory& m = kernel_.memories[i];
    StrAppend(out, "ptr noalias nocapture ");
    if (!Writes(m.access)) StrAppend(out, "readonly ");
    if (!Reads(m.access)) StrAppend(out, "writeonly ");
    int64_t width = ByteWidth(m.dtype);
    StrAppend(out, "align ", std::max(m.align, width), " ");
    if (m.count > 0) StrAppend(out, "dereferenceable(", m.count * width, ") ");
    StrAppend(out, "%p", i, ", ");
  }

  void LoadParam(int32_t i) {
    StrAppend(entry_, "  %a", i, " = getelementptr inbounds ptr, ptr %parameters, i64 ", i,
              "\n  %p", i, " = load ptr, ptr %a", i, ", align 8\n");
  }

  void NameConstants() {
    names_.resize(kernel_.values.size());
    for (size_t i = 0; i < kernel_.values.size(); ++i) {
      if (kernel_.values[i].is_constant) names_[i] = IrConstant(kernel_.values[i]);
    }
  }

  const std::string& NameOf(ValueId id) const { return names_[id]; }
  std::string Typed(ValueId id) const { return StrCat(IrType(kernel_.type(id)), " ", names_[id]); }

  void RenderBlock(size_t begin, size_t end) {
    for (size_t pc = begin; pc < end; ++pc) {
      const Instr& instr = kernel_.code[pc];
      if (!repeat_at_.empty() && repeat_at_[pc] >= 0) {
        const Repeat& repeat = repeats_[repeat_at_[pc]];
        RenderCall(repeat);
        pc = repeat.end - 1;
        continue;
      }
      switch (instr.op) {
        case Op::kLoop:
          RenderLoop(pc);
          pc = blocks_.end_at[pc];
          break;
        case Op::kIf:
          if (IsForUsual(pc)) {
            pc = RenderUsual(pc);
            break;
          }
          RenderIf(pc);
          pc = blocks_.end_at[pc];
          break;
        case Op::kArray: DeclareArray(instr.memory); break;
        case Op::kLoad: names_[instr.results[0]] = RenderLoad(instr); break;
        case Op::kStore: RenderStore(instr); break;
        default:
          if (indices_.Takes(instr)) {
            indices_.Add(instr, ir_, names_);
          } else if (auto form = shorter_.find(pc); form != shorter_.end()) {
            RenderShorter(instr, form->second);
          } else {
            RenderCompute(instr);
          }
      }
    }
  }

  Operand OperandOf(ValueId id) const {
    const program::Value& value = kernel_.value(id);
    return {NameOf(id), value.type, value.is_constant ? &value : nullptr};
  }

  void RenderShorter(const Instr& whole, const ShorterForm& form) {
    Instr instr = whole;
    instr.nowrap = false;  // of other operands
    std::vector<Operand> early = {OperandOf(form.first), OperandOf(form.second)};
    Operand joined{RenderOp(ir_, instr, early, target_), instr.type, nullptr};
    std::vector<Operand> both = {joined, OperandOf(form.late)};
    names_[instr.results[0]] = RenderOp(ir_, instr, both, target_);
  }

  void RenderCompute(const Instr& instr) {
    if (!early_.empty() && early_[static_cast<size_t>(instr.results[0])]) {
      names_[instr.results[0]] = ir_.Def("fmul ", IrType(instr.type), " ", NameOf(instr.args[0]),
                                         ", ", NameOf(instr.args[1]));
      return;
    }
    operands_.clear();
    for (ValueId id : instr.args) operands_.push_back(OperandOf(id));
    names_[instr.results[0]] = GuardsDivisor(instr) ? RenderGuardedDivision(instr)
                                                    : RenderOp(ir_, instr, operands_, target_);
  }

  // A divisor that no machine divides by is seldom met: where the next round of a loop waits for
  // the quotient, a jump that is foreseen leaves nothing to do before the division.
  bool GuardsDivisor(const Instr& instr) const {
    bool divides = instr.op == Op::kDiv || instr.op == Op::kRem;
    return in_round_ && divides && !IsFloat(instr.type.dtype) && instr.type.lanes == 1 &&
           !operands_[1].constant && !target_.arm_division;
  }
  std::string RenderGuardedDivision(const Instr& instr) {
    const std::string &a = operands_[0].text, &b = operands_[1].text, type = IrType(instr.type);
    bool is_signed = IsSigned(instr.type.dtype);
    std::string seldom = ir_.NewLabel(), often = ir_.NewLabel(), after = ir_.NewLabel();
    std::string special = ir_.Def("icmp eq ", type, " ", b, ", 0");
    if (is_signed) {
      std::string minus = ir_.Def("icmp eq ", type, " ", b, ", -1");
      special = ir_.Def("or i1 ", special, ", ", minus);
    }
    ir_.Branch(special, seldom, often, Unlikely());
    ir_.Begin(seldom);
    std::string total = RenderOp(ir_, instr, operands_, target_);
    ir_.Branch(after);
    ir_.Begin(often);
    std::string_view op = instr.op == Op::kRem ? "rem " : "div ";
    std::string plain = ir_.Def(is_signed ? "s" : "u", op, type, " ", a, ", ", b);
    ir_.Branch(after);
    ir_.Begin(after);
    return ir_.Def("phi ", type, " [", total, ", %", seldom, "], [", plain, ", %", often, "]");
  }

  void PlaceRepeats() {
    repeats_ = FindRepeats(kernel_);
    if (repeats_.empty()) return;
    repeat_at_.resize(kernel_.code.size(), -1);
    functions_.resize(kernel_.code.size());
    for (size_t i = 0; i < repeats_.size(); ++i) {
      repeat_at_[repeats_[i].begin] = static_cast<int32_t>(i);
    }
  }

  void PlaceIndices() {
    indices_ = IndexSums(kernel_);
    for (const Repeat& repeat : repeats_) {
      for (ValueId id : repeat.inputs) indices_.KeepApart(id);
      for (ValueId id : repeat.outputs) indices_.KeepApart(id);
    }
  }

  // What a stretch computes, as one type.
  std::string ResultType(const Repeat& repeat) const {
    std::string types;
    for (ValueId id : repeat.outputs) {
      StrAppend(types, types.empty() ? "" : ", ", IrType(kernel_.type(id)));
    }
    return repeat.outputs.size() == 1 ? types : StrCat("{ ", types, " }");
  }

  std::string FunctionOf(const Repeat& repeat) {
    KernelRenderer inside(kernel_, target_, metadata_);
    inside.NameConstants();
    std::string parameters;
    for (size_t i = 0; i < repeat.inputs.size(); ++i) {
      inside.names_[repeat.inputs[i]] = StrCat("%a", i);
      StrAppend(parameters, i == 0 ? "" : ", ", inside.Typed(repeat.inputs[i]));
    }
    inside.RenderBlock(repeat.begin, repeat.end);
    std::string type = ResultType(repeat), result = inside.NameOf(repeat.outputs[0]);
    if (repeat.outputs.size() > 1) {
      result = "poison";
      for (size_t i = 0; i < repeat.outputs.size(); ++i) {
        result = inside.ir_.Def("insertvalue ", type, " ", result, ", ",
                                inside.Typed(repeat.outputs[i]), ", ", i);
      }
    }
    inside.ir_.Line("ret ", type, " ", result);
    return metadata_.AddFunction(type,
                                 StrCat("(", parameters, ") #2 {\n", inside.ir_.text(), "}\n"));
  }

  void RenderCall(const Repeat& repeat) {
    std::string& function = functions_[repeat.first];
    if (function.empty()) function = FunctionOf(repeat);
    std::string arguments, type = ResultType(repeat);
    for (ValueId id : repeat.inputs) {
      StrAppend(arguments, arguments.empty() ? "" : ", ", Typed(id));
    }
    std::string result = ir_.Def("call ", type, " ", function, "(", arguments, ")");
    if (repeat.outputs.size() == 1) {
      names_[repeat.outputs[0]] = result;
      return;
    }
    for (size_t i = 0; i < repeat.outputs.size(); ++i) {
      names_[repeat.outputs[i]] = ir_.Def("extractvalue ", type, " ", result, ", ", i);
    }
  }

  // Of two blocks the compiler puts the one that it expects first.
  std::string Likely() {
    if (likely_.empty()) likely_ = metadata_.Add("!{!\"branch_weights\", i32 1000, i32 1}");
    return StrCat(", !prof ", likely_);
  }
  std::string Unlikely() {
    if (unlikely_.empty()) unlikely_ = metadata_.Add("!{!\"branch_weights\", i32 1, i32 1000}");
    return StrCat(", !prof ", unlikely_);
  }

  // Of an `if` whose first block is empty the second one is seldom met.
  bool IsForUsual(size_t pc) const {
    return blocks_.else_at[pc] == pc + 1 && blocks_.end_at[pc] > pc + 2;
  }

  // In the block that is seldom met: its little code would be computed always, to be chosen or not,
  // or before a loop that it is part of, but for what comes out of something that cannot be. The
  // numbers it begins with do, under other names; returns the old ones.
  std::map<ValueId, std::string> KeepApart(size_t begin, size_t end) {
    std::map<ValueId, std::string> before;
    for (size_t pc = begin; pc <= end; ++pc) {
      for (ValueId id : kernel_.code[pc].args) {
        int32_t made = defined_[static_cast<size_t>(id)];
        Type type = kernel_.type(id);
        bool inside = made >= static_cast<int32_t>(begin) && made < static_cast<int32_t>(end);
        if (made < 0 || inside || type.lanes != 1 || !IsInteger(type.dtype)) continue;
        if (!before.insert({id, NameOf(id)}).second) continue;
        names_[id] = ir_.Def("call ", IrType(type), " asm sideeffect \"\", \"=r,0\"(", Typed(id),
                             ") nounwind willreturn memory(none)");
      }
    }
    if (before.empty()) ir_.Line("call void asm sideeffect \"\", \"\"() nounwind willreturn");
    return before;
  }

  // The load that follows at once, if it is all that the number which the `if` gives is for.
  const Instr* LoadBehind(size_t pc) const {
    size_t end = blocks_.end_at[pc];
    if (kernel_.code[end].results.size() != 1 || end + 1 == kernel_.code.size()) return nullptr;
    const Instr& load = kernel_.code[end + 1];
    ValueId place = kernel_.code[end].results[0];
    if (load.op != Op::kLoad || load.args[0] != place || load.type.lanes != 1 || HasMask(load)) {
      return nullptr;
    }
    int64_t uses = 0;
    for (const Instr& instr : kernel_.code) {
      uses += std::count(instr.args.begin(), instr.args.end(), place);
    }
    return uses == 1 ? &load : nullptr;
  }

  // Returns the last instruction of what it rendered. What is loaded from the place that the two
  // blocks give is loaded in both, so that the usual one has nothing to move.
  size_t RenderUsual(size_t pc) {
    size_t other = blocks_.else_at[pc], end = blocks_.end_at[pc];
    std::string usual = ir_.NewLabel(), seldom = ir_.NewLabel(), after = ir_.NewLabel();
    const Instr* load = LoadBehind(pc);
    const InlineVec<ValueId, 2>& results = load ? load->results : kernel_.code[end].results;
    // What a block gives.
    auto given = [&](const InlineVec<ValueId, 4>& args, std::string_view how) {
      std::vector<std::string> names;
      if (load) names_[load->args[0]] = NameOf(args[0]);
      if (load) return std::vector<std::string>{RenderLoad(*load, how)};
      for (ValueId id : args) names.push_back(NameOf(id));
      return names;
    };
    ir_.Branch(NameOf(kernel_.code[pc].args[0]), usual, seldom, Likely());
    ir_.Begin(usual);
    std::vector<std::string> chosen = given(kernel_.code[other].args, "");
    ir_.Branch(after);
    ir_.Begin(seldom);
    std::map<ValueId, std::string> renamed = KeepApart(other + 1, end);
    RenderBlock(other + 1, end);
    std::string last = ir_.block();
    // LLVM would make one load of two that are alike.
    std::vector<std::string> otherwise = given(kernel_.code[end].args, "volatile ");
    for (auto& [id, name] : renamed) names_[id] = std::move(name);
    ir_.Branch(after);
    ir_.Begin(after);
    for (size_t i = 0; i < results.size(); ++i) {
      names_[results[i]] = ir_.Def("phi ", IrType(kernel_.type(results[i])), " [", chosen[i], ", %",
                                   usual, "], [", otherwise[i], ", %", last, "]");
    }
    return load ? end + 1 : end;
  }

  void RenderIf(size_t pc) {
    const Instr& instr = kernel_.code[pc];
    const Instr& end = kernel_.code[blocks_.end_at[pc]];
    bool has_else = blocks_.else_at[pc] != 0;
    std::string yes = ir_.NewLabel(), no = has_else ? ir_.NewLabel() : "", after = ir_.NewLabel();
    std::optional<RarePart> rare;
    if (has_else) rare = FindRarePart(kernel_, pc, blocks_.else_at[pc]);
    ir_.Branch(NameOf(instr.args[0]), yes, has_else ? no : after,
               rare       ? Unlikely()
               : has_else ? Likely()
                          : "");
    ir_.Begin(yes);
    if (rare) {
      rare_calls_.Render(kernel_, *rare, target_, metadata_, ir_, names_);
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

  void RenderLoop(size_t pc) {
    const Instr& loop = kernel_.code[pc];
    std::optional<int64_t> trips = TripCount(kernel_, loop);
    if (loop.loop == LoopKind::kParallel) return RenderGrid(pc);
    if (loop.loop == LoopKind::kThread) {
      threads_.push_back({"", kernel_.value(loop.args[0]).AsInt(),
                          kernel_.value(loop.args[2]).AsInt(), *trips, loop.type});
    }
    int64_t size = static_cast<int64_t>(blocks_.end_at[pc] - pc);
    bool written_out = trips && (*trips <= 1 || (loop.loop == LoopKind::kUnroll &&
                                                 *trips <= kMaxUnrolled / size / copies_));
    if (written_out) {
      RenderWrittenOut(pc, *trips);
    } else {
      RenderRealLoop(pc, trips);
    }
    if (loop.loop == LoopKind::kThread) threads_.pop_back();
  }

  void SetCounter(const Instr& loop, std::string name) {
    if (loop.loop == LoopKind::kThread) threads_.back().counter = name;
    names_[loop.results[0]] = std::move(name);
  }

  void RenderWrittenOut(size_t pc, int64_t trips) {
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

  std::string LoopMetadata(LoopKind kind) {
    if (kind == LoopKind::kVector) {
      access_group_ = metadata_.Add("distinct !{}");
      std::string accesses =
          metadata_.Add("!{!\"llvm.loop.parallel_accesses\", ", access_group_, "}");
      std::string wish = metadata_.Add("!{!\"llvm.loop.vectorize.enable\", i1 true}");
      return StrCat(", !llvm.loop ", metadata_.AddLoop(", ", accesses, ", ", wish));
    }
    if (kind == LoopKind::kUnroll) {
      std::string wish = metadata_.Add("!{!\"llvm.loop.unroll.enable\"}");
      return StrCat(", !llvm.loop ", metadata_.AddLoop(", ", wish));
    }
    return "";
  }

  // What no sum or product of counters is larger than, or less than its negative; none if there are
  // many of them.
  std::optional<int64_t> MostOf(ValueId id, int depth = 0) const {
    constexpr int64_t kLarge = int64_t{1} << 31;
    const program::Value& value = kernel_.value(id);
    if (value.type.dtype != DType::kS64 || value.type.lanes != 1) return std::nullopt;
    if (value.is_constant) {
      int64_t number = value.AsInt();
      return number < kLarge && number > -kLarge ? std::optional(std::abs(number)) : std::nullopt;
    }
    const Instr* made = Definition(id);
    constexpr int kDeep = 6;
    if (made == nullptr || depth == kDeep) return std::nullopt;
    bool counts = made->op == Op::kLoop && made->results[0] == id;
    if (!counts && made->op != Op::kAdd && made->op != Op::kMul) return std::nullopt;
    std::optional<int64_t> a = MostOf(made->args[0], depth + 1);
    std::optional<int64_t> b = MostOf(made->args[1], depth + 1);
    if (!a || !b) return std::nullopt;
    int64_t most = counts ? std::max(*a, *b) : made->op == Op::kAdd ? *a + *b : *a * *b;
    return most < kLarge ? std::optional(most) : std::nullopt;
  }

  // It ends some numbers after it begins, as chunks of the same size do.
  bool AlwaysRuns(const Instr& loop) const {
    const Instr* limit = Definition(loop.args[1]);
    if (limit == nullptr || limit->op != Op::kAdd || limit->args[0] != loop.args[0]) return false;
    const program::Value& length = kernel_.value(limit->args[1]);
    return length.is_constant && length.AsInt() > 0 && MostOf(loop.args[1]);
  }

  // Tested at the end, with a test before it where it may not run at all.
  void RenderRealLoop(size_t pc, std::optional<int64_t> trips) {
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
    std::string outer_group = access_group_;
    std::string tail = LoopMetadata(loop.loop);
    RenderBlock(pc + 1, blocks_.end_at[pc]);
    if (loop.loop == LoopKind::kVector) access_group_ = outer_group;
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

  // The next counter and whether there is one more iteration, without overflow.
  std::string RenderStep(const Instr& loop, std::optional<int64_t> trips, const std::string& id) {
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

  // The parallel nest as one loop over the range, its counters from the number of the iteration.
  void RenderGrid(size_t pc) {
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

  // `size`: iterations of this loop and those inside.
  void RenderGridLevel(size_t pc, int64_t size) {
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

  void DeclareArray(int32_t memory) {
    const Memory& m = kernel_.memories[memory];
    if (arrays_.size() < kernel_.memories.size()) arrays_.resize(kernel_.memories.size());
    if (arrays_[memory]) return;  // in a loop that is written out
    arrays_[memory] = true;
    int64_t count = m.count * (m.per_thread ? threads_in_all_ : 1);
    int64_t width = ByteWidth(m.dtype), bytes = count * width;
    int64_t align = std::max({m.align, width, int64_t{bytes >= 64 ? 64 : 1}});
    if (stack_bytes_ + bytes <= kMaxStackBytes) {
      stack_bytes_ += bytes;
      StrAppend(entry_, "  %p", memory, " = alloca [", count, " x ", StorageType(m.dtype),
                "], align ", align, "\n");
      return;
    }
    StrAppend(entry_, "  %p", memory, " = call noalias ptr @aligned_alloc(i64 ", align, ", i64 ",
              (bytes + align - 1) / align * align, ")\n");
    allocated_.push_back(StrCat("%p", memory));
  }

  // The number of the thread, through the nested thread loops, as i64.
  std::string ThreadNumber() {
    std::string number;
    for (const ThreadLoop& loop : threads_) {
      std::string counter = loop.counter;
      if (loop.type.dtype == DType::kS32) counter = ir_.Def("sext i32 ", counter, " to i64");
      if (loop.begin != 0) counter = ir_.Def("sub i64 ", counter, ", ", loop.begin);
      if (loop.step != 1) counter = ir_.Def("sdiv exact i64 ", counter, ", ", loop.step);
      if (!number.empty()) {
        number = ir_.Def("mul i64 ", number, ", ", loop.trips);
        counter = ir_.Def("add i64 ", number, ", ", counter);
      }
      number = counter;
    }
    return number;
  }

  // The address, or a vector of them.
  std::string BaseOf(const Memory& m, int32_t number) {
    std::string base = StrCat("%p", number);
    if (!m.per_thread) return base;
    std::string offset = ir_.Def("mul i64 ", ThreadNumber(), ", ", m.count);
    return ir_.Def("getelementptr inbounds ", StorageType(m.dtype), ", ptr ", base, ", i64 ",
                   offset);
  }

  std::string Address(const Instr& instr) {
    if (indices_.HasAddress(instr)) {
      return indices_.Address(instr, StrCat("%p", instr.memory), ir_, names_);
    }
    const Memory& m = kernel_.memories[instr.memory];
    Type type = kernel_.type(instr.args[0]);
    std::string index = NameOf(instr.args[0]);
    std::string wide = IrVector("i64", type.lanes);
    if (BitWidth(type.dtype) < 64) {
      index =
          ir_.Def(IsSigned(type.dtype) ? "sext " : "zext ", IrType(type), " ", index, " to ", wide);
    }
    std::string base = BaseOf(m, instr.memory);
    // A lane that is masked off may have any index.
    std::string_view inbounds = HasMask(instr) ? "" : "inbounds ";
    return ir_.Def("getelementptr ", inbounds, StorageType(m.dtype), ", ptr ", base, ", ", wide,
                   " ", index);
  }

  static bool HasMask(const Instr& instr) {
    return instr.args.size() > (instr.op == Op::kLoad ? 1u : 2u);
  }
  // What masked intrinsics take: vectors, also of one lane.
  std::string MaskOf(const Instr& instr) {
    int lanes = instr.type.lanes;
    std::string type = StrCat("<", lanes, " x i1>");
    if (!HasMask(instr)) return StrCat(type, " splat (i1 true)");
    std::string mask = NameOf(instr.args.back());
    if (lanes == 1) mask = ir_.Def("insertelement <1 x i1> poison, i1 ", mask, ", i64 0");
    return StrCat(type, " ", mask);
  }
  int64_t AlignOf(const Instr& instr) const {
    int64_t width = ByteWidth(kernel_.memories[instr.memory].dtype);
    return std::max<int64_t>(instr.align, width);
  }
  // What is known of an access.
  std::string Facts(const Instr& instr) const {
    std::string text(scopes_.Of(instr));
    if (!access_group_.empty()) StrAppend(text, ", !llvm.access.group ", access_group_);
    return text;
  }

  // A vector of indices at an even distance from each other: first + distance * lane.
  struct Spaced {
    ValueId first;
    int64_t distance;
  };
  const Instr* Definition(ValueId id) const {
    int32_t at = defined_[static_cast<size_t>(id)];
    return at < 0 ? nullptr : &kernel_.code[static_cast<size_t>(at)];
  }
  std::optional<Spaced> FindSpaced(ValueId id) const {
    const Instr* sum = Definition(id);
    if (sum == nullptr || sum->op != Op::kAdd) return std::nullopt;
    for (int k = 0; k < 2; ++k) {
      const Instr *first = Definition(sum->args[k]), *rest = Definition(sum->args[1 - k]);
      if (first == nullptr || rest == nullptr || first->op != Op::kSplat) continue;
      if (kernel_.value(first->args[0]).is_constant) continue;
      int64_t distance = 1;
      if (rest->op == Op::kMul && kernel_.value(rest->args[1]).is_constant) {
        distance = kernel_.value(rest->args[1]).AsInt();
        rest = Definition(rest->args[0]);
      }
      if (rest != nullptr && rest->op == Op::kIota) return Spaced{first->args[0], distance};
    }
    return std::nullopt;
  }

  // Of what indices are made of: products and sums of what is not negative, and do not wrap around
  // where the index does not.
  bool IsNeverNegative(ValueId id) const {
    const program::Value& value = kernel_.value(id);
    if (value.is_constant) return value.AsInt() >= 0;
    const Instr* made = Definition(id);
    if (made == nullptr) return false;
    switch (made->op) {
      case Op::kMax: return IsNeverNegative(made->args[0]) || IsNeverNegative(made->args[1]);
      case Op::kMin:
      case Op::kMul: return IsNeverNegative(made->args[0]) && IsNeverNegative(made->args[1]);
      case Op::kCast: return IsUnsigned(kernel_.type(made->args[0]).dtype);
      default: return false;
    }
  }

  // The lanes of a vector of indices, none of them negative, one by one. Of 32 bits two at a time:
  // few numbers a cycle go from vector registers to others.
  std::vector<std::string> PlacesOf(Type type, std::string index) {
    std::vector<std::string> places;
    std::string pairs = StrCat("<", type.lanes / 2, " x i64>");
    bool paired = BitWidth(type.dtype) == 32 && type.lanes > 1;
    if (paired) index = ir_.Def("bitcast ", IrType(type), " ", index, " to ", pairs);
    for (int lane = 0; paired && lane < type.lanes; lane += 2) {
      std::string both = ir_.Def("extractelement ", pairs, " ", index, ", i64 ", lane / 2);
      places.push_back(ir_.Def("and i64 ", both, ", 4294967295"));
      places.push_back(ir_.Def("lshr i64 ", both, ", 32"));
    }
    for (int lane = 0; !paired && lane < type.lanes; ++lane) {
      std::string at = ir_.Def("extractelement ", IrType(type), " ", index, ", i64 ", lane);
      if (BitWidth(type.dtype) < 64) {
        at = ir_.Def("zext ", IrType({type.dtype, 1}), " ", at, " to i64");
      }
      places.push_back(at);
    }
    return places;
  }

  // Indices that were in memory, and are there still: the load of them, and a number that is added
  // to all of them (-1: none). Null: they were not.
  struct Stored {
    const Instr* load = nullptr;
    ValueId more = -1;
  };
  Stored IndicesInMemory(ValueId id) const {
    const Instr* made = Definition(id);
    Stored stored;
    for (int k = 0; k < 2 && made != nullptr && made->op == Op::kAdd && stored.more < 0; ++k) {
      const Instr* all = Definition(made->args[k]);
      if (all == nullptr || all->op != Op::kSplat) continue;
      if (kernel_.value(all->args[0]).is_constant) return {};
      stored.more = all->args[0];
      made = Definition(made->args[1 - k]);
    }
    if (made != nullptr && made->op == Op::kCast) made = Definition(made->args[0]);
    if (made == nullptr || made->op != Op::kLoad || HasMask(*made)) return {};
    const Memory& m = kernel_.memories[made->memory];
    bool indices = IsInteger(m.dtype) && !IsSubByte(m.dtype) && m.access == program::Access::kRead;
    if (indices && kernel_.type(made->args[0]).lanes == 1) stored.load = made;
    return stored;
  }
  // One of them, from the address of the first.
  std::string PlaceInMemory(const Instr& load, const std::string& first, int lane) {
    DType dtype = kernel_.memories[load.memory].dtype;
    std::string_view type = StorageType(dtype);
    std::string address = ir_.Def("getelementptr inbounds ", type, ", ptr ", first, ", i64 ", lane);
    std::string at =
        ir_.Def("load ", type, ", ptr ", address, ", align ", ByteWidth(dtype), Facts(load));
    if (BitWidth(dtype) == 64) return at;
    return ir_.Def(IsSigned(dtype) ? "sext " : "zext ", type, " ", at, " to i64");
  }

  // A gather lane by lane: addresses are not put in vectors only to be taken out again.
  std::string LoadLanes(const Instr& instr) {
    const Memory& m = kernel_.memories[instr.memory];
    Type type = kernel_.type(instr.args[0]);
    std::string index = NameOf(instr.args[0]), base = BaseOf(m, instr.memory), value = "poison";
    std::optional<Spaced> spaced = FindSpaced(instr.args[0]);
    Stored stored = target_.slow_gathers ? IndicesInMemory(instr.args[0]) : Stored();
    if (spaced || (stored.load != nullptr && stored.more >= 0)) {
      std::string first = NameOf(spaced ? spaced->first : stored.more);
      std::string number = IrType({type.dtype, 1});
      if (BitWidth(type.dtype) < 64) {
        first = ir_.Def(IsSigned(type.dtype) ? "sext " : "zext ", number, " ", first, " to i64");
      }
      base =
          ir_.Def("getelementptr inbounds ", StorageType(m.dtype), ", ptr ", base, ", i64 ", first);
    }
    std::string vector = StrCat("<", type.lanes, " x ", StorageType(m.dtype), ">");
    std::vector<std::string> places;
    // Elements beside each other share the places that are taken out of the vector.
    if (const Instr* sum = Definition(instr.args[0]);
        !spaced && stored.load == nullptr && sum != nullptr && sum->op == Op::kAdd &&
        kernel_.value(sum->args[1]).is_constant && kernel_.value(sum->args[1]).AsInt() >= 0 &&
        IsNeverNegative(sum->args[0])) {
      base = ir_.Def("getelementptr ", StorageType(m.dtype), ", ptr ", base, ", i64 ",
                     kernel_.value(sum->args[1]).AsInt());
      index = NameOf(sum->args[0]);
    }
    std::string first;
    if (stored.load != nullptr) {
      first = Address(*stored.load);
    } else if (!spaced) {
      places = PlacesOf(type, index);
    }
    for (int lane = 0; lane < type.lanes; ++lane) {
      std::string at;
      if (stored.load != nullptr) {
        // LLVM would read them all at once, for which there are not enough registers.
        if (lane % 8 == 0) ir_.Line("call void asm sideeffect \"\", \"~{memory}\"()");
        at = PlaceInMemory(*stored.load, first, lane);
      } else {
        at = spaced ? StrCat(lane * spaced->distance) : places[static_cast<size_t>(lane)];
      }
      std::string address =
          ir_.Def("getelementptr inbounds ", StorageType(m.dtype), ", ptr ", base, ", i64 ", at);
      std::string element = ir_.Def("load ", StorageType(m.dtype), ", ptr ", address, ", align ",
                                    AlignOf(instr), Facts(instr));
      value = ir_.Def("insertelement ", vector, " ", value, ", ", StorageType(m.dtype), " ",
                      element, ", i64 ", lane);
    }
    return value;
  }

  // `how`: of a load without lanes.
  std::string RenderLoad(const Instr& instr, std::string_view how = "") {
    DType dtype = kernel_.memories[instr.memory].dtype;
    int lanes = instr.type.lanes;
    bool gather = kernel_.type(instr.args[0]).lanes > 1;
    std::string type = IrVector(StorageType(dtype), lanes), value;
    std::string vector = StrCat("<", lanes, " x ", StorageType(dtype), ">");
    bool one_by_one = target_.scalar_gathers ||
                      (target_.slow_gathers && IndicesInMemory(instr.args[0]).load != nullptr);
    if (gather && !HasMask(instr) && one_by_one) {
      return FromStorage(ir_, dtype, lanes, LoadLanes(instr));
    }
    std::string address = Address(instr);
    if (gather) {
      value = ir_.Def("call ", vector, " @llvm.masked.gather.v", lanes, StorageSuffix(dtype), ".v",
                      lanes, "p0(<", lanes, " x ptr> ", address, ", i32 ", AlignOf(instr), ", ",
                      MaskOf(instr), ", ", vector, " zeroinitializer)", Facts(instr));
    } else if (HasMask(instr)) {
      value = ir_.Def("call ", vector, " @llvm.masked.load.v", lanes, StorageSuffix(dtype),
                      ".p0(ptr ", address, ", i32 ", AlignOf(instr), ", ", MaskOf(instr), ", ",
                      vector, " zeroinitializer)", Facts(instr));
      if (lanes == 1) value = ir_.Def("extractelement ", vector, " ", value, ", i64 0");
    } else {
      value =
          ir_.Def("load ", how, type, ", ptr ", address, ", align ", AlignOf(instr), Facts(instr));
    }
    return FromStorage(ir_, dtype, lanes, value);
  }

  void RenderStore(const Instr& instr) {
    DType dtype = kernel_.memories[instr.memory].dtype;
    int lanes = instr.type.lanes;
    bool scatter = kernel_.type(instr.args[0]).lanes > 1;
    std::string value = ToStorage(ir_, dtype, lanes, NameOf(instr.args[1]), target_);
    std::string type = IrVector(StorageType(dtype), lanes);
    std::string vector = StrCat("<", lanes, " x ", StorageType(dtype), ">");
    std::string address = Address(instr);
    if (!scatter && !HasMask(instr)) {
      ir_.Line("store ", type, " ", value, ", ptr ", address, ", align ", AlignOf(instr),
               Facts(instr));
      return;
    }
    if (lanes == 1) {
      value = ir_.Def("insertelement ", vector, " poison, ", type, " ", value, ", i64 0");
    }
    std::string pointers = scatter ? StrCat("<", lanes, " x ptr>") : "ptr";
    std::string name = scatter ? StrCat("scatter.v", lanes, StorageSuffix(dtype), ".v", lanes, "p0")
                               : StrCat("store.v", lanes, StorageSuffix(dtype), ".p0");
    std::string mask = MaskOf(instr);
    ir_.Line("call void @llvm.masked.", name, "(", vector, " ", value, ", ", pointers, " ", address,
             ", i32 ", AlignOf(instr), ", ", mask, ")", Facts(instr));
  }

  const Kernel& kernel_;
  const RenderTarget& target_;
  IrMetadata& metadata_;
  IrBody ir_;
  std::string entry_;  // allocas
  program::Blocks blocks_;
  bool in_round_ = false;  // of a loop around the kernel, in the same function
  std::vector<std::string> names_, allocated_;
  std::vector<int32_t> defined_;      // by value: the instruction that makes it, or -1
  std::vector<bool> arrays_, early_;  // early_: by value, products that are not part of a sum
  std::vector<Repeat> repeats_;
  std::vector<int32_t> repeat_at_;      // by instruction: the one that begins there, or -1
  std::vector<std::string> functions_;  // by the instruction with which they begin
  std::vector<Operand> operands_;
  std::map<size_t, ShorterForm> shorter_;
  std::vector<ThreadLoop> threads_;
  std::vector<int64_t> grid_;
  size_t grid_level_ = 0;
  int64_t threads_in_all_ = 1, stack_bytes_ = 0, next_loop_ = 0;
  int64_t copies_ = 1;             // of the code at hand, in loops that are written out
  std::string access_group_;       // of the vector loop that is open
  std::string likely_, unlikely_;  // weights of a branch
  RareCalls rare_calls_;
  IndexSums indices_;
  AccessScopes scopes_;
};

}  // namespace

void RenderKernel(const Kernel& kernel, const KernelText& how, const RenderTarget& target,
                  IrMetadata& metadata, std::string& out) {
  KernelRenderer(kernel, target, metadata).Render(how, out);
}

int64_t GridSize(const Kernel& kernel) {
  int64_t size = 1;
  for (int64_t n : Extents(kernel).grid) size *= n;
  return size;
}

}  // namespace weft::cpu
