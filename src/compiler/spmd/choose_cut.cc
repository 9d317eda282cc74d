// What an op is cut by: as its results should lie, then as its operands do.
#include <algorithm>

#include "compiler/analysis/collectives.h"
#include "compiler/spmd/partitioner.h"
#include "compiler/spmd/window.h"
#include "hlo/evaluate.h"

namespace weft::compiler::spmd {
namespace {

using hlo::DimRule;
using hlo::FactorKind;
using hlo::Instruction;
using hlo::Op;

// A tensor of an op: a leaf of its result, or an operand.
struct Subject {
  const DimRule::Tensor* tensor;
  const Form* form;
  const Shape* shape;
  bool is_result;
};

using Subjects = InlineVec<Subject, 6>;

Subjects SubjectsOf(const Instruction& i, const DimRule& rule, std::span<const Form> operands,
                    std::span<const Form> results) {
  Subjects subjects;
  const std::vector<const Shape*> leaves = LeavesOf(i.shape());
  for (size_t k = 0; k < results.size(); ++k) {
    subjects.push_back({&rule.results[k], &results[k], leaves[k], true});
  }
  const size_t first = subjects.size();
  for (size_t k = 0; k < operands.size(); ++k) {
    const Shape& shape = i.operand(static_cast<int64_t>(k))->shape();
    if (shape.IsArray()) subjects.push_back({&rule.operands[k], &operands[k], &shape, false});
  }
  // The largest operand decides first, of equal ones the first.
  std::sort(subjects.begin() + first, subjects.end(), [](const Subject& a, const Subject& b) {
    const int64_t x = a.shape->ByteSize(), y = b.shape->ByteSize();
    return x != y ? x > y : a.tensor < b.tensor;
  });
  return subjects;
}

// Which factors may be cut at all, and whether they must be cut evenly.
struct FactorFacts {
  bool usable = false, even = false;
  int64_t operand_bytes = 0;
  bool in_result = false;
};

using Facts = InlineVec<FactorFacts, 8>;

Facts FactsOf(const Instruction& i, const DimRule& rule, std::span<const Subject> subjects) {
  Facts facts(rule.factors.size(), FactorFacts());
  // Asked for where it matters alone: the reduction may have to be evaluated.
  const bool matters = std::ranges::any_of(rule.factors, [](const hlo::Factor& factor) {
    return factor.kind == FactorKind::kReduced || factor.kind == FactorKind::kPermuted;
  });
  const bool reducible = matters && HasRepeatableReduction(i);
  for (size_t f = 0; f < facts.size(); ++f) {
    const FactorKind kind = rule.factors[f].kind;
    // What lies outside of windows does not count, unless parts are filled up with what does not
    // change a reduction.
    const bool moves = kind == FactorKind::kPermuted && (reducible || i.op() != Op::kReduceWindow);
    facts[f].usable =
        kind == FactorKind::kParallel || (kind == FactorKind::kReduced && reducible) || moves;
  }
  const bool extreme =
      i.op() == Op::kScatter && reducible &&
      SimpleReduction(*i.attrs<hlo::ScatterAttrs>().to_apply) != program::ReduceOp::kAdd;
  for (const Subject& s : subjects) {
    for (size_t d = 0; d < s.tensor->size(); ++d) {
      for (int factor : (*s.tensor)[d]) {
        FactorFacts& fact = facts[static_cast<size_t>(factor)];
        const int64_t dim = static_cast<int64_t>(d);
        if (s.shape->HasDynamicDims()) fact.usable = false;
        if ((*s.tensor)[d].size() > 1) fact.even = true;
        const hlo::Factor& own = rule.factors[static_cast<size_t>(factor)];
        // Padding of updates adds zeroes; of a maximum or minimum it would count.
        if (own.kind == FactorKind::kReduced && extreme) fact.even = true;
        if (s.shape->dim(dim) != own.size && own.kind != FactorKind::kPermuted) fact.even = true;
        if (s.is_result) fact.in_result = true;
        if (!s.is_result) fact.operand_bytes += s.shape->ByteSize();
      }
    }
  }
  return facts;
}

// Axes by which all operands of a reduced factor are cut alike already: parts of the result come
// without moving anything, and are scattered where the result should be cut by the same axes.
void TakeCommonReductions(const DimRule& rule, std::span<const Subject> subjects,
                          std::span<const FactorFacts> facts, const DeviceMesh& mesh, AxisSet& used,
                          FactorAxes& axes) {
  const bool reduces = std::ranges::any_of(
      rule.factors, [](const hlo::Factor& f) { return f.kind == FactorKind::kReduced; });
  if (!reduces) return;
  InlineVec<int, 8> holders(rule.factors.size(), 0);
  FactorAxes own;
  InlineVec<bool, 8> seen(rule.factors.size(), false);
  FactorAxes common(rule.factors.size(), AxisList());
  for (const Subject& s : subjects) {
    if (s.is_result) continue;
    ReadFactors(rule, *s.tensor, *s.form, mesh, INT64_MAX, own);
    for (const DimRule::Dim& dim : *s.tensor) {
      for (int factor : dim) {
        const size_t f = static_cast<size_t>(factor);
        ++holders[f];
        size_t same = 0;
        while (seen[f] && same < std::min(common[f].size(), own[f].size()) &&
               common[f][same] == own[f][same]) {
          ++same;
        }
        if (seen[f]) common[f].resize(same);
        if (!seen[f]) common[f] = own[f];
        seen[f] = true;
      }
    }
  }
  for (size_t f = 0; f < common.size(); ++f) {
    const bool reduced = rule.factors[f].kind == FactorKind::kReduced && facts[f].usable;
    if (!reduced || facts[f].even || holders[f] < 2) continue;
    for (int axis : common[f]) {
      if ((used & BitOf(axis)) != 0) break;
      axes[f].push_back(axis);
      used |= BitOf(axis);
    }
  }
}

// As many of the axes as are free and cut the factor as it must be.
void TakeAxes(const DimRule& rule, size_t f, const FactorFacts& facts, const AxisList& from,
              const DeviceMesh& mesh, AxisSet& used, AxisList& axes) {
  int64_t parts = 1;
  for (int axis : from) {
    const int64_t finer = parts * mesh.size(axis);
    if ((used & BitOf(axis)) != 0) break;
    if (facts.even && rule.factors[f].size % finer != 0) break;
    axes.push_back(axis);
    used |= BitOf(axis);
    parts = finer;
  }
}

// Factors behind one in a dimension that is not cut into single elements cannot be cut.
void DropStranded(const DimRule& rule, const DeviceMesh& mesh, FactorAxes& axes) {
  auto visit = [&](const std::vector<DimRule::Tensor>& tensors) {
    bool changed = false;
    for (const DimRule::Tensor& tensor : tensors) {
      for (const DimRule::Dim& dim : tensor) {
        bool stranded = false;
        for (int factor : dim) {
          AxisList& own = axes[static_cast<size_t>(factor)];
          if (stranded && !own.empty()) {
            own.clear();
            changed = true;
          }
          if (mesh.SizeOf(own) != rule.factors[static_cast<size_t>(factor)].size) stranded = true;
        }
      }
    }
    return changed;
  };
  while (visit(rule.operands) || visit(rule.results)) {
  }
}

// Where positions of a convolution are cut, each needs all of its window; where there are none,
// windows reach nothing.
void DropCutWindows(const Instruction& i, Cut& cut) {
  if (i.op() != Op::kConvolution) return;
  const hlo::ConvDims& d = i.attrs<hlo::ConvolutionAttrs>().dim_labels;
  for (size_t s = 0; s < i.attrs<hlo::ConvolutionAttrs>().window.dims.size(); ++s) {
    if (WindowAxes(i, cut, s).empty()) continue;
    bool whole = i.shape().elements() == 0;
    for (int factor : cut.rule.operands[0][static_cast<size_t>(d.input_spatial[s])]) {
      whole |= !cut.axes[static_cast<size_t>(factor)].empty();
    }
    const int window = cut.rule.operands[1][static_cast<size_t>(d.kernel_spatial[s])][0];
    if (whole) cut.axes[static_cast<size_t>(window)].clear();
  }
}

}  // namespace

void CutElsewhere(const Instruction& i, std::span<const Form> operands, const DeviceMesh& mesh,
                  const LinkModel& link, Cut& cut) {
  const DimRule& rule = cut.rule;
  AxisSet used = 0;
  for (const AxisList& axes : cut.axes) {
    for (int axis : axes) used |= BitOf(axis);
  }
  // A dimension of its own in the operand and in every result, cut by nothing yet.
  auto is_free = [&](const DimRule::Tensor& tensor, int factor) {
    return std::ranges::find(tensor, DimRule::Dim{factor}) != tensor.end();
  };
  for (size_t k = 0; k < operands.size(); ++k) {
    const Shape& shape = i.operand(static_cast<int64_t>(k))->shape();
    if (!shape.IsArray() || shape.HasDynamicDims() || i.shape().HasDynamicDims()) continue;
    // While one more collective begins, the link would have moved this much.
    if (static_cast<double>(shape.ByteSize()) < link.bytes_per_second * link.seconds) continue;
    for (size_t d = 0; d < operands[k].dims.size(); ++d) {
      const AxisList& axes = operands[k].dims[d].axes;
      const DimRule::Dim& dim = rule.operands[k][d];
      if (axes.empty() || dim.size() != 1) continue;
      const bool taken =
          std::ranges::any_of(axes, [&](int axis) { return (used & BitOf(axis)) != 0; });
      if (taken || rule.factors[static_cast<size_t>(dim[0])].kind != FactorKind::kWhole) continue;
      for (size_t f = 0; f < rule.factors.size(); ++f) {
        const int factor = static_cast<int>(f);
        const bool free = rule.factors[f].kind == FactorKind::kParallel && cut.axes[f].empty() &&
                          is_free(rule.operands[k], factor) &&
                          std::ranges::all_of(rule.results, [&](const DimRule::Tensor& result) {
                            return is_free(result, factor);
                          });
        if (!free || rule.factors[f].size % mesh.SizeOf(axes) != 0) continue;
        cut.axes[f] = axes;
        for (int axis : axes) used |= BitOf(axis);
        break;
      }
    }
  }
}

bool HasRepeatableReduction(const Instruction& i) {
  if (i.op() == Op::kScatter) {
    const auto op = SimpleReduction(*i.attrs<hlo::ScatterAttrs>().to_apply);
    return i.operand_count() == 3 && i.shape().dtype() != DType::kPred &&
           (op == program::ReduceOp::kAdd || op == program::ReduceOp::kMax ||
            op == program::ReduceOp::kMin);
  }
  const bool window = i.op() == Op::kReduceWindow;
  if (i.op() != Op::kReduce && !window) return i.shape().dtype() != DType::kPred;
  const hlo::Computation* function =
      window ? i.attrs<hlo::ReduceWindowAttrs>().to_apply : i.attrs<hlo::ReduceAttrs>().to_apply;
  const int64_t inputs = i.operand_count() / 2;
  std::vector<Literal> arguments;
  for (int64_t k = inputs; k < 2 * inputs; ++k) {
    const Instruction* init = i.operand(k);
    if (!init->IsConstant() || init->attrs<hlo::ConstantAttrs>().elided) return false;
    arguments.push_back(init->literal());
  }
  // Most are sums from zero.
  const Shape& first = arguments[0].shape();
  const bool from_zero = HasZero(first.dtype()) && arguments[0] == Literal(first);
  if (inputs == 1 && from_zero && SimpleReduction(*function) == program::ReduceOp::kAdd) {
    return true;
  }
  const std::vector<Literal> once = arguments;
  arguments.insert(arguments.end(), once.begin(), once.end());
  hlo::EvalOptions options;
  options.max_loop_steps = 1000;
  hlo::EvalContext context(*i.parent()->module(), options);
  Result<Literal> twice = context.Call(*function, arguments);
  if (!twice) return false;
  if (!twice->shape().IsTuple()) return once.size() == 1 && *twice == once[0];
  return twice->tuple() == once;
}

Form Cut::FormOf(const DimRule::Tensor& tensor, const DeviceMesh& mesh) const {
  Form form = Form::Replicated(static_cast<int64_t>(tensor.size()));
  for (size_t d = 0; d < tensor.size(); ++d) {
    form.dims[d].axes = AxesOfDim(rule, tensor[d], axes, mesh);
  }
  return form;
}

Cut ChooseCut(const Instruction& i, const DimRule& rule, std::span<const Form> operands,
              std::span<const Form> results, const DeviceMesh& mesh) {
  Cut cut{.rule = rule, .axes = {}, .reduced = {}};
  cut.axes.resize(cut.rule.factors.size());
  const Subjects subjects = SubjectsOf(i, cut.rule, operands, results);
  const Facts facts = FactsOf(i, cut.rule, subjects);
  AxisSet used = 0;
  for (const Subject& s : subjects) used |= s.form->manual;
  TakeCommonReductions(cut.rule, subjects, facts, mesh, used, cut.axes);
  FactorAxes own, of_results(cut.axes.size(), AxisList());
  for (const Subject& s : subjects) {
    ReadFactors(cut.rule, *s.tensor, *s.form, mesh, INT64_MAX, own);
    for (size_t f = 0; f < own.size(); ++f) {
      if (!facts[f].usable || own[f].empty() || !cut.axes[f].empty()) continue;
      // Elements move from where the operand lies; whole ones are there already.
      const bool moves = cut.rule.factors[f].kind == FactorKind::kPermuted;
      if (moves && s.is_result) of_results[f] = own[f];
      if (moves && s.is_result) continue;
      // A result that should be whole is gathered only when it is smaller than what it is made of.
      const bool asked = moves && !of_results[f].empty() && of_results[f][0] == own[f][0];
      if (!s.is_result && facts[f].in_result && !asked &&
          i.shape().ByteSize() > facts[f].operand_bytes) {
        continue;
      }
      TakeAxes(cut.rule, f, facts[f], own[f], mesh, used, cut.axes[f]);
      if (!moves || cut.axes[f].empty()) continue;
      if (MovesCheaply(i, cut.rule, static_cast<int>(f), mesh.SizeOf(cut.axes[f]))) continue;
      for (int axis : cut.axes[f]) used &= ~BitOf(axis);
      cut.axes[f].clear();
    }
  }
  DropStranded(cut.rule, mesh, cut.axes);
  DropCutWindows(i, cut);
  for (size_t f = 0; f < cut.axes.size(); ++f) {
    if (cut.rule.factors[f].kind != FactorKind::kReduced) continue;
    Append(cut.reduced, cut.axes[f]);
  }
  return cut;
}

}  // namespace weft::compiler::spmd
