#include "index/search/options.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "index/base/status_macros.h"

namespace hmann {

std::string_view Name(Walk walk) {
  switch (walk) {
    case Walk::kBeams:
      return "beams";
    case Walk::kPool:
      return "pool";
    case Walk::kGated:
      return "gated";
    default:
      return "default";
  }
}

absl::StatusOr<Walk> ParseWalk(std::string_view name) {
  for (Walk walk : {Walk::kDefault, Walk::kBeams, Walk::kPool, Walk::kGated}) {
    if (name == Name(walk)) return walk;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("walk: expected beams, pool or gated, found '", absl::string_view(name.data(), name.size()), "'"));
}

std::string_view Name(Prefetch prefetch) {
  constexpr std::string_view kNames[] = {"ahead", "off", "round", "helper"};
  return kNames[static_cast<std::size_t>(prefetch)];
}

absl::StatusOr<Prefetch> ParsePrefetch(std::string_view name) {
  for (Prefetch prefetch : {Prefetch::kAhead, Prefetch::kOff, Prefetch::kRound, Prefetch::kHelper}) {
    if (name == Name(prefetch)) return prefetch;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("prefetch: expected ahead, off, round or helper, found '", absl::string_view(name.data(), name.size()), "'"));
}

absl::Status SearchOptions::Validate(std::uint64_t n) const {
  if (k == 0) return absl::InvalidArgumentError("k: expected at least 1, found 0");
  if (k > n) return absl::InvalidArgumentError(absl::StrCat("k: expected at most the ", n, " vectors of the index, found ", k));
  if (k > kMaxEf) return absl::InvalidArgumentError(absl::StrCat("k: expected at most ", kMaxEf, ", found ", k));
  if (ef_l1 > kMaxEf) return absl::InvalidArgumentError(absl::StrCat("ef_l1: expected at most ", kMaxEf, ", found ", ef_l1));
  if (ef_l0 < -1 || ef_l0 > kMaxEf) {
    return absl::InvalidArgumentError(absl::StrCat("ef_l0: expected 0 to ", kMaxEf, ", found ", ef_l0));
  }
  if (cells < -1 || cells > kMaxEf) return absl::InvalidArgumentError(absl::StrCat("cells: expected 0 to ", kMaxEf, ", found ", cells));
  if (width > kMaxWidth) return absl::InvalidArgumentError(absl::StrCat("width: expected at most ", kMaxWidth, ", found ", width));
  if (walk == Walk::kPool && width > kMaxPoolWidth) {
    return absl::InvalidArgumentError(absl::StrCat("width: expected at most ", kMaxPoolWidth, " for the pool walk, found ", width));
  }
  if (!(stop == -1 || (stop >= 0 && stop <= 1e6f))) {
    return absl::InvalidArgumentError(absl::StrCat("stop: expected 0 to 1e6, found ", stop));
  }
  if (!(reach == -1 || reach == 0 || (reach >= 1 && reach <= 1e6f))) {
    return absl::InvalidArgumentError(absl::StrCat("reach: expected 0, or 1 to 1e6, found ", reach));
  }
  if (query_threads < 1 || query_threads > 64) {
    return absl::InvalidArgumentError(absl::StrCat("query_threads: expected 1 to 64, found ", query_threads));
  }
  return absl::OkStatus();
}

namespace {

/// Width in L0 of a walk that `reach` ends: what the hardest queries may take.
constexpr std::int64_t kMostOfReach = 200;

/// Where the user leaves open how long a walk goes on, and nothing else ends it. The more neighbours are asked for, the less far beyond the
/// last of them lies what leads to one: on 1M SIFT vectors 1.45, 1.18 and 1.07 give a recall of about 0.97 for k = 1, 10 and 100.
void ResolveReach(const SearchContext& context, bool has_other_end, SearchOptions& options) {
  const bool is_open = options.ef_l0 < 0;
  if (options.reach < 0) {
    options.reach = is_open && !has_other_end && context.has_ratios ? 1 + 0.45f * std::pow(static_cast<float>(options.k), -0.4f) : 0;
  }
  if (is_open && options.reach > 0) options.ef_l0 = std::max(kMostOfReach, 4 * static_cast<std::int64_t>(options.k));
}

/// The gated walk's dials where the user gave none.
void ResolveGated(const SearchContext& context, SearchOptions& options) {
  const auto n1 = static_cast<std::int64_t>(context.n1);
  // A device answers a round as late as an instruction a thousand cells: there cells take the place of the way through the graph.
  if (options.cells < 0) options.cells = context.block_tier && context.has_cells ? std::max<std::int64_t>(128, 4 * options.k) : 0;
  options.cells = std::min(options.cells, n1);
  if (options.ef_l1 == 0) options.ef_l1 = std::max<std::uint32_t>({16, options.k, static_cast<std::uint32_t>(options.cells / 2)});
  ResolveReach(context, options.cells > 0, options);
  if (options.ef_l0 < 0)
    options.ef_l0 = options.cells > 0 ? std::max<std::int64_t>(30, 2 * options.k) : std::max<std::int64_t>(48, 3 * options.k);
  if (options.ef_l0 > 0) options.ef_l0 = std::max<std::int64_t>(options.ef_l0, options.k);
  if (options.width == 0) options.width = context.block_tier ? 16 : 8;
  // With cells the pool is full of estimates from the start; and without a walk along links something must say when to stop reading.
  if (options.stop < 0 && (options.cells > 0 || options.ef_l0 == 0)) options.stop = 1.5f;
}

}  // namespace

SearchOptions SearchOptions::Resolved(const SearchContext& context) const {
  SearchOptions resolved = *this;
  if (walk == Walk::kDefault) {
    // Sketches of the nodes pay where a record is far; those of the links everywhere: a third more QPS than the pool on 96-d f32 in DRAM.
    const bool gates_pay = context.block_tier || context.far || !context.has_cells;
    resolved.walk = context.has_sketches && gates_pay && ef_l0 != 0 ? Walk::kGated : Walk::kPool;
  }
  if (resolved.walk == Walk::kGated) {
    ResolveGated(context, resolved);
  } else {
    resolved.ResolveUngated(context);
  }
  resolved.ef_l0 = std::min<std::int64_t>(resolved.ef_l0, static_cast<std::int64_t>(context.n));
  if (context.n1 > 0) resolved.ef_l1 = static_cast<std::uint32_t>(std::min<std::uint64_t>(resolved.ef_l1, context.n1));
  return resolved;
}

void SearchOptions::ResolveUngated(const SearchContext& context) {
  const bool pool = walk == Walk::kPool;
  if (pool) {
    ResolveReach(context, false, *this);
  } else {
    reach = 0;
  }
  // Ended by `reach`, a pool is searched for speed; by its width alone, as Algorithm 3 says. One candidate of a beam leads to the next.
  if (!pool) width = 1;
  if (width == 0) width = reach > 0 ? 2 : 1;
  width = std::min(width, kMaxPoolWidth);
  if (ef_l1 == 0) ef_l1 = pool ? 4 : std::max(32u, 4 * k);
  if (ef_l0 < 0) ef_l0 = pool ? std::max(64u, 2 * k) : 2;
  if (ef_l0 == 0) {
    ef_l1 = std::max<std::uint32_t>(ef_l1, static_cast<std::uint32_t>(std::min<std::uint64_t>(k, context.n1)));
    if (k > context.n1) {
      walk = Walk::kPool;
      ef_l0 = k;
    }
  } else if (pool) {
    ef_l0 = std::max<std::int64_t>(ef_l0, k);
  }
}

absl::Status SearchOptions::CheckWalk(const SearchContext& context) const {
  if (reach > 0 && !context.has_ratios) {
    return absl::FailedPreconditionError("reach: expected 0, since inner products have either sign and no multiples of a distance");
  }
  if (walk != Walk::kGated) return absl::OkStatus();
  if (!context.has_sketches) {
    return absl::FailedPreconditionError(
        "walk: gated needs an index with sketches, and this one has none: build it with --codes hub or --codes edge");
  }
  if (context.has_cells || (cells == 0 && stop < 0 && ef_l0 > 0)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "cells, stop and ef_l0 = 0 need sketches by hub, and this index has those of links: build it with --codes hub");
}

absl::StatusOr<SearchOptions> SearchOptions::CheckedFor(const SearchContext& context) const {
  HMANN_RETURN_IF_ERROR(Validate(context.n));
  const SearchOptions resolved = Resolved(context);
  HMANN_RETURN_IF_ERROR(resolved.CheckWalk(context));
  return resolved;
}

std::span<const CounterName> CounterNames() {
  static constexpr CounterName kNames[] = {
      {"distances_fast", &Counters::distances_fast},
      {"distances_slow", &Counters::distances_slow},
      {"sketches", &Counters::sketches},
      {"slow_reads", &Counters::slow_reads},
      {"slow_touches", &Counters::slow_touches},
      {"slow_bytes", &Counters::slow_bytes},
      {"rounds", &Counters::rounds},
      {"migrated", &Counters::migrated},
      {"migrated_used", &Counters::migrated_used},
      {"migrated_late", &Counters::migrated_late},
      {"io_reads", &Counters::io_reads},
      {"io_bytes", &Counters::io_bytes},
      {"cache_hits", &Counters::cache_hits},
      {"expanded_l1", &Counters::expanded_l1},
      {"expanded_l0", &Counters::expanded_l0},
  };
  return kNames;
}

Counters& Counters::operator+=(const Counters& other) {
  for (const CounterName& counter : CounterNames()) this->*counter.value += other.*counter.value;
  return *this;
}

}  // namespace hmann
