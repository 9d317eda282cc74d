#include "archive.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace weft::tools {
namespace {

constexpr size_t kTarBlock = 512;
constexpr size_t kMostStored = 65535;  // bytes of a stored block

// The header of POSIX ustar, by offsets.
struct Field {
  size_t at, size;
};
constexpr Field kName{0, 100}, kMode{100, 8}, kOwner{108, 8}, kGroup{116, 8}, kSize{124, 12},
    kTime{136, 12}, kSum{148, 8}, kType{156, 1}, kMagic{257, 8}, kPrefix{345, 155};

void Put(std::string& header, Field field, std::string_view text) {
  header.replace(field.at, std::min(text.size(), field.size),
                 text.substr(0, std::min(text.size(), field.size)));
}
void PutOctal(std::string& header, Field field, unsigned long long value) {
  char text[24];
  std::snprintf(text, sizeof(text), "%0*llo", static_cast<int>(field.size - 1), value);
  Put(header, field, text);
}

// Names of more than 100 bytes are cut at a slash, the folders go to a field of their own.
void PutName(std::string& header, std::string_view name) {
  if (name.size() > kName.size) {
    size_t slash = name.find('/', name.size() - kName.size - 1);
    if (slash != name.npos && slash <= kPrefix.size) {
      Put(header, kPrefix, name.substr(0, slash));
      name.remove_prefix(slash + 1);
    }
  }
  Put(header, kName, name);
}

std::string TarHeader(const ArchiveFile& file, long long time) {
  std::string header(kTarBlock, '\0');
  PutName(header, file.name);
  PutOctal(header, kMode, 0644);
  PutOctal(header, kOwner, 0);
  PutOctal(header, kGroup, 0);
  PutOctal(header, kSize, file.contents.size());
  PutOctal(header, kTime, static_cast<unsigned long long>(time));
  Put(header, kType, "0");
  Put(header, kMagic, std::string_view("ustar\00000", 8));
  Put(header, kSum, "        ");
  unsigned sum = 0;
  for (char c : header) sum += static_cast<unsigned char>(c);
  PutOctal(header, {kSum.at, kSum.size - 1}, sum);
  return header;
}

uint32_t Crc32(std::string_view bytes) {
  std::array<uint32_t, 256> table;
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t row = i;
    for (int bit = 0; bit < 8; ++bit) row = (row & 1) != 0 ? 0xedb88320u ^ (row >> 1) : row >> 1;
    table[i] = row;
  }
  uint32_t crc = ~0u;
  for (char c : bytes) crc = table[(crc ^ static_cast<unsigned char>(c)) & 255] ^ (crc >> 8);
  return ~crc;
}

void PutLittle(std::string& out, uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 255);
}

std::string Gzip(std::string_view bytes) {
  std::string out("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10);
  for (size_t at = 0;; at += kMostStored) {
    std::string_view block = bytes.substr(at, kMostStored);
    bool last = at + block.size() == bytes.size();
    out += last ? '\1' : '\0';
    PutLittle(out, static_cast<uint32_t>(block.size()), 2);
    PutLittle(out, ~static_cast<uint32_t>(block.size()), 2);
    out += block;
    if (last) break;
  }
  PutLittle(out, Crc32(bytes), 4);
  PutLittle(out, static_cast<uint32_t>(bytes.size()), 4);
  return out;
}

}  // namespace

std::string MakeTarGz(std::span<const ArchiveFile> files, long long seconds_since_1970) {
  std::string tar;
  for (const ArchiveFile& file : files) {
    tar += TarHeader(file, seconds_since_1970);
    tar += file.contents;
    tar.resize((tar.size() + kTarBlock - 1) / kTarBlock * kTarBlock, '\0');
  }
  tar.append(2 * kTarBlock, '\0');
  return Gzip(tar);
}

}  // namespace weft::tools
