#include "server/core/search_pool.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "server/core/errors.h"

namespace hmann::server {
namespace {

/// The largest work of a quick-lane job.
constexpr std::chrono::nanoseconds kQuick = std::chrono::milliseconds(2);
/// The nice value of the bulk lane's threads: the kernel gives them a third of the share
/// of others.
constexpr int kBulkNice = 5;
/// One part in kSpare of a job's time is reserved for what the estimate misses.
constexpr int kSpare = 20;
/// For how long a refusal is remembered, and what a caller asked for, and of how many
/// callers. These are guesses.
constexpr std::chrono::seconds kRemembered(2), kWindow(1);
constexpr std::size_t kMostRemembered = 4096;

std::chrono::nanoseconds AtLeastAMillisecond(std::chrono::nanoseconds delay) {
  return std::clamp<std::chrono::nanoseconds>(delay, std::chrono::milliseconds(1),
                                              std::chrono::seconds(30));
}

}  // namespace

QueuedRequest::QueuedRequest(Snapshot index, std::size_t queries, const Effort& effort,
                             std::uint64_t bytes, Clock::time_point deadline)
    : index_(std::move(index)),
      queries_(queries),
      effort_(effort),
      bytes_(bytes),
      deadline_(deadline),
      unfinished_(queries) {}

void QueuedRequest::Fail(std::size_t query, const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  error_.Note(query, status);
  failed_at_.store(error_.item, std::memory_order_relaxed);
}

SearchPool::SearchPool(int threads, const PoolBounds& bounds)
    : threads_(threads),
      bounds_(bounds),
      own_(bounds.bytes),
      account_(bounds.account == nullptr ? own_ : *bounds.account) {
  workers_.reserve(static_cast<std::size_t>(threads) * 2);
  for (int i = 0; i < threads; ++i) {
    workers_.emplace_back([this] { Loop(quick_); });
    workers_.emplace_back([this] {
      setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kBulkNice);
      Loop(bulk_);
    });
  }
}

SearchPool::~SearchPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  quick_.wake.notify_all();
  bulk_.wake.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

PoolLoad SearchPool::load() const {
  const std::lock_guard lock(mutex_);
  const auto of = [](const Lane& lane) {
    PoolLoad::Lane load{lane.jobs.size(), lane.running, lane.busy};
    for (const QueuedRequest* job : lane.jobs) load.work += job->Left();
    return load;
  };
  return {of(quick_), of(bulk_), account_.used()};
}

SearchPool::Demand SearchPool::DemandOf(const QueuedRequest& job) {
  return {job.caller_, job.deadline_, job.one_, job.Left(), job.bytes_};
}

SearchPool::Lane& SearchPool::LaneOf(const Demand& demand) {
  return demand.all <= kQuick ? quick_ : bulk_;
}

std::chrono::nanoseconds SearchPool::Late(const Lane& lane, const Demand& demand) const {
  if (lane.jobs.empty() && lane.busy == 0) return {};
  const auto now = QueuedRequest::Clock::now();
  // The time by which `of` is late if the lane has to do `work` first, including its own.
  const auto late = [&](const Demand& of, std::chrono::nanoseconds work) {
    const std::chrono::nanoseconds left = of.deadline - now,
                                   needed = std::max(work / threads_, of.one);
    return std::max(needed - (left - left / kSpare), std::chrono::nanoseconds::zero());
  };
  const std::chrono::nanoseconds own = demand.all, none{0};
  std::chrono::nanoseconds before = lane.running;
  bool placed = false;
  for (const QueuedRequest* waiting : lane.jobs) {
    if (!placed && demand.deadline < waiting->deadline_) {
      placed = true;
      if (const auto by = late(demand, before + own); by > none) return by;
    }
    before += waiting->Left();
    if (placed && late(DemandOf(*waiting), before) == none) {
      if (const auto by = late(DemandOf(*waiting), before + own); by > none) return by;
    }
  }
  return placed ? none : late(demand, before + own);
}

