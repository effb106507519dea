#pragma once

#include <chrono>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "prometheus/client_metric.h"
#include "prometheus/metric_family.h"

namespace hmann::server {

/// A page of metrics for Prometheus, made anew each time it is read: what does not exist
/// any more leaves nothing behind.
class MetricsPage {
 public:
  using Labels = std::initializer_list<std::pair<const char*, std::string>>;  ///< by name

  void Gauge(const char* name, const char* help, double value, Labels labels = {});
  void Counter(const char* name, const char* help, double value, Labels labels = {});
  void Histogram(const char* name, const char* help, prometheus::ClientMetric content,
                 Labels labels);
  /// The text format, 0.0.4.
  std::string Text() const;

 private:
  prometheus::ClientMetric& Add(prometheus::MetricType type, const char* name, const char* help,
                                Labels labels);

  std::vector<prometheus::MetricFamily> families_;
};

inline double ToSeconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace hmann::server
