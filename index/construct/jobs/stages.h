#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "index/base/job.h"
#include "index/construct/graph/phases.h"
#include "index/construct/jobs/artefacts.h"
#include "index/construct/jobs/node_range.h"
#include "index/construct/jobs/workers.h"
#include "index/graph/types.h"

namespace hmann {

/// The jobs of a stage over n nodes: at most 32 ranges, of whole pages whatever a record
/// takes. They do not depend on memory, so that a build goes on with more or less.
std::vector<NodeRange> RangesOf(NodeId n);
/// The ranges of `of` nodes, as far as they have some of the first n.
std::vector<NodeRange> RangesOf(NodeId n, NodeId of);

/// Some jobs of one stage, which a process makes for a build that goes on elsewhere.
struct StageJobs {
  std::string stage;                ///< "l0-lead"
  std::size_t first = 0, last = 0;  ///< [first, last)
  bool made = false;                ///< all of them
};

/// The jobs of a stage.
struct JobList {
  std::string stage, phase;                        ///< "lead", "leaders"
  std::uint64_t total = 0;                         ///< vectors of all
  std::size_t count = 0;                           ///< of jobs
  std::function<std::uint64_t(std::size_t)> size;  ///< vectors of a job
  std::function<bool(std::size_t)> has;            ///< whether it is made
  std::function<absl::Status(std::size_t)> make;
  bool advances = false;  ///< `make` tells progress itself
  /// Of a job that is made, here or elsewhere: what it alone has read can go. Not called
  /// in workers.
  std::function<void(std::size_t)> made = nullptr;
};

/// A stage over ranges of n nodes, of an artefact each.
struct RangeStage {
  std::string phase, stage;
  NodeId n = 0;
  std::string beside = "";  ///< a second artefact of each, if it has a name
  std::string reads = "";   ///< artefacts of which each range's is read by the same range alone
};

/// The stages of a build, each a list of jobs that leave artefacts, in a work folder or
/// in memory. What is there is not made again.
class Stages {
 public:
  /// `name`: before the names of artefacts, "l0"; `layer`: before those of phases.
  /// `runner`: who helps, or none. All must outlive it.
  Stages(std::string name, std::string layer, const Artefacts& work, Phases& phases, const Job& job,
         const JobRunner* runner = nullptr)
      : name_(std::move(name)),
        layer_(std::move(layer)),
        work_(work),
        phases_(phases),
        job_(job),
        runner_(runner) {}
  /// Of a worker: when `only` are made, what makes them ends with ABORTED. What comes
  /// before them must be there; nothing is removed.
  Stages& Only(StageJobs& only) {
    only_ = &only;
    return *this;
  }
  /// Ranges are those of so many nodes, as far as there are some.
  Stages& RangedBy(NodeId nodes) {
    ranged_by_ = nodes;
    return *this;
  }
  /// In memory there is one.
  std::vector<NodeRange> Ranges(NodeId n) const {
    return work_.on_disk() ? RangesOf(n, std::max(n, ranged_by_)) : std::vector{NodeRange{0, n}};
  }

  /// Makes what is missing of a stage, and marks it as done. Errors: those of making and
  /// of the folder; CANCELLED; of a worker FAILED_PRECONDITION where an earlier stage is
  /// not done, INVALID_ARGUMENT for jobs that the stage does not have.
  absl::Status Make(const JobList& jobs);

  /// The same of a stage over ranges: `make` writes what belongs to one, and to the
  /// second writer what is beside it, and advances the progress by its nodes.
  absl::Status ForRanges(
      const RangeStage& stage,
      const std::function<absl::Status(NodeRange, ArtefactWriter&, ArtefactWriter&)>& make);
  absl::Status ForRanges(const std::string& phase, const std::string& stage, NodeId n,
                         const std::function<absl::Status(NodeRange, ArtefactWriter&)>& make);
  /// While a job is made: one behind the last of those that this process makes next,
  /// without a gap. What one of them loads may be of use to the others.
  std::size_t run_end() const { return run_end_; }
  /// The same in nodes, of a stage over ranges of n.
  NodeId RunEnd(NodeId n) const { return Ranges(n)[run_end_ - 1].last; }
  /// What ForRanges has made, one range behind the other; or that of one range.
  absl::StatusOr<Buffer> Map(const std::string& stage, NodeId n) const;
  absl::StatusOr<Buffer> MapOne(const std::string& stage, std::size_t range) const {
    return work_.Map({Name(stage, range)});
  }
  /// Whether all are there, or of the same range what was made of it in stage `made`.
  bool HasAll(const std::string& stage, NodeId n, const std::string& made = "") const;

  bool Done(const std::string& stage) const { return work_.Has(Marker(stage)); }
  absl::Status MarkDone(const std::string& stage) const { return work_.Write(Marker(stage), ""); }
  /// A stage is not done after all.
  void Undo(const std::string& stage) const {
    if (only_ == nullptr) work_.RemoveAll(Marker(stage));
  }
  /// Removes the artefacts of a stage, which stays done.
  void Retire(const std::string& stage) const {
    if (only_ == nullptr) work_.RemoveAll(absl::StrCat(Name(stage), "-"));
  }
  /// Removes the artefact of one job.
  void Retire(const std::string& stage, std::size_t job) const {
    if (only_ == nullptr) work_.RemoveAll(absl::StrCat(Name(stage, job), "."));
  }
  /// Removes everything: the next run begins anew.
  void Forget() const;
  /// Whether a marker was found damaged.
  bool LostMarker() const;

  std::string Name(const std::string& artefact) const { return absl::StrCat(name_, "-", artefact); }
  std::string Name(const std::string& stage, std::size_t job) const {
    return absl::StrCat(name_, "-", stage, "-", job);
  }
  std::string Phase(const std::string& phase) const { return layer_ + phase; }
  const Artefacts& work() const { return work_; }
  Phases& phases() const { return phases_; }
  const Job& job() const { return job_; }

 private:
  absl::Status MakeOnly(const JobList& jobs);
  std::string Marker(const std::string& stage) const { return absl::StrCat("done-", Name(stage)); }

  std::string name_, layer_;
  const Artefacts& work_;
  Phases& phases_;
  const Job& job_;
  const JobRunner* runner_;
  StageJobs* only_ = nullptr;
  NodeId ranged_by_ = 0;
  std::size_t run_end_ = 0;
};

}  // namespace hmann
