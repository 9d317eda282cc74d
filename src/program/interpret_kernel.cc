#include <algorithm>
#include <bit>
#include <cstring>

#include "base/elements.h"
#include "base/str.h"
#include "program/combine.h"
#include "program/interpret.h"
#include "program/races.h"

namespace weft::program::detail {

Status Budget::Spend(int64_t n) {
  if (n > instructions) return ResourceExhausted("interpreter: too many instructions");
  instructions -= n;
  if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) {
    return MakeError(Code::kCancelled, "interpreter: cancelled");
  }
  return {};
}

Status Budget::Reserve(int64_t n) {
  if (n > bytes) return ResourceExhausted("interpreter: out of memory, ", n, " bytes wanted");
  bytes -= n;
  return {};
}

namespace {

class KernelRunner {
 public:
  KernelRunner(const Kernel& kernel, Budget& budget, bool check_races)
      : kernel_(kernel), budget_(budget), races_(kernel, check_races) {}

  Status Run(std::span<const std::span<std::byte>> params) {
    memory_.assign(params.begin(), params.end());
    memory_.resize(kernel_.memories.size());
    arrays_.resize(kernel_.memories.size());
    AssignCells();
    blocks_ = MatchBlocks(kernel_);
    for (size_t pc = 0; pc < kernel_.code.size();) {
      TRY(budget_.Spend(1));
      pc = TRY(Execute(pc));
    }
    for (const std::vector<std::byte>& array : arrays_) {
      budget_.bytes += static_cast<int64_t>(array.size());
    }
    return {};
  }

 private:
  struct Frame {
    size_t open;
    int64_t counter = 0, end = 0, step = 0;
  };

  void AssignCells() {
    cell_of_.resize(kernel_.values.size());
    size_t n = 0;
    for (size_t i = 0; i < kernel_.values.size(); ++i) {
      cell_of_[i] = n;
      n += static_cast<size_t>(kernel_.values[i].type.lanes);
    }
    cells_.resize(n);
    for (size_t i = 0; i < kernel_.values.size(); ++i) {
      const Value& value = kernel_.values[i];
      if (value.is_constant) std::fill_n(&cells_[cell_of_[i]], value.type.lanes, value.bits);
    }
  }

  uint64_t* Cells(ValueId id) { return &cells_[cell_of_[id]]; }
  int64_t IntOf(ValueId id) { return static_cast<int64_t>(*Cells(id)); }

  template <class To, class From>
  void Assign(const To& to, const From& from, size_t skip_to = 0, size_t skip_from = 0) {
    // Read everything first: a loop may yield its carried values in another order.
    moved_.clear();
    for (size_t i = skip_from; i < from.size(); ++i) {
      moved_.insert(moved_.end(), Cells(from[i]), Cells(from[i]) + kernel_.type(from[i]).lanes);
    }
    const uint64_t* next = moved_.data();
    for (size_t i = skip_to; i < to.size(); ++i) {
      int lanes = kernel_.type(to[i]).lanes;
      std::copy_n(next, lanes, Cells(to[i]));
      next += lanes;
    }
  }

  // Returns the next instruction.
  Result<size_t> Execute(size_t pc) {
    const Instr& instr = kernel_.code[pc];
    switch (instr.op) {
      case Op::kLoop: return EnterLoop(pc, instr);
      case Op::kIf: {
        frames_.push_back({pc});
        if (*Cells(instr.args[0])) return pc + 1;
        if (blocks_.else_at[pc] != 0) return blocks_.else_at[pc] + 1;
        frames_.pop_back();
        return blocks_.end_at[pc] + 1;
      }
      case Op::kElse: {
        size_t end = blocks_.end_at[frames_.back().open];
        Assign(kernel_.code[end].results, instr.args);
        frames_.pop_back();
        return end + 1;
      }
      case Op::kEnd: return LeaveBlock(pc, instr);
      case Op::kArray: TRY(MakeArray(instr)); break;
      case Op::kLoad: TRY(RunLoad(instr)); break;
      case Op::kStore: TRY(RunStore(instr)); break;
      case Op::kAtomic: TRY(RunAtomic(instr)); break;
      default: Compute(instr);
    }
    return pc + 1;
  }

