#include "hmann/counters.h"

namespace hmann {

std::span<const CounterName> CounterNames() {
  static constexpr CounterName kNames[] = {
      {"distances_fast", &Counters::distances_fast},
      {"distances_slow", &Counters::distances_slow},
      {"estimates", &Counters::estimates},
      {"node_reads", &Counters::node_reads},
      {"node_accesses", &Counters::node_accesses},
      {"node_bytes", &Counters::node_bytes},
      {"hops", &Counters::hops},
      {"fetched_ahead", &Counters::fetched_ahead},
      {"fetched_ahead_used", &Counters::fetched_ahead_used},
      {"fetched_ahead_late", &Counters::fetched_ahead_late},
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
  longest_distances += other.longest_distances;
  longest_accesses += other.longest_accesses;
  return *this;
}

}  // namespace hmann
