// From a Tree to a module, inside: the state of one conversion, and the handlers of operations, one
// file to_hlo_<family>.cc each. Instructions are made with the types that the file states; the
// verifier compares them with the inferred ones when the module is complete.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "hlo/dim_rule.h"
#include "hlo/import/tree.h"
#include "hlo/module.h"

namespace weft::hlo::mlir {

// One computation that is being filled, and what the values of the tree are in it.
struct Scope {
  Computation* computation = nullptr;
  Scope* parent = nullptr;  // of a region: the scope around it
  std::unordered_map<const Value*, Instruction*> values;
};

class Converter {
 public:
  Converter(const Tree& tree, Module& module) : tree_(tree), module_(module) {}

  Status ConvertModule();

  Module& module() { return module_; }
  Computation& computation() { return *scope_->computation; }
  const Operation* op() const { return op_; }

  // Operands.
  Result<Instruction*> Lookup(const Value& value);
  Result<Instruction*> Operand(const Operation& op, size_t i);
  // All of them, or `count` from `from` on.
  Result<std::vector<Instruction*>> Operands(const Operation& op, size_t from = 0,
                                             size_t count = SIZE_MAX);

  // Types.
  Result<Shape> ShapeOf(const Type* type);
  Result<Shape> ResultShape(const Operation& op);  // a tuple unless there is one result

  // Instructions, at the end of the current computation, with the metadata of the operation.
  Instruction* Emit(Op hlo_op, std::span<Instruction* const> operands, Attrs attrs, Shape shape);
  Instruction* Emit(Op hlo_op, std::initializer_list<Instruction*> operands, Attrs attrs,
                    Shape shape) {
    return Emit(hlo_op, std::span(operands.begin(), operands.size()), std::move(attrs),
                std::move(shape));
  }
  Instruction* EmitTuple(std::span<Instruction* const> elements);
  Instruction* EmitElement(Instruction* tuple, int64_t index);
  Result<Instruction*> EmitBroadcast(Instruction* operand, const Shape& shape, const Ints& dims);
  // The value itself or, of several, a tuple.
  Instruction* Pack(std::span<Instruction* const> values);

  // The results of `op` are `value`: itself, or the elements of the tuple. Discardable attributes
  // (shardings, frontend attributes) of the operation go to it.
  Status Bind(const Operation& op, Instruction* value);
  // As Bind, for operations whose instruction is an array of its own each.
  Status BindEach(const Operation& op, std::span<Instruction* const> values);
  // The whole of many handlers: one instruction with all operands and the stated result.
  Status EmitAndBind(const Operation& op, Op hlo_op, Attrs attrs);

  // Regions.
  // Values that the region uses and the scope around it defines; constant expressions left out.
  Result<std::vector<const Value*>> Captures(std::span<const Region* const> regions);
  // A computation whose parameters are the block's arguments; no captures but constants.
  Result<Computation*> RegionFunction(const Operation& op, size_t region, std::string_view name);
  // A computation with one parameter, the tuple of arguments and captures (or the only one).
  Result<Computation*> RegionOfState(const Operation& op, size_t region, std::string_view name,
                                     std::span<const Value* const> captures);
  // The body of a loop returns the captured part of its state too.
  Status ReturnCaptures(Computation* body, size_t carried, size_t captured);
  // Converts the operations of the only block into the current computation and returns the operands
  // of its terminator.
  Result<std::vector<Instruction*>> InlineBlock(const Operation& op, size_t region,
                                                std::span<Instruction* const> arguments);
  // The computation of a function, converted when first asked for.
  Result<Computation*> Function(std::string_view name);
  const Operation* FindFunction(std::string_view name) const;

  // The elements of an integer tensor that depends on constants alone; nullopt when it does not.
  Result<std::optional<Ints>> ConstantInts(Instruction* value);

  // Meshes and shardings.
  Result<Mesh> MeshOf(const Attr& mesh_or_name);
  Result<Sharding> ShardingOf(const Attr& attr);  // sdy.sharding, or HLO text
  Result<DimRule> ShardingRuleOf(const Attr& attr);
  Result<std::vector<AxisRef>> AxesOf(const Mesh& mesh, const Attr& list);

 private:
  Status IndexSymbols();
  Status ConvertEntry(const Operation& function);
  Status ConvertOperations(const Block& block);
  Status ConvertOperation(const Operation& op);
  Status ConvertBody(const Block& block, Computation* into, Scope* parent, bool state,
                     std::span<const Value* const> captures);
  Result<const Block*> OnlyBlock(const Operation& op, size_t region);
  Instruction* CloneConstant(Instruction* value, int depth);
  bool IsConstantExpression(const Instruction* value, int depth) const;
  Status ApplyDiscardable(const Operation& op, Instruction* value);
  Status EntryAttributes(const Operation& function);
  Status ArgumentAttributes(const Attr& all);
  Status ResultAttributes(const Attr& all, size_t count);
  Status ModuleAttributes();
  void SetEntryLists(std::string_view prefix, const Attr& all);
  Error Place(Error error, const Operation& op);
  const Metadata* MetadataOf(const Location* location);
  int32_t FrameId(const Frame* frame);
  int32_t StringId(std::vector<std::string>& list,
                   std::unordered_map<std::string_view, int32_t>& ids, std::string_view text);
  std::string NextName(std::string_view base) { return StrCat(base, ".", module_.id_limit()); }

  const Tree& tree_;
  Module& module_;
  Scope* scope_ = nullptr;
  const Operation* op_ = nullptr;  // being converted
  int depth_ = 0;                  // of regions and functions
  struct FunctionState {
    const Operation* op = nullptr;
    Computation* computation = nullptr;
    bool open = false;
  };
  std::unordered_map<std::string_view, FunctionState> functions_;
  std::unordered_map<std::string_view, const Attr*> meshes_;
  const Location* last_location_ = nullptr;
  Metadata last_metadata_;  // of that
  std::unordered_map<const Frame*, int32_t> frames_;
  std::unordered_map<std::string_view, int32_t> files_, frame_functions_;
  std::unordered_map<const Computation*, std::unordered_map<const Instruction*, Instruction*>>
      cloned_;
};

using Handler = Status (*)(Converter&, const Operation&);
struct HandlerRow {
  std::string_view name;
  Handler handler;
};
Handler FindHandler(std::string_view name);  // null: not an operation we know

std::span<const HandlerRow> ElementwiseHandlers();
std::span<const HandlerRow> ShapeHandlers();
std::span<const HandlerRow> DynamicHandlers();
std::span<const HandlerRow> ContractionHandlers();
std::span<const HandlerRow> ReductionHandlers();
std::span<const HandlerRow> IndexHandlers();
std::span<const HandlerRow> ControlHandlers();
std::span<const HandlerRow> CollectiveHandlers();
std::span<const HandlerRow> CallHandlers();
std::span<const HandlerRow> ShardyHandlers();
std::span<const HandlerRow> SpecialFunctionHandlers();

// A row for an operation that is one instruction without attributes of its own.
template <Op kHloOp>
Status Plain(Converter& c, const Operation& op) {
  return c.EmitAndBind(op, kHloOp, Attrs(GetOp(kHloOp).attrs));
}

}  // namespace weft::hlo::mlir
