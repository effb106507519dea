#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <thread>
#include <utility>

#include "hmann/build.h"
#include "index/base/clock.h"
#include "index/base/cpu.h"
#include "index/base/status_macros.h"
#include "index/collection/collection_impl.h"
#include "index/construct/bounded.h"
#include "index/construct/jobs/work_folder.h"
#include "index/tune/calibrate.h"

namespace hmann {
namespace {

/// Below this many changed rows a merge gains nothing that a search would notice: a
/// guess.
constexpr std::uint64_t kLeastChanged = 10'000;
/// What a merge takes for a vector with one thread, until one has told (two cores, 128 x
/// u8): a guess.
constexpr double kSecondsAVector = 0.2e-3;
/// At this rate of changes a merge with one thread lets the delta grow by 5 %, whatever
/// the number of vectors.
constexpr double kManyRowsASecond = 0.05 / kSecondsAVector;
/// At these shares of what the delta may take, a merge begins, and hurries: guesses.
constexpr double kBegin = 0.5, kHurry = 0.75;

}  // namespace

bool CollectionImpl::WantsMerge(const Moment& moment) const {
  if (!options_.merges) return false;
  const std::uint64_t sealed = moment.sealed.segment == nullptr ? 0 : moment.sealed.segment->n();
  const std::uint64_t dead = sealed - moment.sealed.rows();
  const std::uint64_t delta = moment.tail.end() - moment.tail.first();  // dead ones cost as much
  // At 10 % of delta, or earlier, from 5 % on, so that it ends at 15 % or less when the
  // merge is done: guesses.
  const bool is_much = delta * 10 >= sealed || (delta * 20 >= sealed && EndsLate(moment, 0));
  return resumable_ > 0 || (delta >= kLeastChanged && is_much) ||
         (dead >= kLeastChanged && dead * 10 >= sealed * 3) ||
         (moment.sequence > covered_ && (wants_room_ || IsFull(moment, kBegin)));
}

bool CollectionImpl::IsFull(const Moment& moment, double share) const {
  const auto most = static_cast<double>(delta_limit_) * share;
  const std::uint64_t taken = std::max(moment.delta_bytes(), moment.unmerged_bytes);
  return static_cast<double>(taken) >= most ||
         static_cast<double>(moment.wasted_bytes()) >=
             static_cast<double>(moment.most_wasted()) * share / 2;
}

bool CollectionImpl::EndsLate(const Moment& moment, double worked) const {
  if (moment.sealed.segment == nullptr || wants_room_ || IsFull(moment, kHurry)) return true;
  const auto sealed = static_cast<double>(moment.sealed.segment->n());
  const double work = merge_work_ > 0 ? merge_work_.load() : kSecondsAVector * sealed;
  // Where searches leave no processor, a merge that steps aside would never end: a guess.
  constexpr double kPatience = 4;
  if (worked > kPatience * work) return true;
  // The rest up to 15 % is for what the estimate misses: a guess.
  constexpr double kMost = 0.14;
  const double left = std::max(work - worked, 0.0);
  const auto delta = static_cast<double>(moment.tail.end() - moment.tail.first());
  return delta + RowsASecond(moment) * left >= kMost * sealed;
}

double CollectionImpl::Worked(std::chrono::steady_clock::time_point start) const {
  constexpr double kLost = 2.0 / 3;  // of the time: TaskContext::Slow waits twice as long
  return SecondsSince(start) - kLost * slowed_seconds_;
}

void CollectionImpl::MergeWhenDue() {
  Progress quiet(Progress::Show::kNever);
  int failures = 0;
  while (true) {
    {
      std::unique_lock lock(wake_mutex_);
      wake_.wait(lock, [&] { return stop_ || WantsMerge(*Now()); });
      if (stop_) return;
    }
    Note(Merge(quiet, stop_, /*is_asked=*/false), &failures);
  }
}

absl::Status CollectionImpl::Compact(Progress& progress, const std::atomic<bool>* cancelled) {
  if (options_.read_only) return FailedPrecondition(folder_, ": was opened for reading");
  const std::shared_ptr<const Moment> asked = Now();
  while (true) {
    std::uint64_t covered = 0;
    {
      const std::scoped_lock lock(writing_);
      covered = manifest_.covered;
    }
    if (covered >= asked->sequence) return absl::OkStatus();
    HMANN_RETURN_IF_ERROR(Merge(progress, cancelled == nullptr ? stop_ : *cancelled, true));
  }
}

std::uint64_t CollectionImpl::InterruptedMerge() const {
  const absl::StatusOr<MergeJob> job = MergeFiles(folder_).Read();
  const bool fits =
      job.ok() && job->generation == manifest_.generation && job->covered >= manifest_.covered;
  return fits ? job->covered : 0;
}

/// Shows the progress of a merge in info() while it exists.
class CollectionImpl::Shown {
 public:
  Shown(CollectionImpl& of, const Progress& progress) : of_(of) { Set(&progress); }
  ~Shown() { Set(nullptr); }
  Shown(const Shown&) = delete;
  Shown& operator=(const Shown&) = delete;

