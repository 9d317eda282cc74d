#include <algorithm>

#include "compiler/analysis/scan_body.h"
#include "compiler/passes/expand/expand_ops.h"
#include "compiler/passes/loops/counted_loop.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Op;

// The loop that a scan is: its state is the inputs, the outputs so far and the carries.
class ScanLoop {
 public:
  explicit ScanLoop(Instruction* scan)
      : scan_(scan),
        attrs_(scan->attrs<hlo::ScanAttrs>()),
        inputs_(scan->operand_count() - attrs_.num_carries),
        dim_(attrs_.dimensions[0]) {
    if (scan->shape().IsTuple()) {
      results_ = scan->shape().elements_of_tuple();
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
    int64_t length = inputs_ > 0 ? scan_->operand(0)->shape().dim(dim_) : results_[0].dim(dim_);
    std::vector<Instruction*> init;
    for (int64_t k = 0; k < inputs_; ++k) init.push_back(scan_->operand(k));
    for (int64_t k = 0; k < outputs_; ++k) {
      const Shape& shape = results_[static_cast<size_t>(k)];
      init.push_back(TRY(b.Fill(Shape(shape.dtype(), shape.dims()), 0)));
    }
    for (int64_t k = inputs_; k < scan_->operand_count(); ++k) {
      init.push_back(TRY(b.Convert(scan_->operand(k), Parameter(k))));
    }
    std::vector<Instruction*> last = TRY(AddCountedLoop(
        b, length, init, [&](Builder& r, Instruction* number, std::span<Instruction* const> state) {
          return Round(r, number, state, length);
        }));
    last.erase(last.begin(), last.begin() + inputs_);
    for (size_t k = 0; k < last.size(); ++k) {
      last[k] = TRY(b.Convert(last[k], results_[k].dtype()));
    }
    Instruction* value = scan_->shape().IsTuple() ? TRY(b.Tuple(last)) : last[0];
    hlo::ReplaceInstruction(scan_, value);
    return {};
  }

 private:
  DType Parameter(int64_t k) const { return attrs_.to_apply->parameter(k)->shape().dtype(); }

  std::vector<Instruction*> StartsAt(Builder& b, Instruction* t, int64_t rank) const {
    std::vector<Instruction*> starts;
    for (int64_t d = 0; d < rank; ++d) {
      starts.push_back(d == dim_ ? t : b.ScalarConstant(DType::kS32, 0));
    }
    return starts;
  }

  Result<Instruction*> ReadSlice(Builder& b, Instruction* from, Instruction* t) const {
    std::vector<Instruction*> operands = StartsAt(b, t, from->shape().rank());
    operands.insert(operands.begin(), from);
    Dims dims = from->shape().dims();
    hlo::DynamicSliceAttrs attrs;
    attrs.dynamic_slice_sizes.assign(dims.begin(), dims.end());
    attrs.dynamic_slice_sizes[static_cast<size_t>(dim_)] = 1;
    dims.erase_at(static_cast<size_t>(dim_));
    return b.Reshape(TRY(b.Add(Op::kDynamicSlice, operands, attrs)), dims);
  }

  Result<Instruction*> WriteSlice(Builder& b, Instruction* into, Instruction* piece,
                                  Instruction* t) const {
    std::vector<Instruction*> operands = StartsAt(b, t, into->shape().rank());
    Dims dims = into->shape().dims();
    dims[static_cast<size_t>(dim_)] = 1;
    operands.insert(operands.begin(), TRY(b.Reshape(piece, dims)));
    operands.insert(operands.begin(), into);
    return b.Add(Op::kDynamicUpdateSlice, operands, hlo::NoAttrs{});
  }

  Result<std::vector<Instruction*>> Round(Builder& b, Instruction* number,
                                          std::span<Instruction* const> state,
                                          int64_t length) const {
    Instruction* t = number;
    if (attrs_.is_reverse) {
      Instruction* end = b.ScalarConstant(DType::kS32, static_cast<double>(length - 1));
      t = TRY(b.Add(Op::kSubtract, {end, number}));
    }
    std::vector<Instruction*> next(state.begin(), state.end()), arguments;
    for (int64_t k = 0; k < inputs_; ++k) {
      Instruction* slice = TRY(ReadSlice(b, state[static_cast<size_t>(k)], t));
      arguments.push_back(TRY(b.Convert(slice, Parameter(k))));
    }
    auto carries = state.begin() + inputs_ + outputs_;
    arguments.insert(arguments.end(), carries, state.end());
    std::vector<Instruction*> made = TRY(CallInline(b, *attrs_.to_apply, arguments));
    for (int64_t k = 0; k < std::ssize(made); ++k) {
      Instruction*& to = next[static_cast<size_t>(inputs_ + k)];
      Instruction* piece = TRY(b.Convert(made[static_cast<size_t>(k)], to->shape().dtype()));
      to = k < outputs_ ? TRY(WriteSlice(b, to, piece, t)) : piece;
    }
    return next;
  }

  Instruction* scan_;
  hlo::ScanAttrs attrs_;
  int64_t inputs_, outputs_ = 0, dim_;
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
