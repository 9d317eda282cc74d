#include "crash_site.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/str.h"
#include "hlo/clone.h"

namespace weft::tools {
namespace {

using Passes = std::vector<const compiler::Pass*>;
constexpr int kPassError = 20, kPrefixError = 21;

Passes EnabledPasses(const CrashRequest& request) {
  Passes passes;
  const auto& disabled = request.options.pipeline.disable;
  for (const compiler::Pass* pass : request.passes) {
    if (std::find(disabled.begin(), disabled.end(), pass->name) == disabled.end()) {
      passes.push_back(pass);
    }
  }
  return passes;
}

std::string JoinNames(std::span<const compiler::Pass* const> passes) {
  std::string out;
  for (const compiler::Pass* pass : passes) StrAppend(out, out.empty() ? "" : ",", pass->name);
  return out;
}

// Breadcrumbs of a child: the stage, and what the error of a pass says.
constexpr size_t kStageCrumb = 0, kNumberCrumb = 1, kErrorCrumb = 2, kCrumbs = 8;

class Trial {
 public:
  Trial(const CrashRequest& request, std::span<const compiler::Pass* const> passes)
      : request_(request), passes_(passes), crumbs_(kCrumbs) {}

  // All passes and what comes behind them. The status; the crumbs say where.
  int RunAll() {
    return Start([&] {
      ModuleCopy module(request_);
      for (size_t i = 0; i < passes_.size(); ++i) {
        crumbs_.Set(kNumberCrumb, StrCat(i));
        Mark(StrCat("pass ", passes_[i]->name));
        if (!RunPass(*module, i)) return kPassError;
      }
      crumbs_.Set(kNumberCrumb, "-1");
      return Rest(*module);
    });
  }

  // The first n passes, then the one that dies (-1: what comes behind the passes) on what they
  // leave. True: it ends as before, in that part.
  bool DiesAfter(size_t n, int dying, int status, const std::string& stage) {
    int ended = Start([&] {
      ModuleCopy module(request_);
      Mark("prefix");
      for (size_t i = 0; i < n; ++i) {
        if (!RunPass(*module, i)) return kPrefixError;
      }
      Mark(stage);
      if (dying < 0) return Rest(*module);
      return RunPass(*module, static_cast<size_t>(dying)) ? 0 : kPassError;
    });
    return ended == status && Stage() == stage;
  }

  std::string Stage() const { return crumbs_.Get(kStageCrumb); }
  int Number() const { return static_cast<int>(ParseInt(crumbs_.Get(kNumberCrumb)).value_or(-1)); }
  std::string ErrorText() const {
    std::string text;
    for (size_t i = kErrorCrumb; i < kCrumbs; ++i) text += crumbs_.Get(i);
    return text;
  }

 private:
  // As the compiler begins.
  struct ModuleCopy {
    explicit ModuleCopy(const CrashRequest& request) : copy(hlo::CloneModule(request.module)) {
      copy->config().is_scheduled = false;
    }
    hlo::Module& operator*() { return *copy; }
    std::unique_ptr<hlo::Module> copy;
  };

  void Mark(std::string_view stage) { crumbs_.Set(kStageCrumb, stage); }
  int Start(const std::function<int()>& work) {
    return InChild(work, {.seconds = request_.seconds, .quiet = true, .at_once = 1});
  }
  int Rest(const hlo::Module& module) {
    return request_.rest(module, [&](std::string_view stage) { Mark(stage); });
  }
  bool RunPass(hlo::Module& module, size_t i) {
    auto ran = compiler::RunPasses(module, passes_.subspan(i, 1), request_.options);
    if (ran) return true;
    std::string text = ran.error().message();
    for (size_t k = kErrorCrumb, at = 0; k < kCrumbs && at < text.size(); ++k, at += 63) {
      crumbs_.Set(k, std::string_view(text).substr(at, 63));
    }
    return false;
  }

