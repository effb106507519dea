#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "index/base/units.h"
#include "index/construct/build_job.h"
#include "tools/commands.h"
#include "tools/flags.h"
#include "tools/interrupt.h"

namespace hmann::tools {
namespace {

struct BuildJobFlags {
  BuildJobOptions job;
  int ends_with = 0;
};

/// "3-7", or "3".
bool ParseJobs(const std::string& text, BuildJobOptions& job) {
  const std::size_t dash = text.find('-');
  std::size_t first = 0, last = 0;
  if (!CLI::detail::lexical_cast(text.substr(0, dash), first) ||
      !CLI::detail::lexical_cast(dash == std::string::npos ? text : text.substr(dash + 1), last) ||
      first > last || last > 1'000'000)
    return false;
  job.first = first;
  job.last = last + 1;
  return true;
}

}  // namespace

CommandAction SetupBuildJob(CLI::App& app) {
  auto flags = std::make_shared<BuildJobFlags>();
  BuildJobOptions* job = &flags->job;
  app.add_option("--work", job->work, "work folder of a build that `hmann build` started")
      ->required();
  app.add_option("--stage", job->stage, "stage, as `hmann build --status` names it, e.g. l0-lead")
      ->required();
  app.add_option_function<std::string>(
         "--jobs", [job](const std::string& text) { ParseJobs(text, *job); },
         "jobs to run, numbered from 0, as 0-7 or 3; finished jobs are skipped")
      ->required()
      ->check([](const std::string& text) {
        BuildJobOptions scratch;
        return ParseJobs(text, scratch) ? std::string() : "expected numbers of jobs, as 0-7 or 3";
      });
  app.add_option("--threads", job->threads, "threads (0: all usable cores)")
      ->check(CLI::Range(0, 1024));
  AddParsed(app, "--build-memory", ParseSize, &job->memory,
            "memory limit of this process, as 2GiB (default: all available)");
  app.add_option("--ends-with", flags->ends_with, "end when this parent process ends")
      ->group("");  // internal: used by `build --workers`
  return [flags]() -> absl::Status {
    if (flags->ends_with > 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != flags->ends_with)
        return absl::CancelledError("the process that this one ends with has ended");
    }
    flags->job.cancelled = CancelOnInterrupt();
    Progress progress;
    return RunBuildJob(flags->job, progress);
  };
}

}  // namespace hmann::tools
