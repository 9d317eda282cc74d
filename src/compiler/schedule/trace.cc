#include "compiler/schedule/trace.h"

#include <algorithm>
#include <memory>
#include <span>
#include <unordered_map>

#include "program/work_bounds.h"

namespace weft::compiler::schedule {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

constexpr size_t kMostOps = program::WorkBounds::kModule;  // of one trace, some 400 bytes each

// An array or token, a tuple, or what an async start makes.
struct TraceValue {
  int32_t buffer = -1, maker = -1;
  std::shared_ptr<const std::vector<TraceValue>> parts;  // a tuple; of a start: its result
  bool is_async = false;
  int32_t start = -1;         // op to wait for; -1: nothing
  std::vector<int32_t> held;  // buffers of the start's operands
};

class Executor {
 public:
  Executor(const hlo::Module& module, Costs& costs) : module_(module), costs_(costs) {}

  Result<Trace> Run() {
    const Computation& entry = *module_.entry();
    std::vector<TraceValue> arguments;
    for (const Instruction* p : entry.parameters()) arguments.push_back(Fresh(p->shape(), -1));
    TraceValue result = TRY(RunComputation(entry, arguments));
    arguments.push_back(std::move(result));
    std::vector<int32_t> buffers, makers;
    for (const TraceValue& v : arguments) Leaves(v, buffers, makers);
    for (int32_t b : buffers) At(b).last = static_cast<int32_t>(trace_.ops.size());
    trace_.warnings.insert(trace_.warnings.end(), costs_.warnings().begin(),
                           costs_.warnings().end());
    return std::move(trace_);
  }

 private:
  TraceBuffer& At(int32_t buffer) { return trace_.buffers[static_cast<size_t>(buffer)]; }

  TraceValue Fresh(const Shape& shape, int32_t maker) {
    TraceValue value;
    if (shape.IsTuple()) {
      std::vector<TraceValue> parts;
      for (const Shape& s : shape.elements_of_tuple()) parts.push_back(Fresh(s, maker));
      value.parts = std::make_shared<const std::vector<TraceValue>>(std::move(parts));
      return value;
    }
    int32_t at = std::max(maker, 0);
    trace_.buffers.push_back({shape.ByteSize(), at, at});
    value.buffer = static_cast<int32_t>(trace_.buffers.size()) - 1;
    value.maker = maker;
    return value;
  }

  // False: an async value is among them.
  bool Leaves(const TraceValue& v, std::vector<int32_t>& buffers, std::vector<int32_t>& makers) {
    if (v.is_async) return false;
    if (v.parts != nullptr) {
      for (const TraceValue& part : *v.parts) {
        if (!Leaves(part, buffers, makers)) return false;
      }
      return true;
    }
    buffers.push_back(v.buffer);
    if (v.maker >= 0) makers.push_back(v.maker);
    return true;
  }

  int32_t Emit(TraceOp op, std::span<const int32_t> buffers) {
    auto at = static_cast<int32_t>(trace_.ops.size());
    for (int32_t b : buffers) At(b).last = at;
    trace_.ops.push_back(std::move(op));
    return at;
  }

  Result<TraceValue> RunComputation(const Computation& c, std::span<const TraceValue> arguments) {
    std::unordered_map<const Instruction*, TraceValue> values;
    std::vector<TraceValue> operands;
    for (const Instruction* i : c) {
      if (i->IsParameter()) {
        values[i] = arguments[static_cast<size_t>(i->parameter_number())];
        continue;
      }
      operands.clear();
      for (const Instruction* operand : i->operands()) operands.push_back(values.at(operand));
      values[i] = TRY(Step(*i, operands));
    }
    return values.at(c.root());
  }

  Result<TraceValue> Step(const Instruction& i, std::vector<TraceValue>& operands) {
    if (IsIdentity(i)) return operands[0];
    if (i.op() == Op::kTuple) {
      TraceValue value;
      value.parts = std::make_shared<const std::vector<TraceValue>>(operands);
      return value;
    }
    if (i.op() == Op::kGetTupleElement) {
      if (operands[0].parts == nullptr) return AsyncMisuse(i);
      return (*operands[0].parts)[static_cast<size_t>(i.tuple_index())];
    }
    if (IsFree(i)) return Fresh(i.shape(), -1);
    if (i.op() == Op::kCall) return RunComputation(*i.attrs<hlo::CallAttrs>().to_apply, operands);
    if (i.op() == Op::kWhile) return RunLoop(i, operands[0]);
    if (i.op() == Op::kConditional) return RunBranch(i, operands);
    if (HasTrait(i.op(), hlo::kAsyncDone)) return Wait(i, operands[0]);
    return RunOp(i, operands);
  }

  std::unexpected<Error> AsyncMisuse(const Instruction& i) {
    auto error =
        InvalidArgument(Mnemonic(i.op()), ": an async value is used before its done: ", i.name(),
                        " of ", i.parent()->name());
    error.error().Source(i.SourceLocation());
    return error;
  }

  Result<TraceValue> Wait(const Instruction& i, const TraceValue& v) {
    if (!v.is_async) return AsyncMisuse(i);
    if (v.start >= 0) {
      TraceOp op{.instruction = &i, .cost = {.stream = Stream::kWait}, .deps = {v.start}};
      int32_t at = Emit(std::move(op), v.held);
      trace_.ops[static_cast<size_t>(v.start)].done = at;
    }
    return (*v.parts)[0];
  }

