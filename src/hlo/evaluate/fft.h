// Discrete Fourier transforms of any length in double precision: mixed radix for lengths whose
// prime factors are small, Bluestein's chirp for the others.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

namespace weft::hlo {

// Transforms in place every line of n elements that are `stride` apart; data is [outer][n][stride].
// The inverse divides by n.
void TransformDimension(std::vector<std::complex<double>>& data, int64_t n, int64_t stride,
                        bool inverse);

// Fills coefficients n/2+1 .. n-1 from the first half, as they are for real values: the conjugates.
void MirrorSpectrum(std::complex<double>* row, int64_t n);

}  // namespace weft::hlo
