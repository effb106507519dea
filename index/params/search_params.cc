#include "hmann/search_params.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_join.h"
#include "hmann/matches.h"
#include "hmann/param_table.h"
#include "index/base/status_macros.h"
#include "index/params/ef_scale.h"

namespace hmann {
namespace {

/// Width in L0 if `epsilon` ends the search: a bound for the hardest queries, a guess.
/// Among matches a beam that is full tells that nearer ones were lost.
constexpr std::uint32_t kMostOfEpsilon = 1000, kMostAmongMatches = 200;
/// A scan compares about this many vectors in the time that a unit of width takes in L0.
/// It is a guess, and only tells a server how long a scan may take.
constexpr std::uint64_t kScannedPerWidth = 64;

absl::Status CheckTaken(const SearchParams& options, SearchMode mode) {
  for (const ParamInfo& param : ParamTable()) {
    const std::optional<double> requested = param.requested(options);
    if (!requested.has_value() || param.modes.Contains(mode)) continue;
    // A value that only states what the mode does anyway is valid.
    if (requested == param.running(ResolvedParams()) || requested == param.off) continue;
    std::vector<std::string> takers;
    for (const SearchMode other : {SearchMode::kMultiStart, SearchMode::kGraph,
                                   SearchMode::kQuantized, SearchMode::kUpper}) {
      if (param.modes.Contains(other)) takers.emplace_back(Name(other));
    }
    return InvalidArgument(std::string(param.name), ": the mode ", std::string(Name(mode)),
                           " has no such parameter, only ", absl::StrJoin(takers, " and "),
                           options.mode.has_value() ? "" : ": name a mode");
  }
  if (mode != SearchMode::kQuantized && options.ef_l0 == 0u) {
    return InvalidArgument("ef_l0: expected 1 to ", kMaxEf, " for the mode ",
                           std::string(Name(mode)), ", found 0: the mode upper answers from L1");
  }
  if (mode == SearchMode::kGraph && options.beam_width.value_or(1) > kMaxGraphWidth) {
    return InvalidArgument("beam_width: expected 1 to ", kMaxGraphWidth,
                           " for the graph mode, found ", *options.beam_width);
  }
  return absl::OkStatus();
}

absl::Status CheckTarget(const SearchParams& options) {
  const std::string name = options.recall.has_value() ? "recall" : "latency_us";
  for (const ParamInfo& param : ParamTable()) {
    if (!param.requested(options).has_value() || param.with_target) continue;
    return InvalidArgument(
        name, ": expected a target or parameters, found both: ", std::string(param.name));
  }
  if (options.recall.has_value() && !(*options.recall > 0 && *options.recall <= 1))
    return InvalidArgument("recall: expected a target in (0, 1], found ", *options.recall);
  if (options.latency.has_value() && options.latency->count() <= 0) {
    return InvalidArgument("latency_us: expected at least 1, found 0");
  }
  return absl::OkStatus();
}

/// Fills in the parameters that the user left open.
class Resolution {
 public:
  Resolution(const SearchParams& options, const SearchContext& context)
      : options_(options), context_(context) {
    params_.k = options.k;
    params_.mode = options.mode.value_or(DefaultMode());
    if (UpperIsEnough()) params_.mode = SearchMode::kUpper;
    params_.is_exact = options.mode == SearchMode::kScan;
    params_.error_bound = options.error_bound;
    params_.prefetch = options.prefetch.value_or(params_.prefetch);
    params_.query_threads = options.query_threads.value_or(1);
  }

  ResolvedParams Run() {
    switch (params_.mode) {
      case SearchMode::kMultiStart:
        params_.ef_l1 = options_.ef_l1.value_or(std::max(32u, 4 * params_.k));
        params_.ef_l0 = options_.ef_l0.value_or(2);
        break;
      case SearchMode::kGraph:
        ResolveBestFirst();
        break;
      case SearchMode::kQuantized:
        ResolveQuantized();
        break;
      case SearchMode::kUpper:
        ResolveUpper();
        break;
      case SearchMode::kScan:
        break;
    }
    ScaleWhatIsOpen();
    FollowTheQuery();
    BoundByScan();
    params_.ef_l0 = static_cast<std::uint32_t>(std::min<std::uint64_t>(params_.ef_l0, context_.n));
    if (context_.n1 > 0)
      params_.ef_l1 =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(params_.ef_l1, context_.n1));
    return params_;
  }

