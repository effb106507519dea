#include "hmann/dial_table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <type_traits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "index/base/errors.h"

namespace hmann {
namespace {

constexpr std::string_view kWalkNames[] = {"multi-start", "best-first", "quantised", "upper"};
constexpr std::string_view kPrefetchNames[] = {"ahead", "off", "round", "helper"};

template <typename T>
T FromNumber(double value) {
  if constexpr (std::is_enum_v<T>) {
    return static_cast<T>(static_cast<std::uint8_t>(value));
  } else {
    return static_cast<T>(value);
  }
}

/// The shortest decimal number that is this float: 1.1 and not 1.10000002384.
double Decimal(float value) {
  char text[32];
  const auto written = std::to_chars(std::begin(text), std::end(text), value);
  double decimal = value;
  std::from_chars(text, written.ptr, decimal);
  return decimal;
}

std::optional<double> ToNumber(const auto& member) {
  using T = std::decay_t<decltype(member)>;
  if constexpr (requires { member.has_value(); }) {
    return member.has_value() ? ToNumber(*member) : std::nullopt;
  } else if constexpr (std::is_enum_v<T>) {
    return static_cast<double>(static_cast<std::uint8_t>(member));
  } else if constexpr (std::is_same_v<T, float>) {
    return Decimal(member);
  } else {
    return static_cast<double>(member);
  }
}

template <typename T>
struct ValueOf {
  using Type = T;
};
template <typename T>
struct ValueOf<std::optional<T>> {
  using Type = T;
};

/// `dial` with the ways to its two members.
template <auto kAsked, auto kRunning>
constexpr Dial Row(Dial dial) {
  dial.asked = [](const SearchOptions& options) { return ToNumber(options.*kAsked); };
  dial.ask = [](SearchOptions& options, double value) {
    options.*kAsked =
        FromNumber<typename ValueOf<std::decay_t<decltype(options.*kAsked)>>::Type>(value);
  };
  dial.running = [](const Dials& dials) { return ToNumber(dials.*kRunning); };
  dial.set = [](Dials& dials, double value) {
    dials.*kRunning =
        FromNumber<typename ValueOf<std::decay_t<decltype(dials.*kRunning)>>::Type>(value);
  };
  return dial;
}

constexpr WalkSet kAll = {WalkKind::kMultiStart, WalkKind::kBestFirst, WalkKind::kQuantised,
                          WalkKind::kUpper};
constexpr WalkSet kOfL0 = {WalkKind::kMultiStart, WalkKind::kBestFirst, WalkKind::kQuantised};

// `epsilon` on 1M SIFT vectors, k = 10, at equal mean recall 0.95 / 0.99: the pool reads
// 14 / 23 % less, the quantised walk 13 / 27 %, and the worst twentieth of the queries
// has better answers. With cells it gains nothing beside `error_bound`. `beam_width` of
// the pool there, one query at a time in DRAM: 2 takes 12 and 18 % less time than 1, as
// much where several are in flight.
constexpr Dial kDials[] = {
    Row<&SearchOptions::walk, &Dials::walk>(
        {.name = "walk",
         .help = "how L0 is searched: multi-start, best-first, quantised (codes decide what is "
                 "read; the default where the index has them and "
                 "L0 is far, or they are of links), or upper (not at all: L1's answer)",
         .walks = kAll,
         .most = kWalks - 1,
         .words = kWalkNames}),
    Row<&SearchOptions::ef_l1, &Dials::ef_l1>(
        {.name = "ef_l1",
         .help = "efSearchL1, width of the search in L1 (default: one that suits k)",
         .walks = kAll,
         .least = 1,
         .most = kMaxEf}),
    Row<&SearchOptions::ef_l0, &Dials::ef_l0>(
        {.name = "ef_l0",
         .help = "efSearchL0, width of the search in L0; quantised: 0 follows no links and "
                 "re-ranks what nprobe cells hold (default: one that suits k)",
         .walks = kOfL0,
         .most = kMaxEf}),
    Row<&SearchOptions::nprobe, &Dials::nprobe>(
        {.name = "nprobe",
         .help = "quantised: cells scored before the first read (default: one that suits the tier)",
         .walks = {WalkKind::kQuantised},
         .most = kMaxEf}),
    Row<&SearchOptions::beam_width, &Dials::beam_width>(
        {.name = "beam_width",
         .help = "quantised: records that a round reads (default 8); best-first: candidates "
                 "expanded together, at most 8 (default 2, with ef_l0 "
                 "alone 1)",
         .walks = {WalkKind::kBestFirst, WalkKind::kQuantised},
         .least = 1,
         .most = kMaxBeamWidth}),
    Row<&SearchOptions::error_bound, &Dials::error_bound>(
        {.name = "error_bound",
         .help =
             "quantised: read only while estimate - error_bound x error is under the kth distance",
         .walks = {WalkKind::kQuantised},
         .most = 1e6,
         .whole = false}),
    Row<&SearchOptions::epsilon, &Dials::epsilon>(
        {.name = "epsilon",
         .help = "best-first, quantised: expand no candidate farther than (1 + epsilon) x the kth "
                 "best (L2: squared), so that each query takes "
                 "the effort that it needs; -1: all that ef_l0 holds (default: one that suits k "
                 "where ef_l0 is not given, else -1)",
         .walks = {WalkKind::kBestFirst, WalkKind::kQuantised},
         .most = 1e6,
         .whole = false,
         .off = -1}),
    Row<&SearchOptions::prefetch, &Dials::prefetch>(
        {.name = "prefetch",
         .help = "how early slow records are asked for: round (default), ahead, off, helper; "
                 "answers are the same",
         .walks = kAll,
         .most = 3,
         .with_target = true,
         .words = kPrefetchNames}),
    Row<&SearchOptions::query_threads, &Dials::query_threads>(
        {.name = "query_threads",
         .help = "multi-start: threads of one query in L0 (default 1)",
         .walks = {WalkKind::kMultiStart},
         .least = 1,
         .most = kMaxQueryThreads}),
};

std::string Joined(std::span<const std::string_view> words) {
  return absl::StrJoin(words, ", ",
                       [](std::string* out, std::string_view word) { out->append(word); });
}

/// All digits of a whole number; of another six, which are more than a user types.
std::string Digits(double value) {
  return value == std::floor(value) && std::abs(value) < 1e15
             ? absl::StrCat(static_cast<std::int64_t>(value))
             : absl::StrCat(value);
}

absl::Status Unexpected(const Dial& dial, const std::string& found) {
  const std::string range =
      absl::StrCat(dial.off.has_value() ? absl::StrCat(Digits(*dial.off), ", or ") : "",
                   Digits(dial.least), " to ", Digits(dial.most));
  const std::string expected = dial.words.empty() ? range : Joined(dial.words);
  return InvalidArgument(std::string(dial.name), ": expected ", expected, ", found ", found);
}

}  // namespace

absl::Status Dial::Check(double value) const {
  const bool in_range = (value >= least && value <= most) || value == off;
  if (in_range && (!whole || value == std::floor(value))) return absl::OkStatus();
  return Unexpected(*this, Digits(value));
}

absl::StatusOr<double> Dial::Parse(std::string_view text) const {
  const auto word = std::find(words.begin(), words.end(), text);
  double value = 0;
  if (!words.empty() && word != words.end()) {
    value = static_cast<double>(word - words.begin());
  } else if (!words.empty() ||
             !absl::SimpleAtod(absl::string_view(text.data(), text.size()), &value)) {
    return Unexpected(*this, absl::StrCat("'", absl::string_view(text.data(), text.size()), "'"));
  }
  if (absl::Status status = Check(value); !status.ok()) return status;
  return value;
}

std::string Dial::Text(double value) const {
  return words.empty() ? Digits(value) : std::string(words[static_cast<std::size_t>(value)]);
}

std::span<const Dial> DialTable() { return kDials; }

const Dial* FindDial(std::string_view name) {
  const auto found = std::find_if(std::begin(kDials), std::end(kDials),
                                  [name](const Dial& dial) { return dial.name == name; });
  return found == std::end(kDials) ? nullptr : found;
}

std::optional<double> Running(const Dial& dial, const Dials& dials) {
  return dial.walks.Contains(dials.walk) ? dial.running(dials) : std::nullopt;
}

std::string_view Name(WalkKind walk) { return kWalkNames[static_cast<std::size_t>(walk)]; }
std::string_view Name(Prefetch prefetch) {
  return kPrefetchNames[static_cast<std::size_t>(prefetch)];
}

std::string DescribeDials(const Dials& dials) {
  std::string text;
  for (const Dial& dial : kDials) {
    const std::optional<double> value = Running(dial, dials);
    if (!value.has_value()) continue;
    // The walk comes first and needs no name.
    const std::string name = text.empty() ? "" : absl::StrCat(" ", std::string(dial.name), " ");
    absl::StrAppend(&text, name, dial.Text(*value));
  }
  return text;
}

}  // namespace hmann
