#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "index/base/task_context.h"
#include "index/construct/graph/phases.h"
#include "index/construct/jobs/artifacts.h"
#include "index/construct/jobs/node_range.h"
#include "index/construct/jobs/workers.h"
#include "index/graph/types.h"

namespace hmann {

/// The jobs of a stage over n nodes: at most 32 ranges, of whole pages whatever the size
/// of a record. They do not depend on memory, so a build can continue with more or less.
std::vector<NodeRange> RangesOf(NodeId n);
/// The ranges of `of` nodes that hold some of the first n, cut to those.
std::vector<NodeRange> RangesOf(NodeId n, NodeId of);

/// Some jobs of one stage, which a process makes for a build that continues elsewhere.
struct StageJobs {
  std::string stage;                ///< "l0-lead"
  std::size_t first = 0, last = 0;  ///< [first, last)
  bool made = false;                ///< all of them are made
};

/// The jobs of a stage.
struct BuildJobList {
  std::string stage, phase;                        ///< "lead", "leaders"
  std::uint64_t total = 0;                         ///< vectors of all jobs
  std::size_t count = 0;                           ///< number of jobs
  std::function<std::uint64_t(std::size_t)> size;  ///< vectors of a job
  std::function<bool(std::size_t)> has;            ///< whether it is made
  std::function<absl::Status(std::size_t)> make;
  bool advances = false;  ///< `make` reports progress itself
  /// Called for a job that is made, here or elsewhere: what it alone has read can go. Not
  /// called in workers.
  std::function<void(std::size_t)> made = nullptr;
};

/// A stage over ranges of n nodes, with one artifact per range.
struct RangeStage {
  std::string phase, stage;
  NodeId n = 0;
  std::string beside = "";  ///< a second artifact per range, if it has a name
  std::string reads = "";   ///< artifacts whose ranges only the job of the same range reads
};

/// The stages of a build. Each is a list of jobs that leave artifacts, in a work folder
/// or in memory. Artifacts that exist are not made again.
class Stages {
 public:
  /// `name`: prefix of artifact names, "l0"; `layer`: prefix of phase names. `runner`:
  /// helpers, or nullptr. All must outlive this.
  Stages(std::string name, std::string layer, const Artifacts& work, Phases& phases,
         const TaskContext& job, const BuildJobRunner* runner = nullptr)
      : name_(std::move(name)),
        layer_(std::move(layer)),
        work_(work),
        phases_(phases),
        job_(job),
        runner_(runner) {}
  /// For a worker: once `only` are made, Make returns ABORTED. Earlier stages must be
  /// done; nothing is removed.
  Stages& Only(StageJobs& only) {
    only_ = &only;
    return *this;
  }
  /// Uses the ranges of `nodes` nodes, where these have some.
  Stages& RangedBy(NodeId nodes) {
    ranged_by_ = nodes;
    return *this;
  }
  /// In memory there is one range.
  std::vector<NodeRange> Ranges(NodeId n) const {
    return work_.on_disk() ? RangesOf(n, std::max(n, ranged_by_)) : std::vector{NodeRange{0, n}};
  }

  /// Makes what is missing of a stage, and marks it as done. Errors: those of making and
  /// of the folder; CANCELLED. In a worker also UNAVAILABLE if an earlier stage is not
  /// done yet, and INVALID_ARGUMENT for jobs that the stage does not have.
  absl::Status Make(const BuildJobList& jobs);

  /// The same for a stage over ranges. `make` writes the artifact of a range to the first
  /// writer and the second artifact, if there is one, to the second. It advances the
  /// progress by the range's nodes.
  absl::Status ForRanges(
      const RangeStage& stage,
      const std::function<absl::Status(NodeRange, ArtifactWriter&, ArtifactWriter&)>& make);
  absl::Status ForRanges(const std::string& phase, const std::string& stage, NodeId n,
                         const std::function<absl::Status(NodeRange, ArtifactWriter&)>& make);
  /// While a job runs: the end of the gapless run of jobs that this process makes next.
  /// What one of them loads may be of use to the others.
  std::size_t run_end() const { return run_end_; }
  /// The same in nodes, for a stage over ranges of n.
  NodeId RunEnd(NodeId n) const { return Ranges(n)[run_end_ - 1].last; }
  /// Maps what ForRanges made, one range behind the other, or one range only.
  absl::StatusOr<Buffer> Map(const std::string& stage, NodeId n) const;
  absl::StatusOr<Buffer> MapOne(const std::string& stage, std::size_t range) const {
    return work_.Map({Name(stage, range)});
  }
  /// Whether the artifacts of all ranges are there, or in their place those that stage
  /// `made` has made of the same range.
  bool HasAll(const std::string& stage, NodeId n, const std::string& made = "") const;

