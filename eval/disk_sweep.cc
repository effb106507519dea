#include "eval/disk_sweep.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "datasets/vector_file.h"
#include "eval/disk_results.h"
#include "eval/own_contestants.h"
#include "eval/page_cache.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

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
  for (const int threads : options.threads) {
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

/// Every setting in every shape.
Json Shaped(const Json& settings, const std::vector<int>& threads,
            const std::vector<int>& in_flight) {
  Json shaped = Json::array();
  for (const int t : threads) {
    for (const int q : in_flight) {
      for (Json setting : settings) {
        setting.update(Json{{"threads", t}, {"in_flight", q}});
        shaped.push_back(std::move(setting));
      }
    }
  }
  return shaped;
}

/// "hmann, 2 threads, 8 in flight".
std::string RowName(const std::string& contestant, int threads, int in_flight) {
  std::string name = absl::StrCat(contestant, ", ", threads, threads == 1 ? " thread" : " threads");
  if (in_flight > 1) absl::StrAppend(&name, ", ", in_flight, " in flight");
  return name;
}

/// A contestant a shape.
std::vector<ContestantRuns> SplitByShape(const std::vector<ContestantRuns>& runs,
                                         const DiskSweepOptions& options) {
  std::vector<ContestantRuns> rows;
  for (const int threads : options.threads) {
    for (const ContestantRuns& contestant : runs) {
      for (const int in_flight : {1, options.in_flight}) {
        ContestantRuns row = Filter(contestant, RowName(contestant.name, threads, in_flight),
                                    {{"threads", threads}, {"in_flight", in_flight}});
        const bool doubled = !rows.empty() && rows.back().name == row.name;
        if (!row.settings.empty() && !doubled) rows.push_back(std::move(row));
      }
    }
  }
  return rows;
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
  if (threads.empty() || *std::min_element(threads.begin(), threads.end()) < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "search threads: expected numbers from 1, found '", absl::StrJoin(threads, ","), "'"));
  }
  if (sweep.clock != RunClock::kWall)
    return absl::InvalidArgumentError(
        "clock: expected wall: waiting for the disk is what is measured");
  if (in_flight < 1)
    return absl::InvalidArgumentError(
        absl::StrCat("in flight: expected at least 1, found ", in_flight));
  HMANN_RETURN_IF_ERROR(CheckRecalls("targets at 1", targets_at_1));
  return sweep.Validate();
}

absl::StatusOr<std::vector<ContestantSpec>> DiskContestants(DType dtype, Metric metric,
                                                            const Json& build) {
  Json own = {{"fast", "dram"}, {"slow", "nvme"}};
  own.update(build);
  HMANN_ASSIGN_OR_RETURN(ContestantSpec pool, OwnContestant("hmann", own));
  pool.name = absl::StrCat(kOnDisk, " best-first");
  pool.settings = Json::array();
  // More work in L1 saves reads: it is in fast memory.
  for (const auto& [ef_l1, ef_l0] :
       {std::pair(8, 10), {16, 16}, {32, 32}, {48, 48}, {64, 80}, {96, 128}, {128, 200}}) {
    pool.settings.push_back({{"walk", "best-first"}, {"ef_l1", ef_l1}, {"ef_l0", ef_l0}});
  }
  ContestantSpec quantised = pool;
  quantised.name = absl::StrCat(kOnDisk, " quantised");
  quantised.settings = Json::array();
  for (const auto& [ef_l0, stop] :
       {std::pair(12, 1.0), {20, 1.0}, {30, 1.0}, {60, 1.5}, {150, 2.5}, {400, 3.5}}) {
    quantised.settings.push_back({{"walk", "quantised"},
                                  {"ef_l1", 64},
                                  {"ef_l0", ef_l0},
                                  {"nprobe", 128},
                                  {"beam_width", 16},
                                  {"error_bound", stop}});
  }
  const bool integer = dtype == DType::kU8 && metric == Metric::kL2;
  HMANN_ASSIGN_OR_RETURN(ContestantSpec rival,
                         OwnContestant(integer ? "hnswlib-u8" : "hnswlib", {}));
  rival.name = kMappedRival;
  rival.build["level0"] = "mapped";
  rival.settings = Json::array();
  for (const int ef : {10, 16, 26, 40, 64, 100, 160}) rival.settings.push_back({{"ef", ef}});
  return std::vector<ContestantSpec>{std::move(quantised), std::move(pool), std::move(rival)};
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
    ContestantSpec& spec = sweep.contestants[c];
    std::vector<int> in_flight = {1};
    if (spec.name.starts_with(kOnDisk) && options.in_flight > 1)
      in_flight.push_back(options.in_flight);
    spec.settings = Shaped(spec.settings, options.threads, in_flight);
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
  sweep.started = [&](std::size_t c, pid_t pid) {
    result.memory[c].loaded_bytes = limits.groups()[c].Use().anonymous_bytes;
    return limits.Started(c, pid, say);
  };
  absl::StatusOr<SweepResult> swept = RunSweep(sweep, progress, say);
  if (!swept.ok()) return limits.Explain(swept.status(), result.memory);
  result.sweep = *std::move(swept);
  result.sweep.runs = SplitByShape(result.sweep.runs, options);
  for (std::size_t c = 0; c < result.memory.size(); ++c) {
    result.memory[c].limit_bytes = limits.groups()[c].limit_bytes();
    result.memory[c].peak_bytes = limits.groups()[c].Use().peak_bytes;
  }
  return result;
}

}  // namespace hmann
