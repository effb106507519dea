#include "server/core/index_metrics.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "prometheus/histogram.h"
#include "server/core/errors.h"
#include "server/core/metrics_page.h"

namespace hmann::server {
namespace {

constexpr std::array kMethods = {"Search", "SearchBatch", "SearchStream", "Get", "Describe",
                                 "List",   "Health",      "Admin",        "Put", "Delete",
                                 "Update", "WriteStream", "Compact"};

/// Bucket bounds from a search in memory to one that waited, a factor of 2 to 2.5 apart.
std::unique_ptr<prometheus::Histogram> TimeHistogram() {
  return std::make_unique<prometheus::Histogram>(
      prometheus::Histogram::BucketBoundaries{50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3,
                                              10e-3, 20e-3, 50e-3, 0.1, 0.2, 0.5, 1, 2, 5, 10});
}

}  // namespace

IndexMetrics::IndexMetrics(std::string index) : index_(std::move(index)), waited_(TimeHistogram()) {
  std::generate_n(std::back_inserter(seconds_), kMethods.size(), TimeHistogram);
}
IndexMetrics::~IndexMetrics() = default;

void IndexMetrics::Ended(Method method, const absl::Status& status, std::chrono::nanoseconds took,
                         std::size_t count) {
  if (status.ok()) {
    seconds_[static_cast<std::size_t>(method)]->Observe(ToSeconds(took));
    (method >= Method::kPut ? written_ : queries_) += count;
    return;
  }
  const std::lock_guard lock(mutex_);
  ++failures_[{method, status.code(), ReasonOf(status)}];
}

void IndexMetrics::Waited(std::chrono::nanoseconds time) { waited_->Observe(ToSeconds(time)); }

void IndexMetrics::Worked(const Counters& work) {
  node_accesses_ += work.node_accesses;
  io_reads_ += work.io_reads;
  io_bytes_ += work.io_bytes;
  distances_ += work.distances_fast + work.distances_slow;
}

void IndexMetrics::Show(MetricsPage& page) const {
  bool used = false;
  for (std::size_t method = 0; method < kMethods.size(); ++method) {
    prometheus::ClientMetric seconds = seconds_[method]->Collect();
    if (seconds.histogram.sample_count == 0) continue;
    used = true;
    page.Histogram("hmann_request_seconds",
                   "Calls that were answered, from when the request was there to the reply",
                   std::move(seconds), {{"index", index_}, {"method", kMethods[method]}});
  }
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [failure, count] : failures_) {
      const auto& [method, code, reason] = failure;
      page.Counter("hmann_failed_requests_total",
                   "Calls that ended with an error, by code and, where it has one, reason",
                   static_cast<double>(count),
                   {{"code", absl::StatusCodeToString(code)},
                    {"index", index_},
                    {"method", kMethods[static_cast<std::size_t>(method)]},
                    {"reason", reason}});
    }
  }
  if (!used || index_.empty()) return;
  page.Histogram("hmann_wait_seconds",
                 "What of hmann_request_seconds searches and fetches waited for a thread",
                 waited_->Collect(), {{"index", index_}});
  const auto counter = [&](const char* name, const char* help, const auto& count) {
    page.Counter(name, help, static_cast<double>(count.load()), {{"index", index_}});
  };
  counter("hmann_written_rows_total", "Vectors that answered calls put, deleted or updated",
          written_);
  counter("hmann_queries_total", "Queries that were answered", queries_);
  counter("hmann_node_accesses_total", "Records of slow memory that queries used, with repeats",
          node_accesses_);
  counter("hmann_device_reads_total", "Reads that queries asked a device for", io_reads_);
  counter("hmann_device_read_bytes_total", "Bytes of these", io_bytes_);
  counter("hmann_distances_total", "Exact distances that queries computed", distances_);
}

}  // namespace hmann::server
