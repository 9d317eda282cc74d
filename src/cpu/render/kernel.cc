#include "cpu/render/kernel.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "base/check.h"
#include "cpu/render/kernel_context.h"
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

// LLVM turns (-x * y) + z into z - x * y, whose product has the flags of the sum: sums of rounded
// products are not contracted either.
void LeaveRoundedApart(const program::Kernel& kernel, std::vector<bool>& uncontracted) {
  std::vector<bool> rounded(kernel.values.size());
  for (const Instr& instr : kernel.code) {
    if (instr.op == Op::kMul && instr.rounded)
      rounded[static_cast<size_t>(instr.results[0])] = true;
    if (instr.op != Op::kAdd && instr.op != Op::kSub) continue;
    size_t a = static_cast<size_t>(instr.args[0]), b = static_cast<size_t>(instr.args[1]);
    if (!rounded[a] && !rounded[b]) continue;
    uncontracted.resize(kernel.values.size());
    uncontracted[static_cast<size_t>(instr.results[0])] = true;
  }
}

}  // namespace

void RenderFunction(KernelContext& cx, const KernelText& how, std::string& out) {
  cx.blocks = MatchBlocks(cx.kernel);
  NameConstants(cx);
  if (how.outline) FindOutlined(cx);
  if (how.indices) ReduceAddresses(cx);
  if (how.task) cx.access.set_scopes(AccessScopes(cx.kernel, cx.metadata));
  cx.in_loop = !how.depths.empty();
  if (cx.in_loop) {
    cx.uncontracted = UncontractedProducts(cx.kernel, how.depths, cx.target.latency,
                                           cx.target.add_faster_than_fma);
    cx.reassociations = Reassociations(cx.kernel, how.depths, cx.target.latency);
  }
  LeaveRoundedApart(cx.kernel, cx.uncontracted);
  cx.threads_in_all = Extents(cx.kernel).threads;
  RenderBlock(cx, 0, cx.kernel.code.size());
  for (const std::string& array : cx.allocated) cx.ir.Line("call void @free(ptr ", array, ")");
  cx.ir.Line("ret void");
  StrAppend(out, "define ", how.task ? "" : how.linkage, " void @", how.name, "(");
  if (how.task) StrAppend(out, "ptr %parameters, ");
  for (int32_t i = 0; i < cx.kernel.num_params; ++i) {
    if (how.task) {
      LoadParam(cx, i);
    } else {
      AppendParam(cx, i, out);
    }
  }
  StrAppend(out, "i64 %begin, i64 %end) ", how.attributes, " {\nentry:\n", cx.entry,
            cx.slow_path_calls.entry(), cx.ir.text(), "}\n");
}

void AppendParam(const KernelContext& cx, int32_t i, std::string& out) {
  const Memory& m = cx.kernel.memories[i];
  StrAppend(out, "ptr noalias nocapture ");
  if (!Writes(m.access)) StrAppend(out, "readonly ");
  if (!Reads(m.access)) StrAppend(out, "writeonly ");
  int64_t width = ByteWidth(m.dtype);
  StrAppend(out, "align ", std::max(m.align, width), " ");
  if (m.count > 0) StrAppend(out, "dereferenceable(", m.count * width, ") ");
  StrAppend(out, "%p", i, ", ");
}

void LoadParam(KernelContext& cx, int32_t i) {
  StrAppend(cx.entry, "  %a", i, " = getelementptr inbounds ptr, ptr %parameters, i64 ", i,
            "\n  %p", i, " = load ptr, ptr %a", i, ", align 8\n");
}

void NameConstants(KernelContext& cx) {
  cx.names.resize(cx.kernel.values.size());
  for (size_t i = 0; i < cx.kernel.values.size(); ++i) {
    if (cx.kernel.values[i].is_constant) cx.names[i] = IrConstant(cx.kernel.values[i]);
  }
}

void RenderBlock(KernelContext& cx, size_t begin, size_t end) {
  for (size_t pc = begin; pc < end; ++pc) {
    const Instr& instr = cx.kernel.code[pc];
    if (!cx.outlined_at.empty() && cx.outlined_at[pc] >= 0) {
      const OutlineCandidate& candidate = cx.outlined[cx.outlined_at[pc]];
      RenderCall(cx, candidate);
      pc = candidate.end - 1;
      continue;
    }
    switch (instr.op) {
      case Op::kLoop:
        RenderLoop(cx, pc);
        pc = cx.blocks.end_at[pc];
        break;
      case Op::kIf:
        if (instr.branch == Branch::kGuard) {
          pc = RenderGuard(cx, pc);
          break;
        }
        RenderIf(cx, pc);
        pc = cx.blocks.end_at[pc];
        break;
      case Op::kArray: DeclareArray(cx, instr.memory); break;
      case Op::kLoad: cx.names[instr.results[0]] = cx.access.Load(instr); break;
      case Op::kStore: cx.access.Store(instr); break;
      case Op::kAtomic: cx.access.Atomic(instr); break;
      default:
        if (cx.access.indices().Takes(instr)) {
          cx.access.indices().Add(instr, cx.ir, cx.names);
        } else if (auto form = cx.reassociations.find(pc); form != cx.reassociations.end()) {
          RenderReassociated(cx, instr, form->second);
        } else {
          RenderCompute(cx, instr);
        }
    }
  }
}

