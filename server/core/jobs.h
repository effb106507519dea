/// Requests in the pool. A protocol layer (a "face") derives from one of these classes.
/// It supplies the vectors and receives the answers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "hmann/hmann.h"
#include "server/core/metrics.h"
#include "server/core/options.h"
#include "server/core/query.h"
#include "server/core/registry.h"
#include "server/core/search_pool.h"

namespace hmann::server {

/// The objects that requests are answered from. All of them outlive the requests.
struct Serving {
  const Registry& registry;
  SearchPool& pool;
  const RequestLimits limits;
  const std::chrono::nanoseconds default_deadline;
  Metrics& metrics;
  const std::string nameless = {};  ///< the index of protocols whose calls name none
};

/// When a request began, which method it calls, and how long its client waits. A deadline
/// of max stands for Serving::default_deadline.
struct CallFacts {
  Method method;
  QueuedRequest::Clock::time_point began;
  std::chrono::system_clock::time_point deadline;
};

/// The deadline of a call on the clock of the pool.
QueuedRequest::Clock::time_point DeadlineOf(const Serving& serving, const CallFacts& call);

/// Queries that share the same options.
class QueuedQuery : public QueuedRequest {
 public:
  bool IsNarrow() const final { return queries() == 1 && options_.narrow; }

 protected:
  /// `bytes`: the size of the vectors.
  QueuedQuery(const Serving& serving, Snapshot index, const RequestParams& options,
              std::size_t queries, std::uint64_t bytes, const CallFacts& call);

  const RequestParams& options() const { return options_; }
  /// Counts a request that has ended.
  void Count(const absl::Status& status, Clock::time_point began, std::size_t queries);
  const CallFacts& call() const { return call_; }

  // The sink. Except for Row, several threads call these at once, each for other queries.

  /// The vector of query `i`, in QueryType of the index's dtype.
  virtual const void* Row(std::size_t i) const = 0;
  /// The name of query `i` in an error.
  virtual std::string Field(std::size_t i) const = 0;
  virtual void Keep(std::size_t i, const hmann::Answer& answer) = 0;
  /// `why`: INVALID_ARGUMENT for a vector that cannot be searched for, or an error that
  /// prevents all queries. A returned error fails all queries.
  virtual absl::Status KeepError(std::size_t /*i*/, absl::Status why) { return why; }
  /// Stores the work of the queries from `first` on, if the options request counters. For
  /// a stream, it is the work of one query.
  virtual void KeepWork(std::size_t first, const Counters& work) = 0;

 private:
  std::size_t Together() const final { return options_.together; }
  absl::Status Answer(std::size_t begin, std::size_t end, AnySearcher& searcher,
                      const SearchLimits& limits) final;
  SearchLimits LimitsOf(const SearchLimits& limits) const;
  using Done = std::function<void(std::size_t, const absl::Status&, hmann::Answer&)>;
  absl::Status SearchAll(std::size_t first, std::size_t count, AnySearcher& searcher,
                         const SearchLimits& limits, const Done& done, Counters* work);

  Metrics& metrics_;
  const RequestParams options_;
  const CallFacts call_;
};

/// A search for one vector, or a batch.
class QueryRequest : public QueuedQuery {
 protected:
  QueryRequest(const Serving& serving, Query query, const CallFacts& call);

  std::size_t k() const { return options().search.params.k; }

  /// Builds the reply from the stored answers. An error ends the request.
  virtual absl::Status Reply() = 0;
  /// Sends the reply, or this error. This is the last call.
  virtual void End(const absl::Status& status) = 0;

 private:
  void Complete(const absl::Status& status) final;
  const void* Row(std::size_t i) const final { return vectors_.row(i); }
  std::string Field(std::size_t i) const override;

  const QueryVectors vectors_;
};

/// Fetches vectors by label. It is not a search, but it runs on the same threads.
class LabelsRequest : public QueuedRequest {
 protected:
  /// `labels` must outlive this. `vector_bytes` comes from CheckGet.
  LabelsRequest(const Serving& serving, Snapshot index, std::span<const std::uint64_t> labels,
                std::uint64_t vector_bytes, const CallFacts& call);

  /// Returns memory for the vectors, in the order of the labels. Called once, when the
  /// first vectors are read.
  virtual char* Room(std::size_t bytes) = 0;
  /// See QueryRequest.
  virtual absl::Status Reply() = 0;
  virtual void End(const absl::Status& status) = 0;

 private:
  std::size_t Together() const final;
  absl::Status Answer(std::size_t begin, std::size_t end, AnySearcher& searcher,
                      const SearchLimits& limits) final;
  void Complete(const absl::Status& status) final;

  Metrics& metrics_;
  const std::span<const std::uint64_t> labels_;
  const std::uint64_t vector_bytes_;
  const CallFacts call_;
  std::once_flag sized_;
  char* vectors_ = nullptr;  // threads write to disjoint parts
};

}  // namespace hmann::server
