// The state of making one random module. Every value carries what is known of its elements, so that
// ops are only applied where their result can be compared: nothing jumps on an inexact value.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hlo/builder.h"
#include "hlo/random_module.h"

namespace weft::hlo::random {

class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 0x1234567) {}
  uint64_t Next();
  int64_t Below(int64_t n) { return static_cast<int64_t>(Next() % static_cast<uint64_t>(n)); }
  int64_t Between(int64_t low, int64_t high) { return low + Below(high - low + 1); }  // inclusive
  bool Chance(int percent) { return Below(100) < percent; }
  template <class T, size_t N>
  T Of(const T (&options)[N]) {
    return options[Below(static_cast<int64_t>(N))];
  }

 private:
  uint64_t state_;
};

struct Known {
  double magnitude = 0;  // no element is larger; infinite: unknown, NaN and infinities too
  double error = 0;      // absolute
  double ulps = 0;       // the bound of an op that is not exact, applied to exact values
  bool whole = false;    // integers
  bool product = false;  // a rounded product, which a later addition may contract
  bool exact() const { return error == 0; }
};

struct Value {
  Instruction* at = nullptr;
  Known known;
  const Shape& shape() const { return at->shape(); }
  DType dtype() const { return at->shape().dtype(); }
};

// A computation that is being made.
struct Scope {
  Computation* computation = nullptr;
  int depth = 0;
  bool uniform = true;  // every device comes by as often as the others
  std::vector<Value> values;
  Builder builder() const { return Builder(*computation); }
};

using Dimensions = std::vector<int64_t>;

// reductions.cc
struct Combiner {
  Op op;
  double init;
};

struct LoopEnd {
  Computation* condition;
  bool by_flag;  // how many rounds is known when it runs
};

// loops.cc
struct Round {
  Computation* computation;
  std::vector<Value> rows;  // of the outputs
};

// nests.cc
struct Nest {                                // what a loop or a branch works on
  std::vector<Instruction*> numbers, flags;  // scalars of the type, and pred[]
  std::vector<Value> arrays;
  DType type = DType::kS32;
};

template <class T>
T PickOne(Dice& dice, const std::vector<T>& all) {
  auto n = static_cast<int64_t>(all.size());
  // The latest more often: they are made of the others.
  int64_t recent = dice.Chance(50) ? std::min<int64_t>(n, 3) : n;
  return all[static_cast<size_t>(n - 1 - dice.Below(recent))];
}

inline bool HaveSameShape(const Value& a, const Value& b) {
  return a.dtype() == b.dtype() && a.shape().dims() == b.shape().dims();
}

