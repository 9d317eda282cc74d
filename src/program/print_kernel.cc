#include <algorithm>
#include <cctype>
#include <unordered_set>

#include "base/str.h"
#include "program/print.h"

namespace weft::program {

void AppendConstant(std::string& out, const Value& value) {
  DType dtype = value.type.dtype;
  if (dtype == DType::kPred) {
    out.append(value.bits ? "true" : "false");
  } else if (dtype == DType::kF64) {
    AppendDouble(out, value.AsDouble());
  } else if (dtype == DType::kF32) {
    AppendFloat(out, static_cast<float>(value.AsDouble()));
  } else if (dtype == DType::kU64) {
    StrAppend(out, value.bits);
  } else {
    StrAppend(out, value.AsInt());
  }
}

namespace {

class KernelPrinter {
 public:
  KernelPrinter(std::string& out, const Kernel& kernel) : out_(out), kernel_(kernel) {
    NameValues();
  }

  void Print() {
    out_.append("kernel ");
    AppendName(out_, kernel_.name);
    out_.push_back('(');
    for (int32_t i = 0; i < kernel_.num_params; ++i) {
      const Memory& m = kernel_.memories[i];
      StrAppend(out_, i > 0 ? ", " : "", Name(m.access), " ");
      MemoryType(m);
    }
    out_.append(") {\n");
    for (const Instr& instr : kernel_.code) Print(instr);
    out_.append("}\n");
  }

 private:
  // Given names as they are; the others numbered in the order of definition.
  void NameValues() {
    names_.resize(kernel_.values.size());
    int64_t next = 0;
    for (const Instr& instr : kernel_.code) {
      for (ValueId id : instr.results) {
        const std::string& name = kernel_.values[id].name;
        names_[id] = name.empty() ? StrCat(next++) : name;
      }
    }
  }

  void MemoryType(const Memory& m) {
    AppendName(out_, m.name);
    StrAppend(out_, ": ", weft::Name(m.dtype), "[", m.count, "]");
    if (m.align != 0) StrAppend(out_, " align ", m.align);
    if (m.per_thread) out_.append(" per_thread");
  }

  void Operand(ValueId id) {
    const Value& value = kernel_.values[id];
    if (value.is_constant) {
      AppendConstant(out_, value);
    } else {
      StrAppend(out_, "%", names_[id]);
    }
  }

  template <class Ids>
  void Operands(const Ids& ids, size_t from = 0) {
    for (size_t i = from; i < ids.size(); ++i) {
      if (i > from) out_.append(", ");
      Operand(ids[i]);
    }
  }

  void Print(const Instr& instr) {
    if (instr.op == Op::kElse || instr.op == Op::kCombine || instr.op == Op::kEnd) --depth_;
    out_.append(static_cast<size_t>(depth_) * 2, ' ');
    switch (Info(instr.op).cls) {
      case OpClass::kMemory: PrintMemory(instr); break;
      case OpClass::kControl: PrintControl(instr); break;
      default: PrintCompute(instr);
    }
    out_.push_back('\n');
  }

  void PrintCompute(const Instr& instr) {
    StrAppend(out_, "%", names_[instr.results[0]], " = ", Name(instr.op), " ");
    if (instr.op == Op::kNarrow) StrAppend(out_, weft::Name(instr.format), " ");
    if (instr.nowrap) StrAppend(out_, "nowrap ");
    if (instr.rounded) StrAppend(out_, "rounded ");
    StrAppend(out_, instr.type);
    bool from = instr.op == Op::kCast || instr.op == Op::kBitcast || instr.op == Op::kExtract ||
                instr.op == Op::kShuffle || instr.op == Op::kAny;
    if (from) StrAppend(out_, " from ", kernel_.type(instr.args[0]));
    if (!instr.args.empty()) out_.push_back(' ');
    Operands(instr.args);
    if (!instr.lanes.empty()) StrAppend(out_, " [", StrJoin(instr.lanes, ", "), "]");
  }

