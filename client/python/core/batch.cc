#include "client/python/core/batch.h"

#include <pybind11/pybind11.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/python/core/gil.h"
#include "client/python/core/watch.h"
#include "index/base/errors.h"

namespace hmann::python {
namespace {

using Clock = std::chrono::steady_clock;
namespace py = pybind11;

/// A query with more work than this may take a second on a device. The thread that polls
/// for signals then does not run it.
constexpr std::uint64_t kLongQuery = 20'000;
constexpr char kBeyondInt64[] = " found, at most 2^63 - 1 expected";

/// The results of one thread.
struct Share {
  FirstError error;
  Counters counters;
  std::uint64_t cut_short = 0;
  std::exception_ptr failure;
};

absl::Status SearchOne(Searcher& searcher, const Batch& batch, const void* query, Answer* answer,
                       Counters* counters, const SearchLimits& limits) {
  return searcher.Search(query, batch.params, answer, counters, limits);
}
absl::Status SearchOne(CollectionSearcher& searcher, const Batch& batch, const void* query,
                       Answer* answer, Counters* counters, const SearchLimits&) {
  return searcher.Search(query, *batch.prepared, answer, counters);
}

template <typename Row, typename Done>
absl::Status SearchMany(Searcher& searcher, const Batch& batch, std::size_t count, Row row,
                        Done done, Counters* counters, const SearchLimits& limits) {
  return searcher.SearchMany(count, row, batch.params, batch.in_flight, done, counters, limits);
}
template <typename Row, typename Done>
absl::Status SearchMany(CollectionSearcher& searcher, const Batch& batch, std::size_t count,
                        Row row, Done done, Counters* counters, const SearchLimits& limits) {
  Answer answer;
  for (std::size_t i = 0; i < count && !*limits.cancelled; ++i)
    done(i, SearchOne(searcher, batch, row(i), &answer, counters, limits), answer);
  return absl::OkStatus();
}

template <typename AnySearcher>
class BatchRun {
 public:
  BatchRun(const Batch& batch, std::vector<std::unique_ptr<AnySearcher>>& searchers)
      : batch_(batch), searchers_(searchers), shares_(searchers.size()) {}

  BatchOutcome Run() {
    const bool long_query =
        std::uint64_t{batch_.params.ef_l1} + batch_.params.ef_l0 + batch_.params.nprobe >
        kLongQuery;
    const bool apart = long_query || (batch_.on_device && batch_.n > 1);
    {
      WithoutGil without_gil;
      without_gil_ = &without_gil;
      if (batch_.n == 1 && !apart) {
        AnswerOne();
      } else {
        AnswerAll(apart);
      }
    }
    if (raised_ != nullptr) std::rethrow_exception(raised_);
    BatchOutcome outcome;
    FirstError first;
    for (const Share& share : shares_) {
      if (share.failure != nullptr) std::rethrow_exception(share.failure);
      outcome.counters += share.counters;
      outcome.cut_short += share.cut_short;
      first.Note(share.error.item, share.error.status);
    }
    outcome.status = batch_.single ? first.status : first.Named("query ");
    return outcome;
  }

 private:
  const void* Row(std::uint64_t i) const {
    return batch_.rows + static_cast<std::ptrdiff_t>(i) * batch_.stride;
  }

  void Keep(std::uint64_t i, const Answer& answer, Share* share) {
    const std::size_t k = batch_.params.k, count = std::min(answer.nearest.size(), k);
    std::int64_t* labels = batch_.labels + i * k;
    float* distances = batch_.distances + i * k;
    for (std::size_t j = 0; j < count; ++j) {
      const std::uint64_t label = answer.nearest[j].label;
      // In a collection it stands for a string.
      if (batch_.prepared == nullptr && !std::in_range<std::int64_t>(label))
        share->error.Note(i, absl::OutOfRangeError(absl::StrCat("label ", label, kBeyondInt64)));
      labels[j] = static_cast<std::int64_t>(label);
      distances[j] = answer.nearest[j].distance;
    }
    std::fill(labels + count, labels + k, -1);
    std::fill(distances + count, distances + k, std::numeric_limits<float>::infinity());
    share->cut_short += answer.cut_short ? 1 : 0;
  }

