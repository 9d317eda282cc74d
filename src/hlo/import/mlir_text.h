// The reader of MLIR text: one pass over the tokens, in the parts that its source files name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/stack.h"
#include "hlo/import/mlir_lexer.h"
#include "hlo/import/tree.h"

namespace weft::hlo::mlir {

class TextReader {
 public:
  // `text` lives at least as long as `tree`.
  TextReader(std::string_view text, Tree& tree) : lexer_(text), tree_(tree) {}

  Status ReadModule();
  Result<const Attr*> ReadWholeAttr();

 private:
  using Attrs = std::vector<NamedAttr>;
  static constexpr int kMaxDepth = kMaxProgramNesting + 2;  // in a function of a module
  static constexpr int64_t kMaxNodes = int64_t{1} << 26;

  // Counts how deep the reader has gone into what it reads.
  struct Nested {
    explicit Nested(int& depth) : depth_(depth) { ++depth_; }
    ~Nested() { --depth_; }
    int& depth_;
  };

  // --- mlir_text.cc: tokens, errors, aliases
  const Token& token() const { return lexer_.token(); }
  bool At(char c) const { return token().kind == Tok::kPunct && token().punct == c; }
  bool AtName(std::string_view name) const {
    return token().kind == Tok::kName && token().text == name;
  }
  bool Take(char c);
  bool TakeName(std::string_view name);
  bool TakeArrow();
  Status Expect(char c);
  Status ExpectName(std::string_view name);
  Status ExpectArrow();
  Result<std::string_view> ExpectAnyName(std::string_view what);
  Result<std::string_view> ExpectString(std::string_view what);
  Result<std::string_view> ExpectSymbol();
  Result<int64_t> ExpectInt(std::string_view what);
  Result<bool> ExpectBool();
  Result<std::string_view> Unquote(std::string_view raw);
  std::unexpected<Error> FailAt(size_t offset, Error error) const;
  template <class... Args>
  std::unexpected<Error> Fail(const Args&... args) const {
    return FailAt(token().offset, Error(Code::kInvalidArgument, StrCat(args...)));
  }
  std::unexpected<Error> FailExpected(std::string_view what) const;
  Status CheckDepth() const;
  Status CountNodes(int64_t n);
  void FindAliases();
  Status ReadAliasDefinition();
  std::pair<int32_t, int32_t> LineOf(size_t offset);
  template <class Fn>
  Status List(char open, char close, Fn&& item);  // item() -> Status

  // --- mlir_text_types.cc
  Result<const Type*> ReadType();
  Result<const Type*> ReadNamedType();
  Status ReadDims(Type& type);
  Result<const Type*> ReadTensorType();
  Result<const Type*> ReadDialectType();
  Status ReadEncoding(Type& type);
  Status ReadTypeList(std::vector<const Type*>& types);     // t, t
  Status ReadResultTypes(std::vector<const Type*>& types);  // t, or (t, t)
  Result<const Type*> ElementType(std::string_view name);   // null when it names none
  const Type* Element(DType dtype);
  const Type* TensorOf(DType dtype, std::vector<int64_t> dims);

  // --- mlir_text_attrs.cc
  Result<const Attr*> ReadAttr();
  Result<const Attr*> ReadNamedAttr();  // true, dense<...>, array<...>, types
  Result<const Attr*> ReadTypeAttr();
  Result<const Attr*> ReadNumber();
  Result<const Attr*> ReadArrayAttr();
  Result<const Attr*> ReadTypedArray();
  Status ReadArrayElements(Attr& attr, DType dtype);
  Result<const Attr*> ReadDict();
  Status ReadDictEntries(Attrs& attrs);  // { a = 1, b }
  Status ReadOptionalDict(Attrs& attrs);
  Result<const Attr*> ReadOpaque(std::string_view name);  // affine_map<...>: as text
  Result<std::string_view> SkipBalanced();                // <...>, with what is inside
  Result<double> ReadDouble(const Type& type);
  Result<std::vector<int64_t>> ReadInts();  // [1, 2]; true and false are 1 and 0
  const Attr* Int(int64_t value, DType dtype = DType::kS64);
  const Attr* Bool(bool value);
  const Attr* Text(Attr::Kind kind, std::string_view text);
  const Attr* Ints(std::span<const int64_t> values, DType dtype = DType::kS64);
  const Attr* DenseInts(std::span<const int64_t> values, std::vector<int64_t> dims,
                        DType dtype = DType::kS64);
  const Attr* Array(std::vector<const Attr*> elements);
  Attr* NewDict(std::string_view name);
  static void AddField(Attr* dict, std::string_view name, const Attr* value);

  // --- mlir_text_dense.cc
  Result<const Attr*> ReadDense();
  Status FillDense(std::string_view body, size_t offset, Attr& attr);
  Status FillHex(std::string_view digits, size_t offset, int64_t count, Attr& attr);
  Status FillList(std::string_view body, size_t offset, int64_t count, Attr& attr);

  // --- mlir_text_structs.cc: attributes of dialects
  Result<const Attr*> ReadHashAttr();
  Result<const Attr*> ReadDialectAttr(std::string_view mnemonic, bool sdy);
  Result<const Attr*> ReadStruct(std::string_view mnemonic);
  Result<const Attr*> ReadStructValue(std::string_view key);
  Result<const Attr*> ReadConvDims(std::string_view mnemonic);
  Status ReadConvSide(std::string_view side, char batch, char feature, Attr* dict);
  Result<const Attr*> ReadSdyAttr(std::string_view mnemonic);
  Result<const Attr*> ReadMesh();       // <["x"=2], device_ids=[0, 1]>
  Result<const Attr*> ReadSharding();   // <@mesh, [{"x"}, {?}p1], replicated={"y"}>
  Result<const Attr*> ReadShardings();  // [<@mesh, ...>, ...]
  Result<const Attr*> ReadDimSharding();
  Result<const Attr*> ReadAxes();  // {"x", "y":(1)2}
  Result<const Attr*> ReadAxisRef();
  Result<const Attr*> ReadSubAxis();  // (1)2
  Result<const Attr*> ReadManualAxes();

