#include <algorithm>

#include "compiler/passes/expand_ops.h"
#include "compiler/passes/inline.h"
#include "compiler/scan_body.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

// The loop that a scan is: its state is the number of steps done, the inputs, the outputs so far
// and the carries.
class ScanLoop {
 public:
  explicit ScanLoop(Instruction* scan)
      : scan_(scan),
        attrs_(scan->attrs<hlo::ScanAttrs>()),
        inputs_(scan->operand_count() - attrs_.num_carries),
        dim_(attrs_.dimensions[0]) {
    if (scan->shape().IsTuple()) {
      for (const Shape& shape : scan->shape().elements_of_tuple()) results_.push_back(shape);
    } else {
      results_.push_back(scan->shape());
    }
    outputs_ = std::ssize(results_) - attrs_.num_carries;
  }

  bool IsOfArrays() const {
    auto is_array = [](const Shape& s) { return s.IsArray() && s.IsStatic(); };
    return (inputs_ > 0 || outputs_ > 0) && std::ranges::all_of(results_, is_array) &&
           std::ranges::all_of(scan_->operands(),
                               [&](const Instruction* i) { return is_array(i->shape()); });
  }

  Status Replace() {
    Builder b(*scan_->parent(), scan_, scan_);
    length_ = inputs_ > 0 ? scan_->operand(0)->shape().dim(dim_) : results_[0].dim(dim_);
    std::vector<Instruction*> init = {b.ScalarConstant(DType::kS32, 0)};
    for (int64_t k = 0; k < inputs_; ++k) init.push_back(scan_->operand(k));
    for (int64_t k = 0; k < outputs_; ++k) {
      init.push_back(TRY(b.Fill(Shape(Result(k).dtype(), Result(k).dims()), 0)));
    }
    for (int64_t k = 0; k < attrs_.num_carries; ++k) {
      init.push_back(TRY(As(b, scan_->operand(inputs_ + k), Parameter(inputs_ + k))));
    }
    Instruction* start = TRY(b.Tuple(init));
    hlo::WhileAttrs loop_attrs{.condition = TRY(MakeCondition(start->shape())),
                               .body = TRY(MakeBody(start->shape()))};
    Instruction* loop = TRY(b.Add(Op::kWhile, {start}, loop_attrs));
    std::vector<Instruction*> last;
    for (int64_t k = 0; k < std::ssize(results_); ++k) {
      Instruction* value = TRY(b.GetTupleElement(loop, 1 + inputs_ + k));
      last.push_back(TRY(As(b, value, Result(k).dtype())));
    }
    Instruction* value = scan_->shape().IsTuple() ? TRY(b.Tuple(last)) : last[0];
    hlo::ReplaceInstruction(scan_, value);
    return {};
  }

 private:
  const Shape& Result(int64_t k) const { return results_[static_cast<size_t>(k)]; }
  DType Parameter(int64_t k) const { return attrs_.to_apply->parameter(k)->shape().dtype(); }
  static weft::Result<Instruction*> As(Builder& b, Instruction* value, DType dtype) {
    if (value->shape().dtype() == dtype) return value;
    return b.Convert(value, dtype);
  }

  weft::Result<Computation*> MakeCondition(const Shape& state) {
    hlo::Module& module = *scan_->parent()->module();
    Computation* condition =
        module.AddComputation(module.UniqueName("scan_condition"), scan_->parent());
    Builder b(*condition);
    Instruction* done = TRY(b.GetTupleElement(TRY(b.Parameter(0, state)), 0));
    Instruction* all = b.ScalarConstant(DType::kS32, static_cast<double>(length_));
    condition->set_root(TRY(b.Compare(done, all, hlo::Direction::kLt)));
    return condition;
  }

  std::vector<Instruction*> StartsAt(Builder& b, Instruction* t, int64_t rank) const {
    std::vector<Instruction*> starts;
    for (int64_t d = 0; d < rank; ++d) {
      starts.push_back(d == dim_ ? t : b.ScalarConstant(DType::kS32, 0));
    }
    return starts;
  }

