#include "gpu/native_loop.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "program/cost.h"

namespace weft::gpu {
namespace {

using program::BufferId;
using program::BufferKind;
using program::Kernel;
using program::Program;
using program::Slice;
using program::Step;

constexpr int64_t kThreadCopyBytes = 64;  // copies of less are one thread's
// Of buffers that are kept close: in registers (or the stack) of the only thread, or in shared
// memory.
constexpr int64_t kOwnBytes = 512, kOwnBytesInAll = 4096;
constexpr int64_t kSharedBytes = 4096, kSharedBytesInAll = 16384;

template <class Op>
bool Is(const Step& step) {
  return std::holds_alternative<Op>(step.op);
}

// Bytes [begin, end) of a buffer.
struct ByteRange {
  int64_t begin, end;
};
using WrittenBytes = std::map<BufferId, std::vector<ByteRange>>;

// What steps may have written when a loop begins: what comes before it, and, where it is part of
// another loop, all of that one.
class WrittenBefore {
 public:
  WrittenBefore(const Program& program, const Step& loop) : program_(program), loop_(loop) {
    Walk(program.steps);
    for (auto& [id, ranges] : written_) ranges = Joined(std::move(ranges));
  }
  WrittenBytes Take() { return std::move(written_); }

 private:
  // Whether the loop is among the steps.
  bool Walk(const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      if (&step == &loop_) return true;
      auto* outer = std::get_if<program::WhileStep>(&step.op);
      bool inside = false;
      if (outer != nullptr && Contains(*outer)) {
        ForEachStep(outer->condition, [&](const Step& s) { Note(s); });
        ForEachStep(outer->body, [&](const Step& s) { Note(s); });
        return true;
      }
      if (auto* branches = std::get_if<program::ConditionalStep>(&step.op)) {
        for (const auto& branch : branches->branches) inside = Walk(branch) || inside;
      } else if (auto* list = std::get_if<program::ListStep>(&step.op)) {
        inside = Walk(list->steps);
      } else if (outer != nullptr) {
        Walk(outer->condition);
        Walk(outer->body);
      }
      if (inside) return true;
      Note(step);
    }
    return false;
  }
  bool Contains(const program::WhileStep& outer) const {
    bool found = false;
    auto look = [&](const Step& step) { found = found || &step == &loop_; };
    ForEachStep(outer.condition, look);
    ForEachStep(outer.body, look);
    return found;
  }
  void Note(const Step& step) {
    for (const program::Use& use : step.uses) {
      if (!Writes(use.access)) continue;
      Slice slice = Resolve(program_, use.slice);
      written_[slice.buffer].push_back({slice.offset, slice.offset + slice.size});
    }
  }
  static std::vector<ByteRange> Joined(std::vector<ByteRange> ranges) {
    std::ranges::sort(ranges, {}, &ByteRange::begin);
    std::vector<ByteRange> joined;
    for (const ByteRange& range : ranges) {
      if (joined.empty() || range.begin > joined.back().end) {
        joined.push_back(range);
      } else {
        joined.back().end = std::max(joined.back().end, range.end);
      }
    }
    return joined;
  }

  const Program& program_;
  const Step& loop_;
  WrittenBytes written_;
};

class LoopRenderer {
 public:
  LoopRenderer(const Program& program, const Step& loop) : program_(program), loop_(loop) {}

  CudaFunction Render(std::string name, std::string& out) {
    function_.name = std::move(name);
    function_.loop = &loop_;
    CountThreads();
    PlaceBuffers();
    std::string parameters;
    for (BufferId id : function_.buffers) {
      StrAppend(parameters, parameters.empty() ? "" : ", ", "u8* __restrict__ ",
                close_.contains(id) ? "o" : "b", id);
    }
    text_.Open("extern \"C\" __global__ void __launch_bounds__(", threads_, ") ", function_.name,
               "(", parameters, ") {");
    DeclareClose();
    RenderWhile(loop_);
    CopyClose(false);
    text_.Close();
    out += text_.text();
    function_.launch.threads = threads_;
    return std::move(function_);
  }

 private:
  struct Close {
    std::vector<ByteRange> copy_in;  // what is there before the loop: the rest is nobody's
    std::vector<ByteRange> copy_out;
  };

  template <class Fn>
  void ForLoop(const Fn& fn) const {
    fn(loop_);
    const auto& op = std::get<program::WhileStep>(loop_.op);
    ForEachStep(op.condition, fn);
    ForEachStep(op.body, fn);
  }

  int64_t BytesOf(BufferId id) const { return *ByteSize(program_.buffers[id]); }

  void CountThreads() {
    ForLoop([&](const Step& step) {
      int64_t wanted = 1;
      if (auto* launch = std::get_if<program::KernelStep>(&step.op)) {
        const Kernel& kernel = program_.kernels[launch->kernel];
        int64_t grid = std::max<int64_t>(GridSize(kernel), 1);
        wanted = HasThreadLoops(kernel) ? Extents(kernel).threads : std::min(grid, kLoopThreads);
      } else if ((Is<program::CopyStep>(step) || Is<program::FillStep>(step)) &&
                 step.uses[0].slice.size > kThreadCopyBytes) {
        wanted = std::min(step.uses[0].slice.size, kLoopThreads);
      }
      threads_ = std::max(threads_, wanted);
    });
    // Few iterations are sooner done than shared.
    if (threads_ > 1) threads_ = (threads_ + 31) / 32 * 32;
  }

