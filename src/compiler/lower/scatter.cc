// scatter: updates at places that the program computes, one after the other.
//
// Threads share the work in one of three ways, whichever suits, so that the order at each element
// is the same for any number of them: by columns of the windows; by updates, where no two meet; by
// updates into arrays of their own, which are joined in the end, where the result is small.
#include <algorithm>

#include "base/str.h"
#include "compiler/lower/sums.h"
#include "compiler/lower/table.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Access;
using program::LoopKind;
using program::Op;
using HloOp = hlo::Op;

namespace {

constexpr double kParallelScatter = 400'000;  // element updates worth several threads
constexpr int64_t kWindowPiece = 64;    // elements of the minor window dimension a thread takes
constexpr int64_t kScatterChunks = 16;  // of updates that do not meet
constexpr int64_t kMaxOwnArrays = 16;
// Sums of f32 are kept in f64 until all updates are added (sums.h), where that costs little: arrays
// that stay in a cache, or far more updates than places for them.
constexpr int64_t kSmallArray = 1 << 16, kUpdatesPerPlace = 16, kMostPlaces = 1 << 20;
constexpr int64_t kFewUpdates = 2 * kSumRun;
constexpr double kWideCost = 4;  // of an element of f64 that is filled or joined: mostly memory

bool Holds(std::span<const int64_t> list, int64_t x) {
  return std::find(list.begin(), list.end(), x) != list.end();
}

// The dimensions of updates: those that say which index, and those of the window.
struct ScatterDims {
  Dims scatter, scatter_sizes, window, window_sizes;
  Dims covered;  // operand dimensions that the window covers, in order
  int64_t updates = 1, window_elements = 1;
  // Columns of the windows never meet: an index does not move windows along their minor dimension,
  // or no element is updated twice.
  bool columns_apart = true;

  explicit ScatterDims(const Instruction& instruction) {
    const auto& attrs = instruction.attrs<hlo::ScatterAttrs>();
    const Shape& operand = instruction.operand(0)->shape();
    const Shape& from = instruction.operand(instruction.operand_count() - 1)->shape();
    for (int64_t d = 0; d < from.rank(); ++d) {
      bool in_window = Holds(attrs.update_window_dims, d);
      (in_window ? window : scatter).push_back(d);
      (in_window ? window_sizes : scatter_sizes).push_back(from.dim(d));
      (in_window ? window_elements : updates) *= from.dim(d);
    }
    for (int64_t d = 0; d < operand.rank(); ++d) {
      if (!Holds(attrs.inserted_window_dims, d) && !Holds(attrs.input_batching_dims, d)) {
        covered.push_back(d);
      }
    }
    columns_apart = covered.empty() || updates == 1 || attrs.unique_indices ||
                    !Holds(attrs.scatter_dims_to_operand_dims, covered.back());
  }
  int64_t minor() const { return window_sizes.empty() ? 1 : window_sizes.back(); }
};

// One update after the other, inside a kernel.
class ScatterLoops {
 public:
  ScatterLoops(KernelDraft& draft, const Instruction& scatter, const ScatterDims& dims,
               std::vector<KernelBuilder::MemoryId> memory)
      : draft_(draft),
        e_(draft.elements()),
        b_(draft.builder()),
        scatter_(scatter),
        attrs_(scatter.attrs<hlo::ScatterAttrs>()),
        dims_(dims),
        memory_(std::move(memory)),
        n_(static_cast<int64_t>(memory_.size())) {
    for (int64_t i = 0; i < n_; ++i) {
      width_ = std::max(width_, ByteWidth(RealType(scatter.operand(i)->shape().dtype())));
    }
    if (IsFloat(scatter.operand(0)->shape().dtype())) width_ = std::max<int64_t>(width_, 4);
  }

  // Elements [column, column + piece) of the window's minor dimension.
  void set_columns(ValueId column, int64_t piece) {
    column_ = column;
    piece_ = piece;
  }
  // The arrays are of f64, what is added of f32.
  void set_wide() {
    wide_ = true;
    width_ = 8;
  }
  // The arrays begin there.
  void set_base(Coord base) { base_ = base; }

