#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "hmann/counters.h"
#include "server/core/registry.h"
#include "server/core/search_pool.h"
#include "server/core/writers.h"

namespace hmann::server {

/// Why a connection was rejected or shut down.
enum class Refusal { kDescriptors, kConnections, kPeer, kStreams, kCancels, kHalfSent };
constexpr std::array kRefusals = {Refusal::kDescriptors, Refusal::kConnections, Refusal::kPeer,
                                  Refusal::kStreams,     Refusal::kCancels,     Refusal::kHalfSent};
/// "descriptors", "connections", "peer", "streams", "cancels", "half_sent".
const char* Name(Refusal refusal);

/// Counts of the connections of a server. Any thread may read them.
struct ConnectionCounts {
  std::atomic<std::uint64_t> open{0}, accepted{0};
  std::array<std::atomic<std::uint64_t>, kRefusals.size()> refused{};
};

/// What Metrics::Text shows of the process beyond calls.
struct ProcessFacts {
  const ConnectionCounts* connections = nullptr;  ///< null while there are none
  Writers* writers = nullptr;                     ///< null: none
  std::uint64_t failed_handshakes = 0, http_refused = 0, dropped_log_lines = 0, failed_reloads = 0;
  std::optional<std::int64_t> certificate_expires;  ///< seconds since 1970
};

/// The counters of a server, for Prometheus. Only names that the server itself chose
/// become labels, so no client can make the text grow.
///
/// Thread safety: all methods may be called from any thread.
class Metrics {
 public:
  /// `registry` must outlive this.
  explicit Metrics(const Registry& registry) : registry_(registry) {}

  /// Records the end of a call. `index`: null when the call named no index of this
  /// server. `took`: time since its request had arrived. `count`: of the queries in the
  /// call, or of the rows that it wrote.
  void Ended(Method method, const ServedIndex* index, const absl::Status& status,
             std::chrono::nanoseconds took, std::size_t count) {
    (index == nullptr ? of_none_ : index->metrics()).Ended(method, status, took, count);
  }
  /// Records the work that the queries of a call took.
  void Worked(const ServedIndex& index, const Counters& work) { index.metrics().Worked(work); }

  /// Renders all metrics in Prometheus' text format, 0.0.4.
  std::string Text(const SearchPool& pool, const ProcessFacts& facts) const;

 private:
  const Registry& registry_;
  IndexMetrics of_none_{""};  ///< calls that name no index
  const std::time_t started_ = std::time(nullptr);
};

}  // namespace hmann::server