  // Which buffers the loop uses, and which of them it keeps close.
  void PlaceBuffers() {
    std::vector<int> inside(program_.buffers.size()), all(program_.buffers.size());
    WrittenBytes written, before = WrittenBefore(program_, loop_).Take();
    auto count = [&](const Step& step, std::vector<int>& counts) {
      for (const program::Use& use : step.uses) ++counts[Resolve(program_, use.slice).buffer];
    };
    ForEachStep(program_.steps, [&](const Step& step) { count(step, all); });
    ForLoop([&](const Step& step) {
      count(step, inside);
      for (const program::Use& use : step.uses) {
        Slice slice = Resolve(program_, use.slice);
        if (Writes(use.access)) {
          written[slice.buffer].push_back({slice.offset, slice.offset + slice.size});
        }
      }
    });
    int64_t in_all = 0, one = threads_ == 1 ? kOwnBytes : kSharedBytes;
    int64_t most = threads_ == 1 ? kOwnBytesInAll : kSharedBytesInAll;
    for (size_t i = 0; i < inside.size(); ++i) {
      if (inside[i] == 0) continue;
      BufferId id = static_cast<BufferId>(i);
      int64_t bytes = BytesOf(id);
      bool outside = program_.buffers[i].kind != BufferKind::kTemp || all[i] > inside[i];
      if (bytes > 0 && bytes <= one && in_all + bytes <= most) {
        in_all += (bytes + 15) / 16 * 16;
        close_[id] = CopiesOf(id, outside, before[id], written.contains(id));
      }
      if (outside || !close_.contains(id)) function_.buffers.push_back(id);
    }
  }

  // All of a buffer that others fill; of one that the program writes, what it has written by then.
  // What is copied out is what has a value at the end, whichever rounds there were.
  Close CopiesOf(BufferId id, bool outside, const std::vector<ByteRange>& before,
                 bool written) const {
    if (!outside) return {};
    const program::Buffer& buffer = program_.buffers[id];
    std::vector<ByteRange> all = {{0, BytesOf(id)}};
    bool given = buffer.kind == BufferKind::kParameter || buffer.kind == BufferKind::kConstant;
    return {given ? all : before, written ? all : std::vector<ByteRange>()};
  }

  void DeclareClose() {
    for (const auto& [id, how] : close_) {
      text_.Line(threads_ > 1 ? "__shared__ " : "", "alignas(16) u8 b", id, "[", BytesOf(id), "];");
    }
    CopyClose(true);
  }
  void CopyClose(bool in) {
    if (!in) Flush();
    for (const auto& [id, how] : close_) {
      for (const ByteRange& range : in ? how.copy_in : how.copy_out) {
        std::string at = range.begin == 0 ? "" : StrCat(" + ", range.begin);
        std::string near = StrCat("(b", id, at, ")"), far = StrCat("(o", id, at, ")");
        CopyBytes(in ? near : far, in ? far : near, range.end - range.begin,
                  BytesOf(id) >= 64 ? range.begin : 1);
      }
    }
    if (in) Flush();
  }

  // Among steps: what one thread did may be followed by more of that thread; anything else waits.
  enum class Pending { kNone, kThread0, kAll };
  void Flush() {
    if (pending_ != Pending::kNone && threads_ > 1) text_.Line("__syncthreads();");
    pending_ = Pending::kNone;
  }
  void BeginThread0() {
    if (pending_ == Pending::kAll) Flush();
    pending_ = Pending::kThread0;
  }
  void BeginAll() {
    Flush();
    pending_ = Pending::kAll;
  }

  std::string Address(const program::Use& use) const {
    Slice slice = Resolve(program_, use.slice);
    return slice.offset == 0 ? StrCat("b", slice.buffer)
                             : StrCat("(b", slice.buffer, " + ", slice.offset, ")");
  }

  // Elements of 8 bytes where all addresses are multiples, else of less.
  static std::string_view UnitFor(int64_t bits) {
    return bits % 8 == 0 ? "u64" : bits % 4 == 0 ? "u32" : bits % 2 == 0 ? "u16" : "u8";
  }
  static int64_t WidthOf(std::string_view unit) {
    return unit == "u64" ? 8 : unit == "u32" ? 4 : unit == "u16" ? 2 : 1;
  }

  // `to[i] = value` for all units.
  void ForUnits(int64_t bytes, std::string_view unit, const std::string& statement) {
    int64_t count = bytes / WidthOf(unit);
    bool alone = bytes <= kThreadCopyBytes || threads_ == 1;
    alone ? BeginThread0() : BeginAll();
    if (!alone) {
      text_.Line("for (u32 i = threadIdx.x; i < ", count, "u; i += ", threads_, ") ", statement);
      return;
    }
    if (threads_ > 1) text_.Open("if (threadIdx.x == 0) {");
    if (count == 1) {
      text_.Line("{ const u32 i = 0; ", statement, " }");
    } else {
      text_.Line("for (u32 i = 0; i < ", count, "u; ++i) ", statement);
    }
    if (threads_ > 1) text_.Close();
  }

