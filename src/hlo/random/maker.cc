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

double Epsilon(DType t) {
  switch (t) {
    case DType::kF64:
    case DType::kC128: return 0x1p-52;
    case DType::kF32:
    case DType::kC64: return 0x1p-23;
    case DType::kBF16: return 0x1p-7;
    case DType::kF16: return 0x1p-10;
    case DType::kF8E3M4: return 0x1p-4;
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ:
    case DType::kF6E3M2FN: return 0x1p-2;
    case DType::kF8E8M0FNU: return 1;
    case DType::kF4E2M1FN: return 0.5;
    default: return 0x1p-3;
  }
}

double Tiny(DType t) {
  switch (t) {
    case DType::kF64:
    case DType::kC128: return 1e-300;
    case DType::kF32:
    case DType::kC64:
    case DType::kBF16: return 1e-37;
    case DType::kF16: return 0x1p-24;
    case DType::kF8E3M4: return 0x1p-6;
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ: return 0x1p-16;
    case DType::kF4E2M1FN: return 0.5;
    case DType::kF6E2M3FN: return 0x1p-3;
    case DType::kF6E3M2FN: return 0x1p-4;
    default: return 0x1p-9;
  }
}

double LargestExact(DType t) {
  if (!IsFloat(t) && !IsComplex(t)) return kInfinite;
  if (t == DType::kF8E3M4) return 15;
  if (t == DType::kF6E2M3FN) return 7;
  return 2 / Epsilon(t);
}

bool IsComputable(DType t) {
  return (IsFloat(t) && t != DType::kF8E8M0FNU) || IsComplex(t);
}

Maker::Maker(uint64_t seed, Module& module) : dice_(seed), module_(module) {
  edges_ = dice_.Chance(25);
  int64_t size = Dice(seed ^ 0xb16a77a9).Below(100);
  large_ = size < 3;
  medium_ = size >= 3 && size < 15;
  ChooseDevices(seed);
}

DType Maker::AnyFloat() {
  return dice_.Of(kFloats);
}
DType Maker::AnyInteger() {
  return dice_.Of(kIntegers);
}
DType Maker::AnyType() {
  int64_t d = dice_.Below(100);
  if (d < 55) return AnyFloat();
  if (d < 88) return AnyInteger();
  if (d < 95) return DType::kPred;
  return dice_.Chance(70) ? DType::kC64 : DType::kC128;
}

int64_t Maker::AnySize() {
  if (dice_.Chance(1)) return 0;
  if (large_ && dice_.Chance(30)) return dice_.Of(kLargeSizes);
  if (medium_ && dice_.Chance(30)) return dice_.Of(kMediumSizes);
  if (dice_.Chance(50)) return dice_.Between(1, 9);
  return dice_.Of(kSizes);
}

