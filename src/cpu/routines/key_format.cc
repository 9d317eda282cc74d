#include "cpu/routines/key_format.h"

#include <bit>

#include "base/elements.h"

namespace weft::cpu {
namespace {

template <class Bits>
KeyOrder<Bits> OrderOf(DType dtype, bool descending, bool zeros_equal, bool nans_equal) {
  KeyOrder<Bits> order;
  int bits = static_cast<int>(ByteWidth(dtype)) * 8;
  Bits sign = Bits{1} << (bits - 1), all = sign | (sign - 1), flip = descending ? all : 0;
  bool has_sign = IsSigned(dtype) || IsFloat(dtype);
  order.plain = {sign, (has_sign ? sign : 0) ^ flip,
                 (IsFloat(dtype) ? all
                  : has_sign     ? sign
                                 : 0) ^
                     flip};
  if (!IsFloat(dtype)) return order;
  if (zeros_equal) order.zero_mask = 0;
  if (nans_equal) order.nan_mask = 0;
  int mantissa = 7;  // bf16
  if (dtype == DType::kF64) mantissa = 52;
  if (dtype == DType::kF32) mantissa = 23;
  if (dtype == DType::kF16) mantissa = 10;
  order.infinity = (sign - 1) >> mantissa << mantissa;
  return order;
}

}  // namespace

KeyFormat FormatOf(DType dtype, bool descending, bool zeros_equal, bool nans_equal) {
  KeyFormat format;
  format.width = static_cast<int>(ByteWidth(dtype));
  if (format.is_wide()) {
    format.wide = OrderOf<uint64_t>(dtype, descending, zeros_equal, nans_equal);
    return format;
  }
  if (!IsFloat(dtype) || format.width > 1) {
    format.narrow = OrderOf<uint32_t>(dtype, descending, zeros_equal, nans_equal);
    return format;
  }
  auto order = OrderOf<uint32_t>(DType::kF32, descending, zeros_equal, nans_equal);
  for (int i = 0; i < 256; ++i) {
    std::byte byte{static_cast<uint8_t>(i)};
    float value;
    LoadF32(dtype, &byte, 1, &value);
    format.table.push_back(order(std::bit_cast<uint32_t>(value)));
  }
  return format;
}

}  // namespace weft::cpu