  SearchMode mode() const { return params_.mode; }

 private:
  /// Codes pay off if node reads are slow. Scalar codes, if the user requested them, take
  /// precedence.
  SearchMode DefaultMode() const {
    const bool codes_pay = context_.scalar_bits == 0 && (context_.block_tier || context_.far);
    return context_.has_codes && codes_pay ? SearchMode::kQuantized : SearchMode::kGraph;
  }

  bool UpperIsEnough() const {
    if (context_.calibration == nullptr || context_.ef_scale.has_value() ||
        options_.names_params() || params_.k > context_.n1)
      return false;
    const bool from_cells = params_.mode == SearchMode::kQuantized && context_.block_tier;
    return context_.calibration->UpperIsEnough({params_.mode, from_cells, context_.scalar_bits},
                                               params_.k, options_.recall.value_or(kDefaultRecall));
  }

  /// How many distances a traversal in DRAM computes in the time of a scan. Either costs
  /// as much as reading its row and some bytes, and a traversal's more for each place of
  /// the beam, parts of which move. The numbers are guesses: among matches in one and ten
  /// million SIFT vectors, a traversal's distance cost 3.3 times a scan's, with beams of
  /// 800 to 4,000 places (doc/notes/filters.md); on 20,000 vectors of 12 to 384 bytes in
  /// the cache of a Sapphire Rapids, 3 to 5 times.
  std::uint64_t ScanInDistances() const {
    constexpr std::uint64_t kMoreOfScan = 192, kMore = 832, kPlacesPerByte = 8;
    const std::uint64_t row = context_.row_bytes, places = std::max(params_.ef_l0, params_.ef_l1);
    const std::uint64_t scanned = context_.scanned > 0 ? context_.scanned : context_.n;
    return scanned * (row + kMoreOfScan) / (row + kMore + places / kPlacesPerByte);
  }

  /// How many codes a scan scores in the time of the cells. For each cell, L1 computes
  /// some distances; 4 is a guess.
  std::uint64_t CodesOfCells() const {
    constexpr std::uint64_t kMoreOfCell = 4;
    return std::uint64_t{params_.nprobe} *
           (context_.n / std::max<std::uint64_t>(context_.n1, 1) + kMoreOfCell);
  }

  /// No search takes much longer than a scan. One that the calibration expects to take
  /// that long is a scan at once. Where the user names the parameters of a graph search,
  /// they are obeyed: it computes no distance twice, as two threads do. With a filter,
  /// whose matches may be far away, only a named mode keeps it from giving way. Those
  /// leave room for L1, a scan and reranking below twice n (5/8 is a guess). Curves
  /// without codes decide, because those with codes count few distances.
  void BoundByScan() {
    const bool in_dram = !context_.far && !context_.block_tier && context_.row_bytes > 0;
    const bool is_filtered = context_.scanned > 0, names_params = options_.names_params();
    if (in_dram && params_.mode == SearchMode::kMultiStart) {
      params_.most_distances = context_.n / 8 * 5 / params_.query_threads;
    } else if (options_.VisitsAll(context_)) {
      params_.mode = SearchMode::kScan;
    } else if (in_dram && (!names_params || (is_filtered && !options_.mode.has_value())) &&
               params_.mode != SearchMode::kQuantized) {
      params_.most_distances = ScanInDistances();
      const auto found =
          context_.calibration == nullptr || context_.ef_scale.has_value() || names_params
              ? std::nullopt
              : context_.calibration->Find({.mode = params_.mode}, params_.k,
                                           options_.recall.value_or(kDefaultRecall));
      // A traversal that gives up pays twice, and some take longer than expected: 3/4 is
      // a guess.
      const double most = static_cast<double>(params_.most_distances) * (is_filtered ? 0.75 : 1);
      if (found.has_value() && found->distances >= most) params_.mode = SearchMode::kScan;
    }
    if (params_.mode == SearchMode::kQuantized && is_filtered && params_.nprobe > 0 &&
        !names_params && CodesOfCells() >= context_.scanned)
      params_.mode = SearchMode::kScan;
    if (params_.mode == SearchMode::kScan) {
      params_.ef_l0 = static_cast<std::uint32_t>(
          std::max(context_.n / kScannedPerWidth, std::uint64_t{params_.k}));
    }
  }

