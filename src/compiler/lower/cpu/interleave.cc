// Outer-loop vectorization. Loops over arrays whose minor dimension has few elements (pairs,
// colours, points, classes).
//
// Where only numbers that depend on nothing but the minor dimension are broadcast, elements are
// taken as they lie: every vector of a group has these numbers in an order of its own, known
// beforehand. Else lanes go along the dimension outside of the minor one, whose elements are
// computed side by side and stored interleaved.
#include <algorithm>
#include <numeric>

#include "compiler/lower/table.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;
using HloOp = hlo::Op;

namespace {

// Rows that are worth shuffles in each round of a loop: fewer stay in registers as they are.
constexpr int64_t kRowsInLoop = program::CodeBounds::kShortLoop;
// Operations of a row, all in one block.
constexpr size_t kMaxRowCode = program::CodeBounds::kCopies * program::CodeBounds::kLargeBody;

// The width that gives each element of a row one register.
int64_t OneRegister(int64_t width) {
  return std::max<int64_t>(width, 4) * 4;
}

// Part `number` of the `parts` interleaved, with as many lanes as each of them has.
ValueId InterleavedPart(KernelBuilder& b, std::span<const ValueId> parts, int lanes,
                        int64_t number) {
  int64_t count = static_cast<int64_t>(parts.size());
  // One operand after the other into the lanes that are its own.
  ValueId result = parts[0];
  for (int64_t k = 1; k < count; ++k) {
    std::vector<int32_t> from;
    for (int64_t l = 0; l < lanes; ++l) {
      int64_t place = number * lanes + l, part = place % count;
      int32_t element = static_cast<int32_t>(place / count);
      bool first = part == 0 && k == 1;
      from.push_back(part == k  ? lanes + element
                     : first    ? element
                     : part < k ? static_cast<int32_t>(l)
                                : 0);
    }
    result = b.Shuffle(result, parts[static_cast<size_t>(k)], from);
  }
  return result;
}

// All columns of a row at `outer`, of each of the arrays, before any is stored.
Status ComputeRows(KernelDraft& draft, std::span<const KernelOutput> outputs, const Dims& dims,
                   Index index) {
  ElementContext& e = draft.elements();
  index.coords.push_back({});
  std::vector<std::vector<ValueId>> values(outputs.size());
  for (int64_t k = 0; k < dims.back(); ++k) {
    index.coords.back() = ConstantCoord(e, k);
    for (size_t o = 0; o < outputs.size(); ++o) {
      values[o].push_back(TRY(EmitElement(e, *outputs[o].inside, index)).re);
    }
  }
  index.coords.back() = ConstantCoord(e, 0);
  Coord first = LinearCoord(e, dims, index);
  for (size_t o = 0; o < outputs.size(); ++o) {
    StoreRows(e, draft.MemoryOf(outputs[o].value), outputs[o].inside->shape().dtype(), first,
              std::move(values[o]));
  }
  return {};
}

// Its elements can be had by their row-major number, when the elements of the minor dimension of
// `dims` that these are are known.
bool FitsPeriod(const Instruction& i, const Dims& dims) {
  const Shape& shape = i.shape();
  if (!shape.IsArray() || IsComplex(shape.dtype())) return false;
  Dims few = {dims.back()};
  bool whole = shape.dims() == dims;
  if (!whole && !shape.IsScalar() && shape.dims() != few) return false;
  if (hlo::IsElementwise(i.op())) return true;
  switch (i.op()) {
    case HloOp::kConstant: return shape.IsScalar();
    case HloOp::kCopy: return true;
    case HloOp::kIota: {
      return i.attrs<hlo::IotaAttrs>().iota_dimension == shape.rank() - 1;
    }
    case HloOp::kBroadcast: {
      const Dims& from = i.operand(0)->shape().dims();
      return from.empty() ||
             (from == few && i.attrs<hlo::BroadcastAttrs>().dimensions[0] == shape.rank() - 1);
    }
    default: return false;
  }
}

}  // namespace

void StoreRows(ElementContext& e, KernelBuilder::MemoryId memory, DType dtype, const Coord& first,
               std::vector<ValueId> columns) {
  KernelBuilder& b = e.b;
  int lanes = e.lanes;
  for (ValueId& column : columns) {
    if (b.type(column).lanes != lanes) column = b.Splat(column, lanes);
  }
  if (columns.size() == 1) return StoreAt(e, memory, dtype, first, {columns[0], -1});
  if (lanes > 1 && columns.size() != 3) return StoreColumns(e, memory, first.base, columns);
  for (size_t k = 0; k < columns.size(); ++k) {
    int64_t number = static_cast<int64_t>(k);
    ValueId part = lanes == 1 ? columns[k] : InterleavedPart(b, columns, lanes, number);
    Coord at{b.Add(first.base, b.Int(number * lanes)), lanes > 1 ? 1 : 0};
    StoreAt(e, memory, dtype, at, {part, -1});
  }
}

