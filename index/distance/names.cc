#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "hmann/distance.h"
#include "index/base/errors.h"

namespace hmann {
namespace {

constexpr std::array<std::string_view, 4> kDTypes = {"f32", "u8", "i8", "f16"};
constexpr std::array<std::string_view, 3> kMetrics = {"l2", "ip", "cosine"};

/// Names that other libraries use: numpy, Faiss, hnswlib, scikit-learn, pgvector.
constexpr std::pair<std::string_view, std::string_view> kAliases[] = {
    {"float32", "f32"}, {"float16", "f16"},    {"uint8", "u8"},
    {"int8", "i8"},     {"euclidean", "l2"},   {"dot", "ip"},
    {"cos", "cosine"},  {"angular", "cosine"}, {"inner_product", "ip"}};

template <class Enum, std::size_t kCount>
absl::StatusOr<Enum> Parse(const char* what, const std::array<std::string_view, kCount>& names,
                           std::string_view name) {
  for (const auto& [alias, meant] : kAliases) {
    if (alias == name) name = meant;
  }
  std::string expected;
  for (std::size_t i = 0; i < kCount; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
    absl::StrAppend(&expected, i == 0 ? "" : i + 1 < kCount ? ", " : " or ", std::string(names[i]));
  }
  return InvalidArgument(what, ": expected ", expected, "; found '", std::string(name), "'");
}

}  // namespace

std::string_view Name(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)]; }
std::string_view Name(Metric metric) { return kMetrics[static_cast<std::size_t>(metric)]; }
absl::StatusOr<DType> ParseDType(std::string_view name) {
  return Parse<DType>("dtype", kDTypes, name);
}
absl::StatusOr<Metric> ParseMetric(std::string_view name) {
  return Parse<Metric>("metric", kMetrics, name);
}

}  // namespace hmann
