#include "datasets/toolbox/split.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "datasets/ground_truth.h"
#include "datasets/labels.h"
#include "datasets/testing/temp_folder.h"
#include "datasets/toolbox/exact_neighbors.h"
#include "datasets/toolbox/generate.h"
#include "index/base/checksum.h"

namespace hmann {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint64_t kSplitRows = 1003;

class Split : public testing::Test {
 protected:
  Split() {
    GenerateOptions made;
    made.n = kSplitRows;
    made.dim = 5;
    EXPECT_TRUE(Generate(made, Base(), progress_).ok());
  }
  std::string Base() const { return folder_ / "base.u8bin"; }
  absl::Status Run(const SplitOptions& options, const std::string& base = "") {
    const auto file = VectorFile::Open(base.empty() ? Base() : base);
    return file.ok() ? SplitVectors(*file, options, folder_ / "shards", progress_) : file.status();
  }
  std::string Shard(std::uint64_t s, const char* suffix) const {
    return folder_ / absl::StrCat("shards/shard-", s, suffix);
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  /// A file with a label for each row.
  std::string Labels(std::uint64_t at, std::uint64_t label) const {
    std::vector<std::uint64_t> labels(kSplitRows);
    for (std::uint64_t i = 0; i < kSplitRows; ++i)
      labels[i] = std::numeric_limits<std::int64_t>::max() - i;
    labels[at] = label;
    return folder_.Write("labels", BytesOf(labels));
  }

  TempFolder folder_;
  Progress progress_{Progress::Show::kNever};
};

TEST_F(Split, EachRowIsInOneShardWithItsLabel) {
  ASSERT_EQ(Run({.shards = 8, .first_label = 7}), absl::OkStatus());
  EXPECT_THAT(Files(), ElementsAre("base.u8bin", "shards"));
  const VectorFile base = *VectorFile::Open(Base());
  const auto manifest = nlohmann::json::parse(ReadAll(folder_ / "shards/manifest.json"));
  EXPECT_EQ(manifest["rows"], kSplitRows);
  EXPECT_EQ(manifest["dim"], 5);
  EXPECT_EQ(manifest["dtype"], "u8");
  ASSERT_EQ(manifest["shards"].size(), 8u);
  std::vector<bool> seen(kSplitRows);
  for (std::uint64_t s = 0; s < 8; ++s) {
    const auto vectors = VectorFile::Open(Shard(s, ".u8bin"));
    ASSERT_TRUE(vectors.ok()) << vectors.status();
    const auto labels = ReadLabels(Shard(s, ".labels"), vectors->n());
    ASSERT_TRUE(labels.ok()) << labels.status();
    EXPECT_EQ(vectors->n(), s < 3 ? 126u : 125u);
    for (std::uint64_t i = 0; i < vectors->n(); ++i) {
      const std::uint64_t row = (*labels)[i] - 7;
      ASSERT_LT(row, kSplitRows);
      EXPECT_FALSE(seen[row]);
      seen[row] = true;
      EXPECT_EQ(std::memcmp(vectors->Row(i), base.Row(row), base.row_bytes()), 0);
    }
    const auto& told = manifest["shards"][s];
    EXPECT_EQ(told["rows"], vectors->n());
    for (const char* kind : {"vectors", "labels"}) {
      const std::string bytes =
          ReadAll(folder_ / absl::StrCat("shards/", told[kind].get<std::string>()));
      EXPECT_EQ(told[absl::StrCat(kind, "_xxh3")],
                absl::StrCat(absl::Hex(Checksum(bytes.data(), bytes.size()), absl::kZeroPad16)));
    }
  }
}

TEST_F(Split, OneShardIsTheBaseAndFormatsBecomeBin) {
  ASSERT_EQ(Run({.shards = 1}), absl::OkStatus());
  EXPECT_TRUE(ReadAll(Shard(0, ".u8bin")) == ReadAll(Base()));
  std::filesystem::remove_all(folder_ / "shards");
  const std::string csv = folder_.Write("base.csv", "1,2\n3,4\n5,6.5\n");
  ASSERT_EQ(Run({.shards = 2}, csv), absl::OkStatus());
  EXPECT_EQ(ReadAll(Shard(0, ".fbin")),
            Bytes(std::uint32_t{2}, std::uint32_t{2}, 1.0f, 2.0f, 5.0f, 6.5f));
}

TEST_F(Split, ShardsMergedGiveTheNeighborsOfAllWithTheLargestLabels) {
  const std::string given = Labels(0, std::numeric_limits<std::int64_t>::max());
  ASSERT_EQ(Run({.shards = 4, .labels = given}), absl::OkStatus());
  const std::vector<std::uint64_t> of_rows = *ReadLabels(given);
  const VectorFile base = *VectorFile::Open(Base());
  const GroundTruth all = *ExactNeighbors(base, base, {.k = 300}, progress_);
  std::vector<GroundTruth> parts;
  for (std::uint64_t s = 0; s < 4; ++s) {
    const VectorFile shard = *VectorFile::Open(Shard(s, ".u8bin"));
    const std::vector<std::uint64_t> labels = *ReadLabels(Shard(s, ".labels"));
    parts.push_back(*ExactNeighbors(shard, base, {.k = 250}, progress_));
    for (std::uint64_t& id : parts.back().ids) id = labels[id];
  }
  const auto merged = MergeNeighbors(parts, 300);
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(merged->distances, all.distances);
  ASSERT_EQ(WriteGroundTruth(folder_ / "merged.gt", *merged), absl::OkStatus());
  const auto read = ReadGroundTruth(folder_ / "merged.gt");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->ids, merged->ids);
  for (std::uint64_t q = 0; q < kSplitRows; ++q) {
    // Ties go to the smaller label there, to the smaller row here.
    const auto distances = all.Distances(q);
    for (std::uint64_t j = 0; distances[j] < distances.back(); ++j) {
      if (std::count(distances.begin(), distances.end(), distances[j]) == 1) {
        EXPECT_EQ(read->Ids(q)[j], of_rows[all.Ids(q)[j]]) << q << " " << j;
      }
    }
  }
  EXPECT_EQ(MergeNeighbors({}, 3).status().code(), absl::StatusCode::kInvalidArgument);
  parts[1].distances.clear();
  EXPECT_EQ(MergeNeighbors(parts, 3).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(Split, RefusesByNameAndLeavesNothing) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  const std::string nan =
      folder_.Write("nan.fbin", Bytes(std::uint32_t{2}, std::uint32_t{1}, 1.0f, std::nanf("")));
  const std::string cut = folder_.Write("cut.u8bin", ReadAll(Base()).substr(0, 2000));
  const std::pair<absl::Status, const char*> cases[] = {
      {Run({.shards = 0}), "expected 1 to 256 for the 1003 rows"},
      {Run({.shards = 257}), "found 257"},
      {Run({.shards = 3}, folder_.Write("two.csv", "1\n2\n")), "expected 1 to 2 for the 2 rows"},
      {Run({.shards = 2, .first_label = kMost - kSplitRows + 1}), "below 2^64 - 1"},
      {Run({.shards = 2, .labels = Labels(3, kMost)}), "18446744073709551615"},
      {Run({.shards = 2, .labels = Labels(3, std::numeric_limits<std::int64_t>::max())}),
       "label 9223372036854775807 found twice"},
      {Run({.shards = 2, .labels = folder_.Write("labels", "12345678")}), "8 bytes found"},
      {Run({.shards = 2}, nan), "row 1, component 0"},
      {Run({.shards = 2}, cut), "2000 bytes found, 5023 expected"},
  };
  for (const auto& [status, words] : cases) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
  }
  EXPECT_THAT(Files(), ElementsAre("base.u8bin", "cut.u8bin", "labels", "nan.fbin", "two.csv"));
  ASSERT_EQ(Run({.shards = 2, .first_label = kMost - kSplitRows}), absl::OkStatus());
  const std::string before = ReadAll(folder_ / "shards/manifest.json");
  EXPECT_EQ(Run({.shards = 3}).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReadAll(folder_ / "shards/manifest.json"), before);
  const std::atomic<bool> cancelled{true};
  std::filesystem::remove_all(folder_ / "shards");
  EXPECT_TRUE(absl::IsCancelled(Run({.shards = 2, .cancelled = &cancelled})));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "shards"));
}

}  // namespace
}  // namespace hmann
