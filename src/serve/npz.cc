// npz: a zip archive of .npy files. Only what numpy.savez writes: members as they are, zip64 or
// not.
#include <cstring>

#include "serve/weights.h"

namespace weft::serve {
namespace {

constexpr uint32_t kEndSignature = 0x06054b50, kDirectorySignature = 0x02014b50,
                   kLocalSignature = 0x04034b50, kEnd64Signature = 0x06064b50,
                   kLocator64Signature = 0x07064b50;
constexpr size_t kEndSize = 22, kDirectorySize = 46, kLocalSize = 30, kLocator64Size = 20;
constexpr uint32_t kIn64 = 0xffffffff;  // the value is in the zip64 field

// Little-endian numbers at places that may be beyond the end.
class ZipBytes {
 public:
  explicit ZipBytes(std::string_view bytes) : bytes_(bytes) {}
  template <class T>
  Result<T> At(uint64_t offset) const {
    T value;
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) {
      return InvalidArgument("the archive is cut short");
    }
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }
  Result<std::string_view> Piece(uint64_t offset, uint64_t size) const {
    if (offset > bytes_.size() || bytes_.size() - offset < size) {
      return InvalidArgument("the archive is cut short");
    }
    return bytes_.substr(offset, size);
  }
  uint64_t size() const { return bytes_.size(); }
  std::string_view bytes() const { return bytes_; }

 private:
  std::string_view bytes_;
};

struct Directory {
  uint64_t offset = 0, entries = 0;
};

Result<Directory> FindDirectory(const ZipBytes& zip) {
  std::string_view bytes = zip.bytes();
  constexpr std::string_view kSignature("PK\5\6", 4);
  size_t end = bytes.rfind(kSignature);
  if (end == bytes.npos || bytes.size() - end < kEndSize) {
    return InvalidArgument("not an npz file, or cut short: no directory at its end");
  }
  Directory directory{TRY(zip.At<uint32_t>(end + 16)), TRY(zip.At<uint16_t>(end + 10))};
  if (end < kLocator64Size || TRY(zip.At<uint32_t>(end - kLocator64Size)) != kLocator64Signature) {
    return directory;
  }
  uint64_t end64 = TRY(zip.At<uint64_t>(end - kLocator64Size + 8));
  if (TRY(zip.At<uint32_t>(end64)) != kEnd64Signature) {
    return InvalidArgument("the archive's 64-bit directory is not where it should be");
  }
  return Directory{TRY(zip.At<uint64_t>(end64 + 48)), TRY(zip.At<uint64_t>(end64 + 32))};
}

struct Member {
  std::string_view name;
  uint64_t size = 0, packed = 0, local = 0, next = 0;
  uint16_t method = 0;
};

// Sizes and places of more than 32 bits lie in a field of their own, in this order.
Status ReadZip64(const ZipBytes& zip, uint64_t at, uint64_t end, Member& member) {
  while (at + 4 <= end) {
    uint16_t id = TRY(zip.At<uint16_t>(at)), length = TRY(zip.At<uint16_t>(at + 2));
    at += 4;
    if (id == 1) {
      uint64_t place = at;
      for (uint64_t* value : {&member.size, &member.packed, &member.local}) {
        if (*value != kIn64) continue;
        *value = TRY(zip.At<uint64_t>(place));
        place += 8;
      }
      return {};
    }
    at += length;
  }
  return {};
}

Result<Member> ReadMember(const ZipBytes& zip, uint64_t at) {
  if (TRY(zip.At<uint32_t>(at)) != kDirectorySignature) {
    return InvalidArgument("the archive's directory is damaged");
  }
  Member member;
  member.method = TRY(zip.At<uint16_t>(at + 10));
  member.packed = TRY(zip.At<uint32_t>(at + 20));
  member.size = TRY(zip.At<uint32_t>(at + 24));
  uint64_t name = TRY(zip.At<uint16_t>(at + 28)), extra = TRY(zip.At<uint16_t>(at + 30)),
           comment = TRY(zip.At<uint16_t>(at + 32));
  member.local = TRY(zip.At<uint32_t>(at + 42));
  member.name = TRY(zip.Piece(at + kDirectorySize, name));
  uint64_t fields = at + kDirectorySize + name;
  TRY(ReadZip64(zip, fields, fields + extra, member));
  member.next = fields + extra + comment;
  return member;
}

Result<StoredTensor> Locate(const ZipBytes& zip, const Member& member) {
  if (member.method != 0 || member.packed != member.size) {
    Error error(Code::kUnimplemented, "compressed");
    error.Hint("write it with numpy.savez instead of numpy.savez_compressed");
    return std::unexpected(std::move(error));
  }
  if (TRY(zip.At<uint32_t>(member.local)) != kLocalSignature) {
    return InvalidArgument("is not where the archive's directory says");
  }
  uint64_t name = TRY(zip.At<uint16_t>(member.local + 26)),
           extra = TRY(zip.At<uint16_t>(member.local + 28));
  uint64_t begin = member.local + kLocalSize + name + extra;
  TRY(zip.Piece(begin, member.size));
  return StoredTensor{{}, static_cast<int64_t>(begin), static_cast<int64_t>(member.size)};
}

}  // namespace

Result<StoredTensors> ParseNpz(std::string_view file) {
  ZipBytes zip(file);
  Directory directory = TRY(FindDirectory(zip));
  StoredTensors tensors;
  uint64_t at = directory.offset;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    Member member = TRY(ReadMember(zip, at));
    std::string_view name = member.name;
    if (name.ends_with(".npy")) name.remove_suffix(4);
    Result<StoredTensor> tensor = Locate(zip, member);
    if (!tensor) return std::unexpected(tensor.error().Prefix(StrCat("tensor ", name, ": ")));
    if (!tensors.emplace(name, *tensor).second) {
      return InvalidArgument("tensor ", name, ": occurs twice");
    }
    at = member.next;
  }
  return tensors;
}

}  // namespace weft::serve
