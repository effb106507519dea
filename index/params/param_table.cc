#include "hmann/param_table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <type_traits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "index/base/errors.h"
#include "index/base/units.h"

namespace hmann {
namespace {

constexpr std::string_view kModeNames[] = {"multi-start", "graph", "quantized", "upper", "scan"};
constexpr std::string_view kPrefetchNames[] = {"ahead", "off", "hop"};

template <typename T>
T FromNumber(double value) {
  if constexpr (std::is_enum_v<T>) {
    return static_cast<T>(static_cast<std::uint8_t>(value));
  } else {
    return static_cast<T>(value);
  }
}

/// The shortest decimal number that gives this float: 1.1, not 1.10000002384.
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

/// `param` with the accessors of its two members.
template <auto kRequested, auto kRunning>
constexpr ParamInfo Row(ParamInfo param) {
  param.requested = [](const SearchParams& options) { return ToNumber(options.*kRequested); };
  param.ask = [](SearchParams& options, double value) {
    options.*kRequested =
        FromNumber<typename ValueOf<std::decay_t<decltype(options.*kRequested)>>::Type>(value);
  };
  param.running = [](const ResolvedParams& params) { return ToNumber(params.*kRunning); };
  param.set = [](ResolvedParams& params, double value) {
    params.*kRunning =
        FromNumber<typename ValueOf<std::decay_t<decltype(params.*kRunning)>>::Type>(value);
  };
  return param;
}

constexpr ModeSet kAll = {SearchMode::kMultiStart, SearchMode::kGraph, SearchMode::kQuantized,
                          SearchMode::kUpper, SearchMode::kScan};
constexpr ModeSet kOfL1 = {SearchMode::kMultiStart, SearchMode::kGraph, SearchMode::kQuantized,
                           SearchMode::kUpper};
constexpr ModeSet kOfL0 = {SearchMode::kMultiStart, SearchMode::kGraph, SearchMode::kQuantized};

// `epsilon` on 1M SIFT vectors, k = 10, at equal mean recall 0.95 / 0.99: the graph mode
// reads 14 / 23 % less, the quantized mode 13 / 27 %, and the worst twentieth of the
// queries gets better answers. With cells it gains nothing in addition to `error_bound`.
// `beam_width` of the graph mode there, one query at a time in DRAM: 2 takes 12 and 18 %
// less time than 1. The gain is equal with several queries in flight.
constexpr ParamInfo kParams[] = {
    Row<&SearchParams::mode, &ResolvedParams::mode>(
        {.name = "mode",
         .help = "how L0 is searched: multi-start, graph, quantized (codes decide which nodes are "
                 "read; the default if the index has codes and L0 is slower than DRAM), upper (L0 "
                 "is not searched: L1 gives the answer), or scan (all vectors are compared)",
         .modes = kAll,
         .most = kModes - 1,
         .words = kModeNames}),
    Row<&SearchParams::ef_l1, &ResolvedParams::ef_l1>(
        {.name = "ef_l1",
         .help = "efSearchL1, width of the search in L1 (default: chosen for k)",
         .modes = kOfL1,
         .least = 1,
         .most = kMaxEf}),
    Row<&SearchParams::ef_l0, &ResolvedParams::ef_l0>(
        {.name = "ef_l0",
         .help = "efSearchL0, width of the search in L0; quantized: 0 follows no links and "
                 "re-ranks the nodes of nprobe cells (default: chosen for k)",
         .modes = kOfL0,
         .most = kMaxEf}),
    Row<&SearchParams::nprobe, &ResolvedParams::nprobe>(
        {.name = "nprobe",
         .help =
             "quantized: cells scored before the first node read (default: chosen for the tier)",
         .modes = {SearchMode::kQuantized},
         .most = kMaxEf}),
    Row<&SearchParams::beam_width, &ResolvedParams::beam_width>(
        {.name = "beam_width",
         .help = "quantized: node reads per hop (default 8); graph: candidates expanded together, "
                 "at most 8 (default 2; 1 if ef_l0 alone ends the search)",
         .modes = {SearchMode::kGraph, SearchMode::kQuantized},
         .least = 1,
         .most = kMaxBeamWidth}),
    Row<&SearchParams::error_bound, &ResolvedParams::error_bound>(
        {.name = "error_bound",
         .help =
             "quantized: read a node only while estimate - error_bound x error is below the kth "
             "distance",
         .modes = {SearchMode::kQuantized},
         .most = 1e6,
         .whole = false}),
    Row<&SearchParams::epsilon, &ResolvedParams::epsilon>(
        {.name = "epsilon",
         .help = "graph, quantized: expand no candidate farther than (1 + epsilon) x the kth best "
                 "distance (L2: squared), so that each query takes the effort that it needs; the "
                 "calibration adds some for queries whose neighbors are far; -1: expand all that "
                 "ef_l0 holds (default: chosen for k if ef_l0 is not given, otherwise -1)",
         .modes = {SearchMode::kGraph, SearchMode::kQuantized},
         .least = EpsilonLine::kLeast,
         .most = 1e6,
         .whole = false,
         .off = -1}),
    Row<&SearchParams::prefetch, &ResolvedParams::prefetch>(
        {.name = "prefetch",
         .help = "how early node records of the slow tier are requested: hop (default), ahead, "
                 "off; answers do not change",
         .modes = kAll,
         .most = 2,
         .with_target = true,
         .words = kPrefetchNames}),
    Row<&SearchParams::query_threads, &ResolvedParams::query_threads>(
        {.name = "query_threads",
         .help = "multi-start: threads per query in L0 (default 1)",
         .modes = {SearchMode::kMultiStart},
         .least = 1,
         .most = kMaxQueryThreads}),
};

std::string Joined(std::span<const std::string_view> words) {
  return absl::StrJoin(words, ", ",
                       [](std::string* out, std::string_view word) { out->append(word); });
}

/// All digits of a whole number. Six digits of other numbers, which is more than users
/// type.
std::string Digits(double value) {
  return value == std::floor(value) && std::abs(value) < 1e15
             ? absl::StrCat(static_cast<std::int64_t>(value))
             : absl::StrCat(value);
}

absl::Status Unexpected(const ParamInfo& param, const std::string& found) {
  const std::string range =
      absl::StrCat(param.off.has_value() ? absl::StrCat(Digits(*param.off), ", or ") : "",
                   Digits(param.least), " to ", Digits(param.most));
  const std::string expected = param.words.empty() ? range : Joined(param.words);
  return InvalidArgument(std::string(param.name), ": expected ", expected, ", found ", found);
}

}  // namespace

absl::Status ParamInfo::Check(double value) const {
  const bool in_range = (value >= least && value <= most) || value == off;
  if (in_range && (!whole || value == std::floor(value))) return absl::OkStatus();
  return Unexpected(*this, Digits(value));
}

absl::StatusOr<double> ParamInfo::Parse(std::string_view text) const {
  const auto word = std::find(words.begin(), words.end(), text);
  double value = 0;
  if (!words.empty() && word != words.end()) {
    value = static_cast<double>(word - words.begin());
  } else if (const auto count = ParseCount(text); whole && words.empty() && count.ok()) {
    value = static_cast<double>(*count);
  } else if (!words.empty() ||
             !absl::SimpleAtod(absl::string_view(text.data(), text.size()), &value)) {
    return Unexpected(*this, absl::StrCat("'", absl::string_view(text.data(), text.size()), "'"));
  }
  if (absl::Status status = Check(value); !status.ok()) return status;
  return value;
}

std::string ParamInfo::Text(double value) const {
  return words.empty() ? Digits(value) : std::string(words[static_cast<std::size_t>(value)]);
}

std::span<const ParamInfo> ParamTable() { return kParams; }

const ParamInfo* FindParam(std::string_view name) {
  const auto found = std::find_if(std::begin(kParams), std::end(kParams),
                                  [name](const ParamInfo& param) { return param.name == name; });
  return found == std::end(kParams) ? nullptr : found;
}

std::optional<double> Running(const ParamInfo& param, const ResolvedParams& params) {
  return param.modes.Contains(params.mode) ? param.running(params) : std::nullopt;
}

std::string_view Name(SearchMode mode) { return kModeNames[static_cast<std::size_t>(mode)]; }
std::string_view Name(Prefetch prefetch) {
  return kPrefetchNames[static_cast<std::size_t>(prefetch)];
}

std::string DescribeParams(const ResolvedParams& params) {
  std::string text;
  for (const ParamInfo& param : kParams) {
    const std::optional<double> value = Running(param, params);
    if (!value.has_value()) continue;
    // The mode comes first and needs no name.
    const std::string name = text.empty() ? "" : absl::StrCat(" ", std::string(param.name), " ");
    absl::StrAppend(&text, name, param.Text(*value));
  }
  return text;
}

}  // namespace hmann
