#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/resolved_params.h"
#include "hmann/search_params.h"

namespace hmann {

/// A set of search modes.
class ModeSet {
 public:
  constexpr ModeSet(std::initializer_list<SearchMode> modes) {
    for (const SearchMode mode : modes) bits_ |= 1u << static_cast<unsigned>(mode);
  }
  constexpr bool Contains(SearchMode mode) const {
    return (bits_ >> static_cast<unsigned>(mode) & 1) != 0;
  }

 private:
  unsigned bits_ = 0;
};

/// The complete description of a search parameter. The command line, JSON, the wire,
/// adapters, documentation pages, the tuner's key and the exclusion rules are all derived
/// from this table. A new parameter needs a member in SearchParams and in ResolvedParams,
/// a row here, and a field in search.proto.
///
/// The table handles all values as numbers. A parameter with `words` uses the position of
/// its word.
struct ParamInfo {
  /// As in JSON and on the wire: "ef_l1"; on the command line: --ef-l1.
  std::string_view name;
  std::string_view help;  ///< one line
  ModeSet modes;          ///< search modes that accept it
  double least = 0, most = 0;
  bool whole = true;               ///< only whole numbers are valid
  std::optional<double> off = {};  ///< also valid: the value that disables the parameter
  /// May be combined with a target (recall, latency), which replaces all other
  /// parameters.
  bool with_target = false;
  std::span<const std::string_view> words = {};

  /// The value that the user set.
  std::optional<double> (*requested)(const SearchParams&) = nullptr;
  void (*ask)(SearchParams&, double) = nullptr;
  /// Absent: the parameter is disabled.
  std::optional<double> (*running)(const ResolvedParams&) = nullptr;
  void (*set)(ResolvedParams&, double) = nullptr;

  /// Errors: INVALID_ARGUMENT "beam_width: expected 1 to 64, found 65".
  absl::Status Check(double value) const;
  /// Parses a number as a user writes it, or a word. Errors: those of Check.
  absl::StatusOr<double> Parse(std::string_view text) const;
  /// Formats a value so that Parse accepts it.
  std::string Text(double value) const;
};

/// Every parameter, in display order.
std::span<const ParamInfo> ParamTable();

/// nullptr: there is no such parameter.
const ParamInfo* FindParam(std::string_view name);

/// The value of `param` in `params`; absent if the mode does not accept it or it is
/// disabled.
std::optional<double> Running(const ParamInfo& param, const ResolvedParams& params);

std::string_view Name(SearchMode mode);    ///< "multi-start", "upper", ...
std::string_view Name(Prefetch prefetch);  ///< "ahead", "off", "hop"

/// Human-readable: "quantized ef_l1 16 ef_l0 48 nprobe 128 beam_width 8 error_bound 1.5".
std::string DescribeParams(const ResolvedParams& params);

}  // namespace hmann
