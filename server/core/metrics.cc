#include "server/core/metrics.h"

#include <map>
#include <string>
#include <utility>

#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "prometheus/text_serializer.h"
#include "server/core/errors.h"

namespace hmann::server {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using Labels = std::map<std::string, std::string>;

constexpr std::array kMethods = {std::pair(Method::kSearch, "Search"),
                                 std::pair(Method::kSearchBatch, "SearchBatch"),
                                 std::pair(Method::kSearchStream, "SearchStream"),
                                 std::pair(Method::kGet, "Get"),
                                 std::pair(Method::kDescribe, "Describe"),
                                 std::pair(Method::kList, "List"),
                                 std::pair(Method::kHealth, "Health")};

/// Bucket bounds from a search in memory to one that waited, a factor of 2 to 2.5 apart.
const Histogram::BucketBoundaries& Seconds() {
  static const Histogram::BucketBoundaries seconds = {50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3,
                                                      5e-3,  10e-3,  20e-3,  50e-3,  0.1,  0.2,
                                                      0.5,   1,      2,      5,      10};
  return seconds;
}

double ToSeconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// Sets a Prometheus counter to the value of a counter kept elsewhere.
void Follow(Counter& counter, std::uint64_t now) {
  counter.Increment(static_cast<double>(now) - counter.Value());
}

/// The one with these labels, which is made when it is first asked for.
Counter& CounterIn(prometheus::Registry& families, const char* name, const char* help,
                   const Labels& labels = {}) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(families).Add(labels);
}

Gauge& GaugeIn(prometheus::Registry& families, const char* name, const char* help,
               const Labels& labels = {}) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(families).Add(labels);
}

}  // namespace

const char* Name(Refusal refusal) {
  constexpr const char* kNames[] = {"descriptors", "connections", "peer",
                                    "streams",     "cancels",     "half_sent"};
  return kNames[static_cast<std::size_t>(refusal)];
}

struct Metrics::OfIndex {
  std::array<Histogram*, kMethods.size()> seconds{};
  Counter *queries, *node_accesses, *io_reads, *io_bytes, *distances, *scrubbed;
};

Metrics::Metrics(const Registry& registry)
    : indexes_(registry), families_(std::make_unique<prometheus::Registry>()) {
  static constexpr struct {
    Counter* OfIndex::*counter;
    const char *name, *help;
  } kCounters[] = {
      {&OfIndex::queries, "hmann_queries_total", "Queries that were answered"},
      {&OfIndex::node_accesses, "hmann_node_accesses_total",
       "Records of slow memory that queries used, with repeats"},
      {&OfIndex::io_reads, "hmann_device_reads_total", "Reads that queries asked a device for"},
      {&OfIndex::io_bytes, "hmann_device_read_bytes_total", "Bytes of these"},
      {&OfIndex::distances, "hmann_distances_total", "Exact distances that queries computed"},
      {&OfIndex::scrubbed, "hmann_scrubbed_bytes_total",
       "Bytes read in place that were compared with their checksums"},
  };
  auto& seconds =
      prometheus::BuildHistogram()
          .Name("hmann_request_seconds")
          .Help("Calls that were answered, from when the request was there to the reply")
          .Register(*families_);
  for (const auto& index : indexes_.indexes()) {
    auto of = std::make_unique<OfIndex>();
    for (const auto& [method, word] : kMethods) {
      if (method == Method::kList || method == Method::kHealth) continue;
      of->seconds[static_cast<std::size_t>(method)] =
          &seconds.Add({{"index", index->name()}, {"method", word}}, Seconds());
    }
    for (const auto& [counter, name, help] : kCounters)
      (*of).*counter = &CounterIn(*families_, name, help, {{"index", index->name()}});
    of_index_.push_back(std::move(of));
  }
  of_none_ = std::make_unique<OfIndex>();
  for (const Method method : {Method::kList, Method::kHealth}) {
    of_none_->seconds[static_cast<std::size_t>(method)] = &seconds.Add(
        {{"index", ""}, {"method", kMethods[static_cast<std::size_t>(method)].second}}, Seconds());
  }
}

Metrics::~Metrics() = default;