 private:
  void Set(const Progress* progress) {
    const std::scoped_lock lock(of_.facts_mutex_);
    of_.merging_ = progress;
  }
  CollectionImpl& of_;
};

absl::Status CollectionImpl::Merge(Progress& progress, const std::atomic<bool>& cancelled,
                                   bool is_asked) {
  std::unique_lock merging(merge_mutex_, std::defer_lock);
  while (!merging.try_lock()) {
    if (cancelled) return absl::CancelledError("stopped");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // a guess
  }
  const auto start = std::chrono::steady_clock::now();
  slowed_seconds_ = 0;
  // This thread stays level with others, so that those that it starts can choose.
  const auto begin = [&] {
    if (options_.merges && !wants_room_) StepBehind();
    return StartMerge(progress, cancelled);
  };
  HMANN_ASSIGN_OR_RETURN(const MergeJob job, std::async(std::launch::async, begin).get());
  const Shown shown(*this, progress);
  absl::Status built = BuildMerged(job, progress, cancelled, is_asked);
  if (absl::IsFailedPrecondition(built)) {
    // The work of an interrupted merge is refused: the collection was moved, or the
    // program is of another version.
    WorkFolder::Remove(MergeFiles(folder_).work());
    built = BuildMerged(job, progress, cancelled, is_asked);
  }
  HMANN_RETURN_IF_ERROR(built);
  HMANN_RETURN_IF_ERROR(SwapMerged(job, progress));
  merge_seconds_ = SecondsSince(start);
  merge_work_ = Worked(start);
  ++merges_;
  {
    const std::scoped_lock lock(facts_mutex_);
    last_error_.clear();
  }
  const std::scoped_lock pruning(prune_mutex_);
  MergeFiles(folder_).Remove();
  HMANN_RETURN_IF_ERROR(EraseNames());
  return journal_->Prune(job.covered);
}

absl::Status CollectionImpl::EraseNames() {
  constexpr std::size_t kAtOnce = 1000;  // writers wait meanwhile: a guess
  std::vector<std::uint64_t> changed, labels, gone;
  std::uint64_t after = 0;
  do {
    HMANN_RETURN_IF_ERROR(journal_->ReadLabels(&after, &changed));
    for (const std::uint64_t label : changed)
      if (label >> 63 != 0) labels.push_back(label);
  } while (!changed.empty());
  for (std::span<const std::uint64_t> rest = labels; !rest.empty();) {
    const auto some = rest.first(std::min(rest.size(), kAtOnce));
    rest = rest.subspan(some.size());
    const std::scoped_lock lock(writing_);
    const std::shared_ptr<const Moment> now = Now();
    std::vector<std::uint32_t> ids(some.size(), kNoId);
    if (now->sealed.segment != nullptr) HMANN_RETURN_IF_ERROR(now->sealed.segment->Find(some, ids));
    gone.clear();
    changed_rows_.clear();  // a write that failed may have left some
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (Locate(*now, some[i], ids[i]).in == Place::In::kNowhere) gone.push_back(some[i]);
    }
    HMANN_RETURN_IF_ERROR(journal_->EraseNames(gone));
  }
  return absl::OkStatus();
}

void CollectionImpl::CutGraphs() {
  auto next = std::make_shared<Moment>(*Now());
  const std::uint64_t end = next->tail.end();
  if (next->graphs.back()->first() == end) return;
  next->graphs.back()->Close(end);
  next->graphs.push_back(std::make_shared<DeltaGraph>(end));
  Publish(std::move(next));
}

