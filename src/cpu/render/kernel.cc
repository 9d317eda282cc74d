#include "cpu/render/kernel.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <optional>
#include <vector>

#include "base/check.h"
#include "cpu/render/access.h"
#include "cpu/render/critical_path.h"
#include "cpu/render/ops.h"
#include "cpu/render/outline.h"
#include "cpu/render/slow_path.h"
#include "program/combine.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::cpu {
namespace {

using program::Branch;
using program::Instr;
using program::Kernel;
using program::LoopKind;
using program::Memory;
using program::Op;
using program::Type;
using program::ValueId;

// Larger arrays are allocated, not on the stack: a thread has 8 MB.
constexpr int64_t kMaxStackBytes = program::TargetFacts::kThreadStackBytes / 32;
// An `unroll` loop is written out when that makes no more instructions than this.
constexpr int64_t kMaxUnrolled = program::TargetFacts::kDecodedOps;

class KernelRenderer {
 public:
  KernelRenderer(const Kernel& kernel, const RenderTarget& target, IrMetadata& metadata)
      : kernel_(kernel),
        target_(target),
        metadata_(metadata),
        access_(kernel, target, ir_, names_) {}
  KernelRenderer(const KernelRenderer&) = delete;

  void Render(const KernelText& how, std::string& out) {
    blocks_ = MatchBlocks(kernel_);
    NameConstants();
    if (how.outline) FindOutlined();
    if (how.indices) ReduceAddresses();
    if (how.task) access_.set_scopes(AccessScopes(kernel_, metadata_));
    in_loop_ = !how.depths.empty();
    if (in_loop_) {
      uncontracted_ = UncontractedProducts(kernel_, how.depths, target_.add_faster_than_fma);
      reassociations_ = Reassociations(kernel_, how.depths);
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
              slow_path_calls_.entry(), ir_.text(), "}\n");
  }

