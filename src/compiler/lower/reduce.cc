// Vectorized reductions: partial results by lanes, then a horizontal reduction.
#include "compiler/lower/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "hlo/computation.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Op;
using HloOp = hlo::Op;

RowReducer::RowReducer(KernelDraft& draft, std::span<const Instruction* const> reduces,
                       int64_t width, KeptTogether together)
    : draft_(draft),
      e_(draft.elements()),
      b_(draft.builder()),
      together_(together),
      dims_(SplitDims(*reduces[0])),
      width_(width) {
  for (int64_t v = 0; v < together.size; ++v) {
    reduces_.insert(reduces_.end(), reduces.begin(), reduces.end());
  }
  for (const Instruction* reduce : reduces_) {
    int64_t n = reduce->operand_count() / 2;
    const hlo::Computation& to_apply = *reduce->attrs<hlo::ReduceAttrs>().to_apply;
    for (int64_t i = 0; i < n; ++i) {
      DType dtype = reduce->operand(i)->shape().dtype();
      types_.push_back(dtype);
      plain_.push_back(AsPlainReducer(to_apply, dtype, i));
      sums_.insert(sums_.end(), IsComplex(dtype) ? 2 : 1, SumsF32(to_apply, dtype, i));
      if (!plain_.back()) can_use_lanes_ &= reduce->operand(n + i)->IsConstant();
    }
  }
}

bool RowReducer::ReadAsRows(int64_t row_from) const {
  if (dims_.reduced.size() < 2 || also_ || together_.dimension >= 0) return false;
  if (!dims_.kept.empty() && dims_.kept.back() > dims_.reduced.front()) return false;
  return std::ranges::all_of(reduces_, [&](const Instruction* reduce) {
    auto operands = reduce->operands().first(static_cast<size_t>(reduce->operand_count()) / 2);
    return std::ranges::all_of(
        operands, [&](const Instruction* operand) { return ReadsInOrder(e_, *operand, row_from); });
  });
}

bool RowReducer::IsInOrder() const {
  return ReadAsRows(0) || ReadAsRows(dims_.reduced.empty() ? 0 : dims_.reduced.front());
}

Index RowReducer::At(const Index& row, const Coord& j) {
  Index linear;
  linear.is_linear = true;
  linear.linear = j;
  if (ReadAsRows(0)) {
    if (dims_.rows > 1) {
      linear.linear =
          AddCoords(e_, ScaleCoord(e_, LinearCoord(e_, dims_.kept_sizes, row), dims_.length), j);
    }
    return linear;
  }
  Index inner, index;
  if (IsInOrder()) {  // all along the row in its last dimension
    inner.coords.resize(dims_.reduced.size(), ConstantCoord(e_, 0));
    inner.coords.back() = j;
  } else {
    inner = Coordinates(e_, dims_.reduced_sizes, linear);
  }
  index.coords.resize(dims_.kept.size() + dims_.reduced.size());
  for (size_t k = 0; k < dims_.kept.size(); ++k) {
    index.coords[static_cast<size_t>(dims_.kept[k])] = row.coords[k];
  }
  for (size_t k = 0; k < dims_.reduced.size(); ++k) {
    index.coords[static_cast<size_t>(dims_.reduced[k])] = inner.coords[k];
  }
  return index;
}

Result<std::vector<Element>> RowReducer::Combine(std::vector<Element> acc,
                                                 std::span<const Element> value) {
  std::vector<Element> next;
  size_t at = 0;
  for (const Instruction* reduce : reduces_) {
    size_t n = static_cast<size_t>(reduce->operand_count()) / 2;
    std::vector<Element> args(acc.begin() + static_cast<int64_t>(at),
                              acc.begin() + static_cast<int64_t>(at + n));
    args.insert(args.end(), value.begin() + static_cast<int64_t>(at),
                value.begin() + static_cast<int64_t>(at + n));
    std::vector<Element> made =
        TRY(CallComputation(e_, *reduce->attrs<hlo::ReduceAttrs>().to_apply, args));
    next.insert(next.end(), made.begin(), made.end());
    at += n;
  }
  return next;
}