absl::StatusOr<MergeJob> CollectionImpl::StartMerge(Progress& progress,
                                                    const std::atomic<bool>& cancelled) {
  const MergeFiles files(folder_);
  MergeJob job;
  std::shared_ptr<const Moment> moment;
  {
    const std::scoped_lock lock(writing_);
    moment = Now();
    const int threads = MergeThreads(*moment);
    counted_rows_ = moment->tail.end();
    counted_at_ = std::chrono::steady_clock::now();
    if (resumable_ > 0) {
      HMANN_ASSIGN_OR_RETURN(job, files.Read());
      job.end = merge_end_;
      job.threads = threads;
      return job;
    }
    merge_end_ = moment->tail.end();
    merge_bytes_ = moment->unmerged_bytes;
    wants_room_ = false;
    CutGraphs();
    job = {.covered = moment->sequence,
           .rows = moment->live(),
           .generation = manifest_.generation,
           .end = merge_end_,
           .threads = threads};
  }
  const std::uint64_t memory = MergeMemory() / 2;
  HMANN_RETURN_IF_ERROR(files.Write(*moment, &job, memory, cancelled, progress));
  const std::scoped_lock lock(writing_);
  resumable_ = job.covered;
  return job;
}

std::uint64_t CollectionImpl::MergeMemory() const {
  // The rest of a small container is for the delta (a quarter), requests and connections.
  constexpr std::uint64_t kLittle = 256 << 20;  // a guess, as the shares
  if (options_.merge_memory > 0) return options_.merge_memory;
  return std::min(usable_ / 16 * 5, std::max(UsableMemoryBytes() / 2, kLittle));
}

double CollectionImpl::RowsASecond(const Moment& moment) const {
  const double rows =
      static_cast<double>(moment.tail.end()) - static_cast<double>(counted_rows_.load());
  return rows / std::max(SecondsSince(counted_at_), 1.0);
}

int CollectionImpl::MergeThreads(const Moment& moment) const {
  return options_.merge_threads.value_or(RowsASecond(moment) > kManyRowsASecond ? 0 : 1);
}

absl::Status CollectionImpl::BuildMerged(const MergeJob& job, Progress& progress,
                                         const std::atomic<bool>& cancelled, bool is_asked) {
  if (job.rows == 0) return absl::OkStatus();
  const MergeFiles files(folder_);
  BuildCall call;
  call.build = manifest_.build;
  call.build.base = files.base(manifest_.dtype);
  call.build.labels = files.labels();
  call.build.out = Manifest::SealedIn(folder_, job.generation + 1);
  call.build.threads = job.threads;
  if (manifest_.build.metric != Metric::kInnerProduct) {
    HMANN_ASSIGN_OR_RETURN(const BuildInputs inputs, BuildInputs::Open(call.build));
    const std::uint64_t least = PlanBounded(inputs.Shape(inputs.n1()), 0).least_bytes;
    call.build.memory = options_.merge_memory > 0
                            ? options_.merge_memory
                            : std::max(MergeMemory(), std::min(least, UsableMemoryBytes()));
    call.build.work = files.work();
    call.build.keep_work = true;  // until the index serves
  }
  if (!manifest_.queries.empty()) call.calibrate.queries = folder_ + "/" + manifest_.queries;
  if (!job.types.empty()) call.attributes = {.from = files.attributes(), .types = job.types};
  return BuildAside(call, progress, cancelled, is_asked);
}

