// The attribute list of an instruction, and the attributes that every instruction may have.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "hlo/text/parse_pending.h"
#include "hlo/text/parser.h"
#include "hlo/text/suggest.h"

namespace weft::hlo::text {
namespace {

enum CommonAttribute : int {
  kMetadataAttr,
  kShardingAttr,
  kBackendConfigAttr,
  kFrontendAttr,
  kControlAttr,
  kOriginAttr,
  kStatisticsAttr,
  kReplicationAttr,
  kCommonCount
};
constexpr std::string_view kCommonNames[kCommonCount] = {
    "metadata", "sharding",   "backend_config",       "frontend_attributes", "control-predecessors",
    "origin",   "statistics", "parameter_replication"};

int FindCommon(std::string_view name) {
  for (int i = 0; i < kCommonCount; ++i) {
    if (kCommonNames[i] == name) return i;
  }
  return -1;
}

int64_t LeafCount(const Shape& shape) {
  if (!shape.IsTuple()) return 1;
  int64_t n = 0;
  for (const Shape& element : shape.elements_of_tuple()) n += LeafCount(element);
  return n;
}

int FindField(const FieldList& fields, std::string_view name) {
  for (int i = 0; i < fields.size(); ++i) {
    if (fields[i].name == name) return i;
  }
  return -1;
}

Error UnknownAttribute(Op op, std::string_view name, const Attrs& attrs, const Attrs* outer) {
  std::vector<std::string_view> allowed;
  if (attrs.Is<DomainAttrs>()) allowed.push_back("domain");
  for (const FieldRef& f : attrs.Fields()) allowed.push_back(f.name);
  if (outer != nullptr) {
    for (const FieldRef& f : outer->Fields()) allowed.push_back(f.name);
  }
  std::sort(allowed.begin(), allowed.end());
  std::vector<std::string_view> common(std::begin(kCommonNames), std::end(kCommonNames));
  std::sort(common.begin(), common.end());
  allowed.insert(allowed.end(), common.begin(), common.end());
  Error error(Code::kInvalidArgument, StrCat(Mnemonic(op), ": unknown attribute ", name,
                                             "; allowed: ", StrJoin(allowed, ", ")));
  std::string_view near = Nearest(name, allowed);
  if (!near.empty()) error.Hint(StrCat("did you mean ", near, "?"));
  return error;
}

}  // namespace

// `outer`, when given, takes what `attrs` has no place for: the attributes of the async-start
// around a wrapped op.
Status Parser::ReadAttributes(Op op, Attrs& attrs, Attrs* outer, CommonAttrs& common,
                              const char* op_at, bool allowed) {
  FieldList fields, outer_fields;
  bool loaded = false;
  uint32_t seen = 0, outer_seen = 0;
  while (allowed && Eat(Tok::kComma)) {
    const char* at = lexer_.token().begin;
    std::string_view name;
    TRY(ReadAttrName(name));
    auto once = [&](uint32_t& mask, int i) {
      bool first = (mask >> i & 1) == 0;
      mask |= 1u << i;
      return first;
    };
    if (int i = FindCommon(name); i >= 0) {
      if (!once(common.seen, i)) return FailAt(at, "attribute ", name, " twice");
      TRY(ReadCommonAttribute(i, common));
      continue;
    }
    if (!loaded) {
      fields = attrs.MutableFields();
      if (outer != nullptr) outer_fields = outer->MutableFields();
      loaded = true;
    }
    if (int i = FindField(fields, name); i >= 0) {
      if (!once(seen, i)) return FailAt(at, "attribute ", name, " twice");
      TRY(ReadField(fields[i]));
    } else if (int j = FindField(outer_fields, name); j >= 0 && name != "calls") {
      if (!once(outer_seen, j)) return FailAt(at, "attribute ", name, " twice");
      TRY(ReadField(outer_fields[j]));
    } else if (name == "domain" && attrs.Is<DomainAttrs>()) {
      if (!once(seen, 0)) return FailAt(at, "attribute ", name, " twice");
      TRY(ReadDomain(attrs.Mutable<DomainAttrs>()));
    } else {
      Error error = UnknownAttribute(op, name, attrs, outer);
      lexer_.Locate(error, at);
      return std::unexpected(std::move(error));
    }
  }
  common.seen_fields = seen;
  if (attrs.Is<NoAttrs>()) return {};
  if (attrs.Is<DomainAttrs>() && seen == 0) {
    return FailAt(op_at, "domain: attribute domain is missing");
  }
  if (!loaded) fields = attrs.Fields();
  for (int i = 0; i < fields.size(); ++i) {
    if (fields[i].required && (seen >> i & 1) == 0) {
      return FailAt(op_at, Mnemonic(op), ": attribute ", fields[i].name, " is missing");
    }
  }
  return {};
}

Status Parser::ReadCommonAttribute(int which, CommonAttrs& common) {
  InstructionExtras& x = common.extras;
  if (which == kMetadataAttr) {
    common.has_metadata = true;
    return ReadMetadata(common.metadata);
  }
  common.has_extras = true;
  switch (which) {
    case kShardingAttr: return ReadSharding(x.sharding.Make());
    case kBackendConfigAttr:
      return ReadStringOrDict(x.backend_config.text, x.backend_config.is_dict);
    case kFrontendAttr: return ReadFrontendAttributes(x.frontend_attributes);
    case kControlAttr: return ReadControlPredecessors(x.control_predecessors);
    case kOriginAttr: return ReadOrigin(x.origin.Make());
    case kStatisticsAttr: return ReadStatistics(x.statistics.Make());
    default:
      if (kind() != Tok::kLeftBrace) return Expected("'{'");
      return ReadBools(x.parameter_replication);
  }
}

void Parser::ApplyCommon(CommonAttrs&& common, Instruction* instruction) {
  if (common.has_metadata) instruction->mutable_metadata() = std::move(common.metadata);
  if (!common.has_extras) return;
  InstructionExtras& x = instruction->mutable_extras();
  std::vector<Instruction*> predecessors = std::move(common.extras.control_predecessors);
  common.extras.control_predecessors.clear();
  x = std::move(common.extras);
  for (Instruction* before : predecessors) {  // each once
    before->mutable_extras().control_successors.push_back(instruction);
  }
  x.control_predecessors = std::move(predecessors);
}

Status Parser::ReadControlPredecessors(std::vector<Instruction*>& predecessors) {
  TRY(Expect(Tok::kLeftBrace));
  std::unordered_set<const Instruction*> known;
  do {
    const char* at = lexer_.token().begin;
    std::string_view name;
    TRY(ReadName(name, "an instruction"));
    Instruction* before = scope_->names.Find(name);
    if (before == nullptr) {
      return FailAt(at, "no instruction named ", name, " stands before this one");
    }
    if (known.insert(before).second) predecessors.push_back(before);
  } while (Eat(Tok::kComma));
  return Expect(Tok::kRightBrace);
}

Status Parser::ReadFrontendAttributes(FrontendAttributes& attributes) {
  std::unordered_map<std::string_view, size_t> known;
  return ReadList(Tok::kLeftBrace, Tok::kRightBrace, [&]() -> Status {
    std::string_view key;
    TRY(ReadAttrName(key));
    // The last of several values of one key counts.
    auto [it, is_new] = known.emplace(key, attributes.size());
    if (is_new) attributes.emplace_back().key.assign(key);
    FrontendAttribute& target = attributes[it->second];
    return ReadStringOrDict(target.value, target.is_dict);
  });
}

Status Parser::ReadStatistics(Statistics& statistics) {
  TRY(Expect(Tok::kLeftBrace));
  if (Eat(Tok::kRightBrace)) return {};
  std::string_view name;
  const char* at = lexer_.token().begin;
  TRY(ReadAttrName(name));
  if (name != "visualizing_index") return FailAt(at, "expected visualizing_index= first");
  TRY(ReadInt(statistics.visualizing_index));
  while (Eat(Tok::kComma)) {
    TRY(ReadAttrName(name));
    Statistic& statistic = statistics.values.emplace_back();
    statistic.name.assign(name);
    TRY(ReadDouble(statistic.value));
  }
  return Expect(Tok::kRightBrace);
}

Status Parser::ReadDomain(DomainAttrs& domain) {
  const char* at = lexer_.token().begin;
  TRY(Expect(Tok::kLeftBrace));
  uint32_t seen = 0;
  while (!Eat(Tok::kRightBrace)) {
    Eat(Tok::kComma);
    const char* name_at = lexer_.token().begin;
    std::string_view name;
    TRY(ReadAttrName(name));
    uint32_t bit = name == "kind" ? 1 : name == "entry" ? 2 : name == "exit" ? 4 : 0;
    if (bit == 0 || (seen & bit) != 0) {
      return FailAt(name_at, "unexpected ", name, "=; a domain has kind, entry and exit");
    }
    seen |= bit;
    if (bit == 1) {
      TRY(ReadString(domain.kind));
      if (domain.kind != "sharding") return FailAt(name_at, "unknown domain kind ", domain.kind);
    } else {
      TRY(ReadSharding(bit == 2 ? domain.entry : domain.exit));
    }
  }
  if (seen != 7) return FailAt(at, "a domain has kind, entry and exit");
  return {};
}

Status CheckReplication(const Shape& shape, const std::vector<bool>& flags) {
  int64_t leaves = LeafCount(shape);
  if (static_cast<int64_t>(flags.size()) == leaves) return {};
  return InvalidArgument("parameter_replication has ", flags.size(), " values for ", leaves,
                         " leaves of ", shape.ToStringWithoutLayout());
}

}  // namespace weft::hlo::text
