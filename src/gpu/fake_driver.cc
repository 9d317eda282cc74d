#include "gpu/fake_driver.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace weft::gpu {
namespace {

// What EventRecord noted last; set when the stream has come there.
struct FakePlace {
  Mutex mutex;
  std::condition_variable changed;
  bool done WEFT_GUARDED_BY(mutex) = false;
  std::chrono::steady_clock::time_point time WEFT_GUARDED_BY(mutex);

  void Set() {
    MutexLock lock(mutex);
    done = true;
    time = std::chrono::steady_clock::now();
    changed.notify_all();
  }
  bool IsDone() {
    MutexLock lock(mutex);
    return done;
  }
  void Wait() {
    MutexLock lock(mutex);
    while (!done) mutex.Wait(changed);
  }
  std::chrono::steady_clock::time_point Time() {
    MutexLock lock(mutex);
    return time;
  }
};
class FakeStream;
struct FakeEvent {
  FakeStream* recorder = nullptr;  // where it is part of a graph
  std::shared_ptr<FakePlace> place = std::make_shared<FakePlace>();
};

class FakeStream {
 public:
  FakeStream() : thread_([this] { Run(); }) {}
  ~FakeStream() {
    Add(nullptr);  // the end
    thread_.join();
  }
  using Graph = std::vector<std::function<void()>>;
  void Add(std::function<void()> work) {
    MutexLock lock(mutex_);
    if (joined_ != nullptr) return joined_->Add(std::move(work));
    if (recording_ != nullptr) return recording_->push_back(std::move(work));
    work_.push_back(std::move(work));
    changed_.notify_all();
  }
  std::shared_ptr<FakePlace> Mark(std::shared_ptr<FakePlace> place) {
    Add([place] { place->Set(); });
    return place;
  }
  void Wait() {
    {
      MutexLock lock(mutex_);
      if (recording_ != nullptr) return;  // nothing of it runs
    }
    Mark(std::make_shared<FakePlace>())->Wait();
  }
  // What is added from now on becomes a graph, and does not run.
  void Record() {
    MutexLock lock(mutex_);
    recording_ = std::make_unique<Graph>();
  }
  Graph* EndRecord() {
    std::vector<FakeStream*> sides;
    Graph* graph = nullptr;
    {
      MutexLock lock(mutex_);
      sides.swap(sides_);
      graph = recording_.release();
    }
    for (FakeStream* side : sides) side->Join(nullptr);
    return graph;
  }
  // The stream whose graph this one's work goes to; null: it runs.
  FakeStream* recorder() {
    MutexLock lock(mutex_);
    return joined_ != nullptr ? joined_ : recording_ != nullptr ? this : nullptr;
  }
  // It waits for what is recorded on another one.
  void JoinGraphOf(FakeStream& recorder) {
    if (&recorder == this) return;
    Join(&recorder);
    MutexLock lock(recorder.mutex_);
    if (std::ranges::find(recorder.sides_, this) == recorder.sides_.end()) {
      recorder.sides_.push_back(this);
    }
  }

