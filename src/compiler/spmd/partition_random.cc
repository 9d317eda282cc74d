// Random bits: each device makes those of its part, by the counters that they come from.
#include <algorithm>

#include "compiler/spmd/partitioner.h"

namespace weft::compiler::spmd {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Op;

bool IsThreefry(const Instruction& i) {
  return i.attrs<hlo::RngBitGeneratorAttrs>().algorithm == hlo::RngAlgorithm::kThreeFry;
}

// The dimension of narrow elements whose neighbours come from the two words of one counter.
int64_t PairedDim(const Shape& shape) {
  const auto even = std::ranges::find_if(shape.dims(), [](int64_t size) { return size % 2 == 0; });
  if (even != shape.dims().end()) return even - shape.dims().begin();
  return std::ranges::max_element(shape.dims()) - shape.dims().begin();
}

// How many counters make an array of this shape; they go up in row-major order.
int64_t CountersOf(const Shape& shape, bool threefry) {
  const bool wide = BitWidth(shape.dtype()) == 64;
  const int64_t n = shape.elements();
  if (!threefry) return wide ? (n + 1) / 2 : (n + 3) / 4;
  if (wide || n == 0) return n;
  const int64_t size = shape.dim(PairedDim(shape));
  return n / size * ((size + 1) / 2);
}

// The one dimension that is cut, where its parts are runs of whole counters; -1: none.
int64_t CutOfRuns(const Instruction& i, const Shape& whole, const Form& form,
                  const DeviceMesh& mesh) {
  const Shape& state = i.operand(0)->shape();
  const bool threefry = IsThreefry(i);
  if (state.dtype() != DType::kU64 || state.rank() != 1 || form.cut() == 0) return -1;
  if (state.dim(0) != 2 && (threefry || state.dim(0) != 3)) return -1;
  int64_t dim = 0;  // nothing but one row before it
  while (dim < whole.rank() && form.dims[static_cast<size_t>(dim)].axes.empty()) {
    if (whole.dim(dim++) != 1) return -1;
  }
  for (int64_t d = dim + 1; d < whole.rank(); ++d) {
    if (!form.dims[static_cast<size_t>(d)].axes.empty()) return -1;
  }
  const Shape local = LocalShape(whole, form, mesh);
  const int64_t parts = mesh.SizeOf(form.dims[static_cast<size_t>(dim)].axes);
  if (whole.dim(dim) % parts != 0 || local.elements() == 0) return -1;
  const bool pairs = threefry && BitWidth(whole.dtype()) != 64;
  if (pairs && PairedDim(local) != PairedDim(whole)) return -1;
  const int64_t per_block = BitWidth(whole.dtype()) == 64 ? 2 : 4;
  if (!threefry && local.elements() % per_block != 0) return -1;
  return CountersOf(local, threefry) * parts == CountersOf(whole, threefry) ? dim : -1;
}

// Key and counter, each u64[1].
struct RandomState {
  Instruction *key, *low, *high = nullptr;  // `high`: of a counter of 128 bits
};

Result<RandomState> WordsOf(Builder& b, Instruction* state, bool threefry) {
  auto word = [&](int64_t k) -> Result<Instruction*> {
    hlo::SliceAttrs attrs;
    attrs.slice.push_back({k, k + 1, 1});
    return b.Add(Op::kSlice, {state}, std::move(attrs));
  };
  RandomState words{.key = TRY(word(0)), .low = TRY(word(1))};
  if (threefry) return words;
  words.high = state->shape().dim(0) == 3 ? TRY(word(2)) : words.key;
  return words;
}

// The state whose counter is `more` (u64[1]) further on.
Result<RandomState> Advance(Builder& b, RandomState words, Instruction* more) {
  Instruction* low = TRY(b.Add(Op::kAdd, {words.low, more}));
  if (words.high != nullptr) {
    Instruction* wraps = TRY(b.Compare(low, more, hlo::Direction::kLt));
    words.high = TRY(b.Add(Op::kAdd, {words.high, TRY(b.Convert(wraps, DType::kU64))}));
  }
  words.low = low;
  return words;
}

Result<Instruction*> JoinWords(Builder& b, const RandomState& words, int64_t size) {
  std::vector<Instruction*> parts = {words.key, words.low};
  if (size == 3) parts.push_back(words.high);
  hlo::DimensionsAttrs attrs;
  attrs.dimensions = {0};
  return b.Add(Op::kConcatenate, parts, std::move(attrs));
}

}  // namespace

