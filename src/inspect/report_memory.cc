// Buffers over time: who holds memory when, and at the peak.
#include "inspect/memory_timeline.h"
#include "inspect/report_sections.h"
#include "runtime/buffers.h"

namespace weft::inspect {
namespace {

int64_t BytesOfTemporaries(const program::Program& program) {
  int64_t bytes = 0;
  for (const program::Buffer& buffer : program.buffers) {
    if (buffer.kind != program::BufferKind::kTemp || buffer.base >= 0) continue;
    bytes += program::ByteSize(buffer).value_or(0);
  }
  return bytes;
}

// Arguments and results that take memory all the time, with their shapes.
void WriteHeld(const program::Program& program, TextPool& words, Json& json) {
  json.Key("held");
  json.Open('[');
  for (const program::Buffer& buffer : program.buffers) {
    if (buffer.kind == program::BufferKind::kTemp || buffer.base >= 0) continue;
    json.Open('[');
    json.Int(words.Id(buffer.name));
    json.Int(words.Id(buffer.shape.ToStringWithoutLayout()));
    json.Int(words.Id(buffer.kind == program::BufferKind::kParameter ? "argument"
                      : buffer.kind == program::BufferKind::kResult  ? "result"
                                                                     : "constant"));
    json.Int(program::ByteSize(buffer).value_or(0));
    json.Close(']');
  }
  json.Close(']');
}

}  // namespace

void WriteMemory(const ProgramRecord& record, TextPool& words, Json& json) {
  if (!record.program) return;
  const program::Program& program = *record.program;
  const MemoryTimeline timeline = TimelineOf(program);
  const runtime::MemoryUse use = runtime::MemoryOf(program, BytesOfTemporaries(program));
  json.Key("memory");
  json.Open('{');
  json.Key("arguments", use.arguments);
  json.Key("results", use.results);
  json.Key("alias", use.alias);
  json.Key("constants", use.constants);
  json.Key("temps", use.temps);
  json.Key("peak", timeline.peak);
  json.Key("peak_at", timeline.peak_at);
  json.Key("steps", timeline.steps);
  WriteHeld(program, words, json);
  json.Key("lives");
  json.Open('[');
  for (const BufferLife& life : timeline.lives) {
    const program::Buffer& buffer = program.buffers[life.buffer];
    json.Open('[');
    json.Int(words.Id(buffer.name));
    json.Int(words.Id(buffer.shape.ToStringWithoutLayout()));
    json.Int(life.bytes);
    json.Int(life.first);
    json.Int(life.last);
    json.Int(words.Id(LineOf(life.maker->source)));
    json.Int(words.Id(life.maker->name));
    json.Close(']');
  }
  json.Close(']');
  json.Close('}');
}

}  // namespace weft::inspect