Result<std::vector<Element>> RowReducer::Accumulate(const Index& row, const Coord& j,
                                                    std::vector<Element> acc) {
  return AccumulateAt(At(row, j), std::move(acc));
}

Result<std::vector<Element>> RowReducer::AccumulateAt(const Index& index,
                                                      std::vector<Element> acc) {
  return Combine(std::move(acc), TRY(Terms(index)));
}

Result<std::vector<Element>> RowReducer::Terms(const Index& index) {
  if (also_) TRY(also_(index));
  std::vector<Element> value;
  Index at = index;
  size_t each = reduces_.size() / static_cast<size_t>(together_.size);
  for (size_t r = 0; r < reduces_.size(); ++r) {
    if (together_.dimension >= 0) {
      at.coords[static_cast<size_t>(together_.dimension)] =
          ConstantCoord(e_, static_cast<int64_t>(r / each));
    }
    for (int64_t i = 0; i < reduces_[r]->operand_count() / 2; ++i) {
      value.push_back(TRY(EmitElement(e_, *reduces_[r]->operand(i), at)));
    }
  }
  return value;
}

// Vectors [0, main) of a row, kAddedByPairs of them by pairs before one is added to what came
// before: that waits for fewer additions, and rounds less often. What is left comes one by one.
Result<std::vector<Element>> RowReducer::VectorsByPairs(const Index& row, ValueId begin,
                                                        int64_t main, int lanes,
                                                        std::vector<Element> acc) {
  int64_t step = kAddedByPairs * lanes, whole = main - main % step;
  e_.lanes = lanes;
  auto at = [&](ValueId first, int64_t more) {
    return Coord{b_.Add(begin, b_.Add(first, b_.Int(more))), 1, lanes, 0, dims_.length - 1};
  };
  auto body = [&](ValueId first,
                  const KernelBuilder::Carry& so_far) -> Result<KernelBuilder::Carry> {
    std::vector<std::vector<Element>> terms;
    for (int64_t u = 0; u < kAddedByPairs; ++u) {
      terms.push_back(TRY(Terms(At(row, at(first, u * lanes)))));
    }
    for (size_t n = terms.size(); n > 1; n /= 2) {
      for (size_t u = 0; u < n / 2; ++u) {
        terms[u] = TRY(Combine(std::move(terms[2 * u]), terms[2 * u + 1]));
      }
    }
    return Pack(TRY(Combine(Unpack(so_far), terms[0])), lanes);
  };
  acc = Unpack(TRY(EmitSumLoop(b_, {b_.Int(0), b_.Int(whole), step, whole / step}, Pack(acc, lanes),
                               sums_, body)));
  for (int64_t i = whole; i < main; i += lanes) {
    acc = Unpack(Pack(TRY(Accumulate(row, at(b_.Int(i), 0), std::move(acc))), lanes));
  }
  e_.lanes = 1;
  return acc;
}

bool RowReducer::TakesPairs(int64_t vectors) const {
  return cost_ <= kCheapElement && vectors >= 2 * kAddedByPairs && !also_ &&
         std::ranges::all_of(plain_, [](const auto& plain) { return plain.has_value(); }) &&
         std::ranges::find(sums_, true) != sums_.end();
}

Result<std::vector<Element>> RowReducer::Inits() {
  std::vector<Element> inits;
  for (const Instruction* reduce : reduces_) {
    int64_t n = reduce->operand_count() / 2;
    for (int64_t i = 0; i < n; ++i)
      inits.push_back(TRY(EmitElement(e_, *reduce->operand(n + i), Index())));
  }
  return inits;
}