Maker::Dimensions Maker::AnyDims(int64_t max_elements) {
  constexpr int64_t kRanks[] = {0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 4};
  max_elements *= SizeFactor();
  Dimensions dims;
  int64_t elements = 1;
  for (int64_t left = dice_.Of(kRanks); left > 0; --left) {
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
  if (edges_ && dice_.Chance(80)) {
    range.kind = ArgumentRange::Kind::kEdges;
  } else if (real && dice_.Chance(50) && !edges_) {
    range.kind = ArgumentRange::Kind::kUnit;
  } else {
    range.high = std::min(static_cast<double>(dice_.Between(1, 12)), LargestExact(t));
    range.low = dice_.Chance(50) ? -range.high : 0;
  }
  if (real == false && BitWidth(t) < 8) range.low = 0, range.high = 1;
  ranges_.push_back(range);
  Value v{*scope.builder().Parameter(parameters_++, shape), KnownOf(range, t)};
  scope.values.push_back(v);
  return v;
}

Value Maker::NewConstant(Scope& scope, const Shape& shape) {
  Literal literal{shape};
  double high = std::min(static_cast<double>(dice_.Between(1, 6)), LargestExact(shape.dtype()));
  bool negative = dice_.Chance(50) && !IsUnsigned(shape.dtype()) && shape.dtype() != DType::kPred;
  if (BitWidth(shape.dtype()) < 4) high = 1, negative = false;
  for (int64_t i = 0; i < literal.size(); ++i) {
    auto element = static_cast<double>(
        dice_.Between(negative ? -static_cast<int64_t>(high) : 0, static_cast<int64_t>(high)));
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
  if (scope.depth == 0 && dice_.Chance(85)) return NewParameter(scope, shape);
  if (shape.elements() <= 300 && dice_.Chance(60)) return NewConstant(scope, shape);
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
  if (auto v = Find(scope, [](const Value&) { return true; }); v && dice_.Chance(80)) return *v;
  return Fresh(scope, AnyType(), AnyDims(3000));
}

Value Maker::Exact(Scope& scope) {
  auto v = Find(scope, [](const Value& x) { return x.known.exact(); });
  if (v && dice_.Chance(85)) return *v;
  return Fresh(scope, AnyType(), AnyDims(3000));
}

Value Maker::AnyOf(Scope& scope, int64_t min_rank, int64_t max_elements, bool exact) {
  int64_t most = SizeFactor() * max_elements;
  auto v = Find(scope, [&](const Value& x) {
    return x.shape().rank() >= min_rank && x.shape().elements() <= most &&
           (!exact || x.known.exact());
  });
  if (v && dice_.Chance(85)) return *v;
  Dimensions dims = AnyDims(max_elements);
  while (static_cast<int64_t>(dims.size()) < min_rank) dims.push_back(dice_.Between(1, 3));
  return Fresh(scope, AnyType(), dims);
}

Value Maker::Like(Scope& scope, DType dtype, const Dims& dims, bool exact) {
  auto v = Find(scope, [&](const Value& x) {
    return x.dtype() == dtype && x.shape().dims() == dims && (!exact || x.known.exact());
  });
  if (v && dice_.Chance(85)) return *v;
  return Fresh(scope, dtype, dims);
}

Value Maker::Index(Scope& scope, std::span<const int64_t> dims) {
  constexpr DType kIndexTypes[] = {DType::kS32, DType::kS32, DType::kS32, DType::kS64,
                                   DType::kU32, DType::kU8,  DType::kS8,  DType::kU64};
  return Like(scope, dice_.Of(kIndexTypes), Dims(dims), true);
}

bool Maker::IsUsable(const Value& v) const {
  if (!IsFloat(v.dtype()) && !IsComplex(v.dtype())) return true;
  return IsComputable(v.dtype()) &&
         (edges_ ? v.known.exact() : v.known.magnitude <= kUsableMagnitude);
}

bool Maker::HasSignedZeros(const Instruction* at) {
  if (at->shape().IsArray() && !IsFloat(at->shape().dtype()) && !IsComplex(at->shape().dtype())) {
    return true;
  }
  if (auto found = signed_zeros_.find(at); found != signed_zeros_.end()) return found->second;
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
  signed_zeros_[at] = defined;
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
  if ((*made)->shape().IsArray() && (*made)->shape().elements() > (large_    ? 400000
                                                                   : medium_ ? 60000
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
Known Maker::Sum(const Value& a, const Value& b) const {
  Known known = Unknown(a.dtype());
  known.magnitude = a.known.magnitude + b.known.magnitude;
  known.error = a.known.error + b.known.error;
  known.whole = a.known.whole && b.known.whole;
  bool fits = known.whole && known.magnitude <= LargestExact(a.dtype());
  bool rounds = known.error > 0 || a.known.product || b.known.product;
  if (rounds && !fits && (IsFloat(a.dtype()) || IsComplex(a.dtype()))) {
    known.error += 2 * Epsilon(a.dtype()) * known.magnitude + 2 * Tiny(a.dtype());
  }
  return known;
}

Known Maker::Product(const Value& a, const Value& b) const {
  Known known = Unknown(a.dtype());
  const Known &x = a.known, &y = b.known;
  bool real = IsFloat(a.dtype()) || IsComplex(a.dtype());
  known.magnitude = x.magnitude * y.magnitude * (IsComplex(a.dtype()) ? 2 : 1);
  known.whole = x.whole && y.whole;
  bool fits = known.whole && known.magnitude <= LargestExact(a.dtype());
  if (x.error > 0 || y.error > 0) {
    known.error = x.magnitude * y.error + y.magnitude * x.error + x.error * y.error +
                  Epsilon(a.dtype()) * known.magnitude + Tiny(a.dtype());
  } else if (IsComplex(a.dtype()) && !fits) {
    known.error = 4 * Epsilon(a.dtype()) * known.magnitude + Tiny(a.dtype());
  }
  known.product = real && !fits;
  return known;
}

Known Maker::Union(const Known& a, const Known& b) const {
  return {.magnitude = std::max(a.magnitude, b.magnitude),
          .error = std::max(a.error, b.error),
          // A bound in ULPs is for all elements, or for none.
          .ulps = (a.error == 0 || a.ulps > 0) && (b.error == 0 || b.ulps > 0)
                      ? std::max(a.ulps, b.ulps)
                      : 0,
          .whole = a.whole && b.whole,
          .product = a.product || b.product};
}

// The sum of `count` such values, in any order.
Known Maker::Folded(const Known& known, DType dtype, double count) const {
  Known sum = Unknown(dtype);
  if (!IsFloat(dtype) && !IsComplex(dtype)) return sum;
  sum.magnitude = known.magnitude * count;
  sum.whole = known.whole && sum.magnitude <= LargestExact(dtype);
  sum.error = known.error * count;
  if (!sum.whole || sum.error > 0) {
    sum.error += count * Epsilon(dtype) * sum.magnitude + count * Tiny(dtype);
  }
  return sum;
}

Known Maker::Inexact(double ulps, DType dtype, double magnitude) const {
  Known known = Unknown(dtype);
  known.magnitude = magnitude;
  known.ulps = ulps;
  known.error = ulps * Epsilon(dtype) * magnitude + Tiny(dtype);
  known.whole = false;
  return known;
}

void Maker::AddOp(Scope& scope) {
  struct Row {
    int weight;
    void (Maker::*make)(Scope&);
  };
  static constexpr Row kRows[] = {
      {16, &Maker::Unary},
      {24, &Maker::Binary},
      {8, &Maker::CompareAndSelect},
      {3, &Maker::Clamp},
      {10, &Maker::ConvertAny},
      {2, &Maker::BitcastConvert},
      {2, &Maker::ReducePrecision},
      {3, &Maker::ComplexOps},
      {10, &Maker::BroadcastAny},
      {7, &Maker::ReshapeAny},
      {7, &Maker::TransposeAny},
      {7, &Maker::SliceAny},
      {6, &Maker::PadAny},
      {6, &Maker::ConcatenateAny},
      {4, &Maker::ReverseAny},
      {3, &Maker::IotaAny},
      {5, &Maker::GatherAny},
      {5, &Maker::DynamicSliceAny},
      {7, &Maker::DynamicUpdateAny},
      {2, &Maker::TupleAndBack},
      {8, &Maker::ReduceAny},
      {3, &Maker::ReduceMany},
      {3, &Maker::ArgMax},
      {4, &Maker::ReduceWindowAny},
      {1, &Maker::SelectAndScatterAny},
      {5, &Maker::ScatterAny},
      {2, &Maker::SortAny},
      {4, &Maker::DotAny},
      {1, &Maker::ConvolutionAny},
      {2, &Maker::TypedDotAny},
      {1, &Maker::RaggedDotAny},
      {1, &Maker::ScaledDotAny},
      {2, &Maker::Softmax},
      {5, &Maker::WhileAny},
      {4, &Maker::ConditionalAny},
      {2, &Maker::CallAny},
      {1, &Maker::MapAny},
      {2, &Maker::ScanAny},
      {2, &Maker::ComplexFunctionAny},
      {1, &Maker::ComplexDivide},
      {1, &Maker::FftAny},
      {1, &Maker::CholeskyAny},
      {1, &Maker::TopKAny},
      {1, &Maker::RandomBitsAny},
      {1, &Maker::RngAny},
      {1, &Maker::BatchNormAny},
      {1, &Maker::SortMany},
      {1, &Maker::StochasticConvertAny},
      {3, &Maker::FusionAny},
      {1, &Maker::AsyncAny},
      {2, &Maker::CollectiveAny},
      {2, &Maker::LayoutAny},
      {1, &Maker::GatherBatched},
      {1, &Maker::ScatterBatched},
      {2, &Maker::SizedAny},
      {5, &Maker::ScanLoop},
      {6, &Maker::NestAny},
      {2, &Maker::SortByFunction},
      {2, &Maker::ReduceWindowMany},
      {6, &Maker::AlgebraAny},
      {1, &Maker::TriangularSystem},
      {1, &Maker::BatchNormGradAny},
      {1, &Maker::BitcastWidth},
      {1, &Maker::MapMany},
      {1, &Maker::TokensAny},
      {1, &Maker::ScanMany},
  };
  int total = 0;
  for (const Row& row : kRows) total += row.weight;
  auto at = static_cast<int>(dice_.Below(total));
  for (const Row& row : kRows) {
    at -= row.weight;
    if (at < 0) return (this->*row.make)(scope);
  }
}

void Maker::AddOps(Scope& scope, int count) {
  for (int i = 0; i < count; ++i) AddOp(scope);
}

Status Maker::MakeEntry(RandomModule& made) {
  Scope scope;
  scope.computation = module_.AddComputation("main");
  module_.set_entry(scope.computation);
  AddOps(scope, static_cast<int>(dice_.Between(2, 12)));
  if (scope.values.empty()) Any(scope);
  std::vector<Value> results;
  for (int64_t n = dice_.Between(1, 3); n > 0; --n) {
    auto v = Find(scope, [](const Value&) { return true; });
    if (v) results.push_back(*v);
  }
  // What nobody reads would not be computed.
  for (const Value& v : scope.values) {
    bool made = !v.at->IsParameter() && v.at->op() != Op::kConstant;
    if (made && v.at->users().empty() && results.size() < 9 && dice_.Chance(60)) {
      results.push_back(v);
    }
  }
  if (results.empty()) results.push_back(scope.values.back());
  std::vector<Instruction*> leaves;
  for (const Value& v : results) {
    leaves.push_back(v.at);
    made.results.push_back({v.known.error, v.known.ulps});
  }
  bool tuple = leaves.size() > 1 || dice_.Chance(30);
  scope.computation->set_root(tuple ? TRY(scope.builder().Tuple(leaves)) : leaves[0]);
  // Donation: results take the memory of parameters of their shape.
  std::vector<bool> taken(static_cast<size_t>(parameters_), false);
  for (size_t k = 0; k < results.size() && dice_.Chance(70); ++k) {
    for (int64_t tries = 0; tries < parameters_; ++tries) {
      int64_t p = dice_.Below(parameters_);
      if (taken[static_cast<size_t>(p)] ||
          scope.computation->parameter(p)->shape() != results[k].shape()) {
        continue;
      }
      taken[static_cast<size_t>(p)] = true;
      ShapeIndex output;
      if (tuple) output.push_back(static_cast<int64_t>(k));
      module_.config().input_output_alias.push_back({output, p, {}, AliasKind::kMay});
      break;
    }
  }
  made.arguments = ranges_;
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