  Status Range(ValueId first, ValueId last) {
    ValueId number = b_.BeginLoop(LoopKind::kSerial, first, last, b_.Int(1))[0];
    TRY(Update(number));
    b_.End();
    return {};
  }

  Status Update(ValueId number) {
    Index linear;
    linear.is_linear = true;
    linear.linear = {number, 0, 1, 0, dims_.updates - 1};
    Index at = e_.Coordinates(dims_.scatter_sizes, linear), start;
    ValueId inside = TRY(Start(at, start));
    if (inside >= 0) b_.BeginIf(inside);
    TRY(Window(at, start));
    if (inside >= 0) b_.End();
    return {};
  }

 private:
  const Shape& operand() const { return scatter_.operand(0)->shape(); }

  // Where the window begins; whether it lies within the operand (-1: always).
  Result<ValueId> Start(const Index& at, Index& start) {
    const Instruction& indices = *scatter_.operand(n_);
    start.coords.resize(static_cast<size_t>(operand().rank()), e_.Constant(0));
    auto index_at = [&](int64_t component) {
      Index i;
      size_t next = 0;
      for (int64_t d = 0; d < indices.shape().rank(); ++d) {
        bool is_vector = d == attrs_.index_vector_dim;
        i.coords.push_back(is_vector ? e_.Constant(component) : at.coords[next++]);
      }
      return i;
    };
    for (size_t k = 0; k < attrs_.input_batching_dims.size(); ++k) {
      int64_t d = attrs_.scatter_indices_batching_dims[k];
      if (attrs_.index_vector_dim < d) --d;
      start.coords[static_cast<size_t>(attrs_.input_batching_dims[k])] =
          at.coords[static_cast<size_t>(d)];
    }
    ValueId inside = -1;
    for (size_t k = 0; k < attrs_.scatter_dims_to_operand_dims.size(); ++k) {
      int64_t d = attrs_.scatter_dims_to_operand_dims[k];
      Coord c = TRY(e_.EmitCoord(indices, index_at(static_cast<int64_t>(k))));
      int64_t size = 1;
      for (size_t w = 0; w < dims_.covered.size(); ++w) {
        if (dims_.covered[w] == d) size = dims_.window_sizes[w];
      }
      auto check = [&](ValueId ok) { inside = inside < 0 ? ok : b_.Emit(Op::kAnd, {inside, ok}); };
      int64_t last = operand().dim(d) - size;
      ValueId plain = c.low < 0 && last >= 0 ? BeforeWrap(c.base) : -1;
      if (plain >= 0) {
        check(FromPlain(plain, last, c));
      } else {
        if (c.low < 0) check(b_.Emit(Op::kGe, {c.base, b_.Int(0)}));
        if (c.high > last) check(b_.Emit(Op::kLe, {c.base, b_.Int(last)}));
      }
      start.coords[static_cast<size_t>(d)] = c;
    }
    return inside;
  }

  // The x of an index x < 0 ? x + size : x; -1: it is none.
  ValueId BeforeWrap(ValueId index) const {
    const program::Instr* cast = b_.DefinitionOf(index);
    if (cast == nullptr || cast->op != Op::kCast || cast->type.lanes != 1) return -1;
    const program::Instr* select = b_.DefinitionOf(cast->args[0]);
    if (select == nullptr || select->op != Op::kSelect) return -1;
    ValueId x = select->args[2];
    const program::Instr* negative = b_.DefinitionOf(select->args[0]);
    bool wraps = negative != nullptr && negative->op == Op::kLt && negative->args[0] == x &&
                 b_.IntConstant(negative->args[1]) == 0 && IsSigned(b_.type(x).dtype);
    return wraps ? x : -1;
  }

