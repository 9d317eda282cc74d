// The file around attributes, types and operations: header, sections, strings, names.
#include <array>
#include <optional>

#include "hlo/import/bytecode_ir.h"
#include "hlo/import/readers.h"

namespace weft::hlo::mlir {
namespace {

constexpr uint64_t kBytecodeVersion = 6;
enum SectionId : uint8_t {
  kStrings = 0,
  kDialects = 1,
  kEntryData = 2,
  kEntryOffsets = 3,
  kIr = 4,
  kProperties = 8,
  kSectionCount = 9,
};
constexpr std::string_view kProducerPrefix = "StableHLO_v";

using Sections = std::array<std::optional<Cursor>, kSectionCount>;

Result<Sections> ReadSections(Cursor& file) {
  Sections sections;
  while (!file.AtEnd()) {
    uint8_t id = 0;
    Cursor section = file.Section(id);
    if (file.bad()) return InvalidArgument("section ", int{id}, " ends after the file");
    if (id >= kSectionCount) return InvalidArgument("unknown section ", int{id});
    if (sections[id]) return InvalidArgument("section ", int{id}, " is there twice");
    sections[id] = section;
  }
  for (uint8_t id : {kStrings, kDialects, kEntryData, kEntryOffsets, kIr}) {
    if (!sections[id]) return InvalidArgument("section ", int{id}, " is missing");
  }
  return sections;
}

// Lengths first, last string first; each ends in a NUL.
Result<std::vector<std::string_view>> ReadStrings(Cursor c) {
  std::vector<std::string_view> strings(c.Count());
  std::vector<uint64_t> sizes(strings.size());
  for (size_t i = sizes.size(); i-- > 0;) sizes[i] = c.VarInt();
  for (size_t i = 0; i < strings.size(); ++i) {
    strings[i] = c.Bytes(sizes[i]);
    if (!c.bad() && !strings[i].ends_with('\0')) return InvalidArgument("string without an end");
    if (!c.bad()) strings[i].remove_suffix(1);
  }
  if (c.bad() || !c.AtEnd()) return InvalidArgument("bad string section");
  return strings;
}

struct Names {
  std::vector<std::string_view> dialects;
  std::vector<BytecodeOpName> ops;
};

Result<Names> ReadNames(Cursor c, const std::vector<std::string_view>& strings) {
  Names names;
  size_t count = c.Count();
  for (size_t i = 0; i < count; ++i) {
    bool versioned = false;
    uint64_t index = c.VarIntWithFlag(versioned);
    if (c.bad() || index >= strings.size()) return InvalidArgument("bad name of dialect ", i);
    names.dialects.push_back(strings[index]);
    uint8_t id = 0;
    if (versioned) c.Section(id);
  }
  names.ops.reserve(c.Count());
  while (!c.AtEnd()) {
    uint64_t dialect = c.VarInt();
    size_t group = c.Count();
    if (c.bad() || dialect >= names.dialects.size()) return InvalidArgument("bad operation names");
    for (size_t i = 0; i < group; ++i) {
      bool registered = false;
      uint64_t index = c.VarIntWithFlag(registered);
      if (c.bad() || index >= strings.size()) return InvalidArgument("bad operation name");
      names.ops.push_back({names.dialects[dialect], strings[index]});
    }
  }
  if (c.bad()) return InvalidArgument("bad dialect section");
  return names;
}

Result<std::vector<Cursor>> ReadPropertyBlobs(Cursor c, std::string_view file) {
  std::vector<Cursor> blobs(c.Count());
  for (Cursor& blob : blobs) {
    uint64_t size = c.VarInt();
    size_t begin = c.offset();
    c.Bytes(size);
    if (c.bad()) return InvalidArgument("bad properties section");
    blob = Cursor(file, begin, begin + size);
  }
  return blobs;
}

// "StableHLO_v1.16.3". Others write MLIR that VHLO is not in, which its operations tell.
Status CheckProducer(std::string_view producer) {
  if (!producer.starts_with(kProducerPrefix)) return {};
  std::string_view version = producer.substr(kProducerPrefix.size());
  size_t dot = version.find('.');
  if (dot == std::string_view::npos) return {};
  std::string_view rest = version.substr(dot + 1);
  std::optional<int64_t> major = ParseInt(version.substr(0, dot));
  std::optional<int64_t> minor = ParseInt(rest.substr(0, rest.find('.')));
  if (major && minor && *major == 0 && *minor < 15) {
    return Unimplemented("VHLO ", version, " is older than 0.15.0, the oldest that is read");
  }
  return {};
}

Status ReadFile(Tree& tree) {
  std::string_view bytes = tree.source();
  if (!bytes.starts_with(kBytecodeMagic)) return InvalidArgument("no magic number");
  Cursor file(bytes, kBytecodeMagic.size(), bytes.size());
  uint64_t version = file.VarInt();
  size_t end = bytes.find('\0', file.offset());
  if (file.bad() || end == std::string_view::npos) return InvalidArgument("header ends early");
  tree.producer = std::string(file.Bytes(end - file.offset()));
  file.Byte();
  TRY(CheckProducer(tree.producer));
  if (version != kBytecodeVersion) {
    return Unimplemented("format version ", version, " of ", tree.producer, "; only ",
                         kBytecodeVersion, " is read");
  }
  Sections sections = TRY(ReadSections(file));
  std::vector<std::string_view> strings = TRY(ReadStrings(*sections[kStrings]));
  Names names = TRY(ReadNames(*sections[kDialects], strings));
  std::vector<Cursor> properties;
  if (sections[kProperties]) properties = TRY(ReadPropertyBlobs(*sections[kProperties], bytes));
  EntryTable entries(tree);
  entries.frame_budget = bytes.size() + 1024;
  TRY(entries.Read(*sections[kEntryOffsets], *sections[kEntryData], std::move(strings),
                   names.dialects));
  BytecodeIr ir(entries, std::move(names.ops), std::move(properties));
  tree.module = TRY(ir.ReadModule(*sections[kIr]));
  return {};
}

}  // namespace

Result<std::unique_ptr<Tree>> ReadBytecode(std::string bytes) {
  auto tree = std::make_unique<Tree>(std::move(bytes));
  if (Status status = ReadFile(*tree); !status) {
    return std::unexpected(std::move(status.error().Prefix("MLIR bytecode: ")));
  }
  return tree;
}

}  // namespace weft::hlo::mlir
