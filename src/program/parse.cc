#include "program/parse.h"

#include <unordered_map>
#include <utility>

#include "base/stack.h"
#include "base/str.h"
#include "program/print.h"
#include "program/program.h"

namespace weft::program {

namespace {

class ProgramParser {
 public:
  explicit ProgramParser(std::string_view text) : lexer_(text) {}

  Result<Program> Parse() {
    TRY(lexer_.Expect("program"));
    program_.name = TRY(lexer_.Name("a program name"));
    if (lexer_.Accept("devices")) program_.devices = TRY(lexer_.Size("a number of devices"));
    program_.flush_subnormals = lexer_.Accept("flush_subnormals");
    while (!lexer_.Is("steps")) {
      if (lexer_.Accept("buffer")) {
        TRY(ParseBuffer());
      } else if (lexer_.Accept("kernel")) {
        Kernel kernel = TRY(ParseKernelBody(lexer_));
        if (!kernels_.emplace(kernel.name, static_cast<int32_t>(program_.kernels.size())).second) {
          return lexer_.Fail(kernel.pos, "kernel '", kernel.name, "' is defined twice");
        }
        program_.kernels.push_back(std::move(kernel));
      } else {
        return lexer_.Expected("'buffer', 'kernel' or 'steps'");
      }
    }
    lexer_.Next();
    TRY(lexer_.Expect("{"));
    program_.steps = TRY(ParseSteps(1));
    if (lexer_.peek().kind != TokenKind::kEnd) return lexer_.Expected("the end of the text");
    return std::move(program_);
  }

 private:
  Result<std::vector<int64_t>> ParseIntList(std::string_view close) {
    std::vector<int64_t> list;
    while (!lexer_.Accept(close)) {
      if (!list.empty()) TRY(lexer_.Expect(","));
      list.push_back(TRY(lexer_.Int("a number")));
    }
    return list;
  }

  // dtype[dims] [{minor_to_major}]
  Result<Shape> ParseShape() {
    Position pos = lexer_.peek().pos;
    std::string dtype_name = TRY(lexer_.Name("a shape"));
    DType dtype = ParseDType(dtype_name).value_or(DType::kInvalid);
    if (!IsArrayType(dtype)) return lexer_.Fail(pos, "unknown element type '", dtype_name, "'");
    TRY(lexer_.Expect("["));
    std::vector<int64_t> dims = TRY(ParseIntList("]"));
    if (static_cast<int64_t>(dims.size()) > kMaxRank) {
      return lexer_.Fail(pos, "rank ", dims.size(), " is above ", kMaxRank);
    }
    for (int64_t dim : dims) {
      if (dim < 0) return lexer_.Fail(pos, "negative dimension ", dim);
    }
    Shape shape(dtype, dims);
    if (!lexer_.Accept("{")) return shape;
    std::vector<int64_t> order = TRY(ParseIntList("}"));
    std::vector<bool> seen(dims.size(), false);
    bool permutation = order.size() == dims.size();
    for (int64_t d : order) {
      permutation = permutation && d >= 0 && d < static_cast<int64_t>(dims.size()) && !seen[d];
      if (permutation) seen[d] = true;
    }
    if (!permutation) return lexer_.Fail(pos, "layout is not a permutation of the dimensions");
    Layout layout;
    layout.minor_to_major = Dims(order);
    shape.set_layout(std::move(layout));
    return shape;
  }

