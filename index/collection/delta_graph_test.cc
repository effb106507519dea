#include "index/collection/delta_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "datasets/vector_file.h"
#include "index/collection/delta_graph.h"
#include "index/construct/testing/build_samples.h"

namespace hmann {
namespace {

/// The first rows of the sample in a tail, and a graph over them.
class DeltaGraphTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kRows = 4000, kFirst = 100;

  DeltaGraphTest()
      : base_(*VectorFile::Open("datasets/sample/base.u8bin")),
        queries_(*VectorFile::Open("datasets/sample/query.u8bin")),
        kernels_(*ChooseKernels(DType::kU8, Metric::kL2, base_.dim())),
        tail_(RoundUp(kernels_.row_bytes, 64)) {}

  void Append(std::uint64_t row) {
    const auto bytes = std::span(base_.Row(row), kernels_.row_bytes);
    ASSERT_TRUE(tail_.Append(row, bytes, {}).ok());
  }
  void Insert() { graph_.Insert(tail_, kernels_, 48, 1.2F, inserted_); }

  /// The share of the 10 nearest of rows [begin, end) that searches find.
  double Recall(std::uint64_t begin, std::uint64_t end) {
    ResolvedParams params;
    params.k = 10;
    params.epsilon = 0.15F;
    std::uint64_t found = 0;
    for (std::uint64_t q = 0; q < queries_.n(); ++q) {
      std::vector<Candidate> exact;
      for (std::uint64_t row = begin; row < end; ++row) {
        const auto id = static_cast<NodeId>(row - graph_.first());
        if (tail_.Has(row))
          exact.push_back({kernels_.one(queries_.Row(q), tail_.Row(row), kernels_.dim), id});
      }
      std::partial_sort(exact.begin(), exact.begin() + 10, exact.end());
      graph_.Search(tail_, kernels_, queries_.Row(q),
                    {200, 10, EpsilonLimit::Of(params, ~DistanceKey{0})}, scratch_);
      const Beam& beam = scratch_.layer.beam;
      for (std::uint32_t i = 0; i < 10; ++i)
        for (std::uint32_t at = 0; at < beam.size(); ++at)
          found += beam.id(at) == exact[i].id ? 1 : 0;
    }
    return static_cast<double>(found) / static_cast<double>(10 * queries_.n());
  }

