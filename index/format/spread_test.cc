// Hubs and cells, counted beside a count of another kind.
#include "index/format/spread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <numeric>

#include "absl/strings/str_cat.h"
#include "index/format/reader.h"
#include "index/format/testing/reseal.h"
#include "index/format/testing/ring_index.h"

namespace hmann {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Spread, QuantilesAreOfTheNearestRank) {
  std::vector<std::uint32_t> values(1000);
  std::iota(values.rbegin(), values.rend(), 1u);
  const Spread spread = SpreadOf(values);
  EXPECT_EQ(spread.count, 1000u);
  EXPECT_DOUBLE_EQ(spread.mean, 500.5);
  EXPECT_THAT(spread.quantiles, ElementsAre(10, 100, 500, 900, 990, 1000));
  EXPECT_THAT(SpreadOf({7}).quantiles, ElementsAre(7, 7, 7, 7, 7, 7));
  EXPECT_EQ(SpreadOf({}).count, 0u);
}

class SpreadOfIndex : public ::testing::Test {
 protected:
  void SetUp() override {
    RingIndex index({.bits = 2});
    ASSERT_TRUE(WriteIndex(path_, index.contents, quiet_).ok());
  }
  const std::string path_ = absl::StrCat(::testing::TempDir(), "spread_", ::getpid());
  Progress quiet_{Progress::Show::kNever};
};

TEST_F(SpreadOfIndex, CountsEachLinkAtBothEndsAndEachNodeInOneCell) {
  const auto spread = MeasureSpread(path_, quiet_);
  ASSERT_TRUE(spread.ok()) << spread.status();
  const auto file = IndexFile::Open(path_);
  ASSERT_TRUE(file.ok());
  const auto n = static_cast<double>(file->info().n);
  EXPECT_EQ(spread->links_in.count, file->info().n);
  EXPECT_DOUBLE_EQ(spread->links_in.mean, file->info().layers[0].mean_degree);
  EXPECT_DOUBLE_EQ(spread->links_out.mean, file->info().layers[0].mean_degree);
  const auto n1 = static_cast<double>(file->layers().nodes[1]);
  EXPECT_DOUBLE_EQ(spread->cells.mean * n1, n - n1);
}

TEST_F(SpreadOfIndex, ALinkToNowhereIsNamed) {
  std::vector<std::byte> bytes = ReadBytes(path_);
  const auto file = IndexFile::Open(path_);
  ASSERT_TRUE(file.ok());
  const auto l0 = static_cast<std::size_t>(file->l0().data() - file->file().bytes().data());
  Poke(std::span(bytes), l0 + file->records().Offset(1) + file->records().LinksOffset(1),
       NodeId{1000000});
  WriteBytes(path_, bytes);
  const auto spread = MeasureSpread(path_, quiet_);
  EXPECT_EQ(spread.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(spread.status().message(), HasSubstr("L0, node 1, link 0"));
}

}  // namespace
}  // namespace hmann
