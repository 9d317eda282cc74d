#include "serve/gate.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/file.h"
#include "base/str.h"
#include "serve/json.h"

namespace weft::serve {
namespace {

constexpr size_t kMostPending = size_t{16} << 20;  // bytes of lines that wait for the disk
constexpr auto kWriteEvery = std::chrono::milliseconds(200);

std::string TimeText() {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  int64_t micros = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  std::time_t seconds = micros / 1'000'000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[64];
  size_t size = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text + size, sizeof(text) - size, ".%06dZ", static_cast<int>(micros % 1'000'000));
  return text;
}

std::string LineOf(const AccessEntry& entry) {
  std::string line =
      StrCat("{\"time\":\"", TimeText(), "\",\"protocol\":\"", entry.protocol, "\",\"method\":");
  AppendJsonText(line, entry.method);
  AppendJsonText(line += ",\"target\":", entry.target);
  AppendJsonText(line += ",\"peer\":", entry.peer);
  StrAppend(line, ",\"status\":", entry.status, ",\"micros\":", entry.took / kMicrosecond,
            ",\"request_bytes\":", entry.request_bytes,
            ",\"response_bytes\":", entry.response_bytes);
  if (entry.trace) StrAppend(line, ",\"trace_id\":\"", entry.trace->TraceId(), "\"");
  return line + "}\n";
}

std::string_view Stripped(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  size_t first = text.find_first_not_of(kSpace);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// In a time that does not depend on where they differ.
bool SameSecret(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char differ = 0;
  for (size_t i = 0; i < a.size(); ++i) differ |= static_cast<unsigned char>(a[i] ^ b[i]);
  return differ == 0;
}

bool IsBearer(std::string_view word) {
  constexpr std::string_view kBearer = "bearer ";
  if (word.size() < kBearer.size()) return false;
  for (size_t i = 0; i < kBearer.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(word[i])) != kBearer[i]) return false;
  }
  return true;
}

}  // namespace

AccessLog::AccessLog(std::string path, std::FILE* file)
    : path_(std::move(path)), file_(file), thread_([this] { Run(); }) {}

Result<std::unique_ptr<AccessLog>> AccessLog::Open(const std::string& path) {
  std::FILE* file = path == "-" ? stdout : std::fopen(path.c_str(), "ae");
  if (file == nullptr) return InvalidArgument(path, ": cannot be written: ", std::strerror(errno));
  return std::unique_ptr<AccessLog>(new AccessLog(path, file));
}

AccessLog::~AccessLog() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
  if (file_ != nullptr && file_ != stdout) std::fclose(file_);
}

void AccessLog::Write(const AccessEntry& entry) {
  std::string line = LineOf(entry);
  MutexLock lock(mutex_);
  if (pending_.size() + line.size() > kMostPending) {
    ++dropped_;
  } else {
    pending_ += line;
  }
}

void AccessLog::Run() {
  for (bool last = false; !last;) {
    std::string lines;
    {
      MutexLock lock(mutex_);
      if (!stopping_) mutex_.WaitUntil(wake_, std::chrono::steady_clock::now() + kWriteEvery);
      last = stopping_;
      lines.swap(pending_);
      if (dropped_ > 0 && lines.empty()) {
        lines = StrCat("{\"dropped\":", std::exchange(dropped_, 0), "}\n");
      }
    }
    // A full disk loses lines, never requests.
    if (file_ != nullptr && !lines.empty()) {
      std::fwrite(lines.data(), 1, lines.size(), file_);
      std::fflush(file_);
    }
    // After that: what was logged before belongs to the file that was there.
    if (reopen_.exchange(false) && path_ != "-") {
      if (file_ != nullptr) std::fclose(file_);
      file_ = std::fopen(path_.c_str(), "ae");
    }
  }
}

Status Gate::ReadTokens(const std::string& path) {
  std::string text = TRY(ReadFile(path));
  std::string_view rest = text;
  std::vector<std::string> tokens;
  while (!rest.empty()) {
    size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = Stripped(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (!line.empty() && line[0] != '#') tokens.emplace_back(line);
  }
  if (tokens.empty()) return InvalidArgument(path, ": no token");
  tokens_ = std::move(tokens);
  return {};
}

Status Gate::Check(std::string_view authorization) const {
  if (tokens_.empty()) return {};
  bool known = false;
  if (IsBearer(authorization)) {
    std::string_view token = Stripped(authorization.substr(7));
    for (const std::string& own : tokens_) known |= SameSecret(own, token);
  }
  if (known) return {};
  return MakeError(Code::kUnauthenticated, authorization.empty()
                                               ? "no token: send Authorization: Bearer TOKEN"
                                               : "the token is not known");
}

}  // namespace weft::serve
