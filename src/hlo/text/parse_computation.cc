// Computations, instructions and operands.
#include <algorithm>
#include <unordered_map>

#include "hlo/text/parse_pending.h"
#include "hlo/text/parser.h"
#include "hlo/text/printer.h"
#include "hlo/text/suggest.h"
#include "hlo/verify.h"

namespace weft::hlo::text {
namespace {

constexpr int64_t kFreeShapeNodes = 100000;

// Arrays and tuples in a shape.
int64_t CountNodes(const Shape& shape) {
  int64_t n = 1;
  for (const Shape& element : shape.elements_of_tuple()) n += CountNodes(element);
  return n;
}

int NestingOf(const Shape& shape) {
  int most = 0;
  for (const Shape& element : shape.elements_of_tuple()) most = std::max(most, NestingOf(element));
  return most + 1;
}

std::vector<const Computation*> CalledBy(const Attrs& attrs) {
  std::vector<const Computation*> called;
  for (const FieldRef& f : attrs.Fields()) {
    if (f.type == FieldType::kComputation && f.As<Computation*>() != nullptr) {
      called.push_back(f.As<Computation*>());
    } else if (f.type == FieldType::kComputationList) {
      for (const Computation* c : f.As<std::vector<Computation*>>()) called.push_back(c);
    }
  }
  return called;
}

}  // namespace

Status Parser::ReadComputation() {
  const char* entry_at = lexer_.token().begin;
  bool is_entry = EatWord("ENTRY");
  if (is_entry && module_->entry() != nullptr) return FailAt(entry_at, "a second ENTRY");
  const char* name_at = lexer_.token().begin;
  std::string_view name;
  TRY(ReadName(name, "a computation"));
  Computation* computation = module_->AddComputation(std::string(name));

  const char* signature_at = lexer_.token().begin;
  bool has_signature = kind() == Tok::kLeftParen;
  Shape result;
  if (has_signature) {
    TRY(ReadList(Tok::kLeftParen, Tok::kRightParen, [&]() -> Status {
      std::string_view parameter;
      Shape shape;
      TRY(ReadName(parameter, "a parameter name"));
      TRY(ReadShape(shape));
      return {};
    }));
    TRY(Expect(Tok::kArrow));
    TRY(ReadShape(result));
  }
  TRY(ReadBody(computation));
  if (has_signature) {
    const Instruction* root = computation->root();
    if (!Shape::CompatibleIgnoringDynamic(root->shape(), result)) {
      return FailAt(signature_at, "the signature of ", name, " says ",
                    result.ToStringWithoutLayout(), ", but its root ", root->name(), " is ",
                    root->shape().ToStringWithoutLayout());
    }
  }
  if (Eat(Tok::kComma)) {
    std::string_view attribute;
    TRY(ReadAttrName(attribute));
    if (attribute != "execution_thread") {
      return Fail("unknown attribute ", attribute, "; allowed: execution_thread");
    }
    std::string thread;
    TRY(ReadString(thread));
    if (thread != "main") computation->set_execution_thread(std::move(thread));
  }
  if (is_entry) module_->set_entry(computation);
  if (!computations_.Insert(name, computation)) {
    return FailAt(name_at, "a second computation named ", name);
  }
  return {};
}

Status Parser::ReadBody(Computation* computation) {
  const char* at = lexer_.token().begin;
  TRY(Expect(Tok::kLeftBrace));
  Scope scope;
  scope.computation = computation;
  scope.outer = scope_;
  scope_ = &scope;
  do {
    Status status = ReadInstruction();
    if (!status) {
      scope_ = scope.outer;
      return status;
    }
  } while (!Eat(Tok::kRightBrace));
  scope_ = scope.outer;
  return FinishBody(scope, at);
}

Status Parser::ReadInlineBody(std::string wish, Computation*& computation) {
  // Before the computation that calls it.
  computation = module_->AddComputation("", scope_->computation);
  std::string_view current = current_;
  TRY(ReadBody(computation));
  current_ = current;
  unnamed_computations_.emplace_back(computation, std::move(wish));
  return {};
}

Status Parser::FinishBody(Scope& scope, const char* at) {
  Computation* c = scope.computation;
  if (c->root() == nullptr) c->set_root(c->last());
  for (size_t i = 0; i < c->parameters().size(); ++i) {
    if (c->parameters()[i] == nullptr) {
      return FailAt(at, "computation ", c->name(), " has no parameter ", i);
    }
  }
  std::unordered_map<std::string, int64_t> next;  // last number tried
  for (auto& [instruction, wish] : scope.unnamed) {
    std::string name = wish;
    int64_t& n = next[wish];
    if (n == 0) n = 1;
    while (scope.names.Find(name) != nullptr) name = StrCat(wish, ".", ++n);
    instruction->set_name(std::move(name));
    scope.names.Insert(instruction->name(), instruction);
  }
  return {};
}

Status Parser::ReadInstruction() {
  const char* root_at = lexer_.token().begin;
  bool is_root = IsWord("ROOT");
  if (is_root) lexer_.Next();
  const char* at = lexer_.token().begin;
  std::string_view name;
  TRY(ReadName(name, "an instruction"));
  TRY(Expect(Tok::kEqual));
  if (is_root && scope_->computation->root() != nullptr) {
    return FailAt(root_at, "a second ROOT in one computation");
  }
  current_ = name;
  Instruction* instruction = nullptr;
  TRY(ReadRightHandSide(name, at, /*attributes=*/true, instruction));
  if (is_root) scope_->computation->set_root(instruction);
  return {};
}

Status Parser::ReadRightHandSide(std::string_view name, const char* at, bool attributes,
                                 Instruction*& result) {
  DepthGuard depth(depth_);
  if (!depth.ok()) return TooDeep();
  Pending p;
  p.name = name;
  p.name_at = at;
  p.allow_attributes = attributes;
  if (AtShape()) {
    p.has_shape = true;
    TRY(ReadShape(p.shape));
  }
  TRY(ReadOpcode(p));
  if (!p.has_shape && HasTrait(p.op, kShapeWritten)) {
    return FailAt(p.op_at, Mnemonic(p.op), ": the result shape has to be written");
  }
  if (p.op == Op::kParameter) {
    TRY(ReadParameterNumber(p));
  } else if (p.op == Op::kConstant) {
    TRY(ReadConstantLiteral(p));
  } else {
    TRY(ReadOperands(p.operands));
  }
  if (p.attrs.Is<AsyncAttrs>()) {
    TRY(ReadAsync(p));
  } else {
    TRY(ReadAttributes(p.op, p.attrs, nullptr, p.common, p.op_at, attributes));
    TRY(CheckInstruction(p));
    if (!p.has_shape) TRY(InferMissingShape(p));
  }
  return CreateInstruction(p, result);
}

Status Parser::CreateInstruction(Pending& p, Instruction*& result) {
  Scope& scope = *scope_;
  if (!p.common.extras.parameter_replication.empty()) {
    Status status = CheckReplication(p.shape, p.common.extras.parameter_replication);
    if (!status) return FailAt(p.op_at, status.error().message());
  }
  std::string wish;
  if (p.name.empty()) wish = StrCat(Mnemonic(p.op), ".anon");
  result = scope.computation->Add(p.op, std::string(p.name), std::move(p.shape), p.operands,
                                  std::move(p.attrs));
  ApplyCommon(std::move(p.common), result);
  if (p.name.empty()) {
    scope.unnamed.emplace_back(result, std::move(wish));
  } else if (!scope.names.Insert(p.name, result)) {
    return FailAt(p.name_at, "a second instruction named ", p.name, " in computation ",
                  scope.computation->name());
  }
  return {};
}

Status Parser::ReadOpcode(Pending& p) {
  p.op_at = lexer_.token().begin;
  if (kind() != Tok::kIdent) return Expected("an opcode");
  std::string_view word = lexer_.token().text;
  if (std::optional<Op> op = FindOp(word)) {
    p.op = *op;
  } else {
    static constexpr std::pair<std::string_view, Op> kSugar[] = {
        {"-start", Op::kAsyncStart}, {"-update", Op::kAsyncUpdate}, {"-done", Op::kAsyncDone}};
    for (const auto& [suffix, async] : kSugar) {
      if (!word.ends_with(suffix)) continue;
      p.wrapped = FindOp(word.substr(0, word.size() - suffix.size()));
      if (p.wrapped && !CanWrapAsync(*p.wrapped)) p.wrapped.reset();
      p.op = async;
    }
    if (!p.wrapped && lexer_.Peek() == Tok::kLeftSquare) {
      return Fail("unknown element type ", word);
    }
    if (!p.wrapped && ParseDType(word)) return Fail("expected '[' after ", word);
    if (!p.wrapped) {
      Error error = Fail("unknown opcode ", word).error();
      std::vector<std::string_view> names;
      for (int i = 0; i < kOpCount; ++i) names.push_back(Mnemonic(static_cast<Op>(i)));
      std::string_view near = Nearest(word, names);
      if (!near.empty()) error.Hint(StrCat("did you mean ", near, "?"));
      return std::unexpected(std::move(error));
    }
  }
  p.attrs = Attrs(GetOp(p.op).attrs);
  lexer_.Next();
  return {};
}

Status Parser::ReadParameterNumber(Pending& p) {
  TRY(Expect(Tok::kLeftParen));
  const char* at = lexer_.token().begin;
  int64_t number = 0;
  TRY(ReadInt(number));
  // Numbers are contiguous and each takes at least this much text.
  int64_t limit = (lexer_.text_end() - lexer_.text_begin()) / 12 + 1;
  if (number < 0 || number >= limit) return FailAt(at, "no such parameter number: ", number);
  std::span<Instruction* const> known = scope_->computation->parameters();
  if (number < static_cast<int64_t>(known.size()) && known[number] != nullptr) {
    return FailAt(at, "a second parameter(", number, ")");
  }
  p.attrs = Attrs(ParameterAttrs{.number = number});
  return Expect(Tok::kRightParen);
}

Status Parser::ReadConstantLiteral(Pending& p) {
  TRY(Expect(Tok::kLeftParen));
  ConstantAttrs attrs;
  TRY(ReadLiteral(p.shape, attrs.literal, &attrs.elided));
  p.attrs = Attrs(std::move(attrs));
  return Expect(Tok::kRightParen);
}

// Shapes that the text does not spell out may be as large as it, not more.
bool Parser::TakeShapeNodes(int64_t nodes) {
  if (nodes > 1) inferred_nodes_ += nodes;
  return inferred_nodes_ <= kFreeShapeNodes + (lexer_.text_end() - lexer_.text_begin());
}

Status Parser::InferMissingShape(Pending& p) {
  if (GetOp(p.op).infer == nullptr) {
    return FailAt(p.op_at, Mnemonic(p.op), ": no shape written, and none can be inferred yet");
  }
  // Tuples of tuples can grow without end in little text.
  int64_t nodes = 0;
  std::vector<const Shape*> shapes;
  shapes.reserve(p.operands.size());
  for (const Instruction* operand : p.operands) {
    shapes.push_back(&operand->shape());
    nodes += CountNodes(operand->shape());
  }
  for (const Computation* called : CalledBy(p.attrs)) nodes += CountNodes(called->root()->shape());
  if (!TakeShapeNodes(nodes)) {
    return FailAt(p.op_at, Mnemonic(p.op), ": the tuples that are inferred grow too large");
  }
  Result<Shape> shape = InferShape(p.op, shapes, p.attrs);
  if (!shape) {
    Error error = std::move(shape).error();
    lexer_.Locate(error, p.op_at);
    return std::unexpected(std::move(error));
  }
  p.shape = std::move(*shape);
  p.has_shape = true;
  if (NestingOf(p.shape) > kMaxDepth - 10) {
    return FailAt(p.op_at, Mnemonic(p.op), ": the tuples that are inferred nest too deep");
  }
  return {};
}

Status Parser::ReadOperands(std::vector<Instruction*>& operands) {
  return ReadList(Tok::kLeftParen, Tok::kRightParen,
                  [&]() -> Status { return ReadOperand(operands.emplace_back()); });
}

Status Parser::ReadOperand(Instruction*& operand) {
  const char* at = lexer_.token().begin;
  // The common case: a name.
  bool is_name = kind() == Tok::kName;
  Shape shape;
  bool has_shape = false;
  if (!is_name && AtShape()) {
    has_shape = true;
    TRY(ReadShape(shape));
    is_name = kind() == Tok::kName;
  }
  bool nameless = false;
  if (!is_name && kind() == Tok::kIdent) {
    Tok next = lexer_.Peek();
    if (next == Tok::kLeftParen) {
      lexer_.ResumeAt(at);
      return ReadRightHandSide("", at, /*attributes=*/false, operand);
    }
    is_name = true;
  }
  bool outermost = single_ && scope_->outer == nullptr;
  if (!is_name && has_shape && outermost) nameless = true;
  std::string_view name;
  if (!nameless) TRY(ReadName(name, "an operand"));
  operand = nameless ? nullptr : scope_->names.Find(name);
  if (operand == nullptr && outermost) {
    if (!has_shape) {
      return FailAt(at, "operand ", name, " has no shape, so it cannot become a parameter");
    }
    int64_t number = single_parameters_++;
    operand = scope_->computation->Add(Op::kParameter, std::string(name), shape, {},
                                       Attrs(ParameterAttrs{.number = number}));
    if (nameless) {
      scope_->unnamed.emplace_back(operand, StrCat("_", number));
    } else {
      scope_->names.Insert(name, operand);
    }
  }
  if (operand == nullptr) {
    Error error = FailAt(at, "no instruction named ", name, " stands before this one").error();
    std::vector<std::string_view> names;
    scope_->names.ForEachName([&](std::string_view n) {
      if (names.size() < 1000) names.push_back(n);
    });
    std::string_view near = Nearest(name, names);
    if (!near.empty()) error.Hint(StrCat("did you mean ", near, "?"));
    return std::unexpected(std::move(error));
  }
  while (kind() == Tok::kHash) TRY(ReadTupleAccess(operand, at));
  if (has_shape && !Shape::CompatibleIgnoringDynamic(shape, operand->shape())) {
    return FailAt(at, "operand ", operand->name(), " is written as ", shape.ToStringWithoutLayout(),
                  " but is ", operand->shape().ToStringWithoutLayout());
  }
  return {};
}

Status Parser::ReadTupleAccess(Instruction*& operand, const char* at) {
  lexer_.Next();
  int64_t index = 0;
  TRY(ReadInt(index));
  if (!operand->shape().IsTuple() || index < 0 || index >= operand->shape().tuple_size()) {
    return FailAt(at, "element ", index, " of ", operand->shape().ToStringWithoutLayout());
  }
  Instruction*& element = scope_->tuple_elements[{operand, index}];
  if (element == nullptr) {
    if (!TakeShapeNodes(CountNodes(operand->shape().tuple_element(index)))) {
      return FailAt(at, "too many elements of large tuples");
    }
    Instruction* const operands[] = {operand};
    element =
        scope_->computation->Add(Op::kGetTupleElement, "", operand->shape().tuple_element(index),
                                 operands, Attrs(GetTupleElementAttrs{.index = index}));
    std::string base = operand->name();
    // x#1#0: the element just made has no name yet.
    if (base.empty()) {
      auto& unnamed = scope_->unnamed;
      base =
          !unnamed.empty() && unnamed.back().first == operand ? unnamed.back().second : "element";
    }
    scope_->unnamed.emplace_back(element, StrCat(base, "_", index));
  }
  operand = element;
  return {};
}

}  // namespace weft::hlo::text
