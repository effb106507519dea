#include "eval/benchmark_data.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "datasets/toolbox/exact_neighbors.h"
#include "eval/adapters/build_cache.h"
#include "index/base/checksum.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"

namespace hmann::eval {
absl::StatusOr<std::optional<VectorFile>> OpenBase(const Benchmark& options, DataShape* shape) {
  const BenchmarkData& job = options.job;
  if (job.base.empty()) {
    if (!options.shape || options.groundtruth.empty()) {
      return InvalidArgument(
          "base: expected a file, as the exact neighbors are to be computed, or groundtruth "
          "next to a finished index; found neither");
    }
    *shape = *options.shape;
    return std::nullopt;
  }
  HMANN_ASSIGN_OR_RETURN(VectorFile base, VectorFile::Open(job.base, job.rows));
  *shape = {base.n(), base.dim(), base.dtype()};
  if (options.shape) {
    HMANN_RETURN_IF_ERROR(
        base.CheckShape(options.shape->dim, options.shape->dtype, "the finished index"));
    if (options.shape->n != base.n()) {
      return InvalidArgument(
          job.base, ": expected ", options.shape->n, " rows, as the finished index has, found ",
          base.n(), " (--rows takes the first ones; a base that has changed needs a new index)");
    }
  }
  return base;
}

absl::StatusOr<GroundTruth> FindTruth(const Benchmark& options,
                                      const std::optional<VectorFile>& opened,
                                      const VectorFile& queries, Progress& progress,
                                      const Say& say) {
  if (!options.groundtruth.empty()) return ReadGroundTruth(options.groundtruth);
  const VectorFile& base = *opened;
  const BenchmarkData& job = options.job;
  ExactOptions exact;
  exact.metric = job.metric;
  exact.k = static_cast<std::uint32_t>(std::min<std::uint64_t>(std::max(job.k, 100u), base.n()));
  exact.threads = job.threads;
  exact.cancelled = job.cancelled;
  const std::string key =
      absl::StrCat(FileKey(job.base), job.rows, "|", FileKey(job.queries), job.query_rows, "|",
                   std::string(Name(job.metric)), "|", exact.k);
  HMANN_RETURN_IF_ERROR(MakeFolders(job.work));
  const std::string path =
      absl::StrFormat("%s/groundtruth-%016x.gt", job.work, Checksum(key.data(), key.size()));
  if (absl::StatusOr<GroundTruth> kept = ReadGroundTruth(path); kept.ok()) return kept;
  say(absl::StrCat("ground truth: computing the exact ", exact.k, " neighbors, once (kept as ",
                   path, ")"));
  HMANN_ASSIGN_OR_RETURN(GroundTruth truth, ExactNeighbors(base, queries, exact, progress));
  HMANN_RETURN_IF_ERROR(WriteGroundTruth(path, truth));
  return truth;
}

}  // namespace hmann::eval