absl::Status SearchPool::Admit(const Lane& lane, const Demand& demand) const {
  if (lane.jobs.size() >= bounds_.queue) return QueueFull(bounds_.queue, RetryDelay(lane));
  if (bytes_ > 0 && !account_.HasRoom(demand.bytes))
    return MemoryFull(account_.most(), RetryDelay(lane));
  if (const std::chrono::nanoseconds late = Late(lane, demand); late.count() > 0)
    return NoTime(demand.all, AtLeastAMillisecond(late));
  return absl::OkStatus();
}

/// Requires the mutex.
void SearchPool::Count(std::int64_t bytes) {
  bytes_ += static_cast<std::uint64_t>(bytes);
  account_.Take(static_cast<std::uint64_t>(bytes));
}

/// Finds the job that gives way to `demand`: the last unstarted job of the caller with
/// the most waiting work. Null if there is none, or if no caller has more waiting than
/// the caller of `demand`, with it included.
QueuedRequest* SearchPool::ToGiveWay(const Lane& lane, const Demand& demand) {
  absl::flat_hash_map<std::uint64_t, std::chrono::nanoseconds> waiting;
  waiting[demand.caller.number] = demand.all;
  for (const QueuedRequest* one : lane.jobs) waiting[one->caller_.number] += one->Left();
  const auto most = std::max_element(waiting.begin(), waiting.end(), [](auto& a, auto& b) {
    return std::pair(a.second, a.first) < std::pair(b.second, b.first);
  });
  if (most->second <= waiting[demand.caller.number]) return nullptr;
  const auto last =
      std::find_if(lane.jobs.rbegin(), lane.jobs.rend(), [&](const QueuedRequest* one) {
        return one->caller_.number == most->first && one->next_ == 0;
      });
  return last == lane.jobs.rend() ? nullptr : *last;
}

/// Like Admit, but first removes jobs that have to give way from the lane. If that does
/// not help, they stay.
absl::Status SearchPool::AdmitWithShares(Lane& lane, const Demand& demand,
                                         std::vector<QueuedRequest*>* give_way) {
  absl::Status status = Admit(lane, demand);
  while (!status.ok()) {
    QueuedRequest* const other = ToGiveWay(lane, demand);
    if (other == nullptr) break;
    give_way->push_back(other);
    std::erase(lane.jobs, other);
    Count(-static_cast<std::int64_t>(other->bytes_));
    status = Admit(lane, demand);
  }
  if (!status.ok()) TakeBack(lane, *give_way);
  return status;
}

void SearchPool::TakeBack(Lane& lane, std::vector<QueuedRequest*>& given_way) {
  for (; !given_way.empty(); given_way.pop_back()) {
    Insert(lane, given_way.back());
    Count(static_cast<std::int64_t>(given_way.back()->bytes_));
  }
}

/// Requires the mutex.
void SearchPool::Remember(const Demand& demand, bool refused) {
  const auto now = QueuedRequest::Clock::now();
  if (!refused && !RefusesSome()) return;
  const std::uint64_t key = absl::HashOf(demand.caller.number, demand.caller.method);
  if (!refused_.contains(key)) {
    if (!refused) return;
    if (refused_.size() >= kMostRemembered)
      absl::erase_if(refused_,
                     [&](const auto& one) { return now - one.second.last > kRemembered; });
    if (refused_.size() >= kMostRemembered) return;
    refused_[key] = {.least = demand, .before = demand, .since = now};
  }
  Refused& of = refused_[key];
  of.Roll(now);
  if (demand.all < of.least.all) of.least = demand;
  of.unread -= of.unread > 0 ? 1 : 0;
  if (!refused) return;
  of.last = now;
  last_refusal_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
}

void SearchPool::Refused::Roll(QueuedRequest::Clock::time_point now) {
  if (now - since < kWindow) return;
  before = std::exchange(least, {});
  least.all = std::chrono::nanoseconds::max();
  since = now;
  unread = 0;
}

