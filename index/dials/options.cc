#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_join.h"
#include "hmann/dial_table.h"
#include "hmann/matches.h"
#include "hmann/search_options.h"
#include "index/base/status_macros.h"
#include "index/dials/effort.h"

namespace hmann {
namespace {

/// Width in L0 of a walk that `epsilon` ends: what the hardest queries may take.
constexpr std::uint32_t kMostOfEpsilon = 200;

absl::Status CheckTaken(const SearchOptions& options, WalkKind walk) {
  for (const Dial& dial : DialTable()) {
    const std::optional<double> asked = dial.asked(options);
    if (!asked.has_value() || dial.walks.Contains(walk)) continue;
    // What a walk does anyhow may be said.
    if (asked == dial.running(Dials()) || asked == dial.off) continue;
    std::vector<std::string> takers;
    for (const WalkKind other :
         {WalkKind::kMultiStart, WalkKind::kBestFirst, WalkKind::kQuantised, WalkKind::kUpper}) {
      if (dial.walks.Contains(other)) takers.emplace_back(Name(other));
    }
    return InvalidArgument(std::string(dial.name), ": the walk ", std::string(Name(walk)),
                           " has no such dial, only ", absl::StrJoin(takers, " and "),
                           options.walk.has_value() ? "" : ": name a walk");
  }
  if (walk != WalkKind::kQuantised && options.ef_l0 == 0u) {
    return InvalidArgument("ef_l0: expected 1 to ", kMaxEf, " for the walk ",
                           std::string(Name(walk)), ", found 0: the walk upper answers from L1");
  }
  if (walk == WalkKind::kBestFirst && options.beam_width.value_or(1) > kMaxBestFirstWidth) {
    return InvalidArgument("beam_width: expected 1 to ", kMaxBestFirstWidth,
                           " for the best-first walk, found ", *options.beam_width);
  }
  return absl::OkStatus();
}

absl::Status CheckTarget(const SearchOptions& options) {
  const std::string name = options.recall.has_value() ? "recall" : "latency_us";
  for (const Dial& dial : DialTable()) {
    if (!dial.asked(options).has_value() || dial.with_target) continue;
    return InvalidArgument(name,
                           ": expected a target or dials, found both: ", std::string(dial.name));
  }
  if (options.recall.has_value() && !(*options.recall > 0 && *options.recall <= 1))
    return InvalidArgument("recall: expected a target in (0, 1], found ", *options.recall);
  if (options.latency.has_value() && options.latency->count() <= 0) {
    return InvalidArgument("latency_us: expected at least 1, found 0");
  }
  return absl::OkStatus();
}

/// Fills in what the user left open.
class Resolution {
 public:
  Resolution(const SearchOptions& options, const SearchContext& context)
      : options_(options), context_(context) {
    dials_.k = options.k;
    dials_.walk = options.walk.value_or(DefaultWalk());
    if (UpperIsEnough()) dials_.walk = WalkKind::kUpper;
    dials_.error_bound = options.error_bound;
    dials_.prefetch = options.prefetch.value_or(dials_.prefetch);
    dials_.query_threads = options.query_threads.value_or(1);
  }

  Dials Run() {
    switch (dials_.walk) {
      case WalkKind::kMultiStart:
        dials_.ef_l1 = options_.ef_l1.value_or(std::max(32u, 4 * dials_.k));
        dials_.ef_l0 = options_.ef_l0.value_or(2);
        break;
      case WalkKind::kBestFirst:
        ResolveBestFirst();
        break;
      case WalkKind::kQuantised:
        ResolveQuantised();
        break;
      case WalkKind::kUpper:
        ResolveUpper();
    }
    ScaleWhatIsOpen();
    dials_.ef_l0 = static_cast<std::uint32_t>(std::min<std::uint64_t>(dials_.ef_l0, context_.n));
    if (context_.n1 > 0)
      dials_.ef_l1 = static_cast<std::uint32_t>(std::min<std::uint64_t>(dials_.ef_l1, context_.n1));
    return dials_;
  }

  WalkKind walk() const { return dials_.walk; }

 private:
  /// Codes pay where a record is far. Who has had scalar codes made wants these.
  WalkKind DefaultWalk() const {
    const bool codes_pay = context_.scalar_bits == 0 && (context_.block_tier || context_.far);
    return context_.has_codes && codes_pay ? WalkKind::kQuantised : WalkKind::kBestFirst;
  }

