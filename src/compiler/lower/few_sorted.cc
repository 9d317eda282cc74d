// Sorts of few elements inside of loops: all of them in registers, neighbours exchanged until they
// are in order.
#include <algorithm>

#include "compiler/lower/lowering.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Op;
using program::Type;

namespace {

constexpr int64_t kFewSorted = 16;
constexpr int64_t kFewExchanges = 160;  // of single values

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

// The item where the predicate is true, the other one elsewhere.
Item Choose(ElementEmitter& e, KernelBuilder& b, ValueId which, const Item& x, const Item& y) {
  Item chosen;
  for (size_t k = 0; k < x.values.size(); ++k) {
    chosen.values.push_back(e.Select(which, x.values[k], y.values[k]));
  }
  for (size_t k = 0; k < x.keys.size(); ++k) {
    chosen.keys.push_back(b.Select(which, x.keys[k], y.keys[k]));
  }
  return chosen;
}

}  // namespace

bool Lowering::IsFewSorted(const Instruction& sort) const {
  const auto& attrs = sort.attrs<hlo::SortAttrs>();
  int64_t n = sort.operand(0)->shape().dim(attrs.dimensions[0]);
  return serial_ && n <= kFewSorted && n * (n - 1) / 2 * sort.operand_count() <= kFewExchanges;
}

Status Lowering::LowerFewSorted(const Instruction& sort, Steps& steps) {
  const auto& attrs = sort.attrs<hlo::SortAttrs>();
  std::optional<SortOrder> order = OrderOfComparator(*attrs.to_apply);
  const Dims& whole = sort.operand(0)->shape().dims();
  size_t dim = static_cast<size_t>(attrs.dimensions[0]);
  int64_t n = whole[dim];
  Dims slice = whole;
  slice.erase_at(dim);
  KernelBody body;
  body.instruction = &sort;
  body.members = {&sort};
  for (const Instruction* operand : sort.operands()) {
    bool known = std::any_of(body.inputs.begin(), body.inputs.end(),
                             [&](const KernelInput& in) { return in.inside == operand; });
    if (!known) body.inputs.push_back({operand, memory_.Leaf(*operand)});
  }
  const auto& results = memory_.Leaves(sort);
  for (MemValue v : results) body.outputs.push_back({&sort, v});
  KernelDraft draft = NewDraft(body);
  draft.Declare(body.inputs, body.outputs);
  ElementEmitter& e = draft.elements();
  KernelBuilder& b = draft.builder();
  LoopShape shape;
  shape.dims = slice;
  shape.serial = shape.in_place = true;
  shape.scalar = dim + 1 == whole.size();
  for (const KernelInput& in : body.inputs) {
    shape.width = std::max(shape.width, ByteWidth(in.inside->shape().dtype()));
  }
  TRY(draft.ForEach(shape, [&](const Index& linear) -> Status {
    Index at = e.Coordinates(slice, linear);
    auto place = [&](int64_t k) {
      Index full = at;
      full.coords.insert_at(dim, e.Constant(k));
      return full;
    };
    std::vector<Item> items(static_cast<size_t>(n));
    for (int64_t k = 0; k < n; ++k) {
      Item& item = items[static_cast<size_t>(k)];
      for (const Instruction* operand : sort.operands()) {
        item.values.push_back(TRY(e.Emit(*operand, place(k))));
      }
      if (!order) continue;
      for (int64_t key : order->keys) {
        item.keys.push_back(KeyOf(b, item.values[static_cast<size_t>(key)].re, *order));
      }
    }
    for (int64_t round = 0; round < n; ++round) {
      for (size_t k = static_cast<size_t>(round % 2); k + 1 < items.size(); k += 2) {
        Item x = items[k], y = items[k + 1];
        ValueId exchange = -1;
        if (order) {
          exchange = IsBefore(b, y, x, order->descending);
        } else {
          std::vector<Element> args;
          for (size_t i = 0; i < x.values.size(); ++i) {
            args.insert(args.end(), {y.values[i], x.values[i]});
          }
          exchange = TRY(e.Call(*attrs.to_apply, args))[0].re;
        }
        items[k] = Choose(e, b, exchange, y, x);
        items[k + 1] = Choose(e, b, exchange, x, y);
      }
    }
    for (int64_t k = 0; k < n; ++k) {
      for (size_t i = 0; i < results.size(); ++i) {
        const Shape& to = memory_.shape(results[i]);
        e.StoreAt(draft.MemoryOf(results[i]), to.dtype(), e.Linear(to.dims(), place(k)),
                  items[static_cast<size_t>(k)].values[i]);
      }
    }
    return {};
  }));
  Finish(draft, body, steps);
  return {};
}

}  // namespace weft::compiler
