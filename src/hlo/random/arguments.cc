// Arguments of random modules.
#include <cmath>
#include <limits>

#include "hlo/random/maker.h"

namespace weft::hlo {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kEdgeReals[] = {
    0.0,   -0.0,   1.0,    -1.0,  kInf,    -kInf,  std::numeric_limits<double>::quiet_NaN(),
    0.5,   2.0,    -3.0,   1e30,  -1e30,   1e-30,  7.0,
    -0.25, 1e-40,  3.5,    300.0, 65520.0, -448.0, 2.5,
    1e5,   0x1p31, -0x1p63};
constexpr int64_t kEdgeWholes[] = {0, 1, -1, INT64_MIN, INT64_MAX, 2,  -7,
                                   3, 5, 64, 127,       -128,      31, 8};

double DrawReal(const ArgumentRange& range, random::Dice& dice) {
  switch (range.kind) {
    case ArgumentRange::Kind::kWhole:
      return static_cast<double>(
          dice.Between(static_cast<int64_t>(range.low), static_cast<int64_t>(range.high)));
    case ArgumentRange::Kind::kUnit: return static_cast<double>(dice.Between(-4096, 4096)) / 4096;
    case ArgumentRange::Kind::kEdges: break;
  }
  return dice.Of(kEdgeReals);
}

int64_t DrawWhole(const ArgumentRange& range, int bits, random::Dice& dice) {
  if (range.kind != ArgumentRange::Kind::kEdges) {
    return dice.Between(static_cast<int64_t>(range.low), static_cast<int64_t>(range.high));
  }
  int64_t edge = dice.Of(kEdgeWholes);
  bool extreme = edge == INT64_MIN || edge == INT64_MAX;
  return extreme && bits < 64 ? edge >> (64 - bits) : edge;
}

}  // namespace

Result<std::vector<Literal>> MakeArguments(const RandomModule& made, uint64_t seed,
                                           uint64_t round) {
  random::Dice dice(seed ^ (round * 0x51ed2701 + 77));
  std::vector<Literal> arguments;
  for (const Instruction* p : made.module->entry()->parameters()) {
    const ArgumentRange& range = made.arguments[arguments.size()];
    Literal value = TRY(Literal::Allocate(p->shape()));
    DType t = value.dtype();
    for (int64_t i = 0; i < value.size(); ++i) {
      if (IsComplex(t)) {
        double real = DrawReal(range, dice);
        value.SetComplex(i, {real, DrawReal(range, dice)});
      } else if (IsFloat(t)) {
        value.SetDouble(i, DrawReal(range, dice));
      } else {
        int64_t whole = DrawWhole(range, BitWidth(t), dice);
        value.SetInt(i, t == DType::kPred ? (whole & 1) : whole);
      }
    }
    arguments.push_back(std::move(value));
  }
  return arguments;
}

}  // namespace weft::hlo
