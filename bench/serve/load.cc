// Load for weft-serve: requests of one model over gRPC (Open Inference) or in process, open loop
// (at times drawn beforehand, whatever the answers do) or closed loop (so many at once). Latency
// counts from when a request was due. Prints one line of JSON.
#include <grpcpp/grpcpp.h>

#include <algorithm>
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
#include "inference.grpc.pb.h"
#include "serve/client_backend.h"
#include "serve/server.h"

namespace weft::serve {
namespace {

struct LoadOptions {
  std::string target, in_process, model = "m", input = "x", shape = "1,64";
  double rate = 0;  // requests a second; 0: closed loop
  int64_t clients = 1, threads = 1;
  double seconds = 5, warm_up = 0.5, high = 0;  // high: the part of high priority
  double timeout_ms = 0;
};

struct Sample {
  bool high = false;
  int code = 0;
  Time latency = 0;
};

Result<LoadOptions> ParseLoad(int argc, char** argv) {
  LoadOptions options;
  std::map<std::string_view, std::string*> texts = {{"target", &options.target},
                                                    {"in_process", &options.in_process},
                                                    {"model", &options.model},
                                                    {"input", &options.input},
                                                    {"shape", &options.shape}};
  std::map<std::string_view, double*> numbers = {{"rate", &options.rate},
                                                 {"seconds", &options.seconds},
                                                 {"warm_up", &options.warm_up},
                                                 {"high", &options.high},
                                                 {"timeout_ms", &options.timeout_ms}};
  std::map<std::string_view, int64_t*> counts = {{"clients", &options.clients},
                                                 {"threads", &options.threads}};
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
      *counts[name] = ParseInt(value).value_or(1);
    } else {
      return InvalidArgument("unknown flag: ", word);
    }
  }
  return options;
}

std::vector<int64_t> DimsOf(std::string_view text) {
  std::vector<int64_t> dims;
  while (!text.empty()) {
    size_t comma = std::min(text.find(','), text.size());
    dims.push_back(ParseInt(text.substr(0, comma)).value_or(1));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return dims;
}

// One way to send a request; `done` gets the status code.
class Sender {
 public:
  virtual ~Sender() = default;
  virtual void Send(bool high, std::function<void(int)> done) = 0;
};

class GrpcSender final : public Sender {
 public:
  explicit GrpcSender(const LoadOptions& options) : options_(options) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stub_ = inference::GRPCInferenceService::NewStub(
        grpc::CreateCustomChannel(options.target, grpc::InsecureChannelCredentials(), arguments));
    std::vector<int64_t> dims = DimsOf(options.shape);
    int64_t elements = 1;
    auto* input = request_.add_inputs();
    input->set_name(options.input);
    input->set_datatype("FP32");
    for (int64_t dim : dims) input->add_shape(dim), elements *= dim;
    request_.set_model_name(options.model);
    std::vector<float> values(static_cast<size_t>(elements), 0.5f);
    request_.add_raw_input_contents(values.data(), values.size() * sizeof(float));
  }
  void Send(bool high, std::function<void(int)> done) override {
    struct Call {
      grpc::ClientContext context;
      inference::ModelInferResponse response;
    };
    auto call = std::make_shared<Call>();
    if (high) call->context.AddMetadata("x-weft-priority", "high");
    if (options_.timeout_ms > 0) {
      call->context.set_deadline(
          std::chrono::system_clock::now() +
          std::chrono::microseconds(static_cast<int64_t>(options_.timeout_ms * 1e3)));
    }
    stub_->async()->ModelInfer(
        &call->context, &request_, &call->response,
        [call, done = std::move(done)](const grpc::Status& status) { done(status.error_code()); });
  }

 private:
  const LoadOptions& options_;
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
  inference::ModelInferRequest request_;
};

class LocalSender final : public Sender {
 public:
  LocalSender(const LoadOptions& options, Server& server)
      : options_(options), server_(server), value_(Shape(DType::kF32, DimsOf(options.shape))) {}
  void Send(bool high, std::function<void(int)> done) override {
    InferRequest request;
    request.model.name = options_.model;
    request.inputs.push_back({options_.input, value_});
    if (high) request.priority = Priority::kHigh;
    request.received = Now();
    if (options_.timeout_ms > 0) {
      request.deadline = request.received + static_cast<Time>(options_.timeout_ms * 1e6);
    }
    server_.Infer(std::move(request), [done = std::move(done)](Result<InferResponse> response) {
      done(response ? 0 : static_cast<int>(response.error().code()));
    });
  }

 private:
  const LoadOptions& options_;
  Server& server_;
  Literal value_;
};

void SleepUntil(Time when) {
  // The last bit is spun: a timer is late by more than some requests take.
  constexpr Time kSpin = 60 * kMicrosecond;
  Time now = Now();
  if (when - now > kSpin) std::this_thread::sleep_for(std::chrono::nanoseconds(when - now - kSpin));
  while (Now() < when) {
  }
}

