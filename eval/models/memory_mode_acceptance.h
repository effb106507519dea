/// The traces by which the models of Memory Mode are accepted, beside what the study that
/// they follow gives. memory_mode_test holds and prints them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "eval/models/memory_mode.h"

namespace hmann::eval {

/// A row of table 2.2: one request in a state that a few requests before it have made.
struct RequestRow {
  std::string request;  ///< "read miss, victim dirty"
  MemoryAccesses expected, measured;
};

/// Seven micro-traces over the direct-mapped model, or the fully associative one, of one
/// line.
std::vector<RequestRow> RequestTable(bool fully_associative = false);

/// A longer trace boiled down to a number.
struct AcceptanceRow {
  std::string trace;  ///< "read loop over 0.27 C: accesses per read"
  double expected = 0, measured = 0;
  double tolerance = 0;  ///< 0 where no chance is involved
};

/// Loops, passes of one kind after the other, aliases, and hit rates of random lines, all
/// on the direct-mapped model. A second at most.
std::vector<AcceptanceRow> AcceptanceList(std::uint64_t seed);

}  // namespace hmann::eval