  Status ParseBuffer() {
    Buffer buffer;
    buffer.pos = lexer_.peek().pos;
    buffer.name = TRY(lexer_.Name("a buffer name"));
    TRY(lexer_.Expect(":"));
    buffer.shape = TRY(ParseShape());
    buffer.packed = lexer_.Accept("packed");
    if (lexer_.Accept("parameter")) {
      buffer.kind = BufferKind::kParameter;
      buffer.index = TRY(lexer_.Size("a parameter number"));
    } else if (lexer_.Accept("result")) {
      buffer.kind = BufferKind::kResult;
      buffer.index = TRY(lexer_.Size("a result number"));
    } else if (lexer_.Accept("constant")) {
      buffer.kind = BufferKind::kConstant;
      buffer.value = TRY(ParseConstant(lexer_, buffer));
    } else {
      if (!lexer_.Accept("temp")) return lexer_.Expected("parameter, result, constant or temp");
    }
    if (lexer_.Accept("size")) {
      buffer.size_dim = TRY(lexer_.Size("a dimension"));
      TRY(lexer_.Expect("of"));
      buffer.size_of = TRY(lexer_.Size("the number of a parameter or result"));
    }
    if (lexer_.Accept("donate")) buffer.donation = Donation::kMay;
    if (lexer_.Accept("must_donate")) buffer.donation = Donation::kMust;
    if (lexer_.Accept("in")) {
      buffer.base = TRY(ParseBufferName());
      TRY(lexer_.Expect("at"));
      buffer.offset = TRY(lexer_.Size("an offset in bytes"));
    }
    if (lexer_.Accept("space")) {
      int space = 0;
      while (space < kMemorySpaces && !lexer_.Accept(Name(static_cast<MemorySpace>(space))))
        ++space;
      if (space == kMemorySpaces) return lexer_.Expected("device, host or pinned");
      buffer.space = static_cast<MemorySpace>(space);
    }
    if (lexer_.Accept("align")) buffer.align = TRY(lexer_.Size("an alignment in bytes"));
    if (!buffers_.emplace(buffer.name, static_cast<BufferId>(program_.buffers.size())).second) {
      return lexer_.Fail(buffer.pos, "buffer '", buffer.name, "' is defined twice");
    }
    program_.buffers.push_back(std::move(buffer));
    return {};
  }

  Result<BufferId> ParseBufferName() {
    Position pos = lexer_.peek().pos;
    std::string name = TRY(lexer_.Name("a buffer name"));
    auto it = buffers_.find(name);
    if (it == buffers_.end()) return lexer_.Fail(pos, "undefined buffer '", name, "'");
    return it->second;
  }

  // (read a, write b[0..16])
  Status ParseUses(Step& step) {
    TRY(lexer_.Expect("("));
    while (!lexer_.Accept(")")) {
      if (!step.uses.empty()) TRY(lexer_.Expect(","));
      Use use;
      if (lexer_.Accept("write")) {
        use.access = Access::kWrite;
      } else if (lexer_.Accept("update")) {
        use.access = Access::kReadWrite;
      } else if (!lexer_.Accept("read")) {
        return lexer_.Expected("read, write or update");
      }
      Position pos = lexer_.peek().pos;
      use.slice.buffer = TRY(ParseBufferName());
      use.slice.size = ByteSize(program_.buffers[use.slice.buffer]).value_or(0);
      if (lexer_.Accept("[")) {
        use.slice.offset = TRY(lexer_.Size("an offset in bytes"));
        TRY(lexer_.Expect(".."));
        use.slice.size = TRY(lexer_.Size("an offset in bytes")) - use.slice.offset;
        if (use.slice.size < 0) return lexer_.Fail(pos, "slice ends before it begins");
        TRY(lexer_.Expect("]"));
      }
      if (lexer_.Accept("depth")) use.depth = TRY(lexer_.Size("a depth in cycles"));
      step.uses.push_back(use);
    }
    return {};
  }

  // Up to and including the closing brace.
  Result<std::vector<Step>> ParseSteps(int depth) {
    if (depth > kMaxProgramNesting || IsStackShort()) {
      return lexer_.Fail(lexer_.peek().pos, "steps are nested more than ", depth - 1, " deep");
    }
    std::vector<Step> steps;
    while (!lexer_.Accept("}")) steps.push_back(TRY(ParseStep(depth)));
    return steps;
  }

