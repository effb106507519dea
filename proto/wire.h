/// Converts parameters and counters to and from the wire. Every row of ParamTable() and
/// CounterNames() is a field of the same name.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "hmann/counters.h"
#include "hmann/resolved_params.h"
#include "hmann/search_params.h"
#include "hmann/types.h"
#include "hmann/v1/search.pb.h"

namespace hmann {

/// The parameters as received; only words are checked. Errors: INVALID_ARGUMENT
/// "mode: ..." for an unknown enum number.
absl::StatusOr<SearchParams> ParamsFromWire(const v1::SearchParams& wire);
/// Latency and budget are rounded up to microseconds.
void ToWire(const SearchParams& options, v1::SearchParams* wire);

/// The parameters of a reply. Values that only a newer server knows are left out.
ResolvedParams ResolvedFromWire(const v1::SearchParams& wire);
void ToWire(const ResolvedParams& params, v1::SearchParams* wire);

Counters FromWire(const v1::Counters& wire);
void ToWire(const Counters& counters, v1::Counters* wire);

/// Absent: unset, or a value that only a newer server knows.
std::optional<DType> FromWire(v1::DType wire);
std::optional<Metric> FromWire(v1::Metric wire);
v1::DType ToWire(DType dtype);
v1::Metric ToWire(Metric metric);

}  // namespace hmann
