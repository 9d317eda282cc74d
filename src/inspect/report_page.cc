// The page around the facts. Texts come from modules that anybody may have written: they stand in
// script elements that are data (json.h escapes what could end one), the page's script puts them
// into the document as text only, and its policy runs no script but that one.
#include "inspect/report_page.inc"

#include "base/digest.h"
#include "base/file.h"
#include "base/str.h"
#include "inspect/report.h"
#include "inspect/report_sections.h"

namespace weft::inspect {
namespace {

template <size_t kSize>
std::string_view AsText(const unsigned char (&bytes)[kSize]) {
  return {reinterpret_cast<const char*>(bytes), kSize};
}

std::string Base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    unsigned bits = 0;
    for (size_t k = 0; k < 3; ++k) {
      unsigned byte = i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0;
      bits = bits << 8 | byte;
    }
    for (size_t k = 0; k < 4; ++k) {
      bool padding = i + k > bytes.size();
      out.push_back(padding ? '=' : kDigits[bits >> (18 - 6 * k) & 63]);
    }
  }
  return out;
}

void AppendData(std::string& out, std::string_view id, std::string_view json) {
  StrAppend(out, "<script type=\"application/json\" id=\"", id, "\">", json, "</script>\n");
}

std::string DataOf(const ReportInput& input) {
  std::optional<CaptureFacts> found;
  if (input.capture) found.emplace(*input.capture);
  const CaptureFacts* facts = found ? &*found : nullptr;
  SourceTexts texts;
  SourceTexts* sources = input.quotes_sources ? &texts : nullptr;
  std::string out;
  AppendData(out, "index", ReportIndexJson(input, facts));
  for (size_t i = 0; i < input.programs.size(); ++i) {
    AppendData(out, StrCat("program-", i), ReportProgramJson(*input.programs[i], facts, sources));
    AppendData(out, StrCat("code-", i), ReportCodeJson(*input.programs[i]));
  }
  if (input.capture) AppendData(out, "timeline", ReportTimelineJson(*input.capture));
  return out;
}

}  // namespace

std::string ReportPage(const ReportInput& input) {
  const std::string_view script = AsText(page_js);
  std::string out;
  // Placeholders are comments of the page, each once.
  std::string_view left = AsText(page_html);
  auto until = [&](std::string_view mark) {
    size_t at = left.find(mark);
    out += left.substr(0, at);
    left.remove_prefix(at == left.npos ? left.size() : at + mark.size());
  };
  until("{{script-hash}}");
  out += Base64(Digest::Raw(script));
  until("{{style}}");
  out += AsText(page_css);
  until("{{data}}");
  out += DataOf(input);
  until("{{script}}");
  out += script;
  out += left;
  return out;
}

Status WriteReport(const ReportInput& input, const std::string& path) {
  return ReplaceFile(path, ReportPage(input));
}

}  // namespace weft::inspect