  weft::Result<Instruction*> ReadSlice(Builder& b, Instruction* from, Instruction* t) const {
    const Shape& shape = from->shape();
    std::vector<Instruction*> operands = StartsAt(b, t, shape.rank());
    operands.insert(operands.begin(), from);
    hlo::DynamicSliceAttrs attrs;
    attrs.dynamic_slice_sizes.assign(shape.dims().begin(), shape.dims().end());
    attrs.dynamic_slice_sizes[static_cast<size_t>(dim_)] = 1;
    Instruction* slice = TRY(b.Add(Op::kDynamicSlice, operands, attrs));
    Dims dims = shape.dims();
    dims.erase_at(static_cast<size_t>(dim_));
    return b.Reshape(slice, dims);
  }

  weft::Result<Instruction*> WriteSlice(Builder& b, Instruction* into, Instruction* piece,
                                        Instruction* t) const {
    std::vector<Instruction*> operands = StartsAt(b, t, into->shape().rank());
    Dims dims = into->shape().dims();
    dims[static_cast<size_t>(dim_)] = 1;
    operands.insert(operands.begin(), TRY(b.Reshape(piece, dims)));
    operands.insert(operands.begin(), into);
    return b.Add(Op::kDynamicUpdateSlice, operands, hlo::NoAttrs{});
  }

  weft::Result<Computation*> MakeBody(const Shape& state) {
    hlo::Module& module = *scan_->parent()->module();
    Computation* body = module.AddComputation(module.UniqueName("scan_body"), scan_->parent());
    Builder b(*body);
    Instruction* p = TRY(b.Parameter(0, state));
    Instruction* done = TRY(b.GetTupleElement(p, 0));
    Instruction* t = done;
    if (attrs_.is_reverse) {
      Instruction* end = b.ScalarConstant(DType::kS32, static_cast<double>(length_ - 1));
      t = TRY(b.Add(Op::kSubtract, {end, done}));
    }
    Instruction* one = b.ScalarConstant(DType::kS32, 1);
    std::vector<Instruction*> next = {TRY(b.Add(Op::kAdd, {done, one}))}, arguments;
    for (int64_t k = 0; k < inputs_; ++k) {
      Instruction* input = TRY(b.GetTupleElement(p, 1 + k));
      next.push_back(input);
      arguments.push_back(TRY(As(b, TRY(ReadSlice(b, input, t)), Parameter(k))));
    }
    for (int64_t k = 0; k < attrs_.num_carries; ++k) {
      arguments.push_back(TRY(b.GetTupleElement(p, 1 + inputs_ + outputs_ + k)));
    }
    Instruction* called = InlineCallee(TRY(b.Call(attrs_.to_apply, arguments)), *attrs_.to_apply);
    Builder behind(*body);
    auto piece = [&](int64_t k) -> weft::Result<Instruction*> {
      if (!called->shape().IsTuple()) return called;
      return ElementOf(behind, called, k);
    };
    for (int64_t k = 0; k < outputs_; ++k) {
      Instruction* made = TRY(As(behind, TRY(piece(k)), Result(k).dtype()));
      Instruction* into = TRY(behind.GetTupleElement(p, 1 + inputs_ + k));
      next.push_back(TRY(WriteSlice(behind, into, made, t)));
    }
    for (int64_t k = 0; k < attrs_.num_carries; ++k) {
      next.push_back(TRY(As(behind, TRY(piece(outputs_ + k)), Parameter(inputs_ + k))));
    }
    body->set_root(TRY(behind.Tuple(next)));
    return body;
  }

  Instruction* scan_;
  hlo::ScanAttrs attrs_;
  int64_t inputs_, outputs_ = 0, dim_, length_ = 0;
  std::vector<Shape> results_;
};

}  // namespace

Result<bool> ExpandScans(Instruction* i) {
  if (i->op() != Op::kScan || IsElementwiseScan(*i)) return false;
  ScanLoop loop(i);
  if (!loop.IsOfArrays()) return false;
  TRY(loop.Replace());
  return true;
}

}  // namespace weft::compiler
