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
#include "hmann/dials.h"
#include "hmann/search_options.h"

namespace hmann {

/// A set of walks.
class WalkSet {
 public:
  constexpr WalkSet(std::initializer_list<WalkKind> walks) {
    for (const WalkKind walk : walks) bits_ |= 1u << static_cast<unsigned>(walk);
  }
  constexpr bool Contains(WalkKind walk) const {
    return (bits_ >> static_cast<unsigned>(walk) & 1) != 0;
  }

 private:
  unsigned bits_ = 0;
};

/// All that is to be known of a dial. Command line, JSON, wire, adapters, pages, the
/// tuner's key and the rules of what excludes what are made of this table; a new dial is
/// a member of SearchOptions and of Dials, a row here, and a field in search.proto.
///
/// Values of all dials pass through here as numbers; that of a dial with `words` is the
/// place of its word.
struct Dial {
  std::string_view name;  ///< as in JSON and on the wire: "ef_l1"; on the command line --ef-l1
  std::string_view help;  ///< a line
  WalkSet walks;          ///< that take it
  double least = 0, most = 0;
  bool whole = true;               ///< whole numbers only
  std::optional<double> off = {};  ///< may be said as well: the dial is then not in force
  bool with_target =
      false;  ///< may be said beside a target (recall, latency), which stands for all the others
  std::span<const std::string_view> words = {};

  std::optional<double> (*asked)(const SearchOptions&) = nullptr;  ///< what the user has said of it
  void (*ask)(SearchOptions&, double) = nullptr;
  std::optional<double> (*running)(const Dials&) = nullptr;  ///< absent: not in force
  void (*set)(Dials&, double) = nullptr;

  /// Errors: INVALID_ARGUMENT "beam_width: expected 1 to 64, found 65".
  absl::Status Check(double value) const;
  /// A value as a user writes it, or a word. Errors: those of Check.
  absl::StatusOr<double> Parse(std::string_view text) const;
  /// As Parse takes it.
  std::string Text(double value) const;
};

/// Every dial, in the order in which they are shown.
std::span<const Dial> DialTable();

/// nullptr: there is none.
const Dial* FindDial(std::string_view name);

/// What a dial of `dials` is set to; absent where the walk does not take it or it is not
/// in force.
std::optional<double> Running(const Dial& dial, const Dials& dials);

std::string_view Name(WalkKind walk);      ///< "multi-start", "upper", ...
std::string_view Name(Prefetch prefetch);  ///< "ahead", "off", "round", "helper"

/// For the eye: "quantised ef_l1 16 ef_l0 48 nprobe 128 beam_width 8 error_bound 1.5".
std::string DescribeDials(const Dials& dials);

}  // namespace hmann