  /// Sets what ends the search if the user left it open and nothing else ends it.
  /// `width_without`: the width in L0 if `epsilon` does not end the search.
  void ResolveEnd(bool has_other_end, std::uint32_t width_without) {
    const bool is_open = !options_.ef_l0.has_value();
    if (options_.epsilon.has_value()) {
      if (*options_.epsilon >= EpsilonLine::kLeast) params_.epsilon = options_.epsilon;
    } else if (is_open && !has_other_end && context_.has_ratios) {
      params_.epsilon = DefaultEpsilon(params_.k);
    }
    const std::uint32_t most = context_.scanned > 0 ? kMostAmongMatches : kMostOfEpsilon;
    params_.ef_l0 = options_.ef_l0.value_or(
        params_.epsilon.has_value() ? std::max(most, 4 * params_.k) : width_without);
  }

  void ResolveQuantized() {
    const std::uint32_t k = params_.k;
    // On a device, one hop takes as long as scoring a thousand cells, so cells replace
    // the path through the graph.
    const bool from_cells = options_.nprobe.value_or(context_.block_tier ? 1 : 0) > 0;
    const std::uint32_t cells = options_.nprobe.value_or(from_cells ? std::max(128u, 4 * k) : 0);
    params_.nprobe = static_cast<std::uint32_t>(std::min<std::uint64_t>(cells, context_.n1));
    params_.ef_l1 = options_.ef_l1.value_or(std::max({16u, k, params_.nprobe / 2}));
    ResolveEnd(params_.nprobe > 0,
               params_.nprobe > 0 ? std::max(30u, 2 * k) : std::max(48u, 3 * k));
    if (params_.ef_l0 > 0) params_.ef_l0 = std::max(params_.ef_l0, k);
    params_.beam_width = options_.beam_width.value_or(context_.block_tier ? 16 : 8);
    // With cells the pool is full of estimates from the start. Without links to follow,
    // too, something must decide when to stop reading.
    if (!params_.error_bound.has_value() && (params_.nprobe > 0 || params_.ef_l0 == 0))
      params_.error_bound = 1.5f;
  }

  void ResolveBestFirst() {
    const std::uint32_t k = params_.k;
    ResolveEnd(false, std::max(64u, 2 * k));
    // If `epsilon` ends the search, the beam is chosen for speed; if the width alone
    // does, the beam is that of Algorithm 3. One candidate of a beam leads to the next.
    params_.beam_width = options_.beam_width.value_or(params_.epsilon.has_value() ? 2 : 1);
    params_.ef_l1 = options_.ef_l1.value_or(4);
    params_.ef_l0 = std::max(params_.ef_l0, k);
  }

  /// If L1 has fewer than k nodes, L0 is searched after all.
  void ResolveUpper() {
    const auto most_k = static_cast<std::uint32_t>(std::min<std::uint64_t>(params_.k, context_.n1));
    params_.ef_l1 = std::max(options_.ef_l1.value_or(std::max(4u, params_.k)), most_k);
    if (params_.k <= context_.n1) return;
    params_.mode = SearchMode::kGraph;
    params_.ef_l0 = params_.k;
  }

  /// The ef_scale at which this way of searching reaches the wanted recall, by the
  /// calibration.
  double Effort() const {
    if (context_.ef_scale.has_value()) return *context_.ef_scale;
    if (context_.calibration == nullptr || params_.mode == SearchMode::kMultiStart) return 1;
    const Calibration::Way way = WayOf(params_, context_);
    const double recall = options_.recall.value_or(kDefaultRecall);
    auto found = context_.calibration->Find(way, params_.k, recall);
    // Codes that were not calibrated may lose little.
    if (!found.has_value())
      found = context_.calibration->Find({way.mode, way.cells}, params_.k, recall);
    return found.has_value() ? found->ef_scale : 1;
  }