  // The index in 64 bits from the start, `plain` being x in 64 bits: widened where both ways to it
  // meet, that would be one more instruction on the way that is nearly always taken.
  ValueId Wrapped(ValueId x, ValueId plain, ValueId index) {
    const program::Instr* select = b_.DefinitionOf(b_.DefinitionOf(index)->args[0]);
    ValueId negative = select->args[0];
    const program::Instr* sum = b_.DefinitionOf(select->args[1]);
    if (sum == nullptr || sum->op != Op::kAdd || sum->args[0] != x) return index;
    std::optional<int64_t> size = b_.IntConstant(sum->args[1]);
    if (!size || *size < 0) return index;  // a sum that may wrap around
    return b_.Emit(Op::kSelect, {negative, b_.Add(plain, b_.Int(*size)), plain});
  }

  // Nearly always the index is in range as it is: that is asked first, so that the others cost
  // nothing. Whether it is in range; the coordinate is then within it.
  ValueId FromPlain(ValueId x, int64_t last, Coord& c) {
    program::Type wide{DType::kU64, 1};
    ValueId plain = b_.Cast(x, DType::kS64), wrapped = Wrapped(x, plain, c.base);
    ValueId in_range = b_.Emit(Op::kLe, {b_.Cast(plain, wide.dtype), b_.Int(last, wide)});
    b_.BeginIf(in_range, program::Branch::kGuard);
    b_.BeginElse(std::vector<ValueId>{plain, b_.Pred(true)});
    ValueId low = b_.Emit(Op::kGe, {wrapped, b_.Int(0)});
    ValueId high = b_.Emit(Op::kLe, {wrapped, b_.Int(last)});
    std::vector<ValueId> chosen =
        b_.End(std::vector<ValueId>{wrapped, b_.Emit(Op::kAnd, {low, high})});
    c = {chosen[0], 0, 1, 0, last};
    return chosen[1];
  }

  Status Window(const Index& at, const Index& start) {
    Index w;
    w.coords.resize(dims_.window.size(), e_.Constant(0));
    if (dims_.window_elements == 1) return Elements(at, start, w);
    LoopShape outer;
    outer.dims = Dims(std::span(dims_.window_sizes.data(), dims_.window_sizes.size() - 1));
    outer.serial = true;
    outer.scalar = true;  // lanes are of the row inside
    int lanes = dims_.minor() >= 4 ? draft_.LanesFor(width_, piece_) : 1;
    return draft_.ForEach(outer, [&](const Index& o) {
      Index index = e_.Coordinates(outer.dims, o);
      index.coords.push_back({});
      return draft_.OverLanes(piece_, lanes, true, [&](Coord c) {
        index.coords.back() = e_.Add({column_, 0, piece_}, c);
        return Elements(at, start, index);
      });
    });
  }

  // One element (or one a lane) of the window.
  Status Elements(const Index& at, const Index& start, const Index& w) {
    Index from, to = start;
    from.coords.resize(dims_.scatter.size() + dims_.window.size());
    for (size_t k = 0; k < dims_.scatter.size(); ++k) {
      from.coords[static_cast<size_t>(dims_.scatter[k])] = at.coords[k];
    }
    for (size_t k = 0; k < dims_.window.size(); ++k) {
      from.coords[static_cast<size_t>(dims_.window[k])] = w.coords[k];
      Coord& c = to.coords[static_cast<size_t>(dims_.covered[k])];
      c = e_.Add(c, w.coords[k]);
    }
    Coord place = e_.Linear(operand().dims(), to);
    if (base_) place = e_.Add(*base_, place);
    if (wide_) {
      Element sum = e_.LoadAt(memory_[0], DType::kF64, place);
      ValueId term = b_.Cast(TRY(e_.Emit(*scatter_.operand(2), from)).re, DType::kF64);
      if (b_.type(term).lanes != b_.type(sum.re).lanes) term = b_.Splat(term, e_.lanes());
      e_.StoreAt(memory_[0], DType::kF64, place, {b_.Add(sum.re, term), -1});
      return {};
    }
    std::vector<Element> args;
    auto type = [&](int64_t i) { return scatter_.operand(i)->shape().dtype(); };
    for (int64_t i = 0; i < n_; ++i) {
      args.push_back(e_.LoadAt(memory_[static_cast<size_t>(i)], type(i), place));
    }
    for (int64_t i = 0; i < n_; ++i) {
      args.push_back(TRY(e_.Emit(*scatter_.operand(n_ + 1 + i), from)));
    }
    std::vector<Element> values = TRY(e_.Call(*attrs_.to_apply, args));
    bool changes = MostlyKeeps();
    if (changes) b_.BeginIf(b_.Emit(Op::kNe, {Bits(args[0].re), Bits(values[0].re)}));
    for (int64_t i = 0; i < n_; ++i) {
      e_.StoreAt(memory_[static_cast<size_t>(i)], type(i), place, values[static_cast<size_t>(i)]);
    }
    if (changes) b_.End();
    return {};
  }