  const VectorFile base_, queries_;
  const Kernels kernels_;
  Tail tail_;
  DeltaGraph graph_{kFirst};
  DeltaGraph::Scratch inserted_, scratch_;
};

TEST_F(DeltaGraphTest, FindsTheNearestRowsInWhateverOrderTheyCame) {
  // The rows of a photograph follow each other in the sample.
  for (std::uint64_t row = 0; row < kRows; ++row) Append(row);
  while (graph_.end() < kRows) Insert();
  EXPECT_GE(Recall(kFirst, kRows), 0.97);
  for (std::uint64_t row = kFirst; row < kRows; row += 2) tail_.Kill(row);
  EXPECT_GE(Recall(kFirst, kRows), 0.95);
}

TEST_F(DeltaGraphTest, RowsThatWereDeadGetNoLinks) {
  for (std::uint64_t row = 0; row < kRows; ++row) Append(row);
  for (std::uint64_t row = kFirst; row < kRows; ++row)
    if (row % 3 != 0) tail_.Kill(row);
  while (graph_.end() < kRows) Insert();
  for (std::uint64_t row = kFirst; row < kRows; ++row) {
    if (!tail_.Has(row)) {
      EXPECT_EQ(tail_.Links(row)[0], kNoNode) << row;
    }
  }
  EXPECT_GE(Recall(kFirst, kRows), 0.97);
}

TEST_F(DeltaGraphTest, ALaterGraphLeadsToItsOwnRowsOnly) {
  for (std::uint64_t row = 0; row < kRows; ++row) Append(row);
  graph_.Close(kRows / 2);
  while (graph_.end() < graph_.limit()) Insert();
  DeltaGraph later(kRows / 2);
  while (later.end() < kRows) {
    later.Insert(tail_, kernels_, 48, 1.2F, inserted_);
    const auto nodes = static_cast<NodeId>(later.end() - later.first());
    for (std::uint32_t i = 0; i < TailChunk::kLinks; ++i) {
      const NodeId to = tail_.Links(later.end() - 1)[i];
      EXPECT_TRUE(to == kNoNode || to < nodes) << to;
    }
    later.Search(tail_, kernels_, queries_.Row(0), {.width = 48}, inserted_);
    const Beam& beam = inserted_.layer.beam;
    EXPECT_EQ(beam.size(), std::min<std::uint32_t>(48, nodes));
    for (std::uint32_t i = 1; i < beam.size(); ++i) EXPECT_NE(beam.id(i), beam.id(i - 1));
  }
  EXPECT_GE(Recall(kFirst, kRows / 2), 0.97);
}

/// A moment sees its own rows only, whatever is inserted meanwhile.
TEST_F(DeltaGraphTest, IsSearchedWhileItGrows) {
  for (std::uint64_t row = 0; row < kRows / 2; ++row) Append(row);
  while (graph_.end() < kRows / 2) Insert();
  const Tail before = tail_;
  for (std::uint64_t row = kRows / 2; row < kRows; ++row) Append(row);
  std::thread inserter([&] {
    while (graph_.end() < kRows) Insert();
  });
  do {
    for (std::uint64_t q = 0; q < queries_.n(); ++q) {
      graph_.Search(before, kernels_, queries_.Row(q), {.width = 50}, scratch_);
      const Beam& beam = scratch_.layer.beam;
      ASSERT_EQ(beam.size(), 50u);
      for (std::uint32_t i = 0; i < beam.size(); ++i) {
        ASSERT_LT(beam.id(i), kRows / 2 - kFirst);
        ASSERT_EQ(beam.key(i),
                  kernels_.one(queries_.Row(q), before.Row(kFirst + beam.id(i)), kernels_.dim));
      }
    }
  } while (graph_.end() < kRows);
  inserter.join();
  EXPECT_GE(Recall(kFirst, kRows), 0.97);
}

TEST_F(DeltaGraphTest, AFileBringsItBack) {
  constexpr std::uint64_t kPieceBytes = DeltaGraph::kPieceRows * TailChunk::kLinks * 4 + 8;
  for (std::uint64_t row = 0; row < kRows; ++row) Append(row);
  while (graph_.end() < kRows) Insert();
  const SampleFolder folder;
  const std::string path = folder / "delta-graph";
  ASSERT_TRUE(graph_.Write(tail_, kernels_, path).ok());
  const std::string whole = FileContent(path);
  ASSERT_EQ(whole.size(), 3 * kPieceBytes);
  // Rows in whole pieces before the first that is damaged.
  const auto rows_of = [&](const std::string& content, const Tail& tail) {
    std::ofstream(path, std::ios::binary) << content;
    DeltaGraph read(kFirst);
    read.Read(tail, kernels_, path);
    return read.end() - read.first();
  };
  const auto damaged = [&](std::size_t at) {
    std::string content = whole;
    content[at] = static_cast<char>(content[at] ^ 1);
    return content;
  };
  EXPECT_EQ(rows_of("", tail_), 0u);
  EXPECT_EQ(rows_of("x", tail_), 0u);
  EXPECT_EQ(rows_of(whole.substr(0, whole.size() / 2), tail_), 1024u) << "cut";
  EXPECT_EQ(rows_of(damaged(3), tail_), 0u);
  EXPECT_EQ(rows_of(damaged(kPieceBytes + 7), tail_), 1024u);
  EXPECT_EQ(rows_of(damaged(whole.size() - 1), tail_), 2048u);
  EXPECT_EQ(rows_of(std::string(whole.size(), '\xff'), tail_), 0u);
  EXPECT_EQ(rows_of(whole + whole, tail_), 3072u) << "what follows is of no row";
  Tail fewer(RoundUp(kernels_.row_bytes, 64));
  for (std::uint64_t row = 0; row < 2000; ++row)
    ASSERT_TRUE(fewer.Append(row, {base_.Row(row), kernels_.row_bytes}, {}).ok());
  EXPECT_EQ(rows_of(whole, fewer), 1024u) << "of a time when there were more rows";
  Tail of_others(RoundUp(kernels_.row_bytes, 64)), of_labels(of_others);
  for (std::uint64_t row = 0; row < kRows; ++row) {
    const std::uint64_t from = row == 2000 ? 7 : row;
    ASSERT_TRUE(of_others.Append(row, {base_.Row(from), kernels_.row_bytes}, {}).ok());
    ASSERT_TRUE(of_labels.Append(from, {base_.Row(row), kernels_.row_bytes}, {}).ok());
  }
  EXPECT_EQ(rows_of(whole, of_others), 1024u) << "one row differs";
  EXPECT_EQ(rows_of(whole, of_labels), 1024u) << "one label differs";

  // Insertion continues where it ended.
  std::ofstream(path, std::ios::binary) << whole;
  DeltaGraph read(kFirst);
  read.Read(tail_, kernels_, path);
  while (read.end() < kRows) read.Insert(tail_, kernels_, 48, 1.2F, inserted_);
  EXPECT_GE(Recall(kFirst, kRows), 0.97);
  DeltaGraph none(kFirst);
  none.Read(tail_, kernels_, folder / "none");
  EXPECT_EQ(none.end(), kFirst);
}

TEST_F(DeltaGraphTest, ATailForgetsItsBeginning) {
  for (std::uint64_t row = 0; row < 3000; ++row) Append(row);
  for (std::uint64_t row = 0; row < 3000; row += 5) tail_.Kill(row);
  const auto rows = [&](std::uint64_t begin, std::uint64_t end) {
    std::vector<std::uint64_t> seen;
    tail_.ForSet(tail_.words(), begin, end, [&](std::uint64_t row) { seen.push_back(row); });
    return seen;
  };
  for (const std::uint64_t first : {0, 1, 63, 64, 1000, 1024, 2500, 2999}) {
    tail_.DropBefore(first);
    std::vector<std::uint64_t> wanted;
    for (std::uint64_t row = first; row < 3000; ++row)
      if (row % 5 != 0) wanted.push_back(row);
    EXPECT_EQ(rows(first, 3000), wanted) << first;
    EXPECT_EQ(tail_.live(), wanted.size());
    std::erase_if(wanted, [](std::uint64_t row) { return row < 2600 || row >= 2870; });
    EXPECT_EQ(rows(std::max<std::uint64_t>(first, 2600), std::max<std::uint64_t>(first, 2870)),
              wanted);
  }
}

}  // namespace
}  // namespace hmann