Result<std::vector<Element>> RowReducer::Starts() {
  std::vector<Element> starts = TRY(Inits());
  for (size_t i = 0; i < starts.size(); ++i) {
    if (plain_[i]) {
      starts[i] = {b_.Number(plain_[i]->identity, {program::ComputeType(types_[i]), 1}), -1};
    }
  }
  return starts;
}

std::vector<ValueId> RowReducer::Pack(std::span<const Element> elements, int lanes) {
  std::vector<ValueId> values;
  auto wide = [&](ValueId v) { return b_.type(v).lanes == lanes ? v : b_.Splat(v, lanes); };
  for (const Element& e : elements) {
    values.push_back(wide(e.re));
    if (e.im >= 0) values.push_back(wide(e.im));
  }
  return values;
}

std::vector<Element> RowReducer::Unpack(std::span<const ValueId> values) {
  std::vector<Element> elements;
  size_t k = 0;
  for (DType type : types_) {
    Element& e = elements.emplace_back();
    e.re = values[k++];
    if (IsComplex(type)) e.im = values[k++];
  }
  return elements;
}

Result<std::vector<Element>> RowReducer::Pieces(
    int64_t count, const std::function<Element(const Coord& piece, size_t i)>& load) {
  constexpr int64_t kFewPieces = program::CodeBounds::kCopies;  // written out
  auto add = [&](const Coord& piece, std::vector<Element> acc) {
    std::vector<Element> value;
    for (size_t i = 0; i < types_.size(); ++i) value.push_back(load(piece, i));
    return Combine(std::move(acc), value);
  };
  std::vector<Element> acc = TRY(Inits());
  if (count <= kFewPieces) {
    for (int64_t p = 0; p < count; ++p) acc = TRY(add(ConstantCoord(e_, p), std::move(acc)));
    return acc;
  }
  int lanes = e_.lanes;
  return Unpack(TRY(EmitWideSumLoop(
      b_, {b_.Int(0), b_.Int(count), 1, count}, Pack(acc, lanes), sums_,
      [&](ValueId at, const KernelBuilder::Carry& so_far) -> Result<KernelBuilder::Carry> {
        Coord piece{at, 0, 1, 0, count - 1};
        return Pack(TRY(add(piece, Unpack(so_far))), lanes);
      })));
}

bool RowReducer::AreFlags() const {
  for (size_t i = 0; i < types_.size(); ++i) {
    bool logic = plain_[i] && (plain_[i]->op == Op::kOr || plain_[i]->op == Op::kAnd);
    if (!logic || types_[i] != DType::kPred) return false;
  }
  return true;
}

// One instruction says whether any lane is true, or all are.
std::vector<Element> RowReducer::FoldFlags(std::span<const Element> lanes) {
  std::vector<Element> flags;
  for (size_t i = 0; i < lanes.size(); ++i) {
    bool all = plain_[i]->op == Op::kAnd;
    ValueId v = all ? b_.Emit(Op::kNot, {lanes[i].re}) : lanes[i].re;
    v = b_.Any(v);
    flags.push_back({all ? b_.Emit(Op::kNot, {v}) : v, -1});
  }
  return flags;
}

Result<std::vector<Element>> RowReducer::CombineFlags(std::vector<Element> acc, int lanes,
                                                      const RestOfRow* rest) {
  acc = FoldFlags(acc);
  int64_t at = rest == nullptr ? 0 : rest->from;
  for (int n = lanes / 2; rest != nullptr && n >= 1; n /= 2) {
    if (((rest->to - at) & n) == 0) continue;
    Coord j{b_.Add(rest->begin, b_.Int(at)), n > 1 ? 1 : 0, n, 0, dims_.length - 1};
    e_.lanes = n;
    std::vector<Element> more = TRY(Accumulate(*rest->row, j, TRY(Starts())));
    e_.lanes = 1;
    acc = TRY(Combine(std::move(acc), FoldFlags(Unpack(Pack(more, n)))));
    at += n;
  }
  e_.lanes = 1;
  return acc;
}