  bool UpperIsEnough() const {
    if (context_.calibration == nullptr || context_.effort.has_value() || options_.names_dials() ||
        dials_.k > context_.n1)
      return false;
    const bool from_cells = dials_.walk == WalkKind::kQuantised && context_.block_tier;
    return context_.calibration->UpperIsEnough({dials_.walk, from_cells, context_.scalar_bits},
                                               dials_.k, options_.recall.value_or(kDefaultRecall));
  }

  /// Where the user leaves open how long a walk goes on, and nothing else ends it.
  /// `width_without`: the width in L0 where `epsilon` does not end the walk.
  void ResolveEnd(bool has_other_end, std::uint32_t width_without) {
    const bool is_open = !options_.ef_l0.has_value();
    if (options_.epsilon.has_value()) {
      if (*options_.epsilon >= 0) dials_.epsilon = options_.epsilon;
    } else if (is_open && !has_other_end && context_.has_ratios) {
      dials_.epsilon = DefaultEpsilon(dials_.k);
    }
    dials_.ef_l0 = options_.ef_l0.value_or(
        dials_.epsilon.has_value() ? std::max(kMostOfEpsilon, 4 * dials_.k) : width_without);
  }

  void ResolveQuantised() {
    const std::uint32_t k = dials_.k;
    // A device answers a round as late as an instruction a thousand cells: there cells
    // take the place of the way through the graph.
    const bool from_cells = options_.nprobe.value_or(context_.block_tier ? 1 : 0) > 0;
    const std::uint32_t cells = options_.nprobe.value_or(from_cells ? std::max(128u, 4 * k) : 0);
    dials_.nprobe = static_cast<std::uint32_t>(std::min<std::uint64_t>(cells, context_.n1));
    dials_.ef_l1 = options_.ef_l1.value_or(std::max({16u, k, dials_.nprobe / 2}));
    ResolveEnd(dials_.nprobe > 0, dials_.nprobe > 0 ? std::max(30u, 2 * k) : std::max(48u, 3 * k));
    if (dials_.ef_l0 > 0) dials_.ef_l0 = std::max(dials_.ef_l0, k);
    dials_.beam_width = options_.beam_width.value_or(context_.block_tier ? 16 : 8);
    // With cells the pool is full of estimates from the start; and without a walk along
    // links something must say when to stop reading.
    if (!dials_.error_bound.has_value() && (dials_.nprobe > 0 || dials_.ef_l0 == 0))
      dials_.error_bound = 1.5f;
  }

  void ResolveBestFirst() {
    const std::uint32_t k = dials_.k;
    ResolveEnd(false, std::max(64u, 2 * k));
    // Ended by `epsilon`, a pool is searched for speed; by its width alone, as Algorithm
    // 3 says. One candidate of a beam leads to the next.
    dials_.beam_width = options_.beam_width.value_or(dials_.epsilon.has_value() ? 2 : 1);
    dials_.ef_l1 = options_.ef_l1.value_or(4);
    dials_.ef_l0 = std::max(dials_.ef_l0, k);
  }

  /// Where L1 has fewer than k nodes, L0 is searched after all.
  void ResolveUpper() {
    const auto most_k = static_cast<std::uint32_t>(std::min<std::uint64_t>(dials_.k, context_.n1));
    dials_.ef_l1 = std::max(options_.ef_l1.value_or(std::max(4u, dials_.k)), most_k);
    if (dials_.k <= context_.n1) return;
    dials_.walk = WalkKind::kBestFirst;
    dials_.ef_l0 = dials_.k;
  }

  /// That the calibration says reaches what is wanted of this way of searching.
  double Effort() const {
    if (context_.effort.has_value()) return *context_.effort;
    if (context_.calibration == nullptr || dials_.walk == WalkKind::kMultiStart) return 1;
    const auto found = context_.calibration->Find(WayOf(dials_, context_), dials_.k,
                                                  options_.recall.value_or(kDefaultRecall));
    return found.has_value() ? found->effort : 1;
  }

  /// What the user has said stays.
  void ScaleWhatIsOpen() {
    const Dials scaled = WithEffort(dials_, Effort(), context_.n, context_.n1);
    if (!options_.epsilon.has_value()) dials_.epsilon = scaled.epsilon;
    if (!options_.ef_l0.has_value()) dials_.ef_l0 = scaled.ef_l0;
    if (!options_.nprobe.has_value()) dials_.nprobe = scaled.nprobe;
    if (!options_.error_bound.has_value()) dials_.error_bound = scaled.error_bound;
    if (!options_.ef_l1.has_value() && !options_.nprobe.has_value()) dials_.ef_l1 = scaled.ef_l1;
  }

