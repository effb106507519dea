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
constexpr double kDefaultPromote = 0.16;  ///< the paper's rate for BIGANN with 96 GB

/// How L0 and L1 are built. Insertion: Algorithm 1, node by node; each node is searched
/// for in the graph of the nodes inserted before it. Partition: overlapping leaves of
/// nearby vectors, compared all with all; in L1, this covers the nodes below the highest
/// ranks.
enum class BuildMethod : std::uint8_t { kInsertion, kPartition };
std::string_view Name(BuildMethod method);  ///< "insertion", "partition"
absl::StatusOr<BuildMethod> ParseBuildMethod(std::string_view name);
/// The default method: partition, except insertion for integers under inner product,
/// where insertion measures better.
BuildMethod DefaultMethod(DType dtype, Metric metric);
/// The default M: 24 for vectors of more than 384 bytes, twice those of 48 links of 32
/// bits, else 16. At recall@10 of 0.95 and 0.99, 24 links answered 1.06 and 1.14 times
/// the queries per second on text of 512 dimensions (sentences: 1.08, 1.30), 1.10 and
/// 1.08 on 768, 1.03 and 1.36 on GloVe, 1.0 on Fashion-MNIST (Zen 5). The file grew by
/// 0.4 to 5 %. The border is a guess.
std::uint32_t DefaultM(DType dtype, std::uint32_t dim);

/// Vectors in the caller's memory. They must stay unchanged until Build returns.
struct VectorsInMemory {
  const void* data = nullptr;  ///< dim components per row, unaligned; nullptr: no vectors
  DType dtype = DType::kF32;
  std::uint32_t dim = 0;
  std::uint64_t n = 0;
  std::uint64_t stride = 0;  ///< bytes from one row to the next
};

struct BuildOptions {
  std::string base;  ///< vector file, any format of datasets/
  std::string out;   ///< index file to write
  Metric metric = Metric::kL2;
  std::uint64_t rows = 0;  ///< number of leading rows to use; 0: all
  /// Type of the stored vectors: that of `base`, or f16 for an f32 base (see EncodeRow).
  std::optional<DType> dtype;
  std::optional<BuildMethod> method;  ///< default: DefaultMethod
  std::optional<std::uint32_t> m;     ///< M; M_0 = M_1 = 2M; default: DefaultM
  std::uint32_t ef_construction = 100;
  /// 1 to 2; for L0 and L1, see NeighborSelector. At 1, and under inner product: the
  /// links of HNSW, not refined.
  float alpha = kDefaultAlpha;
  /// Default: 0.16, 2 and 1; with from_index, the values of that index.
  std::optional<double> promote;  ///< N_1 / N in (0, 1)
  /// Bits per dimension of a code: 1, 2 or 4; 0: no codes.
  std::optional<std::uint32_t> bits;
  std::optional<std::uint32_t> replicas;  ///< cells that list each node: 1 or 2
  int threads = 0;                        ///< 0: UsableCores()
  std::uint64_t seed = 1;
  /// Ranks nodes at random instead of by degree: what `hmann eval paper` compares with.
  bool rank_at_random = false;
  /// Memory that the build may use, in bytes; 0: no limit. A limit needs `work` and the
  /// partition method, and either vectors or a finished index as input. The index is the
  /// same with or without a limit.
  std::uint64_t memory = 0;
  /// Folder for data that does not fit in memory. An interrupted build resumes from it.
  std::string work;
  bool keep_work = false;  ///< keep the folder after the index is written
  /// Additional processes for a build with a memory limit; all share `memory`. 0: only
  /// this process. They run `worker_program` build-job, which must be hmann of the same
  /// version.
  int workers = 0;
  std::string worker_program;
  std::string labels;        ///< optional file of n u64, or .ivecs/.ibin with dim 1
  std::string from_hnswlib;  ///< finished graph to promote, instead of building one
  std::string from_faiss;
  /// Instead of base: a finished hmann index. Its L0 gets new upper layers (with the m,
  /// ef_construction, alpha and seed of that index) and new codes. May equal `out`.
  std::string from_index;
  VectorsInMemory vectors;  ///< instead of base
  /// Instead of labels: n values, not owned.
  std::span<const std::uint64_t> label_values;
  /// Not owned. Build returns CANCELLED soon after it becomes true.
  const std::atomic<bool>* cancelled = nullptr;
  /// Not owned. While it is true, Build works for a third of the time.
  const std::atomic<bool>* slowed = nullptr;

  absl::Status Validate() const;
  /// Checks that the output can be written, so that a failure shows before the work and
  /// not after it. Errors: INVALID_ARGUMENT if it is an input or a folder; those of
  /// AtomicFile::Create.
  absl::Status CheckOut() const;
};

struct BuildReport {
  /// In order, then "total", and of Build "calibrate" and "attributes".
  std::vector<PhaseTime> phases;
  std::uint64_t peak_rss_bytes = 0;
  std::uint64_t peak_anonymous_bytes = 0;  ///< memory not backed by a file; sampled
  std::uint64_t work_bytes = 0;            ///< peak size of the work folder
  int threads = 0;
  /// Share of L0 nodes reachable from the entry point; below 1 something is wrong.
  double reachable_share = 0;
  std::uint64_t repaired_nodes = 0;
  /// Inner product over f32: the vectors of largest norm were promoted. They were
  /// measured to contain more of the answers than the nodes of highest degree.
  bool promoted_by_norm = false;
  std::uint64_t duplicates = 0;  ///< vectors equal to an earlier vector
  /// Share of a sample of the indexed vectors that find themselves (ties count).
  double self_recall_at_1 = 0;
  std::uint64_t self_recall_sample = 0;
  double degree_mean = 0;  ///< mean of D(v) over L0
  std::uint64_t degree_p99 = 0;
  std::uint64_t degree_max = 0;
  /// What the build assumed and its user may have meant otherwise; a line each.
  std::vector<std::string> notes;
  IndexInfo info;
};

}  // namespace hmann
