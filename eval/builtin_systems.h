#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "eval/system.h"
#include "hmann/distance.h"

namespace hmann::eval {

/// The systems that come with hmann:
/// - "hmann";
/// - "hmann-batch": four queries of the thread in flight, as for clients that send many;
/// - "hmann-aa": "hmann" in a second process; the difference is the machine's noise;
/// - "hmann-insertion": graphs made by insertion, whatever the default;
/// - "hnswlib" (float) and "hnswlib-u8" (its integer distance; u8 under L2 only);
/// - "faiss": HNSW over floats;
/// - "faiss-sq8": HNSW over 8 bits a dimension, the best reranked;
/// - "faiss-ivf": inverted lists of vectors, of bytes if they are u8;
/// - "faiss-ivfpq": inverted lists of product codes in fast-scan order, reranked;
/// - "faiss-nsg": NSG over floats;
/// - "faiss-imi": a multi-index over product codes of rotated vectors;
/// - "hnsw-tiers", for `hmann eval tiers`: HNSW over two memories, in hnswlib's order.
///
/// Their programs are searched for in $HMANN_ADAPTER_DIR, then next to this program (as
/// built or installed), then in the build tree's libexec/hmann, for tests.
/// `build_of_hmann`: build settings of the hmann systems. Errors: INVALID_ARGUMENT for
/// another name; NOT_FOUND naming the folders.
absl::StatusOr<SystemSpec> BuiltinSystem(const std::string& name,
                                         const Json& build_of_hmann = Json::object());

/// The builtin systems that can take part with such data.
std::vector<std::string> BuiltinSystemNames(DType dtype, Metric metric);

/// hmann on a finished index. `build` is {"index": FILE} with the options that open it,
/// or {"server": ADDRESS, "index": NAME} with the options that reach it (the adapters'
/// headers). Errors: NOT_FOUND, as BuiltinSystem.
absl::StatusOr<SystemSpec> FinishedSystem(const std::string& name, const Json& build);

/// Systems under a memory limit: hmann on tier nvme, one curve per mode, and the same
/// again ("hmann again").
std::vector<SystemSpec> OnDrive(SystemSpec hmann);
/// hnswlib on a mapped file, with its integer distance if the data is u8 under L2.
/// Errors: NOT_FOUND, as BuiltinSystem.
absl::StatusOr<SystemSpec> MappedHnswlib(DType dtype, Metric metric);

/// Parses "NAME=COMMAND": a program that speaks adapters/PROTOCOL.md, with its own
/// arguments, quoted as for a shell. Errors: INVALID_ARGUMENT if either side is empty.
absl::StatusOr<SystemSpec> ForeignSystem(const std::string& text);

}  // namespace hmann::eval
