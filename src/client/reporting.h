// WEFT_REPORT: one page on all programs of the process.
#pragma once

#include <string>

#include "inspect/report.h"

namespace weft::client {

class Client;

// Records from now on and writes the page (inspect/report.h) when the process ends, and now and
// then before. The first call counts, whichever client makes it; measures the machine first.
inspect::ReportFile* ReportProcess(const std::string& path, Client& client);

}  // namespace weft::client
