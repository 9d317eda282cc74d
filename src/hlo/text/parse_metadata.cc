// metadata={...} and origin={...}.
#include "hlo/text/value_reader.h"

namespace weft::hlo::text {

Status ValueReader::ReadMetadata(Metadata& m) {
  struct Field {
    std::string_view name;
    std::string Metadata::* text;
    int32_t Metadata::* number;
  };
  static constexpr Field kFields[] = {{"op_name", &Metadata::op_name, nullptr},
                                      {"op_type", &Metadata::op_type, nullptr},
                                      {"source_file", &Metadata::source_file, nullptr},
                                      {"source_line", nullptr, &Metadata::source_line},
                                      {"stack_frame_id", nullptr, &Metadata::stack_frame_id},
                                      {"source_end_line", nullptr, &Metadata::source_end_line},
                                      {"source_column", nullptr, &Metadata::source_column},
                                      {"source_end_column", nullptr, &Metadata::source_end_column},
                                      {"deduplicated_name", &Metadata::deduplicated_name, nullptr},
                                      {"scheduling_name", &Metadata::scheduling_name, nullptr},
                                      {"metadata_payload", &Metadata::payload, nullptr},
                                      {"profile_type", nullptr, nullptr}};
  TRY(Expect(Tok::kLeftBrace));
  uint32_t seen = 0;
  while (!Eat(Tok::kRightBrace)) {
    Eat(Tok::kComma);
    const char* at = lexer_.token().begin;
    std::string_view name;
    TRY(ReadAttrName(name));
    size_t i = 0;
    while (i < std::size(kFields) && kFields[i].name != name) ++i;
    if (i == std::size(kFields)) {
      std::string allowed;
      for (const Field& f : kFields) StrAppend(allowed, allowed.empty() ? "" : ", ", f.name);
      return FailAt(at, "metadata: unknown ", name, "; allowed: ", allowed);
    }
    if ((seen >> i & 1) != 0) return FailAt(at, "metadata: ", name, " twice");
    seen |= 1u << i;
    if (kFields[i].text != nullptr) {
      TRY(ReadString(m.*kFields[i].text));
    } else if (kFields[i].number != nullptr) {
      TRY(ReadInt32(m.*kFields[i].number));
    } else {
      TRY(ReadIntList(Tok::kLeftBrace, Tok::kRightBrace, m.profile_type));
    }
  }
  return {};
}

Status ValueReader::ReadMetadataList(std::vector<Metadata>& list) {
  if (kind() == Tok::kLeftBrace && lexer_.Peek() == Tok::kLeftBrace) {
    return ReadList(Tok::kLeftBrace, Tok::kRightBrace,
                    [&]() -> Status { return ReadMetadata(list.emplace_back()); });
  }
  return ReadMetadata(list.emplace_back());
}

Status ValueReader::ReadOrigin(OriginNode& origin) {
  TRY(Expect(Tok::kLeftBrace));
  if (Eat(Tok::kLeftSquare)) {
    if (!EatWord("synthetic_call")) return Expected("synthetic_call");
    origin.kind = OriginNode::Kind::kSyntheticCall;
    TRY(Expect(Tok::kRightSquare));
  } else if (kind() != Tok::kRightBrace) {
    TRY(ReadOriginTree(origin));
  }
  return Expect(Tok::kRightBrace);
}

Status ValueReader::ReadOriginTree(OriginNode& node) {
  DepthGuard depth(depth_);
  if (!depth.ok()) return TooDeep();
  if (kind() != Tok::kLeftParen) return ReadOriginLeaf(node);
  node.kind = OriginNode::Kind::kTuple;
  return ReadList(Tok::kLeftParen, Tok::kRightParen,
                  [&]() -> Status { return ReadOriginTree(node.elements.emplace_back()); });
}

Status ValueReader::ReadOriginLeaf(OriginNode& node) {
  TRY(Expect(Tok::kLeftBrace));
  if (kind() == Tok::kString) {
    node.kind = OriginNode::Kind::kArray;
    TRY(ReadString(node.instruction));
    if (kind() == Tok::kLeftBrace) TRY(ReadIndex(node.index));
  }
  return Expect(Tok::kRightBrace);
}

}  // namespace weft::hlo::text
