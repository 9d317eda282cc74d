#include "serve/net/grpc_connection.h"

#include <algorithm>
#include <array>
#include <utility>

#include "serve/net/grpc_session.h"
#include "serve/run_handler.h"
#include "serve/thread_class.h"

namespace weft::serve {
namespace {

constexpr size_t kReadBytes = 64 << 10;  // at once
constexpr int kMostReads = 16;           // before calls are handed on
constexpr size_t kWriteBytes = 256 << 10;
constexpr Time kMostOfRead = 100 * kMicrosecond;  // runs of what one read brought

// Connections that wait to write, of this thread.
struct HeldWrites {
  bool on = false;
  std::vector<std::shared_ptr<GrpcConnection>> connections;
};
thread_local HeldWrites held_writes;

}  // namespace

Call::Call(std::shared_ptr<GrpcConnection> connection, int32_t stream)
    : connection_(std::move(connection)), stream_(stream) {}

Call::~Call() = default;

std::string_view Call::Metadata(std::string_view name) const {
  for (const auto& [key, value] : metadata_) {
    if (key == name) return value;
  }
  return {};
}

const std::string& Call::peer() const {
  return connection_->peer();
}

void Call::Send(std::string message) {
  connection_->Send(stream_, std::move(message));
}

void Call::Finish(const Status& status, Message message, const Pairs& first, const Pairs& last) {
  connection_->Finish(stream_, status, std::move(message), first, last);
}

void Call::OnCancel(std::function<void()> cancel) {
  connection_->OnCancel(stream_, std::move(cancel));
}

GrpcConnection::GrpcConnection(int descriptor, std::shared_ptr<TlsContext> tls,
                               const GrpcLimits& limits, CallHandler& handler)
    : limits_(limits),
      handler_(handler),
      opened_(Now()),
      wire_(descriptor, std::move(tls)),
      peer_(wire_.Peer()),
      progress_(opened_) {}

GrpcConnection::~GrpcConnection() = default;

std::shared_ptr<GrpcConnection> GrpcConnection::Make(int descriptor,
                                                     std::shared_ptr<TlsContext> tls,
                                                     const GrpcLimits& limits,
                                                     CallHandler& handler) {
  std::shared_ptr<GrpcConnection> made(
      new GrpcConnection(descriptor, std::move(tls), limits, handler));
  MutexLock lock(made->mutex_);
  made->session_ = std::make_unique<GrpcSession>(*made, made->limits_, handler);
  return made;
}

bool GrpcConnection::ReadSome(bool ending) {
  thread_local std::array<char, kReadBytes> buffer;
  for (int i = 0; i < kMostReads && !over_; ++i) {
    ssize_t got = wire_.Read(buffer);
    if (got == 0) return false;
    if (got > 0) progress_ = Now();
    if (got < 0 || !session_->Feed({buffer.data(), static_cast<size_t>(got)})) {
      Write();  // what is to be said about it
      End();
      return false;
    }
    if (!ending && wire_.IsDrained(static_cast<size_t>(got), buffer.size())) return false;
  }
  return !over_;
}

// What the session has goes to the socket, as far as that takes it.
void GrpcConnection::Write() {
  while (!over_) {
    while (out_.size() < kWriteBytes && session_->Fill(out_)) {
    }
    if (out_.empty()) break;
    ssize_t sent = wire_.Write(out_);
    if (sent < 0) return wire_.Shutdown();  // whoever reads sees the end
    if (sent == 0) return;
    progress_ = Now();
    out_.Drop(static_cast<size_t>(sent));
  }
  if (!over_ && !session_->WantsMore()) wire_.Shutdown();
}

bool GrpcConnection::Hold() {
  if (!held_writes.on) return false;
  auto& waiting = held_writes.connections;
  bool there = std::ranges::any_of(waiting, [this](const auto& c) { return c.get() == this; });
  if (!there) waiting.push_back(shared_from_this());
  return true;
}

void GrpcConnection::HoldWrites() {
  held_writes.on = true;
}

void GrpcConnection::ReleaseWrites() {
  held_writes.on = false;
  for (const auto& connection : std::exchange(held_writes.connections, {})) connection->Deliver();
}

void GrpcConnection::End() {
  over_ = true;
  wire_.Shutdown();
  session_->Abandon();
}

// What others are to run is handed over first; then the rest runs here, and the answers of all but
// the last of it leave together.
void GrpcConnection::HandleAll(std::span<const CallRef> calls, bool more) {
  const bool several = calls.size() > 1;
  if (several) HoldWrites(), RunHandler::HoldRuns();
  for (size_t i = 0; i < calls.size(); ++i) {
    const bool wanted = more || i + 1 < calls.size() || IsLastReceiver();
    calls[i]->thread_use_ = wanted ? ThreadUse::kWanted : ThreadUse::kFree;
    handler_.Handle(calls[i]);
  }
  if (!several) return;
  size_t left = RunHandler::ReleaseRuns(kMostOfRead);
  for (; left > 1; --left) RunHandler::RunNext();
  ReleaseWrites();  // before the longest
  if (left > 0) RunHandler::RunNext();
}

bool GrpcConnection::Serve(bool ending) {
  for (;;) {
    std::vector<CallRef> calls;
    std::vector<std::function<void()>> cancelled;
    bool more = false, over = false;
    {
      MutexLock lock(mutex_);
      if (over_) return false;
      TakeEndings();
      more = ReadSome(ending);
      TakeEndings();
      Write();
      over = over_;
      calls = session_->TakeCalls();
      cancelled = session_->TakeCancelled();
    }
    Deliver();
    for (const auto& cancel : cancelled) cancel();
    HandleAll(calls, more);
    if (over) return false;
    if (!more) return true;
  }
}

void GrpcConnection::TakeEndings() {
  if (!ended_.load()) return;
  std::vector<Ending> endings;
  {
    MutexLock lock(endings_mutex_);
    endings.swap(endings_);
    ended_.store(false);
  }
  for (Ending& end : endings)
    session_->Finish(end.stream, end.status, std::move(end.message), end.first, end.last);
}

void GrpcConnection::Deliver() {
  // Whoever says that there is one asks for the lock behind that, whoever lets go of the lock looks
  // behind that: in one order for all, so that one of both sees the other.
  for (;;) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!ended_.load() || !mutex_.TryLock()) return;
    TakeEndings();
    Write();
    mutex_.Unlock();
  }
}