  // [async event] [name:] operation [stream n] [source "..."] [op "..."] [{...} ...]
  Result<Step> ParseStep(int depth) {
    Step step;
    step.pos = lexer_.peek().pos;
    bool quoted = lexer_.peek().kind == TokenKind::kString;
    std::string word = TRY(lexer_.Name("a step"));
    if (!quoted && word == "async") {
      step.event = TRY(lexer_.Name("an event name"));
      quoted = lexer_.peek().kind == TokenKind::kString;
      word = TRY(lexer_.Name("a step"));
    }
    if (lexer_.Accept(":")) {
      step.name = std::move(word);
      quoted = false;
      word = TRY(lexer_.Name("a step"));
    }
    if (quoted) return lexer_.Expected("':' after the step name");
    TRY(ParseOperation(step, word));
    if (lexer_.Accept("stream")) {
      int64_t stream = TRY(lexer_.Size("a stream number"));
      if (stream > 1 << 20) return lexer_.Fail(step.pos, "stream ", stream, " is too large");
      step.stream = static_cast<int>(stream);
    }
    if (lexer_.Accept("source")) step.source = TRY(lexer_.String("a source position in quotes"));
    if (lexer_.Accept("op")) step.op_name = TRY(lexer_.String("the name of an op in quotes"));
    if (auto* loop = std::get_if<WhileStep>(&step.op)) {
      TRY(lexer_.Expect("{"));
      loop->condition = TRY(ParseSteps(depth + 1));
      TRY(lexer_.Expect("do"));
      TRY(lexer_.Expect("{"));
      loop->body = TRY(ParseSteps(depth + 1));
    } else if (auto* conditional = std::get_if<ConditionalStep>(&step.op)) {
      do {
        TRY(lexer_.Expect("{"));
        conditional->branches.push_back(TRY(ParseSteps(depth + 1)));
      } while (lexer_.Accept("else"));
    } else if (auto* list = std::get_if<ListStep>(&step.op)) {
      TRY(lexer_.Expect("{"));
      list->steps = TRY(ParseSteps(depth + 1));
    }
    return step;
  }

  Status ParseOperation(Step& step, std::string_view word) {
    if (word == "launch") return ParseLaunch(step);
    if (word == "call") return ParseCall(step);
    if (word == "collective") return ParseCollective(step);
    if (word == "wait") {
      step.op = WaitStep{TRY(lexer_.Name("an event name"))};
      return {};
    }
    if (word == "copy") {
      step.op = CopyStep{};
      return ParseUses(step);
    }
    if (word == "fill") {
      TRY(ParseUses(step));
      TRY(lexer_.Expect("hex"));
      step.op = FillStep{TRY(ParseHex(lexer_))};
      return {};
    }
    if (word == "send" || word == "recv") {
      TRY(ParseUses(step));
      TRY(lexer_.Expect("channel"));
      int64_t channel = TRY(lexer_.Int("a channel number"));
      if (word == "send") {
        step.op = SendStep{channel};
      } else {
        step.op = RecvStep{channel};
      }
      return {};
    }
    if (word == "while") {
      TRY(ParseUses(step));
      WhileStep loop;
      if (lexer_.Accept("trips")) loop.trip_count = TRY(lexer_.Size("a trip count"));
      if (lexer_.Accept("counts")) loop.count_step = TRY(lexer_.Int("a step"));
      if (lexer_.Accept("below")) loop.count_limit = TRY(lexer_.Int("a limit"));
      if (lexer_.Accept("region")) loop.region = TRY(ParseRegion());
      step.op = std::move(loop);
      return {};
    }
    if (word == "if" || word == "switch") {
      step.op = ConditionalStep{};
      Position pos = lexer_.peek().pos;
      TRY(ParseUses(step));
      bool pred = !step.uses.empty() &&
                  program_.buffers[step.uses[0].slice.buffer].shape.dtype() == DType::kPred;
      if (pred != (word == "if")) {
        return lexer_.Fail(pos, word, word == "if" ? " needs a pred" : " needs an s32");
      }
      return {};
    }
    if (word == "steps") {
      ListStep list;
      if (lexer_.Accept("thread"))
        list.thread = TRY(lexer_.String("the name of a thread in quotes"));
      step.op = std::move(list);
      return {};
    }
    return lexer_.Fail(step.pos, "unknown step '", word, "'");
  }

