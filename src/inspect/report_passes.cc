// Passes with what each changed, fusions, what was not fused, copies.
#include "inspect/report_sections.h"

namespace weft::inspect {

void WriteLines(const LineRuns& runs, Json& json) {
  json.Open('[');
  for (int64_t number : runs) json.Int(number);
  json.Close(']');
}

void WritePasses(const ProgramRecord& record, Json& json) {
  json.Key("passes");
  json.Open('[');
  for (const PassRecord& pass : record.passes) {
    json.Open('{');
    json.Key("name", pass.name);
    json.Key("ms", pass.milliseconds);
    json.Key("before", pass.before);
    json.Key("after", pass.after);
    if (pass.changed) {
      json.Key("changes");
      json.Open('[');
      for (const ComputationText& computation : pass.changes) {
        json.Open('[');
        json.Int(computation.name);
        WriteLines(computation.lines, json);
        json.Close(']');
      }
      json.Close(']');
      json.Key("gone");
      WriteLines(pass.gone, json);
    }
    json.Close('}');
  }
  json.Close(']');
}

void WriteFusions(const ProgramRecord& record, TextPool& words, Json& json) {
  json.Key("fusions");
  json.Open('[');
  for (const FusionRecord& fusion : record.fusions) {
    json.Open('[');
    for (const std::string* text :
         {&fusion.name, &fusion.kind, &fusion.source, &fusion.shape, &fusion.ops}) {
      json.Int(words.Id(*text));
    }
    json.Int(fusion.members);
    json.Close(']');
  }
  json.Close(']');
  json.Key("apart");
  json.Open('[');
  for (const compiler::FusionNote& note : record.not_fused) {
    json.Open('[');
    for (const std::string* text :
         {&note.name, &note.op, &note.source, &note.readers, &note.reason}) {
      json.Int(words.Id(*text));
    }
    json.Close(']');
  }
  json.Close(']');
  json.Key("copies");
  json.Open('[');
  for (const compiler::CopyNote& copy : record.copies) {
    json.Open('[');
    for (const std::string* text : {&copy.name, &copy.source, &copy.reason}) {
      json.Int(words.Id(*text));
    }
    json.Int(copy.bytes);
    json.Int(copy.in_loop ? 1 : 0);
    json.Close(']');
  }
  json.Close(']');
}

}  // namespace weft::inspect