void GrpcConnection::RefuseCalls() {
  {
    MutexLock lock(mutex_);
    if (over_) return;
    session_->RefuseCalls();
    Write();
  }
  Deliver();
}

void GrpcConnection::Shutdown() {
  {
    MutexLock lock(mutex_);
    wire_.Shutdown();
  }
  Deliver();
}

bool GrpcConnection::Check(Time now) {
  const bool idle = IsIdle(now);
  Deliver();
  return idle;
}

// Ends it where its client does not go on.
bool GrpcConnection::IsIdle(Time now) {
  MutexLock lock(mutex_);
  if (over_) return true;
  const bool idle = session_->idle() && out_.empty();
  bool late = !session_->opened() && now - opened_ > limits_.open_seconds * kSecond;
  // Calls that run are not the client's to move on.
  bool stalled = !out_.empty() || session_->Receiving();
  late = late || (stalled && now - progress_ > limits_.stall_seconds * kSecond);
  if (late) wire_.Shutdown();
  return idle;
}

void GrpcConnection::Send(int32_t stream, std::string message) {
  {
    MutexLock lock(mutex_);
    if (over_) return;
    session_->Send(stream, std::move(message));
    Write();
  }
  Deliver();
}

void GrpcConnection::Finish(int32_t stream, const Status& status, Message message,
                            const Call::Pairs& first, const Call::Pairs& last) {
  bool first_one = false;
  {
    MutexLock lock(endings_mutex_);
    first_one = endings_.empty();
    endings_.push_back({stream, status, std::move(message), first, last});
    ended_.store(true);
  }
  if (StandsBehind()) {
    if (first_one) Wake();
  } else if (!Hold()) {
    Deliver();
  }
}

void GrpcConnection::OnCancel(int32_t stream, std::function<void()> cancel) {
  bool there = false;
  {
    MutexLock lock(mutex_);
    there = !over_ && session_->OnCancel(stream, cancel);
  }
  Deliver();
  if (!there) cancel();
}

}  // namespace weft::serve
