#include "base/digest.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace weft {
namespace {

// Fractional parts of the cube roots of the first 64 primes (FIPS 180-4).
constexpr uint32_t kRoundConstants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

}  // namespace

Digest::Digest()
    : state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19} {}

void Digest::Block(const unsigned char* block) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i) {
    w[i] = uint32_t{block[4 * i]} << 24 | uint32_t{block[4 * i + 1]} << 16 |
           uint32_t{block[4 * i + 2]} << 8 | uint32_t{block[4 * i + 3]};
  }
  for (int i = 16; i < 64; ++i) {
    uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  std::array<uint32_t, 8> s = state_;
  for (int i = 0; i < 64; ++i) {
    uint32_t s1 = std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25);
    uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
    uint32_t t1 = s[7] + s1 + choice + kRoundConstants[i] + w[i];
    uint32_t s0 = std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22);
    uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
    s = {t1 + s0 + majority, s[0], s[1], s[2], s[3] + t1, s[4], s[5], s[6]};
  }
  for (size_t i = 0; i < 8; ++i) state_[i] += s[i];
}

void Digest::Update(std::string_view bytes) {
  total_ += bytes.size();
  while (!bytes.empty()) {
    if (filled_ == 0 && bytes.size() >= 64) {
      Block(reinterpret_cast<const unsigned char*>(bytes.data()));
      bytes.remove_prefix(64);
      continue;
    }
    size_t n = std::min(bytes.size(), pending_.size() - filled_);
    std::memcpy(pending_.data() + filled_, bytes.data(), n);
    filled_ += n;
    bytes.remove_prefix(n);
    if (filled_ == pending_.size()) {
      Block(pending_.data());
      filled_ = 0;
    }
  }
}

std::array<unsigned char, 32> Digest::Finish() {
  uint64_t bits = total_ * 8;
  Update(std::string_view("\x80", 1));
  while (filled_ != 56) Update(std::string_view("\0", 1));
  char length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<char>(bits >> (56 - 8 * i));
  Update(std::string_view(length, 8));
  std::array<unsigned char, 32> out;
  for (size_t i = 0; i < 32; ++i) {
    out[i] = static_cast<unsigned char>(state_[i / 4] >> (24 - 8 * (i % 4)));
  }
  return out;
}

std::string Digest::Raw(std::string_view bytes) {
  Digest digest;
  digest.Update(bytes);
  auto raw = digest.Finish();
  return std::string(reinterpret_cast<const char*>(raw.data()), raw.size());
}

std::string Digest::Hex(std::string_view bytes) {
  return ToHex(Raw(bytes));
}

std::string ToHex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (unsigned char c : bytes) {
    out.push_back(kDigits[c >> 4]);
    out.push_back(kDigits[c & 15]);
  }
  return out;
}

}  // namespace weft