namespace {

Decision MatchPeriodic(Subject& subject) {
  // Elements of the row that repeats.
  constexpr int64_t kLongest = program::TargetFacts::kUsualLanes;
  constexpr int64_t kFewRows = program::CodeBounds::kShortLoop;  // rows
  const KernelBody& body = subject.body();
  if (!body.outputs[0].inside->shape().IsArray()) return Refuse("the results are a tuple");
  const LoopShape& whole = subject.shape();
  const Dims& dims = whole.dims;
  if (whole.flat) return Refuse("elements can be taken as they lie without more ado");
  if (subject.cx.serial) return Refuse("it is inside of a loop on one thread");
  if (dims.size() < 2) return Refuse("the result has one dimension");
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < dims.size(); ++d) rows *= dims[d];
  if (dims.back() < 2 || dims.back() > kLongest) return Refuse("the minor dimension is not short");
  if (rows < kFewRows) return Refuse("there are few rows");
  if (whole.in_place && rows % kFewRows != 0) return Refuse("vectors would overlap in place");
  for (const KernelOutput& output : body.outputs) {
    if (output.inside->shape().IsTuple() || output.inside->shape().dims() != dims) {
      return Refuse("results are of several shapes");
    }
  }
  bool fits = std::all_of(body.members.begin(), body.members.end(),
                          [&](const Instruction* i) { return FitsPeriod(*i, dims); });
  if (!fits) return Refuse("elements depend on more than their place in the minor dimension");
  return Take("what is broadcast repeats along the minor dimension");
}

Status LowerPeriodic(Subject& subject) {
  LowerContext& cx = subject.cx;
  const KernelBody& body = subject.body();
  const LoopShape& whole = subject.shape();
  Steps& steps = subject.steps;
  KernelDraft draft = NewDraft(cx, body);
  draft.Declare(body.inputs, body.outputs);
  ElementContext& e = draft.elements();
  KernelBuilder& b = draft.builder();
  int64_t period = whole.dims.back(), size = 1;
  for (int64_t d : whole.dims) size *= d;
  // Vectors of one register, as many as the numbers take to come in the same order again; of
  // several where narrow elements fill one in memory, unless that takes too many registers.
  int64_t lanes = std::clamp<int64_t>(cx.target.vector_bits / 8 / whole.width, 2, 16);
  bool narrow = false, known = true;
  for (const KernelInput& input : body.inputs) {
    const Shape& from = input.inside->shape();
    program::BufferKind kind = cx.program.buffers[cx.Buffer(input.value)].kind;
    if (from.rank() == 1) known &= kind == program::BufferKind::kConstant;
    if (from.dims() == whole.dims) narrow |= ByteWidth(from.dtype()) < whole.width;
  }
  if (narrow && known) lanes = draft.LanesFor(whole.width, size);
  int64_t vectors = period / std::gcd(period, lanes);
  while (vectors < 3) vectors *= 2;
  int64_t group = vectors * lanes;
  LoopShape shape = whole;
  shape.dims = Dims{(size + group - 1) / group};
  shape.cost *= static_cast<double>(group);
  shape.flat = shape.scalar = true;
  TRY(draft.ForEach(shape, [&](const Index& index) -> Status {
    ValueId first = b.Mul(index.linear.base, b.Int(group));
    if (size % group != 0) first = b.Min(first, b.Int(size - group));
    for (int64_t v = 0; v < vectors; ++v) {
      e.lanes = static_cast<int>(lanes);
      Index at;
      at.is_linear = true;
      at.linear = {b.Add(first, b.Int(v * lanes)), 1, 1, 0, size - 1, period, v * lanes % period};
      std::vector<Element> values;
      for (const KernelOutput& output : body.outputs) {
        values.push_back(TRY(EmitElement(e, *output.inside, at)));
      }
      for (size_t k = 0; k < body.outputs.size(); ++k) {
        MemValue to = body.outputs[k].value;
        StoreAt(e, draft.MemoryOf(to), cx.memory.shape(to).dtype(), at.linear, values[k]);
      }
    }
    e.lanes = 1;
    return {};
  }));
  Finish(cx, draft, body, steps);
  return {};
}

Decision MatchInterleaved(Subject& subject) {
  const KernelBody& body = subject.body();
  if (!body.outputs[0].inside->shape().IsArray()) return Refuse("the results are a tuple");
  if (subject.shape().flat) return Refuse("elements can be taken as they lie");
  const Dims& dims = subject.shape().dims;
  if (dims.size() < 2) return Refuse("the result has one dimension");
  if (subject.cx.serial && dims[dims.size() - 2] < kRowsInLoop) {
    return Refuse("there are few rows, inside of a loop on one thread");
  }
  // Four elements that lie together are a vector of their own.
  int64_t most = body.outputs[0].inside->op() == HloOp::kConcatenate ? 16 : 3;
  if (dims.back() < 2 || dims.back() > most) return Refuse("the minor dimension is not short");
  if (dims[dims.size() - 2] < program::TargetFacts::kUsualLanes)
    return Refuse("there are too few rows for lanes");
  for (const KernelOutput& output : body.outputs) {
    const Shape& shape = output.inside->shape();
    if (!shape.IsArray() || shape.dims() != dims) return Refuse("results are of several shapes");
    if (IsComplex(shape.dtype())) return Refuse("results are complex");
  }
  return Take("few elements along the minor dimension: a row in each lane");
}

