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

class Maker {
 public:
  Maker(uint64_t seed, Module& module);
  Status MakeEntry(RandomModule& made);

 private:
  using Dimensions = std::vector<int64_t>;
  void AddOps(Scope& scope, int count);
  void AddOp(Scope& scope);

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
      int64_t recent = dice_.Chance(60) ? std::min<int64_t>(n, 5) : n;
      const Value& v = scope.values[static_cast<size_t>(n - 1 - dice_.Below(recent))];
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

  // elementwise.cc
  void Unary(Scope& scope);
  void Binary(Scope& scope);
  void IntegerBinary(Scope& scope, const Value& a);
  void CompareAndSelect(Scope& scope);
  void Clamp(Scope& scope);
  void ConvertAny(Scope& scope);
  void BitcastConvert(Scope& scope);
  void ReducePrecision(Scope& scope);
  void ComplexOps(Scope& scope);
  bool FloatFunction(Scope& scope, const Value& x);
  // movement.cc
  void BroadcastAny(Scope& scope);
  void ReshapeAny(Scope& scope);
  void TransposeAny(Scope& scope);
  void SliceAny(Scope& scope);
  void PadAny(Scope& scope);
  void ConcatenateAny(Scope& scope);
  void ReverseAny(Scope& scope);
  void IotaAny(Scope& scope);
  void GatherAny(Scope& scope);
  void DynamicSliceAny(Scope& scope);
  void DynamicUpdateAny(Scope& scope);
  void TupleAndBack(Scope& scope);
  Dimensions OtherDims(int64_t elements);  // a factorisation
  // reductions.cc
  struct Combiner {
    Op op;
    double init;
  };
  std::optional<Combiner> AnyCombiner(const Value& v, double count);
  Known Combined(const Combiner& combiner, const Known& known, DType dtype, double count) const;
  Computation* BinaryComputation(Scope& scope, Op op, DType dtype);
  Computation* SelectingComputation(Scope& scope, Op op, DType dtype);
  void ReduceAny(Scope& scope);
  void ReduceMany(Scope& scope);
  void ArgMax(Scope& scope);
  void ReduceWindowAny(Scope& scope);
  void SelectAndScatterAny(Scope& scope);
  void ScatterAny(Scope& scope);
  // The results of sorting the arrays.
  void PushSort(Scope& scope, std::span<const Value> arrays, const SortAttrs& attrs);
  void SortAny(Scope& scope);
  void DotAny(Scope& scope);
  void Softmax(Scope& scope);
  // library.cc
  void ComplexFunctionAny(Scope& scope);
  void ComplexDivide(Scope& scope);
  void FftAny(Scope& scope);
  void CholeskyAny(Scope& scope);
  void TopKAny(Scope& scope);
  void RandomBitsAny(Scope& scope);
  void RngAny(Scope& scope);
  void BatchNormAny(Scope& scope);
  void SortMany(Scope& scope);
  void StochasticConvertAny(Scope& scope);
  // wrappers.cc
  void FusionAny(Scope& scope);
  void AsyncAny(Scope& scope);
  void CollectiveAny(Scope& scope);
  void LayoutAny(Scope& scope);
  void GatherBatched(Scope& scope);
  void ScatterBatched(Scope& scope);
  // sized.cc
  void SizedStep(Scope& scope, Value& x, int64_t& dim);
  void SizedAny(Scope& scope);
  // forms.cc
  Instruction* KeyOf(Builder& b, Instruction* x, int64_t form) const;
  void SortByFunction(Scope& scope);
  void ReduceWindowMany(Scope& scope);
  void AlgebraAny(Scope& scope);
  void TriangularSystem(Scope& scope);
  void BatchNormGradAny(Scope& scope);
  void BitcastWidth(Scope& scope);
  void MapMany(Scope& scope);
  void TokensAny(Scope& scope);
  void ScanMany(Scope& scope);
  // products.cc
  void TypedDotAny(Scope& scope);
  void RaggedDotAny(Scope& scope);
  void ScaledDotAny(Scope& scope);
  void ConvolutionAny(Scope& scope);
  // collectives.cc
  void ChooseDevices(uint64_t seed);
  int64_t Devices() const;
  std::vector<std::vector<int64_t>> AnyGroups(int64_t count);
  int64_t ChooseGroups(CollectiveAttrs& attrs, bool has_global_ids);
  std::optional<std::pair<Computation*, Known>> AnyReducer(Scope& scope, const Value& x,
                                                           int64_t count);
  void ReductionOfDevices(Scope& scope, const Value& x);
  void CollectiveForms(Scope& scope, const Value& x);
  void PermuteSlices(Scope& scope, const Value& x);
  void DeviceCollectiveAny(Scope& scope);
  // control.cc
  void WhileAny(Scope& scope);
  void ConditionalAny(Scope& scope);
  void CallAny(Scope& scope);
  void MapAny(Scope& scope);
  void ScanAny(Scope& scope);
  Scope NewScope(const Scope& outer, std::string_view name);
  std::vector<Value> Several(Scope& scope, int64_t count);
  Value NextState(Scope& body, const std::vector<Value>& state, size_t k, const Value& counter);
  bool MayBeState(const Value& v) const;
  Known StateFacts(const Value& v) const;
  // loops.cc
  struct Round {
    Computation* computation;
    std::vector<Value> rows;  // of the outputs
  };
  Round MakeRound(Scope& scope, const std::vector<Value>& carries,
                  const std::vector<Value>& inputs);
  Result<Computation*> MakeScanBody(Scope& scope, const Shape& state, const Round& round,
                                    size_t carries, size_t inputs, int64_t length);
  void ScanLoop(Scope& scope);
  // nests.cc
  struct Nest {                                // what a loop or a branch works on
    std::vector<Instruction*> numbers, flags;  // s32[] and pred[]
    std::vector<Value> arrays;
  };
  Result<Instruction*> NestNumber(Builder& b, const Nest& nest);
  Result<Instruction*> NestChoice(Builder& b, const Nest& nest, int depth);
  Result<Instruction*> NestFlag(Builder& b, const Nest& nest);
  Result<Instruction*> NestPlace(Builder& b, const Nest& nest, int64_t size);
  Result<Value> NestElements(Builder& b, const Value& x, const Value& y);
  Result<Value> NestUpdate(Builder& b, const Nest& nest, const Value& array);
  Status NestRound(Scope& scope, Nest& nest, int level, int64_t actions);
  Status NestLoop(Scope& scope, Nest& nest, int level);
  Status NestBranches(Scope& scope, Nest& nest, int level);
  Nest PartOfNest(const Nest& nest, bool twice);
  static std::vector<Instruction*> LeavesOf(const Nest& nest);
  Result<Nest> NestIn(Builder& b, Instruction* tuple, const Nest& like, int64_t first);
  Nest NextNest(const Nest& state, const Nest& after);
  void TakeResults(Nest& nest, const Nest& given, const Nest& results);
  void NestAny(Scope& scope);

  Dice dice_;
  Module& module_;
  int64_t SizeFactor() const { return large_ ? 30 : medium_ ? 16 : 1; }
  bool large_;   // arrays that several threads work on
  bool medium_;  // those of which loops are cut in tiles and vectors
  bool edges_;   // arguments may be infinite, NaN, the least and greatest integers
  double state_bound_ = 8;
  bool rng_used_ = false;
  int64_t parameters_ = 0, channels_ = 0;
  std::unordered_map<const Instruction*, bool> signed_zeros_;
  std::vector<ArgumentRange> ranges_;  // of the entry's parameters, by leaf
};

double Epsilon(DType dtype);       // the distance from 1 to the next number
double Tiny(DType dtype);          // the least positive number
double LargestExact(DType dtype);  // up to here every integer is a number of the format
bool IsComputable(DType dtype);    // floats that arithmetic is done on here
Shape ArrayShape(DType dtype, std::span<const int64_t> dims);

}  // namespace weft::hlo::random
