#include "hlo/evaluate/scalar_function.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <unordered_map>

#include "base/elements.h"
#include "base/thread_pool.h"

namespace weft::hlo {
namespace {

constexpr int64_t kMaxSteps = 4096;    // of one function, calls included
constexpr int64_t kMaxVisits = 20000;  // instructions looked at
constexpr int kMaxInlining = 32;       // calls in calls

bool IsReinterpretation(Op op) {
  return op == Op::kCopy || op == Op::kBitcast || op == Op::kReshape || op == Op::kTranspose ||
         op == Op::kBroadcast || op == Op::kOptBarrier;
}

}  // namespace

// Walks a computation and the ones it calls, and writes the program.
class ScalarFunctionCompiler {
 public:
  explicit ScalarFunctionCompiler(std::span<const int64_t> dims) : dims_(dims) {}

  Result<ScalarFunction> Compile(const Computation& computation) {
    std::vector<Value> arguments;
    for (const Instruction* p : computation.parameters()) {
      if (p == nullptr || !FitsLanes(p->shape())) return Reject(computation);
      arguments.push_back(Value{{NewRegister(p->shape().dtype())}});
      f_.parameters_.push_back(arguments.back().regs[0]);
    }
    std::vector<const Value*> pointers;
    for (const Value& v : arguments) pointers.push_back(&v);
    Value root = TRY(Inline(computation, pointers, 0));
    f_.results_ = root.regs;
    f_.Finish();
    FindCommutativeOp();
    return std::move(f_);
  }

  Result<ScalarFunction> Chain(std::span<const DType> inputs,
                               std::span<const ScalarFunction::Link> links,
                               std::span<const int32_t> results) {
    std::vector<int32_t> values;  // registers
    for (DType t : inputs) values.push_back(NewRegister(t));
    f_.parameters_ = values;
    for (const ScalarFunction::Link& link : links) {
      const Instruction& i = *link.instruction;
      if (link.same) {
        values.push_back(values[link.in[0]]);
        continue;
      }
      ScalarFunction::Step step;
      InlineVec<DType, 4> types;
      for (int k = 0; k < 3 && link.in[k] >= 0; ++k) {
        step.in[k] = values[link.in[k]];
        types.push_back(f_.registers_[step.in[k]].dtype);
      }
      values.push_back(TRY(AddStep(i, types, step)));
    }
    for (int32_t r : results) f_.results_.push_back(values[r]);
    f_.Finish();
    return std::move(f_);
  }

 private:
  struct Value {
    std::vector<int32_t> regs;  // of a tuple, one for each element
    bool tuple = false;
  };

  using Values = std::span<const Value* const>;

  std::unexpected<Error> Reject(const Computation& c) const {
    return Unimplemented(c.name(), ": not a function of scalars");
  }
  std::unexpected<Error> Reject(const Instruction& i) const {
    return Unimplemented(i.parent()->name(), ": not a function of scalars: ", i.name());
  }

  bool FitsLanes(const Shape& shape) const {
    return shape.IsArray() &&
           std::equal(shape.dims().begin(), shape.dims().end(), dims_.begin(), dims_.end());
  }

  int32_t NewRegister(DType dtype) {
    f_.registers_.push_back({dtype});
    return static_cast<int32_t>(f_.registers_.size()) - 1;
  }

  Result<Value> Inline(const Computation& computation, Values arguments, int depth) {
    if (depth > kMaxInlining || computation.root() == nullptr) return Reject(computation);
    std::unordered_map<const Instruction*, Value> values;
    for (const Instruction* i : computation.PostOrder()) {
      if (!i->control_predecessors().empty()) return Reject(*i);
      if (++visits_ > kMaxVisits) return Reject(*i);
      std::vector<const Value*> operands;
      for (const Instruction* operand : i->operands()) operands.push_back(&values[operand]);
      if (i->IsParameter()) {
        size_t number = static_cast<size_t>(i->parameter_number());
        if (number >= arguments.size()) return Reject(*i);
        values[i] = *arguments[number];
      } else {
        values[i] = TRY(Visit(*i, operands, depth));
      }
    }
    return values[computation.root()];
  }

