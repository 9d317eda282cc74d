#include "hlo/random/maker.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/counter_random.h"
#include "base/str.h"
#include "hlo/verify.h"

namespace weft::hlo::random {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kUsableMagnitude = 1e5;
constexpr DType kFloats[] = {
    DType::kF32,        DType::kF32,        DType::kF32,    DType::kF32,           DType::kF64,
    DType::kBF16,       DType::kBF16,       DType::kF16,    DType::kF8E4M3FN,      DType::kF8E5M2,
    DType::kF8E4M3FNUZ, DType::kF8E5M2FNUZ, DType::kF8E3M4, DType::kF8E4M3B11FNUZ, DType::kF8E4M3,
    DType::kF4E2M1FN,   DType::kF64,        DType::kF32,    DType::kF6E2M3FN,      DType::kF6E3M2FN,
    DType::kF8E8M0FNU,  DType::kF32};
constexpr DType kIntegers[] = {DType::kS32, DType::kS32, DType::kS32, DType::kU32, DType::kS64,
                               DType::kU64, DType::kS8,  DType::kU8,  DType::kS16, DType::kU16,
                               DType::kS4,  DType::kU4,  DType::kS2,  DType::kU2,  DType::kS1,
                               DType::kU1,  DType::kS32, DType::kS32};
constexpr int64_t kLargeSizes[] = {256, 1000, 1023, 4096};
constexpr int64_t kMediumSizes[] = {100, 129, 257, 500, 1000, 2001};
constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 257};

}  // namespace

uint64_t Dice::Next() {
  return SplitMix(state_ += kSplitMixStep);
}

Shape ArrayShape(DType dtype, std::span<const int64_t> dims) {
  return Shape(dtype, dims);
}

Maker::Maker(uint64_t seed, Module& module) : dice(seed), module(module) {
  edges = dice.Chance(25);
  int64_t size = Dice(seed ^ 0xb16a77a9).Below(100);
  large = size < 3;
  medium = size >= 3 && size < 15;
  ChooseDevices(*this, seed);
}

DType Maker::AnyFloat() {
  return dice.Of(kFloats);
}
DType Maker::AnyInteger() {
  return dice.Of(kIntegers);
}
DType Maker::AnyType() {
  int64_t d = dice.Below(100);
  if (d < 55) return AnyFloat();
  if (d < 88) return AnyInteger();
  if (d < 95) return DType::kPred;
  return dice.Chance(70) ? DType::kC64 : DType::kC128;
}

int64_t Maker::AnySize() {
  if (dice.Chance(1)) return 0;
  if (large && dice.Chance(30)) return dice.Of(kLargeSizes);
  if (medium && dice.Chance(30)) return dice.Of(kMediumSizes);
  if (dice.Chance(50)) return dice.Between(1, 9);
  return dice.Of(kSizes);
}

Dimensions Maker::AnyDims(int64_t max_elements) {
  constexpr int64_t kRanks[] = {0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 4};
  max_elements *= SizeFactor();
  Dimensions dims;
  int64_t elements = 1;
  for (int64_t left = dice.Of(kRanks); left > 0; --left) {
    int64_t size = AnySize();
    while (size > 1 && elements * size > max_elements) size /= 2;
    dims.push_back(size);
    elements *= std::max<int64_t>(size, 1);
  }
  return dims;
}

Known Maker::Unknown(DType dtype) const {
  Known known;
  known.magnitude = kInfinite;
  known.whole = !IsFloat(dtype) && !IsComplex(dtype);
  return known;
}

Known Maker::KnownOf(const ArgumentRange& range, DType dtype) const {
  Known known = Unknown(dtype);
  if (range.kind == ArgumentRange::Kind::kEdges) return known;
  known.magnitude = range.kind == ArgumentRange::Kind::kUnit
                        ? 1
                        : std::max(std::abs(range.low), std::abs(range.high));
  // What is drawn below zero wraps around.
  if (IsUnsigned(dtype) && range.low < 0) known.magnitude = std::ldexp(1.0, BitWidth(dtype)) - 1;
  known.whole |= range.kind == ArgumentRange::Kind::kWhole;
  return known;
}

Value Maker::NewParameter(Scope& scope, const Shape& shape) {
  ArgumentRange range;
  DType t = shape.dtype();
  bool real = IsFloat(t) || IsComplex(t);
  if (edges && dice.Chance(80)) {
    range.kind = ArgumentRange::Kind::kEdges;
  } else if (real && dice.Chance(50) && !edges) {
    range.kind = ArgumentRange::Kind::kUnit;
  } else {
    range.high = std::min(static_cast<double>(dice.Between(1, 12)), LargestExact(t));
    range.low = dice.Chance(50) ? -range.high : 0;
  }
  if (real == false && BitWidth(t) < 8) range.low = 0, range.high = 1;
  ranges.push_back(range);
  Value v{*scope.builder().Parameter(parameters++, shape), KnownOf(range, t)};
  scope.values.push_back(v);
  return v;
}

