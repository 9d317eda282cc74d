// The reader of HLO text: recursive descent over Lexer. Its methods are spread over parse_*.cc by
// subject.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "hlo/module.h"
#include "hlo/text/lexer.h"
#include "hlo/text/name_table.h"

namespace weft::hlo::text {

inline constexpr int kMaxDepth = 400;                                 // of anything that nests
inline constexpr int64_t kMaxFillerBytes = int64_t{64} << 20;         // of one elided constant
inline constexpr int64_t kMaxModuleFillerBytes = int64_t{256} << 20;  // of all in a module

// Attributes that any instruction may have.
struct CommonAttrs {
  Metadata metadata;
  InstructionExtras extras;  // control successors unused
  bool has_metadata = false, has_extras = false;
  uint32_t seen = 0;         // of the above
  uint32_t seen_fields = 0;  // of the op's own fields, by position
};

// The names of one computation while it is read.
struct Scope {
  Computation* computation = nullptr;
  Scope* outer = nullptr;
  NameTable<Instruction> names;
  std::vector<std::pair<Instruction*, std::string>> unnamed;  // and the name they would like
  std::map<std::pair<Instruction*, int64_t>, Instruction*> tuple_elements;  // of `x#1`
};

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text) {}

  // parse_module.cc
  Result<std::unique_ptr<Module>> ReadModule();
  Status ReadEnd();
  // parse_shape.cc
  Status ReadShape(Shape& shape);
  // parse_sharding.cc
  Status ReadSharding(Sharding& sharding);
  Status ReadReplicaGroups(ReplicaGroups& groups);
  // parse_literal.cc
  Status ReadLiteral(const Shape& shape, Literal& literal, bool* elided);

 private:
  // parse_basics.cc: errors, tokens, numbers, lists
  template <class... Args>
  std::unexpected<Error> FailAt(const char* at, const Args&... args) {
    return Located(at, StrCat(args...));
  }
  template <class... Args>
  std::unexpected<Error> Fail(const Args&... args) {
    return Located(lexer_.token().begin, StrCat(args...));
  }
  std::unexpected<Error> Located(const char* at, std::string message);
  std::unexpected<Error> Expected(std::string_view what);  // "expected X, found Y"
  std::unexpected<Error> TooDeep();
  std::string Found() const;
  Tok kind() const { return lexer_.token().kind; }
  bool IsWord(std::string_view word) const {
    return kind() == Tok::kIdent && lexer_.token().text == word;
  }
  bool Eat(Tok tok) {
    if (kind() != tok) return false;
    lexer_.Next();
    return true;
  }
  bool EatWord(std::string_view word) {
    if (!IsWord(word)) return false;
    lexer_.Next();
    return true;
  }
  Status Expect(Tok tok);
  Status ReadInt(int64_t& value);
  Status ReadInt32(int32_t& value);
  Status ReadDouble(double& value);
  Status ReadBool(bool& value);
  Status ReadString(std::string& value);
  Status ReadName(std::string_view& name, std::string_view what);
  Status ReadAttrName(std::string_view& name);
  Status ReadIntList(Tok open, Tok close, std::vector<int64_t>& list);
  Status ReadIntListList(std::vector<std::vector<int64_t>>& lists);
  Status ReadIndex(ShapeIndex& index);
  Status ReadStringOrDict(std::string& value, bool& is_dict);
  template <class F>
  Status ReadList(Tok open, Tok close, F&& item) {
    TRY(Expect(open));
    if (Eat(close)) return {};
    do {
      TRY(item());
    } while (Eat(Tok::kComma));
    return Expect(close);
  }

  // parse_module.cc
  Status ReadHeader();
  Status ReadHeaderAttribute(std::string_view name);
  Status ReadInputOutputAlias();
  Status ReadBufferDonors();
  Status ReadEntryLayout();
  Status ReadBools(std::vector<bool>& bools);
  Status ReadStackFrames();
  Status ReadComputations();
  Status ReadSingleInstruction();
  Status CheckAliases();
  Status CheckAsyncCallers();
  void NameComputations();

  // parse_computation.cc
  Status ReadComputation();
  Status ReadBody(Computation* computation);
  Status ReadInlineBody(std::string wish, Computation*& computation);
  Status FinishBody(Scope& scope, const char* at);
  Status ReadInstruction();
  Status ReadRightHandSide(std::string_view name, const char* at, bool attributes,
                           Instruction*& result);
  struct Pending;  // an instruction being read
  Status ReadParameterNumber(Pending& p);
  Status ReadConstantLiteral(Pending& p);
  Status CreateInstruction(Pending& p, Instruction*& result);
  Status InferMissingShape(Pending& p);
  bool TakeShapeNodes(int64_t nodes);
  Status ReadOpcode(Pending& p);
  Status ReadOperands(std::vector<Instruction*>& operands);
  Status ReadOperand(Instruction*& operand);
  Status ReadTupleAccess(Instruction*& operand, const char* at);
  bool AtShape();

  // parse_check.cc
  Status CheckInstruction(const Pending& p);
  std::string WhatIsWrong(const Pending& p) const;

  // parse_async.cc
  Status ReadAsync(Pending& p);
  Status WrapAsync(Pending& p);
  Status InheritAsync(Pending& p);

  // parse_attributes.cc
  Status ReadAttributes(Op op, Attrs& attrs, Attrs* outer, CommonAttrs& common, const char* op_at,
                        bool allowed);
  Status ReadCommonAttribute(int which, CommonAttrs& common);
  Status ReadDomain(DomainAttrs& domain);
  Status ReadFrontendAttributes(FrontendAttributes& attributes);
  Status ReadStatistics(Statistics& statistics);
  Status ReadControlPredecessors(std::vector<Instruction*>& predecessors);
  void ApplyCommon(CommonAttrs&& common, Instruction* instruction);

  // parse_attr_values.cc
  Status ReadField(const FieldRef& field);
  Status ReadEnum(const FieldRef& field);
  Status ReadPrecisions(std::vector<Precision>& list);
  Status ReadSizes(std::vector<int64_t>& sizes);  // 3x3
  Status ReadPad(Padding& padding, bool interior_allowed);
  Status ReadWindow(Window& window);
  Status ReadConvDims(ConvDims& dims);
  Status ReadSliceDims(SliceDims& dims);
  Status ReadIntPairs(IntPairs& pairs);
  Status ReadOperandAliases(OperandAliases& aliases);
  Status ReadResultAccuracy(ResultAccuracy& accuracy);
  Status ReadSparsity(SparsityConfig& config);
  Status ReadTensorSparsity(TensorSparsity& sparsity);
  Status ReadComputationRef(std::string_view attribute, Computation*& computation);

  // parse_shape.cc
  Status ReadDims(Shape& shape);
  Status ReadLayout(Layout& layout);
  Status ReadLayoutExtras(LayoutExtras& extras);
  Status ReadLayoutInt(std::string_view word, int64_t& value);
  Status ReadTiles(std::vector<Tile>& tiles);
  Status ReadDimLevels(std::vector<DimLevel>& levels);
  Status ReadSplits(std::vector<SplitConfig>& splits);
  Status ReadUnsignedType(DType& type);

  // parse_sharding.cc
  Status ReadSingleSharding(Sharding& sharding);  // after `{`, through `}`
  Status ReadShardingPart(Sharding& sharding, bool& has_kind, bool& has_device);
  Status ReadNamedSharding(Sharding& sharding);
  Status ReadNamedShardingAttribute(Sharding& sharding);
  Status ReadMesh(Mesh& mesh);
  Status ReadAxisRef(const Mesh& mesh, AxisRef& axis);
  Status ReadAxisRefs(const Mesh& mesh, std::vector<AxisRef>& axes);
  Status ReadIota(IotaDevices& iota);
  Status ReadReductionKind(ReductionKind& kind);

  // parse_metadata.cc
  Status ReadMetadata(Metadata& metadata);
  Status ReadMetadataList(std::vector<Metadata>& list);
  Status ReadOrigin(OriginNode& origin);
  Status ReadOriginTree(OriginNode& node);
  Status ReadOriginLeaf(OriginNode& node);

  // parse_literal.cc
  Status ReadTypedLiteral(Literal& literal);
  bool TakeFiller(const Shape& shape);
  Status FillElided(const Shape& shape, Literal& literal);

  Lexer lexer_;
  int depth_ = 0;
  std::unique_ptr<Module> module_;
  Scope* scope_ = nullptr;
  bool single_ = false;       // one instruction: unknown operands become parameters
  std::string_view current_;  // name of the instruction being read
  int64_t single_parameters_ = 0;
  int64_t inferred_nodes_ = 0;  // of shapes that were not written
  int64_t filler_bytes_ = 0, filler_seed_ = 0;
  NameTable<Computation> computations_;
  std::vector<std::pair<Computation*, std::string>> unnamed_computations_;
  std::unordered_set<const Computation*> async_computations_;
};

class DepthGuard {
 public:
  explicit DepthGuard(int& depth) : depth_(depth) { ++depth_; }
  ~DepthGuard() { --depth_; }
  bool ok() const { return depth_ <= kMaxDepth; }

 private:
  int& depth_;
};

}  // namespace weft::hlo::text
