// Vectors by label: the same on every tier, and the result for unknown labels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cctype>
#include <chrono>
#include <cstring>
#include <memory>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "hmann/hmann.h"
#include "index/base/random.h"
#include "index/construct/testing/build_samples.h"
#include "index/format/reader.h"
#include "index/format/testing/reseal.h"
#include "index/format/testing/ring_index.h"

namespace hmann {
namespace {

using std::chrono::steady_clock;
using testing::HasSubstr;

constexpr std::uint64_t kN = 500;

/// An index of generated vectors, and expected and actual vectors by label.
struct Made {
  Made(DType dtype, Metric metric, std::uint32_t dim, double promote, bool user_labels,
       std::uint64_t of_each = 1) {
    BuildOptions options = SmallBuild(folder, dtype, metric, kN, dim);
    options.promote = promote;
    for (std::uint64_t row = 0; row < kN; ++row) {
      labels.push_back(user_labels ? Random(9, row / of_each) : row);
      if (!user_labels) continue;
      options.label_values = labels;
    }
    MustBuild(options);
    path = options.out;
    kernels = *ChooseKernels(dtype, metric, dim);
    base = *VectorFile::Open(options.base);
  }

  std::shared_ptr<const Index> Open(std::string slow, OpenOptions options = {}) const {
    if (slow.ends_with(":PATH")) slow = absl::StrCat(slow.substr(0, slow.size() - 4), path, "_l0");
    options.slow = slow;
    auto index = Index::Open(path, options);
    EXPECT_TRUE(index.ok()) << slow << ": " << index.status();
    return index.ok() ? *index : nullptr;
  }
  std::size_t bytes() const { return kernels.dim * SizeOf(kernels.dtype); }
  /// Row `row` as the index stores it: the given vector; f32 under cosine is normalized.
  std::string Expected(std::uint64_t row) const {
    std::string stored(kernels.row_bytes, '\0');
    EXPECT_TRUE(
        EncodeRow(kernels, base.Row(row), reinterpret_cast<std::byte*>(stored.data())).ok());
    return stored.substr(0, bytes());
  }
  /// The vector of each label.
  absl::StatusOr<std::vector<std::string>> Get(Searcher& searcher,
                                               const std::vector<std::uint64_t>& wanted,
                                               Counters* counters = nullptr,
                                               const SearchLimits& limits = {}) const {
    std::string all(wanted.size() * bytes(), '?');
    const absl::Status status = searcher.Get(wanted, all.data(), counters, limits);
    if (!status.ok()) return status;
    std::vector<std::string> vectors;
    for (std::size_t i = 0; i < wanted.size(); ++i)
      vectors.push_back(all.substr(i * bytes(), bytes()));
    return vectors;
  }

