// The same answers on every tier, with every prefetch mode and cache.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "hmann/hmann.h"
#include "hmann/tier.h"
#include "index/base/units.h"
#include "index/testing/tier_sample.h"
#include "index/tiers/testing/decorators.h"

namespace hmann {
namespace {

using ::testing::HasSubstr;

void ExpectSameWork(const TierAnswers& found, const TierAnswers& expected) {
  EXPECT_EQ(found.total.distances_fast, expected.total.distances_fast);
  EXPECT_EQ(found.total.distances_slow, expected.total.distances_slow);
  EXPECT_EQ(found.total.node_reads, expected.total.node_reads);
  EXPECT_EQ(found.total.node_accesses, expected.total.node_accesses);
  EXPECT_EQ(found.total.node_bytes, expected.total.node_bytes);
  EXPECT_EQ(found.total.expanded_l0, expected.total.expanded_l0);
}

class EverySlowTier : public testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() { made_ = new TierSample(DType::kU8, Metric::kL2, 24); }
  static void TearDownTestSuite() { delete made_; }
  static std::string Spec() {
    const std::string& spec = GetParam();
    return spec.ends_with(":PATH")
               ? absl::StrCat(spec.substr(0, spec.size() - 4), made_->folder / "l0_copy")
               : spec;
  }
  static inline TierSample* made_ = nullptr;
};

TEST_P(EverySlowTier, GivesTheSameAnswersInEveryMode) {
  const auto dram = made_->Open("dram");
  const auto slow = made_->Open(Spec());
  ASSERT_TRUE(dram != nullptr && slow != nullptr);
  for (SearchParams options : ManyTierParams()) {
    SCOPED_TRACE(absl::StrCat(options.mode.has_value() ? Name(*options.mode).data() : "default",
                              " k ", options.k));
    const TierAnswers expected = made_->Search(dram, options);
    for (const Prefetch prefetch : {Prefetch::kAhead, Prefetch::kOff, Prefetch::kHop}) {
      SCOPED_TRACE(std::string(Name(prefetch)));
      options.prefetch = prefetch;
      const TierAnswers found = made_->Search(slow, options);
      ASSERT_NO_FATAL_FAILURE(ExpectSameAnswers(found, expected));
      ExpectSameWork(found, expected);
      EXPECT_LE(found.total.fetched_ahead_used, found.total.fetched_ahead);
      EXPECT_LE(found.total.fetched_ahead_late, found.total.fetched_ahead_used);
      if (prefetch == Prefetch::kOff) {
        EXPECT_EQ(found.total.fetched_ahead, 0u);
      }
      if (slow->on_block_tier()) {
        EXPECT_EQ(found.total.io_reads > 0, found.total.node_reads > 0);
        EXPECT_LE(found.total.io_bytes, found.total.io_reads * 4096);
        EXPECT_GE(found.total.io_bytes, found.total.io_reads * 512);
      }
    }
  }
}

TEST_P(EverySlowTier, GivesTheSameAnswersWhereARecordTakesABlock) {
  static const TierSample large(DType::kU8, Metric::kL2, 2600, 700);
  const std::string spec = GetParam().ends_with(":PATH") ? absl::StrCat(Spec(), "_large") : Spec();
  const auto dram = large.Open("dram"), slow = large.Open(spec);
  const auto cached = large.Open(spec, {.cache = CachePolicy::kDynamic, .cache_bytes = 100_KiB});
  ASSERT_TRUE(dram != nullptr && slow != nullptr && cached != nullptr);
  for (SearchParams options : std::vector<SearchParams>{
           {.k = 10, .mode = SearchMode::kQuantized},
           {.k = 10,
           .ef_l1 = 4,
           .ef_l0 = 12,
           .mode = SearchMode::kQuantized,
           .nprobe = 0,
           .beam_width = 1},
           {.k = 50, .ef_l0 = 50, .mode = SearchMode::kQuantized, .nprobe = 0, .beam_width = 64},
           {.k = 10, .mode = SearchMode::kGraph},
           {.k = 10, .ef_l1 = 2, .ef_l0 = 2, .mode = SearchMode::kMultiStart}}) {
    SCOPED_TRACE(absl::StrCat(options.mode.has_value() ? Name(*options.mode).data() : "default",
                              " width ", options.beam_width.value_or(0)));
    if (options.mode == SearchMode::kQuantized && !options.beam_width.has_value()) {
      options.beam_width = 8;  // these defaults depend on the tier
      options.nprobe = 0;
    }
    const TierAnswers expected = large.Search(dram, options);
    EXPECT_EQ(expected.total.estimates > 0, options.mode == SearchMode::kQuantized);
    for (const Prefetch prefetch : {Prefetch::kAhead, Prefetch::kOff, Prefetch::kHop}) {
      options.prefetch = prefetch;
      const TierAnswers found = large.Search(prefetch == Prefetch::kAhead ? cached : slow, options);
      ASSERT_NO_FATAL_FAILURE(ExpectSameAnswers(found, expected));
      ExpectSameWork(found, expected);
    }
  }
}

TEST_P(EverySlowTier, GivesTheSameAnswersWithEveryCache) {
  const auto dram = made_->Open("dram");
  for (const CachePolicy policy : {CachePolicy::kStatic, CachePolicy::kDynamic}) {
    const auto slow = made_->Open(Spec(), {.cache = policy, .cache_bytes = 100_KiB});
    ASSERT_TRUE(slow != nullptr);
    for (const SearchParams& options : ManyTierParams()) {
      const TierAnswers expected = made_->Search(dram, options);
      const TierAnswers found = made_->Search(slow, options);
      ASSERT_NO_FATAL_FAILURE(ExpectSameAnswers(found, expected));
      if (options.ef_l0 != 0 && options.mode != SearchMode::kUpper && options.k == 10) {
        EXPECT_GT(found.total.cache_hits, 0u) << std::string(Name(policy));
      }
    }
  }
}

TEST_P(EverySlowTier, SaysWhereItLies) {
  const auto slow = made_->Open(Spec(), {.cache = CachePolicy::kStatic, .cache_bytes = 64_KiB});
  ASSERT_TRUE(slow != nullptr);
  std::uint64_t l0 = 0;
  for (const Placement& placement : slow->Placements()) {
    EXPECT_FALSE(placement.where.empty()) << placement.structure;
    if (placement.structure != "l0") continue;
    l0 = placement.bytes;
    EXPECT_EQ(placement.tier, Spec());
  }
  EXPECT_GT(l0, 1500u * 24);
  EXPECT_EQ(slow->Placements().back().structure, "l0_cache");
  EXPECT_GT(slow->Placements().back().bytes, 64_KiB) << "its index, too";
}

TEST_P(EverySlowTier, ManyThreadsAtOnceAgree) {
  const auto slow = made_->Open(Spec(), {.cache = CachePolicy::kDynamic, .cache_bytes = 40_KiB});
  ASSERT_TRUE(slow != nullptr);
  const TierAnswers expected = made_->Search(made_->Open("dram"), kTierParams);
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int pass = 0; pass < 5; ++pass) {
        const SearchParams options{.ef_l0 = 64,
                                   .mode = SearchMode::kGraph,
                                   .prefetch = t % 2 == 0 ? Prefetch::kAhead : Prefetch::kHop};
        ExpectSameAnswers(made_->Search(slow, options, 1 + static_cast<std::uint32_t>(t) * 3),
                          expected);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Tiers, EverySlowTier,
                         testing::Values("mapped", "mapped:PATH", "numa:0", "nvme", "nvme:PATH",
                                         "emulated:lat=500ns",
                                         "emulated:lat=1us,bw=100MB/s,lines=2", "check+nvme",
                                         "delay:min=0us,max=300us,seed=5+nvme"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name)
                             c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           return name;
                         });

