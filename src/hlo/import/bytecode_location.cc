// MLIR locations as frames. JAX writes NameLoc("jit(f)/mul", CallSite(NameLoc("g", file) at
// CallSite(...))): names right around a file are functions, the outermost other name is the
// operation's. Names that end in a colon are kinds of operations ("jit:") and are left out.
#include <limits>

#include "hlo/import/bytecode_entries.h"

namespace weft::hlo::mlir {
namespace {

int32_t LocationNumber(uint64_t value) {
  return value > std::numeric_limits<int32_t>::max() ? 0 : static_cast<int32_t>(value);
}

void SetLocation(EntryReader& r, std::string_view name, const Frame* frame) {
  Location* location = r.tree().NewLocation();
  location->name = name;
  location->frame = frame;
  r.entry().location = location;
}

// "file":line:column, or a range: as many of line, column, end line and end column as it needs.
void FilePosition(EntryReader& r, bool range) {
  const Attr* file = r.AttrRef();
  std::vector<int32_t> numbers(range ? r.Count() : 2);
  for (int32_t& n : numbers) n = LocationNumber(r.VarInt());
  if (!r.ready()) return;
  if (numbers.size() > 4) {
    r.Fail("location of more than four numbers");
    return;
  }
  Frame* frame = r.tree().NewFrame();
  frame->file = file->text;
  if (numbers.size() > 0) frame->line = frame->end_line = numbers[0];
  if (numbers.size() > 1) frame->column = frame->end_column = numbers[1];
  if (numbers.size() == 3) frame->end_column = numbers[2];
  if (numbers.size() == 4) frame->end_line = numbers[2], frame->end_column = numbers[3];
  r.entry().file_location = true;
  SetLocation(r, "", frame);
}

void NameLocation(EntryReader& r) {
  const Attr* attr = r.AttrRef();
  const Entry* child = r.LocationRef();
  if (!r.ready()) return;
  std::string_view name = attr->text;
  const Location& inner = *child->location;
  // Without tracebacks JAX has the operation's name right around the file.
  bool function = child->file_location && name.find_first_of("/(") == std::string_view::npos;
  if (function) {
    Frame* frame = r.tree().NewFrame();
    *frame = *inner.frame;
    frame->function = name;
    SetLocation(r, "", frame);
  } else if (name.ends_with(':') && !inner.name.empty()) {
    SetLocation(r, inner.name, inner.frame);
  } else {
    SetLocation(r, name, inner.frame);
  }
}

// The callee's frames, then the caller's. Callers are shared, callees are copied.
void CallSiteLocation(EntryReader& r) {
  const Entry* callee = r.LocationRef();
  const Entry* caller = r.LocationRef();
  if (!r.ready()) return;
  const Frame* rest = caller->location->frame;
  const Frame* first = nullptr;
  Frame* last = nullptr;
  for (const Frame* f = callee->location->frame; f; f = f->caller) {
    if (r.table().frame_budget == 0) break;
    --r.table().frame_budget;
    Frame* copy = r.tree().NewFrame();
    *copy = *f;
    copy->caller = nullptr;
    if (last) {
      last->caller = copy;
    } else {
      first = copy;
    }
    last = copy;
  }
  if (last) {
    last->caller = rest;
  } else {
    first = rest;
  }
  SetLocation(r, callee->location->name, first);
}

// The first name and the first frame there are.
void FusedLocation(EntryReader& r, bool metadata) {
  std::vector<const Entry*> parts(r.Count());
  for (const Entry*& part : parts) part = r.LocationRef();
  if (metadata) r.AttrRef();
  if (!r.ready()) return;
  std::string_view name;
  const Frame* frame = nullptr;
  for (const Entry* part : parts) {
    if (name.empty()) name = part->location->name;
    if (!frame) frame = part->location->frame;
  }
  SetLocation(r, name, frame);
}

}  // namespace

bool DecodeLocation(EntryReader& r, uint64_t kind) {
  switch (kind) {
    case 10: CallSiteLocation(r); return true;
    case 11: FilePosition(r, false); return true;
    case 12: FusedLocation(r, false); return true;
    case 13: FusedLocation(r, true); return true;
    case 14: NameLocation(r); return true;
    case 15:
      if (r.ready()) SetLocation(r, "", nullptr);
      return true;
    case 22: FilePosition(r, true); return true;
    default: return false;
  }
}

}  // namespace weft::hlo::mlir
