#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "datasets/ground_truth.h"
#include "datasets/hdf5_file.h"
#include "datasets/labels.h"
#include "datasets/toolbox/catalog.h"
#include "datasets/toolbox/exact_neighbors.h"
#include "datasets/toolbox/fetch.h"
#include "datasets/vector_file.h"
#include "datasets/vector_writer.h"
#include "index/base/file.h"
#include "index/base/statistics.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/make_attributes.h"
#include "tools/build_flags.h"
#include "tools/commands.h"
#include "tools/data_flags.h"
#include "tools/flags.h"
#include "tools/interrupt.h"
#include "tools/print.h"

namespace hmann::tools {
namespace {

Json DescribeTruth(const std::string& path, const GroundTruth& truth) {
  return {{"path", path},
          {"content", "ground truth"},
          {"queries", truth.n},
          {"k", truth.k},
          {"distances", !truth.distances.empty()}};
}

bool IsHdf5(const std::string& path) {
  return absl::EndsWithIgnoreCase(path, ".hdf5") || absl::EndsWithIgnoreCase(path, ".h5");
}

/// True for files that are read as ground truth: every suffix that no vector format
/// claims.
bool IsGroundTruth(const std::string& path) {
  return !IsHdf5(SplitHdf5Path(path).first) && !DTypeOfSuffix(path).ok();
}

absl::Status List(const DataFlags& flags) {
  Json sets = Json::array();
  for (const DataSet& set : Catalog()) {
    sets.push_back({{"name", set.name},
                    {"title", set.title},
                    {"dtype", std::string(Name(set.dtype))},
                    {"dim", set.dim},
                    {"metric", std::string(Name(set.metric))},
                    {"n", set.n},
                    {"queries", set.queries},
                    {"sliced", set.sliced},
                    {"vector_bytes", set.n * set.dim * SizeOf(set.dtype)},
                    {"url", set.where}});
  }
  if (flags.json) return PrintJson({{"data_sets", sets}});
  std::cout << absl::StreamFormat("%-28s %-5s %5s %-7s %13s %8s  %-10s %s\n", "name", "dtype",
                                  "dim", "metric", "n", "queries", "vectors", "title");
  for (const DataSet& set : Catalog()) {
    std::cout << absl::StreamFormat("%-28s %-5s %5d %-7s %13d %8d  %-10s %s%s\n", set.name,
                                    std::string(Name(set.dtype)), set.dim,
                                    std::string(Name(set.metric)), set.n, set.queries,
                                    FormatSize(set.n * set.dim * SizeOf(set.dtype)), set.title,
                                    set.sliced ? " (slices: :1M :10M :100M ...)" : "");
  }
  return absl::OkStatus();
}

absl::Status RunFetch(const DataFlags& flags) {
  HMANN_ASSIGN_OR_RETURN(const Selection selection, Select(flags.in));
  Progress progress;
  FetchOptions options = flags.fetch;
  options.folder = flags.out;
  HMANN_ASSIGN_OR_RETURN(const std::vector<FetchedFile> fetched,
                         Fetch(selection, options, progress));
  Json files = Json::array();
  for (const FetchedFile& file : fetched) {
    Json entry;
    if (file.content == Content::kVectors || file.content == Content::kHdf5) {
      HMANN_ASSIGN_OR_RETURN(const VectorFile vectors, VectorFile::Open(file.path));
      entry = Describe(vectors);
    } else {
      HMANN_ASSIGN_OR_RETURN(const GroundTruth truth, ReadGroundTruth(file.path));
      entry = DescribeTruth(file.path, truth);
    }
    entry["was_there"] = file.was_there;
    if (!flags.json)
      std::cout << file.path
                << (file.was_there ? ": was there, checksum as pinned\n"
                                   : ": fetched, checksum pinned\n");
    files.push_back(std::move(entry));
  }
  if (!flags.json && !selection.has_ground_truth) {
    std::cout << "No ground truth is published for " << flags.in
              << ": `hmann data groundtruth` computes it.\n";
  }
  if (!flags.json) return absl::OkStatus();
  return PrintJson({{"name", selection.set.name},
                    {"rows", selection.rows},
                    {"files", files},
                    {"ground_truth", selection.has_ground_truth}});
}

/// Admits the rows for which --filter holds, or the tags of the query.
absl::Status AdmitMatches(const DataFlags& flags, std::uint64_t rows, std::uint64_t queries,
                          ExactOptions* options, Progress& progress) {
  std::vector<std::string> texts = {flags.filter};
  if (!flags.filter_tags.empty()) {
    HMANN_ASSIGN_OR_RETURN(texts, ReadTagFilters(flags.filter_tags, queries));
  }
  std::vector<Filter> filters;
  for (const std::string& text : texts) {
    HMANN_ASSIGN_OR_RETURN(filters.emplace_back(), Filter::Parse(text));
  }
  HMANN_ASSIGN_OR_RETURN(const std::shared_ptr<const Attributes> attributes,
                         AttributesOfRows(flags.attrs, rows, flags.out, progress));
  options->among = [=, one = flags.filter_tags.empty()](
                       std::uint64_t query) -> absl::StatusOr<std::vector<std::uint64_t>> {
    HMANN_ASSIGN_OR_RETURN(const Matches matches, attributes->Matching(filters[one ? 0 : query]));
    std::vector<std::uint64_t> matching;
    for (std::uint64_t row = matches.Next(0); row < rows; row = matches.Next(row + 1))
      matching.push_back(row);
    return matching;
  };
  return absl::OkStatus();
}

/// Reads the labels of each base; none without --labels.
absl::StatusOr<std::vector<std::vector<std::uint64_t>>> LabelsOf(
    const DataFlags& flags, const std::vector<VectorFile>& bases) {
  std::vector<std::vector<std::uint64_t>> labels(flags.labels.size());
  if (labels.size() != bases.size() && (bases.size() > 1 || !labels.empty())) {
    return InvalidArgument("labels: expected a file for each of ", bases.size(), " bases, found ",
                           labels.size());
  }
  if (bases.size() > 1 && (flags.rows > 0 || !flags.attrs.from.empty()))
    return InvalidArgument("rows, attrs: expected one base with them, found ", bases.size());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    HMANN_ASSIGN_OR_RETURN(labels[i], ReadLabels(flags.labels[i], bases[i].n()));
    const std::uint64_t largest = *std::max_element(labels[i].begin(), labels[i].end());
    if (largest > 0x7fffffff && !FormatSuffix(flags.out).starts_with(".gt"))
      return InvalidArgument(flags.labels[i], ": label ", largest, " found, at most 2147483647 ",
                             "expected for ", flags.out, "; .gt holds any");
  }
  return labels;
}

/// Finds the exact neighbors in all bases together.
absl::StatusOr<GroundTruth> NeighborsIn(const DataFlags& flags,
                                        const std::vector<VectorFile>& bases,
                                        const VectorFile& queries) {
  Progress progress;
  HMANN_ASSIGN_OR_RETURN(const auto labels, LabelsOf(flags, bases));
  std::vector<GroundTruth> parts;
  for (std::size_t i = 0; i < bases.size(); ++i) {
    ExactOptions options = flags.exact;
    options.metric = flags.metric;
    if (bases.size() > 1)
      options.k = static_cast<std::uint32_t>(std::min<std::uint64_t>(options.k, bases[i].n()));
    if (!flags.attrs.from.empty())
      HMANN_RETURN_IF_ERROR(AdmitMatches(flags, bases[i].n(), queries.n(), &options, progress));
    HMANN_ASSIGN_OR_RETURN(parts.emplace_back(),
                           ExactNeighbors(bases[i], queries, options, progress));
    if (labels.empty()) continue;
    for (std::uint64_t& id : parts.back().ids) id = id == kNoNeighbor ? id : labels[i][id];
  }
  if (parts.size() == 1) return std::move(parts[0]);
  return MergeNeighbors(parts, flags.exact.k);
}

absl::Status RunGroundTruth(const DataFlags& flags) {
  HMANN_RETURN_IF_ERROR(AtomicFile::Create(flags.out).status());
  HMANN_RETURN_IF_ERROR(
      CheckNotInput(flags.out, {flags.queries, flags.attrs.from, flags.filter_tags}));
  for (const std::vector<std::string>* inputs : {&flags.bases, &flags.labels})
    for (const std::string& input : *inputs)
      HMANN_RETURN_IF_ERROR(CheckNotInput(flags.out, {input}));
  std::vector<VectorFile> bases;
  std::uint64_t rows = 0;
  for (const std::string& base : flags.bases) {
    HMANN_ASSIGN_OR_RETURN(bases.emplace_back(), VectorFile::Open(base, flags.rows));
    rows += bases.back().n();
  }
  if (bases.size() > 1 && flags.exact.k > rows)
    return InvalidArgument("k: expected 1 to the ", rows, " vectors, found ", flags.exact.k);
  HMANN_ASSIGN_OR_RETURN(const VectorFile queries, VectorFile::Open(flags.queries));
  HMANN_ASSIGN_OR_RETURN(const GroundTruth exact, NeighborsIn(flags, bases, queries));
  HMANN_RETURN_IF_ERROR(WriteGroundTruth(flags.out, exact));
  Json report = DescribeTruth(flags.out, exact);
  report["metric"] = std::string(Name(flags.metric));
  report["base_rows"] = rows;
  if (!flags.attrs.from.empty())
    report["filter"] = flags.filter_tags.empty() ? flags.filter : flags.filter_tags;
  return Print(flags, report);
}

absl::Status RunSplit(const DataFlags& flags) {
  SplitOptions options = flags.split;
  options.cancelled = CancelOnInterrupt();
  HMANN_ASSIGN_OR_RETURN(const VectorFile base, VectorFile::Open(flags.in, flags.rows));
  Progress progress;
  HMANN_RETURN_IF_ERROR(SplitVectors(base, options, flags.out, progress));
  Json report = {{"path", flags.out}, {"content", "shards"}, {"shards", options.shards}};
  for (const char* key : {"dtype", "n", "dim"}) report[key] = Describe(base)[key];
  return Print(flags, report);
}

absl::Status RunConvert(const DataFlags& flags) {
  Progress progress;
  HMANN_RETURN_IF_ERROR(FileToWrite(flags.out).status());
  HMANN_RETURN_IF_ERROR(CheckNotInput(flags.out, {flags.in}));
  if (IsTruthSuffix(FormatSuffix(flags.out))) {
    if (!IsGroundTruth(flags.in))
      return InvalidArgument(flags.in, " holds vectors, ", flags.out,
                             " would hold neighbor ids: expected another suffix, as .fbin or .npy");
    HMANN_ASSIGN_OR_RETURN(const GroundTruth truth, ReadGroundTruth(flags.in));
    HMANN_RETURN_IF_ERROR(WriteGroundTruth(flags.out, truth));
    return Print(flags, DescribeTruth(flags.out, truth));
  }
  if (IsTruthSuffix(FormatSuffix(flags.in)))
    return InvalidArgument(flags.in, " holds neighbor ids: expected .gt, .ibin or .ivecs to write");
  HMANN_RETURN_IF_ERROR(DTypeOfSuffix(flags.out).status());
  HMANN_ASSIGN_OR_RETURN(const VectorFile from, VectorFile::Open(flags.in, flags.rows));
  HMANN_RETURN_IF_ERROR(ConvertVectors(from, flags.out, progress));
  HMANN_ASSIGN_OR_RETURN(const VectorFile file, VectorFile::Open(flags.out));
  return Print(flags, Describe(file));
}

absl::Status RunInfo(const DataFlags& flags) {
  if (IsGroundTruth(flags.in)) {
    HMANN_ASSIGN_OR_RETURN(const GroundTruth truth, ReadGroundTruth(flags.in));
    Json report = DescribeTruth(flags.in, truth);
    if (const std::optional<Density> density = DensityOf(truth); density.has_value()) {
      report["if_l2"] = {{"median_10th_distance", RoundToDigits(density->tenth, 6)},
                         {"local_intrinsic_dimension", RoundToDigits(density->intrinsic_dim, 4)}};
    }
    return Print(flags, report);
  }
  HMANN_ASSIGN_OR_RETURN(const VectorFile file, VectorFile::Open(flags.in));
  HMANN_RETURN_IF_ERROR(file.CheckFinite());
  Json report = Describe(file);
  if (const auto [name, set] = SplitHdf5Path(flags.in); IsHdf5(name)) {
    HMANN_ASSIGN_OR_RETURN(const Metric metric, ReadHdf5Metric(name));
    HMANN_ASSIGN_OR_RETURN(const GroundTruth truth, ReadGroundTruth(name));
    report["metric"] = std::string(Name(metric));
    report["queries"] = truth.n;
    report["k"] = truth.k;
  }
  return Print(flags, report);
}

void DeclareFetch(CLI::App& app, const Flags& flags) {
  app.add_option("name", flags->in,
                 "data set, with a slice if it has slices: bigann:10M (see `hmann data list`)")
      ->required();
  app.add_option("--out", flags->out, "folder to write to (default: data/<name>-<slice>)");
  app.add_option("--base-url", flags->fetch.base_url,
                 "scheme and host of a mirror with the same paths, instead of the publisher");
}

void DeclareGroundTruth(CLI::App& app, const Flags& flags) {
  app.add_option("--base", flags->bases, "vector file; several: shards of one base")->required();
  app.add_option("--labels", flags->labels,
                 "file of 64-bit labels of the base, a file for each shard (default: row numbers)");
  app.add_option("--queries", flags->queries, "vector file")->required();
  AddParsed(app, "--metric", ParseMetric, &flags->metric, "distance (default: l2)")
      ->type_name("l2|ip|cosine");
  app.add_option("--k", flags->exact.k, "neighbors per query");
  app.add_option("--rows", flags->rows, "use only the first rows of the base");
  app.add_option("--threads", flags->exact.threads, "threads (0: all usable cores)");
  AddRowsFlags(app, "--attrs", "the attributes of the base, for filters", &flags->attrs);
  CLI::Option* attrs = app.get_option("--attrs");
  CLI::Option* filter =
      AddFilterFlag(app, &flags->filter, "find only vectors whose attributes satisfy this")
          ->needs(attrs);
  app.add_option("--filter-tags", flags->filter_tags,
                 ".spmat file: the tags that neighbors of each query must all have")
      ->needs(attrs)
      ->excludes(filter);
  app.parse_complete_callback([flags] {
    if (!flags->attrs.from.empty() && flags->filter.empty() && flags->filter_tags.empty())
      throw CLI::RequiredError("--filter or --filter-tags");
  });
  app.add_option("--out", flags->out,
                 "file to write: .gt (with distances), .ibin or .ivecs (without)")
      ->required();
}

void DeclareSplit(CLI::App& app, const Flags& flags) {
  app.add_option("base", flags->in, "vector file")->required();
  app.add_option("--shards", flags->split.shards,
                 "number of shards; row i goes to shard i mod this")
      ->required()
      ->check(CLI::Range(1u, SplitOptions::kMostShards));
  app.add_option("--out", flags->out,
                 "new folder to write, whole or not at all: vectors and labels of each shard, and "
                 "manifest.json")
      ->required();
  CLI::Option* labels = app.add_option(
      "--labels", flags->split.labels,
      "file of 64-bit labels of the rows (.npy, raw u64, .ivecs or .ibin; default: row numbers)");
  app.add_option("--first-label", flags->split.first_label,
                 "label of the first row, if they are row numbers (default: 0)")
      ->excludes(labels);
  app.add_option("--rows", flags->rows, "use only the first rows");
}

void DeclareConvert(CLI::App& app, const Flags& flags) {
  app.add_option("in", flags->in,
                 "vector or ground-truth file; x.hdf5:test reads the queries of an HDF5 file")
      ->required();
  app.add_option("out", flags->out,
                 "file to write, in the format of its suffix (.npy .fbin .f16bin .u8bin .i8bin "
                 ".fvecs .bvecs "
                 ".csv, or .gt .ibin .ivecs for exact neighbors); values that the new dtype cannot "
                 "hold exactly are an error; .f16bin rounds, and rejects values beyond 65504")
      ->required();
  app.add_option("--rows", flags->rows, "use only the first rows");
}

void DeclareInfo(CLI::App& app, const Flags& flags) {
  app.add_option("file", flags->in,
                 "vector or ground-truth file; it is read and checked completely")
      ->required();
}

}  // namespace

