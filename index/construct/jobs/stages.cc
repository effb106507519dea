#include "index/construct/jobs/stages.h"

#include <algorithm>

#include "index/base/status_macros.h"

namespace hmann {

std::vector<NodeRange> RangesOf(NodeId n) { return RangesOf(n, n); }

std::vector<NodeRange> RangesOf(NodeId n, NodeId of) {
  constexpr std::uint64_t kRanges = 32, kPage = 4096;
  const std::uint64_t size =
      RoundUp(std::max<std::uint64_t>(1, (of + kRanges - 1) / kRanges), kPage);
  std::vector<NodeRange> ranges;
  for (std::uint64_t first = 0; first < n; first += size) {
    ranges.push_back({static_cast<NodeId>(first),
                      static_cast<NodeId>(std::min<std::uint64_t>(n, first + size))});
  }
  return ranges;
}

absl::Status Stages::ForRanges(
    const RangeStage& stage,
    const std::function<absl::Status(NodeRange, ArtifactWriter&, ArtifactWriter&)>& make) {
  const std::vector<NodeRange> ranges = Ranges(stage.n);
  const bool two = !stage.beside.empty();
  const auto make_one = [&](std::size_t j) {
    absl::StatusOr<ArtifactWriter> writer = work_.Create(Name(stage.stage, j));
    if (!writer.ok()) return writer.status();
    absl::StatusOr<ArtifactWriter> beside = ArtifactWriter();
    if (two) beside = work_.Create(Name(stage.beside, j));
    if (!beside.ok()) return beside.status();
    HMANN_RETURN_IF_ERROR(make(ranges[j], *writer, *beside));
    HMANN_RETURN_IF_ERROR(job_.CheckCancelled());
    if (two) HMANN_RETURN_IF_ERROR(beside->Commit());
    return writer->Commit();
  };
  return Make({.stage = stage.stage,
               .phase = stage.phase,
               .total = stage.n,
               .count = ranges.size(),
               .size = [&](std::size_t j) { return std::uint64_t{ranges[j].size()}; },
               .has =
                   [&](std::size_t j) {
                     return work_.Has(Name(stage.stage, j)) &&
                            (!two || work_.Has(Name(stage.beside, j)));
                   },
               .make = make_one,
               .advances = true,
               .made =
                   [&](std::size_t j) {
                     if (!stage.reads.empty()) Retire(stage.reads, j);
                   }});
}

absl::Status Stages::ForRanges(
    const std::string& phase, const std::string& stage, NodeId n,
    const std::function<absl::Status(NodeRange, ArtifactWriter&)>& make) {
  return ForRanges({.phase = phase, .stage = stage, .n = n},
                   [&](NodeRange range, ArtifactWriter& writer, ArtifactWriter&) {
                     return make(range, writer);
                   });
}

absl::Status Stages::Make(const BuildJobList& jobs) {
  if (only_ != nullptr) return MakeOnly(jobs);
  if (Done(jobs.stage)) return absl::OkStatus();
  phases_.Begin(Phase(jobs.phase), jobs.total, "vectors");
  std::vector<bool> made(jobs.count);
  const auto look = [&] {
    for (std::size_t j = 0; j < jobs.count; ++j) {
      if (made[j] || !jobs.has(j)) continue;
      made[j] = true;
      job_.progress.Advance(jobs.size(j));
      if (jobs.made) jobs.made(j);
    }
  };
  look();
  if (runner_ != nullptr) {
    std::vector<std::size_t> missing;
    for (std::size_t j = 0; j < jobs.count; ++j) {
      if (!made[j]) missing.push_back(j);
    }
    HMANN_RETURN_IF_ERROR(runner_->Run(Name(jobs.stage), missing, job_, phases_, look));
  }
  // Makes all jobs, or those on which workers failed.
  for (std::size_t j = 0; j < jobs.count; ++j) {
    HMANN_RETURN_IF_ERROR(job_.CheckCancelled());
    if (made[j]) continue;
    // Another process may have made it meanwhile.
    const bool there = jobs.has(j);
    const auto next = std::find(made.begin() + static_cast<std::ptrdiff_t>(j), made.end(), true);
    run_end_ = static_cast<std::size_t>(next - made.begin());
    if (!there) HMANN_RETURN_IF_ERROR(jobs.make(j));
    if (there || !jobs.advances) job_.progress.Advance(jobs.size(j));
    if (jobs.made) jobs.made(j);
  }
  phases_.End(Phase(jobs.phase));
  return MarkDone(jobs.stage);
}

absl::Status Stages::MakeOnly(const BuildJobList& jobs) {
  const std::string name = Name(jobs.stage);
  if (name != only_->stage) {
    std::size_t made = 0;
    if (Done(jobs.stage)) return absl::OkStatus();
    for (std::size_t j = 0; j < jobs.count; ++j) made += jobs.has(j) ? 1 : 0;
    if (made == jobs.count) return absl::OkStatus();
    return Unavailable(work_.path(), ": before ", only_->stage, " comes ", name, ", of which ",
                       made, " of ", jobs.count, " jobs are made");
  }
  if (only_->first >= only_->last || only_->last > jobs.count) {
    return InvalidArgument("jobs of ", name, ": expected some of 0-", jobs.count - 1, "; found ",
                           only_->first, "-", only_->last - 1);
  }
  for (std::size_t j = only_->first; j < only_->last; ++j) {
    HMANN_RETURN_IF_ERROR(job_.CheckCancelled());
    // A job that is made may have lost its inputs, so a run ends before it.
    if (run_end_ <= j) {
      run_end_ = j + 1;
      while (run_end_ < only_->last && !jobs.has(run_end_)) ++run_end_;
    }
    const bool there = Done(jobs.stage) || jobs.has(j);
    if (!there) HMANN_RETURN_IF_ERROR(jobs.make(j));
    if (there || !jobs.advances) job_.progress.Advance(jobs.size(j));
  }
  only_->made = true;
  return absl::AbortedError("the jobs are made");
}

absl::StatusOr<Buffer> Stages::Map(const std::string& stage, NodeId n) const {
  std::vector<std::string> names;
  for (std::size_t j = 0; j < Ranges(n).size(); ++j) names.push_back(Name(stage, j));
  return work_.Map(names);
}

bool Stages::HasAll(const std::string& stage, NodeId n, const std::string& made) const {
  for (std::size_t j = 0; j < Ranges(n).size(); ++j) {
    if (!work_.Has(Name(stage, j)) && (made.empty() || !work_.Has(Name(made, j)))) return false;
  }
  return true;
}

void Stages::Forget() const {
  if (only_ != nullptr) return;
  work_.RemoveAll(Name(""));
  work_.RemoveAll(Marker(""));
}

bool Stages::LostMarker() const {
  return std::any_of(work_.damaged().begin(), work_.damaged().end(),
                     [&](const std::string& name) { return name.starts_with(Marker("")); });
}

}  // namespace hmann