  Result<Value> Visit(const Instruction& i, Values operands, int depth) {
    switch (i.op()) {
      case Op::kConstant: return Constant(i);
      case Op::kTuple: {
        Value tuple{{}, true};
        for (const Value* v : operands) {
          if (v->tuple) return Reject(i);
          tuple.regs.push_back(v->regs[0]);
        }
        return tuple;
      }
      case Op::kGetTupleElement: {
        size_t index = static_cast<size_t>(i.tuple_index());
        if (!operands[0]->tuple || index >= operands[0]->regs.size()) return Reject(i);
        return Value{{operands[0]->regs[index]}};
      }
      case Op::kCall: return Call(i, i.attrs<CallAttrs>().to_apply, operands, depth);
      case Op::kFusion: return Call(i, i.attrs<FusionAttrs>().calls, operands, depth);
      default: break;
    }
    if (IsReinterpretation(i.op())) return Reinterpret(i, operands);
    bool elementwise = IsElementwise(i.op()) || i.op() == Op::kBitcastConvert;
    if (!elementwise || i.op() == Op::kStochasticConvert) return Reject(i);
    return Compute(i, operands);
  }

  Result<Value> Call(const Instruction& i, const Computation* callee, Values operands, int depth) {
    if (callee == nullptr) return Reject(i);
    return Inline(*callee, operands, depth + 1);
  }

  Result<Value> Constant(const Instruction& i) {
    const Literal& literal = i.literal();
    if (!literal.shape().IsArray() || literal.size() != 1 || !IsOneValue(i.shape())) {
      return Reject(i);
    }
    int32_t reg = NewRegister(literal.dtype());
    f_.registers_[reg].constant = true;
    std::memcpy(f_.registers_[reg].value, literal.data(),
                static_cast<size_t>(ByteWidth(literal.dtype())));
    return Value{{reg}};
  }

  // A scalar, which is the same in every lane, or an array of one element where lanes are that.
  bool IsOneValue(const Shape& shape) const { return shape.IsScalar() || FitsLanes(shape); }

  Result<Value> Reinterpret(const Instruction& i, Values operands) {
    const Instruction* from = i.operand(0);
    if (operands[0]->tuple) {
      if (i.op() != Op::kOptBarrier && i.op() != Op::kCopy) return Reject(i);
      return *operands[0];
    }
    bool same = from->shape().dtype() == i.shape().dtype() && FitsLanes(i.shape());
    // A constant scalar may be broadcast to all lanes; anything else keeps its place.
    bool uniform = f_.registers_[operands[0]->regs[0]].constant && from->shape().IsScalar();
    bool in_place = FitsLanes(from->shape()) &&
                    (dims_.empty() || i.op() == Op::kCopy || i.op() == Op::kOptBarrier);
    if (!same || !(uniform || in_place)) return Reject(i);
    return *operands[0];
  }

  Result<Value> Compute(const Instruction& i, Values operands) {
    if (!IsOneValue(i.shape()) || operands.size() > 3 || operands.empty()) return Reject(i);
    InlineVec<DType, 4> types;
    ScalarFunction::Step step;
    for (size_t k = 0; k < operands.size(); ++k) {
      if (operands[k]->tuple || !IsOneValue(i.operand(static_cast<int64_t>(k))->shape())) {
        return Reject(i);
      }
      step.in[k] = operands[k]->regs[0];
      types.push_back(f_.registers_[step.in[k]].dtype);
    }
    return Value{{TRY(AddStep(i, types, step))}};
  }

  // The register of its result.
  Result<int32_t> AddStep(const Instruction& i, std::span<const DType> types,
                          ScalarFunction::Step step) {
    step.op = TRY(FindLaneOp(i.op(), i.attrs(), types, i.shape().dtype()));
    step.code = i.op();
    step.attrs = &i.attrs();
    step.out = NewRegister(i.shape().dtype());
    if (static_cast<int64_t>(f_.steps_.size()) >= kMaxSteps) return Reject(i);
    f_.steps_.push_back(step);
    return step.out;
  }