  SampleFolder folder;
  std::string path;
  Kernels kernels;
  VectorFile base;
  std::vector<std::uint64_t> labels;  ///< [row]
};

/// Every row once, in random order, and one of them again.
std::vector<std::uint64_t> SomeRows() {
  std::vector<std::uint64_t> rows = {7, 7};
  for (const std::uint32_t row : RandomPermutation(kN, 5)) rows.push_back(row);
  return rows;
}

/// A pass over all vectors, and their ids by label.
void ExpectRows(const Made& made, const Index& index, std::span<const std::uint64_t> wanted) {
  std::vector<std::uint64_t> label_of;
  std::string rows;
  const absl::Status passed = index.ForRows([&](auto ids, auto labels, auto batch) {
    for (std::size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(ids[i], label_of.size() + i);
    EXPECT_EQ(batch.size(), ids.size() * made.bytes());
    label_of.insert(label_of.end(), labels.begin(), labels.end());
    rows.append(reinterpret_cast<const char*>(batch.data()), batch.size());
    return absl::OkStatus();
  });
  ASSERT_TRUE(passed.ok()) << passed;
  ASSERT_EQ(label_of.size(), kN);
  for (std::uint64_t row = 0; row < kN; ++row) {
    const auto id =
        std::find(label_of.begin(), label_of.end(), made.labels[row]) - label_of.begin();
    ASSERT_EQ(rows.substr(static_cast<std::size_t>(id) * made.bytes(), made.bytes()),
              made.Expected(row));
  }
  std::vector<std::uint32_t> ids(wanted.size());
  ASSERT_TRUE(index.Find(wanted, ids).ok());
  for (std::size_t i = 0; i < ids.size(); ++i) ASSERT_EQ(label_of.at(ids[i]), wanted[i]);
  for (const std::uint64_t label : {kN + 12, ~std::uint64_t{0}}) {
    ASSERT_TRUE(index.Find({&label, 1}, {ids.data(), 1}).ok());
    EXPECT_EQ(ids[0], kNoId);
  }
  int batches = 0;
  const auto stop = [&](auto, auto, auto) { return ++batches, absl::CancelledError("enough"); };
  EXPECT_EQ(index.ForRows(stop), absl::CancelledError("enough"));
  EXPECT_EQ(batches, 1);
}

void ExpectAll(const Made& made, const std::shared_ptr<const Index>& index, bool cached) {
  ASSERT_NE(index, nullptr);
  Searcher searcher(index);
  std::vector<std::uint64_t> wanted;
  for (const std::uint64_t row : SomeRows()) wanted.push_back(made.labels[row]);
  Counters counters;
  const auto vectors = made.Get(searcher, wanted, &counters);
  ASSERT_TRUE(vectors.ok()) << vectors.status();
  for (std::size_t i = 0; i < wanted.size(); ++i)
    ASSERT_EQ((*vectors)[i], made.Expected(SomeRows()[i])) << "row " << SomeRows()[i];
  if (!cached) {
    EXPECT_EQ(counters.io_reads > 0, index->on_block_tier());
  }
  EXPECT_GE(counters.node_accesses, kN - kN / 10);
  EXPECT_TRUE(made.Get(searcher, {}).ok());

  ExpectRows(made, *index, wanted);

  wanted = {made.labels[3], kN + 12, made.labels[4], kN + 11};
  const absl::Status missing = made.Get(searcher, wanted).status();
  EXPECT_TRUE(absl::IsNotFound(missing)) << missing;
  EXPECT_EQ(missing.message(), absl::StrCat("label ", kN + 12, ": no vector of the index has it"));
  EXPECT_TRUE(absl::IsNotFound(made.Get(searcher, {~std::uint64_t{0}}).status()));
}

class GetOnEveryTier : public testing::TestWithParam<std::string> {};

TEST_P(GetOnEveryTier, GivesTheStoredVectorOfEachLabel) {
  static const std::vector<std::unique_ptr<Made>> all = [] {
    std::vector<std::unique_ptr<Made>> made;
    for (const auto& [dtype, metric, dim] :
         {std::tuple(DType::kU8, Metric::kL2, 24u), std::tuple(DType::kF32, Metric::kCosine, 9u),
          std::tuple(DType::kU8, Metric::kCosine, 7u),
          std::tuple(DType::kF32, Metric::kInnerProduct, 1100u)}) {
      for (const bool user_labels : {false, true})
        made.push_back(std::make_unique<Made>(dtype, metric, dim, 0.1, user_labels));
    }
    made.push_back(
        std::make_unique<Made>(DType::kU8, Metric::kL2, 24, 0.001, true));  // none is promoted
    return made;
  }();
  for (std::size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(i);
    ExpectAll(*all[i], all[i]->Open(GetParam()), false);
    const auto dynamic = all[i]->Open(
        GetParam(), {.fast = "mapped", .cache = CachePolicy::kDynamic, .cache_bytes = 102'400});
    ExpectAll(*all[i], dynamic, true);
    ExpectAll(*all[i],
              all[i]->Open(GetParam(), {.cache = CachePolicy::kStatic,
                                        .cache_bytes = 102'400,
                                        .read_buffer_bytes = 4096}),
              true);
  }
}

INSTANTIATE_TEST_SUITE_P(Tiers, GetOnEveryTier,
                         testing::Values("dram", "mapped", "mapped:PATH", "emulated:lat=1ns",
                                         "nvme", "nvme:PATH", "delay:1ms+nvme"),
                         [](const auto& test) {
                           std::string name;
                           for (const char c : test.param) name += std::isalnum(c) ? c : '_';
                           return name;
                         });

TEST(Get, OfALabelThatSeveralHaveItIsTheLowestId) {
  const Made made(DType::kU8, Metric::kL2, 24, 0.1, true, 3);
  const auto file = IndexFile::Open(made.path);
  ASSERT_TRUE(file.ok());
  for (const char* slow : {"dram", "nvme"}) {
    const auto index = made.Open(slow);
    Searcher searcher(index);
    const auto vectors = made.Get(searcher, made.labels);
    ASSERT_TRUE(vectors.ok()) << vectors.status();
    for (std::uint64_t row = 0; row < kN; ++row) {
      NodeId id = 0;
      while (file->Label(id) != made.labels[row]) ++id;
      EXPECT_EQ(std::memcmp((*vectors)[row].data(), file->Row(id), made.bytes()), 0) << row;
      std::uint32_t found = 0;
      ASSERT_TRUE(index->Find({&made.labels[row], 1}, {&found, 1}).ok());
      EXPECT_EQ(found, id);
    }
  }
}

/// A merge makes an index of the rows of another.
TEST(Get, GivesRowsOfWhichTheSameIndexIsBuilt) {
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    for (const std::uint32_t dim : {3u, 100u, 768u}) {
      const Made made(dtype, Metric::kCosine, dim, 0.1, false);
      const auto index = made.Open("mapped");
      std::vector<std::byte> rows(kN * made.bytes());
      ASSERT_TRUE(Searcher(index).Get(made.labels, rows.data()).ok());
      BuildOptions options = SmallBuild(made.folder, dtype, Metric::kCosine, kN, dim);
      auto writer = VectorWriter::Create(options.base, dim);
      ASSERT_TRUE(writer.ok() && writer->Append(rows.data(), kN).ok() && writer->Commit().ok());
      options.promote = 0.1;
      options.out = made.folder / "again.hmann";
      MustBuild(options);
      EXPECT_EQ(ReadInfo(options.out)->content_hash, index->info().content_hash) << dim;
    }
  }
}

TEST(Get, WhatACacheHoldsIsNotRead) {
  const Made made(DType::kU8, Metric::kL2, 24, 0.1, true);
  for (const char* slow : {"mapped", "emulated:lat=1ns", "nvme"}) {
    Searcher searcher(
        made.Open(slow, {.cache = CachePolicy::kStatic, .cache_bytes = std::uint64_t{1} << 20}));
    Counters counters;
    ASSERT_TRUE(made.Get(searcher, made.labels, &counters).ok());
    EXPECT_GT(counters.cache_hits, 0u) << slow;
    EXPECT_EQ(counters.io_reads, 0u) << slow;
  }
}

TEST(Get, EndsWhenItIsToldAndGoesOnAfterwards) {
  const Made made(DType::kU8, Metric::kL2, 24, 0.1, true);
  ResolvedParams params;
  for (const char* slow : {"mapped", "emulated:lat=1ns", "delay:3ms+nvme"}) {
    const auto index = made.Open(slow);
    Searcher searcher(index);
    Answer answer;
    params = index->Resolve(SearchParams())->params;
    const std::atomic<bool> cancelled{true};
    EXPECT_TRUE(absl::IsCancelled(
        made.Get(searcher, made.labels, nullptr, {.cancelled = &cancelled}).status()));
    for (int i = 0; i < 3; ++i) {
      const auto soon = steady_clock::now() + std::chrono::milliseconds(i);
      const absl::Status late =
          made.Get(searcher, made.labels, nullptr, {.deadline = soon}).status();
      EXPECT_TRUE(late.ok() || absl::IsDeadlineExceeded(late)) << late;
      ASSERT_TRUE(searcher.Search(made.base.Row(0), params, &answer).ok());
      const auto one = made.Get(searcher, {made.labels[50]});
      ASSERT_TRUE(one.ok()) << one.status();
      EXPECT_EQ(one->front(), made.Expected(50));
    }
  }
}

TEST(Get, AFailingReadIsAnErrorAndAStalledDeviceAnEnd) {
  const Made made(DType::kU8, Metric::kL2, 24, 0.1, false);
  Searcher failing(made.Open("fail:every=3+nvme"));
  EXPECT_TRUE(absl::IsDataLoss(made.Get(failing, made.labels).status()));
  Searcher stalled(made.Open("stall:after=1+nvme"));
  const auto soon = steady_clock::now() + std::chrono::milliseconds(100);
  const absl::Status late = made.Get(stalled, made.labels, nullptr, {.deadline = soon}).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
}

/// A file whose label order was damaged on disk.
absl::Status GetOfDamaged(bool user_labels, std::size_t entry, NodeId id, std::uint64_t label) {
  RingIndex ring({.user_labels = user_labels});
  TemporaryPath path(testing::TempDir(), "damaged_order");
  Progress quiet(Progress::Show::kNever);
  EXPECT_TRUE(WriteIndex(path, ring.contents, quiet).ok());
  std::vector<std::byte> bytes = ReadBytes(path);
  const auto file = IndexFile::Open(path);
  EXPECT_TRUE(file.ok()) << file.status();
  for (const Section& section : file->sections()) {
    if (section.kind == SectionKind::kLabelOrder)
      Poke(std::span(bytes), section.offset + entry * sizeof(NodeId), id);
  }
  WriteBytes(path, bytes);
  const auto index = Index::Open(path, {.slow = "mapped"});
  EXPECT_TRUE(index.ok()) << index.status();
  std::uint32_t found = 0;
  const absl::Status status = (*index)->Find({&label, 1}, {&found, 1});
  EXPECT_EQ(absl::IsDataLoss(status), id >= file->info().n) << status;
  std::vector<std::byte> vector(20);
  return Searcher(*index).Get({&label, 1}, vector.data());
}

TEST(Get, ADamagedOrderIsNoticed) {
  for (const NodeId id : {NodeId{200}, kNoNode}) {
    for (const bool user_labels : {false, true}) {
      const absl::Status status = GetOfDamaged(user_labels, 0, id, 0);
      EXPECT_TRUE(absl::IsDataLoss(status)) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("section label_order, entry 0"));
    }
  }
  EXPECT_TRUE(absl::IsDataLoss(GetOfDamaged(false, 8, 1, 8))) << "another node's";
  EXPECT_TRUE(absl::IsDataLoss(GetOfDamaged(false, 8, 190, 8)));
}

}  // namespace
}  // namespace hmann