Status ComputationPartitioner::EmitRandomBits(const Instruction& i) {
  const bool tuple = i.shape().IsTuple(), threefry = IsThreefry(i);
  const Shape& whole = tuple ? i.shape().tuple_element(1) : i.shape();
  std::vector<Form> forms = program_.FormsOf(&i);
  const Form& cut = forms.back();
  const int64_t dim = CutOfRuns(i, whole, cut, mesh_);
  if (dim < 0) return EmitOp(i);
  Instruction* state = TRY(Get(values_[i.operand(0)][0], Form::Replicated(1)));
  const Shape local = LocalShape(whole, cut, mesh_);
  Instruction* index = TRY(emitter_.IndexAlong(cut.dims[static_cast<size_t>(dim)].axes));
  Builder b = emitter_.builder();
  auto count = [&](const Shape& shape) {
    return b.Constant(Literal::Scalar(DType::kU64, CountersOf(shape, threefry)));
  };
  constexpr int64_t kOneWord[] = {1};
  auto as_word = [&](Instruction* x) { return ReshapeTo(b, x, kOneWord); };
  const RandomState words = TRY(WordsOf(b, state, threefry));
  Instruction* before =
      TRY(b.Add(Op::kMultiply, {TRY(b.Convert(index, DType::kU64)), count(local)}));
  const RandomState own = TRY(Advance(b, words, TRY(as_word(before))));
  // A counter of 128 bits, whatever the whole one is: where its lower half ends is the upper one's.
  Instruction* start = TRY(JoinWords(b, own, threefry ? 2 : 3));
  const Shape made = Shape::Tuple({start->shape(), local});
  Instruction* bits = Clone(i, tuple ? made : local, std::span(&start, 1));
  if (!tuple) return Bind(i, bits, forms);
  const RandomState after = TRY(Advance(b, words, TRY(as_word(count(whole)))));
  Instruction* both[] = {TRY(JoinWords(b, after, state->shape().dim(0))),
                         TRY(b.GetTupleElement(bits, 1))};
  forms[0] = Form::Replicated(1);
  return Bind(i, TRY(b.Tuple(both)), forms);
}

// What every device draws for itself becomes what the first one drew: the others' summands are
// zero.
Result<Instruction*> ComputationPartitioner::KeepFirst(const Instruction& i, Instruction* local,
                                                       Form& form) {
  const AxisSet axes = mesh_.all() & ~program_.FormOf(&i, 0).manual;
  AxisList list;
  for (int k = 0; k < static_cast<int>(mesh_.pieces.size()); ++k) {
    if ((axes & BitOf(k)) != 0) list.push_back(k);
  }
  if (list.empty()) return local;
  Instruction* index = TRY(emitter_.IndexAlong(list));
  Builder b = emitter_.builder();
  Instruction* zero = b.ScalarConstant(DType::kS32, 0);
  Instruction* first = TRY(b.Compare(index, zero, hlo::Direction::kEq));
  const Shape shape(local->shape().dtype(), local->shape().dims());
  form.unreduced = axes;
  form.reduction = WithZeroes(shape.dtype());
  return b.Add(Op::kSelect, {TRY(FillWith(b, first, shape)), local, TRY(ZeroesOf(b, shape))});
}

}  // namespace weft::compiler::spmd
