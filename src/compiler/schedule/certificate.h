// What can be said of a schedule, all of it computed from the module as it stands: whoever has the
// text can compute it again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "compiler/schedule/costs.h"
#include "compiler/schedule/timeline.h"
#include "hlo/module.h"

namespace weft::compiler::schedule {

struct CollectiveRow {
  std::string name, computation, kind, waits_for;  // the op that waited longest
  int64_t devices = 0, runs = 0, bytes = 0;
  bool is_sync = false;
  double wire = 0, exposed = 0;
};

struct Certificate {
  std::string target;
  Timeline line;
  Bounds bounds;
  Trace trace;
  double walk = 0;  // length by XLA's walk
  int64_t peak = 0;
  std::vector<CollectiveRow> collectives;  // the most exposed first
  double gap() const { return bounds.best > 0 ? line.length / bounds.best - 1 : 0; }
};

Result<Certificate> Certify(const hlo::Module& module, const Machine& machine,
                            const Profile* profile = nullptr);

// Lines that begin with `// `: they may stand before the module's text.
std::string PrintCertificate(const Certificate& certificate);
// Recomputes the certificate that stands before a module's text, and the rules of schedules; an
// error says which line is not true.
Status CheckCertificate(std::string_view text, const hlo::Module& module,
                        const Profile* profile = nullptr);

// "      begin        end us stream   name", in order of begin.
std::string PrintTimeline(const Certificate& certificate);

}  // namespace weft::compiler::schedule