void Metrics::Ended(Method method, const ServedIndex* index, const absl::Status& status,
                    std::chrono::nanoseconds took, std::size_t queries) {
  for (std::size_t i = 0; status.ok() && index != nullptr && i < of_index_.size(); ++i) {
    if (indexes_.indexes()[i].get() != index) continue;
    of_index_[i]->seconds[static_cast<std::size_t>(method)]->Observe(ToSeconds(took));
    of_index_[i]->queries->Increment(static_cast<double>(queries));
    return;
  }
  if (status.ok())
    return of_none_->seconds[static_cast<std::size_t>(method)]->Observe(ToSeconds(took));
  const std::string name = index == nullptr ? "" : index->name();
  CounterIn(*families_, "hmann_failed_requests_total",
            "Calls that ended with an error, by code and, where it has one, reason",
            {{"index", name},
             {"method", kMethods[static_cast<std::size_t>(method)].second},
             {"code", absl::StatusCodeToString(status.code())},
             {"reason", ReasonOf(status)}})
      .Increment();
}

void Metrics::Worked(const ServedIndex& index, const Counters& work) {
  for (std::size_t i = 0; i < of_index_.size(); ++i) {
    if (indexes_.indexes()[i].get() != &index) continue;
    const OfIndex& of = *of_index_[i];
    of.node_accesses->Increment(static_cast<double>(work.node_accesses));
    of.io_reads->Increment(static_cast<double>(work.io_reads));
    of.io_bytes->Increment(static_cast<double>(work.io_bytes));
    of.distances->Increment(static_cast<double>(work.distances_fast + work.distances_slow));
  }
}

void Metrics::ShowConnections(const ProcessFacts& facts) {
  const ConnectionCounts& counts = *facts.connections;
  GaugeIn(*families_, "hmann_connections", "Connections that are open")
      .Set(static_cast<double>(counts.open.load()));
  Follow(CounterIn(*families_, "hmann_connections_accepted_total", "Connections that were taken"),
         counts.accepted.load());
  const auto refused = [&](const char* reason, std::uint64_t now) {
    Follow(CounterIn(*families_, "hmann_connections_refused_total",
                     "Connections that were not taken, or were shut down, by reason",
                     {{"reason", reason}}),
           now);
  };
  for (const Refusal refusal : kRefusals)
    refused(Name(refusal), counts.refused[static_cast<std::size_t>(refusal)].load());
  refused("handshake", facts.failed_handshakes);
  refused("http", facts.http_refused);
}

std::string Metrics::Text(const SearchPool& pool, const ProcessFacts& facts) {
  const std::lock_guard lock(reading_);
  for (std::size_t i = 0; i < of_index_.size(); ++i) {
    ServedIndex& index = *indexes_.indexes()[i];
    Follow(*of_index_[i]->scrubbed, index.scrub().bytes.load());
    for (const IndexState state :
         {IndexState::kLoading, IndexState::kServing, IndexState::kFailed}) {
      GaugeIn(*families_, "hmann_index_state", "1 of the state that an index is in",
              {{"index", index.name()}, {"state", Name(state)}})
          .Set(index.state() == state ? 1 : 0);
    }
    for (const Placement& placement : index.placements()) {
      GaugeIn(
          *families_, "hmann_placed_bytes", "Bytes of an index, by structure and tier",
          {{"index", index.name()}, {"structure", placement.structure}, {"tier", placement.tier}})
          .Set(static_cast<double>(placement.bytes));
    }
  }
  const PoolLoad load = pool.load();
  for (const auto& [lane, of] : {std::pair("quick", load.quick), std::pair("bulk", load.bulk)}) {
    GaugeIn(*families_, "hmann_queued_requests", "Calls that wait for a thread, wholly or in part",
            {{"lane", lane}})
        .Set(static_cast<double>(of.jobs));
    GaugeIn(*families_, "hmann_queued_seconds",
            "What they and those that run will take of a thread, estimated", {{"lane", lane}})
        .Set(ToSeconds(of.work));
    GaugeIn(*families_, "hmann_busy_threads", "Threads that search", {{"lane", lane}}).Set(of.busy);
  }
  GaugeIn(*families_, "hmann_request_bytes",
          "Bytes of requests in progress and of their replies, approximately")
      .Set(static_cast<double>(load.bytes));
  if (facts.connections != nullptr) ShowConnections(facts);
  Follow(CounterIn(*families_, "hmann_log_lines_dropped_total",
                   "Log lines that were not read in time"),
         facts.dropped_log_lines);
  Follow(CounterIn(*families_, "hmann_reload_failures_total",
                   "Changed files that were not accepted: tokens, TLS, tuned"),
         facts.failed_reloads);
  if (facts.certificate_expires.has_value()) {
    GaugeIn(*families_, "hmann_certificate_expires_seconds",
            "When the certificate expires, since 1970")
        .Set(static_cast<double>(*facts.certificate_expires));
  }
  return prometheus::TextSerializer().Serialize(families_->Collect());
}

}  // namespace hmann::server