  Result<TraceValue> RunOp(const Instruction& i, std::span<const TraceValue> operands) {
    if (trace_.ops.size() >= kMostOps) {
      auto error = MakeError(Code::kResourceExhausted, "schedule: more than ", kMostOps,
                             " ops are executed");
      error.error().Hint("a loop with this many iterations is scheduled by its body alone");
      return error;
    }
    TraceOp op;
    op.instruction = &i;
    std::vector<int32_t> buffers;
    for (const TraceValue& v : operands) {
      if (!Leaves(v, buffers, op.deps)) return AsyncMisuse(i);
    }
    std::sort(op.deps.begin(), op.deps.end());
    op.deps.erase(std::unique(op.deps.begin(), op.deps.end()), op.deps.end());
    op.cost = costs_.Of(i);
    bool is_async = op.cost.is_async;
    int32_t at = Emit(std::move(op), buffers);
    TraceValue out = Fresh(ResultOfStart(i), at);
    out = InPlace(i, operands, std::move(out), at);
    if (!HasTrait(i.op(), hlo::kAsyncStart)) return out;
    TraceValue handle;
    handle.is_async = true;
    handle.start = is_async ? at : -1;
    handle.parts = std::make_shared<const std::vector<TraceValue>>(1, std::move(out));
    handle.held = std::move(buffers);
    return handle;
  }

  // Results that overwrite an operand lie in its buffer.
  TraceValue InPlace(const Instruction& i, std::span<const TraceValue> operands, TraceValue out,
                     int32_t at) {
    std::vector<AliasedResult> aliases = costs_.InPlace(i);
    if (aliases.empty()) return out;
    std::vector<TraceValue> parts = out.parts != nullptr ? *out.parts : std::vector{out};
    for (const AliasedResult& a : aliases) {
      auto k = static_cast<size_t>(std::max<int64_t>(a.result, 0));
      auto operand = static_cast<size_t>(a.operand);
      if (k >= parts.size() || operand >= operands.size()) continue;
      const TraceValue& from = operands[operand];
      if (parts[k].buffer < 0 || from.buffer < 0) continue;
      At(parts[k].buffer).bytes = 0;
      parts[k].buffer = from.buffer;
      parts[k].maker = at;
    }
    if (out.parts == nullptr) return parts[0];
    out.parts = std::make_shared<const std::vector<TraceValue>>(std::move(parts));
    return out;
  }

  Result<TraceValue> RunLoop(const Instruction& loop, TraceValue state) {
    int64_t trips = KnownTripCount(loop);
    if (trips <= 0) {
      trips = 1;
      for (const Instruction* i : *loop.attrs<hlo::WhileAttrs>().condition) {
        if (i->IsConstant() && i->shape().IsScalar() && IsInteger(i->shape().dtype()) &&
            !i->attrs<hlo::ConstantAttrs>().elided) {
          trips = std::max<int64_t>(ParseInt(i->literal().ToString()).value_or(1), 1);
          break;
        }
      }
      trace_.warnings.push_back(StrCat(loop.name(), ": trip count not known, ", trips, " assumed"));
    }
    ++depth_;
    for (int64_t t = 0; t < trips; ++t) {
      auto begin = static_cast<int32_t>(trace_.ops.size());
      state = TRY(RunComputation(*loop.attrs<hlo::WhileAttrs>().body, std::span(&state, 1)));
      auto end = static_cast<int32_t>(trace_.ops.size());
      if (depth_ == 1) trace_.iterations.emplace_back(begin, end);
      if (begin == end && t > 1000) break;  // an empty body
    }
    --depth_;
    return state;
  }

  Result<TraceValue> RunBranch(const Instruction& i, std::span<const TraceValue> operands) {
    std::vector<Computation*> branches = i.attrs<hlo::ConditionalAttrs>().branches();
    size_t op = trace_.ops.size(), buffer = trace_.buffers.size(), best = 0;
    double most = -1;
    ++depth_;
    std::vector<TraceBuffer> saved = trace_.buffers;
    for (size_t k = 0; k < branches.size() && k + 1 < operands.size(); ++k) {
      TRY(RunComputation(*branches[k], operands.subspan(k + 1, 1)));
      double total = 0;
      for (size_t n = op; n < trace_.ops.size(); ++n) total += trace_.ops[n].cost.seconds;
      if (total > most) most = total, best = k;
      trace_.ops.resize(op);
      trace_.buffers.resize(buffer);
    }
    trace_.buffers = std::move(saved);
    --depth_;
    return RunComputation(*branches[best], operands.subspan(best + 1, 1));
  }

  const hlo::Module& module_;
  Costs& costs_;
  Trace trace_;
  int depth_ = 0;
};

}  // namespace

int64_t Trace::Peak() const {
  std::vector<int64_t> change(ops.size() + 2, 0);
  for (const TraceBuffer& b : buffers) {
    change[static_cast<size_t>(b.first)] += b.bytes;
    change[static_cast<size_t>(b.last) + 1] -= b.bytes;
  }
  int64_t live = 0, peak = 0;
  for (int64_t c : change) peak = std::max(peak, live += c);
  return peak;
}

Result<Trace> Execute(const hlo::Module& module, Costs& costs) {
  return Executor(module, costs).Run();
}

}  // namespace weft::compiler::schedule
