#include <optional>
#include <vector>

#include "index/base/cpu.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/thread_pool.h"
#include "index/construct/jobs/near_rows.h"
#include "tools/data_flags.h"
#include "tools/flags.h"

namespace hmann::tools {
namespace {

using Kind = std::optional<Shape>;  ///< none: resample

absl::StatusOr<Kind> ParseKind(std::string_view name) {
  if (name == "resample") return Kind();
  const absl::StatusOr<Shape> shape = ParseShape(name);
  if (shape.ok()) return Kind(*shape);
  return InvalidArgument(shape.status().message(), ", or resample");
}

/// Generates vectors by mixing those of a file.
absl::Status RunResample(const DataFlags& flags) {
  ResampleOptions options = flags.resample;
  options.n = flags.generate.n;
  options.first = flags.generate.first;
  options.seed = flags.generate.seed;
  options.threads = flags.generate.threads;
  options.norm_sigma = flags.generate.norm_sigma;
  HMANN_ASSIGN_OR_RETURN(const VectorFile from, VectorFile::Open(flags.from));
  HMANN_RETURN_IF_ERROR(options.Validate(from));
  Progress progress;
  ThreadPool pool(options.threads > 0 ? options.threads : UsableCores());
  progress.Start("near rows", 0, "rows");
  HMANN_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> near,
                         NearRows(from, options.near, {pool, progress}));
  HMANN_RETURN_IF_ERROR(Resample(from, near, options, flags.out, progress));
  HMANN_ASSIGN_OR_RETURN(const VectorFile file, VectorFile::Open(flags.out));
  Json report = Describe(file);
  report.update({{"kind", "resample"},
                 {"from", flags.from},
                 {"parts", options.parts},
                 {"near", options.near},
                 {"share", options.share},
                 {"queries", options.queries},
                 {"norm_sigma", options.norm_sigma},
                 {"seed", options.seed},
                 {"first", options.first}});
  return Print(flags, report);
}

}  // namespace

void DeclareGenerate(CLI::App& app, const Flags& flags) {
  flags->generate.n = 10'000;
  AddParsed(
      app, "--kind", ParseKind,
      [flags](Kind kind) {
        flags->resampled = !kind.has_value();
        flags->generate.shape = kind.value_or(Shape::kClustered);
      },
      "clustered (default), uniform, centroids, duplicates, lattice, or resample (mixes real "
      "vectors)");
  app.add_option("--n", flags->generate.n, "number of vectors, as 10000 (default), 250k, 1M");
  app.add_option("--first", flags->generate.first,
                 "number of the first vector; for queries, continue after the base");
  app.add_option("--dim", flags->generate.dim, "dimension (resample: that of --from)");
  app.add_option("--intrinsic", flags->generate.intrinsic_dim,
                 "clustered, duplicates: dimensions that a cluster spans");
  app.add_option("--clusters", flags->generate.clusters,
                 "clustered, duplicates: number of clusters");
  app.add_option("--from", flags->from, "resample: vector file to mix; holds out one row in 100");
  app.add_option("--share", flags->resample.share,
                 "resample: share of the parts that come from near rows")
      ->capture_default_str();
  app.add_option("--tags", flags->tags,
                 "clustered: .spmat file to write, too: 1 to 30 tags of each vector");
  app.add_flag("--queries", flags->resample.queries,
               "resample: generate from the rows held out; --tags: one or two that a vector before "
               "--first has");
  app.add_option("--norm-sigma", flags->generate.norm_sigma,
                 "f32: multiplies each vector by e^(sigma x normal), for inner product");
  app.add_option("--seed", flags->generate.seed,
                 "random seed; the same seed gives the same vectors");
  app.add_option("--out", flags->out, "vector file to write; its suffix sets the dtype")
      ->required();
  app.parse_complete_callback([flags] {
    if (flags->resampled && flags->from.empty()) throw CLI::RequiredError("--from");
    if (!flags->resampled && flags->generate.dim == 0) throw CLI::RequiredError("--dim");
    if (!flags->tags.empty() && (flags->resampled || flags->generate.shape != Shape::kClustered))
      throw CLI::ValidationError("--tags", "of --kind clustered alone");
    if (!flags->resampled && !flags->from.empty())
      throw CLI::ValidationError("--from", "of --kind resample alone");
  });
}

absl::Status RunGenerate(const DataFlags& flags) {
  HMANN_RETURN_IF_ERROR(FileToWrite(flags.out).status());
  HMANN_RETURN_IF_ERROR(CheckNotInput(flags.out, {flags.from, flags.tags}));
  if (flags.resampled) return RunResample(flags);
  const GenerateOptions& options = flags.generate;
  Progress progress;
  if (!flags.tags.empty())
    HMANN_RETURN_IF_ERROR(GenerateTags(options, flags.resample.queries, flags.tags, progress));
  HMANN_RETURN_IF_ERROR(Generate(options, flags.out, progress));
  HMANN_ASSIGN_OR_RETURN(const VectorFile file, VectorFile::Open(flags.out));
  Json report = Describe(file);
  report["kind"] = std::string(Name(options.shape));
  report["norm_sigma"] = options.norm_sigma;
  report["seed"] = options.seed;
  report["first"] = options.first;
  if (!flags.tags.empty()) report["tags"] = flags.tags;
  return Print(flags, report);
}

}  // namespace hmann::tools
