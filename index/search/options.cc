#include "index/search/options.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace hmann {

std::string_view Name(Walk walk) {
  switch (walk) {
    case Walk::kBeams:
      return "beams";
    case Walk::kPool:
      return "pool";
    default:
      return "default";
  }
}

absl::StatusOr<Walk> ParseWalk(std::string_view name) {
  for (Walk walk : {Walk::kDefault, Walk::kBeams, Walk::kPool}) {
    if (name == Name(walk)) return walk;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("walk: expected beams or pool, found '", absl::string_view(name.data(), name.size()), "'"));
}

absl::Status SearchOptions::Validate(std::uint64_t n) const {
  if (k == 0) return absl::InvalidArgumentError("k: expected at least 1, found 0");
  if (k > n) return absl::InvalidArgumentError(absl::StrCat("k: expected at most the ", n, " vectors of the index, found ", k));
  if (k > kMaxEf) return absl::InvalidArgumentError(absl::StrCat("k: expected at most ", kMaxEf, ", found ", k));
  if (ef_l1 > kMaxEf) return absl::InvalidArgumentError(absl::StrCat("ef_l1: expected at most ", kMaxEf, ", found ", ef_l1));
  if (ef_l0 < -1 || ef_l0 > kMaxEf) {
    return absl::InvalidArgumentError(absl::StrCat("ef_l0: expected 0 to ", kMaxEf, ", found ", ef_l0));
  }
  if (query_threads < 1 || query_threads > 64) {
    return absl::InvalidArgumentError(absl::StrCat("query_threads: expected 1 to 64, found ", query_threads));
  }
  return absl::OkStatus();
}

SearchOptions SearchOptions::Resolved(std::uint64_t n, std::uint64_t n1) const {
  SearchOptions resolved = *this;
  if (walk == Walk::kDefault) resolved.walk = Walk::kPool;
  const bool pool = resolved.walk == Walk::kPool;
  if (ef_l1 == 0) resolved.ef_l1 = pool ? 4 : std::max(32u, 4 * k);
  if (ef_l0 < 0) resolved.ef_l0 = pool ? std::max(64u, 2 * k) : 2;
  if (resolved.ef_l0 == 0) {
    resolved.ef_l1 = std::max<std::uint32_t>(resolved.ef_l1, static_cast<std::uint32_t>(std::min<std::uint64_t>(k, n1)));
    if (k > n1) {
      resolved.walk = Walk::kPool;
      resolved.ef_l0 = k;
    }
  } else if (pool) {
    resolved.ef_l0 = std::max<std::int64_t>(resolved.ef_l0, k);
  }
  resolved.ef_l0 = std::min<std::int64_t>(resolved.ef_l0, static_cast<std::int64_t>(n));
  if (n1 > 0) resolved.ef_l1 = static_cast<std::uint32_t>(std::min<std::uint64_t>(resolved.ef_l1, n1));
  return resolved;
}

Counters& Counters::operator+=(const Counters& other) {
  distances_fast += other.distances_fast;
  distances_slow += other.distances_slow;
  sketches += other.sketches;
  slow_reads += other.slow_reads;
  slow_touches += other.slow_touches;
  slow_bytes += other.slow_bytes;
  rounds += other.rounds;
  migrated += other.migrated;
  migrated_used += other.migrated_used;
  expanded_l1 += other.expanded_l1;
  expanded_l0 += other.expanded_l0;
  return *this;
}

}  // namespace hmann
