#include "datasets/toolbox/split.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "datasets/labels.h"
#include "index/base/checksum.h"
#include "index/base/file.h"
#include "index/base/json_reader.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

constexpr std::uint64_t kRowsOfStep = 4096;
constexpr std::uint64_t kNoLabel = ~std::uint64_t{0};

/// A file and the checksum of its bytes.
class SummedFile {
 public:
  absl::Status Create(const std::string& path) {
    HMANN_ASSIGN_OR_RETURN(file_, AtomicFile::Create(path));
    XXH3_64bits_reset(&sum_);
    return absl::OkStatus();
  }
  absl::Status Append(const void* data, std::size_t bytes) {
    XXH3_64bits_update(&sum_, data, bytes);
    return file_.Append(data, bytes);
  }
  absl::Status Commit() { return file_.Commit(); }
  std::string Sum() const {
    return absl::StrCat(absl::Hex(XXH3_64bits_digest(&sum_), absl::kZeroPad16));
  }

 private:
  AtomicFile file_;
  XXH3_state_t sum_;
};

struct Shard {
  std::uint64_t rows = 0;
  std::string vectors_name, labels_name;
  SummedFile vectors, labels;
};

absl::Status CheckShards(const VectorFile& base, const SplitOptions& options) {
  const std::uint64_t most = std::min<std::uint64_t>(base.n(), SplitOptions::kMostShards);
  if (options.shards < 1 || options.shards > most) {
    return InvalidArgument("shards: expected 1 to ", most, " for the ", base.n(), " rows of ",
                           base.path(), ", found ", options.shards);
  }
  if (base.n() / options.shards >= std::numeric_limits<std::uint32_t>::max())
    return InvalidArgument("shards: ", options.shards, " would have 2^32 rows or more each");
  if (options.labels.empty() && options.first_label > kNoLabel - base.n())
    return InvalidArgument("first_label: ", options.first_label, " and ", base.n(),
                           " rows: labels must be below 2^64 - 1");
  return absl::OkStatus();
}

/// Checks that each label is there once.
absl::Status CheckLabels(const std::string& path, std::uint64_t n) {
  HMANN_ASSIGN_OR_RETURN(std::vector<std::uint64_t> labels, ReadLabels(path, n));
  std::sort(labels.begin(), labels.end());
  if (const auto twice = std::adjacent_find(labels.begin(), labels.end()); twice != labels.end())
    return InvalidArgument(path, ": label ", *twice, " found twice, labels that differ expected");
  if (labels.back() == kNoLabel)
    return InvalidArgument(path, ": label ", kNoLabel, " found, at most 2^64 - 2 expected");
  return absl::OkStatus();
}

absl::Status Begin(const VectorFile& base, const std::string& folder, std::vector<Shard>& shards) {
  const std::string suffix = base.dtype() == DType::kF32 ? "f" : std::string(Name(base.dtype()));
  for (std::size_t s = 0; s < shards.size(); ++s) {
    Shard& shard = shards[s];
    shard.rows = (base.n() + shards.size() - 1 - s) / shards.size();
    shard.vectors_name = absl::StrCat("shard-", s, ".", suffix, "bin");
    shard.labels_name = absl::StrCat("shard-", s, ".labels");
    HMANN_RETURN_IF_ERROR(shard.vectors.Create(absl::StrCat(folder, "/", shard.vectors_name)));
    HMANN_RETURN_IF_ERROR(shard.labels.Create(absl::StrCat(folder, "/", shard.labels_name)));
    const std::uint32_t header[2] = {static_cast<std::uint32_t>(shard.rows), base.dim()};
    HMANN_RETURN_IF_ERROR(shard.vectors.Append(header, sizeof(header)));
  }
  return absl::OkStatus();
}

absl::Status Stream(const VectorFile& base, const SplitOptions& options,
                    const std::vector<std::uint64_t>& labels, std::vector<Shard>& shards,
                    Progress& progress) {
  base.Advise(MappedFile::Access::kSequential, 0, base.n());
  for (std::uint64_t begin = 0; begin < base.n(); begin += kRowsOfStep) {
    if (options.cancelled != nullptr && options.cancelled->load())
      return absl::CancelledError("the work was cancelled");
    const std::uint64_t end = std::min(base.n(), begin + kRowsOfStep);
    HMANN_RETURN_IF_ERROR(base.CheckFinite(begin, end));
    for (std::uint64_t row = begin; row < end; ++row) {
      Shard& shard = shards[row % shards.size()];
      const std::uint64_t label = labels.empty() ? options.first_label + row : labels[row];
      HMANN_RETURN_IF_ERROR(shard.vectors.Append(base.Row(row), base.row_bytes()));
      HMANN_RETURN_IF_ERROR(shard.labels.Append(&label, sizeof(label)));
    }
    base.Advise(MappedFile::Access::kNone, begin, end);
    progress.Advance(end - begin);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SplitVectors(const VectorFile& base, const SplitOptions& options,
                          const std::string& folder, Progress& progress) {
  HMANN_RETURN_IF_ERROR(CheckShards(base, options));
  HMANN_ASSIGN_OR_RETURN(NewFolder made, NewFolder::Make(folder));
  std::vector<std::uint64_t> labels;
  if (!options.labels.empty()) {
    HMANN_RETURN_IF_ERROR(CheckLabels(options.labels, base.n()));
    HMANN_ASSIGN_OR_RETURN(labels, ReadLabels(options.labels, base.n()));
  }
  std::vector<Shard> shards(options.shards);
  progress.Start("split", base.n(), "vectors");
  HMANN_RETURN_IF_ERROR(Begin(base, made.temporary(), shards));
  HMANN_RETURN_IF_ERROR(Stream(base, options, labels, shards, progress));
  nlohmann::ordered_json manifest = {{"format", "hmann shards"},
                                     {"version", 1},
                                     {"rows", base.n()},
                                     {"dim", base.dim()},
                                     {"dtype", std::string(Name(base.dtype()))}};
  for (Shard& shard : shards) {
    HMANN_RETURN_IF_ERROR(shard.vectors.Commit());
    HMANN_RETURN_IF_ERROR(shard.labels.Commit());
    manifest["shards"].push_back({{"rows", shard.rows},
                                  {"vectors", shard.vectors_name},
                                  {"vectors_xxh3", shard.vectors.Sum()},
                                  {"labels", shard.labels_name},
                                  {"labels_xxh3", shard.labels.Sum()}});
  }
  progress.Finish();
  HMANN_RETURN_IF_ERROR(
      WriteTextFile(made.temporary() + "/manifest.json", JsonText(manifest, 2) + "\n"));
  return made.Commit();
}

}  // namespace hmann
