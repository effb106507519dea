#include "eval/scale_data.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "datasets/exact_neighbours.h"
#include "datasets/ground_truth.h"
#include "datasets/vector_writer.h"
#include "index/base/cpu.h"
#include "index/base/status_macros.h"
#include "index/construct/near_rows.h"

namespace hmann {
namespace {

using Say = std::function<void(const std::string&)>;

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

absl::Status CopyRows(const VectorFile& from, std::uint64_t first, std::uint64_t rows,
                      const std::string& path) {
  if (Holds(path, rows)) return absl::OkStatus();
  HMANN_ASSIGN_OR_RETURN(VectorWriter writer, VectorWriter::Create(path, from.dim()));
  for (std::uint64_t i = first; i < first + rows; ++i)
    HMANN_RETURN_IF_ERROR(writer.Append(from.Row(i), 1));
  return writer.Commit();
}

/// Base and queries of the held-out rows, of the same near rows.
absl::Status MakeUp(const ScaleOptions& options, const VectorFile& real, std::uint64_t n,
                    const std::string& base, const std::string& queries, std::uint64_t query_count,
                    Progress& progress) {
  if (Holds(base, n) && Holds(queries, query_count)) return absl::OkStatus();
  ResampleOptions resample = options.resample;
  resample.n = n;
  resample.threads = options.job.threads;
  resample.cancelled = options.job.cancelled;
  HMANN_RETURN_IF_ERROR(resample.Validate(real));
  ThreadPool pool(resample.threads > 0 ? resample.threads : UsableCores());
  progress.Start("near rows", 0, "rows");
  HMANN_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> near,
                         NearRows(real, resample.near, {pool, progress, options.job.cancelled}));
  HMANN_RETURN_IF_ERROR(Resample(real, near, resample, base, progress));
  resample.n = query_count;
  resample.queries = true;
  return Resample(real, near, resample, queries, progress);
}

absl::StatusOr<GroundTruth> Truth(const ScaleOptions& options, const VectorFile& base,
                                  const std::string& query_path, const std::string& path,
                                  Progress& progress) {
  HMANN_ASSIGN_OR_RETURN(const VectorFile queries, VectorFile::Open(query_path));
  ExactOptions exact;
  exact.metric = options.job.metric;
  exact.k =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(std::max(options.job.k, 100u), base.n()));
  exact.threads = options.job.threads;
  exact.cancelled = options.job.cancelled;
  if (absl::StatusOr<GroundTruth> kept = ReadGroundTruth(path);
      kept.ok() && kept->n == queries.n() && kept->k == exact.k)
    return kept;
  HMANN_ASSIGN_OR_RETURN(ExactReport report, ExactNeighbours(base, queries, exact, progress));
  HMANN_RETURN_IF_ERROR(WriteGroundTruth(path, report.truth));
  return std::move(report.truth);
}

}  // namespace

bool NeedsMadeUp(const VectorFile& base, std::uint64_t n) { return n > base.n(); }

absl::StatusOr<SizedData> PrepareSize(const ScaleOptions& options, const VectorFile& real,
                                      std::uint64_t n, const std::string& folder,
                                      Progress& progress, const Say& say) {
  const std::string suffix = Suffix(real.dtype());
  SizedData data;
  data.base = options.job.base;
  data.made_up = NeedsMadeUp(real, n);
  HMANN_ASSIGN_OR_RETURN(VectorFile queries, VectorFile::Open(options.job.queries));
  HMANN_RETURN_IF_ERROR(queries.CheckShape(real.dim(), real.dtype(), options.job.base));
  const std::uint64_t count =
      options.job.query_rows > 0 ? std::min(options.job.query_rows, queries.n()) : queries.n();
  if (count < 2)
    return absl::InvalidArgumentError(absl::StrCat(
        options.job.queries, ": expected at least 2 queries, some to learn from, found ", count));
  if (data.made_up) {
    data.base = absl::StrCat(folder, "/base", suffix);
    const std::string made = absl::StrCat(folder, "/query", suffix);
    say(absl::StrCat("  vectors made up out of ", options.job.base));
    HMANN_RETURN_IF_ERROR(MakeUp(options, real, n, data.base, made, count, progress));
    HMANN_ASSIGN_OR_RETURN(queries, VectorFile::Open(made));
  }
  data.learn_count = std::min(options.learn, count / 2);
  data.ask_count = count - data.learn_count;
  data.learn = absl::StrCat(folder, "/learn", suffix);
  data.ask = absl::StrCat(folder, "/ask", suffix);
  HMANN_RETURN_IF_ERROR(CopyRows(queries, 0, data.learn_count, data.learn));
  HMANN_RETURN_IF_ERROR(CopyRows(queries, data.learn_count, data.ask_count, data.ask));
  say("  exact neighbours");
  HMANN_ASSIGN_OR_RETURN(const VectorFile base, VectorFile::Open(data.base, n));
  data.learn_truth = absl::StrCat(folder, "/learn.gt");
  data.ask_truth = absl::StrCat(folder, "/ask.gt");
  HMANN_RETURN_IF_ERROR(Truth(options, base, data.learn, data.learn_truth, progress).status());
  HMANN_ASSIGN_OR_RETURN(const GroundTruth truth,
                         Truth(options, base, data.ask, data.ask_truth, progress));
  if (const std::optional<Density> density = DensityOf(truth))
    data.density = {{"tenth", density->tenth}, {"intrinsic_dim", density->intrinsic_dim}};
  return data;
}

}  // namespace hmann