  /// Scales the parameters that the user left open; the others stay.
  void ScaleWhatIsOpen() {
    const ResolvedParams scaled = WithEfScale(params_, Effort(), context_.n, context_.n1);
    if (!options_.epsilon.has_value()) params_.epsilon = scaled.epsilon;
    if (!options_.ef_l0.has_value()) params_.ef_l0 = scaled.ef_l0;
    if (!options_.nprobe.has_value()) params_.nprobe = scaled.nprobe;
    if (!options_.error_bound.has_value()) params_.error_bound = scaled.error_bound;
    if (!options_.ef_l1.has_value() && !options_.nprobe.has_value()) params_.ef_l1 = scaled.ef_l1;
    if (context_.scanned > 0 && params_.nprobe > 0 && !options_.names_params()) WidenCells();
  }

  /// Effort follows the query by epsilon, or from cells by the widths, also where the
  /// user has named these. With a filter, the distance of the kth says little of it.
  void FollowTheQuery() {
    const bool from_cells =
        params_.mode == SearchMode::kQuantized && params_.nprobe > 0 && context_.scanned == 0;
    if (context_.calibration == nullptr || (!params_.epsilon.has_value() && !from_cells)) return;
    const Calibration::Difficulty difficulty = context_.calibration->DifficultyAt(params_.k);
    if (params_.epsilon.has_value()) params_.epsilon_rise = difficulty.rise;
    params_.typical_distance = difficulty.typical;
  }

  /// Links lead mostly to nodes that do not match, so cells must find what links would.
  /// Thrice is a guess: at a share of 0.1, recall rose from 0.88 to 0.94 with twice the
  /// cells and 0.96 with thrice on SIFT, from 0.93 to 0.95 on RootSIFT. Sixfold,
  /// a guess from SIFT alone, raised 0.965 to 0.981 at 0.3 where 0.985 was wanted.
  void WidenCells() {
    const std::uint64_t more = options_.recall.value_or(kDefaultRecall) > kDefaultRecall ? 6 : 3;
    params_.nprobe = static_cast<std::uint32_t>(std::min(more * params_.nprobe, context_.n1));
    params_.ef_l1 *= 3;
  }

