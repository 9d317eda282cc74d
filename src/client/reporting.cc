#include "client/reporting.h"

#include <cstdlib>
#include <mutex>

#include "base/file.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "client/build.h"
#include "client/client.h"

namespace weft::client {
namespace {

// Never destroyed: programs are compiled and run until the very end.
struct ProcessReport {
  static ProcessReport& Get() {
    static ProcessReport& report = *new ProcessReport;
    return report;
  }
  std::once_flag once;
  inspect::ReportFile* file = nullptr;
};

void WriteReportAtExit() {
  if (Status written = ProcessReport::Get().file->Write(); !written) {
    LOG(warn) << "WEFT_REPORT: " << written.error();
  }
}

// "python train.py --steps 10"
std::string CommandLine() {
  constexpr size_t kMost = 200;
  std::string text = ReadFile("/proc/self/cmdline").value_or("");
  while (!text.empty() && text.back() == '\0') text.pop_back();
  // The program without its folder.
  text.erase(0, text.rfind('/', text.find('\0')) + 1);
  for (char& c : text) {
    if (c == '\0' || c == '\n') c = ' ';
  }
  if (text.size() > kMost) text = text.substr(0, kMost) + " ...";
  return text;
}

}  // namespace

inspect::ReportFile* ReportProcess(const std::string& path, Client& client) {
  std::call_once(ProcessReport::Get().once, [&] {
    inspect::ReportMachine machine;
    if (runtime::Device* device = client.native_device()) {
      machine.target = device->target();
      machine.measured = client.roofline();
    }
    machine.threads = DefaultPool().limit();
    auto* file = new inspect::ReportFile(path, CommandLine(), std::string(Version()));
    file->SetMachine(std::move(machine));
    file->QuoteSources();
    ProcessReport::Get().file = file;
    std::atexit(WriteReportAtExit);
  });
  return ProcessReport::Get().file;
}

}  // namespace weft::client
