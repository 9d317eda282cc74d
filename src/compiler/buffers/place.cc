// Storage allocation. Buffers of a program: parameters, results, constants, and where temporaries
// lie.
#include <algorithm>
#include <climits>

#include "base/check.h"
#include "base/packing.h"
#include "base/str.h"
#include "compiler/buffers/buffers.h"
#include "program/builder.h"
#include "program/target_facts.h"

namespace weft::compiler {

using program::BufferId;
using program::BufferKind;
using program::TargetFacts;

namespace {

int64_t RoundUp(int64_t n) {
  return (n + TargetFacts::kLineBytes - 1) / TargetFacts::kLineBytes * TargetFacts::kLineBytes;
}

}  // namespace

// Memory that temporaries may lie in: the arena, results before they are made, donated arguments
// when they are no longer read.
struct Memory::Room {
  struct Item {
    int64_t offset, bytes;
    const std::vector<Segment>* live;
  };
  BufferId buffer = -1;  // -1: the arena
  int64_t bytes = 0;
  std::vector<Item> items;  // by offset

  // The lowest place where nothing that lives at the same time lies; -1: there is none.
  int64_t Find(const Memory& memory, int64_t wanted, const std::vector<Segment>& live) const {
    // What one instruction reads and what it writes lies apart.
    const bool is_plain = memory.scopes_.empty();
    int64_t at = 0;
    for (const Item& other : items) {
      if (at + wanted <= other.offset) break;
      if (other.offset + other.bytes <= at) continue;
      const std::vector<Segment>& theirs = *other.live;
      const bool is_apart =
          theirs.back().end / Memory::kSlotsOfMoment <
              live.front().begin / Memory::kSlotsOfMoment ||
          theirs.front().begin / Memory::kSlotsOfMoment > live.back().end / Memory::kSlotsOfMoment;
      if ((is_plain && is_apart) || !memory.Overlap(theirs, live, Memory::kSlotsOfMoment)) continue;
      at = other.offset + other.bytes;
    }
    return buffer < 0 || at + wanted <= bytes ? at : -1;
  }

  void Put(const Item& item) {
    auto where = std::upper_bound(items.begin(), items.end(), item,
                                  [](const Item& a, const Item& b) { return a.offset < b.offset; });
    items.insert(where, item);
  }
};

std::vector<Memory::Room> Memory::FindRooms() const {
  std::vector<Room> rooms;
  for (const Value& value : values_) {
    bool writable = value.result >= 0 || (value.parameter >= 0 && value.donated);
    if (value.parent >= 0 || !writable || value.live.empty()) continue;
    if (IsPackable(value.shape.dtype())) continue;  // may be shorter than it seems (packing.h)
    int64_t bytes = value.shape.ByteSize() / TargetFacts::kLineBytes * TargetFacts::kLineBytes;
    // Small results do not make room for temporaries.
    if (bytes < TargetFacts::kLeastPageBytes) continue;
    Room room;
    room.buffer = value.buffer;
    room.bytes = bytes;
    room.Put({0, value.shape.ByteSize(), &value.live});
    rooms.push_back(std::move(room));
  }
  // The smallest that fits is taken.
  std::sort(rooms.begin(), rooms.end(), [](const Room& a, const Room& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.buffer < b.buffer;
  });
  rooms.emplace_back();
  return rooms;
}

// The largest first, each at the lowest place of the first room that has one.
void Memory::Place(program::Program& program) {
  struct Item {
    int32_t value;
    int64_t bytes, offset;
    size_t room;
  };
  std::vector<Item> items;
  for (size_t v = 0; v < values_.size(); ++v) {
    Value& value = values_[v];
    if (value.parent >= 0 || value.constant != nullptr || value.parameter >= 0 ||
        value.result >= 0 || value.live.empty()) {
      continue;
    }
    int64_t bytes = value.shape.ByteSize();
    // Inside of loops small ones may become registers.
    if (bytes <= (value.in_loop ? TargetFacts::kLeastPageBytes : TargetFacts::kLineBytes)) {
      value.buffer = AddBuffer(program, StrCat("t", v), value.shape, BufferKind::kTemp);
      continue;
    }
    items.push_back({static_cast<int32_t>(v), RoundUp(bytes), 0, 0});
  }
  if (items.empty()) return;
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.value < b.value;
  });
  std::vector<Room> rooms = FindRooms();
  for (Item& item : items) {
    const std::vector<Segment>& live = values_[static_cast<size_t>(item.value)].live;
    for (item.room = 0;; ++item.room) {
      Room& room = rooms[item.room];
      if (room.buffer >= 0 && room.bytes < item.bytes) continue;
      item.offset = room.Find(*this, item.bytes, live);
      if (item.offset < 0) continue;
      room.Put({item.offset, item.bytes, &live});
      if (room.buffer < 0) arena_bytes_ = std::max(arena_bytes_, item.offset + item.bytes);
      break;
    }
  }
  BufferId arena = -1;
  if (arena_bytes_ > 0) {
    arena = AddBuffer(program, "arena", Shape(DType::kU8, {arena_bytes_}), BufferKind::kTemp);
  }
  for (const Item& item : items) {
    Value& value = values_[static_cast<size_t>(item.value)];
    BufferId base = rooms[item.room].buffer;
    value.buffer = AddView(program, StrCat("t", item.value), value.shape, base >= 0 ? base : arena,
                           item.offset);
  }
}

