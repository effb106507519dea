#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "hmann/counters.h"

namespace prometheus {
class Histogram;
}

namespace hmann::server {

class MetricsPage;

/// The method of a call. In a stream, each query or write counts as one call. Those from
/// kPut on write.
enum class Method {
  kSearch,
  kSearchBatch,
  kSearchStream,
  kGet,
  kDescribe,
  kList,
  kHealth,
  kAdmin,
  kPut,
  kDelete,
  kUpdate,
  kWriteStream,
  kCompact
};

/// The counters of one index, or of the calls that name none. They go with it.
///
/// Thread safety: all methods may be called from any thread.
class IndexMetrics {
 public:
  /// `index`: empty for calls that name none.
  explicit IndexMetrics(std::string index);
  ~IndexMetrics();

  /// As Metrics::Ended.
  void Ended(Method method, const absl::Status& status, std::chrono::nanoseconds took,
             std::size_t count);
  /// Records that a call waited so long for a thread.
  void Waited(std::chrono::nanoseconds time);
  /// As Metrics::Worked.
  void Worked(const Counters& work);
  /// Adds those that calls have used to the page.
  void Show(MetricsPage& page) const;

 private:
  const std::string index_;
  std::vector<std::unique_ptr<prometheus::Histogram>> seconds_;  ///< by method
  const std::unique_ptr<prometheus::Histogram> waited_;
  std::atomic<std::uint64_t> queries_{0}, written_{0}, node_accesses_{0}, io_reads_{0},
      io_bytes_{0}, distances_{0};
  mutable std::mutex mutex_;
  std::map<std::tuple<Method, absl::StatusCode, std::string>, std::uint64_t> failures_;
};

}  // namespace hmann::server