class Recorder {
 public:
  void Add(Sample sample) {
    MutexLock lock(mutex_);
    samples_.push_back(sample);
  }
  std::vector<Sample> Take() {
    MutexLock lock(mutex_);
    return std::move(samples_);
  }

 private:
  Mutex mutex_;
  std::vector<Sample> samples_ WEFT_GUARDED_BY(mutex_);
};

// Sends at the times of a Poisson process.
void OpenLoop(const LoadOptions& options, Sender& sender, uint64_t seed, Time begin, Recorder& to) {
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> gap(options.rate / static_cast<double>(options.threads));
  std::uniform_real_distribution<double> part;
  std::atomic<int64_t> out = 0;
  Time counted = begin + static_cast<Time>(options.warm_up * 1e9);
  Time end = counted + static_cast<Time>(options.seconds * 1e9);
  for (double at = gap(random);; at += gap(random)) {
    Time due = begin + static_cast<Time>(at * 1e9);
    if (due >= end) break;
    SleepUntil(due);
    bool high = part(random) < options.high;
    ++out;
    sender.Send(high, [&, due, high](int code) {
      if (due >= counted) to.Add({high, code, Now() - due});
      --out;
    });
  }
  while (out > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// One request at a time.
void ClosedLoop(const LoadOptions& options, Sender& sender, Time begin, Recorder& to) {
  Time counted = begin + static_cast<Time>(options.warm_up * 1e9);
  Time end = counted + static_cast<Time>(options.seconds * 1e9);
  for (Time start = Now(); start < end; start = Now()) {
    std::atomic<int> code = -1;
    sender.Send(false, [&](int c) {
      code = c;
      code.notify_one();
    });
    code.wait(-1);
    if (start >= counted) to.Add({false, code, Now() - start});
  }
}

std::string Summary(std::vector<Sample> samples, double seconds) {
  std::string out = StrCat("{\"seconds\": ", seconds);
  for (bool high : {false, true}) {
    std::vector<Time> good, shed;
    std::map<int, int64_t> codes;
    for (const Sample& sample : samples) {
      if (sample.high != high) continue;
      ++codes[sample.code];
      if (sample.code == 0) good.push_back(sample.latency);
      if (sample.code == static_cast<int>(Code::kResourceExhausted)) shed.push_back(sample.latency);
    }
    if (codes.empty()) continue;
    auto at = [](std::vector<Time>& times, double q) {
      if (times.empty()) return 0.0;
      std::ranges::sort(times);
      size_t index = static_cast<size_t>(q * static_cast<double>(times.size() - 1));
      return static_cast<double>(times[index]) * 1e-3;
    };
    StrAppend(out, ", \"", high ? "high" : "normal",
              "\": {\"rate\": ", static_cast<double>(good.size()) / seconds,
              ", \"p50_us\": ", at(good, 0.5), ", \"p99_us\": ", at(good, 0.99),
              ", \"p999_us\": ", at(good, 0.999), ", \"shed_p99_us\": ", at(shed, 0.99),
              ", \"codes\": {");
    bool first = true;
    for (const auto& [code, count] : codes) {
      StrAppend(out, first ? "" : ", ", "\"", code, "\": ", count);
      first = false;
    }
    out += "}}";
  }
  return out + "}\n";
}

int Main(int argc, char** argv) {
  Result<LoadOptions> options = ParseLoad(argc, argv);
  if (!options) return std::fprintf(stderr, "%s\n", options.error().ToString().c_str()), 2;
  std::unique_ptr<Server> server;
  if (!options->in_process.empty()) {
    auto backend = MakeClientBackend();
    if (!backend) return std::fprintf(stderr, "%s\n", backend.error().ToString().c_str()), 1;
    server = std::make_unique<Server>(std::move(*backend), DefaultServerOptions());
    Status status = server->models().SetConfig({{options->model, options->in_process}});
    if (!status) return std::fprintf(stderr, "%s\n", status.error().ToString().c_str()), 1;
  }
  Recorder recorder;
  std::vector<std::unique_ptr<Sender>> senders;
  std::vector<std::thread> threads;
  int64_t count = options->rate > 0 ? options->threads : options->clients;
  for (int64_t i = 0; i < count; ++i) {
    if (server != nullptr) {
      senders.push_back(std::make_unique<LocalSender>(*options, *server));
    } else {
      senders.push_back(std::make_unique<GrpcSender>(*options));
    }
  }
  Time begin = Now();
  for (int64_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      Sender& sender = *senders[static_cast<size_t>(i)];
      if (options->rate > 0) {
        OpenLoop(*options, sender, static_cast<uint64_t>(i) + 1, begin, recorder);
      } else {
        ClosedLoop(*options, sender, begin, recorder);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::string text = Summary(recorder.Take(), options->seconds);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace
}  // namespace weft::serve

int main(int argc, char** argv) {
  return weft::serve::Main(argc, argv);
}