void Memory::Assign(program::Program& program) {
  std::vector<int32_t> parameters, results;
  for (size_t v = 0; v < values_.size(); ++v) {
    if (values_[v].parent >= 0) continue;
    if (values_[v].parameter >= 0) parameters.push_back(static_cast<int32_t>(v));
    if (values_[v].result >= 0) results.push_back(static_cast<int32_t>(v));
  }
  auto by = [&](auto field) {
    return [this, field](int32_t a, int32_t b) {
      return values_[static_cast<size_t>(a)].*field < values_[static_cast<size_t>(b)].*field;
    };
  };
  std::sort(parameters.begin(), parameters.end(), by(&Value::parameter));
  std::sort(results.begin(), results.end(), by(&Value::result));
  for (int32_t v : parameters) {
    Value& value = values_[static_cast<size_t>(v)];
    value.buffer = AddBuffer(program, StrCat("p", value.parameter), value.shape,
                             BufferKind::kParameter, value.parameter);
    if (value.donated) program.buffers[value.buffer].donation = program::Donation::kMay;
  }
  for (int32_t v : results) {
    Value& value = values_[static_cast<size_t>(v)];
    BufferId base = value.buffer;  // of the donated parameter in the group
    const Shape& shape =
        values_[static_cast<size_t>(results_[static_cast<size_t>(value.result)])].shape;
    BufferId id =
        AddBuffer(program, StrCat("r", value.result), shape, BufferKind::kResult, value.result);
    if (base >= 0) program.buffers[id].base = base;
    if (base < 0) value.buffer = id;
  }
  Place(program);
}

BufferId Memory::Buffer(program::Program& program, MemValue value) {
  Value& group = values_[static_cast<size_t>(Find(value))];
  if (group.buffer < 0) {
    CHECK(group.constant != nullptr) << "value without a buffer";
    Literal literal = group.constant->literal();
    group.buffer = AddConstant(program, StrCat("c", Find(value)), literal.WithShape(group.shape));
  }
  const Shape& shape = values_[static_cast<size_t>(value)].shape;
  const program::Buffer& buffer = program.buffers[group.buffer];
  if (buffer.shape.dtype() == shape.dtype()) return group.buffer;
  std::string key = StrCat(Find(value), ":", Name(shape.dtype()));
  auto [it, added] = views_.try_emplace(key, -1);
  if (added) {
    BufferId base = buffer.base >= 0 ? buffer.base : group.buffer;
    int64_t offset = buffer.base >= 0 ? buffer.offset : 0;
    it->second = AddView(program, StrCat("v", it->first), shape, base, offset);
  }
  return it->second;
}

}  // namespace weft::compiler