  size_t EnterLoop(size_t pc, const Instr& instr) {
    Frame frame{pc, IntOf(instr.args[0]), IntOf(instr.args[1]), IntOf(instr.args[2])};
    const Instr& end = kernel_.code[blocks_.end_at[pc]];
    if (frame.counter >= frame.end) {
      Assign(end.results, instr.args, 0, 3);
      return blocks_.end_at[pc] + 1;
    }
    Assign(instr.results, instr.args, 1, 3);
    *Cells(instr.results[0]) = static_cast<uint64_t>(frame.counter);
    frames_.push_back(frame);
    if (IsConcurrent(instr.loop)) races_.BeginLoop(frame.counter);
    return pc + 1;
  }

  size_t LeaveBlock(size_t pc, const Instr& instr) {
    Frame& frame = frames_.back();
    const Instr& open = kernel_.code[frame.open];
    bool loop = open.op == Op::kLoop;
    uint64_t left = static_cast<uint64_t>(frame.end) - static_cast<uint64_t>(frame.counter);
    if (loop && static_cast<uint64_t>(frame.step) < left) {
      frame.counter += frame.step;
      Assign(open.results, instr.args, 1);
      *Cells(open.results[0]) = static_cast<uint64_t>(frame.counter);
      if (IsConcurrent(open.loop)) races_.NextIteration(frame.counter);
      return frame.open + 1;
    }
    if (loop && IsConcurrent(open.loop)) races_.EndLoop();
    Assign(instr.results, instr.args);
    frames_.pop_back();
    return pc + 1;
  }

  void Compute(const Instr& instr) {
    uint64_t* out = Cells(instr.results[0]);
    int lanes = instr.type.lanes;
    if (instr.op == Op::kIota) {
      for (int i = 0; i < lanes; ++i) out[i] = static_cast<uint64_t>(i);
      return;
    }
    const uint64_t* a = Cells(instr.args[0]);
    if (instr.op == Op::kSplat) {
      std::fill_n(out, lanes, *a);
      return;
    }
    DType from = kernel_.type(instr.args[0]).dtype;
    const uint64_t* b = instr.args.size() > 1 ? Cells(instr.args[1]) : a;
    if (instr.op == Op::kExtract || instr.op == Op::kShuffle) {
      int width = kernel_.type(instr.args[0]).lanes;
      for (int i = 0; i < lanes; ++i) {
        int lane = instr.lanes[i];
        out[i] = lane < width ? a[lane] : b[lane - width];
      }
      return;
    }
    if (instr.op == Op::kAny) {
      int width = kernel_.type(instr.args[0]).lanes;
      *out = std::any_of(a, a + width, [](uint64_t lane) { return lane != 0; });
      return;
    }
    const uint64_t* c = instr.args.size() > 2 ? Cells(instr.args[2]) : a;
    bool same = kernel_.type(instr.args[0]).lanes == 1;  // a condition for all lanes
    for (int i = 0; i < lanes; ++i) out[i] = EvalLane(instr, from, a[same ? 0 : i], b[i], c[i]);
  }

  Status MakeArray(const Instr& instr) {
    const Memory& m = kernel_.memories[instr.memory];
    int64_t bytes = m.count * ByteWidth(m.dtype);
    if (m.per_thread && __builtin_mul_overflow(bytes, Extents(kernel_).threads, &bytes)) {
      bytes = INT64_MAX;
    }
    std::vector<std::byte>& array = arrays_[instr.memory];
    if (array.empty()) TRY(budget_.Reserve(bytes));
    TRY(budget_.Spend(bytes / 64));
    array.assign(static_cast<size_t>(bytes), std::byte{0xcd});
    memory_[instr.memory] = array;
    races_.NewArray(instr.memory);
    return {};
  }

  // Number of the thread that runs, through the nested thread loops.
  int64_t Thread() const {
    int64_t thread = 0;
    for (const Frame& frame : frames_) {
      const Instr& open = kernel_.code[frame.open];
      if (open.op != Op::kLoop || open.loop != LoopKind::kThread) continue;
      int64_t begin = kernel_.value(open.args[0]).AsInt();
      thread = thread * *TripCount(kernel_, open) + (frame.counter - begin) / frame.step;
    }
    return thread;
  }

