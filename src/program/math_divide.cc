// Division by an invariant (strength reduction): two multiplications instead of a division.
//
// 1/c is kept as high + low, both of c's sign, and x/c computed as fma(x, high, x * low). Before
// the last rounding that is off by less than 2^(2 - 2p) of x/c (p bits of mantissa), so that the
// result is the correctly rounded quotient unless x/c lies as close as that to the middle between
// two numbers. With mantissas as integers, X * 2^k / C is that close to a middle N only if
// |X * 2^k - N * C| is a small number r; which X these are follows from r and C, and all of them
// are tried. Signs of zeros, infinities and NaNs come out as those of a division. Quotients so
// small that x * low is subnormal may be off by one in the last place.
#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <vector>

#include "program/math.h"

namespace weft::program::math {
namespace {

__extension__ using Wide = unsigned __int128;

template <class T>
struct Reciprocal {
  T high, low;
  T Quotient(T x) const { return std::fma(x, high, x * low); }
};

// Towards zero, and the rest; none for powers of two, whose quotients are products.
template <class T>
std::optional<Reciprocal<T>> ReciprocalOf(T c) {
  T high = 1 / c, rest = std::fma(-high, c, T{1});
  if (rest < 0) {
    high = std::nextafter(high, T{0});
    rest = std::fma(-high, c, T{1});
  }
  if (!(rest > 0)) return std::nullopt;
  return Reciprocal<T>{high, rest / c};
}

// The inverse of an odd number modulo 2^64.
uint64_t InverseOf(uint64_t odd) {
  uint64_t inverse = odd;  // right in the last three bits; each step doubles them
  for (int i = 0; i < 5; ++i) inverse *= 2 - odd * inverse;
  return inverse;
}

// Whether quotients by C, the mantissa of the divisor as an integer, are right for all X.
template <class T>
bool IsRightForAll(const Reciprocal<T>& reciprocal, uint64_t c, int bits) {
  constexpr int kCloseTo = 16;  // twice what the error makes necessary
  int twos = std::countr_zero(c);
  uint64_t first = uint64_t{1} << (bits - 1), inverse = InverseOf(c >> twos);
  for (int k = bits; k <= bits + 1; ++k) {  // quotients from 1 on, and those below
    for (int r = -kCloseTo; r <= kCloseTo; ++r) {
      if (r == 0 || (r & ((1 << std::min(twos, 5)) - 1)) != 0 || twos > 4) continue;
      // N * C = X * 2^k - r, so that N is known but for its leading bits.
      uint64_t mask = (uint64_t{1} << (k - twos)) - 1;
      uint64_t n = (static_cast<uint64_t>(-(int64_t{r} >> twos)) * inverse) & mask;
      for (; n < 4 * first; n += mask + 1) {
        if (n < 2 * first) continue;
        Wide product = static_cast<Wide>(n) * c + static_cast<Wide>(static_cast<int64_t>(r));
        uint64_t x = static_cast<uint64_t>(product >> k);
        if (x < first || x >= 2 * first) continue;
        T numerator = static_cast<T>(x), divisor = static_cast<T>(c);
        if (reciprocal.Quotient(numerator) != numerator / divisor) return false;
      }
    }
  }
  return true;
}

template <class T>
std::optional<Reciprocal<T>> CheckedReciprocal(T c, int bits, int exponents) {
  int exponent = 0;
  T fraction = std::frexp(std::abs(c), &exponent);
  if (!std::isfinite(c) || c == 0 || std::abs(exponent) > exponents) return std::nullopt;
  T whole = std::ldexp(fraction, bits);  // the mantissa as an integer
  auto unit = ReciprocalOf(whole);
  if (!unit || !IsRightForAll(*unit, static_cast<uint64_t>(whole), bits)) return std::nullopt;
  int scale = bits - exponent;
  T sign = c < 0 ? T{-1} : T{1};
  return Reciprocal<T>{sign * std::ldexp(unit->high, scale), sign * std::ldexp(unit->low, scale)};
}

}  // namespace

ValueId DivideByNumber(KernelBuilder& b, ValueId x, double divisor) {
  Type type = b.type(x);
  auto quotient = [&](double high, double low) {
    return b.Fma(x, b.Float(high, type), b.Mul(x, b.Float(low, type)));
  };
  if (type.dtype == DType::kF32) {
    if (auto r = CheckedReciprocal(static_cast<float>(divisor), 24, 60)) {
      return quotient(r->high, r->low);
    }
  } else if (auto r = CheckedReciprocal(divisor, 53, 500)) {
    return quotient(r->high, r->low);
  }
  return b.Div(x, b.Float(divisor, type));
}

ValueId LaneNumbers(KernelBuilder& b, std::span<const double> numbers, DType dtype) {
  Type type{dtype, static_cast<int>(numbers.size())};
  ValueId result = b.Number(numbers[0], type);
  std::vector<double> done = {numbers[0]};
  for (double number : numbers) {
    // By their bits, so that -0 and NaN are numbers like others.
    auto same = [&](double x) {
      return std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(number);
    };
    if (std::any_of(done.begin(), done.end(), same)) continue;
    done.push_back(number);
    std::vector<int32_t> from;
    for (int32_t lane = 0; lane < type.lanes; ++lane) {
      from.push_back(same(numbers[static_cast<size_t>(lane)]) ? type.lanes + lane : lane);
    }
    result = b.Shuffle(result, b.Number(number, type), from);
  }
  return result;
}

ValueId DivideByNumbers(KernelBuilder& b, ValueId x, std::span<const double> divisors) {
  DType dtype = b.type(x).dtype;
  std::vector<double> high, low;
  for (double divisor : divisors) {
    if (dtype == DType::kF32) {
      auto r = CheckedReciprocal(static_cast<float>(divisor), 24, 60);
      if (!r) break;
      high.push_back(r->high);
      low.push_back(r->low);
    } else {
      auto r = CheckedReciprocal(divisor, 53, 500);
      if (!r) break;
      high.push_back(r->high);
      low.push_back(r->low);
    }
  }
  if (high.size() != divisors.size()) return b.Div(x, LaneNumbers(b, divisors, dtype));
  return b.Fma(x, LaneNumbers(b, high, dtype), b.Mul(x, LaneNumbers(b, low, dtype)));
}

}  // namespace weft::program::math
