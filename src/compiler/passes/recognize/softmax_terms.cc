#include "compiler/passes/recognize/softmax_terms.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace weft::compiler {
namespace {

auto PowersOf(const SoftmaxTerm& t) {
  return std::tuple(t.e, t.g, t.l, t.d);
}

void AddTerm(SoftmaxTerms& to, const SoftmaxTerm& term) {
  auto same = std::find_if(to.begin(), to.end(),
                           [&](const SoftmaxTerm& t) { return PowersOf(t) == PowersOf(term); });
  if (same == to.end()) {
    to.push_back(term);
  } else {
    same->coefficient += term.coefficient;
  }
  std::erase_if(to, [](const SoftmaxTerm& t) { return t.coefficient == 0; });
}

// Coefficients are rounded to f32 where they are written.
bool IsNear(double a, double b) {
  return std::abs(a - b) <= 1e-6 * std::abs(b);
}

}  // namespace

SoftmaxTerms SumOf(SoftmaxTerms a, const SoftmaxTerms& b, double factor_of_b) {
  for (SoftmaxTerm term : b) {
    term.coefficient *= factor_of_b;
    AddTerm(a, term);
  }
  return a;
}

SoftmaxTerms ProductOf(const SoftmaxTerms& a, const SoftmaxTerms& b) {
  SoftmaxTerms result;
  for (const SoftmaxTerm& x : a) {
    for (const SoftmaxTerm& y : b) {
      AddTerm(result, {x.coefficient * y.coefficient, x.e + y.e, x.g + y.g, x.l + y.l, x.d + y.d});
    }
  }
  return result;
}

std::optional<SoftmaxTerms> QuotientOf(const SoftmaxTerms& a, const SoftmaxTerms& b) {
  if (b.size() != 1 || b[0].e != 0 || b[0].g != 0 || b[0].d != 0) return std::nullopt;
  return ProductOf(a, {{1 / b[0].coefficient, 0, 0, -b[0].l, 0}});
}

std::optional<SoftmaxTerms> SumOverKeys(const SoftmaxTerms& a) {
  SoftmaxTerms result;
  for (const SoftmaxTerm& t : a) {
    if (t.e != 1 || t.g < 0 || t.g > 1) return std::nullopt;
    AddTerm(result, {t.coefficient, 0, 0, t.l + 1, t.d + t.g});
  }
  return result;
}

bool AreWeights(const SoftmaxTerms& a) {
  return a.size() == 1 && PowersOf(a[0]) == std::tuple(1, 0, -1, 0) && a[0].coefficient == 1;
}

std::optional<double> ScaleOfGradient(const SoftmaxTerms& a) {
  if (a.size() != 2) return std::nullopt;
  int first = a[0].g == 1 ? 0 : 1;
  const SoftmaxTerm &product = a[first], &sum = a[1 - first];
  bool good = PowersOf(product) == std::tuple(1, 1, -1, 0) &&
              PowersOf(sum) == std::tuple(1, 0, -1, 1) &&
              IsNear(-sum.coefficient, product.coefficient);
  if (!good) return std::nullopt;
  return product.coefficient;
}

}  // namespace weft::compiler