 private:
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
      if (!outlined_at_.empty() && outlined_at_[pc] >= 0) {
        const OutlineCandidate& candidate = outlined_[outlined_at_[pc]];
        RenderCall(candidate);
        pc = candidate.end - 1;
        continue;
      }
      switch (instr.op) {
        case Op::kLoop:
          RenderLoop(pc);
          pc = blocks_.end_at[pc];
          break;
        case Op::kIf:
          if (instr.branch == Branch::kGuard) {
            pc = RenderGuard(pc);
            break;
          }
          RenderIf(pc);
          pc = blocks_.end_at[pc];
          break;
        case Op::kArray: DeclareArray(instr.memory); break;
        case Op::kLoad: names_[instr.results[0]] = access_.Load(instr); break;
        case Op::kStore: access_.Store(instr); break;
        case Op::kAtomic: access_.Atomic(instr); break;
        default:
          if (access_.indices().Takes(instr)) {
            access_.indices().Add(instr, ir_, names_);
          } else if (auto form = reassociations_.find(pc); form != reassociations_.end()) {
            RenderReassociated(instr, form->second);
          } else {
            RenderCompute(instr);
          }
      }
    }
  }

  Operand OperandOf(ValueId id) const {
    const program::Value& value = kernel_.value(id);
    Operand operand{NameOf(id), value.type, value.is_constant ? &value : nullptr};
    int32_t made = value.is_constant ? -1 : access_.DefinedAt(id);
    if (made >= 0 && kernel_.code[static_cast<size_t>(made)].op == Op::kSplat) {
      operand.scalar = NameOf(kernel_.code[static_cast<size_t>(made)].args[0]);
    }
    return operand;
  }

  void RenderReassociated(const Instr& whole, const Reassociation& form) {
    Instr instr = whole;
    instr.nowrap = false;  // of other operands
    std::vector<Operand> early = {OperandOf(form.first), OperandOf(form.second)};
    Operand joined{RenderOp(ir_, instr, early, target_), instr.type, nullptr};
    std::vector<Operand> both = {joined, OperandOf(form.critical)};
    names_[instr.results[0]] = RenderOp(ir_, instr, both, target_);
  }

  void RenderCompute(const Instr& instr) {
    if (!uncontracted_.empty() && uncontracted_[static_cast<size_t>(instr.results[0])]) {
      std::string_view how = instr.op == Op::kMul   ? "fmul "
                             : instr.op == Op::kAdd ? "fadd "
                                                    : "fsub ";
      names_[instr.results[0]] =
          ir_.Def(how, IrType(instr.type), " ", NameOf(instr.args[0]), ", ", NameOf(instr.args[1]));
      return;
    }
    operands_.clear();
    for (ValueId id : instr.args) operands_.push_back(OperandOf(id));
    names_[instr.results[0]] = GuardsDivisor(instr) ? RenderGuardedDivision(instr)
                               : HasQuotient(instr) ? RenderRemainder(instr)
                                                    : RenderOp(ir_, instr, operands_, target_);
  }

  // A remainder of a number whose quotient by the same constant is computed as well.
  bool HasQuotient(const Instr& instr) const {
    if (instr.op != Op::kRem || IsFloat(instr.type.dtype) || !operands_[1].constant) return false;
    if (std::has_single_bit(operands_[1].constant->bits)) return false;
    return std::any_of(kernel_.code.begin(), kernel_.code.end(), [&](const Instr& other) {
      return other.op == Op::kDiv && other.args == instr.args;
    });
  }
  // What the quotient leaves. Where quotients are divided again, LLVM makes one division of both
  // and would divide once more for the remainder.
  std::string RenderRemainder(const Instr& instr) {
    Instr quotient = instr;
    quotient.op = Op::kDiv;
    std::string type = IrType(instr.type), q = RenderOp(ir_, quotient, operands_, target_);
    std::string product = ir_.Def("mul ", type, " ", q, ", ", operands_[1].text);
    return ir_.Def("sub ", type, " ", operands_[0].text, ", ", product);
  }

  // Divisors of 0 and -1, which LLVM's division does not take, are unlikely: where the division may
  // be on the critical path of a loop, a predicted branch takes the place of the selects before it.
  bool GuardsDivisor(const Instr& instr) const {
    bool divides = instr.op == Op::kDiv || instr.op == Op::kRem;
    return in_loop_ && divides && !IsFloat(instr.type.dtype) && instr.type.lanes == 1 &&
           !operands_[1].constant && !target_.arm_division;
  }
  std::string RenderGuardedDivision(const Instr& instr) {
    const std::string &a = operands_[0].text, &b = operands_[1].text, type = IrType(instr.type);
    bool is_signed = IsSigned(instr.type.dtype);
    std::string unlikely = ir_.NewLabel(), likely = ir_.NewLabel(), after = ir_.NewLabel();
    std::string special = ir_.Def("icmp eq ", type, " ", b, ", 0");
    if (is_signed) {
      std::string minus = ir_.Def("icmp eq ", type, " ", b, ", -1");
      special = ir_.Def("or i1 ", special, ", ", minus);
    }
    ir_.Branch(special, unlikely, likely, Unlikely());
    ir_.Begin(unlikely);
    std::string total = RenderOp(ir_, instr, operands_, target_);
    ir_.Branch(after);
    ir_.Begin(likely);
    std::string_view op = instr.op == Op::kRem ? "rem " : "div ";
    std::string plain = ir_.Def(is_signed ? "s" : "u", op, type, " ", a, ", ", b);
    ir_.Branch(after);
    ir_.Begin(after);
    return ir_.Def("phi ", type, " [", total, ", %", unlikely, "], [", plain, ", %", likely, "]");
  }

  void FindOutlined() {
    outlined_ = FindOutlineCandidates(kernel_);
    if (outlined_.empty()) return;
    outlined_at_.resize(kernel_.code.size(), -1);
    functions_.resize(kernel_.code.size());
    for (size_t i = 0; i < outlined_.size(); ++i) {
      outlined_at_[outlined_[i].begin] = static_cast<int32_t>(i);
    }
  }

  void ReduceAddresses() {
    AddressStrengthReduction& indices = access_.indices();
    indices = AddressStrengthReduction(kernel_);
    for (const OutlineCandidate& candidate : outlined_) {
      for (ValueId id : candidate.inputs) indices.Exclude(id);
      for (ValueId id : candidate.outputs) indices.Exclude(id);
    }
  }

  // What a stretch computes, as one type.
  std::string ResultType(const OutlineCandidate& candidate) const {
    std::string types;
    for (ValueId id : candidate.outputs) {
      StrAppend(types, types.empty() ? "" : ", ", IrType(kernel_.type(id)));
    }
    return candidate.outputs.size() == 1 ? types : StrCat("{ ", types, " }");
  }

  std::string FunctionOf(const OutlineCandidate& candidate) {
    KernelRenderer inside(kernel_, target_, metadata_);
    inside.NameConstants();
    std::string parameters;
    for (size_t i = 0; i < candidate.inputs.size(); ++i) {
      inside.names_[candidate.inputs[i]] = StrCat("%a", i);
      StrAppend(parameters, i == 0 ? "" : ", ", inside.Typed(candidate.inputs[i]));
    }
    inside.RenderBlock(candidate.begin, candidate.end);
    std::string type = ResultType(candidate), result = inside.NameOf(candidate.outputs[0]);
    if (candidate.outputs.size() > 1) {
      result = "poison";
      for (size_t i = 0; i < candidate.outputs.size(); ++i) {
        result = inside.ir_.Def("insertvalue ", type, " ", result, ", ",
                                inside.Typed(candidate.outputs[i]), ", ", i);
      }
    }
    inside.ir_.Line("ret ", type, " ", result);
    return metadata_.AddFunction(type,
                                 StrCat("(", parameters, ") #2 {\n", inside.ir_.text(), "}\n"));
  }

  void RenderCall(const OutlineCandidate& candidate) {
    std::string& function = functions_[candidate.first];
    if (function.empty()) function = FunctionOf(candidate);
    std::string arguments, type = ResultType(candidate);
    for (ValueId id : candidate.inputs) {
      StrAppend(arguments, arguments.empty() ? "" : ", ", Typed(id));
    }
    std::string result = ir_.Def("call ", type, " ", function, "(", arguments, ")");
    if (candidate.outputs.size() == 1) {
      names_[candidate.outputs[0]] = result;
      return;
    }
    for (size_t i = 0; i < candidate.outputs.size(); ++i) {
      names_[candidate.outputs[i]] = ir_.Def("extractvalue ", type, " ", result, ", ", i);
    }
  }

  std::string Likely() {
    if (likely_.empty()) likely_ = metadata_.Add("!{!\"branch_weights\", i32 1000, i32 1}");
    return StrCat(", !prof ", likely_);
  }
  std::string Unlikely() {
    if (unlikely_.empty()) unlikely_ = metadata_.Add("!{!\"branch_weights\", i32 1, i32 1000}");
    return StrCat(", !prof ", unlikely_);
  }
  std::string Weights(Branch branch) {
    if (branch == Branch::kEven) return "";
    return branch == Branch::kUnlikely ? Unlikely() : Likely();
  }

  // Keeps LLVM from if-converting the unlikely block (its little code would be computed always, for
  // a select) and from hoisting it out of loops: what it reads goes through an optimization
  // barrier, an empty `asm sideeffect`, and has other names inside; returns the old ones.
  std::map<ValueId, std::string> BlockSpeculation(size_t begin, size_t end) {
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

  // The load that follows at once, if it is all that the number which the `if` gives is for.
  const Instr* LoadBehind(size_t pc) const {
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

  // Returns the last instruction of what it rendered. A load of the place that the two blocks give
  // is duplicated into both (tail duplication), so that the likely path has no phi of addresses.
  size_t RenderGuard(size_t pc) {
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

  void RenderIf(size_t pc) {
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

  void RenderLoop(size_t pc) {
    const Instr& loop = kernel_.code[pc];
    std::optional<int64_t> trips = TripCount(kernel_, loop);
    if (loop.loop == LoopKind::kParallel) return RenderGrid(pc);
    if (loop.loop == LoopKind::kThread) {
      access_.threads().push_back({"", kernel_.value(loop.args[0]).AsInt(),
                                   kernel_.value(loop.args[2]).AsInt(), *trips, loop.type});
    }
    int64_t size = static_cast<int64_t>(blocks_.end_at[pc] - pc);
    bool unrolled = trips && (*trips <= 1 || (loop.loop == LoopKind::kUnroll &&
                                              *trips <= kMaxUnrolled / size / copies_));
    if (unrolled) {
      RenderUnrolled(pc, *trips);
    } else {
      RenderRealLoop(pc, trips);
    }
    if (loop.loop == LoopKind::kThread) access_.threads().pop_back();
  }

  void SetCounter(const Instr& loop, std::string name) {
    if (loop.loop == LoopKind::kThread) access_.threads().back().counter = name;
    names_[loop.results[0]] = std::move(name);
  }

  void RenderUnrolled(size_t pc, int64_t trips) {
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

  // It ends some numbers after it begins, as chunks of the same size do.
  bool AlwaysRuns(const Instr& loop) const {
    const Instr* limit = access_.Definition(loop.args[1]);
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

  const Kernel& kernel_;
  const RenderTarget& target_;
  IrMetadata& metadata_;
  IrBody ir_;
  std::string entry_;  // allocas
  program::Blocks blocks_;
  bool in_loop_ = false;  // part of a native region, in a loop around it
  std::vector<std::string> names_, allocated_;
  std::vector<bool> arrays_, uncontracted_;  // the latter by value (critical_path.h)
  std::vector<OutlineCandidate> outlined_;
  std::vector<int32_t> outlined_at_;    // by instruction: the one that begins there, or -1
  std::vector<std::string> functions_;  // by the instruction with which they begin
  std::vector<Operand> operands_;
  std::map<size_t, Reassociation> reassociations_;
  std::vector<int64_t> grid_;
  size_t grid_level_ = 0;
  int64_t threads_in_all_ = 1, stack_bytes_ = 0, next_loop_ = 0;
  int64_t copies_ = 1;             // of the code at hand, in loops that are written out
  std::string likely_, unlikely_;  // weights of a branch
  SlowPathCalls slow_path_calls_;
  AccessRenderer access_;  // last: it uses some of the others
};

}  // namespace

void RenderKernel(const Kernel& kernel, const KernelText& how, const RenderTarget& target,
                  IrMetadata& metadata, std::string& out) {
  if (program::HasCombine(kernel)) {
    return KernelRenderer(program::ExpandCombines(kernel), target, metadata).Render(how, out);
  }
  KernelRenderer(kernel, target, metadata).Render(how, out);
}

}  // namespace weft::cpu
