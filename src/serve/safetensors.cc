// safetensors: u64 length of the header, JSON {name: {dtype, shape, data_offsets}}, bytes.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "serve/json.h"
#include "serve/types.h"
#include "serve/weights.h"

namespace weft::serve {
namespace {

constexpr uint64_t kMaxHeader = 100'000'000;  // bytes, as the format's own readers have it
constexpr int64_t kMaxTensorRank = 64;

struct HeaderEntry {
  std::string dtype;
  std::vector<int64_t> dims, offsets;
};

Result<std::vector<int64_t>> ReadSizes(JsonReader& json, int64_t most) {
  std::vector<int64_t> sizes;
  TRY(json.BeginArray());
  while (TRY(json.NextElement())) {
    int64_t size = TRY(json.Int());
    if (size < 0) return json.Fail("a negative size");
    if (static_cast<int64_t>(sizes.size()) >= most) return json.Fail("more than ", most, " sizes");
    sizes.push_back(size);
  }
  return sizes;
}

Result<HeaderEntry> ReadEntry(JsonReader& json) {
  HeaderEntry entry;
  std::string key;
  TRY(json.BeginObject());
  while (TRY(json.NextKey(key))) {
    if (key == "dtype") {
      entry.dtype = TRY(json.String());
    } else if (key == "shape") {
      entry.dims = TRY(ReadSizes(json, kMaxTensorRank));
    } else if (key == "data_offsets") {
      entry.offsets = TRY(ReadSizes(json, 2));
    } else {
      TRY(json.Skip());
    }
  }
  return entry;
}

// Types that the format has and we do not are only an error for whoever wants the tensor.
Result<StoredTensor> Check(const HeaderEntry& entry, int64_t begin, int64_t available) {
  if (entry.offsets.size() != 2 || entry.offsets[0] > entry.offsets[1] ||
      entry.offsets[1] > available) {
    return InvalidArgument("data_offsets [", StrJoin(entry.offsets, ", "),
                           "] are not within the file, which has ", available,
                           " bytes of data: it may be cut short");
  }
  StoredTensor tensor;
  tensor.offset = begin + entry.offsets[0];
  tensor.size = entry.offsets[1] - entry.offsets[0];
  std::optional<DType> type = TypeFromSafetensors(entry.dtype);
  if (!type) return tensor;
  Shape shape(*type, entry.dims);
  std::optional<int64_t> elements = shape.CheckedElements();
  int64_t bytes = 0;
  if (!elements || __builtin_mul_overflow(*elements, ByteWidth(*type), &bytes) ||
      bytes != tensor.size) {
    return InvalidArgument(shape.ToStringWithoutLayout(), " does not take ", tensor.size, " bytes");
  }
  tensor.shape = std::move(shape);
  return tensor;
}

}  // namespace

Result<StoredTensors> ParseSafetensors(std::string_view file) {
  uint64_t length = 0;
  if (file.size() < sizeof(length)) return InvalidArgument("too short for a safetensors file");
  std::memcpy(&length, file.data(), sizeof(length));
  if (length > kMaxHeader || length > file.size() - sizeof(length)) {
    return InvalidArgument("a header of ", length, " bytes in a file of ", file.size());
  }
  JsonReader json(file.substr(sizeof(length), length));
  int64_t begin = static_cast<int64_t>(sizeof(length) + length);
  StoredTensors tensors;
  std::string name;
  TRY(json.BeginObject());
  while (TRY(json.NextKey(name))) {
    if (name == "__metadata__") {
      TRY(json.Skip());
      continue;
    }
    HeaderEntry entry = TRY(ReadEntry(json));
    Result<StoredTensor> tensor = Check(entry, begin, static_cast<int64_t>(file.size()) - begin);
    if (!tensor) return std::unexpected(tensor.error().Prefix(StrCat("tensor ", name, ": ")));
    if (!tensors.emplace(name, std::move(*tensor)).second) {
      return InvalidArgument("tensor ", name, ": occurs twice");
    }
  }
  TRY(json.End());
  return tensors;
}

}  // namespace weft::serve
