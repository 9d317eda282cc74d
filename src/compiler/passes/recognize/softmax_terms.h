// Functions of exponentials E along keys, as sums of terms: coefficient * E^e G^g L^l D^d with L
// the sum of E over keys, G another array of the same shape and D the sum of E G / L. However a
// derivative of softmax is written, it is one such sum.
#pragma once

#include <optional>
#include <vector>

namespace weft::compiler {

struct SoftmaxTerm {
  double coefficient = 1;
  int e = 0, g = 0, l = 0, d = 0;
};
using SoftmaxTerms = std::vector<SoftmaxTerm>;

SoftmaxTerms SumOf(SoftmaxTerms a, const SoftmaxTerms& b, double factor_of_b);
SoftmaxTerms ProductOf(const SoftmaxTerms& a, const SoftmaxTerms& b);
// Nothing where the denominator is more than a power of L.
std::optional<SoftmaxTerms> QuotientOf(const SoftmaxTerms& a, const SoftmaxTerms& b);
// The sum over keys, where it is one of those that have a name.
std::optional<SoftmaxTerms> SumOverKeys(const SoftmaxTerms& a);

bool AreWeights(const SoftmaxTerms& a);  // E / L
// The c of c * W (G - D); nothing: it is something else.
std::optional<double> ScaleOfGradient(const SoftmaxTerms& a);

}  // namespace weft::compiler
