// What ways to lower scatter have in common: dimensions of updates, where windows lie, one update.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "compiler/lower/lowering.h"

namespace weft::compiler {

// The dimensions of updates: those that say which index, and those of the window.
struct ScatterDims {
  Dims scatter, scatter_sizes, window, window_sizes;
  Dims covered;  // operand dimensions that the window covers, in order
  int64_t updates = 1, window_elements = 1;

  explicit ScatterDims(const hlo::Instruction& instruction) {
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
  }
  // Windows have one element along the dimensions that indices are of, so that any two of them are
  // at the same place or do not meet.
  bool MeetWhole(const hlo::Instruction& instruction) const {
    const auto& attrs = instruction.attrs<hlo::ScatterAttrs>();
    for (size_t w = 0; w < covered.size(); ++w) {
      if (Holds(attrs.scatter_dims_to_operand_dims, covered[w]) && window_sizes[w] != 1)
        return false;
    }
    return true;
  }
  // Windows have one element along a dimension of the operand.
  bool IsOneAlong(int64_t dim) const {
    auto found = std::ranges::find(covered, dim);
    return found == covered.end() || window_sizes[found - covered.begin()] == 1;
  }
  // Columns of the windows never meet others: no index moves them along the minor dimension.
  bool ColumnsApart(const hlo::Instruction& instruction) const {
    const auto& attrs = instruction.attrs<hlo::ScatterAttrs>();
    return covered.empty() || !Holds(attrs.scatter_dims_to_operand_dims, covered.back());
  }
  static bool Holds(std::span<const int64_t> list, int64_t x) {
    return std::find(list.begin(), list.end(), x) != list.end();
  }
  int64_t minor() const { return window_sizes.empty() ? 1 : window_sizes.back(); }
};

// One update after the other, inside a kernel.
class ScatterLoops {
 public:
  ScatterLoops(KernelDraft& draft, const hlo::Instruction& scatter, const ScatterDims& dims,
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
  // Updates of places [first, first + size) along a dimension of the operand; others are left out.
  void set_range(int64_t dim, ValueId first, int64_t size) { range_ = {dim, first, size}; }
  // The arrays are of f64, what is added of f32.
  void set_wide() {
    wide_ = true;
    width_ = 8;
  }
  KernelBuilder::MemoryId memory(size_t i) const { return memory_[i]; }
  // The arrays begin there.
  void set_base(Coord base) { base_ = base; }

  Status Range(ValueId first, ValueId last) {
    ValueId number = b_.BeginLoop(program::LoopKind::kSerial, first, last, b_.Int(1))[0];
    TRY(Update(number));
    b_.End();
    return {};
  }

  Status Update(ValueId number) {
    Index linear;
    linear.is_linear = true;
    linear.linear = {number, 0, 1, 0, dims_.updates - 1};
    Index at = Coordinates(e_, dims_.scatter_sizes, linear), start;
    ValueId inside = TRY(Start(at, start));
    if (range_.dim >= 0) inside = InRange(start, inside);
    if (inside >= 0) b_.BeginIf(inside);
    TRY(Window(at, start));
    if (inside >= 0) b_.End();
    return {};
  }

  // Where the window begins; whether it lies within the operand (-1: always).
  Result<ValueId> Start(const Index& at, Index& start) {
    const hlo::Instruction& indices = *scatter_.operand(n_);
    start.coords.resize(static_cast<size_t>(operand().rank()), ConstantCoord(e_, 0));
    auto index_at = [&](int64_t component) {
      Index i;
      size_t next = 0;
      for (int64_t d = 0; d < indices.shape().rank(); ++d) {
        bool is_vector = d == attrs_.index_vector_dim;
        i.coords.push_back(is_vector ? ConstantCoord(e_, component) : at.coords[next++]);
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
      Coord c = TRY(EmitCoord(e_, indices, index_at(static_cast<int64_t>(k))));
      int64_t size = 1;
      for (size_t w = 0; w < dims_.covered.size(); ++w) {
        if (dims_.covered[w] == d) size = dims_.window_sizes[w];
      }
      auto check = [&](ValueId ok) {
        inside = inside < 0 ? ok : b_.Emit(program::Op::kAnd, {inside, ok});
      };
      int64_t last = operand().dim(d) - size;
      ValueId plain = c.low < 0 && last >= 0 ? BeforeWrap(c.base) : -1;
      if (plain >= 0) {
        check(FromPlain(plain, last, c));
      } else {
        if (c.low < 0) check(b_.Emit(program::Op::kGe, {c.base, b_.Int(0)}));
        if (c.high > last) check(b_.Emit(program::Op::kLe, {c.base, b_.Int(last)}));
      }
      start.coords[static_cast<size_t>(d)] = c;
    }
    return inside;
  }

  // One element (or one a lane) of the window: what is there and the update make the next one.
  Status Elements(const Index& at, const Index& start, const Index& w) {
    Index from = UpdateIndex(at, w);
    Coord place = PlaceOf(start, w);
    if (wide_) {
      Element sum = LoadAt(e_, memory_[0], DType::kF64, place);
      ValueId term = b_.Cast(TRY(EmitElement(e_, *scatter_.operand(2), from)).re, DType::kF64);
      if (b_.type(term).lanes != b_.type(sum.re).lanes) term = b_.Splat(term, e_.lanes);
      StoreAt(e_, memory_[0], DType::kF64, place, {b_.Add(sum.re, term), -1});
      return {};
    }
    std::vector<Element> args = Load(place);
    std::vector<Element> values = TRY(Apply(args, from));
    bool changes = MostlyKeeps();
    if (changes) b_.BeginIf(b_.Emit(program::Op::kNe, {Bits(args[0].re), Bits(values[0].re)}));
    Store(place, values);
    if (changes) b_.End();
    return {};
  }
  // Its parts: which element of the updates, where it goes, what lies there, what comes of both.
  Index UpdateIndex(const Index& at, const Index& w) const {
    Index from;
    from.coords.resize(dims_.scatter.size() + dims_.window.size());
    for (size_t k = 0; k < dims_.scatter.size(); ++k) {
      from.coords[static_cast<size_t>(dims_.scatter[k])] = at.coords[k];
    }
    for (size_t k = 0; k < dims_.window.size(); ++k) {
      from.coords[static_cast<size_t>(dims_.window[k])] = w.coords[k];
    }
    return from;
  }
  Coord PlaceOf(const Index& start, const Index& w) {
    Index to = start;
    for (size_t k = 0; k < dims_.window.size(); ++k) {
      Coord& c = to.coords[static_cast<size_t>(dims_.covered[k])];
      c = AddCoords(e_, c, w.coords[k]);
    }
    Coord place = LinearCoord(e_, operand().dims(), to);
    if (base_) place = AddCoords(e_, *base_, place);
    return place;
  }
  std::vector<Element> Load(const Coord& place) {
    std::vector<Element> values;
    for (int64_t i = 0; i < n_; ++i) {
      values.push_back(LoadAt(e_, memory_[static_cast<size_t>(i)], TypeOf(i), place));
    }
    return values;
  }
  Result<std::vector<Element>> Apply(std::vector<Element> args, const Index& from) {
    for (int64_t i = 0; i < n_; ++i) {
      args.push_back(TRY(EmitElement(e_, *scatter_.operand(n_ + 1 + i), from)));
    }
    return CallComputation(e_, *attrs_.to_apply, args);
  }
  void Store(const Coord& place, std::span<const Element> values) {
    for (int64_t i = 0; i < n_; ++i) {
      StoreAt(e_, memory_[static_cast<size_t>(i)], TypeOf(i), place,
              values[static_cast<size_t>(i)]);
    }
  }

 private:
  const Shape& operand() const { return scatter_.operand(0)->shape(); }
  DType TypeOf(int64_t i) const { return scatter_.operand(i)->shape().dtype(); }

  // The x of an index x < 0 ? x + size : x; -1: it is none.
  ValueId BeforeWrap(ValueId index) const {
    const program::Instr* cast = b_.DefinitionOf(index);
    if (cast == nullptr || cast->op != program::Op::kCast || cast->type.lanes != 1) return -1;
    const program::Instr* select = b_.DefinitionOf(cast->args[0]);
    if (select == nullptr || select->op != program::Op::kSelect) return -1;
    ValueId x = select->args[2];
    const program::Instr* negative = b_.DefinitionOf(select->args[0]);
    bool wraps = negative != nullptr && negative->op == program::Op::kLt &&
                 negative->args[0] == x && b_.IntConstant(negative->args[1]) == 0 &&
                 IsSigned(b_.type(x).dtype);
    return wraps ? x : -1;
  }

  // The index in 64 bits from the start, `plain` being x in 64 bits: widened where both ways to it
  // meet, that would be one more instruction on the way that is nearly always taken.
  ValueId Wrapped(ValueId x, ValueId plain, ValueId index) {
    const program::Instr* select = b_.DefinitionOf(b_.DefinitionOf(index)->args[0]);
    ValueId negative = select->args[0];
    const program::Instr* sum = b_.DefinitionOf(select->args[1]);
    if (sum == nullptr || sum->op != program::Op::kAdd || sum->args[0] != x) return index;
    std::optional<int64_t> size = b_.IntConstant(sum->args[1]);
    if (!size || *size < 0) return index;  // a sum that may wrap around
    return b_.Emit(program::Op::kSelect, {negative, b_.Add(plain, b_.Int(*size)), plain});
  }

  // Nearly always the index is in range as it is: that is asked first, so that the others cost
  // nothing. Whether it is in range; the coordinate is then within it.
  ValueId FromPlain(ValueId x, int64_t last, Coord& c) {
    program::Type wide{DType::kU64, 1};
    ValueId plain = b_.Cast(x, DType::kS64), wrapped = Wrapped(x, plain, c.base);
    ValueId in_range = b_.Emit(program::Op::kLe, {b_.Cast(plain, wide.dtype), b_.Int(last, wide)});
    b_.BeginIf(in_range, program::Branch::kGuard);
    b_.BeginElse(std::vector<ValueId>{plain, b_.Pred(true)});
    ValueId low = b_.Emit(program::Op::kGe, {wrapped, b_.Int(0)});
    ValueId high = b_.Emit(program::Op::kLe, {wrapped, b_.Int(last)});
    std::vector<ValueId> chosen =
        b_.End(std::vector<ValueId>{wrapped, b_.Emit(program::Op::kAnd, {low, high})});
    c = {chosen[0], 0, 1, 0, last};
    return chosen[1];
  }

  ValueId InRange(const Index& start, ValueId inside) {
    program::Type wide{DType::kU64, 1};
    ValueId place = b_.Sub(start.coords[static_cast<size_t>(range_.dim)].base, range_.first);
    ValueId own =
        b_.Emit(program::Op::kLt, {b_.Cast(place, wide.dtype), b_.Int(range_.size, wide)});
    return inside < 0 ? own : b_.Emit(program::Op::kAnd, {inside, own});
  }

  Status Window(const Index& at, const Index& start) {
    Index w;
    w.coords.resize(dims_.window.size(), ConstantCoord(e_, 0));
    if (dims_.window_elements == 1) return Elements(at, start, w);
    LoopShape outer;
    outer.dims = Dims(std::span(dims_.window_sizes.data(), dims_.window_sizes.size() - 1));
    outer.serial = true;
    outer.scalar = true;  // lanes are of the row inside
    int lanes = dims_.minor() >= 4 ? draft_.LanesFor(width_, piece_) : 1;
    return draft_.ForEach(outer, [&](const Index& o) {
      Index index = Coordinates(e_, outer.dims, o);
      index.coords.push_back({});
      return draft_.OverLanes(piece_, lanes, true, [&](Coord c) {
        index.coords.back() = AddCoords(e_, {column_, 0, piece_}, c);
        return Elements(at, start, index);
      });
    });
  }

  // One element becomes the least or the greatest of itself and what is computed: loops that go on
  // find fewer and fewer new ones, and what is not stored need not be waited for by whoever reads
  // it next. Not of two elements, which are put in order: that is as often one as the other.
  bool MostlyKeeps() const {
    if (n_ != 1 || dims_.updates != 1 || dims_.window_elements != 1) return false;
    if (IsComplex(operand().dtype())) return false;
    const hlo::Instruction* value = attrs_.to_apply->root();
    bool replaces = value == attrs_.to_apply->parameter(1);
    if (replaces) value = scatter_.operand(2);
    value = &Within(*value);
    if (value->op() != hlo::Op::kMinimum && value->op() != hlo::Op::kMaximum) return false;
    bool of_itself = std::ranges::any_of(value->operands(), [&](const hlo::Instruction* operand) {
      return IsOld(Within(*operand));
    });
    if (replaces && !of_itself) return false;
    return std::ranges::any_of(value->operands(), [&](const hlo::Instruction* operand) {
      return hlo::IsElementwise(Within(*operand).op());
    });
  }
  // What lies where the element is put, or may: a number read elsewhere.
  bool IsOld(const hlo::Instruction& read) const {
    if (read.op() == hlo::Op::kParameter) return true;
    if (read.op() != hlo::Op::kDynamicSlice || read.operand(0) != scatter_.operand(0)) return false;
    const hlo::Instruction& places = Within(*scatter_.operand(1));
    bool several = places.op() == hlo::Op::kConcatenate;
    int64_t count = several ? places.operand_count() : 1;
    if (count != read.operand_count() - 1) return false;
    for (int64_t k = 0; k < count; ++k) {
      const hlo::Instruction& place = several ? Within(*places.operand(k)) : places;
      if (&place != &Within(*read.operand(k + 1))) return false;
    }
    return true;
  }
  static const hlo::Instruction& Within(const hlo::Instruction& value) {
    const hlo::Instruction* inside = &value;
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
  ElementContext& e_;
  KernelBuilder& b_;
  const hlo::Instruction& scatter_;
  const hlo::ScatterAttrs& attrs_;
  const ScatterDims& dims_;
  std::vector<KernelBuilder::MemoryId> memory_;
  int64_t n_, width_ = 1;
  ValueId column_ = -1;
  int64_t piece_ = 1;
  bool wide_ = false;
  std::optional<Coord> base_;
  struct {
    int64_t dim = -1;
    ValueId first = -1;
    int64_t size = 0;
  } range_;
};

// scatter.cc: the scatter of an instruction: itself, or the root of a fusion.
const hlo::Instruction& ScatterOf(const hlo::Instruction& instruction);
bool HasUpdates(const hlo::Instruction& scatter);
KernelBody ScatterBody(const LowerContext& cx, const hlo::Instruction& instruction,
                       const hlo::Instruction& scatter);
// The arrays that are scattered into, where the results are.
void CopyScattered(LowerContext& cx, const hlo::Instruction& instruction,
                   const hlo::Instruction& scatter, const KernelBody& body, Steps& steps);

}  // namespace weft::compiler
