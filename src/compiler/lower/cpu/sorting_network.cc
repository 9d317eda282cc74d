// Sorting networks. Sorts of few elements, inside of loops or of many slices, one in each lane: all
// of a slice in registers, neighbours exchanged until they are in order.
#include <algorithm>

#include "compiler/lower/sort_order.h"
#include "compiler/lower/table.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;
using HloOp = hlo::Op;
using program::Op;
using program::Type;

namespace {

constexpr int64_t kFewExchanges = program::CodeBounds::kLargeBody;  // of single values
// Outside of loops: what a kernel of their own takes.
constexpr int64_t kManySlices = program::CodeBounds::kShortLoop;

// What is in one place: an element of every operand, and what says where it belongs.
struct Item {
  std::vector<Element> values;
  std::vector<ValueId> keys;  // integers; none where the comparator is called
};

DType BitsType(DType type) {
  return IntegerType(DTypeClass::kSigned, BitWidth(type));
}

// An integer that is in the order of the numbers.
ValueId KeyOf(KernelBuilder& b, ValueId x, const SortOrder& order) {
  Type type = b.type(x);
  if (type.dtype == DType::kPred) return b.Cast(x, DType::kU8);
  if (!IsFloat(type.dtype)) return x;
  ValueId number = order.zeros_equal ? b.Add(x, b.Float(0, type)) : x;  // -0 + 0 is 0
  ValueId bits = b.Bitcast(number, BitsType(type.dtype));
  int64_t width = BitWidth(type.dtype);
  int64_t largest = static_cast<int64_t>(~uint64_t{0} >> (65 - width));
  // Below zero, the larger the bits the smaller the number.
  ValueId sign = b.Emit(Op::kShr, {bits, b.Int(width - 1, b.type(bits))});
  ValueId turned = b.Emit(Op::kAnd, {sign, b.Int(largest, b.type(bits))});
  ValueId key = b.Emit(Op::kXor, {bits, turned});
  if (!order.nans_equal) return key;
  return b.Select(b.Emit(Op::kNe, {x, x}), b.Int(largest, b.type(bits)), key);
}

// Whether one float is to stand before another where zeros are equal and NaN, all one value, the
// greatest: the comparison says so with less than keys take, and no keys have to be moved.
ValueId IsFloatBefore(KernelBuilder& b, ValueId x, ValueId y, bool descending) {
  ValueId lower = descending ? y : x,
          upper = descending ? x : y;  // not upper <= lower, lower no NaN
  ValueId not_above = b.Emit(Op::kLe, {upper, lower});
  return b.Emit(Op::kAnd, {b.Emit(Op::kNot, {not_above}), b.Emit(Op::kEq, {lower, lower})});
}

// Whether `x` is to stand before `y`, by their keys.
ValueId IsBefore(KernelBuilder& b, const Item& x, const Item& y, bool descending) {
  ValueId before = -1;
  for (size_t k = x.keys.size(); k-- > 0;) {
    ValueId less = b.Emit(descending ? Op::kGt : Op::kLt, {x.keys[k], y.keys[k]});
    if (before >= 0) {
      ValueId rest = b.Emit(Op::kAnd, {b.Emit(Op::kEq, {x.keys[k], y.keys[k]}), before});
      less = b.Emit(Op::kOr, {less, rest});
    }
    before = less;
  }
  return before;
}

// The same, as the comparator says.
Result<ValueId> IsBefore(ElementContext& e, const Item& x, const Item& y,
                         const hlo::Computation& comparator) {
  std::vector<Element> args;
  for (size_t i = 0; i < x.values.size(); ++i) {
    args.insert(args.end(), {x.values[i], y.values[i]});
  }
  return TRY(CallComputation(e, comparator, args))[0].re;
}

// The item where the predicate is true, the other one elsewhere.
Item Choose(ElementContext& e, KernelBuilder& b, ValueId which, const Item& x, const Item& y) {
  Item chosen;
  for (size_t k = 0; k < x.values.size(); ++k) {
    chosen.values.push_back(SelectElement(e, which, x.values[k], y.values[k]));
  }
  for (size_t k = 0; k < x.keys.size(); ++k) {
    chosen.keys.push_back(b.Select(which, x.keys[k], y.keys[k]));
  }
  return chosen;
}

// A sort of n elements, or the `best` of them in order.
struct FewSorted {
  size_t dim = 0;
  int64_t n = 0, best = 0, operands = 1;
  std::optional<SortOrder> order;
  const hlo::Computation* comparator = nullptr;