  // --- mlir_text_locations.cc
  struct Place {
    std::string_view name;
    const Frame* frame = nullptr;
    bool is_file = false;
  };
  Status ReadOptionalLocation(Operation* op);  // loc(...); op may be null
  Result<Place> ReadPlace();                   // what is inside loc(...)
  Result<Place> ReadFilePlace(std::string_view file);
  Result<Place> ReadNamedPlace(std::string_view name);
  Result<Place> ReadCallSite();
  Result<Place> ReadFused();
  Result<Place> ReadPlaceAlias(std::string_view name);

  // --- mlir_text_ops.cc
  struct Definition {
    Value* value = nullptr;  // an argument of a block
    // Or results of an operation (the operands of a cast): `count` of them from `first` on.
    const std::vector<Value*>* values = nullptr;
    int32_t first = 0, count = 1;
  };
  struct ResultName {
    std::string_view name;
    int32_t count = 1;
  };
  struct Argument {
    std::string_view name;
    const Type* type = nullptr;
  };
  using Types = std::vector<const Type*>;
  Status ReadOperations(Block& block);  // up to } or the end
  Status ReadOperation(Block& block);
  Status ReadGenericOperation(Operation& op);
  Result<Region> ReadRegion(std::span<const Argument> arguments);
  Status ReadBlockLabel(Block& block);
  Status AddArgument(Block& block, const Argument& argument);
  void Define(std::string_view name, Definition definition);
  void Leave(size_t mark);  // forget what was defined since
  Status DefineResults(const std::vector<Value*>& values, std::span<const ResultName> names);
  Result<Value*> ReadOperand();
  Status ReadOperands(Operation& op);  // %a, %b; none when no % follows
  Status CheckOperands(const Operation& op, std::span<const Type* const> types);
  Status AddResults(Operation& op, std::span<const Type* const> types);
  Status ReadModuleOp(Operation& op);
  Status ReadFunc(Operation& op);
  Status ReadFuncArguments(std::vector<Argument>& arguments, Types& types,
                           std::vector<const Attr*>& attrs);
  Status ReadFuncResults(Types& types, std::vector<const Attr*>& attrs);

  // --- mlir_text_pretty.cc
  Status ReadPrettyOperation(Operation& op, std::string_view name);
  Status ReadForm(Operation& op, std::string_view form);
  Status ReadFormAttr(Operation& op, std::string_view name, std::string_view kind);
  Status ReadFormTypes(Operation& op, std::string_view rule);
  Status ReadSameTypes(Operation& op);
  Status ReadSelectTypes(Operation& op);
  Status ReadComplexTypes(Operation& op);
  Status ReadTupleTypes(Operation& op);
  Status ReadPairTypes(Operation& op, bool results);
  Status ReadArrowTypes(Operation& op);

  // --- mlir_text_special.cc: forms of single operations
  Result<bool> ReadSpecial(Operation& op, std::string_view name);
  Status ReadConstant(Operation& op);
  Status ReadReduce(Operation& op);
  Status MakeReducer(Operation& op, std::string_view inner, const Type& operand);
  Status ReadWhile(Operation& op);
  Status ReadCall(Operation& op);
  Status ReadComposite(Operation& op);
  Status ReadTopK(Operation& op);
  Status ReadManualComputation(Operation& op);
  Status ReadNamedComputation(Operation& op);
  Status ReadSliceRanges(Operation& op);
  Status ReadDotDims(Operation& op);
  Status ReadPrecision(Operation& op);
  Status ReadWindow(Operation& op);
  Status ReadExponentMantissa(Operation& op);
  static void Add(Operation& op, std::string_view name, const Attr* value) {
    op.attrs.push_back({name, value});
  }

  // --- mlir_text_finish.cc: from StableHLO's attributes to VHLO's
  Status Finish(Operation& op, std::string_view name);
  void Flatten(Operation& op);
  const Attr* Convert(std::string_view name, const Attr* attr);
  const Attr* Default(const Operation& op, std::string_view rule);

  struct Alias {
    size_t offset = 0;  // of its value
    bool reading = false;
    const Attr* attr = nullptr;
    const Type* type = nullptr;
    bool is_place = false;
    Place place;
    int64_t nodes = 0;
  };
  Result<Alias*> FindAlias(char sigil, std::string_view name);

  Lexer lexer_;
  Tree& tree_;
  int depth_ = 0;
  bool named_ = false;  // an error has the name of its operation
  int place_depth_ = 0;
  int64_t nodes_ = 0;
  std::unordered_map<std::string_view, Alias> aliases_;  // with their sigil
  std::vector<std::string_view> alias_order_;
  std::unordered_map<std::string_view, Definition> values_;
  std::vector<std::pair<std::string_view, Definition>> undo_;  // neither: was undefined
  std::unordered_map<std::string_view, const Type*> tensor_types_;
  const Type* elements_[kDTypeCount] = {};
  const Attr* bools_[2] = {};
  size_t line_offset_ = 0, line_start_ = 0;  // LineOf goes on from here
  int32_t line_ = 1;
};

template <class Fn>
Status TextReader::List(char open, char close, Fn&& item) {
  TRY(Expect(open));
  if (Take(close)) return {};
  do {
    TRY(item());
  } while (Take(','));
  return Expect(close);
}

}  // namespace weft::hlo::mlir
