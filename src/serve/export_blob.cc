#include "serve/export_blob.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/str.h"

namespace weft::serve {
namespace {

constexpr size_t kMaxItems = 1 << 20;  // of any list

// Fields of Exported and AbstractValue by their place in the schema.
enum ExportedField : uint16_t {
  kFunctionName = 1,
  kInAvals = 3,
  kOutAvals = 5,
  kDevicesShort = 6,
  kPlatforms = 9,
  kOrderedEffects = 10,
  kModule = 13,
  kCallingConvention = 14,
  kKept = 15,
  kDevices = 18,
  kUniqueAvals = 19,
  kInAvalIndices = 22,
  kOutAvalIndices = 23,
};
enum AvalField : uint16_t { kAvalShape = 1, kAvalType = 2 };

// By number in the schema; kInvalid: types that no program argument has.
constexpr DType kExportTypes[] = {DType::kPred,       DType::kS8,         DType::kS16,
                                  DType::kS32,        DType::kS64,        DType::kU8,
                                  DType::kU16,        DType::kU32,        DType::kU64,
                                  DType::kF16,        DType::kF32,        DType::kF64,
                                  DType::kC64,        DType::kC128,       DType::kBF16,
                                  DType::kS4,         DType::kU4,         DType::kF8E4M3B11FNUZ,
                                  DType::kF8E4M3FN,   DType::kF8E4M3FNUZ, DType::kF8E5M2,
                                  DType::kF8E5M2FNUZ, DType::kInvalid,    DType::kF8E4M3,
                                  DType::kF8E3M4,     DType::kF8E8M0FNU,  DType::kF4E2M1FN};

// A FlatBuffer. Offsets are relative to where they stand; all are checked before they are followed.
class Flat {
 public:
  explicit Flat(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  Result<T> At(size_t at) const {
    T value;
    if (at > bytes_.size() || bytes_.size() - at < sizeof(T)) return Cut(at);
    std::memcpy(&value, bytes_.data() + at, sizeof(T));
    return value;
  }
  // Where the offset at `at` leads.
  Result<size_t> Follow(size_t at) const {
    uint32_t offset = TRY(At<uint32_t>(at));
    if (offset == 0 || offset > bytes_.size() - at) return Cut(at);
    return at + offset;
  }
  // The place of a field of a table; nullopt: it is not there.
  Result<std::optional<size_t>> Field(size_t table, uint16_t index) const {
    int64_t vtable = static_cast<int64_t>(table) - TRY(At<int32_t>(table));
    if (vtable < 0) return Cut(table);
    uint16_t size = TRY(At<uint16_t>(static_cast<size_t>(vtable)));
    size_t slot = 4 + 2 * size_t{index};
    if (slot + 2 > size) return std::optional<size_t>();
    uint16_t offset = TRY(At<uint16_t>(static_cast<size_t>(vtable) + slot));
    if (offset == 0) return std::optional<size_t>();
    return std::optional<size_t>(table + offset);
  }
  template <class T>
  Result<int64_t> Number(size_t table, uint16_t index, int64_t otherwise) const {
    std::optional<size_t> at = TRY(Field(table, index));
    if (!at) return otherwise;
    return static_cast<int64_t>(TRY(At<T>(*at)));
  }
  struct List {
    size_t begin = 0, count = 0;
  };
  // An absent list is empty.
  Result<List> Items(size_t table, uint16_t index, size_t item_bytes, size_t most) const {
    std::optional<size_t> at = TRY(Field(table, index));
    if (!at) return List{};
    size_t list = TRY(Follow(*at));
    uint32_t count = TRY(At<uint32_t>(list));
    if (count > most || (bytes_.size() - list - 4) / item_bytes < count) return Cut(list);
    return List{list + 4, count};
  }
  Result<std::string_view> Text(size_t place) const {  // of the string or byte list itself
    uint32_t count = TRY(At<uint32_t>(place));
    if (bytes_.size() - place - 4 < count) return Cut(place);
    return bytes_.substr(place + 4, count);
  }
  Result<std::vector<std::string>> Texts(size_t table, uint16_t index) const {
    List list = TRY(Items(table, index, 4, kMaxItems));
    std::vector<std::string> texts;
    for (size_t i = 0; i < list.count; ++i) {
      texts.emplace_back(TRY(Text(TRY(Follow(list.begin + 4 * i)))));
    }
    return texts;
  }

 private:
  std::unexpected<Error> Cut(size_t at) const {
    return InvalidArgument("not an export of JAX, or damaged: nothing fits at byte ", at, " of ",
                           bytes_.size());
  }
  std::string_view bytes_;
};

Result<ExportedValue> ReadAval(const Flat& flat, size_t table) {
  ExportedValue value;
  int64_t type = TRY(flat.Number<int8_t>(table, kAvalType, 0));
  if (type >= 0 && type < static_cast<int64_t>(std::size(kExportTypes))) {
    value.dtype = kExportTypes[type];
  }
  for (std::string& size : TRY(flat.Texts(table, kAvalShape))) {
    std::optional<int64_t> number = ParseInt(size);
    if (number && *number < 0) return InvalidArgument("a dimension of ", *number);
    value.dims.push_back(number.value_or(-1));
    value.symbols.push_back(number ? "" : std::move(size));
  }
  return value;
}

// Avals as a list of tables: in the place itself, or (since version 10) by index into a list of
// different ones.
Result<std::vector<ExportedValue>> ReadAvals(const Flat& flat, size_t root, uint16_t direct,
                                             uint16_t indices) {
  std::vector<ExportedValue> values;
  Flat::List list = TRY(flat.Items(root, direct, 4, kMaxItems));
  Flat::List by_index = TRY(flat.Items(root, indices, 4, kMaxItems));
  if (by_index.count == 0) {
    for (size_t i = 0; i < list.count; ++i) {
      values.push_back(TRY(ReadAval(flat, TRY(flat.Follow(list.begin + 4 * i)))));
    }
    return values;
  }
  Flat::List unique = TRY(flat.Items(root, kUniqueAvals, 4, kMaxItems));
  std::vector<ExportedValue> known;
  for (size_t i = 0; i < unique.count; ++i) {
    known.push_back(TRY(ReadAval(flat, TRY(flat.Follow(unique.begin + 4 * i)))));
  }
  for (size_t i = 0; i < by_index.count; ++i) {
    uint32_t index = TRY(flat.At<uint32_t>(by_index.begin + 4 * i));
    if (index >= known.size()) return InvalidArgument("value ", i, " is of no known type");
    values.push_back(known[index]);
  }
  return values;
}

Status ReadKept(const Flat& flat, size_t root, ExportBlob& blob) {
  Flat::List kept = TRY(flat.Items(root, kKept, 2, kMaxItems));
  for (size_t i = 0; i < kept.count; ++i) {
    int64_t index = TRY(flat.At<uint16_t>(kept.begin + 2 * i));
    bool ascending = blob.kept.empty() || blob.kept.back() < index;
    if (!ascending || index >= static_cast<int64_t>(blob.inputs.size())) {
      return InvalidArgument("kept argument ", index, " of ", blob.inputs.size());
    }
    blob.kept.push_back(index);
  }
  return {};
}

}  // namespace

bool ExportedValue::IsStatic() const {
  return std::ranges::all_of(dims, [](int64_t d) { return d >= 0; });
}

Result<ExportBlob> ParseExportBlob(std::string_view bytes) {
  Flat flat(bytes);
  size_t root = TRY(flat.Follow(0));
  ExportBlob blob;
  if (std::optional<size_t> name = TRY(flat.Field(root, kFunctionName))) {
    blob.function_name = std::string(TRY(flat.Text(TRY(flat.Follow(*name)))));
  }
  blob.inputs = TRY(ReadAvals(flat, root, kInAvals, kInAvalIndices));
  blob.outputs = TRY(ReadAvals(flat, root, kOutAvals, kOutAvalIndices));
  blob.platforms = TRY(flat.Texts(root, kPlatforms));
  TRY(ReadKept(flat, root, blob));
  blob.ordered_effects =
      static_cast<int64_t>(TRY(flat.Items(root, kOrderedEffects, 4, kMaxItems)).count);
  blob.calling_convention = TRY(flat.Number<uint16_t>(root, kCallingConvention, 0));
  blob.devices = TRY(flat.Number<int16_t>(root, kDevicesShort, 0));
  if (int64_t more = TRY(flat.Number<uint32_t>(root, kDevices, 0)); more > 0) blob.devices = more;
  std::optional<size_t> module = TRY(flat.Field(root, kModule));
  if (!module) return InvalidArgument("not an export of JAX: it has no module");
  blob.module = TRY(flat.Text(TRY(flat.Follow(*module))));
  return blob;
}

}  // namespace weft::serve
