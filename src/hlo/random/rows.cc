// How often each op is made.
#include "hlo/random/maker.h"

namespace weft::hlo::random {

namespace {

struct Row {
  int weight;
  void (*make)(Maker&, Scope&);
};

constexpr Row kRows[] = {
    {16, Unary},
    {24, Binary},
    {8, CompareAndSelect},
    {3, Clamp},
    {10, ConvertAny},
    {2, BitcastConvert},
    {2, ReducePrecision},
    {3, ComplexOps},
    {10, BroadcastAny},
    {7, ReshapeAny},
    {7, TransposeAny},
    {7, SliceAny},
    {6, PadAny},
    {6, ConcatenateAny},
    {4, ReverseAny},
    {3, IotaAny},
    {5, GatherAny},
    {5, DynamicSliceAny},
    {7, DynamicUpdateAny},
    {2, TupleAndBack},
    {8, ReduceAny},
    {3, ReduceMany},
    {3, ArgMax},
    {4, ReduceWindowAny},
    {1, SelectAndScatterAny},
    {5, ScatterAny},
    {2, SortAny},
    {4, DotAny},
    {1, ConvolutionAny},
    {2, TypedDotAny},
    {1, RaggedDotAny},
    {1, ScaledDotAny},
    {2, Softmax},
    {5, WhileAny},
    {4, ConditionalAny},
    {2, CallAny},
    {1, MapAny},
    {2, ScanAny},
    {2, ComplexFunctionAny},
    {1, ComplexDivide},
    {1, FftAny},
    {1, CholeskyAny},
    {1, TopKAny},
    {1, RandomBitsAny},
    {1, RngAny},
    {1, BatchNormAny},
    {1, SortMany},
    {1, StochasticConvertAny},
    {3, FusionAny},
    {1, AsyncAny},
    {2, CollectiveAny},
    {2, LayoutAny},
    {1, GatherBatched},
    {1, ScatterBatched},
    {2, SizedAny},
    {5, ScanLoop},
    {6, NestAny},
    {2, SortByFunction},
    {2, ReduceWindowMany},
    {6, AlgebraAny},
    {1, TriangularSystem},
    {1, BatchNormGradAny},
    {1, BitcastWidth},
    {1, MapMany},
    {1, TokensAny},
    {1, ScanMany},
};

}  // namespace

void AddOp(Maker& maker, Scope& scope) {
  int total = 0;
  for (const Row& row : kRows) total += row.weight;
  auto at = static_cast<int>(maker.dice.Below(total));
  for (const Row& row : kRows) {
    at -= row.weight;
    if (at < 0) return row.make(maker, scope);
  }
}

}  // namespace weft::hlo::random