  void PrintMemory(const Instr& instr) {
    const Memory& m = kernel_.memories[instr.memory];
    if (instr.op == Op::kArray) {
      out_.append("array ");
      MemoryType(m);
      return;
    }
    bool load = instr.op == Op::kLoad;
    if (load) StrAppend(out_, "%", names_[instr.results[0]], " = ");
    StrAppend(out_, Name(instr.op), " ");
    if (instr.op == Op::kAtomic) StrAppend(out_, Name(instr.atomic), " ");
    StrAppend(out_, instr.type, " ");
    AppendName(out_, m.name);
    out_.push_back('[');
    Operand(instr.args[0]);
    out_.push_back(']');
    if (!load) {
      out_.append(", ");
      Operand(instr.args[1]);
    }
    size_t mask = load ? 1 : 2;
    if (instr.args.size() > mask) {
      out_.append(" mask ");
      Operand(instr.args[mask]);
    }
    if (instr.align != 0) StrAppend(out_, " align ", instr.align);
  }

  void PrintControl(const Instr& instr) {
    switch (instr.op) {
      case Op::kLoop: PrintLoop(instr); break;
      case Op::kIf:
        out_.append("if ");
        if (instr.branch != Branch::kEven) StrAppend(out_, Name(instr.branch), " ");
        Operand(instr.args[0]);
        out_.append(" {");
        break;
      case Op::kElse:
        out_.push_back('}');
        PrintYield(instr);
        out_.append(" else {");
        break;
      case Op::kCombine: {
        out_.push_back('}');
        PrintYield(instr);
        size_t n = instr.args.size();
        for (size_t i = 0; i < instr.results.size(); ++i) {
          StrAppend(out_,
                    i == 0   ? " combine %"
                    : i == n ? " with %"
                             : ", %",
                    names_[instr.results[i]]);
        }
        out_.append(" {");
        break;
      }
      default:
        out_.push_back('}');
        PrintYield(instr);
        if (!instr.results.empty()) out_.append(" -> ");
        for (size_t i = 0; i < instr.results.size(); ++i) {
          StrAppend(out_, i > 0 ? ", %" : "%", names_[instr.results[i]]);
        }
        return;
    }
    ++depth_;
  }

  void PrintYield(const Instr& instr) {
    if (instr.args.empty()) return;
    out_.append(" yield ");
    for (size_t i = 0; i < instr.args.size(); ++i) {
      // The type stands with constants, so that a yield can be read by itself.
      if (i > 0) out_.append(", ");
      if (kernel_.value(instr.args[i]).is_constant) {
        StrAppend(out_, kernel_.type(instr.args[i]), " ");
      }
      Operand(instr.args[i]);
    }
  }

  void PrintLoop(const Instr& instr) {
    StrAppend(out_, Name(instr.loop), " %", names_[instr.results[0]]);
    if (instr.type != Type{DType::kS64, 1}) StrAppend(out_, ": ", instr.type);
    out_.append(" = ");
    Operand(instr.args[0]);
    out_.append("..");
    Operand(instr.args[1]);
    const Value& step = kernel_.value(instr.args[2]);
    if (!step.is_constant || step.AsInt() != 1) {
      out_.append(" step ");
      Operand(instr.args[2]);
    }
    for (size_t i = 1; i < instr.results.size(); ++i) {
      StrAppend(out_, i == 1 ? " carry %" : ", %", names_[instr.results[i]], ": ",
                kernel_.type(instr.results[i]), " = ");
      Operand(instr.args[i + 2]);
    }
    out_.append(" {");
  }

  std::string& out_;
  const Kernel& kernel_;
  std::vector<std::string> names_;
  int depth_ = 1;
};

}  // namespace

void AppendKernel(std::string& out, const Kernel& kernel) {
  KernelPrinter(out, kernel).Print();
}

}  // namespace weft::program
