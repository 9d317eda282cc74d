// What the server does now, as JSON, and the page that shows it.
#pragma once

#include <string>
#include <string_view>

#include "serve/server.h"

namespace weft::serve {

// Models with versions, outcomes and histograms; queues, slots, memory. Counts since the start:
// who asks twice knows what happened between.
std::string StatusJson(Server& server);
// HTML, complete: it asks for /v2/debug/status once a second and draws.
std::string_view StatusPage();

}  // namespace weft::serve
