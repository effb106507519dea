#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/info.h"
#include "hmann/progress.h"

namespace hmann {

constexpr float kDefaultAlpha = 1.2f;

/// How L0 and L1 are made. Insertion: Algorithm 1, node by node, each searched for in the
/// graph of those before. Partition: overlapping leaves of vectors near each other,
/// compared all with all; of L1, what is below the highest ranks.
enum class BuildMethod : std::uint8_t { kInsertion, kPartition };
std::string_view Name(BuildMethod method);  ///< "insertion", "partition"
absl::StatusOr<BuildMethod> ParseBuildMethod(std::string_view name);
/// What graphs are made by if nobody says: partition, but of integers under inner product
/// insertion, which measures better there.
BuildMethod DefaultMethod(DType dtype, Metric metric);

/// Vectors in the caller's memory, which must stay as they are until Build returns.
struct VectorsInMemory {
  const void* data = nullptr;  ///< dim components a row, unaligned; nullptr: there are none
  DType dtype = DType::kF32;
  std::uint32_t dim = 0;
  std::uint64_t n = 0;
  std::uint64_t stride = 0;  ///< bytes from row to row
};

struct BuildOptions {
  std::string base;  ///< vector file, any format of datasets/
  std::string out;   ///< index file to write
  Metric metric = Metric::kL2;
  std::uint64_t rows = 0;  ///< first rows only; 0: all
  /// Of the stored vectors: that of `base`, or f16 of an f32 base (see EncodeRow).
  std::optional<DType> dtype;
  std::optional<BuildMethod> method;  ///< default: DefaultMethod
  std::uint32_t m = 16;               ///< M; M_0 = M_1 = 2M
  std::uint32_t ef_construction = 100;
  float alpha = kDefaultAlpha;  ///< 1 to 2; of L0 and L1, see NeighbourSelector; 1, and under inner
                                ///< product: HNSW's links, not refined
  /// Default: 0.16, 2 and 1; of from_index as it has them.
  std::optional<double> promote;          ///< N_1 / N in (0, 1)
  std::optional<std::uint32_t> bits;      ///< per dimension of a code, 1, 2 or 4; 0: no codes
  std::optional<std::uint32_t> replicas;  ///< cells that a node is listed in, 1 or 2
  int threads = 0;                        ///< 0: UsableCores()
  std::uint64_t seed = 1;
  /// Memory that the build may take, bytes; 0: as much as there is. Needs `work`, and
  /// partition; from vectors or a finished index. The index is the same.
  std::uint64_t memory = 0;
  std::string work;        ///< folder for what does not fit; an interrupted build goes on in it
  bool keep_work = false;  ///< leave the folder when the index is written
  /// Processes that help a bounded build, all within `memory`; 0: none but this. They are
  /// `worker_program` build-job, which must be the hmann of this version.
  int workers = 0;
  std::string worker_program;
  std::string labels;        ///< optional file of n u64, or .ivecs/.ibin with dim 1
  std::string from_hnswlib;  ///< finished graph to promote instead of inserting
  std::string from_faiss;
  /// Instead of base: a finished index of our own, whose L0 gets upper layers (with its
  /// own m, ef_construction, alpha and seed) and codes anew; may be `out`.
  std::string from_index;
  VectorsInMemory vectors;                      ///< instead of base
  std::span<const std::uint64_t> label_values;  ///< instead of labels: n of them, not owned
  const std::atomic<bool>* cancelled =
      nullptr;  ///< not owned; Build returns CANCELLED soon after it becomes true

  absl::Status Validate() const;
  /// That the index can be written where it shall be: better known before the work than
  /// after it. Errors: INVALID_ARGUMENT for an input or a folder; those of
  /// AtomicFile::Create.
  absl::Status CheckOut() const;
};

struct BuildReport {
  std::vector<PhaseTime> phases;  ///< in order, "total" last
  std::uint64_t peak_rss_bytes = 0;
  std::uint64_t peak_anonymous_bytes = 0;  ///< of memory that no file backs, sampled
  std::uint64_t work_bytes = 0;            ///< of the work folder, at the most
  int threads = 0;
  double reachable_share =
      0;  ///< nodes of L0 reachable from the entry point; 1 unless something is wrong
  std::uint64_t repaired_nodes = 0;
  /// Inner product over f32: the promoted are those of the largest norm, since these were
  /// seen to hold more of the answers than those of the highest degree.
  bool promoted_by_norm = false;
  std::uint64_t duplicates = 0;  ///< vectors equal to an earlier one
  double self_recall_at_1 =
      0;  ///< share of a sample of its own vectors that find themselves (ties count)
  std::uint64_t self_recall_sample = 0;
  double degree_mean = 0;  ///< D(v) over L0
  std::uint64_t degree_p99 = 0;
  std::uint64_t degree_max = 0;
  IndexInfo info;
};

}  // namespace hmann
