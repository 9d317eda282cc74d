#include "hlo/ops/dim_rules.h"

#include <algorithm>

#include "base/str.h"

namespace weft::hlo {
namespace {

// Names of factors: i, j, ... z, a, ... h, then z_1 ...
std::string FactorName(int factor) {
  if (factor < 26) return std::string(1, static_cast<char>('a' + (factor + 8) % 26));
  return StrCat("z_", factor - 25);
}

void AppendTensors(std::string& out, const std::vector<DimRule::Tensor>& tensors) {
  out.push_back('(');
  for (size_t t = 0; t < tensors.size(); ++t) {
    out.append(t > 0 ? ", [" : "[");
    for (size_t d = 0; d < tensors[t].size(); ++d) {
      if (d > 0) out.append(", ");
      for (size_t k = 0; k < tensors[t][d].size(); ++k) {
        StrAppend(out, k > 0 ? " " : "", FactorName(tensors[t][d][k]));
      }
      if (tensors[t][d].empty()) out.push_back('1');
    }
    out.push_back(']');
  }
  out.push_back(')');
}

bool HasDim(const Ints& dims, int64_t dim) {
  return std::ranges::find(dims, dim) != dims.end();
}

}  // namespace

std::string DimRule::ToString() const {
  static constexpr std::string_view kKinds[] = {"", ":reduced", ":permuted", ":whole"};
  std::string out;
  AppendTensors(out, operands);
  out.append(" -> ");
  AppendTensors(out, results);
  for (size_t f = 0; f < factors.size(); ++f) {
    StrAppend(out, " ", FactorName(static_cast<int>(f)), "=", factors[f].size,
              kKinds[static_cast<size_t>(factors[f].kind)]);
  }
  return out;
}

RuleMaker::RuleMaker(const Instruction& instruction) : i_(instruction) {
  rule_.operands.reserve(i_.operands().size());
  for (const Instruction* operand : i_.operands()) {
    const Shape& shape = operand->shape();
    rule_.operands.emplace_back(shape.IsArray() ? static_cast<size_t>(shape.rank()) : 0);
  }
  i_.shape().ForEachSubShape([&](const Shape& shape, const ShapeIndex&) {
    if (shape.IsTuple()) return;
    shapes_.push_back(&shape);
    rule_.results.emplace_back(shape.IsArray() ? static_cast<size_t>(shape.rank()) : 0);
  });
}

int RuleMaker::Add(int64_t size, FactorKind kind) {
  rule_.factors.push_back({size, kind});
  return static_cast<int>(rule_.factors.size()) - 1;
}

void RuleMaker::Operand(int64_t operand, int64_t dim, int factor) {
  rule_.operands[static_cast<size_t>(operand)][static_cast<size_t>(dim)].push_back(factor);
}

void RuleMaker::Result(int64_t leaf, int64_t dim, int factor) {
  rule_.results[static_cast<size_t>(leaf)][static_cast<size_t>(dim)].push_back(factor);
}

void RuleMaker::Along(int64_t dim, FactorKind kind, int64_t first, int64_t end) {
  const int factor = Add(leaf(0).dim(dim), kind);
  for (int64_t k = first; k < end; ++k) Operand(k, dim, factor);
  for (int64_t k = 0; k < leaves(); ++k) Result(k, dim, factor);
}

DimRule RuleMaker::Take() {
  auto complete = [&](std::vector<DimRule::Tensor>& tensors, auto&& shape_of) {
    for (size_t t = 0; t < tensors.size(); ++t) {
      for (size_t d = 0; d < tensors[t].size(); ++d) {
        const int64_t size = shape_of(t).dim(static_cast<int64_t>(d));
        DimRule::Dim& dim = tensors[t][d];
        if (size == 1) {
          dim.clear();
        } else if (dim.empty()) {
          dim.push_back(Add(size, FactorKind::kWhole));
        } else if (dim.size() > 1) {
          DimRule::Dim kept;
          for (int f : dim) {
            if (rule_.factors[static_cast<size_t>(f)].size != 1) kept.push_back(f);
          }
          dim = std::move(kept);
        }
      }
    }
  };
  complete(rule_.operands,
           [&](size_t t) -> const Shape& { return i_.operand(static_cast<int64_t>(t))->shape(); });
  complete(rule_.results, [&](size_t t) -> const Shape& { return *shapes_[t]; });
  return std::move(rule_);
}

bool HasRule(const Instruction& i) {
  return i.def().dim_rule != nullptr || IsElementwise(i.op());
}

bool IsLinearIn(const Instruction& i, int64_t operand) {
  const DType from =
      i.operand(operand)->shape().IsArray() ? i.operand(operand)->shape().dtype() : DType::kPred;
  if (from == DType::kPred || !i.shape().IsArray() || i.shape().dtype() == DType::kPred) {
    return false;
  }
  switch (i.op()) {
    case Op::kAdd:
    case Op::kBroadcast:
    case Op::kConcatenate:
    case Op::kCopy:
    case Op::kDot:
    case Op::kMultiply:
    case Op::kNegate:
    case Op::kReshape:
    case Op::kReverse:
    case Op::kSlice:
    case Op::kSubtract:
    case Op::kTranspose: return true;
    case Op::kConvert: return IsFloat(from) == IsFloat(i.shape().dtype());
    case Op::kDivide: return operand == 0 && IsFloat(from);
    case Op::kDynamicSlice:
    case Op::kGather: return operand == 0;
    case Op::kDynamicUpdateSlice: return operand < 2;
    case Op::kSelect: return operand > 0;
    default: return false;
  }
}

DimRule RuleOf(const Instruction& i) {
  if (i.def().dim_rule != nullptr) return i.def().dim_rule(i);
  if (IsElementwise(i.op())) return RuleElementwise(i);
  return RuleMaker(i).Take();
}

DimRule RuleElementwise(const Instruction& i) {
  RuleMaker maker(i);
  for (int64_t d = 0; i.shape().IsArray() && d < i.shape().rank(); ++d) {
    const int factor = maker.Add(i.shape().dim(d));
    for (int64_t k = 0; k < i.operand_count(); ++k) {
      const Shape& operand = i.operand(k)->shape();
      if (operand.IsArray() && operand.rank() == i.shape().rank()) maker.Operand(k, d, factor);
    }
    maker.Result(0, d, factor);
  }
  return maker.Take();
}

DimRule RuleSource(const Instruction& i) {
  return RuleElementwise(i);
}

DimRule RuleBitcastConvert(const Instruction& i) {
  RuleMaker maker(i);
  const int64_t rank = std::min(i.shape().rank(), i.operand(0)->shape().rank());
  for (int64_t d = 0; d < rank; ++d) {
    const int factor = maker.Add(i.shape().dim(d));
    maker.Operand(0, d, factor);
    maker.Result(0, d, factor);
  }
  return maker.Take();
}

DimRule RuleBroadcast(const Instruction& i) {
  RuleMaker maker(i);
  const Ints& dims = i.attrs<BroadcastAttrs>().dimensions;
  for (int64_t d = 0; d < i.shape().rank(); ++d) {
    const int factor = maker.Add(i.shape().dim(d));
    maker.Result(0, d, factor);
    for (size_t k = 0; k < dims.size(); ++k) {
      if (dims[k] == d) maker.Operand(0, static_cast<int64_t>(k), factor);
    }
  }
  return maker.Take();
}

namespace {

// One run of dimensions of operand and result with as many elements: [a, a_end) and [b, b_end).
struct ReshapeRun {
  int64_t a, a_end, b, b_end;
};

std::vector<ReshapeRun> ReshapeRuns(const Shape& from, const Shape& to) {
  std::vector<ReshapeRun> runs;
  int64_t a = 0, b = 0;
  while (a < from.rank() && b < to.rank()) {
    ReshapeRun run{a, a + 1, b, b + 1};
    int64_t left = from.dim(a), right = to.dim(b);
    while (left != right) {
      if (left < right && run.a_end < from.rank()) {
        left *= from.dim(run.a_end++);
      } else if (right < left && run.b_end < to.rank()) {
        right *= to.dim(run.b_end++);
      } else {
        return runs;
      }
    }
    a = run.a_end;
    b = run.b_end;
    runs.push_back(run);
  }
  return runs;
}

// The factors of a run: the greatest pieces of which both sides are made; none when a piece of one
// side straddles two dimensions of the other.
void AddReshapeFactors(RuleMaker& maker, const Shape& from, const Shape& to, ReshapeRun run) {
  struct Piece {
    int64_t size, a, b;
  };
  std::vector<Piece> pieces;
  int64_t left = 1, right = 1, a = run.a - 1, b = run.b - 1;
  while (true) {
    while (left == 1 && a + 1 < run.a_end) left = from.dim(++a);
    while (right == 1 && b + 1 < run.b_end) right = to.dim(++b);
    if (left == 1 && right == 1) break;
    const int64_t size = std::min(left, right);
    if (left % size != 0 || right % size != 0) return;
    pieces.push_back({size, a, b});
    left /= size;
    right /= size;
  }
  for (const Piece& piece : pieces) {
    const int factor = maker.Add(piece.size);
    maker.Operand(0, piece.a, factor);
    maker.Result(0, piece.b, factor);
  }
}

}  // namespace

DimRule RuleReshape(const Instruction& i) {
  RuleMaker maker(i);
  const Shape& from = i.operand(0)->shape();
  const Shape& to = i.shape();
  const bool plain = from.IsStatic() && to.IsStatic() && to.elements() > 0;
  if (plain) {
    for (const ReshapeRun& run : ReshapeRuns(from, to)) AddReshapeFactors(maker, from, to, run);
  }
  return maker.Take();
}

DimRule RuleTranspose(const Instruction& i) {
  RuleMaker maker(i);
  const Ints& dims = i.attrs<DimensionsAttrs>().dimensions;
  for (int64_t d = 0; d < i.shape().rank(); ++d) {
    const int factor = maker.Add(i.shape().dim(d));
    maker.Operand(0, dims[static_cast<size_t>(d)], factor);
    maker.Result(0, d, factor);
  }
  return maker.Take();
}

DimRule RuleReverse(const Instruction& i) {
  RuleMaker maker(i);
  const Ints& reversed = i.attrs<DimensionsAttrs>().dimensions;
  for (int64_t d = 0; d < i.shape().rank(); ++d) {
    maker.Along(d, HasDim(reversed, d) ? FactorKind::kPermuted : FactorKind::kParallel, 0, 1);
  }
  return maker.Take();
}

DimRule RuleConcatenate(const Instruction& i) {
  RuleMaker maker(i);
  const int64_t joined = i.attrs<DimensionsAttrs>().dimensions[0];
  for (int64_t d = 0; d < i.shape().rank(); ++d) {
    maker.Along(d, d == joined ? FactorKind::kPermuted : FactorKind::kParallel, 0,
                i.operand_count());
  }
  return maker.Take();
}

DimRule RulePad(const Instruction& i) {
  RuleMaker maker(i);
  const Padding& padding = i.attrs<PadAttrs>().padding;
  for (int64_t d = 0; d < i.shape().rank(); ++d) {
    const bool padded = padding[static_cast<size_t>(d)] != PaddingDim{};
    maker.Along(d, padded ? FactorKind::kPermuted : FactorKind::kParallel, 0, 1);
  }
  return maker.Take();
}

DimRule RuleSlice(const Instruction& i) {
  RuleMaker maker(i);
  for (int64_t d = 0; d < i.shape().rank(); ++d) {
    const bool all = i.shape().dim(d) == i.operand(0)->shape().dim(d);
    maker.Along(d, all ? FactorKind::kParallel : FactorKind::kPermuted, 0, 1);
  }
  return maker.Take();
}

namespace {

// Start indices as one vector instead of scalars.
bool HasPackedStarts(const Instruction& i, int64_t first) {
  return i.operand_count() > first && i.operand(first)->shape().rank() == 1;
}

}  // namespace

// A start index along a dimension that is taken as a whole is clamped to 0. Of others, each part of
// the operand has a part of the slice, which may be nothing: summands.
DimRule RuleDynamicSlice(const Instruction& i) {
  RuleMaker maker(i);
  const bool packed = HasPackedStarts(i, 1);
  for (int64_t d = 0; d < i.shape().rank(); ++d) {
    const int64_t size = i.operand(0)->shape().dim(d);
    if (i.shape().dim(d) == size) {
      maker.Along(d, FactorKind::kParallel, 0, 1);
    } else if (!packed) {
      maker.Operand(0, d, maker.Add(size, FactorKind::kReduced));
    }
  }
  return maker.Take();
}

DimRule RuleDynamicUpdateSlice(const Instruction& i) {
  RuleMaker maker(i);
  for (int64_t d = 0; d < i.shape().rank(); ++d) {
    const int64_t size = i.shape().dim(d);
    const bool all = i.operand(1)->shape().dim(d) == size;
    if (!all && HasPackedStarts(i, 2)) continue;
    const int factor = maker.Add(size);
    maker.Operand(0, d, factor);
    maker.Result(0, d, factor);
    if (all) maker.Operand(1, d, factor);
  }
  return maker.Take();
}

DimRule RuleSort(const Instruction& i) {
  RuleMaker maker(i);
  const int64_t sorted =
      i.attrs<SortAttrs>().dimensions.empty() ? -1 : i.attrs<SortAttrs>().dimensions[0];
  for (int64_t d = 0; d < i.operand(0)->shape().rank(); ++d) {
    maker.Along(d, d == sorted ? FactorKind::kWhole : FactorKind::kParallel, 0, i.operand_count());
  }
  return maker.Take();
}

DimRule RuleTopK(const Instruction& i) {
  RuleMaker maker(i);
  for (int64_t d = 0; d + 1 < i.operand(0)->shape().rank(); ++d) {
    maker.Along(d, FactorKind::kParallel, 0, 1);
  }
  return maker.Take();
}

DimRule RuleFft(const Instruction& i) {
  RuleMaker maker(i);
  const int64_t batch =
      i.shape().rank() - static_cast<int64_t>(i.attrs<FftAttrs>().fft_length.size());
  for (int64_t d = 0; d < batch; ++d) maker.Along(d, FactorKind::kParallel, 0, 1);
  return maker.Take();
}

DimRule RuleCholesky(const Instruction& i) {
  RuleMaker maker(i);
  for (int64_t d = 0; d + 2 < i.shape().rank(); ++d) maker.Along(d, FactorKind::kParallel, 0, 1);
  return maker.Take();
}

DimRule RuleTriangularSolve(const Instruction& i) {
  RuleMaker maker(i);
  const int64_t rank = i.shape().rank();
  for (int64_t d = 0; d + 2 < rank; ++d) maker.Along(d, FactorKind::kParallel, 0, 2);
  const int64_t free = i.attrs<TriangularSolveAttrs>().left_side ? rank - 1 : rank - 2;
  maker.Along(free, FactorKind::kParallel, 1, 2);
  return maker.Take();
}

}  // namespace weft::hlo