  // One key, of floats in the usual order.
  bool ComparesFloats(DType key) const {
    return order && order->keys.size() == 1 && order->zeros_equal && order->nans_equal &&
           IsFloat(key);
  }
  int64_t Exchanges() const { return best * (2 * n - best - 1) / 2; }
  // Places k of which the element comes in order with the one behind it, one after the other. Only
  // neighbours are exchanged, so that equal ones stay as they came.
  std::vector<size_t> Pairs() const {
    std::vector<size_t> pairs;
    if (best < n) {  // the best one of the rest moves to its front
      for (int64_t front = 0; front < best; ++front) {
        for (int64_t k = n - 2; k >= front; --k) pairs.push_back(static_cast<size_t>(k));
      }
      return pairs;
    }
    for (int64_t round = 0; round < n; ++round) {
      for (int64_t k = round % 2; k + 1 < n; k += 2) pairs.push_back(static_cast<size_t>(k));
    }
    return pairs;
  }
};

// Kernels hold numbers of the type as they are stored, or in the same order.
bool HasKey(DType type) {
  return type == DType::kF32 || type == DType::kF64 || type == DType::kBF16 ||
         type == DType::kPred || (IsInteger(type) && BitWidth(type) >= 8);
}

FewSorted FewSortedOf(const Instruction& sort) {
  FewSorted few;
  const Shape& shape = sort.operand(0)->shape();
  if (sort.op() == HloOp::kTopK) {
    const auto& attrs = sort.attrs<hlo::TopKAttrs>();
    few.dim = static_cast<size_t>(shape.rank() - 1);
    few.best = attrs.k;
    few.operands = 2;
    few.order = SortOrder{.keys = {0}, .descending = attrs.largest};
  } else {
    const auto& attrs = sort.attrs<hlo::SortAttrs>();
    few.dim = static_cast<size_t>(attrs.dimensions[0]);
    few.best = shape.dims()[few.dim];
    few.operands = sort.operand_count();
    few.comparator = attrs.to_apply;
    few.order = OrderOfComparator(*few.comparator);
  }
  few.n = shape.dims()[few.dim];
  auto has_key = [&](int64_t k) { return HasKey(sort.operand(k)->shape().dtype()); };
  if (few.order && !std::ranges::all_of(few.order->keys, has_key)) few.order.reset();
  return few;
}

Decision MatchSortingNetwork(Subject& subject) {
  const Instruction& sort = subject.instruction;
  FewSorted few = FewSortedOf(sort);
  if (sort.operand(0)->shape().elements() == 0 || few.best == 0) return Refuse("nothing is sorted");
  bool many = sort.operand(0)->shape().elements() >= kManySlices * few.n;
  if (!subject.cx.serial && !many) return Refuse("a call of the library sorts few slices as soon");
  if (sort.op() == HloOp::kTopK && !few.order) return Refuse("its keys are of another type");
  int64_t most = subject.cx.target.Accumulators();
  bool fits = few.n <= (few.best < few.n ? 2 * most : most) &&
              few.Exchanges() * few.operands <= kFewExchanges;
  if (!fits) return Refuse("there are too many elements for registers");
  return Take("few elements are sorted in registers");
}

LoopShape SliceLoop(const KernelBody& body, const Dims& slice, const FewSorted& few, bool serial) {
  LoopShape shape;
  shape.dims = slice;
  shape.serial = serial;
  shape.in_place = true;
  shape.cost = static_cast<double>(few.Pairs().size() * static_cast<size_t>(1 + 2 * few.operands));
  shape.scalar = serial && few.dim == slice.size();  // few of them, strided
  for (const KernelInput& in : body.inputs) {
    shape.width = std::max(shape.width, ByteWidth(in.inside->shape().dtype()));
  }
  return shape;
}

// The elements of one slice, in registers.
class SortedSlice {
 public:
  SortedSlice(ElementContext& e, const Instruction& sort, const FewSorted& few)
      : e_(e),
        sort_(sort),
        few_(few),
        key_at_(few.order ? static_cast<size_t>(few.order->keys[0]) : 0),
        floats_(few.ComparesFloats(sort.operand(static_cast<int64_t>(key_at_))->shape().dtype())),
        items_(static_cast<size_t>(few.n)) {}