  Result<Region> ParseRegion() {
    Region region;
    TRY(lexer_.Expect("("));
    while (!lexer_.Accept(")")) {
      if (!region.locals.empty() || !region.constants.empty()) TRY(lexer_.Expect(","));
      if (lexer_.Accept("constant")) {
        region.constants.push_back(TRY(ParseBufferName()));
        continue;
      }
      RegionLocal local{-1};
      local.copy_in = local.copy_out = lexer_.Accept("inout");
      if (!local.copy_in && !lexer_.Accept("local")) {
        local.copy_in = lexer_.Accept("in");
        local.copy_out = !local.copy_in && lexer_.Accept("out");
        if (!local.copy_in && !local.copy_out) {
          return lexer_.Expected("local, in, out, inout or constant");
        }
      }
      local.buffer = TRY(ParseBufferName());
      region.locals.push_back(local);
    }
    if (lexer_.Accept("prologue")) region.prologue = TRY(lexer_.Size("a number of steps"));
    return region;
  }

  Status ParseLaunch(Step& step) {
    Position pos = lexer_.peek().pos;
    std::string name = TRY(lexer_.Name("a kernel name"));
    auto it = kernels_.find(name);
    if (it == kernels_.end()) return lexer_.Fail(pos, "undefined kernel '", name, "'");
    step.op = KernelStep{it->second};
    return ParseUses(step);
  }

  Status ParseCall(Step& step) {
    LibraryStep call;
    call.routine = TRY(lexer_.String("a routine name in quotes"));
    TRY(ParseUses(step));
    if (lexer_.Accept("{")) {
      while (!lexer_.Accept("}")) {
        if (!call.attrs.empty()) TRY(lexer_.Expect(","));
        Attr attr;
        attr.name = TRY(lexer_.Name("an attribute name"));
        TRY(lexer_.Expect("="));
        attr.value = TRY(ParseAttrValue());
        call.attrs.push_back(std::move(attr));
      }
    }
    call.has_effects = lexer_.Accept("effects");
    step.op = std::move(call);
    return {};
  }

  Result<AttrValue> ParseAttrValue() {
    if (lexer_.Accept("true")) return AttrValue(true);
    if (lexer_.Accept("false")) return AttrValue(false);
    if (lexer_.Accept("[")) return AttrValue(TRY(ParseIntList("]")));
    if (lexer_.peek().kind == TokenKind::kString) return AttrValue(TRY(lexer_.String("a string")));
    if (lexer_.peek().kind == TokenKind::kNumber) {
      if (std::optional<int64_t> i = ParseInt(lexer_.peek().text)) {
        lexer_.Next();
        return AttrValue(*i);
      }
    }
    return AttrValue(std::bit_cast<double>(TRY(ParseNumber(lexer_, DType::kF64))));
  }

  Status ParseCollective(Step& step) {
    CollectiveStep op;
    int kind = 0, reduce = 0;
    while (kind < kCollectiveKinds && !lexer_.Accept(Name(static_cast<CollectiveKind>(kind)))) {
      ++kind;
    }
    if (kind == kCollectiveKinds) return lexer_.Expected("a collective");
    op.kind = static_cast<CollectiveKind>(kind);
    if (op.kind == CollectiveKind::kAllReduce || op.kind == CollectiveKind::kReduceScatter) {
      while (reduce < kReduceOps && !lexer_.Accept(Name(static_cast<ReduceOp>(reduce)))) ++reduce;
      if (reduce == kReduceOps) return lexer_.Expected("a reduction");
      op.reduce = static_cast<ReduceOp>(reduce);
    }
    TRY(ParseUses(step));
    if (lexer_.Accept(op.kind == CollectiveKind::kPermute ? "pairs" : "groups")) {
      TRY(lexer_.Expect("["));
      while (!lexer_.Accept("]")) {
        if (!op.groups.empty()) TRY(lexer_.Expect(","));
        TRY(lexer_.Expect("["));
        op.groups.push_back(TRY(ParseIntList("]")));
      }
    }
    if (lexer_.Accept("channel")) op.channel = TRY(lexer_.Int("a channel number"));
    step.op = std::move(op);
    return {};
  }

  Lexer lexer_;
  Program program_;
  std::unordered_map<std::string, BufferId> buffers_;
  std::unordered_map<std::string, int32_t> kernels_;
};

}  // namespace

Result<Program> Parse(std::string_view text) {
  return ProgramParser(text).Parse();
}

}  // namespace weft::program
