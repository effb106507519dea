#include "eval/memory_places.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "eval/hardware_limit.h"
#include "eval/page_cache.h"
#include "index/base/cgroup.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann::eval {
namespace {

/// Bytes of the huge page pool that a process holds; no memory cgroup counts them.
std::uint64_t HugePoolBytes(pid_t pid) {
  return ReadKey(absl::StrCat("/proc/", pid, "/status"), "HugetlbPages:") * 1024;
}

}  // namespace

absl::StatusOr<MemoryPlaces> MemoryPlaces::Make(Benchmark* benchmark, const Say& say) {
  MemoryPlaces places;
  // Checks before hours of building that a limit is possible at all.
  HMANN_RETURN_IF_ERROR(MemoryGroup::Create("probe", 64_MiB).status());
  HMANN_RETURN_IF_ERROR(places.BuildIndexes(*benchmark, say));
  std::uint64_t& limit = *benchmark->memory_limit;
  if (limit == 0) limit = places.memory_[0]["index_file_bytes"].get<std::uint64_t>() / 4 + 64_MiB;
  const std::string first = places.memory_[0]["index_file"].get<std::string>();
  say(absl::StrCat("drive: random 4 KiB reads of ", first));
  HMANN_ASSIGN_OR_RETURN(const Json drive, MeasureDrive(first, benchmark->job.folder));
  places.device_ = {{"kind", "device"}, {"system", benchmark->systems[0].name}};
  places.device_.update(drive);
  for (std::size_t c = 0; c < benchmark->systems.size(); ++c) {
    SystemSpec& spec = benchmark->systems[c];
    HMANN_ASSIGN_OR_RETURN(MemoryGroup group, MemoryGroup::Create(absl::StrCat(c), limit));
    spec.memory_group = group.procs();
    places.groups_.push_back(std::move(group));
    HMANN_ASSIGN_OR_RETURN(const double left,
                           DropFromPageCache(places.memory_[c]["index_file"].get<std::string>()));
    if (places.memory_[c]["index_file_bytes"].get<std::uint64_t>() <= limit) {
      say(absl::StrCat(spec.name,
                       ": the limit holds all of its index file: through the page cache, "
                       "that is no search on a disk"));
    }
    if (left > 0.01) {
      say(
          absl::StrFormat("%s: %.0f %% of its file stay in the page cache, on another's account: "
                          "another process has it open",
                          spec.name, 100 * left));
    }
  }
  say(absl::StrFormat("memory: %s for each system, page cache included, no swap (cgroup v%d)",
                      FormatSize(limit), places.groups_[0].version()));
  return places;
}

absl::Status MemoryPlaces::BuildIndexes(const Benchmark& benchmark, const Say& say) {
  for (const SystemSpec& spec : benchmark.systems) {
    say(absl::StrCat(spec.name, ": building its index, without a limit, or finding it"));
    HMANN_ASSIGN_OR_RETURN(System system, System::Start(spec, benchmark.job));
    const std::string file = system.ready()["index_file"].get<std::string>();
    std::error_code error;
    const std::uint64_t bytes = file.empty() ? 0 : std::filesystem::file_size(file, error);
    if (error) return ErrnoError(error.value(), "stat", file);
    if (bytes == 0)
      return FailedPrecondition("system ", spec.name, ": expected 'index_file', found none");
    HMANN_RETURN_IF_ERROR(system.Stop());
    memory_.push_back({{"system", spec.name}, {"index_file", file}, {"index_file_bytes", bytes}});
  }
  return absl::OkStatus();
}

absl::Status MemoryPlaces::Loaded(std::size_t c, pid_t pid, const Say& say) {
  if (groups_.empty()) return absl::OkStatus();
  MemoryGroup& group = groups_[c];
  memory_[c]["loaded_bytes"] = group.Use().anonymous_bytes;
  const std::uint64_t huge = HugePoolBytes(pid);
  if (huge == 0) return absl::OkStatus();
  if (huge >= group.limit_bytes()) {
    return ResourceExhausted("huge pages: expected less than the limit of ", group.limit_bytes(),
                             " bytes, found ", huge);
  }
  say(absl::StrCat("  ", FormatSize(huge),
                   " of its memory are huge pages, which no cgroup counts: the limit of the rest "
                   "is lowered by as much"));
  return group.Limit(group.limit_bytes() - huge);
}

std::vector<Json> MemoryPlaces::Used() const {
  std::vector<Json> lines;
  for (std::size_t c = 0; c < groups_.size(); ++c) {
    lines.push_back({{"kind", "memory"}});
    lines.back().update(memory_[c]);
    lines.back()["limit_bytes"] = groups_[c].limit_bytes();
    lines.back()["peak_bytes"] = groups_[c].Use().peak_bytes;
    lines.back()["cgroup_version"] = groups_[c].version();
  }
  return lines;
}

absl::Status MemoryPlaces::Explain(const absl::Status& status) const {
  if (status.ok() || status.code() == absl::StatusCode::kCancelled || groups_.empty())
    return status;
  std::string why = absl::StrCat(status.message(), "\n  (in ", FormatSize(groups_[0].limit_bytes()),
                                 " of memory");
  for (std::size_t c = 0; c < groups_.size(); ++c) {
    if (groups_[c].Use().out_of_memory_kills > 0)
      absl::StrAppend(&why, "; ", memory_[c]["system"].get<std::string>(),
                      " needed more and was ended for it");
  }
  return absl::Status(status.code(), why + ")");
}

}  // namespace hmann::eval