  // Whether the address is a multiple of 16: buffers of a few bytes elsewhere are aligned to their
  // elements alone.
  bool IsAligned(BufferId id) const { return close_.contains(id) || BytesOf(id) >= 64; }

  void CopyBytes(const std::string& to, const std::string& from, int64_t bytes, int64_t offsets) {
    std::string_view unit = UnitFor(bytes | offsets);
    ForUnits(bytes, unit,
             StrCat("((", unit, "*)", to, ")[i] = ((const ", unit, "*)", from, ")[i];"));
  }

  void RenderSteps(const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      std::visit([&](const auto& op) { RenderStep(step, op); }, step.op);
    }
  }

  void RenderStep(const Step& step, const program::KernelStep& op) {
    const Kernel& kernel = program_.kernels[op.kernel];
    if (GridSize(kernel) == 0) return;
    bool alone = !HasThreadLoops(kernel) && Extents(kernel).grid.empty();
    alone ? BeginThread0() : BeginAll();
    text_.Open("{  // ", CudaName("", kernel.name));
    for (size_t i = 0; i < step.uses.size(); ++i) {
      const program::Memory& m = kernel.memories[i];
      text_.Line(CudaStorageType(m.dtype), "* m", i, " = (", CudaStorageType(m.dtype), "*)",
                 Address(step.uses[i]), ";");
    }
    RenderInBlock(kernel, threads_, text_);
    text_.Close();
  }

  void RenderStep(const Step& step, const program::CopyStep&) {
    if (step.uses[0].slice.size == 0) return;
    Slice from = Resolve(program_, step.uses[0].slice), to = Resolve(program_, step.uses[1].slice);
    bool aligned = IsAligned(from.buffer) && IsAligned(to.buffer);
    CopyBytes(Address(step.uses[1]), Address(step.uses[0]), to.size,
              aligned ? from.offset | to.offset : 1);
  }

  void RenderStep(const Step& step, const program::FillStep& op) {
    int64_t bytes = step.uses[0].slice.size;
    if (bytes == 0) return;
    // The bytes of the pattern as a table.
    std::string pattern;
    for (std::byte b : op.pattern) {
      StrAppend(pattern, pattern.empty() ? "" : ", ", static_cast<int>(b));
    }
    std::string to = Address(step.uses[0]);
    size_t width = op.pattern.size();
    if (width == 1) return ForUnits(bytes, "u8", StrCat(to, "[i] = ", pattern, ";"));
    ForUnits(bytes, "u8",
             StrCat("{ const u8 p[] = {", pattern, "}; ", to, "[i] = p[i % ", width, "]; }"));
  }

  void RenderStep(const Step&, const program::WaitStep&) {}
  void RenderStep(const Step& step, const program::WhileStep&) { RenderWhile(step); }

  // Native loops have no other steps.
  template <class Op>
  void RenderStep(const Step& step, const Op&) {
    CHECK(false) << KindName(step);
  }

  // A byte or number that all threads read, before any may overwrite it.
  std::string ReadByAll(const Step& step, std::string_view type) {
    Flush();
    std::string name = StrCat("c", next_name_++);
    text_.Line("const ", type, " ", name, " = *(const ", type, "*)", Address(step.uses[0]), ";");
    if (threads_ > 1) text_.Line("__syncthreads();");
    return name;
  }

  void RenderWhile(const Step& step) {
    const auto& op = std::get<program::WhileStep>(step.op);
    Flush();
    text_.Open("for (;;) {");
    RenderSteps(op.condition);
    text_.Line("if (", ReadByAll(step, "u8"), " == 0) break;");
    RenderSteps(op.body);
    Flush();
    text_.Close();
  }

  void RenderStep(const Step& step, const program::ConditionalStep& op) {
    bool is_pred = step.uses[0].slice.size == 1;
    std::string which = ReadByAll(step, is_pred ? "u8" : "s32");
    for (size_t i = 0; i < op.branches.size(); ++i) {
      bool last = i + 1 == op.branches.size();
      std::string condition =
          is_pred ? StrCat(which, i == 0 ? " != 0" : " == 0")
                  : (last ? StrCat(which, " < 0 || ", which, " >= ", i) : StrCat(which, " == ", i));
      text_.Open("if (", condition, ") {");
      RenderSteps(op.branches[i]);
      Flush();
      text_.Close();
    }
  }

  const Program& program_;
  const Step& loop_;
  CudaFunction function_;
  int64_t threads_ = 1;
  std::map<BufferId, Close> close_;
  Pending pending_ = Pending::kNone;
  int next_name_ = 0;
  CudaText text_;
};

}  // namespace

CudaFunction RenderNativeLoop(const Program& program, const Step& loop, std::string name,
                              std::string& out) {
  return LoopRenderer(program, loop).Render(std::move(name), out);
}

}  // namespace weft::gpu
