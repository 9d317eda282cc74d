// Rules of simplify about concatenate.
#include <algorithm>
#include <cmath>
#include <complex>

#include "compiler/passes/simplify/simplify_rules.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Op;
using hlo::SliceDims;

Result<Instruction*> Concatenate(Builder& b, std::span<Instruction* const> parts, int64_t along) {
  if (parts.size() == 1) return parts[0];
  return b.Add(Op::kConcatenate, parts, hlo::DimensionsAttrs{.dimensions = {along}});
}

// Adjacent stride-1 slices of one array: the slice that takes both; nullopt: they are not that.
std::optional<SliceDims> JoinSlices(const Instruction& x, const Instruction& y, size_t along) {
  if (x.op() != Op::kSlice || y.op() != Op::kSlice || x.operand(0) != y.operand(0)) {
    return std::nullopt;
  }
  const SliceDims &a = x.attrs<hlo::SliceAttrs>().slice, &z = y.attrs<hlo::SliceAttrs>().slice;
  for (size_t d = 0; d < a.size(); ++d) {
    if (d == along ? a[d].limit != z[d].start || a[d].stride != 1 || z[d].stride != 1
                   : a[d] != z[d]) {
      return std::nullopt;
    }
  }
  SliceDims both = a;
  both[along].limit = z[along].limit;
  return both;
}

// Both are filled with the same scalar.
bool AreSameFill(Instruction& x, Instruction& y) {
  Instruction *a = FillScalar(x), *z = FillScalar(y);
  if (a == nullptr || z == nullptr || a == &x || z == &y) return false;
  const Literal *left = SplatValue(*a), *right = SplatValue(*z);
  return a == z || (left != nullptr && right != nullptr && *left == *right);
}

// One part in the place of two neighbours; null: they do not go together.
Result<Instruction*> JoinParts(Builder& b, Instruction* x, Instruction* y, int64_t along) {
  if (std::optional<SliceDims> slice = JoinSlices(*x, *y, static_cast<size_t>(along))) {
    return b.Add(Op::kSlice, {x->operand(0)}, hlo::SliceAttrs{.slice = *std::move(slice)});
  }
  if (!AreSameFill(*x, *y)) return nullptr;
  Shape shape = WithoutLayoutOf(x->shape());
  shape.set_dim(along, shape.dim(along) + y->shape().dim(along));
  return FillWith(b, FillScalar(*x), shape);
}

int64_t ConcatenatedDim(const Instruction& i) {
  return i.attrs<hlo::DimensionsAttrs>().dimensions[0];
}

// A concatenation along the same dimension that only this one reads, once.
bool IsNested(const Instruction& x, const Instruction& i) {
  if (x.op() != Op::kConcatenate || !IsReadOnce(x) || ConcatenatedDim(x) != ConcatenatedDim(i)) {
    return false;
  }
  auto readers = x.users()[0]->operands();
  for (const Instruction* inner : x.operands()) {
    if (!IsStaticArray(*inner) || inner->shape().dtype() != i.shape().dtype()) return false;
  }
  return std::count(readers.begin(), readers.end(), &x) == 1;
}

// Its user will take in its operands: those of a tree or chain are gathered once, at the root.
bool WillBeFlattened(const Instruction& i) {
  if (!IsReadOnce(i)) return false;
  const Instruction& user = *i.users()[0];
  return user.op() == Op::kConcatenate && IsStaticArray(user) &&
         user.shape().dtype() == i.shape().dtype() && IsNested(i, user);
}

// The operands, those of nested concatenations instead of these, those without elements left out.
std::vector<Instruction*> FlatParts(const Instruction& i) {
  std::vector<Instruction*> parts, stack(i.operands().rbegin(), i.operands().rend());
  bool flatten = !WillBeFlattened(i);
  while (!stack.empty()) {
    Instruction* x = stack.back();
    stack.pop_back();
    if (x->shape().elements() == 0) continue;
    if (flatten && IsNested(*x, i)) {
      stack.insert(stack.end(), x->operands().rbegin(), x->operands().rend());
    } else {
      parts.push_back(x);
    }
  }
  return parts;
}

