#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "index/tune/tuner.h"

namespace hmann {

/// Standard errors between a mean recall and its lower bound: one-sided 95 %.
constexpr double kRecallZ = 1.645;
/// Of a round of one setting, microseconds.
constexpr double kRoundUs = 6e3;

/// How many queries of a setting a round takes.
inline std::uint64_t QueriesOfRound(double us, double round_us) {
  return static_cast<std::uint64_t>(std::clamp(round_us / std::max(us, 0.1), 4.0, 400.0));
}

/// A setting with what all learning queries, or some of them, found at it.
struct Brought {
  Dials dials{};
  Counted counted{};
};

/// Times all of `brought` in alternating rounds, from learning query `first_query` on,
/// and keeps in `tuned` those that no other beats; the one near the default recall is
/// timed twice, for Tuned::same_again. Errors: those of the runs.
absl::Status TimeFront(const TuningRuns& runs, std::span<const Brought> brought,
                       std::uint64_t first_query, Tuned& tuned);

}  // namespace hmann
