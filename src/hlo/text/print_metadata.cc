#include "hlo/text/printer.h"

namespace weft::hlo::text {

void AppendMetadata(std::string& out, const Metadata& m) {
  out.push_back('{');
  auto separate = [&] {
    if (out.back() != '{') out.push_back(' ');
  };
  auto text = [&](std::string_view name, const std::string& value) {
    if (value.empty()) return;
    separate();
    StrAppend(out, name, "=");
    AppendQuoted(out, value);
  };
  auto number = [&](std::string_view name, int32_t value) {
    if (value == 0) return;
    separate();
    StrAppend(out, name, "=", value);
  };
  text("op_type", m.op_type);
  text("op_name", m.op_name);
  text("source_file", m.source_file);
  number("source_line", m.source_line);
  number("source_end_line", m.source_end_line);
  number("source_column", m.source_column);
  number("source_end_column", m.source_end_column);
  number("stack_frame_id", m.stack_frame_id);
  if (!m.profile_type.empty()) {
    separate();
    StrAppend(out, "profile_type={", StrJoin(m.profile_type, ","), "}");
  }
  text("deduplicated_name", m.deduplicated_name);
  text("scheduling_name", m.scheduling_name);
  text("metadata_payload", m.payload);
  out.push_back('}');
}

namespace {

void AppendOriginTree(std::string& out, const OriginNode& node) {
  switch (node.kind) {
    case OriginNode::Kind::kEmpty: out.append("{}"); break;
    case OriginNode::Kind::kArray:
      out.push_back('{');
      AppendQuoted(out, node.instruction);
      if (!node.index.empty()) StrAppend(out, " ", ShapeIndexToString(node.index));
      out.push_back('}');
      break;
    case OriginNode::Kind::kTuple:
      out.push_back('(');
      for (size_t i = 0; i < node.elements.size(); ++i) {
        if (i > 0) out.append(", ");
        AppendOriginTree(out, node.elements[i]);
      }
      out.push_back(')');
      break;
    case OriginNode::Kind::kSyntheticCall: out.append("[synthetic_call]"); break;
  }
}

}  // namespace

void AppendOrigin(std::string& out, const OriginNode& origin) {
  out.push_back('{');
  AppendOriginTree(out, origin);
  out.push_back('}');
}

}  // namespace weft::hlo::text
