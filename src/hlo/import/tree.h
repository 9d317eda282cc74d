// What an MLIR file says, before it is HLO: operations with regions, attributes and types, as plain
// data. The readers (readers.h, mlir_text.h) make it, to_hlo.h turns it into a module.
//
// One vocabulary, whatever the source. StableHLO operations have the bare mnemonic (`add`,
// `dot_general`, `func`, `call`, `return`) and the operands and attributes of the newest version of
// VHLO: what the text writes as one structured attribute (`dimension_numbers =
// #stablehlo.gather<...>`) is one attribute per field here (`offset_dims`, ...), under VHLO's
// names; an older version of an operation is brought up to the newest by the reader. Every other
// dialect keeps its prefix: `builtin.module`, `sdy.mesh`. `builtin.unrealized_conversion_cast`
// never appears: its result is its operand.
//
// Lists of integers and booleans are dense tensors of one dimension, as in VHLO; one element is
// never a splat. Attributes that VHLO does not know come before those it does. tf32, which only dot
// algorithms name, is a kType whose text says so and whose dtype is kInvalid. Where a function's
// arguments have no attributes, arg_attrs may be empty or a list of empty dictionaries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"

namespace weft::hlo::mlir {

struct Attr;

struct Type {
  enum class Kind : uint8_t {
    kNone,
    kElement,
    kIndex,
    kTensor,
    kTuple,
    kFunction,
    kToken,
    kFuture
  };
  static constexpr int64_t kDynamic = Shape::kUnbounded;  // the size of a `?` dimension

  Kind kind = Kind::kNone;
  DType dtype = DType::kInvalid;  // kElement, kTensor
  bool index_element = false;     // kTensor of `index`; dtype is s64 then
  Dims dims;                      // kTensor
  std::vector<int64_t> bounds;  // kTensor with #stablehlo.bounds / type_extensions; kDynamic: none
  std::vector<const Type*> elements;  // kTuple, kFuture; the inputs of kFunction
  std::vector<const Type*> results;   // kFunction
};

struct Attr {
  enum class Kind : uint8_t {
    kUnit,
    kNone,  // VHLO's way to say "not given"
    kBool,
    kInt,     // integer, type
    kFloat,   // number, type
    kString,  // text
    kSymbol,  // text: a function or mesh, without the `@`; nested references joined by `::`
    kEnum,    // text: the keyword as StableHLO text spells it: `EQ`, `DEFAULT`, `SIGNED`, `RFFT`
    kType,    // type
    kArray,   // elements
    kDict,    // names, elements; also structured attributes that have no flat form
              // (`result_accuracy`, `output_operand_alias`, sdy's): then `text` is their name
    kInts,    // ints: array<i64: ...>, array<i1: ...>; type is the element type
    kFloats,  // floats: array<f32: ...>; type is the element type
    kDense,   // bytes, type (a tensor): dense<...>
  };
  Kind kind = Kind::kUnit;
  bool boolean = false;
  bool splat = false;  // kDense: bytes hold one element
  int64_t integer = 0;
  double number = 0;
  std::string_view text;
  const Type* type = nullptr;
  std::vector<const Attr*> elements;
  std::vector<std::string_view> names;  // of a kDict's elements
  std::vector<int64_t> ints;
  std::vector<double> floats;
  // Elements in a Literal's storage form (one byte for each element of one byte and less, i1 too).
  std::span<const std::byte> bytes;

  const Attr* Find(std::string_view name) const;  // of a kDict; null when there is none
};

// Where an operation came from: the name JAX gives it ("jit(f)/mul"), and a call stack whose
// innermost frame comes first.
struct Frame {
  std::string_view file, function;
  int32_t line = 0, column = 0, end_line = 0, end_column = 0;
  const Frame* caller = nullptr;
};
struct Location {
  std::string_view name;
  const Frame* frame = nullptr;  // null: unknown
};

struct Operation;
struct Block;

// The result of an operation or an argument of a block.
struct Value {
  const Type* type = nullptr;
  const Operation* op = nullptr;  // null: an argument of `block`
  const Block* block = nullptr;
  int32_t index = 0;  // of the result or the argument
};

struct NamedAttr {
  std::string_view name;
  const Attr* value = nullptr;
};

struct Block {
  std::vector<Value*> arguments;
  std::vector<Operation*> operations;  // the last one is the terminator
};

struct Region {
  std::vector<Block> blocks;  // StableHLO has one
};

struct Operation {
  std::string_view name;
  std::vector<NamedAttr> attrs;
  std::vector<Value*> operands;
  std::vector<Value*> results;
  std::vector<Region> regions;
  const Location* location = nullptr;
  int32_t line = 0, column = 0;  // in the text that was read; 0: from bytecode

  const Attr* Find(std::string_view name) const;  // null when there is none; kNone counts as none
};

// Owns everything that one file says. Pointers into it and views of its strings stay valid as long
// as it lives. `source` may be referred to by dense attributes and strings without a copy.
class Tree {
 public:
  explicit Tree(std::string source = "") : source_(std::move(source)) {}
  Tree(const Tree&) = delete;

  std::string_view source() const { return source_; }
  Operation* module = nullptr;  // builtin.module
  std::string producer;         // "StableHLO_v1.16.0" of bytecode

  std::string_view Keep(std::string text) { return strings_.emplace_back(std::move(text)); }
  std::span<const std::byte> KeepBytes(std::vector<std::byte> bytes) {
    return bytes_.emplace_back(std::move(bytes));
  }
  Type* NewType() { return &types_.emplace_back(); }
  Attr* NewAttr(Attr::Kind kind) {
    Attr* attr = &attrs_.emplace_back();
    attr->kind = kind;
    return attr;
  }
  Location* NewLocation() { return &locations_.emplace_back(); }
  Frame* NewFrame() { return &frames_.emplace_back(); }
  Value* NewValue() { return &values_.emplace_back(); }
  Operation* NewOperation() { return &operations_.emplace_back(); }

 private:
  std::string source_;
  std::deque<std::string> strings_;
  std::deque<std::vector<std::byte>> bytes_;
  std::deque<Type> types_;
  std::deque<Attr> attrs_;
  std::deque<Location> locations_;
  std::deque<Frame> frames_;
  std::deque<Value> values_;
  std::deque<Operation> operations_;
};

// MLIR text of an attribute or type, e.g. for a custom call's backend_config: `{uplo = 76 : ui8}`.
void AppendAttr(std::string& out, const Attr& attr);
void AppendType(std::string& out, const Type& type);
void AppendElementType(std::string& out, DType dtype);
// The whole tree in MLIR's generic form, for debugging and tests.
std::string PrintTree(const Tree& tree);

}  // namespace weft::hlo::mlir
