#include "hlo/import/bytecode_entries.h"

#include <algorithm>
#include <limits>

namespace weft::hlo::mlir {
namespace {

// Of one attribute or type, written out as a tree: what follows a Tree does so by recursion.
constexpr uint32_t kMaxEntryDepth = 200;
constexpr uint32_t kMaxEntrySize = 1u << 22;

const Attr kNotYetAttr;
const Type kNotYetType;

}  // namespace

EntryReader::EntryReader(EntryTable& table, Entry& entry)
    : Cursor(table.tree().source(), entry.begin, entry.end), table_(table), entry_(entry) {}

Tree& EntryReader::tree() {
  return table_.tree();
}

std::nullptr_t EntryReader::Fail(std::string message) {
  if (error_.empty()) error_ = std::move(message);
  return nullptr;
}

const Entry* EntryReader::Resolve(uint64_t index, bool type) {
  size_t first = type ? table_.attr_count_ : 0;
  size_t count = type ? table_.entries_.size() - table_.attr_count_ : table_.attr_count_;
  if (bad()) return nullptr;
  if (index >= count) {
    return Fail(StrCat(type ? "type " : "attribute ", index, " of ", count));
  }
  const Entry& entry = table_.entries_[first + index];
  if (entry.state != Entry::State::kDone) {
    missing_.push_back(first + index);
    return nullptr;
  }
  entry_.depth = std::max(entry_.depth, entry.depth + 1);
  uint64_t size = uint64_t{entry_.size} + entry.size;
  entry_.size = static_cast<uint32_t>(std::min<uint64_t>(size, kMaxEntrySize + 1));
  return &entry;
}

const Attr* EntryReader::AttrAt(uint64_t index) {
  const Entry* entry = Resolve(index, false);
  if (!entry) return &kNotYetAttr;
  if (!entry->attr) {
    Fail("a location where an attribute is expected");
    return &kNotYetAttr;
  }
  return entry->attr;
}

const Type* EntryReader::TypeRef() {
  const Entry* entry = Resolve(VarInt(), true);
  return entry ? entry->type : &kNotYetType;
}

const Entry* EntryReader::LocationRef() {
  const Entry* entry = Resolve(VarInt(), false);
  if (entry && !entry->location) return Fail("an attribute where a location is expected");
  return entry;
}

const Attr* EntryReader::OptionalAttr(bool& present) {
  uint64_t index = VarIntWithFlag(present);
  return present ? AttrAt(index) : nullptr;
}

std::vector<const Attr*> EntryReader::Attrs() {
  std::vector<const Attr*> attrs(Count());
  for (const Attr*& attr : attrs) attr = AttrRef();
  return attrs;
}

std::vector<const Type*> EntryReader::Types() {
  std::vector<const Type*> types(Count());
  for (const Type*& type : types) type = TypeRef();
  return types;
}

std::vector<int64_t> EntryReader::SignedInts() {
  std::vector<int64_t> ints(Count());
  for (int64_t& value : ints) value = SignedVarInt();
  return ints;
}

std::string_view EntryReader::String() {
  uint64_t index = VarInt();
  if (bad()) return {};
  if (index >= table_.strings_.size()) {
    Fail(StrCat("string ", index, " of ", table_.strings_.size()));
    return {};
  }
  return table_.strings_[index];
}

uint64_t EntryReader::Bits(int width) {
  if (width <= 8) return Byte();
  return static_cast<uint64_t>(SignedVarInt());
}

Status EntryTable::Read(Cursor offsets, Cursor data, std::vector<std::string_view> strings,
                        std::vector<std::string_view> dialects) {
  strings_ = std::move(strings);
  dialects_ = std::move(dialects);
  attr_count_ = offsets.Count();
  size_t type_count = offsets.Count();
  if (offsets.bad() || attr_count_ + type_count > offsets.remaining()) {
    return InvalidArgument("more attributes and types than bytes that describe them");
  }
  entries_.resize(attr_count_ + type_count);
  size_t at = data.offset(), end = at + data.remaining();
  for (size_t i = 0; i < entries_.size();) {
    // A group never holds both attributes and types.
    size_t limit = i < attr_count_ ? attr_count_ : entries_.size();
    uint64_t dialect = offsets.VarInt();
    uint64_t count = offsets.VarInt();
    if (offsets.bad() || dialect >= dialects_.size() || count > limit - i) {
      return InvalidArgument("attribute ", i, ": bad group of dialect ", dialect);
    }
    for (uint64_t k = 0; k < count; ++k, ++i) {
      Entry& entry = entries_[i];
      uint64_t size = offsets.VarIntWithFlag(entry.custom);
      if (size > end - at) return InvalidArgument("attribute ", i, " ends after its section");
      entry.dialect = static_cast<int32_t>(dialect);
      entry.begin = at;
      entry.end = at += size;
    }
    if (offsets.bad()) return InvalidArgument("attribute table: unexpected end");
  }
  if (!offsets.AtEnd()) return InvalidArgument("attribute table: bytes left over");
  return {};
}

std::nullptr_t EntryTable::Fail(std::string message) {
  if (!error_) error_ = Error(Code::kInvalidArgument, std::move(message));
  return nullptr;
}

const Attr* EntryTable::GetAttr(uint64_t index) {
  if (index >= attr_count_) return Fail(StrCat("attribute ", index, " of ", attr_count_));
  if (!Decode(index)) return nullptr;
  const Attr* attr = entries_[index].attr;
  return attr ? attr : Fail("a location where an attribute is expected");
}

const Type* EntryTable::GetType(uint64_t index) {
  size_t count = entries_.size() - attr_count_;
  if (index >= count) return Fail(StrCat("type ", index, " of ", count));
  return Decode(attr_count_ + index) ? entries_[attr_count_ + index].type : nullptr;
}

const Location* EntryTable::GetLocation(uint64_t index) {
  if (index >= attr_count_) return Fail(StrCat("location ", index, " of ", attr_count_));
  if (!Decode(index)) return nullptr;
  const Location* location = entries_[index].location;
  return location ? location : Fail("an attribute where a location is expected");
}

void EntryTable::DecodeOne(EntryReader& r) {
  Entry& entry = r.entry();
  entry.depth = 0;
  entry.size = 1;
  std::string_view dialect = dialects_[entry.dialect];
  bool is_type = &entry >= entries_.data() + attr_count_;
  if (!entry.custom) {
    std::string_view text = r.Bytes(r.remaining());
    while (text.ends_with('\0')) text.remove_suffix(1);
    if (is_type) {
      entry.type = DecodeTextType(r, text);
    } else {
      entry.attr = DecodeTextAttr(r, dialect, text);
    }
  } else if (dialect == "vhlo") {
    if (is_type) {
      entry.type = DecodeVhloType(r);
    } else {
      entry.attr = DecodeVhloAttr(r);
    }
  } else if (dialect == "builtin") {
    if (is_type) {
      entry.type = DecodeBuiltinType(r);
    } else {
      entry.attr = DecodeBuiltinAttr(r);
    }
  } else if (dialect == "sdy" && !is_type) {
    entry.attr = DecodeSdyAttr(r);
  } else if (dialect == "stablehlo" && is_type) {
    entry.type = DecodeStableHloType(r);
  } else {
    r.Fail(StrCat(is_type ? "type" : "attribute", " of dialect `", dialect,
                  "`, which is not known here"));
  }
}

// Depth first with a stack of its own. An entry is tried once to see what it refers to, and again
// when that is done; if then something is missing still, it is the entry itself.
bool EntryTable::Decode(size_t start) {
  if (entries_[start].state == Entry::State::kDone) return true;
  if (error_) return false;
  stack_.assign(1, start);
  while (!stack_.empty()) {
    size_t index = stack_.back();
    Entry& entry = entries_[index];
    if (entry.state == Entry::State::kDone) {
      stack_.pop_back();
      continue;
    }
    EntryReader reader(*this, entry);
    DecodeOne(reader);
    auto fail = [&](std::string_view why) {
      bool type = index >= attr_count_;
      Fail(StrCat(type ? "type " : "attribute ", type ? index - attr_count_ : index, ": ", why));
      return false;
    };
    if (!reader.error_.empty()) return fail(reader.error_);
    if (reader.bad()) return fail("unexpected end");
    if (!reader.missing_.empty()) {
      if (entry.state == Entry::State::kOpen) return fail("refers to itself");
      entry.state = Entry::State::kOpen;
      stack_.insert(stack_.end(), reader.missing_.begin(), reader.missing_.end());
      continue;
    }
    if (!reader.AtEnd()) return fail("bytes left over");
    if (!entry.attr && !entry.type && !entry.location) return fail("cannot be read");
    if (entry.location) entry.depth = 0, entry.size = 1;
    if (entry.depth > kMaxEntryDepth || entry.size > kMaxEntrySize) {
      return fail("nested too deep or too large");
    }
    entry.state = Entry::State::kDone;
    stack_.pop_back();
  }
  return true;
}

}  // namespace weft::hlo::mlir