  /// The shortest path for one query: no thread polls for signals.
  void AnswerOne() {
    Share& share = shares_[0];
    thread_local Answer answer;
    SearchLimits limits;
    limits.budget = batch_.budget;
    const absl::Status status = SearchOne(*searchers_[0], batch_, Row(0), &answer,
                                          batch_.counts ? &share.counters : nullptr, limits);
    if (status.ok()) {
      Keep(0, answer, &share);
    } else {
      share.error.Note(0, status);
    }
  }

  void AnswerAll(bool apart) {
    std::vector<std::jthread> others;
    for (std::size_t thread = apart ? 0 : 1; thread < shares_.size(); ++thread) {
      {
        const std::lock_guard lock(mutex_);
        ++at_work_;
      }
      others.emplace_back([this, thread] {
        AnswerShare(thread, false);
        const std::lock_guard lock(mutex_);
        --at_work_;
        ended_.notify_all();
      });
    }
    if (!apart) AnswerShare(0, true);
    std::unique_lock lock(mutex_);
    while (!ended_.wait_for(lock, std::chrono::milliseconds(kLookEveryMs),
                            [this] { return at_work_ == 0; })) {
      lock.unlock();
      Look();
      lock.lock();
    }
  }

  /// Answers queries thread, thread + threads, ...
  void AnswerShare(std::size_t thread, bool looks) {
    Share& share = shares_[thread];
    const std::uint64_t threads = shares_.size();
    const auto place = [&](std::size_t i) { return thread + i * threads; };
    const std::uint64_t count = batch_.n > thread ? (batch_.n - thread + threads - 1) / threads : 0;
    SearchLimits limits;
    limits.budget = batch_.budget;
    limits.cancelled = &cancelled_;
    try {
      const absl::Status prevented = SearchMany(
          *searchers_[thread], batch_, count, [&](std::size_t i) { return Row(place(i)); },
          [&](std::size_t i, const absl::Status& status, Answer& answer) {
            if (status.ok()) {
              Keep(place(i), answer, &share);
            } else {
              share.error.Note(place(i), status);
            }
            if (looks) Look();
          },
          batch_.counts ? &share.counters : nullptr, limits);
      share.error.Note(thread, prevented);
    } catch (...) {
      share.failure = std::current_exception();
    }
  }

  /// Checks at intervals whether a Python signal handler raises.
  void Look() {
    const Clock::time_point now = Clock::now();
    if (raised_ != nullptr || now - looked_ < std::chrono::milliseconds(kLookEveryMs)) return;
    without_gil_->With([this] {
      if (PyErr_CheckSignals() == 0) return;
      raised_ = std::make_exception_ptr(py::error_already_set());
      cancelled_ = true;
    });
    looked_ = Clock::now();
  }

  const Batch& batch_;
  std::vector<std::unique_ptr<AnySearcher>>& searchers_;
  std::vector<Share> shares_;
  std::atomic<bool> cancelled_{false};
  std::exception_ptr raised_;
  WithoutGil* without_gil_ = nullptr;  ///< of the thread that polls for signals
  Clock::time_point looked_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable ended_;
  std::size_t at_work_ = 0;
};

}  // namespace

BatchOutcome RunBatch(const Batch& batch, std::vector<std::unique_ptr<Searcher>>& searchers) {
  return BatchRun(batch, searchers).Run();
}

BatchOutcome RunBatch(const Batch& batch,
                      std::vector<std::unique_ptr<CollectionSearcher>>& searchers) {
  return BatchRun(batch, searchers).Run();
}

}  // namespace hmann::python