Status LowerInterleaved(Subject& subject) {
  LowerContext& cx = subject.cx;
  const KernelBody& body = subject.body();
  const LoopShape& whole = subject.shape();
  Steps& steps = subject.steps;
  KernelDraft draft = NewDraft(cx, body);
  draft.Declare(body.inputs, body.outputs);
  LoopShape shape = whole;
  shape.dims = Dims(std::span(whole.dims.data(), whole.dims.size() - 1));
  shape.cost *= static_cast<double>(whole.dims.back());
  shape.flat = false;
  if (whole.dims.back() > 4) shape.width = OneRegister(shape.width);
  TRY(draft.ForEach(shape, [&](const Index& outer) -> Status {
    Index index = Coordinates(draft.elements(), shape.dims, outer);
    return ComputeRows(draft, body.outputs, whole.dims, std::move(index));
  }));
  Finish(cx, draft, body, steps);
  return {};
}

Decision MatchRowsInLanes(Subject& subject) {
  if (!subject.row_space()) return Refuse("no reduction's rows are used again");
  const KernelBody& body = subject.body();
  const RowSpace& space = *subject.row_space();
  if (!space.IsShort()) return Refuse("the rows are not short");
  if (space.kept + 1 != space.wide.size()) return Refuse("rows have several dimensions");
  int64_t lanes = subject.cx.target.vector_bits / 32;
  if (space.wide[space.kept - 1] < 2 * lanes) return Refuse("there are too few rows for lanes");
  if (body.members.size() * static_cast<size_t>(space.length) > kMaxRowCode) {
    return Refuse("all of a row would be too much code");
  }
  bool plain = std::none_of(body.members.begin(), body.members.end(), [](const Instruction* m) {
    return m->shape().IsTuple() ? !m->IsRoot() : IsComplex(m->shape().dtype());
  });
  if (!plain) return Refuse("values are complex or tuples");
  return Take("short rows, enough of them for a row a lane");
}

Status LowerRowsInLanes(Subject& subject) {
  LowerContext& cx = subject.cx;
  const KernelBody& body = subject.body();
  const RowSpace& space = *subject.row_space();
  Steps& steps = subject.steps;
  KernelDraft draft = NewDraft(cx, body);
  draft.Declare(body.inputs, body.outputs);
  ElementContext& e = draft.elements();
  LoopShape shape = ShapeOf(cx, body, space.wide);
  shape.dims = Dims(std::span(space.wide.data(), space.kept));
  shape.cost *= static_cast<double>(space.length);
  shape.flat = false;
  shape.width = OneRegister(shape.width);
  std::vector<KernelOutput> wide, narrow;
  for (const KernelOutput& output : body.outputs) {
    (space.IsWide(output.inside->shape()) ? wide : narrow).push_back(output);
  }
  TRY(draft.ForEach(shape, [&](const Index& outer) -> Status {
    Index row = Coordinates(e, shape.dims, outer);
    std::vector<Element> values;
    std::vector<Index> places;
    for (const KernelOutput& output : narrow) {
      places.push_back(NarrowIndex(e, space, output.inside->shape(), row));
      values.push_back(TRY(EmitElement(e, *output.inside, places.back())));
    }
    TRY(ComputeRows(draft, wide, space.wide, row));
    for (size_t k = 0; k < narrow.size(); ++k) {
      const Shape& to = narrow[k].inside->shape();
      StoreAt(e, draft.MemoryOf(narrow[k].value), to.dtype(), LinearCoord(e, to.dims(), places[k]),
              values[k]);
    }
    return {};
  }));
  Finish(cx, draft, body, steps);
  return {};
}

}  // namespace

extern constinit const LoweringRow kPeriodic = {
    "loop by periods", {}, MatchPeriodic, LowerPeriodic};
extern constinit const LoweringRow kInterleaved = {
    "interleaved loop", {}, MatchInterleaved, LowerInterleaved};
// Before a loop for each operand.
extern constinit const LoweringRow kInterleavedConcatenate = {
    "interleaved loop", {HloOp::kConcatenate}, MatchInterleaved, LowerInterleaved};
extern constinit const LoweringRow kRowsInLanes = {
    "rows in lanes", {}, MatchRowsInLanes, LowerRowsInLanes};

}  // namespace weft::compiler
