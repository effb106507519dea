#include "server/core/metrics_page.h"

#include <algorithm>

#include "prometheus/text_serializer.h"

namespace hmann::server {

prometheus::ClientMetric& MetricsPage::Add(prometheus::MetricType type, const char* name,
                                           const char* help, Labels labels) {
  auto family = std::find_if(families_.begin(), families_.end(),
                             [name](const auto& one) { return one.name == name; });
  if (family == families_.end())
    family = families_.insert(family, {.name = name, .help = help, .type = type, .metric = {}});
  prometheus::ClientMetric& metric = family->metric.emplace_back();
  for (const auto& [label, value] : labels) metric.label.push_back({label, value});
  return metric;
}

void MetricsPage::Gauge(const char* name, const char* help, double value, Labels labels) {
  Add(prometheus::MetricType::Gauge, name, help, labels).gauge.value = value;
}

void MetricsPage::Counter(const char* name, const char* help, double value, Labels labels) {
  Add(prometheus::MetricType::Counter, name, help, labels).counter.value = value;
}

void MetricsPage::Histogram(const char* name, const char* help, prometheus::ClientMetric content,
                            Labels labels) {
  Add(prometheus::MetricType::Histogram, name, help, labels).histogram =
      std::move(content.histogram);
}

std::string MetricsPage::Text() const { return prometheus::TextSerializer().Serialize(families_); }

}  // namespace hmann::server
