#include "client/device.h"

#include "base/str.h"
#include "client/client.h"

namespace weft::client {
namespace {

std::string Capitalized(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] += 'A' - 'a';
  return text;
}

}  // namespace

void MemoryUse::Add(int64_t n) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  int64_t now = bytes.fetch_add(n, std::memory_order_relaxed) + n;
  int64_t peak = peak_bytes.load(std::memory_order_relaxed);
  while (now > peak && !peak_bytes.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

void MemoryUse::Remove(int64_t n) {
  bytes.fetch_sub(n, std::memory_order_relaxed);
}

std::string_view Memory::NameOf(Kind kind) {
  switch (kind) {
    case Kind::kDevice: return "device";
    case Kind::kPinnedHost: return "pinned_host";
    case Kind::kUnpinnedHost: return "unpinned_host";
  }
  return "";
}

Memory::Memory(Client* client, Device* device, Kind kind, int id)
    : client_(client),
      device_(device),
      kind_(kind),
      id_(id),
      kind_name_(NameOf(kind)),
      debug_string_(
          StrCat("WeftMemory(id=", id, ", kind=", kind_name_, ", device=", device->id(), ")")),
      use_(std::make_shared<MemoryUse>()) {}

Accelerator* Memory::accelerator() const {
  return kind_ == Kind::kDevice ? device_->accelerator() : nullptr;
}

Device::Device(Client* client, int id, std::string kind, Accelerator* accelerator)
    : client_(client),
      id_(id),
      kind_(std::move(kind)),
      debug_string_(StrCat(client->platform_name(), ":", id)),
      to_string_(StrCat(Capitalized(client->platform_name()), "Device(id=", id, ")")),
      accelerator_(accelerator) {}

Memory* Device::FindMemory(std::string_view kind) const {
  for (Memory* memory : memories_) {
    if (memory->kind_name() == kind) return memory;
  }
  return nullptr;
}

}  // namespace weft::client
