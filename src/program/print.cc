#include "program/print.h"

#include <algorithm>
#include <cctype>
#include <iterator>

#include "base/str.h"

namespace weft::program {

std::string_view Name(CollectiveKind kind) {
  static constexpr std::string_view kNames[] = {"all_reduce", "all_gather", "reduce_scatter",
                                                "all_to_all", "permute"};
  return kNames[static_cast<int>(kind)];
}
std::string_view Name(ReduceOp op) {
  static constexpr std::string_view kNames[] = {"add", "mul", "min", "max", "and", "or"};
  return kNames[static_cast<int>(op)];
}
std::string_view Name(MemorySpace space) {
  static constexpr std::string_view kNames[] = {"device", "host", "pinned"};
  return kNames[static_cast<int>(space)];
}

bool IsIdentifier(std::string_view name) {
  if (name.empty() || !(std::isalpha(static_cast<unsigned char>(name[0])) || name[0] == '_')) {
    return false;
  }
  for (size_t i = 0; i < name.size(); ++i) {
    unsigned char c = name[i];
    if (std::isalnum(c) || c == '_' || c == '$') continue;
    // A dot or minus only between other characters, so that "a..b" stays a range.
    bool inside = i + 1 < name.size() && std::isalnum(static_cast<unsigned char>(name[i + 1]));
    if ((c != '.' && c != '-') || !inside) return false;
  }
  return true;
}

void AppendName(std::string& out, std::string_view name) {
  if (IsIdentifier(name)) {
    out.append(name);
  } else {
    AppendQuoted(out, name);
  }
}

namespace {

void AppendHexBytes(std::string& out, const std::byte* data, int64_t n) {
  static constexpr char kDigits[] = "0123456789abcdef";
  out.append("hex \"");
  for (int64_t i = 0; i < n; ++i) {
    out.push_back(kDigits[std::to_integer<int>(data[i]) >> 4]);
    out.push_back(kDigits[std::to_integer<int>(data[i]) & 15]);
  }
  out.push_back('"');
}

// A double that does not read as an integer.
void AppendAttrDouble(std::string& out, double value) {
  std::string text;
  AppendDouble(text, value);
  if (text.find_first_not_of("-0123456789") == text.npos) text.append(".0");
  out.append(text);
}

void AppendAttr(std::string& out, const Attr& attr) {
  AppendName(out, attr.name);
  out.append(" = ");
  if (auto* b = std::get_if<bool>(&attr.value)) StrAppend(out, *b);
  if (auto* i = std::get_if<int64_t>(&attr.value)) StrAppend(out, *i);
  if (auto* d = std::get_if<double>(&attr.value)) AppendAttrDouble(out, *d);
  if (auto* s = std::get_if<std::string>(&attr.value)) AppendQuoted(out, *s);
  if (auto* list = std::get_if<std::vector<int64_t>>(&attr.value)) {
    StrAppend(out, "[", StrJoin(*list, ", "), "]");
  }
}

void AppendBuffer(std::string& out, const Program& program, const Buffer& buffer) {
  out.append("buffer ");
  AppendName(out, buffer.name);
  StrAppend(out, ": ", buffer.shape, buffer.packed ? " packed" : "");
  switch (buffer.kind) {
    case BufferKind::kTemp: out.append(" temp"); break;
    case BufferKind::kParameter: StrAppend(out, " parameter ", buffer.index); break;
    case BufferKind::kResult: StrAppend(out, " result ", buffer.index); break;
    case BufferKind::kConstant:
      out.append(" constant ");
      AppendLiteral(out, buffer.value);
      break;
  }
  if (buffer.size_of >= 0) StrAppend(out, " size ", buffer.size_dim, " of ", buffer.size_of);
  if (buffer.donation == Donation::kMay) out.append(" donate");
  if (buffer.donation == Donation::kMust) out.append(" must_donate");
  if (buffer.base >= 0) {
    out.append(" in ");
    AppendName(out, program.buffers[buffer.base].name);
    StrAppend(out, " at ", buffer.offset);
  }
  if (buffer.space != MemorySpace::kDevice) StrAppend(out, " space ", Name(buffer.space));
  if (buffer.align != 64) StrAppend(out, " align ", buffer.align);
  out.push_back('\n');
}

class StepPrinter {
 public:
  StepPrinter(std::string& out, const Program& program) : out_(out), program_(program) {}