bool SearchPool::RefusesSome() const {
  const QueuedRequest::Clock::duration last(last_refusal_.load(std::memory_order_relaxed));
  return QueuedRequest::Clock::now().time_since_epoch() - last <= kRemembered;
}

bool SearchPool::MayHaveRoom(Caller caller, QueuedRequest::Clock::time_point deadline) {
  const auto now = QueuedRequest::Clock::now();
  const std::lock_guard lock(mutex_);
  const auto found = refused_.find(absl::HashOf(caller.number, caller.method));
  if (found == refused_.end() || now - found->second.last > kRemembered) return true;
  Refused& of = found->second;
  Demand demand = of.least.all < of.before.all ? of.least : of.before;
  demand.deadline = deadline;
  Lane& lane = LaneOf(demand);
  demand.all *= of.unread + 1;
  demand.bytes *= static_cast<std::uint64_t>(of.unread) + 1;
  std::vector<QueuedRequest*> give_way;
  const bool room = AdmitWithShares(lane, demand, &give_way).ok();
  TakeBack(lane, give_way);
  of.unread += room ? 1 : 0;
  return room;
}

void SearchPool::Insert(Lane& lane, QueuedRequest* job) {
  const auto behind = std::upper_bound(
      lane.jobs.begin(), lane.jobs.end(), job,
      [](const QueuedRequest* a, const QueuedRequest* b) { return a->deadline_ < b->deadline_; });
  lane.jobs.insert(behind, job);
}

absl::Status SearchPool::Submit(QueuedRequest* job, Caller caller) {
  const std::size_t queries = job->queries_;
  job->one_ = job->index_.served().meter().Estimate(job->effort_);
  job->caller_ = caller;
  if (job->Left() > bounds_.work) return WorkTooLarge(job->Left(), bounds_.work);
  const Demand demand = DemandOf(*job);
  Lane& lane = LaneOf(demand);
  std::vector<QueuedRequest*> give_way;
  std::chrono::nanoseconds delay{0};
  {
    const std::lock_guard lock(mutex_);
    absl::Status status = AdmitWithShares(lane, demand, &give_way);
    Remember(demand, !status.ok());
    if (!status.ok()) return status;
    Insert(lane, job);
    Count(static_cast<std::int64_t>(job->bytes_));
    if (!give_way.empty()) delay = RetryDelay(lane);
  }
  // From here on, the job may be deleted.
  if (queries == 1) {
    lane.wake.notify_one();
  } else {
    lane.wake.notify_all();
  }
  for (QueuedRequest* other : give_way) other->Complete(OverShare(delay));
  return absl::OkStatus();
}

void SearchPool::Start(QueuedRequest* job, absl::FunctionRef<Caller()> caller, bool here) {
  if (here && job->IsNarrow() && TryRunHere(job)) return;
  if (const absl::Status status = Submit(job, caller()); !status.ok()) job->Complete(status);
}

bool SearchPool::TryRunHere(QueuedRequest* job) {
  const Work work{job, 0, 1};
  {
    const std::lock_guard lock(mutex_);
    if (here_ || !quick_.jobs.empty() || quick_.busy >= threads_) return false;
    here_ = true;
    ++quick_.busy;
    job->started_ = QueuedRequest::Clock::now();
  }
  Run(work);
  Release(quick_, true, work, 0);
  return true;
}

void SearchPool::Loop(Lane& lane) {
  for (Work work = Take(lane); work.job != nullptr; work = Take(lane)) {
    const std::uint64_t bytes = work.job->bytes_;
    const bool last = Run(work);
    Release(lane, false, work, last ? bytes : 0);
  }
}

/// True if others wait that could use the time of a job that will be late. (If none do,
/// it runs: estimates may be wrong.)
bool SearchPool::CannotBeDone(const Lane& lane, const QueuedRequest& job) const {
  if (lane.jobs.size() < 2) return false;
  const std::chrono::nanoseconds needed = std::max(job.Left() / threads_, job.one_);
  // Finished queries would be lost, so a job that has begun gets the benefit of doubt: a
  // quarter, which is a guess.
  const std::chrono::nanoseconds doubt = needed / (job.next_ > 0 ? 4 : kSpare);
  const std::chrono::nanoseconds left = job.deadline_ - QueuedRequest::Clock::now();
  return left.count() > 0 && needed - doubt > left;
}

