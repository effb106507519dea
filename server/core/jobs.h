/// Requests in the pool. A face derives from one of these and is the sink of what it
/// finds: vectors come from it, and answers go to it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "hmann/hmann.h"
#include "server/core/metrics.h"
#include "server/core/options.h"
#include "server/core/query.h"
#include "server/core/registry.h"
#include "server/core/search_pool.h"

namespace hmann::server {

/// What requests are answered from; all of it outlives them.
struct Serving {
  const Registry& registry;
  SearchPool& pool;
  const RequestLimits limits;
  const std::chrono::nanoseconds default_deadline;
  Metrics& metrics;
};

/// When a request began, by which call, and until when its client waits (max: as long as
/// Serving says).
struct CallFacts {
  Method method;
  SearchJob::Clock::time_point began;
  std::chrono::system_clock::time_point deadline;
};

/// Queries of the same options.
class QueryJob : public SearchJob {
 public:
  bool IsNarrow() const final { return queries() == 1 && options_.narrow; }

 protected:
  /// `bytes`: of the vectors.
  QueryJob(const Serving& serving, Snapshot index, const RequestOptions& options,
           std::size_t queries, std::uint64_t bytes, const CallFacts& call);

  const RequestOptions& options() const { return options_; }
  /// One that has ended is counted.
  void Count(const absl::Status& status, Clock::time_point began, std::size_t queries);
  const CallFacts& call() const { return call_; }

  // The sink. But for Row, several threads at once, each for other queries.

  /// Of query `i`, in QueryType of the index's dtype.
  virtual const void* Row(std::size_t i) const = 0;
  /// The name of a query in an error.
  virtual std::string Field(std::size_t i) const = 0;
  virtual void Keep(std::size_t i, const hmann::Answer& answer) = 0;
  /// `why`: INVALID_ARGUMENT of a vector that cannot be searched for, or what prevents
  /// all. What is returned fails them all.
  virtual absl::Status KeepError(std::size_t /*i*/, absl::Status why) { return why; }
  /// Where the options ask for it: the work for queries from `first` on; of a stream for
  /// one.
  virtual void KeepWork(std::size_t first, const Counters& work) = 0;

 private:
  std::size_t Together() const final { return options_.together; }
  absl::Status Answer(std::size_t begin, std::size_t end, Searcher& searcher,
                      const SearchLimits& limits) final;
  SearchLimits WithBudget(const SearchLimits& limits) const;

  Metrics& metrics_;
  const RequestOptions options_;
  const CallFacts call_;
};

/// A search for one vector, or a batch.
class QueryRequest : public QueryJob {
 protected:
  QueryRequest(const Serving& serving, Query query, const CallFacts& call);

  std::size_t k() const { return options().search.dials.k; }

  /// Makes the reply of what was kept. Errors end the request.
  virtual absl::Status Reply() = 0;
  /// The reply is to be sent, or this error. The last call.
  virtual void End(const absl::Status& status) = 0;

 private:
  void Complete(const absl::Status& status) final;
  const void* Row(std::size_t i) const final { return vectors_.row(i); }
  std::string Field(std::size_t i) const final;

  const QueryVectors vectors_;
};

/// Vectors by label: no search, but runs where searches do.
class LabelsRequest : public SearchJob {
 protected:
  /// `labels` outlive this. `vector_bytes`: of CheckGet.
  LabelsRequest(const Serving& serving, Snapshot index, std::span<const std::uint64_t> labels,
                std::uint64_t vector_bytes, const CallFacts& call);

  /// For the vectors, in the order of the labels; called once, when the first are read.
  virtual char* Room(std::size_t bytes) = 0;
  /// As those of QueryRequest.
  virtual absl::Status Reply() = 0;
  virtual void End(const absl::Status& status) = 0;

 private:
  std::size_t Together() const final;
  absl::Status Answer(std::size_t begin, std::size_t end, Searcher& searcher,
                      const SearchLimits& limits) final;
  void Complete(const absl::Status& status) final;

  Metrics& metrics_;
  const std::span<const std::uint64_t> labels_;
  const std::uint64_t vector_bytes_;
  const CallFacts call_;
  std::once_flag sized_;
  char* vectors_ = nullptr;  // threads write to different parts
};

}  // namespace hmann::server