  bool Done(const std::string& stage) const { return work_.Has(Marker(stage)); }
  absl::Status MarkDone(const std::string& stage) const { return work_.Write(Marker(stage), ""); }
  /// Unmarks a stage that turned out not to be done.
  void Undo(const std::string& stage) const {
    if (only_ == nullptr) work_.RemoveAll(Marker(stage));
  }
  /// Removes the artifacts of a stage, which stays done.
  void Retire(const std::string& stage) const {
    if (only_ == nullptr) work_.RemoveAll(absl::StrCat(Name(stage), "-"));
  }
  /// Removes the artifact of one job.
  void Retire(const std::string& stage, std::size_t job) const {
    if (only_ == nullptr) work_.RemoveAll(absl::StrCat(Name(stage, job), "."));
  }
  /// Removes everything; the next run starts anew.
  void Forget() const;
  /// Whether a marker was found damaged.
  bool LostMarker() const;

  std::string Name(const std::string& artifact) const { return absl::StrCat(name_, "-", artifact); }
  std::string Name(const std::string& stage, std::size_t job) const {
    return absl::StrCat(name_, "-", stage, "-", job);
  }
  std::string Phase(const std::string& phase) const { return layer_ + phase; }
  const Artifacts& work() const { return work_; }
  Phases& phases() const { return phases_; }
  const TaskContext& job() const { return job_; }

 private:
  absl::Status MakeOnly(const BuildJobList& jobs);
  std::string Marker(const std::string& stage) const { return absl::StrCat("done-", Name(stage)); }

  std::string name_, layer_;
  const Artifacts& work_;
  Phases& phases_;
  const TaskContext& job_;
  const BuildJobRunner* runner_;
  StageJobs* only_ = nullptr;
  NodeId ranged_by_ = 0;
  std::size_t run_end_ = 0;
};

/// A stage of joining a layer by leaves: the artifacts that its jobs make, and those of
/// earlier stages that they read. Artifacts that no later stage reads are removed when
/// the stage is done.
struct LayerStage {
  const char* name;
  std::array<const char*, 2> makes = {}, reads = {};
  /// Only a range's own job reads its part of the last of `reads`.
  bool by_range = false;
};

/// In order; the last kStagesOfL0Alone are for L0 alone. The leaf stage has jobs by group
/// and the backbone is one job. Every other stage has one job per range of nodes.
inline constexpr LayerStage kLayerStages[] = {
    {"lead", {"lead"}},            // leaders of each vector
    {"near", {"near"}, {"lead"}},  // the same in the order of nodes
    {"leaves", {"leaves"}, {"near"}},
    // the nearest; `rest`: those that only the node itself reads
    {"lists", {"lists", "rest"}, {"leaves"}},
    {"links", {"links", "ways"}, {"lists", "rest"}, true},  // and where they lead in other ranges
    {"back", {"back"}, {"ways", "links"}, true},
    {"backbone", {"hubs"}},
    {"final", {"final"}, {"hubs", "back"}, true},
};
constexpr std::size_t kStagesOfL0Alone = 2;
/// An L0 that is inserted has a stage "inserted" instead: its links are kept that often
/// while it is inserted, and again while it is refined.
constexpr unsigned kCheckpoints = 8;
/// Those of a layer that is cut into parts (PartedLayer). The second has a job per part.
inline constexpr LayerStage kPartedStages[] = {
    {"shelf", {"shelf"}},  // members of each part
    {"part", {"part"}},    // the links in each
    {"back", {"back"}, {"part", "shelf"}},
    {"backbone", {"hubs"}},
    {"final", {"final"}, {"hubs", "back"}, true},
};
inline std::span<const LayerStage> StagesOf(bool parted) {
  return parted ? std::span<const LayerStage>(kPartedStages)
                : std::span<const LayerStage>(kLayerStages);
}

}  // namespace hmann