  // The element that a lane accesses, checked; -1 if its mask is off.
  Result<int64_t> ElementOf(const Instr& instr, int lane) {
    size_t mask = instr.op == Op::kLoad ? 1 : 2;
    if (instr.args.size() > mask && !Cells(instr.args[mask])[lane]) return -1;
    bool gather = kernel_.type(instr.args[0]).lanes > 1;
    int64_t index = static_cast<int64_t>(Cells(instr.args[0])[gather ? lane : 0]);
    const Memory& m = kernel_.memories[instr.memory];
    int64_t element = index;
    bool wraps = !gather && __builtin_add_overflow(index, lane, &element);
    if (wraps || element < 0 || element >= m.count) {
      return InvalidArgument("kernel ", kernel_.name, ": ", Name(instr.op), " of element ", element,
                             " of '", m.name, "', which has ", m.count);
    }
    bool first = gather || lane == 0;
    if (first && instr.align > 1 && (element * ByteWidth(m.dtype)) % instr.align != 0) {
      return InvalidArgument("kernel ", kernel_.name, ": ", Name(instr.op), " of element ", element,
                             " of '", m.name, "' is not aligned to ", instr.align);
    }
    if (m.per_thread) element += Thread() * m.count;
    if (instr.op == Op::kAtomic) {
      TRY(races_.TouchAtomic(instr.memory, element, instr.atomic));
    } else {
      TRY(races_.Touch(instr.memory, element, instr.op == Op::kStore));
    }
    return element;
  }

  Status RunLoad(const Instr& instr) {
    DType dtype = kernel_.memories[instr.memory].dtype;
    for (int i = 0; i < instr.type.lanes; ++i) {
      uint64_t& out = Cells(instr.results[0])[i];
      int64_t element = TRY(ElementOf(instr, i));
      out = 0;
      if (element < 0) continue;
      const std::byte* at = memory_[instr.memory].data() + element * ByteWidth(dtype);
      if (instr.type.dtype == DType::kF64) {
        std::memcpy(&out, at, 8);
      } else if (instr.type.dtype == DType::kF32) {
        float value;
        LoadF32(dtype, at, 1, &value);
        out = std::bit_cast<uint64_t>(static_cast<double>(value));
      } else if (dtype == DType::kPred) {
        out = *at != std::byte{0};  // any byte: memory may be uninitialised
      } else {
        LoadI64(dtype, at, 1, reinterpret_cast<int64_t*>(&out));
      }
    }
    return {};
  }

  Status RunStore(const Instr& instr) {
    DType dtype = kernel_.memories[instr.memory].dtype;
    for (int i = 0; i < instr.type.lanes; ++i) {
      int64_t element = TRY(ElementOf(instr, i));
      if (element < 0) continue;
      uint64_t bits = Cells(instr.args[1])[i];
      std::byte* at = memory_[instr.memory].data() + element * ByteWidth(dtype);
      if (instr.type.dtype == DType::kF64) {
        std::memcpy(at, &bits, 8);
      } else if (instr.type.dtype == DType::kF32) {
        float value = static_cast<float>(std::bit_cast<double>(bits));
        StoreF32(dtype, &value, 1, at);
      } else {
        int64_t value = static_cast<int64_t>(bits);
        StoreI64(dtype, &value, 1, at);
      }
    }
    return {};
  }

  Status RunAtomic(const Instr& instr) {
    int64_t element = TRY(ElementOf(instr, 0));
    if (element < 0) return {};
    DType dtype = kernel_.memories[instr.memory].dtype;
    std::byte* at = memory_[instr.memory].data() + element * ByteWidth(dtype);
    int64_t now;
    LoadI64(dtype, at, 1, &now);
    Instr op;
    op.op = instr.atomic;
    op.type = instr.type;
    int64_t next = static_cast<int64_t>(
        EvalLane(op, dtype, static_cast<uint64_t>(now), *Cells(instr.args[1]), 0));
    StoreI64(dtype, &next, 1, at);
    return {};
  }

  const Kernel& kernel_;
  Budget& budget_;
  RaceDetector races_;
  std::vector<std::span<std::byte>> memory_;
  std::vector<std::vector<std::byte>> arrays_;
  std::vector<size_t> cell_of_;
  Blocks blocks_;
  std::vector<uint64_t> cells_, moved_;
  std::vector<Frame> frames_;
};

}  // namespace

Status RunKernel(const Kernel& kernel, std::span<const std::span<std::byte>> params, Budget& budget,
                 bool check_races) {
  if (!HasCombine(kernel)) return KernelRunner(kernel, budget, check_races).Run(params);
  Kernel plain = ExpandCombines(kernel);
  return KernelRunner(plain, budget, check_races).Run(params);
}

}  // namespace weft::program::detail