TEST(OpenTiers, WrongPlacementsHaveNamedErrors) {
  const TierSample made(DType::kU8, Metric::kL2, 8, 300);
  const auto error = [&](const OpenOptions& options) {
    const absl::Status status = Index::Open(made.path, options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(error({.fast = "nvme"}), HasSubstr("fast: tier nvme is for L0 only"));
  EXPECT_THAT(error({.fast = "mapped:/tmp/x"}), HasSubstr("is for L0 only"));
  EXPECT_THAT(error({.slow = "tape"}), HasSubstr("tape"));
  EXPECT_THAT(error({.cache = CachePolicy::kStatic}),
              HasSubstr("cache: policy static needs a size"));
}

/// Memory, but before it takes a section, the file is made shorter.
class ShrinkingTier : public Tier {
 public:
  ShrinkingTier() : Tier({.name = "shrinking"}) {}
  absl::StatusOr<Region> Place(const PlacementSource& source, Progress& progress) const override {
    std::filesystem::resize_file(source.path, source.file_offset + source.bytes.size() / 2);
    return (*MakeTier("dram"))->Place(source, progress);
  }
  static absl::StatusOr<std::unique_ptr<Tier>> Make(std::string_view spec) {
    if (spec != "shrinking") return nullptr;
    return std::make_unique<ShrinkingTier>();
  }
};

TEST(OpenTiers, AFileThatIsShortenedMeanwhileIsAnErrorAndNoSignal) {
  RegisterTiers(ShrinkingTier::Make);
  for (const OpenOptions& options :
       {OpenOptions{.slow = "shrinking"}, OpenOptions{.fast = "shrinking"}}) {
    const TierSample made(DType::kU8, Metric::kL2, 24);
    const absl::Status status = Index::Open(made.path, options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("made shorter meanwhile"));
  }
  RegisterTiers(MakeDecorated);  // as before
}

}  // namespace
}  // namespace hmann
