#include "server/core/jobs.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "index/base/status_macros.h"
#include "server/core/errors.h"

namespace hmann::server {
namespace {

using Clock = QueuedRequest::Clock;

/// The number of labels that a thread takes together: more reads than a device keeps in
/// flight.
constexpr std::size_t kLabelsTogether = 64;

/// Adds details to an engine error about a label.
absl::Status OfLabel(const absl::Status& status) {
  return absl::IsNotFound(status) ? UnknownLabel(status) : status;
}

}  // namespace

Clock::time_point DeadlineOf(const Serving& serving, const CallFacts& call) {
  const auto now = Clock::now();
  if (call.deadline == std::chrono::system_clock::time_point::max())
    return now + serving.default_deadline;
  return now + std::chrono::duration_cast<Clock::duration>(call.deadline -
                                                           std::chrono::system_clock::now());
}

QueuedQuery::QueuedQuery(const Serving& serving, Snapshot index, const RequestParams& options,
                         std::size_t queries, std::uint64_t bytes, const CallFacts& call)
    : QueuedRequest(std::move(index), queries, EffortOf(options.search.params, options.budget),
                    bytes + ReplyBytes(queries, options.search.params.k),
                    DeadlineOf(serving, call)),
      metrics_(serving.metrics),
      options_(options),
      call_(call) {}

void QueuedQuery::Count(const absl::Status& status, Clock::time_point began, std::size_t queries) {
  metrics_.Ended(call_.method, &index().served(), status, Clock::now() - began, queries);
  if (status.ok()) index().served().metrics().Waited(started() - began);
}

/// The limits of the searches. The budget ends before the call's deadline, to leave time
/// to send the answer.
SearchLimits QueuedQuery::LimitsOf(const SearchLimits& limits) const {
  constexpr std::chrono::nanoseconds kLeastMargin = std::chrono::milliseconds(1), kAtOnce{1};
  SearchLimits bounded = limits;
  bounded.distinct_reads = options_.counters;
  if (options_.budget.count() == 0) return bounded;
  const std::chrono::nanoseconds left = limits.deadline - Clock::now();
  bounded.budget =
      std::max(kAtOnce, std::min(options_.budget, left - std::max(kLeastMargin, left / 20)));
  return bounded;
}

absl::Status QueuedQuery::SearchAll(std::size_t first, std::size_t count, AnySearcher& searcher,
                                    const SearchLimits& limits, const Done& done, Counters* work) {
  if (options_.prepared == nullptr) {
    return searcher.index->SearchMany(
        count, [&](std::size_t i) { return Row(first + i); }, options_.search.params,
        static_cast<std::uint32_t>(count), done, work, limits);
  }
  for (std::size_t i = 0; i < count; ++i) {
    hmann::Answer answer;
    const absl::Status status =
        searcher.collection->Search(Row(first + i), *options_.prepared, &answer, work, limits);
    if (absl::IsCancelled(status) || absl::IsDeadlineExceeded(status)) return status;
    done(i, status, answer);
  }
  return absl::OkStatus();
}

absl::Status QueuedQuery::Answer(std::size_t begin, std::size_t end, AnySearcher& searcher,
                                 const SearchLimits& limits) {
  // Work is counted per query, or for all of them together.
  const bool each = options_.counters && call_.method == Method::kSearchStream;
  const std::size_t at_once = each ? 1 : end - begin;
  for (std::size_t first = begin; first < end; first += at_once) {
    absl::Status first_error;
    const auto done = [&](std::size_t i, const absl::Status& status, hmann::Answer& answer) {
      if (status.ok()) return Keep(first + i, answer);
      // The options were checked with the request, so the vector must be invalid.
      first_error.Update(KeepError(first + i, absl::IsInvalidArgument(status)
                                                  ? BadField(Field(first + i), status.message())
                                                  : status));
    };
    Counters work;
    const absl::Status status =
        SearchAll(first, at_once, searcher, LimitsOf(limits), std::ref(done), &work);
    metrics_.Worked(index().served(), work);
    HMANN_RETURN_IF_ERROR(status);
    HMANN_RETURN_IF_ERROR(first_error);
    if (options_.counters) KeepWork(first, work);
  }
  return absl::OkStatus();
}

QueryRequest::QueryRequest(const Serving& serving, Query query, const CallFacts& call)
    : QueuedQuery(serving, std::move(query.index), query.options, query.vectors.count,
                  query.vectors.bytes.size() + query.vectors.converted.size(), call),
      vectors_(std::move(query.vectors)) {}

std::string QueryRequest::Field(std::size_t i) const {
  return call().method == Method::kSearchBatch ? absl::StrCat("queries[", i, "]") : "query";
}

void QueryRequest::Complete(const absl::Status& status) {
  const absl::Status end = status.ok() ? Reply() : status;
  Count(end, call().began, queries());
  End(end);
}

LabelsRequest::LabelsRequest(const Serving& serving, Snapshot index,
                             std::span<const std::uint64_t> labels, std::uint64_t vector_bytes,
                             const CallFacts& call)
    : QueuedRequest(std::move(index), labels.size(), {.mode = {}},
                    labels.size() * (vector_bytes + sizeof(std::uint64_t)),
                    DeadlineOf(serving, call)),
      metrics_(serving.metrics),
      labels_(labels),
      vector_bytes_(vector_bytes),
      call_(call) {}

std::size_t LabelsRequest::Together() const { return kLabelsTogether; }

absl::Status LabelsRequest::Answer(std::size_t begin, std::size_t end, AnySearcher& searcher,
                                   const SearchLimits& limits) {
  // A refused or waiting request takes no memory for its reply.
  std::call_once(sized_, [&] { vectors_ = Room(labels_.size() * vector_bytes_); });
  Counters work;
  const std::span<const std::uint64_t> labels = labels_.subspan(begin, end - begin);
  char* const out = vectors_ + begin * vector_bytes_;
  const absl::Status status = searcher.collection == nullptr
                                  ? searcher.index->Get(labels, out, &work, limits)
                                  : searcher.collection->Get(*index().moment(), labels, out);
  metrics_.Worked(index().served(), work);
  return OfLabel(status);
}

void LabelsRequest::Complete(const absl::Status& status) {
  const absl::Status end = status.ok() ? Reply() : status;
  metrics_.Ended(call_.method, &index().served(), end, Clock::now() - call_.began, 0);
  if (end.ok()) index().served().metrics().Waited(started() - call_.began);
  End(end);
}

}  // namespace hmann::server