  void FindCommutativeOp() {
    if (f_.steps_.size() != 1 || f_.parameters_.size() != 2 || f_.results_.size() != 1) return;
    const ScalarFunction::Step& step = f_.steps_[0];
    int32_t a = f_.parameters_[0], b = f_.parameters_[1];
    bool straight = step.in[0] == a && step.in[1] == b,
         swapped = step.in[0] == b && step.in[1] == a;
    if (!(straight || swapped) || step.out != f_.results_[0]) return;
    if (!HasTrait(step.code, kCommutative)) return;
    DType t = f_.parameter_type(0);
    if (f_.parameter_type(1) != t || f_.result_type(0) != t) return;
    f_.commutative_op_ = step.code;
  }

  std::span<const int64_t> dims_;
  ScalarFunction f_;
  int64_t visits_ = 0;
};

Result<ScalarFunction> ScalarFunction::Compile(const Computation& computation,
                                               std::span<const int64_t> dims) {
  return ScalarFunctionCompiler(dims).Compile(computation);
}

Result<ScalarFunction> ScalarFunction::Chain(std::span<const DType> inputs,
                                             std::span<const Link> links,
                                             std::span<const int32_t> results) {
  return ScalarFunctionCompiler({}).Chain(inputs, links, results);
}

void ScalarFunction::Finish() {
  constexpr int32_t kAlways = std::numeric_limits<int32_t>::max();
  std::vector<int32_t> last_use(registers_.size(), -1);  // step
  parameter_is_result_.assign(parameters_.size(), false);
  for (size_t p = 0; p < parameters_.size(); ++p) {
    parameter_is_result_[p] =
        std::find(results_.begin(), results_.end(), parameters_[p]) != results_.end();
  }
  for (size_t s = 0; s < steps_.size(); ++s) {
    for (int32_t r : steps_[s].in) {
      if (r >= 0) last_use[r] = static_cast<int32_t>(s);
    }
  }
  for (int32_t r : results_) last_use[r] = kAlways;
  places_.assign(registers_.size(), -1);
  place_bytes_.clear();
  std::vector<int32_t> unused;  // places
  auto place = [&](int32_t r, bool reuse) {
    int64_t bytes = LaneBytes(LaneOf(registers_[r].dtype));
    auto fits = [&](int32_t p) { return place_bytes_[p] == bytes; };
    auto it = std::find_if(unused.rbegin(), unused.rend(), fits);
    if (reuse && it != unused.rend()) {
      places_[r] = *it;
      unused.erase(std::next(it).base());
    } else {
      places_[r] = static_cast<int32_t>(place_bytes_.size());
      place_bytes_.push_back(bytes);
    }
  };
  // Parameters and constants may be filled once for many blocks, so that they keep their places.
  std::vector<bool> computed(registers_.size());
  for (const Step& step : steps_) computed[step.out] = true;
  for (size_t r = 0; r < registers_.size(); ++r) {
    if (!computed[r]) place(static_cast<int32_t>(r), false);
  }
  for (size_t s = 0; s < steps_.size(); ++s) {
    const Step& step = steps_[s];
    place(step.out, true);
    if (last_use[step.out] < 0) unused.push_back(places_[step.out]);
    for (int k = 0; k < 3 && step.in[k] >= 0; ++k) {
      int32_t r = step.in[k];
      if (!computed[r] || last_use[r] != static_cast<int32_t>(s)) continue;
      unused.push_back(places_[r]);
      last_use[r] = kAlways;  // an operand may be there twice
    }
  }
}

ScalarFunction::Frame::Frame(const ScalarFunction& f, int64_t max_lanes)
    : lanes_(std::clamp<int64_t>(max_lanes, 1, kBlockLanes)) {
  std::vector<int64_t> starts;
  int64_t size = 0;
  for (int64_t bytes : f.place_bytes_) {
    starts.push_back(size);
    size += (lanes_ * bytes + 63) / 64 * 64;
  }
  memory_.resize(static_cast<size_t>(size));
  for (size_t r = 0; r < f.registers_.size(); ++r) {
    offsets_.push_back(starts[f.places_[r]]);
    std::byte* lanes = memory_.data() + offsets_[r];
    at_.push_back(lanes);
    const Register& reg = f.registers_[r];
    uniform_.push_back(reg.constant);
    if (reg.constant) FillLanes(reg.dtype, reg.value, lanes_, LaneOf(reg.dtype), lanes);
  }
}

void ScalarFunction::RunStep(const Step& step, Frame& frame, int64_t n) const {
  LaneArgs args{{}, nullptr, n, step.op.in_type, registers_[step.out].dtype, step.attrs};
  LaneBlock widened[3];  // operands of mixed precision in the lanes that the op works in
  for (int k = 0; k < 3 && step.in[k] >= 0; ++k) {
    DType dtype = registers_[step.in[k]].dtype;
    args.in[k] = frame.at_[step.in[k]];
    args.uniform[k] = frame.uniform_[step.in[k]] != 0;
    if (LaneOf(dtype) == step.op.in[k]) continue;
    LaneBlock stored;
    StoreLanes(LaneOf(dtype), args.in[k], n, dtype, stored.bytes);
    LoadLanes(dtype, stored.bytes, n, step.op.in[k], widened[k].bytes);
    args.in[k] = widened[k].bytes;
  }
  std::byte* out = frame.memory_.data() + frame.offsets_[step.out];
  DType type = registers_[step.out].dtype;
  if (step.op.out == LaneOf(type)) {
    args.out = out;
    step.op.kernel(args);
    if (step.code != Op::kCompare && step.code != Op::kSelect) {
      RoundLanes(type, step.op.out, out, n);
    }
    return;
  }
  LaneBlock result, stored;
  args.out = result.bytes;
  step.op.kernel(args);
  StoreLanes(step.op.out, result.bytes, n, type, stored.bytes);
  LoadLanes(type, stored.bytes, n, LaneOf(type), out);
}

void ScalarFunction::RunBlock(Frame& frame, std::span<const In> in, std::span<const Out> out,
                              int64_t begin, int64_t n) const {
  for (size_t p = 0; p < parameters_.size(); ++p) {
    int32_t reg = parameters_[p];
    DType type = registers_[reg].dtype;
    std::byte* lanes = frame.memory_.data() + frame.offsets_[reg];
    const std::byte* src = in[p].data + (in[p].broadcast ? 0 : begin * ByteWidth(in[p].dtype));
    frame.uniform_[reg] = in[p].broadcast;
    if (in[p].broadcast) {
      if (begin == 0) FillLanes(in[p].dtype, src, frame.lanes_, LaneOf(type), lanes);
      frame.at_[reg] = lanes;
    } else if (in[p].dtype == type && IsStoredAsLane(type) && !parameter_is_result_[p]) {
      frame.at_[reg] = src;
      continue;
    } else {
      LoadLanes(in[p].dtype, src, n, LaneOf(type), lanes);
      frame.at_[reg] = lanes;
    }
    if (in[p].dtype != type) RoundLanes(type, LaneOf(type), lanes, n);
  }
  for (const Step& step : steps_) RunStep(step, frame, n);
  for (size_t r = 0; r < results_.size(); ++r) {
    DType type = registers_[results_[r]].dtype;
    StoreLanes(LaneOf(type), frame.at_[results_[r]], n, out[r].dtype,
               out[r].data + begin * ByteWidth(out[r].dtype));
  }
}

void ScalarFunction::Run(Frame& frame, std::span<const In> in, std::span<const Out> out,
                         int64_t n) const {
  for (int64_t i = 0; i < n; i += frame.lanes_) {
    RunBlock(frame, in, out, i, std::min(frame.lanes_, n - i));
  }
}

void ScalarFunction::Run(std::span<const In> in, std::span<const Out> out, int64_t n) const {
  DefaultPool().ParallelFor(n, 8 * kBlockLanes, [&](int64_t begin, int64_t end) {
    Frame frame(*this, end - begin);
    std::vector<In> part_in(in.begin(), in.end());
    std::vector<Out> part_out(out.begin(), out.end());
    for (In& i : part_in) i.data += i.broadcast ? 0 : begin * ByteWidth(i.dtype);
    for (Out& o : part_out) o.data += begin * ByteWidth(o.dtype);
    Run(frame, part_in, part_out, end - begin);
  });
}

}  // namespace weft::hlo