  const CrashRequest& request_;
  const std::span<const compiler::Pass* const> passes_;
  Breadcrumbs crumbs_;
};

}  // namespace

CrashSite FindCrashSite(const CrashRequest& request) {
  const Passes passes = EnabledPasses(request);
  Trial whole(request, passes);
  CrashSite site;
  site.status = whole.RunAll();
  if (site.status == 0) return site;
  site.stage = whole.Stage();
  site.pass = whole.Number();
  site.passes = static_cast<int>(passes.size());
  if (site.status == kPassError) site.error = whole.ErrorText();
  // The shortest beginning of the pipeline after which the stage dies: between one after which it
  // does not (or -1: not even none) and one after which it does.
  int fine = -1, dies = site.pass >= 0 ? site.pass : site.passes;
  auto dies_after = [&](int n) {
    return Trial(request, passes)
        .DiesAfter(static_cast<size_t>(n), site.pass, site.status, site.stage);
  };
  if (dies_after(0)) {
    dies = 0;
  } else {
    fine = 0;
  }
  while (dies - fine > 1 && !Interrupted()) {
    int middle = fine + (dies - fine) / 2;
    (dies_after(middle) ? dies : fine) = middle;
  }
  site.made_by = dies - 1;
  if (dies > 0) site.made_by_name = passes[static_cast<size_t>(dies) - 1]->name;
  site.prefix = JoinNames(std::span(passes).first(static_cast<size_t>(dies)));
  return site;
}

std::vector<std::string> PassesThatMatter(const CrashRequest& request, const CrashSite& site) {
  std::vector<std::string> matter;
  if (site.status == 0 || site.made_by < 0) return matter;
  Passes passes = EnabledPasses(request);
  passes.resize(static_cast<size_t>(site.made_by) + 1);  // those behind do not
  for (size_t i = 0; i < passes.size() && !Interrupted(); ++i) {
    auto first = std::find(passes.begin(), passes.end(), passes[i]);
    if (first != passes.begin() + static_cast<std::ptrdiff_t>(i)) continue;
    compiler::CompileOptions options = request.options;
    options.pipeline.disable.emplace_back(passes[i]->name);
    CrashRequest without{request.module, options, request.passes, request.rest, request.seconds};
    const Passes rest = EnabledPasses(without);
    if (Trial(without, rest).RunAll() == 0) matter.emplace_back(passes[i]->name);
  }
  return matter;
}

std::string DescribeCrash(const CrashSite& site, double seconds, const std::string& file) {
  std::string out;
  bool error = site.status == kPassError || site.status < kChildSignal;
  StrAppend(out,
            error                           ? "error"
            : site.status == kChildTimedOut ? "hang"
                                            : "crash",
            " in ", site.stage);
  if (site.pass >= 0) StrAppend(out, " (", site.pass + 1, " of ", site.passes, ")");
  if (!error) StrAppend(out, ": ", DescribeEnd(site.status, seconds));
  if (!site.error.empty()) StrAppend(out, ": ", site.error);
  std::string_view name = site.stage;
  bool is_pass = name.starts_with("pass ");
  if (is_pass) name.remove_prefix(5);
  if (site.made_by < 0) {
    StrAppend(out, "\n  it happens on the module as it came, with no pass before it");
  } else {
    StrAppend(out, "\n  pass ", site.made_by_name, " (", site.made_by + 1, " of ", site.passes,
              ") makes the module that it happens on: without that pass and those behind it ", name,
              " gets through");
  }
  if (!site.prefix.empty()) {
    StrAppend(out, "\n  weft opt --passes=", site.prefix, " ", file, " > before.hlo");
  }
  if (is_pass) {
    StrAppend(out, "\n  weft opt --passes=", name, " ",
              site.prefix.empty() ? file : std::string("before.hlo"));
  }
  out += "\n";
  return out;
}

}  // namespace weft::tools
