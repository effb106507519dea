/// The traces by which the models of Memory Mode are accepted, with the values of the
/// study that they follow. memory_mode_test checks and prints them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "eval/models/memory_mode.h"

namespace hmann::eval {

/// A row of table 2.2: one request, in a state that a few earlier requests have set up.
struct RequestRow {
  std::string request;  ///< "read miss, victim dirty"
  MemoryAccesses expected, measured;
};

/// Seven micro-traces over the direct-mapped or the fully associative model, of one line.
std::vector<RequestRow> RequestTable(bool fully_associative = false);

/// A longer trace reduced to one number.
struct AcceptanceRow {
  std::string trace;  ///< "read loop over 0.27 C: accesses per read"
  double expected = 0, measured = 0;
  double tolerance = 0;  ///< 0 if no chance is involved
};

/// Loops, consecutive passes of one kind, aliases, and hit rates of random lines, all on
/// the direct-mapped model. Takes a second at most.
std::vector<AcceptanceRow> AcceptanceList(std::uint64_t seed);

}  // namespace hmann::eval