struct Maker {
  Maker(uint64_t seed, Module& module);
  Status MakeEntry(RandomModule& made);
  // Shapes and types.
  DType AnyType();
  DType AnyFloat();
  DType AnyInteger();
  int64_t AnySize();
  Dimensions AnyDims(int64_t max_elements);
  // Operands. Fresh: a parameter (of the entry), a constant or an iota.
  Value Fresh(Scope& scope, DType dtype, std::span<const int64_t> dims);
  Value NewParameter(Scope& scope, const Shape& shape);
  Value NewConstant(Scope& scope, const Shape& shape);
  Known KnownOf(const ArgumentRange& range, DType dtype) const;
  template <class Fits>
  std::optional<Value> Find(Scope& scope, Fits fits) {
    for (int i = 0; i < 12 && !scope.values.empty(); ++i) {
      auto n = static_cast<int64_t>(scope.values.size());
      int64_t recent = dice.Chance(60) ? std::min<int64_t>(n, 5) : n;
      const Value& v = scope.values[static_cast<size_t>(n - 1 - dice.Below(recent))];
      if (fits(v)) return v;
    }
    return std::nullopt;
  }
  Value Any(Scope& scope);    // of any kind
  Value Exact(Scope& scope);  // without an error
  Value AnyOf(Scope& scope, int64_t min_rank, int64_t max_elements, bool exact);
  Value Like(Scope& scope, DType dtype, const Dims& dims, bool exact);  // that type and dims
  Value Scalar(Scope& scope, DType dtype, double value);
  Value Index(Scope& scope, std::span<const int64_t> dims);
  bool IsUsable(const Value& v) const;  // in arithmetic
  // Whether the signs of its zeros are defined: sums, and the larger or lesser of two zeros, may
  // have either.
  bool HasSignedZeros(const Value& v) { return HasSignedZeros(v.at); }
  bool HasSignedZeros(const Instruction* at);
  // Brings whole values back below a bound.
  Value Bound(Scope& scope, Value v, double magnitude);
  // Adds the result of an op, if it can be made.
  bool Push(Scope& scope, Result<Instruction*> made, Known known);
  Known Sum(const Value& a, const Value& b) const;
  Known Product(const Value& a, const Value& b) const;
  Known Folded(const Known& known, DType dtype, double count) const;
  Known Union(const Known& a, const Known& b) const;
  Known Inexact(double ulps, DType dtype, double magnitude) const;
  Known Unknown(DType dtype) const;
  Dice dice;
  Module& module;
  int64_t SizeFactor() const { return large ? 30 : medium ? 16 : 1; }
  bool large;   // arrays that several threads work on
  bool medium;  // those of which loops are cut in tiles and vectors
  bool edges;   // arguments may be infinite, NaN, the least and greatest integers
  double state_bound = 8;
  bool rng_used = false;
  int64_t parameters = 0, channels = 0;
  std::unordered_map<const Instruction*, bool> signed_zeros;
  std::vector<ArgumentRange> ranges;  // of the entry's parameters, by leaf
};

void AddOps(Maker& maker, Scope& scope, int count);
void AddOp(Maker& maker, Scope& scope);
// elementwise.cc
void Unary(Maker& maker, Scope& scope);
void IntegerUnary(Maker& maker, Scope& scope, const Value& x);
void FloatUnary(Maker& maker, Scope& scope, Value x);
void Binary(Maker& maker, Scope& scope);
void IntegerBinary(Maker& maker, Scope& scope, const Value& a);
void CompareAndSelect(Maker& maker, Scope& scope);
void Clamp(Maker& maker, Scope& scope);
void ConvertAny(Maker& maker, Scope& scope);
void BitcastConvert(Maker& maker, Scope& scope);
void ReducePrecision(Maker& maker, Scope& scope);
void ComplexOps(Maker& maker, Scope& scope);
bool FloatFunction(Maker& maker, Scope& scope, const Value& x);
// movement.cc
void BroadcastAny(Maker& maker, Scope& scope);
void ReshapeAny(Maker& maker, Scope& scope);
void TransposeAny(Maker& maker, Scope& scope);
void SliceAny(Maker& maker, Scope& scope);
void PadAny(Maker& maker, Scope& scope);
void ConcatenateAny(Maker& maker, Scope& scope);
void ReverseAny(Maker& maker, Scope& scope);
void IotaAny(Maker& maker, Scope& scope);
void GatherAny(Maker& maker, Scope& scope);
void DynamicSliceAny(Maker& maker, Scope& scope);
void DynamicUpdateAny(Maker& maker, Scope& scope);
void TupleAndBack(Maker& maker, Scope& scope);
Dimensions OtherDims(Maker& maker, int64_t elements);  // a factorisation
std::optional<Combiner> AnyCombiner(Maker& maker, const Value& v, double count);
Known Combined(const Maker& maker, const Combiner& combiner, const Known& known, DType dtype,
               double count);
Computation* BinaryComputation(Maker& maker, Scope& scope, Op op, DType dtype);
Computation* SelectingComputation(Maker& maker, Scope& scope, Op op, DType dtype);
void ReduceAny(Maker& maker, Scope& scope);
void ReduceMany(Maker& maker, Scope& scope);
void ArgMax(Maker& maker, Scope& scope);
void ReduceWindowAny(Maker& maker, Scope& scope);
void SelectAndScatterAny(Maker& maker, Scope& scope);
Dimensions ScatterWindowsOf(Maker& maker, const Shape& shape, ScatterAttrs& attrs);
Computation* ScatterCombiner(Maker& maker, Scope& scope, std::span<const Value> operands,
                             std::span<const std::optional<Op>> ops);
