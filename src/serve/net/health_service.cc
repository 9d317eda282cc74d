#include "serve/net/health_service.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <utility>

#include "base/wire.h"

namespace weft::serve {
namespace {

namespace proto = google::protobuf;

enum HealthState : int64_t { kServing = 1, kNotServing = 2, kServiceUnknown = 3 };

// For reflection alone: the messages are one field each, read and written by hand.
constexpr std::string_view kHealthFile = R"(
name: "grpc/health/v1/health.proto" package: "grpc.health.v1" syntax: "proto3"
message_type { name: "HealthCheckRequest"
  field { name: "service" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING json_name: "service" } }
message_type { name: "HealthCheckResponse"
  field { name: "status" number: 1 label: LABEL_OPTIONAL type: TYPE_ENUM json_name: "status"
          type_name: ".grpc.health.v1.HealthCheckResponse.ServingStatus" }
  enum_type { name: "ServingStatus" value { name: "UNKNOWN" number: 0 } value { name: "SERVING" number: 1 }
    value { name: "NOT_SERVING" number: 2 } value { name: "SERVICE_UNKNOWN" number: 3 } } }
service { name: "Health"
  method { name: "Check" input_type: ".grpc.health.v1.HealthCheckRequest"
           output_type: ".grpc.health.v1.HealthCheckResponse" }
  method { name: "Watch" input_type: ".grpc.health.v1.HealthCheckRequest"
           output_type: ".grpc.health.v1.HealthCheckResponse" server_streaming: true } })";

std::string StateMessage(int64_t state) {
  WireWriter writer;
  writer.Int(1, state);
  return NewMessage() + writer.str();
}

std::string_view ServiceIn(std::string_view request) {
  WireReader reader(request);
  std::string_view service;
  while (reader.Next()) {
    if (reader.field() == 1) service = reader.Bytes();
  }
  return service;
}

// The file and all that it imports, each before those that import it.
void AddFiles(const proto::FileDescriptor& file, std::vector<const proto::FileDescriptor*>& to) {
  if (std::ranges::find(to, &file) != to.end()) return;
  for (int i = 0; i < file.dependency_count(); ++i) AddFiles(*file.dependency(i), to);
  to.push_back(&file);
}

// FileDescriptorResponse; empty: there is no such file.
std::string FileResponse(const proto::FileDescriptor* file) {
  if (file == nullptr) return {};
  std::vector<const proto::FileDescriptor*> files;
  AddFiles(*file, files);
  WireWriter writer;
  // The one asked for comes first.
  for (auto at = files.rbegin(); at != files.rend(); ++at) {
    proto::FileDescriptorProto text;
    (*at)->CopyTo(&text);
    writer.BytesAlways(1, text.SerializeAsString());
  }
  return writer.Take();
}

const proto::FileDescriptor* HealthFile() {
  static const proto::FileDescriptor* const file = [] {
    static proto::DescriptorPool pool;
    proto::FileDescriptorProto text;
    proto::TextFormat::ParseFromString(std::string(kHealthFile), &text);
    return pool.BuildFile(text);
  }();
  return file;
}

const proto::FileDescriptor* FileNamed(const std::string& name) {
  if (name == HealthFile()->name()) return HealthFile();
  return proto::DescriptorPool::generated_pool()->FindFileByName(name);
}

const proto::FileDescriptor* FileWith(const std::string& symbol) {
  if (symbol.starts_with(HealthFile()->package())) {
    return HealthFile()->pool()->FindFileContainingSymbol(symbol);
  }
  return proto::DescriptorPool::generated_pool()->FindFileContainingSymbol(symbol);
}

std::string ServiceList(const std::vector<std::string>& services) {
  WireWriter writer;
  for (const std::string& name : services) {
    WireWriter service;
    service.Bytes(1, name);
    writer.Message(1, service);
  }
  return writer.Take();
}

std::string ReflectionError(Code code, std::string_view text) {
  WireWriter writer;
  writer.Int(1, static_cast<int64_t>(code));
  writer.Bytes(2, text);
  return writer.Take();
}

}  // namespace

HealthService::HealthService(Server& server, std::vector<std::string> services)
    : server_(server), services_(std::move(services)) {}

// Of the whole server ("") and of each service; of others there is none.
std::string HealthService::StateOf(std::string_view request) const {
  std::string_view name = ServiceIn(request);
  if (!name.empty() && std::ranges::find(services_, name) == services_.end())
    return StateMessage(kServiceUnknown);
  return StateMessage(server_.Ready() ? kServing : kNotServing);
}

void HealthService::AddMethods(Methods& methods) {
  methods.Add(StrCat("/", kHealthService, "/Check"), [this](const CallRef& call) {
    std::string state = StateOf(call->message());
    if (state == StateMessage(kServiceUnknown)) {
      return call->Finish(MakeError(Code::kNotFound, "no service ", ServiceIn(call->message())));
    }
    call->Finish({}, std::move(state));
  });
}

std::string HealthService::Watch(const CallRef& call, std::string_view request) {
  MutexLock lock(mutex_);
  std::string state = StateOf(request);
  if (state != StateMessage(kServiceUnknown)) watchers_.push_back(call);
  return state;
}

void HealthService::Tell() {
  bool ready = server_.Ready();
  std::vector<std::weak_ptr<Call>> watchers;
  {
    MutexLock lock(mutex_);
    std::erase_if(watchers_, [](const auto& call) { return call.expired(); });
    if (std::exchange(told_, ready) != ready) watchers = watchers_;
  }
  for (const auto& watcher : watchers) {
    if (CallRef call = watcher.lock()) call->Send(StateMessage(ready ? kServing : kNotServing));
  }
}

std::string Reflect(const std::vector<std::string>& services, std::string_view request) {
  enum { kHost = 1, kFileByName = 3, kFileBySymbol = 4, kListServices = 7 };
  enum { kOriginal = 2, kFiles = 4, kServices = 6, kError = 7 };
  WireWriter answer;
  WireReader reader(request);
  std::string body;
  uint32_t field = kError;
  bool files = false;
  while (reader.Next()) {
    if (reader.field() == kHost) {
      answer.Bytes(1, reader.Bytes());
    } else if (reader.field() == kFileByName) {
      body = FileResponse(FileNamed(std::string(reader.Bytes()))), files = true;
    } else if (reader.field() == kFileBySymbol) {
      body = FileResponse(FileWith(std::string(reader.Bytes()))), files = true;
    } else if (reader.field() == kListServices) {
      body = ServiceList(services), field = kServices;
    }
  }
  if (files && !body.empty()) field = kFiles;
  if (files && body.empty()) body = ReflectionError(Code::kNotFound, "not found");
  if (body.empty()) body = ReflectionError(Code::kUnimplemented, "no extensions");
  answer.BytesAlways(kOriginal, request);
  answer.BytesAlways(field, body);
  return NewMessage() + answer.str();
}

}  // namespace weft::serve