  Index Place(const Index& at, int64_t k) {
    Index full = at;
    full.coords.insert_at(few_.dim, ConstantCoord(e_, k));
    return full;
  }

  Status Load(const Index& at) {
    for (int64_t k = 0; k < few_.n; ++k) {
      Item& item = items_[static_cast<size_t>(k)];
      for (const Instruction* operand : sort_.operands()) {
        item.values.push_back(TRY(EmitElement(e_, *operand, Place(at, k))));
      }
      if (sort_.op() == HloOp::kTopK) {
        item.values.push_back({e_.b.Int(k, {DType::kS32, e_.lanes}), -1});
      }
      if (!few_.order || floats_) continue;
      for (int64_t key : few_.order->keys) {
        item.keys.push_back(KeyOf(e_.b, item.values[static_cast<size_t>(key)].re, *few_.order));
      }
    }
    return {};
  }

  Status PutInOrder(size_t k) {
    Item x = items_[k], y = items_[k + 1];
    ValueId exchange = TRY(Before(y, x));
    items_[k] = Choose(e_, e_.b, exchange, y, x);
    items_[k + 1] = Choose(e_, e_.b, exchange, x, y);
    return {};
  }

  const Item& item(int64_t k) const { return items_[static_cast<size_t>(k)]; }

 private:
  Result<ValueId> Before(const Item& x, const Item& y) {
    if (!few_.order) return IsBefore(e_, x, y, *few_.comparator);
    bool descending = few_.order->descending;
    if (!floats_) return IsBefore(e_.b, x, y, descending);
    return IsFloatBefore(e_.b, x.values[key_at_].re, y.values[key_at_].re, descending);
  }

  ElementContext& e_;
  const Instruction& sort_;
  const FewSorted& few_;
  size_t key_at_;
  bool floats_;
  std::vector<Item> items_;
};

Status LowerSortingNetwork(Subject& subject) {
  LowerContext& cx = subject.cx;
  const Instruction& sort = subject.instruction;
  FewSorted few = FewSortedOf(sort);
  const Dims& whole = sort.operand(0)->shape().dims();
  Dims slice = whole;
  slice.erase_at(few.dim);
  KernelBody body = BodyOf(cx, sort);
  const auto& results = cx.memory.Leaves(sort);
  KernelDraft draft = NewDraft(cx, body);
  draft.Declare(body.inputs, body.outputs);
  ElementContext& e = draft.elements();
  LoopShape shape = SliceLoop(body, slice, few, cx.serial);
  TRY(draft.ForEach(shape, [&](const Index& linear) -> Status {
    Index at = Coordinates(e, slice, linear);
    SortedSlice sorted(e, sort, few);
    TRY(sorted.Load(at));
    for (size_t k : few.Pairs()) TRY(sorted.PutInOrder(k));
    for (int64_t k = 0; k < few.best; ++k) {
      for (size_t i = 0; i < results.size(); ++i) {
        const Shape& to = cx.memory.shape(results[i]);
        Coord place = LinearCoord(e, to.dims(), sorted.Place(at, k));
        StoreAt(e, draft.MemoryOf(results[i]), to.dtype(), place, sorted.item(k).values[i]);
      }
    }
    return {};
  }));
  Finish(cx, draft, body, subject.steps);
  return {};
}

}  // namespace

extern constinit const LoweringRow kSortingNetwork = {
    "sorting network", {HloOp::kSort, HloOp::kTopK}, MatchSortingNetwork, LowerSortingNetwork};

}  // namespace weft::compiler