Operand OperandOf(const KernelContext& cx, ValueId id) {
  const program::Value& value = cx.kernel.value(id);
  Operand operand{NameOf(cx, id), value.type, value.is_constant ? &value : nullptr};
  int32_t made = value.is_constant ? -1 : cx.access.DefinedAt(id);
  if (made >= 0 && cx.kernel.code[static_cast<size_t>(made)].op == Op::kSplat) {
    operand.scalar = NameOf(cx, cx.kernel.code[static_cast<size_t>(made)].args[0]);
  }
  return operand;
}

void RenderReassociated(KernelContext& cx, const Instr& whole, const Reassociation& form) {
  Instr instr = whole;
  instr.nowrap = false;  // of other operands
  std::vector<Operand> early = {OperandOf(cx, form.first), OperandOf(cx, form.second)};
  Operand joined{RenderOp(cx.ir, instr, early, cx.target), instr.type, nullptr};
  std::vector<Operand> both = {joined, OperandOf(cx, form.critical)};
  cx.names[instr.results[0]] = RenderOp(cx.ir, instr, both, cx.target);
}

void RenderCompute(KernelContext& cx, const Instr& instr) {
  if (!cx.uncontracted.empty() && cx.uncontracted[static_cast<size_t>(instr.results[0])]) {
    std::string_view how = instr.op == Op::kMul   ? "fmul "
                           : instr.op == Op::kAdd ? "fadd "
                                                  : "fsub ";
    cx.names[instr.results[0]] = cx.ir.Def(how, IrType(instr.type), " ", NameOf(cx, instr.args[0]),
                                           ", ", NameOf(cx, instr.args[1]));
    return;
  }
  cx.operands.clear();
  for (ValueId id : instr.args) cx.operands.push_back(OperandOf(cx, id));
  cx.names[instr.results[0]] = GuardsDivisor(cx, instr) ? RenderGuardedDivision(cx, instr)
                               : HasQuotient(cx, instr)
                                   ? RenderRemainder(cx, instr)
                                   : RenderOp(cx.ir, instr, cx.operands, cx.target);
}

bool HasQuotient(const KernelContext& cx, const Instr& instr) {
  if (instr.op != Op::kRem || IsFloat(instr.type.dtype) || !cx.operands[1].constant) return false;
  if (std::has_single_bit(cx.operands[1].constant->bits)) return false;
  return std::any_of(cx.kernel.code.begin(), cx.kernel.code.end(), [&](const Instr& other) {
    return other.op == Op::kDiv && other.args == instr.args;
  });
}

std::string RenderRemainder(KernelContext& cx, const Instr& instr) {
  Instr quotient = instr;
  quotient.op = Op::kDiv;
  std::string type = IrType(instr.type), q = RenderOp(cx.ir, quotient, cx.operands, cx.target);
  std::string product = cx.ir.Def("mul ", type, " ", q, ", ", cx.operands[1].text);
  return cx.ir.Def("sub ", type, " ", cx.operands[0].text, ", ", product);
}

bool GuardsDivisor(const KernelContext& cx, const Instr& instr) {
  bool divides = instr.op == Op::kDiv || instr.op == Op::kRem;
  return cx.in_loop && divides && !IsFloat(instr.type.dtype) && instr.type.lanes == 1 &&
         !cx.operands[1].constant && !cx.target.arm_division;
}

std::string RenderGuardedDivision(KernelContext& cx, const Instr& instr) {
  const std::string &a = cx.operands[0].text, &b = cx.operands[1].text, type = IrType(instr.type);
  bool is_signed = IsSigned(instr.type.dtype);
  std::string unlikely = cx.ir.NewLabel(), likely = cx.ir.NewLabel(), after = cx.ir.NewLabel();
  std::string special = cx.ir.Def("icmp eq ", type, " ", b, ", 0");
  if (is_signed) {
    std::string minus = cx.ir.Def("icmp eq ", type, " ", b, ", -1");
    special = cx.ir.Def("or i1 ", special, ", ", minus);
  }
  cx.ir.Branch(special, unlikely, likely, Unlikely(cx));
  cx.ir.Begin(unlikely);
  std::string total = RenderOp(cx.ir, instr, cx.operands, cx.target);
  cx.ir.Branch(after);
  cx.ir.Begin(likely);
  std::string_view op = instr.op == Op::kRem ? "rem " : "div ";
  std::string plain = cx.ir.Def(is_signed ? "s" : "u", op, type, " ", a, ", ", b);
  cx.ir.Branch(after);
  cx.ir.Begin(after);
  return cx.ir.Def("phi ", type, " [", total, ", %", unlikely, "], [", plain, ", %", likely, "]");
}