  void Steps(const std::vector<Step>& steps) {
    ++depth_;
    for (const Step& step : steps) Print(step);
    --depth_;
  }

 private:
  void Indent() { out_.append(static_cast<size_t>(depth_) * 2, ' '); }

  void Print(const Step& step) {
    Indent();
    if (!step.event.empty()) {
      out_.append("async ");
      AppendName(out_, step.event);
      out_.push_back(' ');
    }
    if (!step.name.empty()) {
      // In quotes if it could be read as the end of the step before.
      static constexpr std::string_view kWords[] = {
          "async", "channel", "do", "effects", "else", "groups", "op", "pairs", "source", "stream"};
      bool word = std::find(std::begin(kWords), std::end(kWords), step.name) != std::end(kWords);
      word ? AppendQuoted(out_, step.name) : AppendName(out_, step.name);
      out_.append(": ");
    }
    std::visit([&](const auto& op) { Head(step, op); }, step.op);
    if (step.stream != 0) StrAppend(out_, " stream ", step.stream);
    if (!step.source.empty()) {
      out_.append(" source ");
      AppendQuoted(out_, step.source);
    }
    if (!step.op_name.empty()) {
      out_.append(" op ");
      AppendQuoted(out_, step.op_name);
    }
    std::visit([&](const auto& op) { Bodies(op); }, step.op);
    out_.push_back('\n');
  }

  void Uses(const Step& step) {
    out_.push_back('(');
    for (size_t i = 0; i < step.uses.size(); ++i) {
      StrAppend(out_, i > 0 ? ", " : "", Name(step.uses[i].access), " ");
      AppendSlice(out_, program_, step.uses[i].slice);
      if (step.uses[i].depth != 0) StrAppend(out_, " depth ", step.uses[i].depth);
    }
    out_.push_back(')');
  }

  void Head(const Step& step, const KernelStep& op) {
    out_.append("launch ");
    AppendName(out_, program_.kernels[op.kernel].name);
    Uses(step);
  }
  void Head(const Step& step, const CopyStep&) {
    out_.append("copy");
    Uses(step);
  }
  void Head(const Step& step, const FillStep& op) {
    out_.append("fill");
    Uses(step);
    out_.push_back(' ');
    AppendHexBytes(out_, op.pattern.data(), static_cast<int64_t>(op.pattern.size()));
  }
  void Head(const Step& step, const LibraryStep& op) {
    out_.append("call ");
    AppendQuoted(out_, op.routine);
    Uses(step);
    if (!op.attrs.empty()) {
      out_.append(" {");
      for (size_t i = 0; i < op.attrs.size(); ++i) {
        if (i > 0) out_.append(", ");
        AppendAttr(out_, op.attrs[i]);
      }
      out_.push_back('}');
    }
    if (op.has_effects) out_.append(" effects");
  }
  void Head(const Step& step, const CollectiveStep& op) {
    StrAppend(out_, "collective ", Name(op.kind));
    bool reduces =
        op.kind == CollectiveKind::kAllReduce || op.kind == CollectiveKind::kReduceScatter;
    if (reduces) StrAppend(out_, " ", Name(op.reduce));
    Uses(step);
    if (!op.groups.empty()) {
      out_.append(op.kind == CollectiveKind::kPermute ? " pairs [" : " groups [");
      for (size_t i = 0; i < op.groups.size(); ++i) {
        StrAppend(out_, i > 0 ? ", [" : "[", StrJoin(op.groups[i], ", "), "]");
      }
      out_.push_back(']');
    }
    if (op.channel != 0) StrAppend(out_, " channel ", op.channel);
  }
  void Head(const Step& step, const SendStep& op) {
    out_.append("send");
    Uses(step);
    StrAppend(out_, " channel ", op.channel);
  }
  void Head(const Step& step, const RecvStep& op) {
    out_.append("recv");
    Uses(step);
    StrAppend(out_, " channel ", op.channel);
  }
  void Head(const Step&, const WaitStep& op) {
    out_.append("wait ");
    AppendName(out_, op.event);
  }
  void Head(const Step& step, const WhileStep& op) {
    out_.append("while");
    Uses(step);
    if (op.trip_count) StrAppend(out_, " trips ", *op.trip_count);
    if (op.count_step != 0) StrAppend(out_, " counts ", op.count_step);
    if (op.count_limit) StrAppend(out_, " below ", *op.count_limit);
    if (op.region) PrintRegion(*op.region);
  }
  void Head(const Step& step, const ConditionalStep&) {
    bool pred = !step.uses.empty() &&
                program_.buffers[step.uses[0].slice.buffer].shape.dtype() == DType::kPred;
    out_.append(pred ? "if" : "switch");
    Uses(step);
  }

