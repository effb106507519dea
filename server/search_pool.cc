#include "server/search_pool.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/errors.h"

namespace hmann {

SearchJob::SearchJob(ServedIndex* index, std::size_t queries, std::uint64_t bytes,
                     Clock::time_point deadline)
    : index_(index), queries_(queries), bytes_(bytes), deadline_(deadline), unfinished_(queries) {}

absl::Status SearchJob::AnswerMany(std::size_t begin, std::size_t end, Searcher& searcher,
                                   const SearchLimits& limits) {
  for (std::size_t i = begin; i < end; ++i) {
    if (absl::Status status = Answer(i, searcher, limits); !status.ok()) return status;
  }
  return absl::OkStatus();
}

void SearchJob::Fail(absl::Status status) {
  const std::lock_guard lock(mutex_);
  if (!status_.ok()) return;
  status_ = std::move(status);
  failed_.store(true, std::memory_order_relaxed);
}

SearchPool::SearchPool(int threads, std::size_t queue, std::uint64_t bytes)
    : threads_(threads), capacity_(queue), most_bytes_(bytes) {
  workers_.reserve(static_cast<std::size_t>(threads));
  for (int i = 0; i < threads; ++i) workers_.emplace_back([this] { Loop(); });
}

SearchPool::~SearchPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

absl::Status SearchPool::Submit(SearchJob* job) {
  const std::size_t queries = job->queries_;
  {
    const std::lock_guard lock(mutex_);
    if (jobs_.size() >= capacity_) return QueueFull(capacity_, RetryDelay());
    if (bytes_ > 0 && bytes_ + job->bytes_ > most_bytes_)
      return MemoryFull(most_bytes_, RetryDelay());
    jobs_.push_back(job);
    waiting_ += queries;
    bytes_ += job->bytes_;
  }
  // The job may be gone from here on.
  if (queries == 1) {
    wake_.notify_one();
  } else {
    wake_.notify_all();
  }
  return absl::OkStatus();
}

bool SearchPool::TryRunHere(SearchJob* job) {
  {
    const std::lock_guard lock(mutex_);
    if (here_ || waiting_ > 0 || busy_ >= threads_) return false;
    here_ = true;
    ++busy_;
  }
  Run({job, 0, 1});
  Release(true, 0);
  return true;
}

void SearchPool::Loop() {
  for (Work work = Take(); work.job != nullptr; work = Take()) {
    const std::uint64_t bytes = work.job->bytes_;
    const bool last = Run(work);
    Release(false, last ? bytes : 0);
  }
}

SearchPool::Work SearchPool::Take() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] { return stop_ || (waiting_ > 0 && busy_ < threads_); });
  if (waiting_ == 0) return {};
  SearchJob* job = jobs_.front();
  jobs_.pop_front();
  const std::size_t begin = job->next_;
  const auto threads = static_cast<std::size_t>(threads_);
  const std::size_t share =
      std::clamp<std::size_t>((job->queries_ + threads - 1) / threads, 1, job->Together());
  job->next_ = job->Dead() ? job->queries_ : std::min(begin + share, job->queries_);
  if (job->next_ < job->queries_) jobs_.push_back(job);
  waiting_ -= job->next_ - begin;
  ++busy_;
  return {job, begin, job->next_};
}

bool SearchPool::Run(const Work& work) {
  SearchJob& job = *work.job;
  const auto start = SearchJob::Clock::now();
  if (job.cancelled_.load(std::memory_order_relaxed)) {
    job.Fail(absl::CancelledError("the client went away"));
  } else if (start > job.deadline_) {
    job.Fail(
        absl::DeadlineExceededError("the deadline passed while the query waited for a thread"));
  } else if (!job.failed_.load(std::memory_order_relaxed)) {
    std::unique_ptr<Searcher> searcher = job.index_->TakeSearcher();
    const SearchLimits limits{job.deadline_, &job.cancelled_};
    absl::Status status = work.end - work.begin == 1
                              ? job.Answer(work.begin, *searcher, limits)
                              : job.AnswerMany(work.begin, work.end, *searcher, limits);
    job.index_->GiveBack(std::move(searcher));
    if (!status.ok()) job.Fail(std::move(status));
    const std::int64_t ns = std::chrono::nanoseconds(SearchJob::Clock::now() - start).count() /
                            static_cast<std::int64_t>(work.end - work.begin);
    const std::int64_t mean = mean_ns_.load(std::memory_order_relaxed);
    mean_ns_.store(mean == 0 ? ns : mean + (ns - mean) / 16, std::memory_order_relaxed);
  }
  const std::size_t done = work.end - work.begin;
  if (job.unfinished_.fetch_sub(done, std::memory_order_acq_rel) != done) return false;
  job.Complete(job.status_);
  return true;
}

void SearchPool::Release(bool here, std::uint64_t bytes) {
  bool more = false;
  {
    const std::lock_guard lock(mutex_);
    --busy_;
    bytes_ -= bytes;
    if (here) here_ = false;
    more = here && waiting_ > 0;
  }
  if (more) wake_.notify_one();
}

std::chrono::nanoseconds SearchPool::RetryDelay() const {
  constexpr std::chrono::nanoseconds kLeast = std::chrono::milliseconds(1),
                                     kMost = std::chrono::seconds(1);
  const std::int64_t ns =
      mean_ns_.load(std::memory_order_relaxed) * static_cast<std::int64_t>(waiting_) / threads_;
  return std::clamp(std::chrono::nanoseconds(ns), kLeast, kMost);
}

}  // namespace hmann