Value Maker::NewConstant(Scope& scope, const Shape& shape) {
  Literal literal{shape};
  double high = std::min(static_cast<double>(dice.Between(1, 6)), LargestExact(shape.dtype()));
  bool negative = dice.Chance(50) && !IsUnsigned(shape.dtype()) && shape.dtype() != DType::kPred;
  if (BitWidth(shape.dtype()) < 4) high = 1, negative = false;
  for (int64_t i = 0; i < literal.size(); ++i) {
    auto element = static_cast<double>(
        dice.Between(negative ? -static_cast<int64_t>(high) : 0, static_cast<int64_t>(high)));
    if (IsComplex(shape.dtype())) {
      literal.SetComplex(i, {element, 1});
    } else {
      literal.SetDouble(i, element);
    }
  }
  Known known = Unknown(shape.dtype());
  known.magnitude = high + (IsComplex(shape.dtype()) ? 1 : 0);
  known.whole = true;
  Value v{scope.builder().Constant(std::move(literal)), known};
  scope.values.push_back(v);
  return v;
}

Value Maker::Fresh(Scope& scope, DType dtype, std::span<const int64_t> dims) {
  Shape shape = ArrayShape(dtype, dims);
  if (scope.depth == 0 && dice.Chance(85)) return NewParameter(scope, shape);
  if (shape.elements() <= 300 && dice.Chance(60)) return NewConstant(scope, shape);
  Value scalar = NewConstant(scope, Shape::Scalar(dtype));
  if (shape.IsScalar()) return scalar;
  Value v{*scope.builder().Broadcast(scalar.at, shape, {}), scalar.known};
  scope.values.push_back(v);
  return v;
}

Value Maker::Scalar(Scope& scope, DType dtype, double value) {
  Known known = Unknown(dtype);
  known.magnitude = std::abs(value);
  known.whole = true;
  return {scope.builder().ScalarConstant(dtype, value), known};
}

Value Maker::Any(Scope& scope) {
  if (auto v = Find(scope, [](const Value&) { return true; }); v && dice.Chance(80)) return *v;
  return Fresh(scope, AnyType(), AnyDims(3000));
}

Value Maker::Exact(Scope& scope) {
  auto v = Find(scope, [](const Value& x) { return x.known.exact(); });
  if (v && dice.Chance(85)) return *v;
  return Fresh(scope, AnyType(), AnyDims(3000));
}

Value Maker::AnyOf(Scope& scope, int64_t min_rank, int64_t max_elements, bool exact) {
  int64_t most = SizeFactor() * max_elements;
  auto v = Find(scope, [&](const Value& x) {
    return x.shape().rank() >= min_rank && x.shape().elements() <= most &&
           (!exact || x.known.exact());
  });
  if (v && dice.Chance(85)) return *v;
  Dimensions dims = AnyDims(max_elements);
  while (static_cast<int64_t>(dims.size()) < min_rank) dims.push_back(dice.Between(1, 3));
  return Fresh(scope, AnyType(), dims);
}

Value Maker::Like(Scope& scope, DType dtype, const Dims& dims, bool exact) {
  auto v = Find(scope, [&](const Value& x) {
    return x.dtype() == dtype && x.shape().dims() == dims && (!exact || x.known.exact());
  });
  if (v && dice.Chance(85)) return *v;
  return Fresh(scope, dtype, dims);
}

Value Maker::Index(Scope& scope, std::span<const int64_t> dims) {
  constexpr DType kIndexTypes[] = {DType::kS32, DType::kS32, DType::kS32, DType::kS64,
                                   DType::kU32, DType::kU8,  DType::kS8,  DType::kU64};
  return Like(scope, dice.Of(kIndexTypes), Dims(dims), true);
}

bool Maker::IsUsable(const Value& v) const {
  if (!IsFloat(v.dtype()) && !IsComplex(v.dtype())) return true;
  return IsComputable(v.dtype()) &&
         (edges ? v.known.exact() : v.known.magnitude <= kUsableMagnitude);
}

bool Maker::HasSignedZeros(const Instruction* at) {
  if (at->shape().IsArray() && !IsFloat(at->shape().dtype()) && !IsComplex(at->shape().dtype())) {
    return true;
  }
  if (auto found = signed_zeros.find(at); found != signed_zeros.end()) return found->second;
  bool defined = true;
  switch (at->op()) {
    case Op::kParameter:
    case Op::kConstant: break;
    case Op::kAllReduce:
    case Op::kCall:
    case Op::kClamp:
    case Op::kConditional:
    case Op::kConvolution:
    case Op::kDot:
    case Op::kFusion:
    case Op::kMap:
    case Op::kMaximum:
    case Op::kMinimum:
    case Op::kRaggedDot:
    case Op::kReduce:
    case Op::kReduceScatter:
    case Op::kReduceWindow:
    case Op::kScaledDot:
    case Op::kScan:
    case Op::kScatter:
    case Op::kSelectAndScatter:
    case Op::kWhile: defined = false; break;
    default:
      for (const Instruction* operand : at->operands()) defined &= HasSignedZeros(operand);
  }
  signed_zeros[at] = defined;
  return defined;
}