// Halves: lane i with lane i + n/2; with those of the rest of the row, where it is as long.
Result<std::vector<Element>> RowReducer::CombineLanes(std::vector<Element> acc, int lanes,
                                                      const RestOfRow* rest) {
  if (lanes > 1 && AreFlags()) return CombineFlags(std::move(acc), lanes, rest);
  int64_t at = rest == nullptr ? 0 : rest->from;
  for (int half = lanes / 2; half >= 1; half /= 2) {
    std::vector<int32_t> low, high;
    for (int i = 0; i < half; ++i) {
      low.push_back(i);
      high.push_back(i + half);
    }
    auto part = [&](ValueId v, std::span<const int32_t> which) {
      return half == 1 ? b_.Extract(v, which[0]) : b_.Shuffle(v, v, which);
    };
    std::vector<Element> a, b;
    for (const Element& e : acc) {
      a.push_back({part(e.re, low), e.im < 0 ? -1 : part(e.im, low)});
      b.push_back({part(e.re, high), e.im < 0 ? -1 : part(e.im, high)});
    }
    e_.lanes = half;
    acc = Unpack(Pack(TRY(Combine(a, b)), half));
    if (rest == nullptr || ((rest->to - at) & half) == 0) continue;
    Coord j{b_.Add(rest->begin, b_.Int(at)), half > 1 ? 1 : 0, half, 0, dims_.length - 1};
    acc = Unpack(Pack(TRY(Accumulate(*rest->row, j, std::move(acc))), half));
    at += half;
  }
  e_.lanes = 1;
  return acc;
}

// Rows made of several dimensions: lanes first, then what does not fill them, within each run of
// the minor dimension.
Result<std::vector<Element>> RowReducer::ByUnits(const Index& row, ValueId begin, int64_t size,
                                                 int lanes, std::vector<Element> acc) {
  using Carry = KernelBuilder::Carry;
  int64_t unit = dims_.reduced_sizes.back();
  Carry wide = Pack(TRY(Starts()), lanes), narrow = Pack(acc, 1), both = wide;
  both.insert(both.end(), narrow.begin(), narrow.end());
  std::vector<bool> sums = sums_;
  sums.insert(sums.end(), sums_.begin(), sums_.end());
  Dims outer_sizes(std::span(dims_.reduced_sizes.data(), dims_.reduced_sizes.size() - 1));
  auto run = [&](ValueId number, const Carry& so_far) -> Result<Carry> {
    Index linear;
    linear.is_linear = true;
    linear.linear = {b_.Add(b_.Div(begin, b_.Int(unit)), number), 0, 1, 0, dims_.length / unit - 1};
    Index outer = Coordinates(e_, outer_sizes, linear);
    outer.coords.push_back({});
    Index index;
    index.coords.resize(dims_.kept.size() + dims_.reduced.size());
    for (size_t k = 0; k < dims_.kept.size(); ++k) {
      index.coords[static_cast<size_t>(dims_.kept[k])] = row.coords[k];
    }
    // Sums begin anew in each run.
    auto within = [&](int64_t from, int64_t to, int n, std::span<const ValueId> before) {
      Carry start(before.begin(), before.end());
      for (size_t i = 0; i < start.size(); ++i) {
        if (sums_[i]) start[i] = b_.Number(-0.0, b_.type(start[i]));
      }
      e_.lanes = n;
      auto after = EmitSumLoop(b_, {b_.Int(from), b_.Int(to), n, (to - from) / n}, start, sums_,
                               [&](ValueId at, const Carry& added) -> Result<Carry> {
                                 outer.coords.back() = {at, n > 1 ? 1 : 0, n, 0, unit - 1};
                                 for (size_t k = 0; k < dims_.reduced.size(); ++k) {
                                   index.coords[static_cast<size_t>(dims_.reduced[k])] =
                                       outer.coords[k];
                                 }
                                 return Pack(TRY(AccumulateAt(index, Unpack(added))), n);
                               });
      e_.lanes = 1;
      return after;
    };
    auto first = std::span(so_far).first(wide.size()),
         second = std::span(so_far).subspan(wide.size());
    Carry next = TRY(within(0, unit - unit % lanes, lanes, first));
    Carry rest = TRY(within(unit - unit % lanes, unit, 1, second));
    next.insert(next.end(), rest.begin(), rest.end());
    for (size_t i = 0; i < next.size(); ++i) {
      if (sums[i]) next[i] = b_.Add(so_far[i], next[i]);
    }
    return next;
  };
  int64_t runs = size / unit;
  Carry after = TRY(EmitSumLoop(b_, {b_.Int(0), b_.Int(runs), 1, runs}, both, sums, run));
  acc = Unpack(std::span(after).subspan(wide.size()));
  return Combine(std::move(acc),
                 TRY(CombineLanes(Unpack(std::span(after).first(wide.size())), lanes)));
}

