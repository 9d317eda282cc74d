// fft, slowly: sums of products, a prime factor of the length at a time.
#include <algorithm>
#include <complex>
#include <numbers>

#include "base/elements.h"
#include "program/library_routines.h"

namespace weft::program {
namespace {

using Complex = std::complex<double>;

struct FftForm {
  std::string_view type;
  std::vector<int64_t> lengths;
  int64_t batch;
  bool inverse;
  int64_t in_last, out_last;  // elements of the last dimension

  int64_t rows() const {  // of the last dimension, in all
    int64_t n = batch;
    for (size_t i = 0; i + 1 < lengths.size(); ++i) n = n < 0 ? -1 : Product({n, lengths[i]});
    return n;
  }
};

FftForm FftFormOf(const LibraryStep& call) {
  FftForm form;
  form.type = StringAttr(call, "type", "");
  if (const std::vector<int64_t>* lengths = IntsAttr(call, "lengths")) form.lengths = *lengths;
  form.batch = IntAttr(call, "batch", 1);
  form.inverse = form.type == "ifft" || form.type == "irfft";
  int64_t last = form.lengths.empty() ? 0 : form.lengths.back(), half = last / 2 + (last > 0);
  form.in_last = form.type == "irfft" ? half : last;
  form.out_last = form.type == "rfft" ? half : last;
  return form;
}

Status VerifyFft(const Program& program, const Step& step) {
  TRY(CheckAccess(step, {Access::kRead, Access::kWrite}, "fft", "(read x, write y)"));
  FftForm form = FftFormOf(std::get<LibraryStep>(step.op));
  if (form.lengths.empty() || form.lengths.size() > 3) {
    return InvalidArgument("fft: transforms 1 to 3 dimensions, not ", form.lengths.size());
  }
  DType in = DTypeOf(program, step.uses[0]), out = DTypeOf(program, step.uses[1]);
  bool good = false;
  if (form.type == "fft" || form.type == "ifft") good = IsComplex(in) && in == out;
  if (form.type == "rfft") good = IsComplex(out) && in == RealType(out);
  if (form.type == "irfft") good = IsComplex(in) && out == RealType(in);
  if (!good) {
    return InvalidArgument("fft: type '", form.type, "' from ", weft::Name(in), " to ",
                           weft::Name(out));
  }
  TRY(CheckElements(program, step.uses[0], Product({form.rows(), form.in_last}), "fft", "x"));
  return CheckElements(program, step.uses[1], Product({form.rows(), form.out_last}), "fft", "y");
}

// The transform of n elements `stride` apart, whose roots are exp(-+2 pi i k / n) = roots[k *
// step].
std::vector<Complex> Transformed(const Complex* x, int64_t stride, int64_t n,
                                 const std::vector<Complex>& roots, int64_t step) {
  if (n == 1) return {x[0]};
  int64_t p = 2;
  while (n % p != 0) p = p * p > n ? n : p + 1;
  int64_t m = n / p;
  std::vector<std::vector<Complex>> parts;
  for (int64_t q = 0; q < p; ++q) {
    parts.push_back(Transformed(x + q * stride, stride * p, m, roots, step * p));
  }
  std::vector<Complex> y(static_cast<size_t>(n));
  for (int64_t k = 0; k < n; ++k) {
    for (int64_t q = 0; q < p; ++q) y[k] += parts[q][k % m] * roots[q * k % n * step];
  }
  return y;
}

// Dimension of size n, whose elements are `stride` apart, of all data.
void TransformAlong(std::vector<Complex>& data, int64_t n, int64_t stride, bool inverse) {
  std::vector<Complex> roots(static_cast<size_t>(n));
  for (int64_t k = 0; k < n; ++k) {
    double angle = 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
    roots[k] = std::polar(1.0, inverse ? angle : -angle);
  }
  for (int64_t line = 0; line < static_cast<int64_t>(data.size()) / n; ++line) {
    Complex* at = data.data() + line / stride * n * stride + line % stride;
    std::vector<Complex> y = Transformed(at, stride, n, roots, 1);
    for (int64_t k = 0; k < n; ++k) {
      at[k * stride] = inverse ? y[k] / static_cast<double>(n) : y[k];
    }
  }
}

Status InterpretFft(const Program& program, const Step& step, int64_t,
                    std::span<const std::span<std::byte>> memory) {
  FftForm form = FftFormOf(std::get<LibraryStep>(step.op));
  DType in = DTypeOf(program, step.uses[0]), out = DTypeOf(program, step.uses[1]);
  int64_t last = form.lengths.back(), rows = form.rows();
  if (rows * last == 0) return {};
  std::vector<Complex> data(static_cast<size_t>(rows * last));
  for (int64_t r = 0; r < rows; ++r) {
    LoadC128(in, memory[0].data() + r * form.in_last * ByteWidth(in), form.in_last,
             data.data() + r * last);
  }
  int64_t stride = last;
  for (size_t d = form.lengths.size() - 1; d-- > 0;) {
    TransformAlong(data, form.lengths[d], stride, form.inverse);
    stride *= form.lengths[d];
  }
  for (int64_t r = 0; r < rows && form.type == "irfft"; ++r) {
    Complex* row = data.data() + r * last;
    row[0] = row[0].real();
    if (last % 2 == 0) row[last / 2] = row[last / 2].real();
    for (int64_t k = last / 2 + 1; k < last; ++k) row[k] = std::conj(row[last - k]);
  }
  TransformAlong(data, last, 1, form.inverse);
  for (int64_t r = 0; r < rows; ++r) {
    StoreC128(out, data.data() + r * last, form.out_last,
              memory[1].data() + r * form.out_last * ByteWidth(out));
  }
  return {};
}

int64_t FftCost(const Program&, const Step& step) {
  FftForm form = FftFormOf(std::get<LibraryStep>(step.op));
  if (step.uses[0].slice.size == 0) return 1;
  int64_t primes = 1;
  for (int64_t n : form.lengths) {
    for (int64_t p = 2; n > 1; ++p) {
      if (p * p > n) p = n;
      while (n % p == 0) primes += p, n /= p;
    }
  }
  return SaturatingCost({form.rows(), form.lengths.back(), primes});
}

}  // namespace

Routine FftRoutine() {
  return {"fft", VerifyFft, FftCost, InterpretFft};
}

}  // namespace weft::program
