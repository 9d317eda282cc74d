#include "base/counter_random.h"

#include <bit>

namespace weft {

std::array<uint32_t, 2> Threefry2x32(std::array<uint32_t, 2> counter, std::array<uint32_t, 2> key) {
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const uint32_t keys[3] = {key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDAu};
  uint32_t x = counter[0] + keys[0], y = counter[1] + keys[1];
  for (uint32_t round = 0; round < 5; ++round) {
    for (int rotation : kRotations[round % 2]) {
      x += y;
      y = std::rotl(y, rotation) ^ x;
    }
    x += keys[(round + 1) % 3];
    y += keys[(round + 2) % 3] + round + 1;
  }
  return {x, y};
}

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> c, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t p = uint64_t{c[0]} * 0xD2511F53u, q = uint64_t{c[2]} * 0xCD9E8D57u;
    c = {static_cast<uint32_t>(q >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(q),
         static_cast<uint32_t>(p >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(p)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return c;
}

}  // namespace weft
