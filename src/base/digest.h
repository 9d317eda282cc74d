// SHA-256, for checksums and for names of cached files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

class Digest {
 public:
  Digest();
  void Update(std::string_view bytes);
  void Update(const void* data, size_t size) {
    Update(std::string_view(static_cast<const char*>(data), size));
  }
  std::array<unsigned char, 32> Finish();  // once
  static std::string Hex(std::string_view bytes);
  static std::string Raw(std::string_view bytes);  // 32 bytes

 private:
  void Block(const unsigned char* block);
  std::array<uint32_t, 8> state_;
  std::array<unsigned char, 64> pending_;
  size_t filled_ = 0;
  uint64_t total_ = 0;
};

std::string ToHex(std::string_view bytes);

}  // namespace weft