// The dimension along which two pads leave every second place to the other one, the first place to
// the first; -1: they are others.
int64_t InterleavedDim(const Instruction& x, const Instruction& y) {
  const auto &a = x.attrs<hlo::PadAttrs>().padding, &z = y.attrs<hlo::PadAttrs>().padding;
  int64_t along = -1;
  for (size_t d = 0; d < a.size(); ++d) {
    if (a[d] == hlo::PaddingDim() && z[d] == hlo::PaddingDim()) continue;
    int64_t dim = static_cast<int64_t>(d);
    int64_t more = x.operand(0)->shape().dim(dim) - y.operand(0)->shape().dim(dim);
    bool fits = a[d] == hlo::PaddingDim{0, 1 - more, 1} && z[d] == hlo::PaddingDim{1, more, 1};
    if (along >= 0 || !fits || more < 0 || more > 1) return -1;
    along = dim;
  }
  return along;
}

// Zero, and of floats the one that is no -0.
bool IsPlainZero(const Literal& value) {
  std::complex<double> zero = value.GetComplex(0);
  return zero == 0.0 && !std::signbit(zero.real()) && !std::signbit(zero.imag());
}

// pad(x, 0) + pad(y, 0), each with holes where the other has elements, as associative_scan writes
// it, is x and y interleaved: columns of a matrix of two, plus the zeroes, which -0 is not.
Result<Instruction*> InterleavePads(Instruction& i, Builder& b) {
  Instruction *x = i.operand(0), *y = i.operand(1);
  if (x->op() != Op::kPad || y->op() != Op::kPad || !IsStaticArray(i)) return nullptr;
  if (!IsStaticArray(*x->operand(0)) || !IsStaticArray(*y->operand(0))) return nullptr;
  for (const Instruction* pad : {x, y}) {
    const Literal* value = SplatValue(*pad->operand(1));
    if (value == nullptr || !IsPlainZero(*value)) return nullptr;
  }
  int64_t along = InterleavedDim(*x, *y);
  if (along < 0) std::swap(x, y), along = InterleavedDim(*x, *y);
  if (along < 0 || y->operand(0)->shape().elements() == 0) return nullptr;
  Instruction *first = x->operand(0), *second = y->operand(0), *last = nullptr;
  const int64_t pairs = second->shape().dim(along);
  if (first->shape().dim(along) != pairs) {
    SliceDims all;
    for (int64_t size : first->shape().dims()) all.push_back({.start = 0, .limit = size});
    SliceDims end = all;
    all[static_cast<size_t>(along)].limit = end[static_cast<size_t>(along)].start = pairs;
    last = TRY(b.Add(Op::kSlice, {first}, hlo::SliceAttrs{.slice = end}));
    first = TRY(b.Add(Op::kSlice, {first}, hlo::SliceAttrs{.slice = all}));
  }
  Dims flat = second->shape().dims();
  hlo::Ints split(flat.begin(), flat.end());
  split.insert(split.begin() + along + 1, 1);
  flat[static_cast<size_t>(along)] *= 2;
  Instruction* columns[] = {TRY(b.Reshape(first, split)), TRY(b.Reshape(second, split))};
  Instruction* both = TRY(Concatenate(b, columns, along + 1));
  auto add_zeroes = [&](Instruction* value) -> Result<Instruction*> {
    if (i.op() == Op::kOr || IsInteger(i.shape().dtype())) return value;
    return b.Add(Op::kAdd, {value, TRY(b.Broadcast(x->operand(1), value->shape(), {}))});
  };
  both = TRY(b.Reshape(TRY(add_zeroes(both)), flat));
  if (last == nullptr) return both;
  Instruction* parts[] = {both, TRY(add_zeroes(last))};
  return Concatenate(b, parts, along);
}

}  // namespace

// concatenate(a, none, b) = concatenate(a, b);  concatenate(concatenate(a, b), c) =
// concatenate(a, b, c);  slices of one array, and fills, that lie side by side are one
Result<Instruction*> SimplifyConcatenation(Instruction& i, Builder& b) {
  if (i.op() == Op::kAdd || i.op() == Op::kOr) return InterleavePads(i, b);
  if (i.op() != Op::kConcatenate || !IsStaticArray(i) || i.shape().elements() == 0) return nullptr;
  for (const Instruction* x : i.operands()) {
    if (!IsStaticArray(*x) || x->shape().dtype() != i.shape().dtype()) return nullptr;
  }
  int64_t along = ConcatenatedDim(i);
  std::vector<Instruction*> parts = FlatParts(i), joined;
  for (Instruction* x : parts) {
    Instruction* both = joined.empty() ? nullptr : TRY(JoinParts(b, joined.back(), x, along));
    if (both == nullptr) {
      joined.push_back(x);
    } else {
      joined.back() = both;
    }
  }
  auto old = i.operands();
  if (std::equal(joined.begin(), joined.end(), old.begin(), old.end())) return nullptr;
  return Concatenate(b, joined, along);
}

}  // namespace weft::compiler
