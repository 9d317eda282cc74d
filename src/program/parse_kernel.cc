#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/str.h"
#include "program/parse.h"

namespace weft::program {

Result<uint64_t> ParseNumber(Lexer& lexer, DType dtype) {
  const Token token = lexer.peek();
  if (dtype == DType::kPred) {
    if (lexer.Accept("true")) return 1;
    if (lexer.Accept("false")) return 0;
    return lexer.Expected("true or false");
  }
  bool word = token.kind == TokenKind::kName && (token.text == "inf" || token.text == "nan");
  if (token.kind != TokenKind::kNumber && !word) return lexer.Expected("a value or a number");
  lexer.Next();
  if (IsFloat(dtype)) {
    std::optional<double> value = ParseDouble(token.text);
    if (!value) return lexer.Fail(token.pos, "'", token.text, "' is not a finite number");
    double d = dtype == DType::kF64 ? *value : static_cast<double>(static_cast<float>(*value));
    return std::bit_cast<uint64_t>(d);
  }
  std::optional<int64_t> value = ParseInt(token.text);
  if (dtype == DType::kU64 && !value) {
    uint64_t u = 0;
    const char* last = token.text.data() + token.text.size();
    auto [end, ec] = std::from_chars(token.text.data(), last, u);
    if (ec == std::errc() && end == last) return u;
  }
  if (!value || !FitsInteger(*value, dtype)) {
    return lexer.Fail(token.pos, "'", token.text, "' is not a number of type ", weft::Name(dtype));
  }
  return static_cast<uint64_t>(*value);
}

namespace {

class KernelParser {
 public:
  explicit KernelParser(Lexer& lexer) : lexer_(lexer) {}

  Result<Kernel> Parse() {
    kernel_.pos = lexer_.peek().pos;
    kernel_.name = TRY(lexer_.Name("a kernel name"));
    TRY(lexer_.Expect("("));
    while (!lexer_.Is(")")) {
      if (kernel_.num_params > 0) TRY(lexer_.Expect(","));
      TRY(ParseParam());
    }
    TRY(lexer_.Expect(")"));
    TRY(lexer_.Expect("{"));
    while (true) {
      if (lexer_.Is("}") && blocks_.empty()) break;
      TRY(ParseStatement());
    }
    lexer_.Next();
    return std::move(kernel_);
  }

 private:
  Status ParseParam() {
    Access access = Access::kRead;
    if (lexer_.Accept("write")) {
      access = Access::kWrite;
    } else if (lexer_.Accept("update")) {
      access = Access::kReadWrite;
    } else if (!lexer_.Accept("read")) {
      return lexer_.Expected("read, write or update");
    }
    TRY(ParseMemory(access));
    kernel_.num_params++;
    return {};
  }

  // name: dtype[count] [align n]
  Result<int32_t> ParseMemory(Access access) {
    Memory memory;
    memory.access = access;
    memory.pos = lexer_.peek().pos;
    memory.name = TRY(lexer_.Name("a memory name"));
    int32_t id = static_cast<int32_t>(kernel_.memories.size());
    if (!memories_.emplace(memory.name, id).second) {
      return lexer_.Fail(memory.pos, "memory '", memory.name, "' is defined twice");
    }
    TRY(lexer_.Expect(":"));
    Position pos = lexer_.peek().pos;
    std::string dtype = TRY(lexer_.Name("an element type"));
    memory.dtype = ParseDType(dtype).value_or(DType::kInvalid);
    if (!IsArrayType(memory.dtype)) return lexer_.Fail(pos, "unknown element type '", dtype, "'");
    TRY(lexer_.Expect("["));
    memory.count = TRY(lexer_.Size("a number of elements"));
    TRY(lexer_.Expect("]"));
    if (lexer_.Accept("align")) memory.align = TRY(lexer_.Size("an alignment in bytes"));
    kernel_.memories.push_back(std::move(memory));
    return id;
  }

