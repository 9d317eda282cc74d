// The module: header, stack frames, computations; the forms without header.
#include <algorithm>
#include <set>
#include <unordered_map>

#include "hlo/text.h"
#include "hlo/text/parser.h"

namespace weft::hlo::text {

Result<std::unique_ptr<Module>> Parser::ReadModule() {
  module_ = std::make_unique<Module>("");
  bool header = IsWord("HloModule");
  if (!header && !IsWord("ENTRY") && lexer_.Peek() != Tok::kLeftBrace) {
    TRY(ReadSingleInstruction());
  } else {
    if (header) TRY(ReadHeader());
    TRY(ReadStackFrames());
    TRY(ReadComputations());
    if (!header) module_->set_name(StrCat("module_", module_->entry()->name()));
  }
  TRY(CheckAliases());
  TRY(CheckAsyncCallers());
  NameComputations();
  return std::move(module_);
}

Status Parser::ReadHeader() {
  lexer_.Next();
  std::string_view name;
  TRY(ReadName(name, "a module name"));
  module_->set_name(std::string(name));
  std::set<std::string_view> seen;
  while (Eat(Tok::kComma)) {
    const char* at = lexer_.token().begin;
    std::string_view attribute;
    TRY(ReadAttrName(attribute));
    if (!seen.insert(attribute).second) return FailAt(at, "attribute ", attribute, " twice");
    Status status = ReadHeaderAttribute(attribute);
    if (!status) {
      Error error = std::move(status).error();
      lexer_.Locate(error, at);
      return std::unexpected(std::move(error));
    }
  }
  return {};
}

Status Parser::ReadHeaderAttribute(std::string_view name) {
  ModuleConfig& c = module_->config();
  auto raw = [&](std::string& value) -> Status {
    if (kind() != Tok::kLeftBrace) return Expected("'{'");
    bool is_dict = false;
    return ReadStringOrDict(value, is_dict);
  };
  if (name == "is_scheduled") return ReadBool(c.is_scheduled);
  if (name == "replica_count") {
    c.replica_count_written = true;
    return ReadInt(c.replica_count);
  }
  if (name == "num_partitions") {
    c.num_partitions_written = true;
    return ReadInt(c.num_partitions);
  }
  if (name == "input_output_alias") return ReadInputOutputAlias();
  if (name == "buffer_donor") return ReadBufferDonors();
  if (name == "alias_passthrough_params") return ReadBool(c.alias_passthrough_params);
  if (name == "entry_computation_layout") return ReadEntryLayout();
  if (name == "frontend_attributes") return ReadFrontendAttributes(c.frontend_attributes);
  if (name == "allow_spmd_sharding_propagation_to_parameters") {
    return ReadBools(c.propagate_sharding_to_parameters);
  }
  if (name == "allow_spmd_sharding_propagation_to_output") {
    return ReadBools(c.propagate_sharding_to_output);
  }
  if (name == "origin_recovery_table") return raw(c.origin_recovery_table);
  if (name == "debug_attributes") return raw(c.debug_attributes);
  return InvalidArgument(
      "unknown module attribute ", name,
      "; allowed: alias_passthrough_params, allow_spmd_sharding_propagation_to_output, "
      "allow_spmd_sharding_propagation_to_parameters, buffer_donor, debug_attributes, "
      "entry_computation_layout, frontend_attributes, input_output_alias, is_scheduled, "
      "num_partitions, origin_recovery_table, replica_count");
}

Status Parser::ReadInputOutputAlias() {
  return ReadList(Tok::kLeftBrace, Tok::kRightBrace, [&]() -> Status {
    if (kind() == Tok::kRightBrace) return {};  // a last comma
    InputOutputAlias& alias = module_->config().input_output_alias.emplace_back();
    TRY(ReadIndex(alias.output));
    TRY(Expect(Tok::kColon));
    TRY(Expect(Tok::kLeftParen));
    TRY(ReadInt(alias.parameter));
    TRY(Expect(Tok::kComma));
    TRY(ReadIndex(alias.parameter_index));
    if (Eat(Tok::kComma)) {
      if (IsWord("must-alias")) {
        alias.kind = AliasKind::kMust;
      } else if (!IsWord("may-alias")) {
        return Expected("may-alias or must-alias");
      }
      lexer_.Next();
    }
    return Expect(Tok::kRightParen);
  });
}

Status Parser::ReadBufferDonors() {
  return ReadList(Tok::kLeftBrace, Tok::kRightBrace, [&]() -> Status {
    if (kind() == Tok::kRightBrace) return {};
    BufferDonor& donor = module_->config().buffer_donors.emplace_back();
    TRY(Expect(Tok::kLeftParen));
    TRY(ReadInt(donor.parameter));
    TRY(Expect(Tok::kComma));
    TRY(ReadIndex(donor.index));
    return Expect(Tok::kRightParen);
  });
}

Status Parser::ReadEntryLayout() {
  EntryLayout& layout = module_->config().entry_layout.emplace();
  TRY(Expect(Tok::kLeftBrace));
  TRY(ReadList(Tok::kLeftParen, Tok::kRightParen,
               [&]() -> Status { return ReadShape(layout.parameters.emplace_back()); }));
  TRY(Expect(Tok::kArrow));
  TRY(ReadShape(layout.result));
  return Expect(Tok::kRightBrace);
}

Status Parser::ReadBools(std::vector<bool>& bools) {
  auto one = [&]() -> Status {
    bool value = false;
    TRY(ReadBool(value));
    bools.push_back(value);
    return {};
  };
  if (kind() == Tok::kLeftBrace) return ReadList(Tok::kLeftBrace, Tok::kRightBrace, one);
  return one();
}

// {a=1 b=2}: all of the names, in any order, commas optional.
Status Parser::ReadFrameFields(
    std::initializer_list<std::pair<std::string_view, int32_t*>> wanted) {
  const char* at = lexer_.token().begin;
  TRY(Expect(Tok::kLeftBrace));
  uint32_t seen = 0;
  while (!Eat(Tok::kRightBrace)) {
    Eat(Tok::kComma);
    const char* name_at = lexer_.token().begin;
    std::string_view name;
    TRY(ReadAttrName(name));
    uint32_t bit = 1;
    int32_t* value = nullptr;
    for (const auto& [field, target] : wanted) {
      if (field == name) {
        value = target;
        break;
      }
      bit <<= 1;
    }
    if (value == nullptr) return FailAt(name_at, "unknown attribute ", name);
    if ((seen & bit) != 0) return FailAt(name_at, "attribute ", name, " twice");
    seen |= bit;
    TRY(ReadInt32(*value));
  }
  if (seen != (1u << wanted.size()) - 1) return FailAt(at, "an attribute is missing here");
  return {};
}

Status Parser::ReadStackFrames() {
  if (!EatWord("FileNames")) return {};
  StackFrames& tables = module_->stack_frames();
  auto strings = [&](std::vector<std::string>& list) -> Status {
    while (Eat(Tok::kInt)) TRY(ReadString(list.emplace_back()));
    return {};
  };
  auto word = [&](std::string_view w) -> Status {
    if (!EatWord(w)) return Expected(w);
    return {};
  };
  TRY(strings(tables.files));
  TRY(word("FunctionNames"));
  TRY(strings(tables.functions));
  TRY(word("FileLocations"));
  while (Eat(Tok::kInt)) {
    FileLocation& l = tables.locations.emplace_back();
    TRY(ReadFrameFields({{"file_name_id", &l.file},
                         {"function_name_id", &l.function},
                         {"line", &l.line},
                         {"end_line", &l.end_line},
                         {"column", &l.column},
                         {"end_column", &l.end_column}}));
  }
  TRY(word("StackFrames"));
  while (Eat(Tok::kInt)) {
    const char* at = lexer_.token().begin;
    StackFrame& f = tables.frames.emplace_back();
    TRY(ReadFrameFields({{"file_location_id", &f.location}, {"parent_frame_id", &f.parent}}));
    if (f.parent < 1) return FailAt(at, "parent_frame_id starts at 1, which means none");
    --f.parent;  // the text counts from 1 for none
  }
  return {};
}

Status Parser::ReadComputations() {
  do {
    TRY(ReadComputation());
  } while (kind() != Tok::kEnd);
  if (module_->entry() == nullptr) module_->set_entry(module_->computations().back().get());
  return {};
}

Status Parser::ReadSingleInstruction() {
  single_ = true;
  module_->set_name("instruction");
  module_->config().is_scheduled = true;
  Computation* entry = module_->AddComputation("main");
  module_->set_entry(entry);
  Scope scope;
  scope.computation = entry;
  scope_ = &scope;
  const char* at = lexer_.token().begin;
  if (AtShape()) {
    Instruction* root = nullptr;
    TRY(ReadRightHandSide("", at, /*attributes=*/true, root));
  } else {
    TRY(ReadInstruction());
  }
  if (kind() != Tok::kEnd) {
    Error error = Expected("the end of the text after a single instruction").error();
    return std::unexpected(
        std::move(error.Hint("a module starts with HloModule, ENTRY or `name {`")));
  }
  return FinishBody(scope, at);
}

Status Parser::CheckAliases() {
  const Computation* entry = module_->entry();
  const Shape& result = entry->root()->shape();
  std::set<std::vector<int64_t>> outputs;
  for (const InputOutputAlias& alias : module_->config().input_output_alias) {
    if (result.SubShape(alias.output) == nullptr) {
      return InvalidArgument("input_output_alias: output index ", ShapeIndexToString(alias.output),
                             " is not in the result shape ", result);
    }
    if (!outputs.insert({alias.output.begin(), alias.output.end()}).second) {
      return InvalidArgument("input_output_alias: output ", ShapeIndexToString(alias.output),
                             " has two aliases");
    }
    if (alias.parameter < 0) {
      return InvalidArgument("input_output_alias: parameter ", alias.parameter);
    }
  }
  for (const BufferDonor& donor : module_->config().buffer_donors) {
    if (donor.parameter < 0) return InvalidArgument("buffer_donor: parameter ", donor.parameter);
  }
  return {};
}

Status Parser::CheckAsyncCallers() {
  if (async_computations_.empty()) return {};
  for (const auto& computation : module_->computations()) {
    for (Instruction* i : *computation) {
      if (!HasTrait(i->op(), kCalls) || i->attrs().Is<AsyncAttrs>()) continue;
      for (Computation* called : i->called_computations()) {
        if (!async_computations_.contains(called)) continue;
        return InvalidArgument("computation ", called->name(), " is called by an async op and by ",
                               i->name(), ", which is ", Mnemonic(i->op()));
      }
    }
  }
  return {};
}

void Parser::NameComputations() {
  std::unordered_map<std::string, int64_t> next;  // last number tried
  for (auto& [computation, wish] : unnamed_computations_) {
    std::string name = wish;
    int64_t& n = next[wish];
    while (computations_.Find(name) != nullptr) name = StrCat(wish, ".", ++n);
    computation->set_name(std::move(name));
    computations_.Insert(computation->name(), computation);
  }
}

}  // namespace weft::hlo::text

namespace weft::hlo {

Result<std::unique_ptr<Module>> ParseModule(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // a byte order mark
  return text::Parser(text).ReadModule();
}

Result<Shape> ParseShape(std::string_view text) {
  text::ValueReader parser(text);
  Shape shape;
  TRY(parser.ReadShape(shape));
  TRY(parser.ReadEnd());
  return shape;
}

Result<Sharding> ParseSharding(std::string_view text) {
  text::ValueReader parser(text);
  Sharding sharding;
  TRY(parser.ReadSharding(sharding));
  TRY(parser.ReadEnd());
  return sharding;
}

Result<ReplicaGroups> ParseReplicaGroups(std::string_view text) {
  text::ValueReader parser(text);
  ReplicaGroups groups;
  TRY(parser.ReadReplicaGroups(groups));
  TRY(parser.ReadEnd());
  return groups;
}

Result<Literal> ParseLiteral(const Shape& shape, std::string_view text) {
  text::ValueReader parser(text);
  Literal literal;
  TRY(parser.ReadLiteral(shape, literal, nullptr));
  TRY(parser.ReadEnd());
  return literal;
}

}  // namespace weft::hlo
