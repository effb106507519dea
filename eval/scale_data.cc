#include "eval/scale_data.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "datasets/exact_neighbours.h"
#include "datasets/ground_truth.h"
#include "datasets/resample.h"
#include "index/base/cpu.h"
#include "index/base/status_macros.h"
#include "index/construct/near_rows.h"

namespace hmann {
namespace {

/// ".u8bin": what vectors of a dtype are written as.
std::string Suffix(DType dtype) {
  return dtype == DType::kF32   ? ".fbin"
         : dtype == DType::kF16 ? ".f16bin"
         : dtype == DType::kU8  ? ".u8bin"
                                : ".i8bin";
}

/// Whether the file holds what it would be made to hold; it appears whole or not at all.
bool Holds(const std::string& path, std::uint64_t rows) {
  const absl::StatusOr<VectorFile> file = VectorFile::Open(path);
  return file.ok() && file->n() == rows;
}

/// Base and queries of the held-out rows, of the same near rows.
absl::Status MakeUp(const ContestantJob& job, const VectorFile& real, std::uint64_t n,
                    const std::string& base, const std::string& queries, std::uint64_t query_count,
                    Progress& progress) {
  if (Holds(base, n) && Holds(queries, query_count)) return absl::OkStatus();
  ResampleOptions resample;
  resample.n = n;
  resample.threads = job.threads;
  resample.cancelled = job.cancelled;
  HMANN_RETURN_IF_ERROR(resample.Validate(real));
  ThreadPool pool(resample.threads > 0 ? resample.threads : UsableCores());
  progress.Start("near rows", 0, "rows");
  HMANN_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> near,
                         NearRows(real, resample.near, {pool, progress, job.cancelled}));
  HMANN_RETURN_IF_ERROR(Resample(real, near, resample, base, progress));
  resample.n = query_count;
  resample.queries = true;
  return Resample(real, near, resample, queries, progress);
}

absl::StatusOr<GroundTruth> Truth(const ContestantJob& job, const VectorFile& base,
                                  const VectorFile& queries, const std::string& path,
                                  Progress& progress) {
  ExactOptions exact;
  exact.metric = job.metric;
  exact.k = static_cast<std::uint32_t>(std::min<std::uint64_t>(std::max(job.k, 100u), base.n()));
  exact.threads = job.threads;
  exact.cancelled = job.cancelled;
  if (absl::StatusOr<GroundTruth> kept = ReadGroundTruth(path);
      kept.ok() && kept->n == queries.n() && kept->k == exact.k)
    return kept;
  HMANN_ASSIGN_OR_RETURN(ExactReport report, ExactNeighbours(base, queries, exact, progress));
  HMANN_RETURN_IF_ERROR(WriteGroundTruth(path, report.truth));
  return std::move(report.truth);
}

}  // namespace

absl::StatusOr<SizedData> PrepareSize(const ContestantJob& job, const VectorFile& real,
                                      std::uint64_t n, const std::string& folder,
                                      Progress& progress, const Say& say) {
  const std::string suffix = Suffix(real.dtype());
  SizedData data;
  data.base = job.base;
  data.queries = job.queries;
  data.made_up = n > real.n();
  HMANN_ASSIGN_OR_RETURN(VectorFile queries, VectorFile::Open(job.queries, job.query_rows));
  HMANN_RETURN_IF_ERROR(queries.CheckShape(real.dim(), real.dtype(), job.base));
  data.query_rows = queries.n();
  if (data.made_up) {
    data.base = absl::StrCat(folder, "/base", suffix);
    data.queries = absl::StrCat(folder, "/query", suffix);
    say(absl::StrCat("  vectors made up out of ", job.base));
    HMANN_RETURN_IF_ERROR(MakeUp(job, real, n, data.base, data.queries, data.query_rows, progress));
    HMANN_ASSIGN_OR_RETURN(queries, VectorFile::Open(data.queries));
  }
  say("  exact neighbours");
  HMANN_ASSIGN_OR_RETURN(const VectorFile base, VectorFile::Open(data.base, n));
  data.truth = absl::StrCat(folder, "/query.gt");
  HMANN_ASSIGN_OR_RETURN(const GroundTruth truth, Truth(job, base, queries, data.truth, progress));
  if (const std::optional<Density> density = DensityOf(truth))
    data.density = {{"tenth", density->tenth}, {"intrinsic_dim", density->intrinsic_dim}};
  return data;
}

}  // namespace hmann