  void Head(const Step&, const ListStep& op) {
    out_.append("steps");
    if (op.thread.empty()) return;
    out_.append(" thread ");
    AppendQuoted(out_, op.thread);
  }

  void PrintRegion(const Region& region) {
    std::string_view between = "";
    auto buffer = [&](std::string_view how, BufferId id) {
      StrAppend(out_, between, how, " ");
      AppendName(out_, program_.buffers[id].name);
      between = ", ";
    };
    out_.append(" region(");
    for (const RegionLocal& local : region.locals) {
      buffer(local.copy_in    ? local.copy_out ? "inout" : "in"
             : local.copy_out ? "out"
                              : "local",
             local.buffer);
    }
    for (BufferId id : region.constants) buffer("constant", id);
    out_.push_back(')');
    if (region.prologue != 0) StrAppend(out_, " prologue ", region.prologue);
  }

  template <class T>
  void Bodies(const T&) {}
  void Body(std::string_view keyword, const std::vector<Step>& steps) {
    StrAppend(out_, " ", keyword, keyword.empty() ? "{\n" : " {\n");
    Steps(steps);
    Indent();
    out_.push_back('}');
  }
  void Bodies(const WhileStep& op) {
    Body("", op.condition);
    Body("do", op.body);
  }
  void Bodies(const ConditionalStep& op) {
    for (size_t i = 0; i < op.branches.size(); ++i) Body(i == 0 ? "" : "else", op.branches[i]);
  }
  void Bodies(const ListStep& op) { Body("", op.steps); }

  std::string& out_;
  const Program& program_;
  int depth_ = 0;
};

}  // namespace

void AppendSlice(std::string& out, const Program& program, const Slice& slice) {
  const Buffer& buffer = program.buffers[slice.buffer];
  AppendName(out, buffer.name);
  if (slice.offset == 0 && slice.size == ByteSize(buffer)) return;
  StrAppend(out, "[", slice.offset, "..", slice.offset + slice.size, "]");
}

void AppendLiteral(std::string& out, const Literal& literal) {
  constexpr int64_t kListed = 64;
  DType dtype = literal.dtype();
  bool listed = literal.size() <= kListed && !IsComplex(dtype);
  std::string list = "{";
  for (int64_t i = 0; listed && i < literal.size(); ++i) {
    if (i > 0) list.append(", ");
    if (!IsFloat(dtype)) {
      int64_t value = literal.GetInt(i);
      if (dtype == DType::kU64) {
        StrAppend(list, static_cast<uint64_t>(value));
      } else {
        StrAppend(list, value);
      }
      continue;
    }
    double value = literal.GetDouble(i);
    Literal again(Shape::Scalar(dtype));
    again.SetDouble(0, value);
    const std::byte* bits = literal.data() + i * ByteWidth(dtype);
    listed = std::equal(bits, bits + ByteWidth(dtype), again.data());
    if (dtype == DType::kF64) {
      AppendDouble(list, value);
    } else {
      AppendFloat(list, static_cast<float>(value));
    }
  }
  if (listed) {
    StrAppend(out, list, "}");
  } else {
    AppendHexBytes(out, literal.data(), literal.byte_size());
  }
}

std::string Print(const Kernel& kernel) {
  std::string out;
  AppendKernel(out, kernel);
  return out;
}

std::string Print(const Program& program) {
  std::string out = "program ";
  AppendName(out, program.name);
  out.push_back('\n');
  if (program.devices != 1) StrAppend(out, "devices ", program.devices, "\n");
  if (program.flush_subnormals) out.append("flush_subnormals\n");
  for (const Buffer& buffer : program.buffers) AppendBuffer(out, program, buffer);
  for (const Kernel& kernel : program.kernels) {
    out.push_back('\n');
    AppendKernel(out, kernel);
  }
  out.append("\nsteps {\n");
  StepPrinter(out, program).Steps(program.steps);
  out.append("}\n");
  return out;
}

}  // namespace weft::program
