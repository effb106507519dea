// The label order: building, writing, reading, and damage.
#include "index/format/label_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "absl/strings/str_cat.h"
#include "index/base/random.h"
#include "index/format/reader.h"
#include "index/format/testing/reseal.h"
#include "index/format/testing/ring_index.h"
#include "index/format/verify.h"

namespace hmann {
namespace {

using ::testing::HasSubstr;

absl::Status Ok() { return absl::OkStatus(); }

std::vector<NodeId> MustOrder(const std::vector<std::uint64_t>& labels) {
  const auto order = OrderByLabel(
      static_cast<NodeId>(labels.size()), [&](NodeId id) { return labels[id]; }, Ok);
  EXPECT_TRUE(order.ok()) << order.status();
  return order.value_or(std::vector<NodeId>());
}

TEST(LabelOrder, IsThatOfAStableSort) {
  // One bucket, several buckets, one label for all, and one label for many.
  for (const NodeId n : {1u, 2u, 1000u, 700'000u}) {
    for (const std::uint64_t range : {std::uint64_t{1}, std::uint64_t{50}, ~std::uint64_t{0}}) {
      std::vector<std::uint64_t> labels(n);
      for (NodeId id = 0; id < n; ++id) labels[id] = Random(3, id) % range;
      std::vector<NodeId> expected(n);
      std::iota(expected.begin(), expected.end(), 0u);
      std::stable_sort(expected.begin(), expected.end(),
                       [&](NodeId a, NodeId b) { return labels[a] < labels[b]; });
      EXPECT_TRUE(MustOrder(labels) == expected) << n << ", " << range;
    }
  }
}

TEST(LabelOrder, EndsWhenItIsTold) {
  int calls = 0;
  const auto check = [&calls]() -> absl::Status {
    return ++calls < 3 ? absl::OkStatus() : absl::CancelledError("enough");
  };
  const auto label = [](NodeId id) { return std::uint64_t{id}; };
  EXPECT_TRUE(absl::IsCancelled(OrderByLabel(300'000, label, check).status()));
  calls = 0;
  EXPECT_TRUE(absl::IsCancelled(OrderByRow(300'000, label, check).status()));
}

/// An index file and the position of its label order.
class LabelOrderFile : public ::testing::Test {
 protected:
  void Make(const RingIndex::Shape& shape) {
    index_.emplace(shape);
    Progress silent(Progress::Show::kNever);
    const auto written = WriteIndex(path_, index_->contents, silent);
    ASSERT_TRUE(written.ok()) << written.status();
    info_ = *written;
    good_ = ReadBytes(path_);
    const auto file = IndexFile::Open(path_);
    ASSERT_TRUE(file.ok()) << file.status();
    order_.assign(file->label_order().begin(), file->label_order().end());
    sorted_.assign(file->sorted_labels().begin(), file->sorted_labels().end());
    for (const Section& section : file->sections()) {
      if (section.kind == SectionKind::kLabelOrder) order_at_ = section.offset;
      if (section.kind == SectionKind::kSortedLabels) sorted_at_ = section.offset;
    }
  }
  absl::Status Verify(const std::vector<std::byte>& bytes) {
    WriteBytes(path_, bytes);
    Progress silent(Progress::Show::kNever);
    return VerifyIndex(path_, silent);
  }
  /// Verifies a file with two entries of the order swapped and every checksum right.
  absl::Status VerifySwapped(std::size_t a, std::size_t b) {
    std::vector<std::byte> bytes = good_;
    Poke(std::span(bytes), order_at_ + 4 * a, order_[b]);
    Poke(std::span(bytes), order_at_ + 4 * b, order_[a]);
    Reseal(bytes);
    return Verify(bytes);
  }
  template <class T>
  absl::Status VerifyWith(std::uint64_t offset, T value) {
    std::vector<std::byte> bytes = good_;
    Poke(std::span(bytes), offset, value);
    Reseal(bytes);
    return Verify(bytes);
  }
  std::uint64_t LineBytes() const {
    for (const StructureBytes& line : info_.bytes) {
      if (line.name == "label_order") return line.bytes;
    }
    return 0;
  }

  TemporaryPath path_{::testing::TempDir(), "label_order"};
  std::optional<RingIndex> index_;
  IndexInfo info_;
  std::vector<std::byte> good_;
  std::vector<NodeId> order_;
  std::vector<std::uint64_t> sorted_;
  std::uint64_t order_at_ = 0, sorted_at_ = 0;
};

TEST_F(LabelOrderFile, RowNumbersLeadToTheirNodes) {
  Make({});
  ASSERT_EQ(order_.size(), 200u);
  EXPECT_TRUE(sorted_.empty());
  EXPECT_EQ(LineBytes(), 200u * 4);
  for (NodeId row = 0; row < 200; ++row) EXPECT_EQ(index_->Label(order_[row]), row);
  EXPECT_EQ(Verify(good_), absl::OkStatus());

  const absl::Status swapped = VerifySwapped(5, 90);
  EXPECT_TRUE(absl::IsDataLoss(swapped)) << swapped;
  EXPECT_THAT(std::string(swapped.message()),
              HasSubstr(absl::StrCat("offset ", order_at_ + 20, ": order of labels: expected node ",
                                     order_[5], ", of label 5; found ", order_[90])));
  EXPECT_TRUE(absl::IsDataLoss(VerifyWith(order_at_ + 4, NodeId{200})));
  EXPECT_TRUE(absl::IsDataLoss(VerifyWith(order_at_, kNoNode)));
}

TEST_F(LabelOrderFile, UserLabelsAscendAndAreStoredInTheirOrder) {
  Make({.n = 1100, .n1 = 90, .user_labels = true});
  ASSERT_EQ(order_.size(), 1100u);
  ASSERT_EQ(sorted_.size(), 1100u + 3);
  EXPECT_EQ(LineBytes(), 1100u * 4 + 1103 * 8);
  for (std::size_t i = 0; i < 1100; ++i) {
    EXPECT_EQ(sorted_[i], index_->Label(order_[i]));
    EXPECT_TRUE(i == 0 || sorted_[i - 1] < sorted_[i]) << i;
  }
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(sorted_[1100 + i], sorted_[512 * i]);
  EXPECT_EQ(Verify(good_), absl::OkStatus());

  const absl::Status swapped = VerifySwapped(70, 71);
  EXPECT_TRUE(absl::IsDataLoss(swapped)) << swapped;
  EXPECT_THAT(std::string(swapped.message()), HasSubstr("order of labels, entry 71"));
  EXPECT_THAT(std::string(VerifyWith(order_at_ + 12, NodeId{1100}).message()),
              HasSubstr("entry 3: expected a node"));
  EXPECT_THAT(std::string(VerifyWith(order_at_ + 12, order_[2]).message()), HasSubstr("entry 3"));
  for (const std::uint64_t entry : {0u, 700u, 1102u}) {
    EXPECT_THAT(std::string(VerifyWith(sorted_at_ + 8 * entry, std::uint64_t{1}).message()),
                HasSubstr(absl::StrCat("sorted labels, entry ", entry, ": expected ",
                                       sorted_[entry], "; found 1")));
  }
}

TEST_F(LabelOrderFile, OfEqualLabelsTheLowestIdIsFirst) {
  RingIndex index({.user_labels = true});
  index.contents.label = [](NodeId id) { return std::uint64_t{id % 3} << 40; };
  Progress silent(Progress::Show::kNever);
  ASSERT_TRUE(WriteIndex(path_, index.contents, silent).ok());
  const auto file = IndexFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  for (std::size_t i = 1; i < 200; ++i) {
    const NodeId a = file->label_order()[i - 1], b = file->label_order()[i];
    EXPECT_TRUE(a % 3 < b % 3 || (a % 3 == b % 3 && a < b)) << i;
  }
  EXPECT_EQ(VerifyIndex(path_, silent), absl::OkStatus());
}

}  // namespace
}  // namespace hmann