  // One element is the least or the greatest seen of what is computed: loops that go on find fewer
  // and fewer new ones, and what is not stored need not be waited for by whoever reads it next. Not
  // of two elements, which are put in order: that is as often one as the other.
  bool MostlyKeeps() const {
    if (n_ != 1 || dims_.updates != 1 || dims_.window_elements != 1) return false;
    if (IsComplex(operand().dtype())) return false;
    const Instruction* value = attrs_.to_apply->root();
    if (value == attrs_.to_apply->parameter(1)) value = scatter_.operand(2);
    value = &Within(*value);
    if (value->op() != hlo::Op::kMinimum && value->op() != hlo::Op::kMaximum) return false;
    return std::ranges::any_of(value->operands(), [&](const Instruction* operand) {
      return hlo::IsElementwise(Within(*operand).op());
    });
  }
  static const Instruction& Within(const Instruction& value) {
    const Instruction* inside = &value;
    while (inside->op() == hlo::Op::kReshape || inside->op() == hlo::Op::kBroadcast) {
      inside = inside->operand(0);
    }
    return *inside;
  }
  ValueId Bits(ValueId value) {
    DType type = b_.type(value).dtype;
    if (!IsFloat(type)) return value;
    return b_.Bitcast(value, type == DType::kF64 ? DType::kS64 : DType::kS32);
  }