void ScatterAny(Maker& maker, Scope& scope);
// The results of sorting the arrays.
void PushSort(Maker& maker, Scope& scope, std::span<const Value> arrays, const SortAttrs& attrs);
void SortAny(Maker& maker, Scope& scope);
void DotAny(Maker& maker, Scope& scope);
void Softmax(Maker& maker, Scope& scope);
// library.cc
void ComplexFunctionAny(Maker& maker, Scope& scope);
void ComplexDivide(Maker& maker, Scope& scope);
void FftAny(Maker& maker, Scope& scope);
void CholeskyAny(Maker& maker, Scope& scope);
void TopKAny(Maker& maker, Scope& scope);
void RandomBitsAny(Maker& maker, Scope& scope);
void RngAny(Maker& maker, Scope& scope);
void BatchNormAny(Maker& maker, Scope& scope);
void SortMany(Maker& maker, Scope& scope);
void StochasticConvertAny(Maker& maker, Scope& scope);
// wrappers.cc
void FusionAny(Maker& maker, Scope& scope);
void AsyncAny(Maker& maker, Scope& scope);
void CollectiveAny(Maker& maker, Scope& scope);
void LayoutAny(Maker& maker, Scope& scope);
void GatherBatched(Maker& maker, Scope& scope);
void ScatterBatched(Maker& maker, Scope& scope);
// sized.cc
Result<Instruction*> SizedSlice(Maker& maker, Scope& scope, const Value& x, int64_t dim);
Result<Instruction*> SizedPad(Maker& maker, Scope& scope, const Value& x, int64_t dim,
                              Known& known);
Result<Instruction*> SizedBroadcast(Scope& scope, const Value& x, int64_t dim);
Result<Instruction*> SizedCollective(Maker& maker, Scope& scope, const Value& x);
Result<Instruction*> SizedSort(Maker& maker, Scope& scope, const Value& x, int64_t dim);
void SizedStep(Maker& maker, Scope& scope, Value& x, int64_t& dim);
void SizedAny(Maker& maker, Scope& scope);
// forms.cc
Instruction* KeyOf(Builder& b, Instruction* x, int64_t form);
void SortByFunction(Maker& maker, Scope& scope);
void ReduceWindowMany(Maker& maker, Scope& scope);
void AlgebraAny(Maker& maker, Scope& scope);
void TriangularSystem(Maker& maker, Scope& scope);
void BatchNormGradAny(Maker& maker, Scope& scope);
void BitcastWidth(Maker& maker, Scope& scope);
void MapMany(Maker& maker, Scope& scope);
void TokensAny(Maker& maker, Scope& scope);
void ScanMany(Maker& maker, Scope& scope);
// products.cc
void TypedDotAny(Maker& maker, Scope& scope);
void RaggedDotAny(Maker& maker, Scope& scope);
void ScaledDotAny(Maker& maker, Scope& scope);
void ConvolutionAny(Maker& maker, Scope& scope);
// collectives.cc
void ChooseDevices(Maker& maker, uint64_t seed);
int64_t Devices(const Maker& maker);
std::vector<std::vector<int64_t>> AnyGroups(Maker& maker, int64_t count);
int64_t ChooseGroups(Maker& maker, CollectiveAttrs& attrs, bool has_global_ids);
std::optional<std::pair<Computation*, Known>> AnyReducer(Maker& maker, Scope& scope, const Value& x,
                                                         int64_t count);
