#include "program/math_values.h"

namespace weft::program::math::detail {

V::V(KernelBuilder* b, ValueId id) : b(b), node_(std::make_shared<Node>()) {
  node_->type = b->type(id);
  node_->id = id;
}
V::V(Type type, Op op, std::initializer_list<V> args)
    : b(args.begin()->b), node_(std::make_shared<Node>()) {
  node_->type = type;
  node_->op = op;
  node_->args = args;
}
V::V(const V&) = default;
V::V(V&&) noexcept = default;
V& V::operator=(const V&) = default;
V& V::operator=(V&&) noexcept = default;
V::~V() = default;

V V::Const(double value) const {
  return Of(b->Number(value, type()));
}
V V::Int(int64_t value) const {
  return Of(b->Int(value, type()));
}

ValueId V::id() const {
  if (node_->id >= 0) return node_->id;
  ValueId args[3] = {};
  for (size_t i = 0; i < node_->args.size(); ++i) args[i] = node_->args[i].id();
  switch (node_->args.size()) {
    case 1:
      if (node_->op == Op::kCast) {
        node_->id = b->Cast(args[0], type().dtype);
      } else if (node_->op == Op::kBitcast) {
        node_->id = b->Bitcast(args[0], type().dtype);
      } else {
        node_->id = b->Emit(node_->op, {args[0]});
      }
      break;
    case 2: node_->id = b->Emit(node_->op, {args[0], args[1]}); break;
    default: node_->id = b->Emit(node_->op, {args[0], args[1], args[2]});
  }
  return node_->id;
}

V WithSign(V magnitude, V sign) {
  V bits = Bits(sign);
  return FromBits(Bits(magnitude) | (bits & SignBit(bits)));
}

Pair TwoSum(V a, V b) {
  V sum = a + b;
  V of_b = sum - a;
  return {sum, (a - (sum - of_b)) + (b - of_b)};
}

Pair FastTwoSum(V a, V b) {
  V sum = a + b;
  return {sum, (a - sum) + b};
}

namespace {

// A polynomial in x as one of at most three terms in a power of x.
struct FewTerms {
  std::vector<V> terms;
  V power;
};
FewTerms ByEstrin(V x, V square, std::span<const double> c) {
  std::vector<V> terms;
  for (size_t i = 0; i < c.size(); i += 2) {
    terms.push_back(i + 1 < c.size() ? Fma(x, c[i + 1], c[i]) : x.Const(c[i]));
  }
  V power = square;
  while (terms.size() > 3) {
    std::vector<V> next;
    for (size_t i = 0; i < terms.size(); i += 2) {
      next.push_back(i + 1 < terms.size() ? Fma(terms[i + 1], power, terms[i]) : terms[i]);
    }
    terms = std::move(next);
    power = power * power;
  }
  return {std::move(terms), power};
}

}  // namespace

V Poly(V x, V square, std::span<const double> c) {
  if (c.size() == 3) return Fma(x, Fma(x, c[2], c[1]), c[0]);
  auto [terms, power] = ByEstrin(x, square, c);
  V sum = terms.back();
  for (size_t i = terms.size() - 1; i-- > 0;) sum = Fma(sum, power, terms[i]);
  return sum;
}

V PolySum(V base, V factor, V x, V square, std::span<const double> c) {
  auto [terms, power] = ByEstrin(x, square, c);
  V sum = Fma(factor, terms[0], base);
  if (terms.size() == 1) return sum;
  V rest = terms.size() == 2 ? terms[1] : Fma(terms[2], power, terms[1]);
  return Fma(factor * power, rest, sum);
}

V Poly(V x, std::span<const double> c) {
  return Poly(x, c.size() > 3 ? x * x : x, c);
}

}  // namespace weft::program::math::detail