absl::Status CollectionImpl::BuildAside(BuildCall& call, Progress& progress,
                                        const std::atomic<bool>& cancelled, bool is_asked) {
  // While it is not late, a build works for a third of the time if searches come, since
  // it shares caches with them, and takes only what they leave of the processor, unless a
  // user waits for it. While writes are refused, it is level with searches: guesses.
  constexpr std::chrono::milliseconds kLook(50), kRecently(100);
  enum class Pace : std::uint8_t { kAside, kBehind, kLevel };
  const auto start = std::chrono::steady_clock::now();
  const bool opens = !is_open_;  // what is over its limit is merged first
  const auto wanted = [&] {
    if (!options_.merges || wants_room_ || opens) return Pace::kLevel;
    const bool is_late = is_asked || !call.build.keep_work || EndsLate(*Now(), Worked(start));
    return is_late ? Pace::kBehind : Pace::kAside;
  };
  // To calibrate takes longer than to build. While writes are refused, or it opens, what
  // is known of an index before stands, if a quarter is new since at most: a guess.
  const std::shared_ptr<const Moment> now = Now();
  const std::uint64_t uncalibrated = uncalibrated_ + now->live() - now->sealed.rows();
  const bool is_known = call.build.keep_work && 4 * uncalibrated <= now->live();
  // A thread cannot come back, but another one can continue, if the build keeps its work.
  for (Pace pace = wanted();;) {
    std::atomic<bool> ends = false, slowed = false;
    call.calibrate.wanted = !((wants_room_ || opens) && is_known);
    call.build.cancelled = &ends;
    call.build.slowed = &slowed;
    std::future<absl::Status> building = std::async(std::launch::async, [&] {
      if (pace != Pace::kLevel) pace == Pace::kAside ? StepAside() : StepBehind();
      const absl::StatusOr<CalibratedBuild> built = Build(call, progress);
      if (!built.ok()) return built.status();
      if (!call.calibrate.wanted) {
        const absl::Status taken = TakeCalibration(manifest_.Sealed(folder_), call.build.out);
        return absl::IsNotFound(taken) ? absl::OkStatus() : taken;
      }
      const absl::Status calibrated = built->calibration.status();
      return absl::IsCancelled(calibrated) ? calibrated : absl::OkStatus();
    });
    Pace next = pace;
    for (auto looked = start; building.wait_for(kLook) == std::future_status::timeout;) {
      if (slowed) slowed_seconds_ = slowed_seconds_ + SecondsSince(looked);
      looked = std::chrono::steady_clock::now();
      if (call.build.keep_work) next = std::max(next, wanted());
      ends = cancelled || next > pace;
      slowed = options_.merges && !wants_room_ && !EndsLate(*Now(), Worked(start)) &&
               Now()->facts->WasSearchedWithin(kRecently);
    }
    absl::Status built = building.get();
    if (next == pace || cancelled || !absl::IsCancelled(built)) {
      if (built.ok()) uncalibrated_ = call.calibrate.wanted ? 0 : uncalibrated;
      return built;
    }
    pace = next;
  }
}

absl::Status CollectionImpl::SwapMerged(const MergeJob& job, Progress& progress) {
  Moment::Part merged;
  std::uint64_t after = job.covered, content_hash = 0;
  if (job.rows > 0) {
    const std::string path = Manifest::SealedIn(folder_, job.generation + 1);
    HMANN_ASSIGN_OR_RETURN(std::shared_ptr<const Index> index,
                           Index::Open(path, options_.index, &progress));
    content_hash = index->info().content_hash;
    auto segment = std::make_shared<Segment>(std::move(index), path);
    HMANN_RETURN_IF_ERROR(segment->RememberLabels());
    merged.segment = std::move(segment);
    HMANN_RETURN_IF_ERROR(KillChanged(&after, &merged));
  }
  const std::scoped_lock lock(writing_);
  if (merged.segment != nullptr) HMANN_RETURN_IF_ERROR(KillChanged(&after, &merged));
  Manifest manifest = manifest_;
  manifest.generation = job.generation + 1;
  manifest.content_hash = content_hash;
  manifest.rows = job.rows;
  manifest.covered = job.covered;
  HMANN_RETURN_IF_ERROR(manifest.Write(folder_));
  KeepRecord(Now()->sequence, /*sync=*/true);
  auto next = std::make_shared<Moment>(*Now());
  if (next->sealed.segment != nullptr) next->sealed.segment->Supersede();
  next->sealed = std::move(merged);
  std::erase_if(next->graphs, [&](const auto& graph) { return graph->limit() <= job.end; });
  next->tail.DropBefore(job.end);
  next->unmerged_bytes -= std::min(merge_bytes_, next->unmerged_bytes);
  next->rows_version = next->facts->rows.EraseBelow(job.end);
  manifest_.generation = manifest.generation;
  manifest_.content_hash = content_hash;
  manifest_.rows = job.rows;
  manifest_.covered = covered_ = job.covered;
  resumable_ = 0;
  Publish(std::move(next));
  return absl::OkStatus();
}

}  // namespace hmann
