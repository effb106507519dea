#include "datasets/toolbox/catalog.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann {
namespace {

constexpr const char* kBigAnn = "https://dl.fbaipublicfiles.com/billion-scale-ann-benchmarks/";
constexpr const char* kYandex = "https://storage.yandexcloud.net/yandex-research/ann-datasets/";
constexpr const char* kTexmex = "ftp://ftp.irisa.fr/local/texmex/corpus/";
constexpr const char* kAnnBenchmarks = "http://ann-benchmarks.com/";
constexpr std::uint32_t kBillion = 1'000'000'000;
constexpr std::uint32_t kPublicQueries = 10'000;
constexpr std::uint32_t kPublicK = 100;

DataSet AnnBenchmarks(const char* name, std::uint32_t dim, Metric metric, std::uint64_t n,
                      std::uint64_t queries) {
  return {.name = name,
          .title = "ann-benchmarks HDF5",
          .dim = dim,
          .metric = metric,
          .n = n,
          .queries = queries,
          .where = absl::StrCat(kAnnBenchmarks, name, ".hdf5")};
}

DataSet Texmex(const char* name, const char* archive, const char* title, std::uint32_t dim,
               std::uint64_t n, std::uint64_t queries) {
  return {.name = name,
          .title = title,
          .dim = dim,
          .n = n,
          .queries = queries,
          .where = absl::StrCat(kTexmex, archive, ".tar.gz")};
}

RemoteFile Vectors(std::string name, std::string url, DType dtype, std::uint32_t n,
                   std::uint32_t dim, std::uint64_t rows) {
  const std::uint64_t row_bytes = dim * SizeOf(dtype);
  return {.name = std::move(name),
          .url = std::move(url),
          .content = Content::kVectors,
          .total_bytes = 8 + n * row_bytes,
          .wanted_bytes = 8 + rows * row_bytes,
          .n = n,
          .dim = dim,
          .rows = rows};
}

RemoteFile Truth(std::string name, std::string url) {
  const std::uint64_t bytes = 8 + std::uint64_t{kPublicQueries} * kPublicK * 8;
  return {.name = std::move(name),
          .url = std::move(url),
          .content = Content::kGroundTruth,
          .total_bytes = bytes,
          .wanted_bytes = bytes,
          .n = kPublicQueries,
          .dim = kPublicK};
}

std::string SliceName(std::uint64_t rows) {
  if (rows % kBillion == 0) return absl::StrCat(rows / kBillion, "B");
  if (rows % 1'000'000 == 0) return absl::StrCat(rows / 1'000'000, "M");
  if (rows % 1'000 == 0) return absl::StrCat(rows / 1'000, "K");
  return absl::StrCat(rows);
}

/// Adds the files of BIGANN and DEEP1B: base (or a prefix of it), queries, and the ground
/// truth if it is published.
void AddBillionFiles(Selection* selection) {
  const DataSet& set = selection->set;
  const bool bigann = set.name == "bigann";
  const std::string suffix = bigann ? ".u8bin" : ".fbin";
  const std::string slice = SliceName(selection->rows);
  selection->files.push_back(Vectors(absl::StrCat("base.", slice, suffix),
                                     absl::StrCat(set.where, "base.1B", suffix), set.dtype,
                                     kBillion, set.dim, selection->rows));
  const std::string query = absl::StrCat("query.public.10K", suffix);
  selection->files.push_back(Vectors(query, absl::StrCat(set.where, query), set.dtype,
                                     kPublicQueries, set.dim, kPublicQueries));
  const std::string truth = absl::StrCat("GT.", slice, ".gt");
  const char* short_name = bigann ? "bigann" : "deep";
  if (selection->rows == 10'000'000 || selection->rows == 100'000'000) {
    selection->files.push_back(
        Truth(truth, absl::StrCat(kBigAnn, "GT_", slice, "/", short_name, "-", slice)));
  } else if (selection->rows == kBillion) {
    selection->files.push_back(
        Truth(truth, bigann ? absl::StrCat(set.where, "GT.public.1B.ibin")
                            : absl::StrCat(kYandex, "deep_new_groundtruth.public.10K.bin")));
  }
  selection->has_ground_truth = selection->files.size() == 3;
}

/// Adds SIFT1M, GIST1M and siftsmall: an archive with base, queries and ground truth in
/// .?vecs files.
void AddArchive(Selection* selection) {
  const DataSet& set = selection->set;
  const std::string archive = set.where.substr(set.where.rfind('/') + 1);
  const std::string stem = archive.substr(0, archive.find('.'));
  selection->files.push_back({.name = archive, .url = set.where, .content = Content::kArchive});
  const std::uint64_t row_bytes = 4 + 4 * std::uint64_t{set.dim};
  selection->members = {{absl::StrCat(stem, "/", stem, "_base.fvecs"), set.n * row_bytes},
                        {absl::StrCat(stem, "/", stem, "_query.fvecs"), set.queries * row_bytes},
                        {absl::StrCat(stem, "/", stem, "_groundtruth.ivecs"),
                         set.queries * (4 + 4 * std::uint64_t{kPublicK})}};
  selection->has_ground_truth = true;
}

}  // namespace