  KernelDraft& draft_;
  ElementEmitter& e_;
  KernelBuilder& b_;
  const Instruction& scatter_;
  const hlo::ScatterAttrs& attrs_;
  const ScatterDims& dims_;
  std::vector<KernelBuilder::MemoryId> memory_;
  int64_t n_, width_ = 1;
  ValueId column_ = -1;
  int64_t piece_ = 1;
  bool wide_ = false;
  std::optional<Coord> base_;
};

// How many arrays of their own the threads get; 0: none.
int64_t OwnArrays(const Instruction& scatter, const ScatterDims& dims, double work) {
  const Shape& shape = scatter.operand(0)->shape();
  if (scatter.operand_count() != 3 || work < kParallelScatter / 2) return 0;
  const auto& attrs = scatter.attrs<hlo::ScatterAttrs>();
  if (!AsPlainReducer(*attrs.to_apply, shape.dtype(), 0)) return 0;
  // Filling and joining them is a small part of the work.
  double room = work / (16 * static_cast<double>(shape.elements()));
  int64_t arrays = std::min(static_cast<int64_t>(room), kMaxOwnArrays);
  return arrays >= 2 && dims.updates >= 64 * arrays ? arrays : 0;
}

bool SumsInF64(const Instruction& scatter, const ScatterDims& dims, bool in_loop) {
  const Shape& shape = scatter.operand(0)->shape();
  const auto& attrs = scatter.attrs<hlo::ScatterAttrs>();
  if (scatter.operand_count() != 3 || attrs.unique_indices || shape.dtype() != DType::kF32 ||
      !SumsF32(*attrs.to_apply, shape.dtype()) || dims.updates <= kFewUpdates) {
    return false;
  }
  int64_t places = shape.elements() / dims.window_elements;
  if (in_loop) return dims.updates >= kUpdatesPerPlace * places;
  return shape.elements() <= kSmallArray ||
         (dims.updates >= kUpdatesPerPlace * places && shape.elements() <= kMostPlaces);
}

// The scatter of an instruction: itself, or the root of a fusion.
const Instruction& ScatterOf(const Instruction& instruction) {
  bool fused = instruction.op() == HloOp::kFusion;
  return fused ? *instruction.attrs<hlo::FusionAttrs>().calls->root() : instruction;
}

bool HasUpdates(const Instruction& scatter) {
  return scatter.operand(scatter.operand_count() - 1)->shape().elements() > 0;
}

double WorkOf(const ScatterDims& dims) {
  return static_cast<double>(dims.updates) * static_cast<double>(dims.window_elements);
}

// Columns of the windows that a thread takes, of `dims.minor()`.
int64_t PieceOfWindows(const LowerContext& cx, const ScatterDims& dims) {
  int64_t minor = dims.minor();
  bool shared = !cx.serial && dims.columns_apart && WorkOf(dims) > kParallelScatter && minor >= 2 * kWindowPiece &&
                minor % kWindowPiece == 0;
  return shared ? kWindowPiece : minor;
}

KernelBody ScatterBody(const LowerContext& cx, const Instruction& instruction,
                       const Instruction& scatter) {
  KernelBody body = BodyOf(cx, instruction);
  int64_t n = (scatter.operand_count() - 1) / 2;
  // The arrays below are no inputs, unless something else in the kernel reads them.
  std::erase_if(body.inputs, [&](const KernelInput& input) {
    bool below = false, read = false;
    for (const Instruction* m : body.members) {
      for (int64_t k = 0; k < m->operand_count(); ++k) {
        if (m->operand(k) == input.inside) (m == &scatter && k < n ? below : read) = true;
      }
    }
    return below && !read;
  });
  return body;
}

// The arrays that are scattered into, where the results are.
void CopyScattered(LowerContext& cx, const Instruction& instruction, const Instruction& scatter,
                   const KernelBody& body, Steps& steps) {
  bool fused = instruction.op() == HloOp::kFusion;
  int64_t n = (scatter.operand_count() - 1) / 2;
  std::vector<std::pair<MemValue, MemValue>> moves;
  for (int64_t i = 0; i < n; ++i) {
    const Instruction* below = scatter.operand(i);
    if (fused) below = instruction.operand(below->parameter_number());
    moves.emplace_back(cx.memory.Leaf(*below), body.outputs[static_cast<size_t>(i)].value);
  }
  CopyTogether(cx, std::move(moves), "the scattered-into array", instruction, steps);
}

// One kernel for all updates, threads taking `piece` columns of the windows each.
Status ScatterBy(Subject& subject, int64_t piece) {
  LowerContext& cx = subject.cx;
  Steps& steps = subject.steps;
  const Instruction& scatter = ScatterOf(subject.instruction);
  const auto& attrs = scatter.attrs<hlo::ScatterAttrs>();
  KernelBody body = ScatterBody(cx, subject.instruction, scatter);
  CopyScattered(cx, subject.instruction, scatter, body, steps);
  if (!HasUpdates(scatter)) return {};
  ScatterDims dims(scatter);
  int64_t pieces = dims.minor() / piece;
  KernelDraft draft = NewDraft(cx, body);
  draft.Declare(body.inputs, {});
  std::vector<KernelBuilder::MemoryId> memory;
  for (const KernelOutput& out : body.outputs) {
    memory.push_back(draft.DeclareBuffer(cx.Buffer(out.value), Access::kReadWrite));
  }
  KernelBuilder& b = draft.builder();
  ScatterLoops loops(draft, scatter, dims, std::move(memory));
  ValueId first = b.Int(0), last = b.Int(dims.updates);
  bool chunked = attrs.unique_indices && !cx.serial && pieces == 1 &&
                 WorkOf(dims) > kParallelScatter / 4 && dims.updates >= 64 * kScatterChunks;
  loops.set_columns(b.Int(0), piece);
  if (pieces > 1) {
    ValueId p = b.BeginLoop(LoopKind::kParallel, b.Int(0), b.Int(pieces), b.Int(1))[0];
    loops.set_columns(b.Mul(p, b.Int(piece)), piece);
  } else if (chunked) {
    int64_t chunk = (dims.updates + kScatterChunks - 1) / kScatterChunks;
    ValueId c = b.BeginLoop(LoopKind::kParallel, b.Int(0), b.Int(kScatterChunks), b.Int(1))[0];
    first = b.Mul(c, b.Int(chunk));
    last = b.Min(b.Add(first, b.Int(chunk)), b.Int(dims.updates));
  }
  if (dims.updates > 1) {
    TRY(loops.Range(first, last));
  } else {
    TRY(loops.Update(b.Int(0)));
  }
  if (chunked || pieces > 1) b.End();
  Finish(cx, draft, body, steps);
  return {};
}

// Arrays that begin with the reduction's identity, each updated by one part of the updates; then
// all of them, in order, are joined with the operand. `wide`: arrays of f64 for sums of f32. Of one
// array threads take `piece` columns of the windows each.
Status ScatterToOwnArrays(LowerContext& cx, const KernelBody& body, const Instruction& scatter,
                          int64_t arrays, bool wide, int64_t piece, Steps& steps) {
  const Shape& shape = scatter.shape();
  DType type = shape.dtype();
  int64_t size = shape.elements();
  const hlo::Computation& to_apply = *scatter.attrs<hlo::ScatterAttrs>().to_apply;
  PlainReducer reducer = *AsPlainReducer(to_apply, type, 0);
  DType own_type = wide ? DType::kF64 : type;
  program::BufferId own = cx.Scratch(Shape(own_type, {arrays, size}), "own");
  LoopShape all;
  all.flat = true;
  all.serial = cx.serial;
  all.width = std::max<int64_t>(ByteWidth(own_type), IsFloat(type) ? 4 : 1);
  {
    KernelDraft fill(StrCat(body.instruction->name(), ".own"), cx.program, cx.memory, cx.target);
    KernelBuilder::MemoryId to = fill.DeclareBuffer(own, Access::kWrite);
    all.dims = {arrays * size};
    all.cost = wide ? kWideCost : 1;
    ElementEmitter& e = fill.elements();
    TRY(fill.ForEach(all, [&](const Index& index) -> Status {
      ValueId identity =
          fill.builder().Number(reducer.identity, {program::ComputeType(own_type), 1});
      e.StoreAt(to, own_type, e.Linear(all.dims, index), {identity, -1});
      return {};
    }));
    Finish(cx, fill, body, steps);
  }
  ScatterDims dims(scatter);
  {
    KernelDraft draft = NewDraft(cx, body);
    draft.Declare(body.inputs, {});
    ScatterLoops loops(draft, scatter, dims, {draft.DeclareBuffer(own, Access::kReadWrite)});
    if (wide) loops.set_wide();
    KernelBuilder& b = draft.builder();
    loops.set_columns(b.Int(0), dims.minor());
    if (arrays > 1) {
      int64_t chunk = (dims.updates + arrays - 1) / arrays;
      ValueId c = b.BeginLoop(LoopKind::kParallel, b.Int(0), b.Int(arrays), b.Int(1))[0];
      loops.set_base({b.Mul(c, b.Int(size)), 0, size, 0, (arrays - 1) * size});
      ValueId first = b.Mul(c, b.Int(chunk));
      TRY(loops.Range(first, b.Min(b.Add(first, b.Int(chunk)), b.Int(dims.updates))));
      b.End();
    } else {
      int64_t pieces = dims.minor() / piece;
      if (pieces > 1) {
        ValueId p = b.BeginLoop(LoopKind::kParallel, b.Int(0), b.Int(pieces), b.Int(1))[0];
        loops.set_columns(b.Mul(p, b.Int(piece)), piece);
      }
      TRY(loops.Range(b.Int(0), b.Int(dims.updates)));
      if (pieces > 1) b.End();
    }
    Finish(cx, draft, body, steps);
  }
  KernelDraft join(StrCat(body.instruction->name(), ".join"), cx.program, cx.memory, cx.target);
  KernelBuilder::MemoryId from = join.DeclareBuffer(own, Access::kRead);
  KernelBuilder::MemoryId to =
      join.DeclareBuffer(cx.Buffer(body.outputs[0].value), Access::kReadWrite);
  all.dims = {size};
  all.in_place = true;
  all.cost = static_cast<double>(arrays) * (wide ? 2 * kWideCost : 2);
  ElementEmitter& e = join.elements();
  TRY(join.ForEach(all, [&](const Index& index) -> Status {
    Coord at = e.Linear(all.dims, index);
    Element sum = e.LoadAt(to, type, at);
    KernelBuilder& b = join.builder();
    if (wide) sum.re = b.Cast(sum.re, own_type);
    for (int64_t k = 0; k < arrays; ++k) {
      Element part = e.LoadAt(from, own_type, e.AddConstant(at, k * size));
      if (wide) {
        sum.re = b.Add(sum.re, part.re);
      } else {
        sum = TRY(e.Call(to_apply, std::vector<Element>{sum, part}))[0];
      }
    }
    if (wide) sum.re = b.Cast(sum.re, type);
    e.StoreAt(to, type, at, sum);
    return {};
  }));
  Finish(cx, join, body, steps);
  return {};
}

// How many arrays of their own threads scatter into; 0: none. `wide`: of f64 for sums of f32.
struct OwnArrayPlan {
  int64_t arrays;
  bool wide;
};
OwnArrayPlan PlanOwnArrays(const LowerContext& cx, const Instruction& scatter,
                           const ScatterDims& dims) {
  bool wide = SumsInF64(scatter, dims, cx.serial);
  bool shared = !cx.serial && PieceOfWindows(cx, dims) == dims.minor();
  if (scatter.attrs<hlo::ScatterAttrs>().unique_indices || (!wide && !shared)) return {0, wide};
  int64_t arrays = cx.serial ? 0 : OwnArrays(scatter, dims, WorkOf(dims));
  return {wide ? std::max<int64_t>(arrays, 1) : arrays, wide};
}

Decision MatchScatterToOwnArrays(Subject& subject) {
  const Instruction& scatter = ScatterOf(subject.instruction);
  if (!HasUpdates(scatter)) return Refuse("there are no updates");
  OwnArrayPlan plan = PlanOwnArrays(subject.cx, scatter, ScatterDims(scatter));
  if (plan.arrays == 0) return Refuse("arrays for each thread would cost more than they save");
  return plan.wide ? Take("sums of f32 are kept in f64 until all updates are added")
                   : Take("the result is small: each thread has an array of its own");
}

Status LowerScatterToOwnArrays(Subject& subject) {
  LowerContext& cx = subject.cx;
  const Instruction& scatter = ScatterOf(subject.instruction);
  KernelBody body = ScatterBody(cx, subject.instruction, scatter);
  CopyScattered(cx, subject.instruction, scatter, body, subject.steps);
  ScatterDims dims(scatter);
  OwnArrayPlan plan = PlanOwnArrays(cx, scatter, dims);
  return ScatterToOwnArrays(cx, body, scatter, plan.arrays, plan.wide, PieceOfWindows(cx, dims),
                            subject.steps);
}

Decision MatchScatter(Subject&) {
  return Take("updates one after the other, by columns or chunks where threads do not meet");
}

Status LowerScatter(Subject& subject) {
  ScatterDims dims(ScatterOf(subject.instruction));
  return ScatterBy(subject, PieceOfWindows(subject.cx, dims));
}

Decision MatchScatterByColumns(Subject&) {
  return Take("a thread for each column of the windows, one for all where columns meet");
}

Status LowerScatterByColumns(Subject& subject) {
  ScatterDims dims(ScatterOf(subject.instruction));
  return ScatterBy(subject, dims.columns_apart ? 1 : dims.minor());
}

}  // namespace

extern constinit const LoweringRow kScatterToOwnArrays = {
    "scatter to own arrays", {HloOp::kScatter}, MatchScatterToOwnArrays, LowerScatterToOwnArrays};
extern constinit const LoweringRow kScatter = {
    "scatter", {HloOp::kScatter}, MatchScatter, LowerScatter};
extern constinit const LoweringRow kScatterByColumns = {
    "scatter by columns", {HloOp::kScatter}, MatchScatterByColumns, LowerScatterByColumns};

}  // namespace weft::compiler
