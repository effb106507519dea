#include "eval/disk_sweep.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "datasets/vector_file.h"
#include "eval/disk_results.h"
#include "eval/own_contestants.h"
#include "eval/page_cache.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/hmann.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;
using Say = std::function<void(const std::string&)>;

/// Bytes of the file; and that it is one.
absl::StatusOr<std::uint64_t> FileBytes(const std::string& contestant, const std::string& path) {
  std::error_code error;
  const std::uint64_t bytes = path.empty() ? 0 : fs::file_size(path, error);
  if (error) return ErrnoError(error.value(), "stat", path);
  if (bytes == 0)
    return absl::FailedPreconditionError(
        absl::StrCat("contestant ", contestant, ": expected 'index_file', found none"));
  return bytes;
}

/// Builds what is not kept yet: a program each, without a limit.
absl::StatusOr<std::vector<LimitedMemory>> BuildIndexes(const SweepOptions& sweep, const Say& say) {
  std::vector<LimitedMemory> memory;
  for (const ContestantSpec& spec : sweep.contestants) {
    say(absl::StrCat(spec.name, ": building its index, without a limit, or finding it"));
    HMANN_ASSIGN_OR_RETURN(Contestant contestant, Contestant::Start(spec, sweep.job));
    LimitedMemory limited;
    limited.contestant = spec.name;
    limited.index_file = contestant.ready().index_file;
    HMANN_ASSIGN_OR_RETURN(limited.index_file_bytes, FileBytes(spec.name, limited.index_file));
    HMANN_RETURN_IF_ERROR(contestant.Stop());
    memory.push_back(std::move(limited));
  }
  return memory;
}

absl::Status MeasureDisks(const DiskSweepOptions& options, const std::string& path, const Say& say,
                          std::vector<DiskFigures>* disks) {
  for (const int threads : ThreadsOf(options.shapes)) {
    DiskOptions disk = options.disk;
    disk.threads = threads;
    disk.cancelled = options.sweep.job.cancelled;
    say(absl::StrFormat("disk: random 4 KiB reads of %s, %d thread%s, %s for each of %d depths",
                        path, threads, threads == 1 ? "" : "s",
                        FormatDuration(std::chrono::duration<double>(disk.time).count()),
                        disk.depths.size()));
    HMANN_ASSIGN_OR_RETURN(DiskFigures figures, MeasureDisk(path, disk));
    disks->push_back(std::move(figures));
  }
  return absl::OkStatus();
}

const Json kOnNvme = {{"fast", "dram"}, {"slow", "nvme"}};

/// A contestant a walk, with settings for a disk.
std::vector<ContestantSpec> ByWalk(const ContestantSpec& hmann, bool codes) {
  std::vector<ContestantSpec> walks;
  for (const char* walk : {"quantised", "best-first"}) {
    if (!codes && walk == std::string_view("quantised")) continue;
    walks.push_back(hmann);
    walks.back().name = absl::StrCat(kOnDisk, " ", walk);
    walks.back().settings = BlockTierLadder(walk);
  }
  return walks;
}

/// Bytes of the pool of huge pages that a process holds: no memory cgroup counts them.
std::uint64_t HugePoolBytes(pid_t pid) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  for (std::string key; status >> key;) {
    std::uint64_t kib = 0;
    if (key == "HugetlbPages:" && status >> kib) return kib * 1024;
  }
  return 0;
}

/// The cgroups of a sweep and what they do to an error.
class Limits {
 public:
  absl::Status Make(const std::vector<LimitedMemory>& memory, std::uint64_t bytes,
                    std::vector<ContestantSpec>* specs) {
    for (std::size_t c = 0; c < memory.size(); ++c) {
      HMANN_ASSIGN_OR_RETURN(MemoryGroup group, MemoryGroup::Create(absl::StrCat(c), bytes));
      (*specs)[c].memory_group = group.procs();
      groups_.push_back(std::move(group));
    }
    return absl::OkStatus();
  }

  /// What a contestant takes from the machine's pool of huge pages comes off its limit.
  absl::Status Started(std::size_t c, pid_t pid, const Say& say) {
    const std::uint64_t huge = HugePoolBytes(pid);
    if (huge == 0) return absl::OkStatus();
    if (huge >= groups_[c].limit_bytes()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("huge pages: expected less than the limit of ", groups_[c].limit_bytes(),
                       " bytes, found ", huge));
    }
    say(absl::StrCat("  ", FormatSize(huge),
                     " of its memory are huge pages, which no cgroup counts: the limit of the rest "
                     "is lowered by as much"));
    return groups_[c].Lower(groups_[c].limit_bytes() - huge);
  }

  absl::Status Explain(const absl::Status& status, const std::vector<LimitedMemory>& memory) const {
    if (status.code() == absl::StatusCode::kCancelled) return status;
    std::string why = absl::StrCat(status.message(), "\n  (in ",
                                   FormatSize(groups_[0].limit_bytes()), " of memory");
    for (std::size_t c = 0; c < groups_.size(); ++c) {
      if (groups_[c].Use().out_of_memory_kills > 0)
        absl::StrAppend(&why, "; ", memory[c].contestant, " needed more and was ended for it");
    }
    return absl::Status(status.code(), why + ")");
  }

  const std::vector<MemoryGroup>& groups() const { return groups_; }

 private:
  std::vector<MemoryGroup> groups_;
};

}  // namespace

