#include "eval/benchmark_data.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "datasets/toolbox/exact_neighbors.h"
#include "eval/adapters/build_cache.h"
#include "index/base/checksum.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/make_attributes.h"

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

absl::StatusOr<std::vector<std::uint64_t>> FindMatches(Benchmark* benchmark, std::uint64_t n,
                                                       Progress& progress) {
  std::vector<std::uint64_t> rows;
  if (benchmark->filter.empty()) return rows;
  BenchmarkData& job = benchmark->job;
  benchmark->attrs.cancelled = job.cancelled;
  job.mask = job.folder + "/matches.mask";
  HMANN_ASSIGN_OR_RETURN(const Filter filter, Filter::Parse(benchmark->filter));
  HMANN_ASSIGN_OR_RETURN(const auto attributes,
                         AttributesOfRows(benchmark->attrs, n, job.mask, progress));
  HMANN_ASSIGN_OR_RETURN(const auto matches, attributes->Matching(filter));
  std::string mask((n + 7) / 8, '\0');
  for (std::uint64_t row = matches.Next(0); row < n; row = matches.Next(row + 1)) {
    rows.push_back(row);
    mask[row / 8] = static_cast<char>(mask[row / 8] | 1 << row % 8);
  }
  HMANN_RETURN_IF_ERROR(WriteTextFile(job.mask, mask));
  absl::StrAppend(&benchmark->title, " among ", rows.size(), " rows, ", filter.text());
  for (SystemSpec& spec : benchmark->systems) {
    if (!spec.keeps_several) continue;  // not hmann
    spec.build["filter"] = filter.text();
    if (!spec.build.contains("index"))
      spec.build.update({{"attrs", benchmark->attrs.from}, {"types", benchmark->attrs.types}});
  }
  return rows;
}

absl::StatusOr<GroundTruth> FindTruth(const Benchmark& options,
                                      const std::optional<VectorFile>& opened,
                                      const VectorFile& queries,
                                      const std::vector<std::uint64_t>& matches, Progress& progress,
                                      const Say& say) {
  if (!options.groundtruth.empty()) return ReadGroundTruth(options.groundtruth);
  const VectorFile& base = *opened;
  const BenchmarkData& job = options.job;
  ExactOptions exact;
  exact.metric = job.metric;
  exact.k = static_cast<std::uint32_t>(std::min<std::uint64_t>(std::max(job.k, 100u), base.n()));
  exact.threads = job.threads;
  exact.cancelled = job.cancelled;
  std::string key = absl::StrCat(FileKey(job.base), job.rows, "|", FileKey(job.queries),
                                 job.query_rows, "|", std::string(Name(job.metric)), "|", exact.k);
  if (!options.filter.empty()) {
    exact.among = [&](std::uint64_t) { return matches; };
    absl::StrAppend(&key, FileKey(options.attrs.from), options.attrs.types, "|", options.filter);
  }
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
