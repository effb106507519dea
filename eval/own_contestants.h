#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "eval/contestant.h"
#include "hmann/distance.h"

namespace hmann::eval {

/// The contestants that come with hmann: "hmann", "hmann-batch" (four queries of the
/// thread in flight at once, as for clients that send many), "hmann-aa" (as "hmann", in a
/// second process: what differs is the machine's noise), "hmann-insertion" (its graphs
/// made by insertion, whatever the default), "hnswlib" (float), "hnswlib-u8" (its integer
/// distance; u8 under L2 only), "faiss" (HNSW over floats), "faiss-sq8" (HNSW over 8 bits
/// a dimension, the best measured again), "faiss-ivfpq" (inverted lists of product codes
/// in fast-scan order, likewise), and for `hmann eval tiers` "hnsw-tiers" (HNSW over two
/// memories, in hnswlib's own order). Their programs are looked for in
/// $HMANN_ADAPTER_DIR, then beside this program, where build and installation put them,
/// then in the build tree's libexec/hmann, for tests. `build_of_hmann`: build settings of
/// those of hmann. Errors: INVALID_ARGUMENT for another name; NOT_FOUND naming the
/// folders.
absl::StatusOr<ContestantSpec> OwnContestant(const std::string& name,
                                             const Json& build_of_hmann = Json::object());

/// Those of them that can take part with such data.
std::vector<std::string> OwnContestantNames(DType dtype, Metric metric);

/// hmann on an index that stands: `build` is {"index": FILE} with how it is opened, or
/// {"server": ADDRESS, "index": NAME} with how it is reached (the adapters' headers).
/// Errors: NOT_FOUND, as OwnContestant.
absl::StatusOr<ContestantSpec> FinishedContestant(const std::string& name, const Json& build);

/// For a limit of memory: hmann on tier nvme, a curve a walk, and the same once more
/// ("hmann again").
std::vector<ContestantSpec> OnDrive(ContestantSpec hmann);
/// And hnswlib on a mapped file, by its integer distance where the data is u8 under L2.
/// Errors: NOT_FOUND, as OwnContestant.
absl::StatusOr<ContestantSpec> MappedHnswlib(DType dtype, Metric metric);

/// "NAME=COMMAND": a program that speaks adapters/PROTOCOL.md, with whatever arguments of
/// its own, as a shell would read it. Errors: INVALID_ARGUMENT when either side is empty.
absl::StatusOr<ContestantSpec> ForeignContestant(const std::string& text);

}  // namespace hmann::eval