const std::vector<DataSet>& Catalog() {
  static const std::vector<DataSet> sets = {
      {.name = "bigann",
       .title = "BIGANN: SIFT descriptors",
       .dtype = DType::kU8,
       .dim = 128,
       .metric = Metric::kL2,
       .n = kBillion,
       .queries = kPublicQueries,
       .sliced = true,
       .where = absl::StrCat(kBigAnn, "bigann/")},
      {.name = "deep1b",
       .title = "DEEP1B: outputs of a deep network",
       .dtype = DType::kF32,
       .dim = 96,
       .metric = Metric::kL2,
       .n = kBillion,
       .queries = kPublicQueries,
       .sliced = true,
       .where = absl::StrCat(kYandex, "DEEP/")},
      Texmex("sift1m", "sift", "SIFT1M: SIFT descriptors", 128, 1'000'000, 10'000),
      Texmex("gist1m", "gist", "GIST1M: GIST descriptors", 960, 1'000'000, 1'000),
      Texmex("siftsmall", "siftsmall", "first 10,000 of SIFT", 128, 10'000, 100),
      AnnBenchmarks("sift-128-euclidean", 128, Metric::kL2, 1'000'000, 10'000),
      AnnBenchmarks("gist-960-euclidean", 960, Metric::kL2, 1'000'000, 1'000),
      AnnBenchmarks("fashion-mnist-784-euclidean", 784, Metric::kL2, 60'000, 10'000),
      AnnBenchmarks("mnist-784-euclidean", 784, Metric::kL2, 60'000, 10'000),
      AnnBenchmarks("glove-25-angular", 25, Metric::kCosine, 1'183'514, 10'000),
      AnnBenchmarks("glove-50-angular", 50, Metric::kCosine, 1'183'514, 10'000),
      AnnBenchmarks("glove-100-angular", 100, Metric::kCosine, 1'183'514, 10'000),
      AnnBenchmarks("glove-200-angular", 200, Metric::kCosine, 1'183'514, 10'000),
      AnnBenchmarks("nytimes-256-angular", 256, Metric::kCosine, 290'000, 10'000),
      AnnBenchmarks("deep-image-96-angular", 96, Metric::kCosine, 9'990'000, 10'000),
      AnnBenchmarks("lastfm-64-dot", 65, Metric::kCosine, 292'385, 50'000),
  };
  return sets;
}

absl::StatusOr<Selection> Select(std::string_view name) {
  const std::size_t colon = name.find(':');
  const std::string set_name(name.substr(0, colon));
  Selection selection;
  std::string known;
  for (const DataSet& set : Catalog()) {
    absl::StrAppend(&known, known.empty() ? "" : ", ", set.name);
    if (set.name == set_name) selection.set = set;
  }
  const DataSet& set = selection.set;
  if (set.name.empty())
    return NotFound("data set \"", set_name, "\" is not known; known are ", known);
  selection.rows = set.n;
  selection.folder = set.name;
  if (colon != std::string_view::npos) {
    HMANN_ASSIGN_OR_RETURN(selection.rows, ParseCount(name.substr(colon + 1)));
    if (!set.sliced)
      return InvalidArgument("data set ", set.name, " comes whole: a slice cannot be asked for");
    if (selection.rows == 0 || selection.rows > set.n) {
      return InvalidArgument("data set ", set.name, ": ", selection.rows,
                             " vectors asked for, 1 to ", set.n, " expected");
    }
    selection.folder = absl::StrCat(set.name, "-", SliceName(selection.rows));
  }
  if (set.sliced) {
    AddBillionFiles(&selection);
  } else if (set.where.ends_with(".tar.gz")) {
    AddArchive(&selection);
  } else {
    selection.files.push_back({.name = absl::StrCat(set.name, ".hdf5"),
                               .url = set.where,
                               .content = Content::kHdf5,
                               .n = static_cast<std::uint32_t>(set.n),
                               .dim = set.dim,
                               .rows = set.n});
    selection.has_ground_truth = true;
  }
  return selection;
}

}  // namespace hmann
