#include "cpu/render/kernel.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "base/check.h"
#include "cpu/render/kernel_renderer.h"
#include "program/combine.h"
#include "program/target_facts.h"

namespace weft::cpu {
namespace {

using program::Branch;
using program::Instr;
using program::Kernel;
using program::Memory;
using program::Op;
using program::ValueId;

// Larger arrays are allocated, not on the stack: a thread has 8 MB.
constexpr int64_t kMaxStackBytes = program::TargetFacts::kThreadStackBytes / 32;

}  // namespace

void KernelRenderer::Render(const KernelText& how, std::string& out) {
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

void KernelRenderer::AppendParam(int32_t i, std::string& out) const {
  const Memory& m = kernel_.memories[i];
  StrAppend(out, "ptr noalias nocapture ");
  if (!Writes(m.access)) StrAppend(out, "readonly ");
  if (!Reads(m.access)) StrAppend(out, "writeonly ");
  int64_t width = ByteWidth(m.dtype);
  StrAppend(out, "align ", std::max(m.align, width), " ");
  if (m.count > 0) StrAppend(out, "dereferenceable(", m.count * width, ") ");
  StrAppend(out, "%p", i, ", ");
}

void KernelRenderer::LoadParam(int32_t i) {
  StrAppend(entry_, "  %a", i, " = getelementptr inbounds ptr, ptr %parameters, i64 ", i, "\n  %p",
            i, " = load ptr, ptr %a", i, ", align 8\n");
}

void KernelRenderer::NameConstants() {
  names_.resize(kernel_.values.size());
  for (size_t i = 0; i < kernel_.values.size(); ++i) {
    if (kernel_.values[i].is_constant) names_[i] = IrConstant(kernel_.values[i]);
  }
}

void KernelRenderer::RenderBlock(size_t begin, size_t end) {
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

Operand KernelRenderer::OperandOf(ValueId id) const {
  const program::Value& value = kernel_.value(id);
  Operand operand{NameOf(id), value.type, value.is_constant ? &value : nullptr};
  int32_t made = value.is_constant ? -1 : access_.DefinedAt(id);
  if (made >= 0 && kernel_.code[static_cast<size_t>(made)].op == Op::kSplat) {
    operand.scalar = NameOf(kernel_.code[static_cast<size_t>(made)].args[0]);
  }
  return operand;
}

void KernelRenderer::RenderReassociated(const Instr& whole, const Reassociation& form) {
  Instr instr = whole;
  instr.nowrap = false;  // of other operands
  std::vector<Operand> early = {OperandOf(form.first), OperandOf(form.second)};
  Operand joined{RenderOp(ir_, instr, early, target_), instr.type, nullptr};
  std::vector<Operand> both = {joined, OperandOf(form.critical)};
  names_[instr.results[0]] = RenderOp(ir_, instr, both, target_);
}

void KernelRenderer::RenderCompute(const Instr& instr) {
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

bool KernelRenderer::HasQuotient(const Instr& instr) const {
  if (instr.op != Op::kRem || IsFloat(instr.type.dtype) || !operands_[1].constant) return false;
  if (std::has_single_bit(operands_[1].constant->bits)) return false;
  return std::any_of(kernel_.code.begin(), kernel_.code.end(), [&](const Instr& other) {
    return other.op == Op::kDiv && other.args == instr.args;
  });
}

std::string KernelRenderer::RenderRemainder(const Instr& instr) {
  Instr quotient = instr;
  quotient.op = Op::kDiv;
  std::string type = IrType(instr.type), q = RenderOp(ir_, quotient, operands_, target_);
  std::string product = ir_.Def("mul ", type, " ", q, ", ", operands_[1].text);
  return ir_.Def("sub ", type, " ", operands_[0].text, ", ", product);
}

bool KernelRenderer::GuardsDivisor(const Instr& instr) const {
  bool divides = instr.op == Op::kDiv || instr.op == Op::kRem;
  return in_loop_ && divides && !IsFloat(instr.type.dtype) && instr.type.lanes == 1 &&
         !operands_[1].constant && !target_.arm_division;
}

std::string KernelRenderer::RenderGuardedDivision(const Instr& instr) {
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

void KernelRenderer::FindOutlined() {
  outlined_ = FindOutlineCandidates(kernel_);
  if (outlined_.empty()) return;
  outlined_at_.resize(kernel_.code.size(), -1);
  functions_.resize(kernel_.code.size());
  for (size_t i = 0; i < outlined_.size(); ++i) {
    outlined_at_[outlined_[i].begin] = static_cast<int32_t>(i);
  }
}

void KernelRenderer::ReduceAddresses() {
  AddressStrengthReduction& indices = access_.indices();
  indices = AddressStrengthReduction(kernel_);
  for (const OutlineCandidate& candidate : outlined_) {
    for (ValueId id : candidate.inputs) indices.Exclude(id);
    for (ValueId id : candidate.outputs) indices.Exclude(id);
  }
}

std::string KernelRenderer::ResultType(const OutlineCandidate& candidate) const {
  std::string types;
  for (ValueId id : candidate.outputs) {
    StrAppend(types, types.empty() ? "" : ", ", IrType(kernel_.type(id)));
  }
  return candidate.outputs.size() == 1 ? types : StrCat("{ ", types, " }");
}

std::string KernelRenderer::FunctionOf(const OutlineCandidate& candidate) {
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
  return metadata_.AddFunction(type, StrCat("(", parameters, ") #2 {\n", inside.ir_.text(), "}\n"));
}

void KernelRenderer::RenderCall(const OutlineCandidate& candidate) {
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

void KernelRenderer::DeclareArray(int32_t memory) {
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

void RenderKernel(const Kernel& kernel, const KernelText& how, const RenderTarget& target,
                  IrMetadata& metadata, std::string& out) {
  if (program::HasCombine(kernel)) {
    return KernelRenderer(program::ExpandCombines(kernel), target, metadata).Render(how, out);
  }
  KernelRenderer(kernel, target, metadata).Render(how, out);
}

}  // namespace weft::cpu