SearchPool::Work SearchPool::Take(Lane& lane) {
  std::unique_lock lock(mutex_);
  lane.wake.wait(lock, [&] { return stop_ || (!lane.jobs.empty() && lane.busy < threads_); });
  if (lane.jobs.empty()) return {};
  QueuedRequest* job = lane.jobs.front();
  const std::size_t begin = job->next_;
  if (begin == 0) job->started_ = QueuedRequest::Clock::now();
  const auto threads = static_cast<std::size_t>(threads_);
  const std::size_t share =
      std::clamp<std::size_t>((job->queries_ + threads - 1) / threads, 1, job->Together());
  if (CannotBeDone(lane, *job)) job->Fail(begin, NoTime(job->Left(), RetryDelay(lane)));
  job->next_ = job->Dead() ? job->queries_ : std::min(begin + share, job->queries_);
  if (job->next_ == job->queries_) lane.jobs.pop_front();
  const std::chrono::nanoseconds estimate = job->one_ * (job->next_ - begin);
  lane.running += estimate;
  ++lane.busy;
  return {job, begin, job->next_, estimate};
}

bool SearchPool::Run(const Work& work) {
  QueuedRequest& job = *work.job;
  Generation& index = job.index_.generation();
  const auto start = QueuedRequest::Clock::now();
  if (job.cancelled_.load(std::memory_order_relaxed)) {
    job.Fail(work.begin, absl::CancelledError("the client went away"));
  } else if (start > job.deadline_) {
    job.Fail(work.begin, absl::DeadlineExceededError(
                             "the deadline passed while the query waited for a thread"));
  } else if (job.failed_at_.load(std::memory_order_relaxed) <= work.begin) {
    // This part will be late, or an earlier part of the job failed: it does not start.
  } else if (std::unique_ptr<AnySearcher> searcher = index.TakeSearcher(); searcher == nullptr) {
    const absl::Status now = job.index_.served().Get().status();
    job.Fail(work.begin, now.ok() ? FileChanged(job.index_.served().name()) : now);
  } else {
    const SearchLimits limits{job.deadline_, &job.cancelled_};
    const absl::Status status = job.Answer(work.begin, work.end, *searcher, limits);
    index.GiveBack(std::move(searcher));
    if (status.ok() || absl::IsDeadlineExceeded(status)) {
      const std::chrono::nanoseconds time = QueuedRequest::Clock::now() - start;
      job.index_.served().meter().Observe(job.effort_, time / (work.end - work.begin), status.ok());
    }
    if (!status.ok()) job.Fail(work.begin, status);
  }
  const std::size_t done = work.end - work.begin;
  if (job.unfinished_.fetch_sub(done, std::memory_order_acq_rel) != done) return false;
  if (job.error_.status.ok() && !index.Intact())
    job.Fail(work.begin, FileChanged(job.index_.served().name()));
  job.Complete(job.error_.status);
  return true;
}

void SearchPool::Release(Lane& lane, bool here, const Work& work, std::uint64_t bytes) {
  bool more = false;
  {
    const std::lock_guard lock(mutex_);
    --lane.busy;
    lane.running -= work.estimate;
    Count(-static_cast<std::int64_t>(bytes));
    if (here) here_ = false;
    more = here && !lane.jobs.empty();
  }
  if (more) lane.wake.notify_one();
}

/// The approximate time until the first job has been taken and its place is free.
std::chrono::nanoseconds SearchPool::RetryDelay(const Lane& lane) const {
  const std::chrono::nanoseconds left =
      lane.jobs.empty() ? std::chrono::nanoseconds::zero() : lane.jobs.front()->Left();
  return AtLeastAMillisecond(left / threads_);
}

}  // namespace hmann::server
