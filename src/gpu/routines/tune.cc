#include "gpu/routines/tune.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "base/digest.h"
#include "base/elements.h"
#include "base/log.h"
#include "base/str.h"

namespace weft::gpu {
namespace {

using runtime::CopyKind;
using runtime::MemorySpace;

// Seconds at best: below, what differs is less than a launch.
constexpr double kWorthTuning = 50e-6;
// Seconds for all candidates of one request; those that are left then are not tried.
constexpr double kMostTuning = 0.25;
// A candidate has to be faster than the first by so much, which is more than runs differ.
constexpr double kClearlyFaster = 0.99;
constexpr int kTimedRuns = 3;
constexpr int64_t kMemoryShare = 8;  // of the device's memory operands may take one in so many
// Bytes of the result that are compared, at its begin and at its end.
constexpr int64_t kCompared = int64_t{1} << 20;
// Elements of a pattern that operands are filled with: odd, so that rows differ.
constexpr int64_t kPattern = 262'147;

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Numbers of a linear congruential generator, in [-0.5, 0.5).
std::vector<std::byte> RandomElements(DType dtype, int64_t count) {
  std::vector<double> numbers(static_cast<size_t>(count));
  uint64_t state = 1;
  for (double& x : numbers) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    x = static_cast<double>(state >> 33) * 0x1p-31 - 0.5;
  }
  std::vector<std::byte> elements(static_cast<size_t>(count * ByteWidth(dtype)));
  StoreF64(dtype, numbers.data(), count, elements.data());
  return elements;
}

// A stream and operands of its own to try candidates with.
class Tuner {
 public:
  Tuner(const RoutineInputs& inputs, const TuneRequest& request, bool timed)
      : core_(inputs.core), request_(request), timed_(timed) {}
  Status Prepare();
  Result<int64_t> Choose();

 private:
  Status Fill(std::byte* to, const TuneRequest::Operand& operand);
  RoutineCall call() const { return {*stream_, addresses_, memory_.back().address(), 0}; }
  Result<bool> KeepsNan(int64_t candidate);
  Result<double> Time(int64_t candidate);
  Result<std::vector<std::byte>> Sample();
  Status Wait() {
    return core_.cuda->Check(core_.cuda->StreamSynchronize(stream_->handle()), request_.key);
  }

  CudaCore& core_;
  const TuneRequest& request_;
  const bool timed_;  // else the first that will do is taken
  std::shared_ptr<CudaStream> stream_;
  std::vector<runtime::Allocation> memory_;
  std::vector<std::byte*> addresses_;
};

Status Tuner::Prepare() {
  const std::byte zeros[] = {std::byte{0}};
  int64_t bytes = request_.scratch_bytes;
  for (const TuneRequest::Operand& operand : request_.operands) bytes += operand.bytes;
  if (bytes > core_.target.memory_bytes / kMemoryShare) {
    return ResourceExhausted(bytes, " bytes of operands");
  }
  stream_ = TRY(CudaStream::Create(runtime::StreamKind::kCompute, core_.shared_from_this()));
  for (const TuneRequest::Operand& operand : request_.operands) {
    memory_.push_back(
        TRY(core_.Allocate(*stream_, operand.bytes, MemorySpace::kDevice, "autotuning")));
    addresses_.push_back(memory_.back().address());
    TRY(timed_ ? Fill(addresses_.back(), operand)
               : stream_->Fill(addresses_.back(), operand.bytes, zeros));
  }
  memory_.push_back(
      TRY(core_.Allocate(*stream_, request_.scratch_bytes, MemorySpace::kDevice, "autotuning")));
  return Wait();
}

// The pattern, twice as much of it with each copy.
Status Tuner::Fill(std::byte* to, const TuneRequest::Operand& operand) {
  int64_t done = std::min(operand.bytes, kPattern * ByteWidth(operand.dtype));
  std::vector<std::byte> pattern = RandomElements(operand.dtype, done / ByteWidth(operand.dtype));
  TRY(stream_->Copy(CopyKind::kToDevice, to, pattern.data(), done));
  TRY(Wait());
  while (done < operand.bytes) {
    int64_t more = std::min(done, operand.bytes - done);
    TRY(stream_->Copy(CopyKind::kOnDevice, to + done, to, more));
    done += more;
  }
  return {};
}

Result<double> Tuner::Time(int64_t candidate) {
  TRY(request_.run(candidate, call()));  // what it loads when it first runs is not timed
  TRY(Wait());
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kTimedRuns; ++i) {
    auto start = std::chrono::steady_clock::now();
    TRY(request_.run(candidate, call()));
    TRY(Wait());
    best = std::min(best, SecondsSince(start));
  }
  return best;
}