 private:
  void Run() {
    while (true) {
      std::function<void()> work;
      {
        MutexLock lock(mutex_);
        while (work_.empty()) mutex_.Wait(changed_);
        work = std::move(work_.front());
        work_.pop_front();
      }
      if (work == nullptr) return;
      work();
    }
  }
  void Join(FakeStream* recorder) {
    MutexLock lock(mutex_);
    joined_ = recorder;
  }
  Mutex mutex_;
  FakeStream* joined_ WEFT_GUARDED_BY(mutex_) = nullptr;
  std::vector<FakeStream*> sides_ WEFT_GUARDED_BY(mutex_);
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_ WEFT_GUARDED_BY(mutex_);
  std::unique_ptr<Graph> recording_ WEFT_GUARDED_BY(mutex_);
  std::thread thread_;
};

// All streams that there are.
struct FakeContext {
  static FakeContext& Get() {
    static FakeContext context;
    return context;
  }
  Mutex mutex;
  std::vector<FakeStream*> streams WEFT_GUARDED_BY(mutex);
};

FakeStream& At(void* stream) {
  return *static_cast<FakeStream*>(stream);
}
std::byte* At(CudaAddress address) {
  return reinterpret_cast<std::byte*>(static_cast<uintptr_t>(address));
}

int64_t fake_total = 0;
std::atomic<int64_t> fake_graph_launches = 0;
std::atomic<int64_t> fake_used = 0;
std::atomic<int> fake_fault = 0;
constexpr size_t kHead = 256;  // before each allocation: its size

int AllocateFake(CudaAddress* address, size_t bytes) {
  if (bytes > static_cast<size_t>(fake_total - fake_used)) return kCudaOutOfMemory;
  size_t size = (bytes + 255) / 256 * 256 + kHead;
  auto* at = static_cast<std::byte*>(std::aligned_alloc(256, size));
  if (at == nullptr) return kCudaOutOfMemory;
  auto counted = static_cast<int64_t>(bytes);
  std::memset(at, 0, size);  // predicates that no kernel writes are false
  fake_used += counted;
  std::memcpy(at, &counted, sizeof(counted));
  *address = reinterpret_cast<uintptr_t>(at + kHead);
  return 0;
}
void FreeFake(CudaAddress address) {
  int64_t counted = 0;
  std::memcpy(&counted, At(address) - kHead, sizeof(counted));
  fake_used -= counted;
  std::free(At(address) - kHead);
}

int CopyFake(std::byte* to, const std::byte* from, size_t bytes, void* stream) {
  At(stream).Add([=] { std::memmove(to, from, bytes); });
  return 0;
}
template <class T>
int SetFake(CudaAddress to, size_t pitch, T value, size_t n, void* stream) {
  At(stream).Add([=] {
    for (size_t i = 0; i < n; ++i) std::memcpy(At(to) + i * pitch, &value, sizeof(value));
  });
  return 0;
}

int FakeAttribute(int which) {
  switch (which) {
    case kMaxThreadsPerBlock: return 1024;
    case kMaxGridX: return 2147483647;
    case kWarpSize: return 32;
    case kRegistersPerBlock:
    case kRegistersPerMultiprocessor: return 65536;
    case kSharedPerBlockOptIn: return 232448;
    case kSharedPerMultiprocessor: return 233472;
    case kCapabilityMajor: return 9;
    default: return which == kCapabilityMinor ? 0 : 1;
  }
}

void SetMemory(CudaDriver& d) {
  d.MemGetInfo = [](size_t* free, size_t* total) {
    *free = static_cast<size_t>(fake_total - fake_used);
    *total = static_cast<size_t>(fake_total);
    return 0;
  };
  d.MemPoolCreate = [](void** pool, const CudaPoolProperties*) { return *pool = nullptr, 0; };
  d.MemPoolDestroy = [](void*) { return 0; };
  d.MemPoolSetAttribute = [](void*, int, void*) { return 0; };
  d.MemPoolGetAttribute = [](void*, int, void* value) {
    *static_cast<uint64_t*>(value) = static_cast<uint64_t>(fake_used.load());
    return 0;
  };
  d.MemPoolTrimTo = [](void*, size_t) { return 0; };
  d.MemAllocFromPoolAsync = [](CudaAddress* address, size_t bytes, void*, void* stream) {
    if (AllocateFake(address, bytes) == 0) return 0;
    At(stream).Wait();  // for what it has freed
    return AllocateFake(address, bytes);
  };
  d.MemFreeAsync = [](CudaAddress address, void* stream) {
    At(stream).Add([address] { FreeFake(address); });
    return 0;
  };
  d.MemHostAlloc = [](void** address, size_t bytes, unsigned) {
    *address = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    return 0;
  };
  d.MemFreeHost = [](void* address) { return std::free(address), 0; };
  d.MemcpyAsync = [](CudaAddress to, CudaAddress from, size_t n, void* stream) {
    return CopyFake(At(to), At(from), n, stream);
  };
  d.MemcpyToDevice = [](CudaAddress to, const void* from, size_t n, void* stream) {
    return CopyFake(At(to), static_cast<const std::byte*>(from), n, stream);
  };
  d.MemcpyToHost = [](void* to, CudaAddress from, size_t n, void* stream) {
    return CopyFake(static_cast<std::byte*>(to), At(from), n, stream);
  };
  d.MemsetD8 = [](CudaAddress to, unsigned char value, size_t n, void* stream) {
    return SetFake(to, 1, value, n, stream);
  };
  d.MemsetD16 = [](CudaAddress to, unsigned short value, size_t n, void* stream) {
    return SetFake(to, 2, value, n, stream);
  };
  d.MemsetD32 = [](CudaAddress to, unsigned value, size_t n, void* stream) {
    return SetFake(to, 4, value, n, stream);
  };
  d.MemsetD2D32 = [](CudaAddress to, size_t pitch, unsigned value, size_t, size_t n, void* stream) {
    return SetFake(to, pitch, value, n, stream);
  };
}

void SetStreams(CudaDriver& d) {
  d.StreamCreate = [](void** stream, unsigned) {
    auto* made = new FakeStream;
    MutexLock lock(FakeContext::Get().mutex);
    FakeContext::Get().streams.push_back(made);
    return *stream = made, 0;
  };
  d.StreamDestroy = [](void* stream) {
    {
      MutexLock lock(FakeContext::Get().mutex);
      std::erase(FakeContext::Get().streams, &At(stream));
    }
    return delete &At(stream), 0;
  };
  d.StreamSynchronize = [](void* stream) {
    if (stream != kDefaultStream) At(stream).Wait();
    return 0;
  };
  d.StreamBeginCapture = [](void* stream, int) { return At(stream).Record(), 0; };
  d.StreamEndCapture = [](void* stream, void** graph) {
    return *graph = At(stream).EndRecord(), 0;
  };
  d.GraphInstantiate = [](void** executable, void* graph, unsigned long long) {
    return *executable = new FakeStream::Graph(*static_cast<FakeStream::Graph*>(graph)), 0;
  };
  d.GraphLaunch = [](void* executable, void* stream) {
    ++fake_graph_launches;
    for (const auto& work : *static_cast<FakeStream::Graph*>(executable)) At(stream).Add(work);
    return 0;
  };
  d.GraphExecDestroy = [](void* graph) { return delete static_cast<FakeStream::Graph*>(graph), 0; };
  d.GraphDestroy = d.GraphExecDestroy;
  d.StreamWaitEvent = [](void* stream, void* event, unsigned) {
    auto& fake = *static_cast<FakeEvent*>(event);
    if (fake.recorder != nullptr) At(stream).JoinGraphOf(*fake.recorder);
    At(stream).Add([place = fake.place] { place->Wait(); });
    return 0;
  };
  d.LaunchHostFunc = [](void* stream, void (*function)(void*), void* data) {
    At(stream).Add([=] { function(data); });
    return 0;
  };
}

void SetEvents(CudaDriver& d) {
  d.EventCreate = [](void** event, unsigned) { return *event = new FakeEvent, 0; };
  d.EventDestroy = [](void* event) { return delete static_cast<FakeEvent*>(event), 0; };
  d.EventRecord = [](void* event, void* stream) {
    auto& fake = *static_cast<FakeEvent*>(event);  // an event may be recorded again
    fake.recorder = At(stream).recorder();
    At(stream).Mark(fake.place = std::make_shared<FakePlace>());
    return 0;
  };
  d.EventQuery = [](void* event) -> int {
    return static_cast<FakeEvent*>(event)->place->IsDone() ? kCudaSuccess : kCudaNotReady;
  };
  d.EventElapsed = [](float* ms, void* begin, void* end) {
    auto time = [](void* event) { return static_cast<FakeEvent*>(event)->place->Time(); };
    *ms = std::chrono::duration<float, std::milli>(time(end) - time(begin)).count();
    return 0;
  };
  d.EventSynchronize = [](void* event) -> int {
    static_cast<FakeEvent*>(event)->place->Wait();
    return fake_fault;
  };
}

void SetDevice(CudaDriver& d) {
  d.GetErrorName = [](int, const char** name) { return *name = "FAKE_ERROR", 0; };
  d.GetErrorString = [](int, const char** text) { return *text = "made up", 0; };
  d.DeviceGet = [](int* device, int number) { return *device = number, 0; };
  d.DeviceGetAttribute = [](int* value, int which, int) {
    return *value = FakeAttribute(which), 0;
  };
  d.DeviceTotalMem = [](size_t* bytes, int) { return *bytes = static_cast<size_t>(fake_total), 0; };
  d.PrimaryCtxRetain = [](void** context, int) { return *context = &fake_total, 0; };
  d.PrimaryCtxRelease = [](int) { return 0; };
  d.CtxSetCurrent = [](void*) { return 0; };
  d.CtxSynchronize = [] {
    MutexLock lock(FakeContext::Get().mutex);
    for (FakeStream* stream : FakeContext::Get().streams) stream->Wait();
    return 0;
  };
  d.ModuleLoadData = [](void** module, const void*) { return *module = &fake_total, 0; };
  d.ModuleUnload = [](void*) { return 0; };
  d.ModuleGetFunction = [](void** function, void*, const char*) {
    return *function = &fake_total, 0;
  };
  d.FuncGetAttribute = [](int* value, int which, void*) {
    return *value = which == kFunctionMaxThreads ? 1024 : which == kFunctionRegisters ? 32 : 0, 0;
  };
  d.FuncSetAttribute = [](void*, int, int) { return 0; };
  d.LaunchKernel = [](void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                      void*, void**, void**) { return 0; };
}

}  // namespace

void SetFakeFault(int code) {
  fake_fault = code;
}

int64_t FakeGraphLaunches() {
  return fake_graph_launches;
}

std::shared_ptr<const CudaDriver> MakeFakeDriver(int64_t bytes) {
  fake_total = bytes;
  auto driver = std::make_shared<CudaDriver>(13000, 1);
  SetMemory(*driver);
  SetStreams(*driver);
  SetEvents(*driver);
  SetDevice(*driver);
  return driver;
}

}  // namespace weft::gpu