void FindOutlined(KernelContext& cx) {
  cx.outlined = FindOutlineCandidates(cx.kernel);
  if (cx.outlined.empty()) return;
  cx.outlined_at.resize(cx.kernel.code.size(), -1);
  cx.functions.resize(cx.kernel.code.size());
  for (size_t i = 0; i < cx.outlined.size(); ++i) {
    cx.outlined_at[cx.outlined[i].begin] = static_cast<int32_t>(i);
  }
}

void ReduceAddresses(KernelContext& cx) {
  AddressStrengthReduction& indices = cx.access.indices();
  indices = AddressStrengthReduction(cx.kernel);
  for (const OutlineCandidate& candidate : cx.outlined) {
    for (ValueId id : candidate.inputs) indices.Exclude(id);
    for (ValueId id : candidate.outputs) indices.Exclude(id);
  }
}

std::string ResultType(const KernelContext& cx, const OutlineCandidate& candidate) {
  std::string types;
  for (ValueId id : candidate.outputs) {
    StrAppend(types, types.empty() ? "" : ", ", IrType(cx.kernel.type(id)));
  }
  return candidate.outputs.size() == 1 ? types : StrCat("{ ", types, " }");
}

std::string FunctionOf(KernelContext& cx, const OutlineCandidate& candidate) {
  KernelContext inside(cx.kernel, cx.target, cx.metadata);
  NameConstants(inside);
  std::string parameters;
  for (size_t i = 0; i < candidate.inputs.size(); ++i) {
    inside.names[candidate.inputs[i]] = StrCat("%a", i);
    StrAppend(parameters, i == 0 ? "" : ", ", Typed(inside, candidate.inputs[i]));
  }
  RenderBlock(inside, candidate.begin, candidate.end);
  std::string type = ResultType(cx, candidate), result = NameOf(inside, candidate.outputs[0]);
  if (candidate.outputs.size() > 1) {
    result = "poison";
    for (size_t i = 0; i < candidate.outputs.size(); ++i) {
      result = inside.ir.Def("insertvalue ", type, " ", result, ", ",
                             Typed(inside, candidate.outputs[i]), ", ", i);
    }
  }
  inside.ir.Line("ret ", type, " ", result);
  return cx.metadata.AddFunction(type,
                                 StrCat("(", parameters, ") #2 {\n", inside.ir.text(), "}\n"));
}

void RenderCall(KernelContext& cx, const OutlineCandidate& candidate) {
  std::string& function = cx.functions[candidate.first];
  if (function.empty()) function = FunctionOf(cx, candidate);
  std::string arguments, type = ResultType(cx, candidate);
  for (ValueId id : candidate.inputs) {
    StrAppend(arguments, arguments.empty() ? "" : ", ", Typed(cx, id));
  }
  std::string result = cx.ir.Def("call ", type, " ", function, "(", arguments, ")");
  if (candidate.outputs.size() == 1) {
    cx.names[candidate.outputs[0]] = result;
    return;
  }
  for (size_t i = 0; i < candidate.outputs.size(); ++i) {
    cx.names[candidate.outputs[i]] = cx.ir.Def("extractvalue ", type, " ", result, ", ", i);
  }
}

void DeclareArray(KernelContext& cx, int32_t memory) {
  const Memory& m = cx.kernel.memories[memory];
  if (cx.arrays.size() < cx.kernel.memories.size()) cx.arrays.resize(cx.kernel.memories.size());
  if (cx.arrays[memory]) return;  // in a loop that is written out
  cx.arrays[memory] = true;
  int64_t count = m.count * (m.per_thread ? cx.threads_in_all : 1);
  int64_t width = ByteWidth(m.dtype), bytes = count * width;
  int64_t align = std::max({m.align, width, int64_t{bytes >= 64 ? 64 : 1}});
  if (cx.stack_bytes + bytes <= kMaxStackBytes) {
    cx.stack_bytes += bytes;
    StrAppend(cx.entry, "  %p", memory, " = alloca [", count, " x ", StorageType(m.dtype),
              "], align ", align, "\n");
    return;
  }
  StrAppend(cx.entry, "  %p", memory, " = call noalias ptr @aligned_alloc(i64 ", align, ", i64 ",
            (bytes + align - 1) / align * align, ")\n");
  cx.allocated.push_back(StrCat("%p", memory));
}

void RenderKernel(const Kernel& kernel, const KernelText& how, const RenderTarget& target,
                  IrMetadata& metadata, std::string& out) {
  if (program::HasCombine(kernel)) {
    Kernel expanded = program::ExpandCombines(kernel);
    KernelContext cx(expanded, target, metadata);
    return RenderFunction(cx, how, out);
  }
  KernelContext cx(kernel, target, metadata);
  RenderFunction(cx, how, out);
}

}  // namespace weft::cpu
