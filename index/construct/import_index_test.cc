#include "index/construct/import_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "index/construct/testing/build_samples.h"

namespace hmann {
namespace {

using ::testing::HasSubstr;

BuildOptions Again(const BuildOptions& made, const std::string& out) {
  BuildOptions again = made;
  again.base.clear();
  again.labels.clear();
  again.from_index = made.out;
  again.out = out;
  return again;
}

/// L0 stays as it is, so a new promotion gives what a build with its share would have
/// given, byte for byte.
TEST(ImportIndex, ANewPromotionIsTheBuildWithItsShare) {
  const SampleFolder folder;
  for (const auto& [dtype, metric] :
       {std::pair(DType::kU8, Metric::kL2), std::pair(DType::kF32, Metric::kCosine),
        std::pair(DType::kI8, Metric::kInnerProduct), std::pair(DType::kU8, Metric::kCosine)}) {
    SCOPED_TRACE(Name(metric));
    BuildOptions options = SmallBuild(folder, dtype, metric, 1500);
    options.promote = 0.05;
    options.bits = 2;
    MustBuild(options);
    const std::string first = options.out;
    for (const double share : {0.05, 0.3}) {
      for (const std::uint32_t bits : {0u, 1u, 2u, 4u}) {
        BuildOptions direct = options;
        direct.out = folder / "direct.hmann";
        direct.promote = share;
        direct.bits = bits;
        MustBuild(direct);
        BuildOptions again = Again(direct, folder / "again.hmann");
        again.from_index = first;
        again.seed = 99;  // the index's own seed counts
        MustBuild(again);
        EXPECT_TRUE(FileContent(again.out) == FileContent(direct.out)) << share << " " << bits;
        again.from_index = direct.out;  // whatever codes an index has, it can get others
        again.bits = options.bits;
        again.promote = options.promote;
        MustBuild(again);
        EXPECT_TRUE(FileContent(again.out) == FileContent(first))
            << "back from " << share << " " << bits;
      }
    }
  }
}

/// L1 is made with the alpha of L0, whatever the options say, and the recorded alpha is
/// kept.
TEST(ImportIndex, GoesOnWithItsAlpha) {
  const SampleFolder folder;
  BuildOptions options = SmallBuild(folder, DType::kU8, Metric::kL2, 600);
  ASSERT_EQ(options.alpha, BuildOptions().alpha);
  EXPECT_EQ(MustBuild(options).info.alpha, options.alpha);
  options.alpha = 1;
  const BuildReport plain = MustBuild(options);
  EXPECT_EQ(plain.info.alpha, 1.0f);
  BuildOptions again = Again(options, folder / "again.hmann");
  again.alpha = BuildOptions().alpha;
  EXPECT_EQ(MustBuild(again).info.alpha, 1.0f);
  EXPECT_TRUE(FileContent(again.out) == FileContent(options.out));

  BuildOptions products = SmallBuild(folder, DType::kU8, Metric::kInnerProduct, 600);
  products.alpha = 1.4f;
  EXPECT_EQ(MustBuild(products).info.alpha, 1.0f) << "a ratio of inner products says nothing";
  again = Again(products, folder / "again.hmann");
  again.alpha = BuildOptions().alpha;
  MustBuild(again);
  EXPECT_TRUE(FileContent(again.out) == FileContent(products.out)) << "nor do cells depend on it";
}

TEST(ImportIndex, ReplacesAnIndexInPlaceAndKeepsUsersLabels) {
  const SampleFolder folder;
  BuildOptions options = SmallBuild(folder, DType::kU8, Metric::kL2, 600);
  options.labels = folder / "labels";
  {
    std::ofstream out(options.labels, std::ios::binary);
    for (std::uint64_t i = 0; i < 600; ++i) {
      const std::uint64_t label = i * 5'000'000'000 + 7;
      out.write(reinterpret_cast<const char*>(&label), sizeof(label));
    }
  }
  MustBuild(options);
  BuildOptions again = Again(options, options.out);
  again.promote = 0.4;
  const BuildReport report = MustBuild(again);
  EXPECT_EQ(report.info.layers[1].nodes, 240u);
  EXPECT_TRUE(report.info.user_labels);
  const IndexFile file = *IndexFile::Open(options.out);
  std::vector<std::uint64_t> labels;
  for (NodeId id = 0; id < 600; ++id) labels.push_back(file.Label(id));
  std::sort(labels.begin(), labels.end());
  for (std::uint64_t i = 0; i < 600; ++i) EXPECT_EQ(labels[i], i * 5'000'000'000 + 7);
}

TEST(ImportIndex, BrokenIndexesAndMixedInputsAreRefused) {
  const SampleFolder folder;
  const BuildOptions options = SmallBuild(folder, DType::kU8, Metric::kL2, 400);
  MustBuild(options);
  BuildOptions again = Again(options, folder / "out.hmann");
  again.base = options.base;
  EXPECT_EQ(TryBuild(again).status().code(), absl::StatusCode::kInvalidArgument);
  again.base.clear();
  again.from_index = folder / "none.hmann";
  EXPECT_EQ(TryBuild(again).status().code(), absl::StatusCode::kNotFound);

  const IndexFile file = *IndexFile::Open(options.out);
  std::string bytes = FileContent(options.out);
  const auto l0 = static_cast<std::size_t>(file.l0().data() - file.file().bytes().data());
  const NodeId beyond = 400;
  std::memcpy(bytes.data() + l0 + file.records().Offset(3), &beyond, sizeof(beyond));
  again.from_index = folder / "broken.hmann";
  std::ofstream(again.from_index, std::ios::binary) << bytes;
  const absl::Status status = TryBuild(again).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the links of node 3"));
  EXPECT_EQ(folder.files(), 3u) << "base, index, broken one: nothing was written";
}

}  // namespace
}  // namespace hmann
