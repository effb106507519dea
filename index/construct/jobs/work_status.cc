#include "index/construct/jobs/work_status.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "index/base/status_macros.h"
#include "index/construct/jobs/joined_layer.h"
#include "index/construct/jobs/parted_layer.h"
#include "index/construct/jobs/stages.h"
#include "index/construct/jobs/work_folder.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;

/// The stages of L0. The first of them are also those of L1.
std::vector<std::string_view> StagesOfL0(bool parted) {
  std::vector<std::string_view> names = {"hash"};
  for (const LayerStage& stage : StagesOf(parted)) names.emplace_back(stage.name);
  return names;
}
std::vector<std::string_view> StagesOfInsertion() { return {"hash", "inserted", "final"}; }
std::vector<std::string_view> StagesOfL1(bool parted) {
  const std::vector<std::string_view> names = StagesOfL0(parted);
  return {names.begin() + 1, names.end() - kStagesOfL0Alone};
}

std::uint32_t PartsOf(NodeId count) { return PartedLayer::PartsOf(count, PartitionFor(count, 0)); }

/// Whether a process holds the folder's lock.
bool IsHeld(const std::string& path) {
  const auto file = FileDescriptor::Open(absl::StrCat(path, "/lock"), O_RDONLY);
  return file.ok() && ::flock(file->fd(), LOCK_EX | LOCK_NB) != 0;
}

/// Counts the stage's artifacts among `names`, and notes the times of the first and the
/// last.
void Count(const std::string& path, const std::set<std::string>& names, const std::string& prefix,
           WorkStatus::Stage& stage, WorkStatus& status) {
  std::vector<fs::file_time_type> times;
  for (auto at = names.lower_bound(prefix); at != names.end() && at->starts_with(prefix); ++at) {
    std::error_code error;
    const auto made = fs::last_write_time(absl::StrCat(path, "/", *at), error);
    if (!error) times.push_back(made);
  }
  stage.made = times.size();
  if (stage.done || times.size() < 2 || status.seconds_a_job > 0) return;
  const auto [first, last] = std::minmax_element(times.begin(), times.end());
  status.seconds_a_job =
      std::chrono::duration<double>(*last - *first).count() / static_cast<double>(times.size() - 1);
  if (stage.jobs > stage.made)
    status.seconds_left = status.seconds_a_job * static_cast<double>(stage.jobs - stage.made);
}

/// The number behind `prefix` in the names of artifacts.
std::uint64_t NumberBehind(const std::string& prefix, const std::set<std::string>& names) {
  std::uint64_t number = 0;
  const auto at = names.lower_bound(prefix);
  if (at == names.end() || !at->starts_with(prefix)) return 0;
  std::from_chars(at->data() + prefix.size(), at->data() + at->size(), number);
  return number;
}

}  // namespace

std::vector<std::string> StageNames() {
  std::vector<std::string> names;
  const auto add = [&](const char* layer, const std::vector<std::string_view>& stages) {
    for (const std::string_view name : stages) {
      const std::string whole = layer + std::string(name);
      if (std::find(names.begin(), names.end(), whole) == names.end()) names.push_back(whole);
    }
  };
  for (const bool parted : {false, true}) add("l0-", StagesOfL0(parted));
  for (const bool parted : {false, true}) add("l1-", StagesOfL1(parted));
  return names;
}

absl::StatusOr<WorkStatus> ReadWorkStatus(const std::string& path) {
  HMANN_ASSIGN_OR_RETURN(const std::string identity, WorkFolder::IdentityOf(path));
  const auto of = nlohmann::json::parse(identity);
  const auto number = [&](const char* key) {
    return of.contains(key) && of[key].is_number_unsigned() ? of[key].get<NodeId>() : 0;
  };
  WorkStatus status;
  status.at_work = IsHeld(path);
  std::set<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    const std::uint64_t size = entry.file_size(error);
    if (!error) status.bytes += size;
    if (entry.path().extension() == ".part") names.insert(entry.path().filename().string());
  }
  const NodeId rows = number("rows");
  const bool refines = of.contains("alpha") && of["alpha"].is_number() && of["alpha"] > 1;
  const auto add = [&](const std::string& layer, std::string_view name, NodeId n) {
    WorkStatus::Stage stage;
    const std::string whole = layer + "-" + std::string(name);
    stage.name = whole;
    stage.done = names.count(absl::StrCat("done-", whole, ".part")) > 0;
    stage.jobs = name == "leaves"     ? CountLeafJobs(n)
                 : name == "part"     ? PartsOf(n)
                 : name == "backbone" ? 1
                 : name == "inserted" ? std::uint64_t{kCheckpoints} * (refines ? 2 : 1)
                 : layer == "l0"      ? RangesOf(n, rows).size()
                                      : RangesOf(n).size();
    Count(path, names, absl::StrCat(whole, "-"), stage, status);
    if (name == "inserted") stage.made = NumberBehind(whole + "-", names);
    if (name == "backbone") stage.made = names.count("l0-hubs-links.part");
    if (stage.done) stage.made = stage.jobs;
    status.stages.push_back(std::move(stage));
  };
  // The number of vectors without an earlier copy, from the file that names them.
  const auto unique = [&](const char* file, NodeId most) {
    const std::uint64_t bytes = fs::file_size(absl::StrCat(path, "/", file), error);
    return error ? most
                 : static_cast<NodeId>((bytes - std::min(bytes, sizeof(ArtifactFooter))) /
                                       sizeof(NodeId));
  };
  const NodeId linked = unique("l0-unique.part", rows);
  const bool finished = of.contains("finished") && of["finished"] == true;
  const bool inserts = !finished && of.contains("method") && of["method"] == "insertion";
  for (const std::string_view name :
       inserts ? StagesOfInsertion() : StagesOfL0(PartsOf(linked) > 1)) {
    // For a finished index these are copied, and the others are not made.
    if (finished && name != "hash" && name != "final") continue;
    add("l0", name, name == "hash" || name == "final" ? rows : linked);
  }
  // A small L1 is inserted, not joined. Whether this one is joined shows when it begins.
  if (names.count("l1-ids.part") > 0) {
    const NodeId joined = unique("l1-ids.part", number("promoted"));
    for (const std::string_view name : StagesOfL1(PartsOf(joined) > 1)) add("l1", name, joined);
  }
  while (status.current < status.stages.size() && status.stages[status.current].done)
    ++status.current;
  return status;
}

}  // namespace hmann