  Status ParseStatement() {
    Instr instr;
    instr.pos = lexer_.peek().pos;
    if (lexer_.peek().kind == TokenKind::kValue) {
      std::string name = TRY(lexer_.ValueName());
      TRY(lexer_.Expect("="));
      TRY(ParseComputation(instr));
      Type type = instr.type;
      if (Info(instr.op).cls == OpClass::kCompare) type.dtype = DType::kPred;
      TRY(DefineResult(instr, name, type));
    } else if (lexer_.Accept("}")) {
      TRY(ParseClose(instr));
    } else if (lexer_.Accept("store")) {
      instr.op = Op::kStore;
      TRY(ParseAccess(instr));
    } else if (lexer_.Accept("atomic")) {
      TRY(ParseAtomic(instr));
    } else if (lexer_.Accept("array")) {
      instr.op = Op::kArray;
      instr.memory = TRY(ParseMemory(Access::kReadWrite));
      kernel_.memories[instr.memory].per_thread = lexer_.Accept("per_thread");
    } else if (lexer_.Accept("if")) {
      instr.op = Op::kIf;
      if (lexer_.peek().kind == TokenKind::kName) {
        if (std::optional<Branch> branch = ParseBranch(lexer_.peek().text)) {
          instr.branch = *branch;
          lexer_.Next();
        }
      }
      instr.args.push_back(TRY(ParseOperand({DType::kPred, 1})));
      TRY(lexer_.Expect("{"));
      blocks_.push_back(Op::kIf);
    } else {
      std::optional<LoopKind> loop;
      if (lexer_.peek().kind == TokenKind::kName) loop = ParseLoopKind(lexer_.peek().text);
      if (!loop) return lexer_.Expected("a statement");
      lexer_.Next();
      instr.op = Op::kLoop;
      instr.loop = *loop;
      TRY(ParseLoop(instr));
      blocks_.push_back(Op::kLoop);
    }
    kernel_.code.push_back(std::move(instr));
    return {};
  }

  Status DefineResult(Instr& instr, const std::string& name, Type type) {
    ValueId id = static_cast<ValueId>(kernel_.values.size());
    if (!names_.emplace(name, id).second) {
      return lexer_.Fail(instr.pos, "value '%", name, "' is defined twice");
    }
    // Numbers are given anew by the printer.
    bool number =
        std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
    kernel_.values.push_back({type, number ? "" : name});
    instr.results.push_back(id);
    return {};
  }

  Result<Type> ParseTypeName() {
    if (lexer_.peek().kind != TokenKind::kName) return lexer_.Expected("a type");
    std::optional<Type> type = program::ParseType(lexer_.peek().text);
    if (!type) return lexer_.Expected("a type");
    lexer_.Next();
    return *type;
  }

  Result<ValueId> ParseOperand(Type type) {
    if (lexer_.peek().kind == TokenKind::kValue) {
      Position pos = lexer_.peek().pos;
      std::string name = TRY(lexer_.ValueName());
      auto it = names_.find(name);
      if (it == names_.end()) return lexer_.Fail(pos, "undefined value '%", name, "'");
      return it->second;
    }
    if (!IsComputeType(type.dtype)) {
      return lexer_.Fail(lexer_.peek().pos, "a constant cannot have type ", type);
    }
    uint64_t bits = TRY(ParseNumber(lexer_, type.dtype));
    return ConstantOf(type, bits);
  }

  ValueId ConstantOf(Type type, uint64_t bits) {
    auto key = std::make_pair(std::make_pair(static_cast<int>(type.dtype), type.lanes), bits);
    auto [it, added] = constants_.emplace(key, static_cast<ValueId>(kernel_.values.size()));
    if (added) kernel_.values.push_back({type, "", true, bits});
    return it->second;
  }