Result<std::vector<Element>> RowReducer::Row(const Index& row, ValueId begin, int64_t size,
                                             bool partial) {
  // Lanes follow the minor dimension; rows made of several dimensions are cut at it.
  size_t parts = IsInOrder() ? 1 : dims_.reduced.size();
  int64_t unit = dims_.reduced_sizes.empty() ? 1 : dims_.reduced_sizes.back();
  if (parts == 1) unit = dims_.length;
  bool whole_units = parts <= 1 || size % unit == 0;
  int lanes = can_use_lanes_ && dims_.minor ? draft_.LanesFor(width_, std::min(size, unit)) : 1;
  // Runs that do not fill two vectors take narrower ones.
  const bool is_cut = parts > 1 && whole_units;
  while (is_cut && unit % lanes != 0 && unit < 2 * lanes &&
         lanes > program::TargetFacts::kNarrowLanes)
    lanes /= 2;
  bool by_units = is_cut && unit % lanes != 0 && unit >= 2 * lanes;
  if (parts > 1 && !by_units && (unit % lanes != 0 || !whole_units)) lanes = 1;
  int64_t main = lanes > 1 ? size - size % lanes : 0;
  std::vector<Element> acc = partial ? TRY(Starts()) : TRY(Inits());
  auto loop = [&](int64_t from, int64_t to, int n,
                  std::vector<Element> start) -> Result<std::vector<Element>> {
    e_.lanes = n;
    SumRange range{b_.Int(from), b_.Int(to), n, (to - from) / n};
    auto after = TRY(EmitSumLoop(
        b_, range, Pack(start, n), sums_,
        [&](ValueId at, const KernelBuilder::Carry& so_far) -> Result<KernelBuilder::Carry> {
          Coord j{b_.Add(begin, at), n > 1 ? 1 : 0, n, 0, dims_.length - 1};
          return Pack(TRY(Accumulate(row, j, Unpack(so_far))), n);
        }));
    e_.lanes = 1;
    return Unpack(after);
  };
  if (by_units) return ByUnits(row, begin, size, lanes, std::move(acc));
  if (main > 0) {
    std::vector<Element> lanes_acc = TRY(Starts());
    if (main == lanes) {
      e_.lanes = lanes;
      Coord j{begin, 1, lanes, 0, dims_.length - 1};
      lanes_acc = Unpack(Pack(TRY(Accumulate(row, j, std::move(lanes_acc))), lanes));
    } else if (TakesPairs(main / lanes)) {
      lanes_acc = TRY(VectorsByPairs(row, begin, main, lanes, std::move(lanes_acc)));
    } else {
      lanes_acc = TRY(loop(0, main, lanes, std::move(lanes_acc)));
    }
    RestOfRow rest{&row, begin, main, size};
    acc = TRY(Combine(std::move(acc), TRY(CombineLanes(lanes_acc, lanes, &rest))));
  } else if (size > 0) {
    acc = TRY(loop(0, size, 1, std::move(acc)));
  }
  return acc;
}

}  // namespace weft::compiler