absl::Status DiskSweepOptions::Validate() const {
  if (shapes.empty())
    return absl::InvalidArgumentError("search threads: expected at least one number, found none");
  for (const RunShape& shape : shapes) {
    if (shape.threads < 1 || shape.in_flight < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("search threads and queries in flight: expected numbers from 1, found ",
                       shape.threads, " and ", shape.in_flight));
    }
  }
  if (sweep.clock != RunClock::kWall)
    return absl::InvalidArgumentError(
        "clock: expected wall: waiting for the disk is what is measured");
  HMANN_RETURN_IF_ERROR(CheckRecalls("targets at 1", targets_at_1));
  return sweep.Validate();
}

absl::StatusOr<std::vector<ContestantSpec>> DiskContestants(DType dtype, Metric metric,
                                                            const Json& build) {
  Json own = kOnNvme;
  own.update(build);
  HMANN_ASSIGN_OR_RETURN(const ContestantSpec hmann, OwnContestant("hmann", own));
  const bool integer = dtype == DType::kU8 && metric == Metric::kL2;
  HMANN_ASSIGN_OR_RETURN(ContestantSpec rival,
                         OwnContestant(integer ? "hnswlib-u8" : "hnswlib", {}));
  rival.name = kMappedRival;
  rival.build["level0"] = "mapped";
  rival.settings = Json::array();
  for (const int ef : {10, 16, 26, 40, 64, 100, 160}) rival.settings.push_back({{"ef", ef}});
  std::vector<ContestantSpec> contestants = ByWalk(hmann, true);
  contestants.push_back(std::move(rival));
  return contestants;
}

absl::StatusOr<std::vector<ContestantSpec>> DiskContestants(const std::string& index) {
  HMANN_ASSIGN_OR_RETURN(const IndexInfo info, ReadInfo(index));
  Json build = {{"index", index}};
  build.update(kOnNvme);
  HMANN_ASSIGN_OR_RETURN(const ContestantSpec hmann, FinishedContestant(kOnDisk, build));
  return ByWalk(hmann, info.codes.bits > 0);
}

absl::StatusOr<DiskSweepResult> RunDiskSweep(DiskSweepOptions options, Progress& progress,
                                             const Say& say) {
  HMANN_RETURN_IF_ERROR(options.Validate());
  SweepOptions& sweep = options.sweep;
  std::error_code error;
  fs::create_directories(sweep.job.folder, error);
  if (error) return ErrnoError(error.value(), "mkdir", sweep.job.folder);
  HMANN_ASSIGN_OR_RETURN(const VectorFile queries,
                         VectorFile::Open(sweep.job.queries, sweep.job.query_rows));
  sweep.job.query_count = queries.n();

  DiskSweepResult result;
  result.targets_at_1 = options.targets_at_1;
  result.reference = sweep.reference;
  sweep.reference += ", 1 thread";  // as its row is called
  // Before hours of building: whether there can be a limit at all.
  HMANN_RETURN_IF_ERROR(MemoryGroup::Create("probe", 64_MiB).status());
  HMANN_ASSIGN_OR_RETURN(result.memory, BuildIndexes(sweep, say));
  result.limit_given = options.memory_limit.has_value();
  result.memory_limit =
      options.memory_limit.value_or(result.memory[0].index_file_bytes / 4 + 64_MiB);
  HMANN_RETURN_IF_ERROR(MeasureDisks(options, result.memory[0].index_file, say, &result.disks));

  Limits limits;
  HMANN_RETURN_IF_ERROR(limits.Make(result.memory, result.memory_limit, &sweep.contestants));
  result.cgroup_version = limits.groups()[0].version();
  for (std::size_t c = 0; c < sweep.contestants.size(); ++c) {
    const ContestantSpec& spec = sweep.contestants[c];
    HMANN_ASSIGN_OR_RETURN(const double left, DropFromPageCache(result.memory[c].index_file));
    if (left > 0.01) {
      say(
          absl::StrFormat("%s: %.0f %% of its file stay in the page cache, on another's account: "
                          "somebody has it open",
                          spec.name, 100 * left));
    }
  }
  say(absl::StrFormat("memory: %s for each contestant, page cache included, no swap (cgroup v%d)",
                      FormatSize(result.memory_limit), result.cgroup_version));
  sweep.notes = DiskNotes(result);
  sweep.shapes = options.shapes;
  sweep.started = [&](std::size_t c, pid_t pid) {
    result.memory[c].loaded_bytes = limits.groups()[c].Use().anonymous_bytes;
    return limits.Started(c, pid, say);
  };
  absl::StatusOr<SweepResult> swept = RunSweep(sweep, progress, say);
  if (!swept.ok()) return limits.Explain(swept.status(), result.memory);
  result.sweep = *std::move(swept);
  for (std::size_t c = 0; c < result.memory.size(); ++c) {
    result.memory[c].limit_bytes = limits.groups()[c].limit_bytes();
    result.memory[c].peak_bytes = limits.groups()[c].Use().peak_bytes;
  }
  return result;
}

}  // namespace hmann
