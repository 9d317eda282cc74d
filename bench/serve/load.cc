// Load for weft-serve: requests of one model or of several, over gRPC (Open Inference) or in
// process, open loop (at times drawn beforehand, whatever the answers do) or closed loop (so many
// at once). Latency counts from when a request was due. Prints one line of JSON.
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/str.h"
#include "senders.h"
#include "serve/client_backend.h"
#include "serve/server.h"

namespace weft::serve {
namespace {

struct LoadOptions {
  std::string target;               // host:port; empty: in process, from these folders
  std::string models = "m:x:1,64";  // NAME:INPUT:DIMS;..., of which each request takes one
  std::string folder;               // in process: FOLDER/NAME
  double rate = 0;                  // requests a second; 0: closed loop
  int64_t clients = 1;              // closed loop: requests at once
  int64_t threads = 1;              // open loop; each with a connection
  int64_t channels = 4;             // closed loop: connections, at most one for each client
  double seconds = 5, warm_up = 0.5, high = 0;  // high: the part of high priority
  double timeout_ms = 0;
  double spin_us = 0;           // open loop: so long before it is due a request is waited for awake
  double poll_us = 0;           // the same for answers, by nghttp2
  std::string client = "wire";  // by nghttp2; "grpc": gRPC's own library
  bool batching = true, echo = false;
};

struct Sample {
  size_t target = 0;
  bool high = false;
  int code = 0;
  Time latency = 0;
  Time answered = 0;
  Time late = 0;  // handed to the connection behind its time: the generator's own part
};

std::vector<std::string_view> SplitAt(std::string_view text, char mark) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    size_t end = std::min(text.find(mark), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

Result<LoadOptions> ParseLoad(int argc, char** argv) {
  LoadOptions options;
  std::map<std::string_view, std::string*> texts = {{"target", &options.target},
                                                    {"models", &options.models},
                                                    {"folder", &options.folder},
                                                    {"client", &options.client}};
  std::map<std::string_view, double*> numbers = {{"rate", &options.rate},
                                                 {"seconds", &options.seconds},
                                                 {"warm_up", &options.warm_up},
                                                 {"high", &options.high},
                                                 {"timeout_ms", &options.timeout_ms},
                                                 {"spin_us", &options.spin_us},
                                                 {"poll_us", &options.poll_us}};
  std::map<std::string_view, int64_t*> counts = {{"clients", &options.clients},
                                                 {"threads", &options.threads},
                                                 {"channels", &options.channels}};
  std::map<std::string_view, bool*> flags = {{"batching", &options.batching},
                                             {"echo", &options.echo}};
  for (int i = 1; i < argc; ++i) {
    std::string_view word = argv[i];
    size_t equals = word.find('=');
    std::string_view name = word.substr(0, equals);
    if (!name.starts_with("--") || equals == word.npos)
      return InvalidArgument("--name=value: ", word);
    name.remove_prefix(2);
    std::string value(word.substr(equals + 1));
    if (texts.contains(name)) {
      *texts[name] = value;
    } else if (numbers.contains(name)) {
      *numbers[name] = ParseDouble(value).value_or(0);
    } else if (counts.contains(name)) {
      *counts[name] = std::max<int64_t>(ParseInt(value).value_or(1), 1);
    } else if (flags.contains(name)) {
      *flags[name] = value == "1" || value == "true";
    } else {
      return InvalidArgument("unknown flag: ", word);
    }
  }
#ifndef WEFT_GRPC_CLIENT
  if (options.client == "grpc") return Unimplemented("--client=grpc: built without gRPC's library");
#endif
  return options;
}

Result<std::vector<LoadTarget>> ParseTargets(const LoadOptions& options) {
  std::vector<LoadTarget> targets;
  for (std::string_view text : SplitAt(options.models, ';')) {
    std::vector<std::string_view> parts = SplitAt(text, ':');
    if (parts.size() != 3) return InvalidArgument("--models: NAME:INPUT:DIMS: ", text);
    LoadTarget& target = targets.emplace_back(std::string(parts[0]), std::string(parts[1]));
    for (std::string_view dim : SplitAt(parts[2], ','))
      target.dims.push_back(ParseInt(dim).value_or(1));
  }
  if (targets.empty()) return InvalidArgument("--models: none");
  return targets;
}

void SleepUntil(Time when, Time spin) {
  Time now = Now();
  if (when - now > spin) std::this_thread::sleep_for(std::chrono::nanoseconds(when - now - spin));
  while (Now() < when) {
  }
}

// Samples of many threads, each to a list that few share.
class Recorder {
 public:
  void Add(Sample sample) {
    Shard& shard = shards_[std::hash<std::thread::id>()(std::this_thread::get_id()) % kShards];
    MutexLock lock(shard.mutex);
    shard.samples.push_back(sample);
  }
  std::vector<Sample> Take() {
    std::vector<Sample> all;
    for (Shard& shard : shards_) {
      MutexLock lock(shard.mutex);
      all.insert(all.end(), shard.samples.begin(), shard.samples.end());
    }
    return all;
  }

 private:
  static constexpr size_t kShards = 16;
  struct Shard {
    Mutex mutex;
    std::vector<Sample> samples WEFT_GUARDED_BY(mutex);
  };
  std::array<Shard, kShards> shards_;
};

struct Schedule {
  Time begin = 0, counted = 0, end = 0;
};

// Sends at the times of a Poisson process.
void OpenLoop(const LoadOptions& options, size_t targets, Sender& sender, uint64_t seed,
              const Schedule& when, Recorder& to) {
  prctl(PR_SET_TIMERSLACK, 1);
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> gap(options.rate / static_cast<double>(options.threads));
  std::uniform_real_distribution<double> part;
  std::atomic<int64_t> out = 0;
  Time spin = static_cast<Time>(options.spin_us * 1e3);
  for (double at = gap(random);; at += gap(random)) {
    Time due = when.begin + static_cast<Time>(at * 1e9);
    if (due >= when.end) break;
    SleepUntil(due, spin);
    bool high = part(random) < options.high;
    size_t target = random() % targets;
    ++out;
    const Time late = Now() - due;
    sender.Send(target, high, [&, due, high, target, late](int code) {
      Time now = Now();
      if (due >= when.counted) to.Add({target, high, code, now - due, now, late});
      --out;
    });
  }
  while (out > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// One request at a time, waited for: what a caller sees.
void Caller(size_t targets, Sender& sender, uint64_t seed, const Schedule& when, Recorder& to) {
  std::mt19937_64 random(seed);
  for (Time start = Now(); start < when.end; start = Now()) {
    std::atomic<int> code = -1;
    size_t target = random() % targets;
    sender.Send(target, false, [&](int c) {
      code = c;
      code.notify_one();
    });
    code.wait(-1);
    Time now = Now();
    if (start >= when.counted) to.Add({target, false, code, now - start, now});
  }
}

// One request at a time, the next one sent where the answer arrives: no thread waits.
class Chain {
 public:
  Chain(size_t targets, Sender& sender, uint64_t seed, const Schedule& when, Recorder& to,
        std::atomic<int64_t>& left)
      : targets_(targets), sender_(sender), random_(seed), when_(when), to_(to), left_(left) {}
  void Next() {
    Time start = Now();
    if (start >= when_.end) {
      left_.fetch_sub(1);
      return;
    }
    size_t target = random_() % targets_;
    sender_.Send(target, false, [this, start, target](int code) {
      Time now = Now();
      if (start >= when_.counted) to_.Add({target, false, code, now - start, now});
      Next();
    });
  }

 private:
  const size_t targets_;
  Sender& sender_;
  std::mt19937_64 random_;
  const Schedule& when_;
  Recorder& to_;
  std::atomic<int64_t>& left_;
};

// The longest time between two answers that are results: what starves has none for long.
Time LongestGap(const std::vector<Sample>& samples) {
  std::vector<Time> times;
  for (const Sample& sample : samples) {
    if (sample.code == 0) times.push_back(sample.answered);
  }
  std::ranges::sort(times);
  Time longest = 0;
  for (size_t i = 1; i < times.size(); ++i) longest = std::max(longest, times[i] - times[i - 1]);
  return longest;
}

std::string SummaryOf(const std::vector<Sample>& samples, double seconds) {
  std::vector<Time> good, shed, late;
  std::map<int, int64_t> codes;
  for (const Sample& sample : samples) {
    ++codes[sample.code];
    late.push_back(sample.late);
    if (sample.code == 0) good.push_back(sample.latency);
    if (sample.code == static_cast<int>(Code::kResourceExhausted)) shed.push_back(sample.latency);
  }
  auto at = [](std::vector<Time>& times, double q) {
    if (times.empty()) return 0.0;
    std::ranges::sort(times);
    size_t index = static_cast<size_t>(q * static_cast<double>(times.size() - 1));
    return static_cast<double>(times[index]) * 1e-3;
  };
  std::string out =
      StrCat("{\"rate\": ", static_cast<double>(good.size()) / seconds,
             ", \"p50_us\": ", at(good, 0.5), ", \"p90_us\": ", at(good, 0.9),
             ", \"p99_us\": ", at(good, 0.99), ", \"p999_us\": ", at(good, 0.999),
             ", \"gap_us\": ", static_cast<double>(LongestGap(samples)) * 1e-3,
             ", \"late_p99_us\": ", at(late, 0.99), ", \"shed_p50_us\": ", at(shed, 0.5),
             ", \"shed_p99_us\": ", at(shed, 0.99), ", \"codes\": {");
  bool first = true;
  for (const auto& [code, count] : codes) {
    StrAppend(out, first ? "" : ", ", "\"", code, "\": ", count);
    first = false;
  }
  return out + "}}";
}

std::string Summary(const std::vector<LoadTarget>& targets, const std::vector<Sample>& samples,
                    double seconds) {
  auto where = [&](auto keep) {
    std::vector<Sample> some;
    for (const Sample& sample : samples) {
      if (keep(sample)) some.push_back(sample);
    }
    return SummaryOf(some, seconds);
  };
  std::string out = StrCat("{\"seconds\": ", seconds,
                           ", \"normal\": ", where([](const Sample& s) { return !s.high; }),
                           ", \"high\": ", where([](const Sample& s) { return s.high; }));
  for (size_t t = 0; targets.size() > 1 && t < targets.size(); ++t) {
    StrAppend(out, ", \"", targets[t].model,
              "\": ", where([&](const Sample& s) { return s.target == t; }));
  }
  return out + "}\n";
}

std::unique_ptr<Sender> MakeSender(const LoadOptions& options,
                                   const std::vector<LoadTarget>& targets, Server* server) {
  Time timeout = static_cast<Time>(options.timeout_ms * 1e6);
  if (server != nullptr) return MakeLocalSender(*server, targets, timeout);
#ifdef WEFT_GRPC_CLIENT
  if (options.client == "grpc") return MakeGrpcSender(options.target, targets, timeout);
#endif
  return MakeWireSender(options.target, targets, timeout, static_cast<Time>(options.poll_us * 1e3));
}

int ServeEcho(const LoadOptions& options) {
#ifdef WEFT_GRPC_CLIENT
  if (options.client == "grpc") return ServeGrpcEcho();
#endif
  (void)options;
  return ServeWireEcho();
}

void RunLoad(const LoadOptions& options, const std::vector<LoadTarget>& targets, Server* server,
             Recorder& recorder) {
  const bool open = options.rate > 0;
  int64_t clients = open ? options.threads : options.clients;
  int64_t connections = open || server != nullptr ? clients : std::min(clients, options.channels);
  std::vector<std::unique_ptr<Sender>> senders;
  for (int64_t i = 0; i < connections; ++i) {
    senders.push_back(MakeSender(options, targets, server));
  }
  Schedule when;
  when.begin = Now();
  when.counted = when.begin + static_cast<Time>(options.warm_up * 1e9);
  when.end = when.counted + static_cast<Time>(options.seconds * 1e9);
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<Chain>> chains;
  std::atomic<int64_t> left = 0;
  for (int64_t i = 0; i < clients; ++i) {
    Sender& sender = *senders[static_cast<size_t>(i % connections)];
    uint64_t seed = static_cast<uint64_t>(i) + 1;
    if (open) {
      threads.emplace_back(
          [&, seed] { OpenLoop(options, targets.size(), sender, seed, when, recorder); });
    } else if (server != nullptr) {
      threads.emplace_back([&, seed] { Caller(targets.size(), sender, seed, when, recorder); });
    } else {
      ++left;
      chains.push_back(std::make_unique<Chain>(targets.size(), sender, seed, when, recorder, left));
    }
  }
  for (const auto& chain : chains) chain->Next();
  for (std::thread& thread : threads) thread.join();
  while (left > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

int Fail(const Error& error) {
  std::fprintf(stderr, "%s\n", error.ToString().c_str());
  return 1;
}

int Main(int argc, char** argv) {
  Result<LoadOptions> options = ParseLoad(argc, argv);
  if (!options) return Fail(options.error());
  if (options->echo) return ServeEcho(*options);
  Result<std::vector<LoadTarget>> targets = ParseTargets(*options);
  if (!targets) return Fail(targets.error());
  std::unique_ptr<Server> server;
  if (options->target.empty()) {
    auto backend = MakeClientBackend();
    if (!backend) return Fail(backend.error());
    ServerOptions server_options = DefaultServerOptions((*backend)->Lanes());
    server_options.batching.enabled = options->batching;
    server = std::make_unique<Server>(std::move(*backend), server_options);
    std::vector<ModelConfig> models;
    for (const LoadTarget& target : *targets) {
      models.push_back({target.model, StrCat(options->folder, "/", target.model)});
    }
    if (Status status = server->models().SetConfig(std::move(models)); !status)
      return Fail(status.error());
  }
  Recorder recorder;
  RunLoad(*options, *targets, server.get(), recorder);
  std::string text = Summary(*targets, recorder.Take(), options->seconds);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace
}  // namespace weft::serve

int main(int argc, char** argv) {
  return weft::serve::Main(argc, argv);
}
