// The operations of a bytecode file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "hlo/import/bytecode_cursor.h"
#include "hlo/import/bytecode_entries.h"
#include "hlo/import/tree.h"
#include "hlo/import/vhlo_table.h"

namespace weft::hlo::mlir {

struct BytecodeOpName {
  std::string_view dialect, name;
};

class BytecodeIr {
 public:
  BytecodeIr(EntryTable& entries, std::vector<BytecodeOpName> names,
             std::vector<Cursor> properties);
  Result<Operation*> ReadModule(Cursor section);

 private:
  struct Property {
    std::string_view name;
    bool optional = false, symbol = false, dropped = false;
  };
  struct OpKind {  // of one name in the file
    bool resolved = false;
    const BytecodeOp* row = nullptr;
    std::string_view name;  // in the tree
    std::vector<Property> properties;
    std::vector<NamedAttr> added;  // by an upgrade
    bool cast = false;
  };
  // The values that operations see: those of the region and the ones around it, up to the next
  // isolated operation.
  struct Scope {
    std::vector<Value*> values;
    size_t next = 0;
  };

  bool Fail(std::string message);
  bool FailEntry();
  // Regions, blocks and values each take a byte of the file at least, none of them twice: what all
  // of the file declares is bounded by its size. False and an error when n more are too many.
  bool Claim(uint64_t n, std::string_view what);
  bool Need(const Cursor& c);  // false and an error when the cursor is bad
  OpKind* Kind(uint64_t index);
  bool Resolve(OpKind& kind, const BytecodeOpName& name);
  const Attr* Default(std::string_view what);
  const Attr* AsSymbol(const Attr* attr);

  bool ReadBlock(Cursor& c, Block& block, Scope& scope, int depth);
  bool ReadArguments(Cursor& c, Block& block, Scope& scope);
  bool ReadOp(Cursor& c, Block& block, Scope& scope, int depth);
  bool ReadAttributes(Cursor& c, Operation& op);
  bool ReadProperties(Cursor& c, const OpKind& kind, Operation& op);
  bool ReadOperands(Cursor& c, Operation& op, const Scope& scope);
  bool ReadRegions(Cursor& c, Operation& op, Scope& scope, int depth);
  bool ReadRegion(Cursor& c, Region& region, Scope& scope, int depth);
  bool Define(Value* value, Scope& scope);
  bool SkipUseLists(Cursor& c, size_t values);

  EntryTable& entries_;
  Tree& tree_;
  std::vector<BytecodeOpName> names_;
  std::vector<OpKind> kinds_;
  std::vector<Cursor> properties_;
  std::unordered_map<const Attr*, const Attr*> symbols_;  // what AsSymbol made
  uint64_t budget_ = 0;                                   // see Claim
  uint64_t attr_budget_ = 0;  // attributes that dictionaries may still give to operations
  std::string_view doing_;    // the operation being read, for messages
  std::optional<Error> error_;
};

}  // namespace weft::hlo::mlir