absl::Status Print(const DataFlags& flags, const Json& report) {
  if (flags.json) return PrintJson(report);
  for (const auto& [key, value] : report.items()) {
    std::cout << key << ": " << (value.is_string() ? value.get<std::string>() : JsonText(value))
              << "\n";
  }
  return absl::OkStatus();
}

Json Describe(const VectorFile& file) {
  return {
      {"path", file.path()}, {"content", "vectors"}, {"dtype", std::string(Name(file.dtype()))},
      {"n", file.n()},       {"dim", file.dim()},    {"vector_bytes", file.n() * file.row_bytes()}};
}

CommandAction SetupData(CLI::App& app) {
  struct Subcommand {
    const char* name;
    const char* summary;
    const char* example;
    void (*setup)(CLI::App&, const Flags&);
    absl::Status (*run)(const DataFlags&);
  };
  static constexpr Subcommand kSubcommands[] = {
      {"list", "list the data sets that `fetch` knows", "hmann data list",
       [](CLI::App&, const Flags&) {}, List},
      {"fetch", "download a data set or a slice of it",
       "hmann data fetch bigann:10M --out data/bigann-10M", DeclareFetch, RunFetch},
      {"generate", "generate synthetic vectors from a seed",
       "hmann data generate --kind clustered --n 10000 --dim 96 --out /tmp/made.fbin",
       DeclareGenerate, RunGenerate},
      {"groundtruth", "compute exact nearest neighbors",
       "hmann data groundtruth --base datasets/sample/base.u8bin --queries "
       "datasets/sample/query.u8bin --out /tmp/sample.gt",
       DeclareGroundTruth, RunGroundTruth},
      {"split", "split a base into shards that several machines build and serve",
       "hmann data split datasets/sample/base.u8bin --shards 4 --out /tmp/shards", DeclareSplit,
       RunSplit},
      {"convert", "convert the format of vectors or a ground truth",
       "hmann data convert datasets/sample/query.u8bin /tmp/query.fvecs", DeclareConvert,
       RunConvert},
      {"info", "read and check a file, and describe its content",
       "hmann data info datasets/sample/base.u8bin", DeclareInfo, RunInfo},
  };
  const auto flags = std::make_shared<DataFlags>();
  const auto chosen = std::make_shared<absl::Status (*)(const DataFlags&)>(nullptr);
  app.require_subcommand(1);
  for (const Subcommand& subcommand : kSubcommands) {
    CLI::App* child = app.add_subcommand(subcommand.name, subcommand.summary);
    child->footer(absl::StrCat("Example:\n  ", subcommand.example));
    subcommand.setup(*child, flags);
    child->add_flag("--json", flags->json, "print one JSON object on stdout");
    child->callback([chosen, run = subcommand.run] { *chosen = run; });
  }
  return [flags, chosen] { return (*chosen)(*flags); };
}

}  // namespace hmann::tools
