#include <optional>

#include "compiler/passes.h"
#include "compiler/passes/expand/apply_to_arrays.h"
#include "compiler/passes/rewrite.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Computation;
using hlo::Instruction;
using hlo::Op;
using hlo::ReduceWindowAttrs;
using hlo::WindowDim;

bool IsPointWindow(const WindowDim& w) {
  return w.size == 1 && w.stride == 1 && w.pad_low == 0 && w.pad_high == 0 && w.base_dilation == 1;
}

struct ScanForm {
  int64_t dimension = 0;
  bool reverse = false;
};

// One dimension in which every window covers all up to its place, or all from it; points in the
// others.
std::optional<ScanForm> ScanFormOf(const Instruction& reduce) {
  std::optional<ScanForm> form;
  const std::vector<WindowDim>& dims = reduce.attrs<ReduceWindowAttrs>().window.dims;
  for (size_t d = 0; d < dims.size(); ++d) {
    const WindowDim& w = dims[d];
    if (IsPointWindow(w)) continue;
    int64_t size = reduce.operand(0)->shape().dim(static_cast<int64_t>(d));
    bool forward = w.pad_low == w.size - 1 && w.pad_high == 0;
    bool backward = w.pad_high == w.size - 1 && w.pad_low == 0;
    if (form || w.stride != 1 || w.base_dilation != 1 || w.window_dilation != 1 || w.size < size ||
        size == 0 || (!forward && !backward)) {
      return std::nullopt;
    }
    form = ScanForm{static_cast<int64_t>(d), backward};
  }
  return form;
}

// Every array, its initial value, the function's parameters and results have one type.
bool HaveSameTypes(const Instruction& reduce, const Computation& f) {
  int64_t n = reduce.operand_count() / 2;
  bool tuple = reduce.shape().IsTuple();
  for (int64_t k = 0; k < n; ++k) {
    DType dtype = reduce.operand(k)->shape().dtype();
    const Shape& result = tuple ? reduce.shape().tuple_element(k) : reduce.shape();
    const Shape& root = f.root()->shape();
    if (reduce.operand(n + k)->shape().dtype() != dtype || result.dtype() != dtype ||
        f.parameter(k)->shape().dtype() != dtype || f.parameter(n + k)->shape().dtype() != dtype ||
        (root.IsTuple() ? root.tuple_element(k) : root).dtype() != dtype) {
      return false;
    }
  }
  return true;
}

// What a sum or product is kept in on the way: that of floats narrower than f32 in f32, a sum of
// f32 in f64, or it would lose what is small beside it. The type itself: as it is.
// Of a function with one result.
DType AccumulatorOf(const Computation& f) {
  const Instruction& root = *f.root();
  DType type = root.shape().dtype();
  bool sum = root.op() == Op::kAdd;
  if (!sum && root.op() != Op::kMultiply) return type;
  if (!root.operand(0)->IsParameter() || !root.operand(1)->IsParameter() ||
      root.operand(0) == root.operand(1)) {
    return type;
  }
  if (IsFloat(type) && BitWidth(type) < 32) return DType::kF32;
  if (sum && type == DType::kF32) return DType::kF64;
  if (sum && type == DType::kC64) return DType::kC128;
  return type;
}

bool AccumulatesWide(const Computation& f) {
  return f.root()->shape().IsArray() && AccumulatorOf(f) != f.root()->shape().dtype();
}

// (slices ..., carries ...) -> (slices ..., carries ...): f of both. Backward, the element stands
// before what was accumulated.
Result<Computation*> ScanBody(const Instruction& reduce, const Computation& f, const ScanForm& form,
                              std::span<const Shape> carries) {
  hlo::Module& module = *reduce.parent()->module();
  Computation* body = module.AddComputation(module.UniqueName(f.name() + ".scan"), reduce.parent());
  Builder b(*body);
  std::vector<Instruction*> elements, accumulated, arguments;
  int64_t n = static_cast<int64_t>(carries.size());
  for (int64_t k = 0; k < n; ++k) {
    Shape slice = carries[static_cast<size_t>(k)];
    slice.set_dtype(reduce.operand(k)->shape().dtype());
    elements.push_back(TRY(b.Parameter(k, slice)));
  }
  for (int64_t k = 0; k < n; ++k) {
    accumulated.push_back(TRY(b.Parameter(n + k, carries[static_cast<size_t>(k)])));
  }
  std::vector<Instruction*> results;
  if (AccumulatesWide(f)) {
    Instruction* wide = TRY(b.Convert(elements[0], carries[0].dtype()));
    Instruction* sum = TRY(b.Add(f.root()->op(), {accumulated[0], wide}));
    results = {TRY(b.Convert(sum, elements[0]->shape().dtype())), sum};
  } else {
    arguments = form.reverse ? elements : accumulated;
    const std::vector<Instruction*>& second = form.reverse ? accumulated : elements;
    arguments.insert(arguments.end(), second.begin(), second.end());
    results = TRY(ApplyToArrays(f, arguments, *body, nullptr));
    std::vector<Instruction*> twice = results;
    results.insert(results.end(), twice.begin(), twice.end());
  }
  body->set_root(TRY(b.Tuple(results)));
  return body;
}

Result<bool> RecognizeScan(Instruction* reduce) {
  if (reduce->op() != Op::kReduceWindow || !IsStaticallyShaped(*reduce)) return false;
  std::optional<ScanForm> form = ScanFormOf(*reduce);
  const Computation& f = *reduce->attrs<ReduceWindowAttrs>().to_apply;
  if (!form || !IsElementwiseComputation(f) || !HaveSameTypes(*reduce, f)) return false;
  Builder b(*reduce->parent(), reduce, reduce);
  int64_t n = reduce->operand_count() / 2;
  std::vector<Instruction*> operands(reduce->operands().begin(), reduce->operands().begin() + n);
  std::vector<Shape> carries;
  for (int64_t k = 0; k < n; ++k) {
    Shape slice(reduce->operand(k)->shape().dtype(), reduce->operand(k)->shape().dims());
    slice.DeleteDim(form->dimension);
    if (AccumulatesWide(f)) slice.set_dtype(AccumulatorOf(f));
    Instruction* init = TRY(b.Convert(reduce->operand(n + k), slice.dtype()));
    operands.push_back(TRY(FillWith(b, init, slice)));
    carries.push_back(std::move(slice));
  }
  hlo::ScanAttrs attrs;
  attrs.dimensions = {form->dimension};
  attrs.num_carries = n;
  attrs.is_reverse = form->reverse;
  attrs.is_associative = true;
  attrs.to_apply = TRY(ScanBody(*reduce, f, *form, carries));
  Instruction* scan = TRY(b.Add(Op::kScan, operands, std::move(attrs)));
  std::vector<Instruction*> results;
  for (int64_t k = 0; k < n; ++k) results.push_back(TRY(b.GetTupleElement(scan, k)));
  bool tuple = reduce->shape().IsTuple();
  hlo::ReplaceInstruction(reduce, tuple ? TRY(b.Tuple(results)) : results[0]);
  return true;
}

}  // namespace

Result<bool> RecognizeScans(hlo::Module& module, const PassContext&) {
  bool changed = TRY(RewriteEach(module, RecognizeScan));
  if (changed) module.RemoveUnusedComputations();
  return changed;
}

}  // namespace weft::compiler