  Status ParseComputation(Instr& instr) {
    const Token token = lexer_.peek();
    std::optional<Op> op;
    if (token.kind == TokenKind::kName) op = ParseOp(token.text);
    bool computes = op && Info(*op).cls != OpClass::kControl &&
                    (Info(*op).cls != OpClass::kMemory || *op == Op::kLoad);
    if (!computes) return lexer_.Expected("an operation");
    lexer_.Next();
    instr.op = *op;
    if (*op == Op::kLoad) return ParseAccess(instr);
    if (*op == Op::kNarrow) {
      Type format = TRY(ParseTypeName());
      instr.format = format.dtype;
    }
    instr.nowrap = lexer_.Accept("nowrap");
    instr.rounded = lexer_.Accept("rounded");
    instr.type = TRY(ParseTypeName());
    Type operand = instr.type;
    bool from = *op == Op::kCast || *op == Op::kBitcast || *op == Op::kExtract ||
                *op == Op::kShuffle || *op == Op::kAny;
    if (from) {
      TRY(lexer_.Expect("from"));
      operand = TRY(ParseTypeName());
    }
    if (*op == Op::kSplat) operand.lanes = 1;
    for (int i = 0; i < Info(*op).arity; ++i) {
      if (i > 0) TRY(lexer_.Expect(","));
      Position pos = lexer_.peek().pos;
      bool condition = *op == Op::kSelect && i == 0;
      ValueId id = TRY(ParseOperand(condition ? Type{DType::kPred, operand.lanes} : operand));
      if (from && kernel_.type(id) != operand) {
        return lexer_.Fail(pos, "operand has type ", kernel_.type(id), ", not ", operand);
      }
      instr.args.push_back(id);
    }
    if (*op == Op::kExtract || *op == Op::kShuffle) TRY(ParseLanes(instr));
    return {};
  }

  Status ParseLanes(Instr& instr) {
    TRY(lexer_.Expect("["));
    do {
      Position pos = lexer_.peek().pos;
      int64_t lane = TRY(lexer_.Size("a lane number"));
      if (lane >= 2 * kMaxLanes || instr.lanes.size() >= static_cast<size_t>(kMaxLanes)) {
        return lexer_.Fail(pos, "too many lanes");
      }
      instr.lanes.push_back(static_cast<int32_t>(lane));
    } while (lexer_.Accept(","));
    return lexer_.Expect("]");
  }

  // OP TYPE memory[index], value [mask m]
  Status ParseAtomic(Instr& instr) {
    std::optional<Op> op;
    if (lexer_.peek().kind == TokenKind::kName) op = ParseOp(lexer_.peek().text);
    if (!op) return lexer_.Expected("what the atomic does");
    lexer_.Next();
    instr.op = Op::kAtomic;
    instr.atomic = *op;
    return ParseAccess(instr);
  }

  // TYPE memory[index] [, value] [mask m] [align n]
  Status ParseAccess(Instr& instr) {
    instr.type = TRY(ParseTypeName());
    Position pos = lexer_.peek().pos;
    std::string name = TRY(lexer_.Name("a memory name"));
    auto it = memories_.find(name);
    if (it == memories_.end()) return lexer_.Fail(pos, "undefined memory '", name, "'");
    instr.memory = it->second;
    TRY(lexer_.Expect("["));
    instr.args.push_back(TRY(ParseOperand({DType::kS64, 1})));
    TRY(lexer_.Expect("]"));
    if (instr.op != Op::kLoad) {
      TRY(lexer_.Expect(","));
      instr.args.push_back(TRY(ParseOperand(instr.type)));
    }
    if (lexer_.Accept("mask")) {
      instr.args.push_back(TRY(ParseOperand({DType::kPred, instr.type.lanes})));
    }
    if (lexer_.Accept("align")) {
      pos = lexer_.peek().pos;
      int64_t align = TRY(lexer_.Size("an alignment in bytes"));
      if (align > 1 << 20) return lexer_.Fail(pos, "alignment ", align, " is too large");
      instr.align = static_cast<int32_t>(align);
    }
    return {};
  }

