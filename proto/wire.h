/// Dials and counters on the wire: every row of DialTable() and CounterNames() is a field
/// of the same name.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "hmann/counters.h"
#include "hmann/dials.h"
#include "hmann/search_options.h"
#include "hmann/types.h"
#include "hmann/v1/search.pb.h"

namespace hmann {

/// As they came, unchecked but for words. Errors: INVALID_ARGUMENT "walk: ..." for a
/// number of an enum that is not known here.
absl::StatusOr<SearchOptions> OptionsFromWire(const v1::SearchOptions& wire);
/// Latency and budget are rounded up to microseconds.
void ToWire(const SearchOptions& options, v1::SearchOptions* wire);

/// Of a reply. What a newer server knows and this program does not is left out.
Dials DialsFromWire(const v1::SearchOptions& wire);
void ToWire(const Dials& dials, v1::SearchOptions* wire);

Counters FromWire(const v1::Counters& wire);
void ToWire(const Counters& counters, v1::Counters* wire);

/// Absent: not said, or one that a newer server knows and this program does not.
std::optional<DType> FromWire(v1::DType wire);
std::optional<Metric> FromWire(v1::Metric wire);
v1::DType ToWire(DType dtype);
v1::Metric ToWire(Metric metric);

}  // namespace hmann