Result<std::vector<std::byte>> Tuner::Sample() {
  const int64_t bytes = request_.operands[request_.result].bytes, part = std::min(bytes, kCompared);
  std::vector<std::byte> sample(static_cast<size_t>(2 * part));
  const std::byte* from = addresses_[request_.result];
  TRY(stream_->Copy(CopyKind::kToHost, sample.data(), from, part));
  TRY(stream_->Copy(CopyKind::kToHost, sample.data() + part, from + bytes - part, part));
  TRY(Wait());
  return sample;
}

// Most of the result: windows of a convolution may lie outside of the image.
Result<bool> Tuner::KeepsNan(int64_t candidate) {
  const TuneRequest::Operand &from = request_.operands[0], &to = request_.operands[request_.result];
  const std::byte ones[] = {std::byte{0xff}};  // NaN of every type
  TRY(stream_->Fill(addresses_[0], from.bytes, ones));
  TRY(request_.run(candidate, call()));
  std::vector<std::byte> sample = TRY(Sample());
  if (timed_) TRY(Fill(addresses_[0], from));
  std::vector<double> numbers(sample.size() / static_cast<size_t>(ByteWidth(to.dtype)));
  LoadF64(to.dtype, sample.data(), std::ssize(numbers), numbers.data());
  return 2 * std::ranges::count_if(numbers, [](double x) { return std::isnan(x); }) >
         std::ssize(numbers);
}

Result<int64_t> Tuner::Choose() {
  auto start = std::chrono::steady_clock::now();
  int64_t chosen = -1;
  double best = 0, first = 0;
  std::vector<std::byte> wanted;
  for (int64_t i = 0; i < request_.candidates && SecondsSince(start) < kMostTuning; ++i) {
    if (request_.keeps_nan) {
      Result<bool> keeps = KeepsNan(i);
      if (!keeps || !*keeps) continue;
    }
    if (!timed_) return i;
    Result<double> seconds = Time(i);
    if (!seconds) continue;
    std::vector<std::byte> got = TRY(Sample());
    VLOG("gpu", 3) << request_.key << ": candidate " << i << ": " << *seconds * 1e6 << " us"
                   << (chosen >= 0 && got != wanted ? ", other bits" : "");
    if (chosen < 0) {
      chosen = i, wanted = std::move(got), first = best = *seconds;
    } else if (got == wanted && *seconds < best && *seconds < kClearlyFaster * first) {
      chosen = i, best = *seconds;
    }
  }
  if (chosen < 0) return Unimplemented("no algorithm of ", request_.candidates, " keeps NaN");
  VLOG("gpu", 2) << request_.key << ": the library's number " << chosen << ", " << best * 1e6
                 << " us, its first " << first * 1e6 << " us";
  return chosen;
}

}  // namespace

bool IsWorthTuning(const RoutineInputs& inputs, double seconds) {
  return inputs.libraries.tunes() && seconds >= kWorthTuning;
}

namespace {

std::string CacheKeyOf(const RoutineInputs& inputs, const TuneRequest& request) {
  return Digest::Hex(StrCat("autotuned\n", inputs.compiler.machine.name, "\n",
                            inputs.core.target.cores, "\n", inputs.core.cuda->version(), "\n",
                            IsWorthTuning(inputs, request.seconds), request.keeps_nan, "\n",
                            request.key));
}

}  // namespace

std::optional<int64_t> KnownChoice(const RoutineInputs& inputs, const TuneRequest& request) {
  const std::string key = CacheKeyOf(inputs, request);
  std::optional<int64_t> chosen = inputs.libraries.FindChoice(key);
  if (runtime::ObjectCache* cache = inputs.compiler.options.cache; !chosen && cache != nullptr) {
    if (std::optional<std::string> kept = cache->Find(key)) chosen = ParseInt(*kept);
  }
  if (chosen && (*chosen < kNoChoice || *chosen > INT32_MAX)) return std::nullopt;
  return chosen;
}

Result<int64_t> FastestOf(const RoutineInputs& inputs, const TuneRequest& request) {
  const bool timed = request.candidates > 1 && IsWorthTuning(inputs, request.seconds);
  if (!timed && !request.keeps_nan) return 0;
  std::optional<int64_t> chosen = KnownChoice(inputs, request);
  if (!chosen || *chosen >= request.candidates) {
    Tuner tuner(inputs, request, timed);
    Status prepared = tuner.Prepare();
    Result<int64_t> found = prepared ? tuner.Choose() : std::unexpected(prepared.error());
    if (!found) {
      VLOG("gpu", 1) << request.key << ": not tuned: " << found.error();
    }
    chosen = found ? *found : request.keeps_nan ? kNoChoice : 0;
    const std::string key = CacheKeyOf(inputs, request);
    runtime::ObjectCache* cache = inputs.compiler.options.cache;
    if (prepared) inputs.libraries.KeepChoice(key, *chosen);
    if (prepared && cache != nullptr) cache->Store(key, StrCat(*chosen));
  }
  if (*chosen == kNoChoice) return Unimplemented(request.key, ": ReLU makes 0 of NaN");
  return *chosen;
}

}  // namespace weft::gpu