  // KIND %i[: TYPE] = begin..end [step s] [carry %x: TYPE = init, ...] {
  Status ParseLoop(Instr& instr) {
    std::string counter = TRY(lexer_.ValueName());
    instr.type = {DType::kS64, 1};
    if (lexer_.Accept(":")) instr.type = TRY(ParseTypeName());
    TRY(lexer_.Expect("="));
    instr.args.push_back(TRY(ParseOperand(instr.type)));
    TRY(lexer_.Expect(".."));
    instr.args.push_back(TRY(ParseOperand(instr.type)));
    if (lexer_.Accept("step")) {
      instr.args.push_back(TRY(ParseOperand(instr.type)));
    } else {
      if (!IsInteger(instr.type.dtype)) return lexer_.Expected("'step'");
      instr.args.push_back(ConstantOf(instr.type, 1));
    }
    std::vector<std::pair<std::string, Type>> carried;
    if (lexer_.Accept("carry")) {
      do {
        std::string name = TRY(lexer_.ValueName());
        TRY(lexer_.Expect(":"));
        Type type = TRY(ParseTypeName());
        TRY(lexer_.Expect("="));
        instr.args.push_back(TRY(ParseOperand(type)));
        carried.emplace_back(std::move(name), type);
      } while (lexer_.Accept(","));
    }
    TRY(lexer_.Expect("{"));
    TRY(DefineResult(instr, counter, instr.type));
    for (auto& [name, type] : carried) TRY(DefineResult(instr, name, type));
    return {};
  }

  // } [yield v, ...] [-> %r, ...]   or   } [yield v, ...] else {
  Status ParseClose(Instr& instr) {
    if (blocks_.empty()) return lexer_.Fail(instr.pos, "'}' without a block");
    if (lexer_.Accept("yield")) {
      do {
        if (lexer_.peek().kind == TokenKind::kValue) {
          instr.args.push_back(TRY(ParseOperand({})));
        } else {
          Type type = TRY(ParseTypeName());
          instr.args.push_back(TRY(ParseOperand(type)));
        }
      } while (lexer_.Accept(","));
    }
    if (blocks_.back() == Op::kIf && lexer_.Accept("else")) {
      instr.op = Op::kElse;
      blocks_.back() = Op::kElse;
      return lexer_.Expect("{");
    }
    if (blocks_.back() == Op::kLoop && lexer_.Accept("combine")) return ParseCombine(instr);
    instr.op = Op::kEnd;
    blocks_.pop_back();
    if (!lexer_.Accept("->")) return {};
    size_t i = 0;
    do {
      if (i >= instr.args.size()) return lexer_.Expected("as many results as yielded values");
      std::string name = TRY(lexer_.ValueName());
      Type type = kernel_.type(instr.args[i++]);
      TRY(DefineResult(instr, name, type));
    } while (lexer_.Accept(","));
    return {};
  }

  // combine %left, ... with %right, ... {
  Status ParseCombine(Instr& instr) {
    instr.op = Op::kCombine;
    blocks_.back() = Op::kCombine;
    for (std::string_view before : {"", "with"}) {
      if (!before.empty()) TRY(lexer_.Expect(before));
      for (size_t i = 0; i < instr.args.size(); ++i) {
        if (i > 0) TRY(lexer_.Expect(","));
        std::string name = TRY(lexer_.ValueName());
        Type type = kernel_.type(instr.args[i]);
        TRY(DefineResult(instr, name, type));
      }
    }
    return lexer_.Expect("{");
  }

  Lexer& lexer_;
  Kernel kernel_;
  std::vector<Op> blocks_;  // open blocks: kLoop, kCombine, kIf, kElse
  std::unordered_map<std::string, int32_t> memories_;
  std::unordered_map<std::string, ValueId> names_;
  std::map<std::pair<std::pair<int, int>, uint64_t>, ValueId> constants_;
};

}  // namespace

Result<Kernel> ParseKernelBody(Lexer& lexer) {
  return KernelParser(lexer).Parse();
}

}  // namespace weft::program