  const SearchOptions& options_;
  const SearchContext& context_;
  Dials dials_;
};

absl::Status CheckIndexHas(const Dials& dials, const SearchContext& context) {
  if (dials.epsilon.has_value() && !context.has_ratios) {
    return FailedPrecondition(
        "epsilon: expected -1, since inner products have either sign and no multiples of a "
        "distance");
  }
  if (dials.prefetch == Prefetch::kHelper && !context.has_helpers && !context.block_tier) {
    return FailedPrecondition(
        "prefetch: helper needs helper threads, and the index was opened without: give it "
        "--helpers 1");
  }
  if (dials.walk == WalkKind::kQuantised && !context.has_codes) {
    return FailedPrecondition(
        "walk: quantised needs an index with codes, and this one has none: build it with --bits 2");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SearchOptions::Validate(std::uint64_t n) const {
  if (k == 0) return InvalidArgument("k: expected at least 1, found 0");
  if (k > n)
    return InvalidArgument("k: expected at most the ", n, " vectors of the index, found ", k);
  if (k > kMaxEf) return InvalidArgument("k: expected at most ", kMaxEf, ", found ", k);
  for (const Dial& dial : DialTable()) {
    if (const std::optional<double> value = dial.asked(*this); value.has_value())
      HMANN_RETURN_IF_ERROR(dial.Check(*value));
  }
  if (budget.has_value() && budget->count() <= 0)
    return InvalidArgument("budget_us: expected at least 1, found 0");
  if (has_target()) return CheckTarget(*this);
  return walk.has_value() ? CheckTaken(*this, *walk) : absl::OkStatus();
}

bool SearchOptions::names_dials() const {
  return std::any_of(DialTable().begin(), DialTable().end(), [this](const Dial& dial) {
    return !dial.with_target && dial.asked(*this).has_value();
  });
}

SearchOptions SearchOptions::Widened(std::uint64_t n) const {
  SearchOptions wide = *this;
  if (wide.matches == nullptr) return wide;
  wide.matches = nullptr;
  const std::uint64_t size = std::max<std::uint64_t>(matches->size(), 1);
  wide.k =
      static_cast<std::uint32_t>(std::min({(k * n + size - 1) / size, n, std::uint64_t{kMaxEf}}));
  return wide;
}

absl::StatusOr<Dials> SearchOptions::Resolve(const SearchContext& context) const {
  HMANN_RETURN_IF_ERROR(Validate(context.n));
  if (matches != nullptr) {
    if (matches->n() != context.n) {
      return InvalidArgument("matches: expected those of ", context.n, " vectors, found ",
                             matches->n());
    }
    if (matches->content_hash() != context.content_hash)
      return InvalidArgument("matches: made for another index of ", context.n, " vectors");
    const SearchOptions wide = Widened(context.n);
    HMANN_ASSIGN_OR_RETURN(Dials dials, wide.Resolve(context));
    if (dials.walk == WalkKind::kQuantised && dials.nprobe == 0 && !nprobe.has_value()) {
      // From cells, as on a device: links of what does not match are not followed.
      SearchContext cells = context;
      cells.block_tier = true;
      HMANN_ASSIGN_OR_RETURN(dials, wide.Resolve(cells));
    }
    dials.k = k;
    dials.matches = matches;
    return dials;
  }
  Resolution resolution(*this, context);
  HMANN_RETURN_IF_ERROR(CheckTaken(*this, resolution.walk()));
  const Dials dials = resolution.Run();
  HMANN_RETURN_IF_ERROR(CheckIndexHas(dials, context));
  return dials;
}

Calibration::Way WayOf(const Dials& dials, const SearchContext& context) {
  return {dials.walk, dials.nprobe > 0, context.scalar_bits};
}

SearchOptions OptionsOf(const Dials& dials) {
  SearchOptions options;
  options.k = dials.k;
  for (const Dial& dial : DialTable()) {
    if (const std::optional<double> value = Running(dial, dials); value.has_value())
      dial.ask(options, *value);
  }
  return options;
}

}  // namespace hmann
