// loc(...): where operations come from. JAX writes
//   loc("jit(f)/mul"(callsite("f"("model.py":3:4 to :9) at "main"("run.py":7:0))))
// i.e. names right around a file are functions, the outermost other name is the operation's. Names
// that end in a colon are kinds of operations ("jit:") and are left out.
#include <algorithm>
#include <cstdint>

#include "hlo/import/mlir_text.h"

namespace weft::hlo::mlir {

namespace {
constexpr int kMaxPlaceDepth = 600;
constexpr int kMaxCopiedFrames = 64;
}  // namespace

Status TextReader::ReadOptionalLocation(Operation* op) {
  if (!TakeName("loc")) return {};
  TRY(Expect('('));
  Place place = TRY(ReadPlace());
  TRY(Expect(')'));
  if (op == nullptr || (place.name.empty() && place.frame == nullptr)) return {};
  Location* location = tree_.NewLocation();
  location->name = place.name;
  location->frame = place.frame;
  op->location = location;
  return {};
}

Result<TextReader::Place> TextReader::ReadPlace() {
  Nested nested(place_depth_);
  if (place_depth_ > kMaxPlaceDepth) return Fail("locations nested too deep");
  if (token().kind == Tok::kHash) {
    std::string_view name = token().text;
    Place place = TRY(ReadPlaceAlias(name));
    lexer_.Advance();
    return place;
  }
  if (token().kind == Tok::kString) {
    std::string_view text = TRY(ExpectString("a file or name"));
    return At(':') ? ReadFilePlace(text) : ReadNamedPlace(text);
  }
  if (TakeName("unknown")) return Place{};
  if (TakeName("callsite")) return ReadCallSite();
  if (TakeName("fused")) return ReadFused();
  return FailExpected("a location");
}

Result<TextReader::Place> TextReader::ReadPlaceAlias(std::string_view name) {
  Alias* alias = TRY(FindAlias('#', name));
  if (!alias->is_place) return Fail("#", name, " is not a location");
  return alias->place;
}

// "file":line:column, and `to line:column` or `to :column`.
Result<TextReader::Place> TextReader::ReadFilePlace(std::string_view file) {
  auto number = [&]() -> Result<int32_t> {
    int64_t value = TRY(ExpectInt("a line or column"));
    return static_cast<int32_t>(std::min<int64_t>(std::max<int64_t>(value, 0), INT32_MAX));
  };
  Frame* frame = tree_.NewFrame();
  frame->file = file;
  TRY(Expect(':'));
  frame->line = TRY(number());
  TRY(Expect(':'));
  frame->column = TRY(number());
  frame->end_line = frame->line;
  frame->end_column = frame->column;
  if (TakeName("to")) {
    if (!At(':')) frame->end_line = TRY(number());
    TRY(Expect(':'));
    frame->end_column = TRY(number());
  }
  return Place{.name = {}, .frame = frame, .is_file = true};
}

Result<TextReader::Place> TextReader::ReadNamedPlace(std::string_view name) {
  if (!Take('(')) return Place{.name = name};
  Place inner = TRY(ReadPlace());
  TRY(Expect(')'));
  // Without tracebacks JAX has the operation's name right around the file.
  if (inner.is_file && name.find_first_of("/(") == std::string_view::npos) {
    Frame* frame = tree_.NewFrame();
    *frame = *inner.frame;
    frame->function = name;
    return Place{.name = {}, .frame = frame};
  }
  if (name.ends_with(':') && !inner.name.empty()) name = inner.name;
  return Place{.name = name, .frame = inner.frame};
}

// callsite(callee at caller)
Result<TextReader::Place> TextReader::ReadCallSite() {
  TRY(Expect('('));
  Place callee = TRY(ReadPlace());
  TRY(ExpectName("at"));
  Place caller = TRY(ReadPlace());
  TRY(Expect(')'));
  // Frames are shared between locations: the callee's are copied to end in the caller.
  Frame* first = nullptr;
  Frame* last = nullptr;
  int copied = 0;
  for (const Frame* frame = callee.frame; frame != nullptr && copied < kMaxCopiedFrames; ++copied) {
    Frame* copy = tree_.NewFrame();
    *copy = *frame;
    copy->caller = nullptr;
    if (last == nullptr) {
      first = copy;
    } else {
      last->caller = copy;
    }
    last = copy;
    frame = frame->caller;
  }
  if (last == nullptr) return Place{.name = callee.name, .frame = caller.frame};
  last->caller = caller.frame;
  return Place{.name = callee.name, .frame = first};
}

// fused[a, b], fused<...>[a, b]: the first that says something.
Result<TextReader::Place> TextReader::ReadFused() {
  if (At('<')) {
    lexer_.Advance();
    TRY(ReadAttr());
    TRY(Expect('>'));
  }
  Place best;
  TRY(List('[', ']', [&]() -> Status {
    Place place = TRY(ReadPlace());
    if (best.name.empty()) best.name = place.name;
    if (best.frame == nullptr) best.frame = place.frame;
    return {};
  }));
  return best;
}

}  // namespace weft::hlo::mlir