  const SearchParams& options_;
  const SearchContext& context_;
  ResolvedParams params_;
};

absl::Status CheckIndexHas(const ResolvedParams& params, const SearchContext& context) {
  if (params.epsilon.has_value() && !context.has_ratios) {
    return FailedPrecondition(
        "epsilon: expected -1, since inner products have either sign and no multiples of a "
        "distance");
  }
  if (params.mode == SearchMode::kQuantized && !context.has_codes) {
    return FailedPrecondition(
        "mode: quantized needs an index with codes, and this one has none: build it with --bits 2");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SearchParams::Validate(std::uint64_t n) const {
  if (k == 0) return InvalidArgument("k: expected at least 1, found 0");
  if (k > n)
    return InvalidArgument("k: expected at most the ", n, " vectors of the index, found ", k);
  if (k > kMaxEf) return InvalidArgument("k: expected at most ", kMaxEf, ", found ", k);
  for (const ParamInfo& param : ParamTable()) {
    if (const std::optional<double> value = param.requested(*this); value.has_value())
      HMANN_RETURN_IF_ERROR(param.Check(*value));
  }
  if (budget.has_value() && budget->count() <= 0)
    return InvalidArgument("budget_us: expected at least 1, found 0");
  if (max_distance.has_value() && std::isnan(*max_distance))
    return InvalidArgument("max_distance: expected a number, found NaN");
  if (has_target()) return CheckTarget(*this);
  return mode.has_value() ? CheckTaken(*this, *mode) : absl::OkStatus();
}

bool SearchParams::names_params() const {
  return std::any_of(ParamTable().begin(), ParamTable().end(), [this](const ParamInfo& param) {
    return !param.with_target && param.requested(*this).has_value();
  });
}

bool SearchParams::VisitsAll(const SearchContext& context) const {
  return context.n <= kFewVectors && !context.ef_scale.has_value() && !names_params();
}

std::uint64_t SearchParams::Matching(const SearchContext& context) const {
  return matches == nullptr ? context.matching : std::max<std::uint64_t>(matches->size(), 1);
}

SearchParams SearchParams::Widened(const SearchContext& context) const {
  SearchParams wide = *this;
  wide.max_distance.reset();
  wide.matches = nullptr;
  const std::uint64_t size = Matching(context), n = context.n;
  if (size > 0)
    wide.k =
        static_cast<std::uint32_t>(std::min({(k * n + size - 1) / size, n, std::uint64_t{kMaxEf}}));
  return wide;
}

namespace {

/// Sets the epsilon of a search for k, 2 k, 4 k ... of all vectors, up to that of `wide`;
/// for 1, 2, 4 ... if a distance may end it before it has k.
absl::Status SetRankEpsilon(const SearchParams& options, const SearchParams& wide,
                            const SearchContext& context, ResolvedParams& params) {
  SearchParams of_rank = wide;
  of_rank.k = options.max_distance.has_value() ? 1 : options.k;
  for (EpsilonLine& epsilon : params.rank_epsilon) {
    if (of_rank.k >= wide.k) break;
    HMANN_ASSIGN_OR_RETURN(const ResolvedParams resolved, of_rank.Resolve(context));
    epsilon = resolved.epsilon.has_value() ? resolved.Epsilon() : params.Epsilon();
    ++params.rank_steps;
    of_rank.k *= 2;
  }
  if (params.rank_steps < kRankSteps) params.rank_epsilon[params.rank_steps++] = params.Epsilon();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ResolvedParams> SearchParams::Resolve(const SearchContext& context) const {
  HMANN_RETURN_IF_ERROR(Validate(context.n));
  if (matches != nullptr) {
    if (matches->n() != context.n) {
      return InvalidArgument("matches: expected those of ", context.n, " vectors, found ",
                             matches->n());
    }
    if (matches->content_hash() != context.content_hash)
      return InvalidArgument("matches: made for another index of ", context.n, " vectors");
  }
  if (Matching(context) > 0 || max_distance.has_value()) {
    const SearchParams wide = Widened(context);
    SearchContext of_matches = context;
    of_matches.scanned = Matching(context);
    of_matches.matching = 0;
    HMANN_ASSIGN_OR_RETURN(ResolvedParams params, wide.Resolve(of_matches));
    if (params.mode == SearchMode::kGraph && !epsilon.has_value() && params.epsilon.has_value())
      HMANN_RETURN_IF_ERROR(SetRankEpsilon(*this, wide, of_matches, params));
    if (params.mode == SearchMode::kQuantized && params.nprobe == 0 && !nprobe.has_value() &&
        matches != nullptr) {
      // Search from cells, as on a device: links of non-matching nodes are not followed.
      of_matches.block_tier = true;
      HMANN_ASSIGN_OR_RETURN(params, wide.Resolve(of_matches));
    }
    params.k = k;
    params.matches = matches;
    params.max_distance = max_distance;
    return params;
  }
  Resolution resolution(*this, context);
  HMANN_RETURN_IF_ERROR(CheckTaken(*this, resolution.mode()));
  const ResolvedParams params = resolution.Run();
  HMANN_RETURN_IF_ERROR(CheckIndexHas(params, context));
  return params;
}

Calibration::Way WayOf(const ResolvedParams& params, const SearchContext& context) {
  return {params.mode, params.nprobe > 0, context.scalar_bits};
}

SearchParams ParamsOf(const ResolvedParams& params) {
  SearchParams options;
  options.k = params.k;
  for (const ParamInfo& param : ParamTable()) {
    if (const std::optional<double> value = Running(param, params); value.has_value())
      param.ask(options, *value);
  }
  return options;
}

}  // namespace hmann