void ReductionOfDevices(Maker& maker, Scope& scope, const Value& x);
void AllReduceOfTwo(Maker& maker, Scope& scope, const Value& x);
void AllReduceHalves(Maker& maker, Scope& scope, const Value& x);
void AllGatherHalves(Maker& maker, Scope& scope, const Value& x);
void PermuteHalves(Maker& maker, Scope& scope, const Value& x);
void AllToAllOfMany(Maker& maker, Scope& scope, const Value& x);
void CollectiveReduceAny(Maker& maker, Scope& scope, const Value& x);
void CollectiveForms(Maker& maker, Scope& scope, const Value& x);
void PermuteSlices(Maker& maker, Scope& scope, const Value& x);
void DeviceCollectiveAny(Maker& maker, Scope& scope);
// control.cc
void AddInitialState(Maker& maker, Scope& scope, std::vector<Value>& init);
LoopEnd MakeLoopEnd(Maker& maker, const Scope& scope, const Shape& state,
                    std::span<const Value> init, bool dynamic, bool nested);
void WhileAny(Maker& maker, Scope& scope);
void ConditionalAny(Maker& maker, Scope& scope);
void CallAny(Maker& maker, Scope& scope);
void MapAny(Maker& maker, Scope& scope);
void ScanAny(Maker& maker, Scope& scope);
Scope NewScope(Maker& maker, const Scope& outer, std::string_view name);
std::vector<Value> Several(Maker& maker, Scope& scope, int64_t count);
Value NextState(Maker& maker, Scope& body, const std::vector<Value>& state, size_t k,
                const Value& counter);
bool MayBeState(const Maker& maker, const Value& v);
Known StateFacts(const Maker& maker, const Value& v);
Round MakeRound(Maker& maker, Scope& scope, const std::vector<Value>& carries,
                const std::vector<Value>& inputs);
Result<Computation*> MakeScanBody(Maker& maker, Scope& scope, const Shape& state,
                                  const Round& round, size_t carries, size_t inputs,
                                  int64_t length);
void ScanLoop(Maker& maker, Scope& scope);
Instruction* NumberOf(Builder& b, const Nest& nest, int64_t value);
Result<Value> NestMaskedStore(Maker& maker, Builder& b, const Nest& nest, const Value& array);
Status CountFlat(Maker& maker, Builder& b, const Nest& nest, int level, Instruction*& counter,
                 Instruction*& inner);
Result<Instruction*> NestNumber(Maker& maker, Builder& b, const Nest& nest);
Result<Instruction*> NestChoice(Maker& maker, Builder& b, const Nest& nest, int depth);
Result<Instruction*> NestFlag(Maker& maker, Builder& b, const Nest& nest);
Result<Instruction*> NestPlace(Maker& maker, Builder& b, const Nest& nest, int64_t size);
Result<Value> NestElements(Maker& maker, Builder& b, const Value& x, const Value& y);
Result<Value> NestUpdate(Maker& maker, Builder& b, const Nest& nest, const Value& array);
Status NestRound(Maker& maker, Scope& scope, Nest& nest, int level, int64_t actions);
Status NestLoop(Maker& maker, Scope& scope, Nest& nest, int level);
Status NestBranches(Maker& maker, Scope& scope, Nest& nest, int level);
Nest PartOfNest(Maker& maker, const Nest& nest, bool twice);
std::vector<Instruction*> LeavesOf(const Nest& nest);
Result<Nest> NestIn(Maker& maker, Builder& b, Instruction* tuple, const Nest& like, int64_t first);
Nest NextNest(Maker& maker, const Nest& state, const Nest& after);
void TakeResults(Maker& maker, Nest& nest, const Nest& given, const Nest& results);
void NestAny(Maker& maker, Scope& scope);

double Epsilon(DType dtype);       // the distance from 1 to the next number
double Tiny(DType dtype);          // the least positive number
double LargestExact(DType dtype);  // up to here every integer is a number of the format
bool IsComputable(DType dtype);    // floats that arithmetic is done on here
Shape ArrayShape(DType dtype, std::span<const int64_t> dims);

}  // namespace weft::hlo::random
