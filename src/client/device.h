// Devices and their memories, as a client shows them. They live as long as the client.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weft::client {

class Accelerator;  // accelerator.h
class Client;
class Device;

// Bytes in use by buffers of one memory.
struct MemoryUse {
  std::atomic<int64_t> bytes = 0, peak_bytes = 0, allocations = 0;
  void Add(int64_t n);
  void Remove(int64_t n);
};

class Memory {
 public:
  enum class Kind : uint8_t { kDevice, kPinnedHost, kUnpinnedHost };
  static constexpr Kind kKinds[] = {Kind::kDevice, Kind::kPinnedHost, Kind::kUnpinnedHost};
  static std::string_view NameOf(Kind kind);  // "device", "pinned_host", "unpinned_host"
  static constexpr int IdOf(Kind kind) { return static_cast<int>(kind) + 1; }
  Memory(Client* client, Device* device, Kind kind, int id);

  Client* client() const { return client_; }
  Device* device() const { return device_; }  // each memory belongs to one device
  Kind kind() const { return kind_; }
  const std::string& kind_name() const { return kind_name_; }
  int kind_id() const { return IdOf(kind_); }
  int id() const { return id_; }
  const std::string& debug_string() const { return debug_string_; }
  // Where its bytes are those of a device, which the host does not see; null: they are the host's.
  Accelerator* accelerator() const;
  MemoryUse& use() { return *use_; }
  // Outlives the client, for arrays that do.
  const std::shared_ptr<MemoryUse>& shared_use() const { return use_; }

 private:
  Client* client_;
  Device* device_;
  Kind kind_;
  int id_;
  std::string kind_name_, debug_string_;
  std::shared_ptr<MemoryUse> use_;
};

class Device {
 public:
  // `accelerator`: what it is where it has memory of its own; null: the host's processor.
  Device(Client* client, int id, std::string kind, Accelerator* accelerator = nullptr);

  Client* client() const { return client_; }
  int id() const { return id_; }  // global
  int local_id() const { return id_; }
  int process_index() const { return 0; }
  const std::string& kind() const { return kind_; }  // "Weft CPU", "Weft GPU: NVIDIA H200"
  Accelerator* accelerator() const { return accelerator_; }
  const std::string& debug_string() const { return debug_string_; }
  // By the platform's name: "weft:0" and "WeftDevice(id=0)".
  const std::string& to_string() const { return to_string_; }
  Memory* default_memory() const { return memories_[0]; }
  const std::vector<Memory*>& memories() const { return memories_; }
  void AddMemory(Memory* memory) { memories_.push_back(memory); }
  Memory* FindMemory(std::string_view kind) const;  // null: it has none of the name

 private:
  Client* client_;
  int id_;
  std::string kind_, debug_string_, to_string_;
  Accelerator* accelerator_;
  std::vector<Memory*> memories_;
};

}  // namespace weft::client
