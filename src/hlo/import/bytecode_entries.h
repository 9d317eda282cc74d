// The attributes and types of one bytecode file: numbered, each decoded when first asked for and
// once. An entry refers to others by number, in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "hlo/import/bytecode_cursor.h"
#include "hlo/import/tree.h"

namespace weft::hlo::mlir {

// One attribute or type of the file.
struct Entry {
  enum class State : uint8_t { kNew, kOpen, kDone };
  size_t begin = 0, end = 0;  // in the file
  int32_t dialect = 0;
  bool custom = false;  // else MLIR text
  State state = State::kNew;
  bool file_location = false;    // a FileLineCol, without a name around it
  uint32_t depth = 0, size = 0;  // of what it refers to, written out as a tree
  const Attr* attr = nullptr;
  const Type* type = nullptr;
  const Location* location = nullptr;
};

class EntryTable;

// What the decoder of a dialect gets for one entry. References to entries that are not decoded yet
// are noted, and the entry is decoded again when they are: a decoder makes its reads, then returns
// null unless ready(), then builds.
class EntryReader : public Cursor {
 public:
  EntryReader(EntryTable& table, Entry& entry);

  const Attr* AttrAt(uint64_t index);
  const Attr* AttrRef() { return AttrAt(VarInt()); }
  const Type* TypeRef();
  std::vector<const Attr*> Attrs();
  std::vector<const Type*> Types();
  std::vector<int64_t> SignedInts();
  std::string_view String();                // of the string section
  const Entry* LocationRef();               // null: not yet
  const Attr* OptionalAttr(bool& present);  // (index << 1) | present
  // The bits of an integer or float of so many bits.
  uint64_t Bits(int width);

  bool ready() const { return missing_.empty() && !bad() && error_.empty(); }
  std::nullptr_t Fail(std::string message);  // first one wins
  Tree& tree();
  EntryTable& table() { return table_; }
  Entry& entry() { return entry_; }

 private:
  friend class EntryTable;
  // The entry of that number if it is decoded; what it refers to counts as referred to from here.
  const Entry* Resolve(uint64_t index, bool type);

  EntryTable& table_;
  Entry& entry_;
  std::vector<size_t> missing_;
  std::string error_;
};

class EntryTable {
 public:
  explicit EntryTable(Tree& tree) : tree_(tree) {}

  // `offsets`: the section that lists them; `data`: where they are.
  Status Read(Cursor offsets, Cursor data, std::vector<std::string_view> strings,
              std::vector<std::string_view> dialects);
  // What numbers stand for; null and error() set when there is none.
  const Attr* GetAttr(uint64_t index);
  const Type* GetType(uint64_t index);
  const Location* GetLocation(uint64_t index);
  const Error& error() const { return *error_; }

  Tree& tree() { return tree_; }
  const std::vector<std::string_view>& strings() const { return strings_; }
  // Frames that locations may still copy: what keeps a crafted file from being all stack.
  size_t frame_budget = 0;

 private:
  friend class EntryReader;
  bool Decode(size_t start);
  void DecodeOne(EntryReader& reader);
  std::nullptr_t Fail(std::string message);

  Tree& tree_;
  std::vector<std::string_view> strings_, dialects_;
  std::vector<Entry> entries_;  // attributes, then types
  size_t attr_count_ = 0;
  std::vector<size_t> stack_;
  std::optional<Error> error_;
};

// One per dialect. Null when not ready; the reason for anything else is in the reader.
const Attr* DecodeBuiltinAttr(EntryReader& r);
const Type* DecodeBuiltinType(EntryReader& r);
const Attr* DecodeVhloAttr(EntryReader& r);
const Type* DecodeVhloType(EntryReader& r);
const Attr* DecodeSdyAttr(EntryReader& r);
const Attr* DecodeTextAttr(EntryReader& r, std::string_view dialect, std::string_view text);
const Type* DecodeStableHloType(EntryReader& r);  // casts have them
const Type* DecodeTextType(EntryReader& r, std::string_view text);
// Kinds 10 to 15 and 22 of builtin; sets the entry's location. False: not a location.
bool DecodeLocation(EntryReader& r, uint64_t kind);

// Shared by the dialects.
const Attr* MakeDense(EntryReader& r, const Type* type, std::string_view bytes);
const Attr* MakeInt(EntryReader& r, const Type* type);
const Attr* MakeFloat(EntryReader& r, const Type* type);
const Attr* MakeDict(EntryReader& r, std::string_view text,
                     std::vector<std::pair<std::string_view, const Attr*>> fields);
const Attr* MakeArray(EntryReader& r, std::vector<const Attr*> elements);
const Attr* MakeString(EntryReader& r, std::string_view text,
                       Attr::Kind kind = Attr::Kind::kString);
const Attr* MakeI64(EntryReader& r, int64_t value);
const Type* MakeElement(EntryReader& r, DType dtype);
const Type* MakeTensor(EntryReader& r, std::vector<int64_t> dims, const Type* element,
                       const Attr* encoding);
const Type* MakeComplex(EntryReader& r, const Type* part);

}  // namespace weft::hlo::mlir