Value Maker::Bound(Scope& scope, Value v, double magnitude) {
  if (v.known.magnitude <= magnitude || IsComplex(v.dtype()) || !IsFloat(v.dtype())) return v;
  Builder b = scope.builder();
  Instruction* low = b.ScalarConstant(v.dtype(), -magnitude);
  Instruction* high = b.ScalarConstant(v.dtype(), magnitude);
  auto clamped = b.Add(Op::kClamp, {low, v.at, high});
  if (!clamped) return v;
  v.at = *clamped;
  v.known.magnitude = magnitude;
  v.known.ulps = 0;
  return v;
}

bool Maker::Push(Scope& scope, Result<Instruction*> made, Known known) {
  if (!made) return false;
  if ((*made)->shape().IsArray() && (*made)->shape().elements() > (large    ? 400000
                                                                   : medium ? 60000
                                                                            : 20000)) {
    return false;
  }
  if (std::isnan(known.error) || std::isnan(known.magnitude))
    known.magnitude = known.error = kInfinite;
  DType t = (*made)->shape().dtype();
  if (known.magnitude > LargestExact(t) && (IsFloat(t) || IsComplex(t))) {
    // Rounded, and of the narrow formats perhaps no number any more.
    known.whole = false;
    if (BitWidth(t) <= 8) {
      known.magnitude = kInfinite;
      if (known.error > 0) known.error = kInfinite;
    }
    if (t == DType::kF16 && known.magnitude > 60000) known.magnitude = kInfinite;
  }
  scope.values.push_back({*made, known});
  return true;
}

// Contraction keeps a product unrounded in a sum: the only freedom of + - *.
void AddOps(Maker& maker, Scope& scope, int count) {
  for (int i = 0; i < count; ++i) AddOp(maker, scope);
}

Status Maker::MakeEntry(RandomModule& made) {
  Scope scope;
  scope.computation = module.AddComputation("main");
  module.set_entry(scope.computation);
  AddOps(*this, scope, static_cast<int>(dice.Between(2, 12)));
  if (scope.values.empty()) Any(scope);
  std::vector<Value> results;
  for (int64_t n = dice.Between(1, 3); n > 0; --n) {
    auto v = Find(scope, [](const Value&) { return true; });
    if (v) results.push_back(*v);
  }
  // What nobody reads would not be computed.
  for (const Value& v : scope.values) {
    bool made = !v.at->IsParameter() && v.at->op() != Op::kConstant;
    if (made && v.at->users().empty() && results.size() < 9 && dice.Chance(60)) {
      results.push_back(v);
    }
  }
  if (results.empty()) results.push_back(scope.values.back());
  std::vector<Instruction*> leaves;
  for (const Value& v : results) {
    leaves.push_back(v.at);
    made.results.push_back({v.known.error, v.known.ulps});
  }
  bool tuple = leaves.size() > 1 || dice.Chance(30);
  scope.computation->set_root(tuple ? TRY(scope.builder().Tuple(leaves)) : leaves[0]);
  // Donation: results take the memory of parameters of their shape.
  std::vector<bool> taken(static_cast<size_t>(parameters), false);
  for (size_t k = 0; k < results.size() && dice.Chance(70); ++k) {
    for (int64_t tries = 0; tries < parameters; ++tries) {
      int64_t p = dice.Below(parameters);
      if (taken[static_cast<size_t>(p)] ||
          scope.computation->parameter(p)->shape() != results[k].shape()) {
        continue;
      }
      taken[static_cast<size_t>(p)] = true;
      ShapeIndex output;
      if (tuple) output.push_back(static_cast<int64_t>(k));
      module.config().input_output_alias.push_back({output, p, {}, AliasKind::kMay});
      break;
    }
  }
  made.arguments = ranges;
  return {};
}

}  // namespace weft::hlo::random

namespace weft::hlo {

Result<RandomModule> MakeRandomModule(uint64_t seed) {
  RandomModule made;
  made.module = std::make_unique<Module>(StrCat("random_", seed));
  random::Maker maker(seed, *made.module);
  TRY(maker.MakeEntry(made));
  made.module->RemoveUnusedComputations();
  TRY(Verify(*made.module));
  return made;
}

}  // namespace weft::hlo
