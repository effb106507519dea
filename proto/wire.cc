#include "proto/wire.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "hmann/param_table.h"
#include "index/base/check.h"
#include "index/base/errors.h"

namespace hmann {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

/// The fields of `Wire` named like `rows`, looked up once.
template <typename Wire, typename Row>
std::vector<const FieldDescriptor*> FieldsOf(std::span<const Row> rows) {
  std::vector<const FieldDescriptor*> fields;
  for (const Row& row : rows) {
    fields.push_back(Wire::descriptor()->FindFieldByName(std::string(row.name)));
    HMANN_CHECK(fields.back() != nullptr);  // search.proto has a field for each row
  }
  return fields;
}

const FieldDescriptor* FieldOf(const ParamInfo& param) {
  static const auto* const kFields =
      new std::vector<const FieldDescriptor*>(FieldsOf<v1::SearchParams>(ParamTable()));
  return (*kFields)[static_cast<std::size_t>(&param - ParamTable().data())];
}

const std::vector<const FieldDescriptor*>& CounterFields() {
  static const auto* const kFields =
      new std::vector<const FieldDescriptor*>(FieldsOf<v1::Counters>(CounterNames()));
  return *kFields;
}

/// Absent: unset. The wire numbers the words of a parameter from 1; 0 means unset.
std::optional<double> Read(const v1::SearchParams& wire, const ParamInfo& param) {
  const FieldDescriptor* const field = FieldOf(param);
  const auto* const reflection = wire.GetReflection();
  if (!reflection->HasField(wire, field)) return std::nullopt;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection->GetEnumValue(wire, field) - 1.0;
    case FieldDescriptor::CPPTYPE_FLOAT:
      return static_cast<double>(reflection->GetFloat(wire, field));
    default:
      return static_cast<double>(reflection->GetUInt32(wire, field));
  }
}

void Write(const ParamInfo& param, double value, v1::SearchParams* wire) {
  const FieldDescriptor* const field = FieldOf(param);
  const auto* const reflection = wire->GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection->SetEnumValue(wire, field, static_cast<int>(value) + 1);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection->SetFloat(wire, field, static_cast<float>(value));
    default:
      return reflection->SetUInt32(wire, field, static_cast<std::uint32_t>(value));
  }
}

bool IsKnownWord(const ParamInfo& param, double value) {
  return value >= 0 && value < static_cast<double>(param.words.size());
}

std::uint64_t Microseconds(std::chrono::nanoseconds time) {
  return static_cast<std::uint64_t>(
      std::max<std::int64_t>(std::chrono::ceil<std::chrono::microseconds>(time).count(), 0));
}

}  // namespace

absl::StatusOr<SearchParams> ParamsFromWire(const v1::SearchParams& wire) {
  static constexpr std::uint64_t kMostUs = 3'600'000'000;  // one hour; nothing overflows
  SearchParams options{.k = wire.k()};
  for (const ParamInfo& param : ParamTable()) {
    const std::optional<double> value = Read(wire, param);
    if (!value.has_value()) continue;
    if (!param.words.empty() && !IsKnownWord(param, *value)) {
      return InvalidArgument(std::string(param.name),
                             ": expected one that this server knows, found number ",
                             static_cast<int>(*value) + 1);
    }
    param.ask(options, *value);
  }
  const auto time = [](const char* field,
                       std::uint64_t us) -> absl::StatusOr<std::chrono::nanoseconds> {
    if (us > kMostUs) return InvalidArgument(field, ": expected at most ", kMostUs, ", found ", us);
    return std::chrono::microseconds(us);
  };
  if (wire.has_max_distance()) options.max_distance = wire.max_distance();
  if (wire.has_recall()) options.recall = wire.recall();
  if (wire.has_latency_us()) {
    const auto latency = time("latency_us", wire.latency_us());
    if (!latency.ok()) return latency.status();
    options.latency = *latency;
  }
  if (wire.has_budget_us()) {
    const auto budget = time("budget_us", wire.budget_us());
    if (!budget.ok()) return budget.status();
    options.budget = *budget;
  }
  return options;
}

void ToWire(const SearchParams& options, v1::SearchParams* wire) {
  wire->set_k(options.k);
  for (const ParamInfo& param : ParamTable()) {
    if (const std::optional<double> value = param.requested(options); value.has_value())
      Write(param, *value, wire);
  }
  if (options.max_distance.has_value()) wire->set_max_distance(*options.max_distance);
  if (options.recall.has_value()) wire->set_recall(*options.recall);
  if (options.latency.has_value()) wire->set_latency_us(Microseconds(*options.latency));
  if (options.budget.has_value()) wire->set_budget_us(Microseconds(*options.budget));
}

ResolvedParams ResolvedFromWire(const v1::SearchParams& wire) {
  ResolvedParams params;
  params.k = wire.k();
  for (const ParamInfo& param : ParamTable()) {
    const std::optional<double> value = Read(wire, param);
    if (value.has_value() && (param.words.empty() || IsKnownWord(param, *value)))
      param.set(params, *value);
  }
  return params;
}

void ToWire(const ResolvedParams& params, v1::SearchParams* wire) {
  wire->set_k(params.k);
  for (const ParamInfo& param : ParamTable()) {
    if (const std::optional<double> value = Running(param, params); value.has_value())
      Write(param, *value, wire);
  }
}

Counters FromWire(const v1::Counters& wire) {
  Counters counters;
  for (std::size_t i = 0; i < CounterNames().size(); ++i) {
    counters.*CounterNames()[i].value = wire.GetReflection()->GetUInt64(wire, CounterFields()[i]);
  }
  return counters;
}

void ToWire(const Counters& counters, v1::Counters* wire) {
  for (std::size_t i = 0; i < CounterNames().size(); ++i) {
    wire->GetReflection()->SetUInt64(wire, CounterFields()[i], counters.*CounterNames()[i].value);
  }
}

// The wire numbers types and metrics like the engine, but from 1; 0 means unset.
static_assert(static_cast<int>(DType::kF16) + 1 == v1::DType_MAX);
static_assert(static_cast<int>(Metric::kCosine) + 1 == v1::Metric_MAX);

std::optional<DType> FromWire(v1::DType wire) {
  if (wire <= 0 || wire > v1::DType_MAX) return std::nullopt;
  return static_cast<DType>(wire - 1);
}

std::optional<Metric> FromWire(v1::Metric wire) {
  if (wire <= 0 || wire > v1::Metric_MAX) return std::nullopt;
  return static_cast<Metric>(wire - 1);
}

v1::DType ToWire(DType dtype) { return static_cast<v1::DType>(static_cast<int>(dtype) + 1); }

v1::Metric ToWire(Metric metric) { return static_cast<v1::Metric>(static_cast<int>(metric) + 1); }

}  // namespace hmann
