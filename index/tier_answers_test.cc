/// The same answers on every tier, with every prefetch mode and cache, and while the device is slow; errors and never wrong answers when
/// it fails; an end in time when it stalls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "datasets/vector_file.h"
#include "index/build/testing/build_samples.h"
#include "index/hmann.h"

namespace hmann {
namespace {

using std::chrono::steady_clock;
using ::testing::HasSubstr;

constexpr std::uint64_t kQueries = 20;
constexpr SearchOptions kPool{.ef_l0 = 64, .walk = WalkKind::kPool};  ///< the same dials everywhere: defaults depend on the tier

struct Answers {
  std::vector<std::vector<Neighbour>> nearest;
  std::vector<absl::Status> status;
  Counters total;
};

/// An index, and some of its vectors' neighbourhoods as queries.
struct Made {
  Made(DType dtype, Metric metric, std::uint32_t dim, std::uint64_t n = 1500, CodePlace codes = CodePlace::kHub) {
    BuildOptions options = SmallBuild(folder, dtype, metric, n, dim);
    options.promote = 0.1;
    options.codes = codes;
    MustBuild(options);
    path = options.out;
    queries = *VectorFile::Open(options.base);
  }

  std::shared_ptr<const Index> Open(const std::string& slow, OpenOptions options = {}) const {
    options.slow = slow;
    auto index = Index::Open(path, options);
    EXPECT_TRUE(index.ok()) << slow << ": " << index.status();
    return index.ok() ? *index : nullptr;
  }

  /// All at once where the tier can; what a query does not answer is an empty list.
  Answers Search(const std::shared_ptr<const Index>& index, const SearchOptions& options, std::uint32_t in_flight = 4,
                 const SearchLimits& limits = {}) const {
    Answers answers;
    answers.nearest.resize(kQueries);
    answers.status.resize(kQueries, absl::UnknownError("not answered"));
    const absl::StatusOr<ResolvedSearch> resolved = index->Resolve(options);
    EXPECT_TRUE(resolved.ok()) << resolved.status();
    if (!resolved.ok()) return answers;
    Searcher searcher(index);
    const absl::Status status = searcher.SearchMany(
        kQueries, [&](std::size_t i) { return queries.Row(i * 37 % queries.n()); }, resolved->dials, in_flight,
        [&](std::size_t i, const absl::Status& outcome, Answer& answer) {
          answers.status[i] = outcome;
          if (outcome.ok()) answers.nearest[i] = answer.nearest;
        },
        &answers.total, limits);
    EXPECT_TRUE(status.ok()) << status;
    return answers;
  }

  SampleFolder folder;
  std::string path;
  VectorFile queries;
};

void ExpectSame(const Answers& found, const Answers& expected) {
  for (std::size_t query = 0; query < kQueries; ++query) {
    ASSERT_TRUE(found.status[query].ok()) << found.status[query];
    ASSERT_EQ(found.nearest[query].size(), expected.nearest[query].size());
    for (std::size_t i = 0; i < found.nearest[query].size(); ++i) {
      ASSERT_EQ(found.nearest[query][i].label, expected.nearest[query][i].label) << "query " << query << ", neighbour " << i;
      ASSERT_EQ(found.nearest[query][i].distance, expected.nearest[query][i].distance);
    }
  }
}

void ExpectSameWork(const Answers& found, const Answers& expected) {
  EXPECT_EQ(found.total.distances_fast, expected.total.distances_fast);
  EXPECT_EQ(found.total.distances_slow, expected.total.distances_slow);
  EXPECT_EQ(found.total.slow_reads, expected.total.slow_reads);
  EXPECT_EQ(found.total.slow_touches, expected.total.slow_touches);
  EXPECT_EQ(found.total.slow_bytes, expected.total.slow_bytes);
  EXPECT_EQ(found.total.expanded_l0, expected.total.expanded_l0);
}

const std::vector<SearchOptions>& ManyDials() {
  static const std::vector<SearchOptions> dials = {
      {.k = 10, .walk = WalkKind::kPool},
      {.k = 1, .ef_l1 = 1, .ef_l0 = 1, .walk = WalkKind::kPool},
      {.k = 10, .ef_l1 = 4, .ef_l0 = 100, .walk = WalkKind::kPool, .reach = 1.1f},
      {.k = 200, .ef_l1 = 3, .ef_l0 = 1, .walk = WalkKind::kPool},
      {.k = 10, .ef_l1 = 20, .ef_l0 = 0},
      {.k = 10, .walk = WalkKind::kBeams},
      {.k = 10, .ef_l1 = 16, .ef_l0 = 40, .walk = WalkKind::kGated, .cells = 0, .width = 8},
      {.k = 10, .ef_l1 = 16, .ef_l0 = 100, .walk = WalkKind::kGated, .cells = 0, .width = 8, .reach = 1.1f},
      {.k = 10, .ef_l1 = 15, .ef_l0 = 0, .walk = WalkKind::kGated, .cells = 30, .width = 5},
      {.k = 100, .ef_l1 = 100, .ef_l0 = 20, .walk = WalkKind::kGated, .cells = 3, .width = 64, .stop = 2},
      {.k = 40, .ef_l1 = 3, .ef_l0 = 1, .walk = WalkKind::kBeams},
  };
  return dials;
}

class EverySlowTier : public testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() { made_ = new Made(DType::kU8, Metric::kL2, 24); }
  static void TearDownTestSuite() { delete made_; }
  static std::string Spec() {
    const std::string& spec = GetParam();
    return spec.ends_with(":PATH") ? absl::StrCat(spec.substr(0, spec.size() - 4), made_->folder / "l0_copy") : spec;
  }
  static inline Made* made_ = nullptr;
};

TEST_P(EverySlowTier, GivesTheSameAnswersInEveryMode) {
  const auto dram = made_->Open("dram");
  const auto slow = made_->Open(Spec());
  const auto with_helper = made_->Open(Spec(), {.helper_threads = 1});
  ASSERT_TRUE(dram != nullptr && slow != nullptr && with_helper != nullptr);
  for (SearchOptions options : ManyDials()) {
    SCOPED_TRACE(absl::StrCat(options.walk.has_value() ? Name(*options.walk).data() : "default", " k ", options.k));
    const Answers expected = made_->Search(dram, options);
    for (const Prefetch prefetch : {Prefetch::kAhead, Prefetch::kOff, Prefetch::kRound, Prefetch::kHelper}) {
      SCOPED_TRACE(std::string(Name(prefetch)));
      options.prefetch = prefetch;
      const Answers found = made_->Search(prefetch == Prefetch::kHelper ? with_helper : slow, options);
      ASSERT_NO_FATAL_FAILURE(ExpectSame(found, expected));
      ExpectSameWork(found, expected);
      EXPECT_LE(found.total.migrated_used, found.total.migrated);
      EXPECT_LE(found.total.migrated_late, found.total.migrated_used);
      if (prefetch == Prefetch::kOff) {
        EXPECT_EQ(found.total.migrated, 0u);
      }
      if (slow->on_block_tier()) {
        EXPECT_EQ(found.total.io_reads > 0, found.total.slow_reads > 0);
        EXPECT_EQ(found.total.io_bytes, found.total.io_reads * 4096);
      }
    }
  }
}

/// Records with the sketches of their links: here one to a block.
TEST_P(EverySlowTier, GivesTheSameAnswersWithSketchesOfLinks) {
  static const Made edges(DType::kU8, Metric::kL2, 640, 700, CodePlace::kEdge);
  const std::string spec = GetParam().ends_with(":PATH") ? absl::StrCat(Spec(), "_edges") : Spec();
  const auto dram = edges.Open("dram"), slow = edges.Open(spec);
  const auto cached = edges.Open(spec, {.cache = CachePolicy::kDynamic, .cache_bytes = 100 * 1024, .helper_threads = 1});
  ASSERT_TRUE(dram != nullptr && slow != nullptr && cached != nullptr);
  for (SearchOptions options :
       std::vector<SearchOptions>{{.k = 10, .walk = WalkKind::kGated},
                                  {.k = 10, .ef_l1 = 4, .ef_l0 = 12, .walk = WalkKind::kGated, .cells = 0, .width = 1},
                                  {.k = 50, .ef_l0 = 50, .walk = WalkKind::kGated, .cells = 0, .width = 64},
                                  {.k = 10, .walk = WalkKind::kPool},
                                  {.k = 10, .walk = WalkKind::kBeams}}) {
    SCOPED_TRACE(absl::StrCat(options.walk.has_value() ? Name(*options.walk).data() : "default", " width ", options.width.value_or(0)));
    if (options.walk == WalkKind::kGated && !options.width.has_value()) options.width = 8;  // the default depends on the tier
    const Answers expected = edges.Search(dram, options);
    EXPECT_EQ(expected.total.sketches > 0, options.walk == WalkKind::kGated);
    for (const Prefetch prefetch : {Prefetch::kAhead, Prefetch::kOff, Prefetch::kRound, Prefetch::kHelper}) {
      options.prefetch = prefetch;
      const Answers found = edges.Search(prefetch == Prefetch::kHelper ? cached : slow, options);
      ASSERT_NO_FATAL_FAILURE(ExpectSame(found, expected));
      ExpectSameWork(found, expected);
    }
  }
}

TEST_P(EverySlowTier, GivesTheSameAnswersWithEveryCache) {
  const auto dram = made_->Open("dram");
  for (const CachePolicy policy : {CachePolicy::kStatic, CachePolicy::kDynamic}) {
    const auto slow = made_->Open(Spec(), {.cache = policy, .cache_bytes = 100 * 1024});
    ASSERT_TRUE(slow != nullptr);
    for (const SearchOptions& options : ManyDials()) {
      const Answers expected = made_->Search(dram, options);
      Answers found = made_->Search(slow, options);
      ASSERT_NO_FATAL_FAILURE(ExpectSame(found, expected));
      if (options.ef_l0 != 0 && options.k == 10) {
        EXPECT_GT(found.total.cache_hits, 0u) << std::string(Name(policy));
      }
      for (const CachePolicy now : {CachePolicy::kNone, CachePolicy::kStatic, CachePolicy::kDynamic}) {
        ASSERT_TRUE(slow->SetCachePolicy(now).ok());
        found = made_->Search(slow, options);
        ASSERT_NO_FATAL_FAILURE(ExpectSame(found, expected));
        if (now == CachePolicy::kNone) {
          EXPECT_EQ(found.total.cache_hits, 0u);
        }
      }
      ASSERT_TRUE(slow->SetCachePolicy(policy).ok());
    }
  }
}

TEST_P(EverySlowTier, SaysWhereItLies) {
  const auto slow = made_->Open(Spec(), {.cache = CachePolicy::kStatic, .cache_bytes = 64 * 1024});
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
  EXPECT_EQ(slow->Placements().back().bytes, 64u * 1024);
}

/// The line of what copies ahead, where helper threads run.
std::optional<Placement> MigrationSpaceOf(const Index& index) {
  for (Placement& placement : index.Placements()) {
    if (placement.structure == "migration_space") return std::move(placement);
  }
  return std::nullopt;
}

TEST_P(EverySlowTier, StartsHelpersOnlyWhereAQueryCanUseThem) {
  EXPECT_FALSE(MigrationSpaceOf(*made_->Open(Spec())).has_value());
  const auto slow = made_->Open(Spec(), {.helper_threads = 2});
  ASSERT_TRUE(slow != nullptr);
  ASSERT_EQ(MigrationSpaceOf(*slow).has_value(), !slow->on_block_tier()) << "a device copies by itself";
  if (slow->on_block_tier()) return;
  EXPECT_EQ(MigrationSpaceOf(*slow)->where, "helper threads 2, searchers 0");
  EXPECT_EQ(MigrationSpaceOf(*slow)->bytes, 0u);
  SearchOptions options = kPool;
  Searcher searcher(slow);
  Answer answer;
  Counters counters;
  ASSERT_TRUE(searcher.Search(made_->queries.Row(0), options, &answer, &counters).ok());
  EXPECT_EQ(MigrationSpaceOf(*slow)->bytes, 0u) << "nobody has asked for helpers";
  options.prefetch = Prefetch::kHelper;
  ASSERT_TRUE(searcher.Search(made_->queries.Row(0), options, &answer, &counters).ok());
  EXPECT_GT(counters.migrated, 0u);
  EXPECT_EQ(MigrationSpaceOf(*slow)->where, "helper threads 2, searchers 1");
  EXPECT_GT(MigrationSpaceOf(*slow)->bytes, 0u);
}

TEST_P(EverySlowTier, ManyThreadsAtOnceAgree) {
  const auto slow = made_->Open(Spec(), {.cache = CachePolicy::kDynamic, .cache_bytes = 40 * 1024, .helper_threads = 1});
  ASSERT_TRUE(slow != nullptr);
  const Answers expected = made_->Search(made_->Open("dram"), kPool);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int pass = 0; pass < 5; ++pass) {
        const SearchOptions options{.ef_l0 = 64, .walk = WalkKind::kPool, .prefetch = t % 2 == 0 ? Prefetch::kAhead : Prefetch::kHelper};
        ExpectSame(made_->Search(slow, options, 1 + static_cast<std::uint32_t>(t) * 3), expected);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Tiers, EverySlowTier,
                         testing::Values("mapped", "mapped:PATH", "numa:0", "nvme", "nvme:PATH", "emulated:lat=500ns",
                                         "emulated:lat=1us,bw=100MB/s,lines=2", "check+nvme", "delay:min=0us,max=300us,seed=5+nvme"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           return name;
                         });

TEST(BlockTier, HoldsRecordsOfManyBlocksAndEveryKindOfVector) {
  for (const auto& [dtype, metric, dim] :
       {std::tuple(DType::kF32, Metric::kL2, 1536u), std::tuple(DType::kF32, Metric::kCosine, 784u),
        std::tuple(DType::kI8, Metric::kInnerProduct, 33u), std::tuple(DType::kU8, Metric::kCosine, 7u)}) {
    const Made made(dtype, metric, dim, 700);
    SCOPED_TRACE(dim);
    const auto dram = made.Open("dram"), nvme = made.Open("nvme"),
               cached = made.Open("nvme", {.cache = CachePolicy::kDynamic, .cache_bytes = 1 << 20});
    for (const SearchOptions& options : ManyDials()) {
      if (options.reach > 0 && metric == Metric::kInnerProduct) continue;
      const Answers expected = made.Search(dram, options);
      ASSERT_NO_FATAL_FAILURE(ExpectSame(made.Search(nvme, options), expected));
      ASSERT_NO_FATAL_FAILURE(ExpectSame(made.Search(cached, options), expected));
    }
  }
}

TEST(BlockTier, FewFramesMeanMoreReadsAndTheSameAnswer) {
  const Made made(DType::kU8, Metric::kL2, 24, 4000);
  const SearchOptions options{.k = 100, .ef_l0 = 1200, .walk = WalkKind::kPool};
  const Answers expected = made.Search(made.Open("dram"), options);
  const Answers roomy = made.Search(made.Open("nvme"), options, 1);
  const Answers narrow = made.Search(made.Open("nvme", {.migration_bytes = 4096}), options, 7);
  ASSERT_NO_FATAL_FAILURE(ExpectSame(roomy, expected));
  ASSERT_NO_FATAL_FAILURE(ExpectSame(narrow, expected));
  EXPECT_GT(narrow.total.io_reads, roomy.total.io_reads);
}

TEST(BlockTier, AFailingReadIsAnErrorAndNeverAWrongAnswer) {
  const Made made(DType::kU8, Metric::kL2, 24);
  const Answers expected = made.Search(made.Open("dram"), kPool);
  for (const char* spec : {"fail:every=400+nvme", "fail:every=41+nvme", "fail:every=1+nvme"}) {
    const auto index = made.Open(spec);
    ASSERT_TRUE(index != nullptr);
    for (const std::uint32_t in_flight : {1u, 6u}) {
      const Answers found = made.Search(index, kPool, in_flight);
      int failed = 0;
      for (std::size_t query = 0; query < kQueries; ++query) {
        if (!found.status[query].ok()) {
          ++failed;
          EXPECT_EQ(found.status[query].code(), absl::StatusCode::kDataLoss) << found.status[query];
          continue;
        }
        ASSERT_EQ(found.nearest[query].size(), 10u);
        for (std::size_t i = 0; i < 10; ++i) ASSERT_EQ(found.nearest[query][i].label, expected.nearest[query][i].label);
      }
      EXPECT_GT(failed, 0) << spec;
      if (std::string_view(spec).starts_with("fail:every=400+")) {
        EXPECT_LT(failed, static_cast<int>(kQueries));
      }
    }
  }
}

TEST(BlockTier, AStalledDeviceEndsInTimeAndFramesComeBackWhenItDoes) {
  const Made made(DType::kU8, Metric::kL2, 24);
  const auto index = made.Open("stall:after=30+nvme");
  ASSERT_TRUE(index != nullptr);
  for (const std::uint32_t in_flight : {1u, 5u}) {
    const auto begin = steady_clock::now();
    const Answers found = made.Search(index, kPool, in_flight, {.deadline = begin + std::chrono::milliseconds(150)});
    EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(20)) << "it ended";
    for (std::size_t query = 0; query < kQueries; ++query) {
      EXPECT_TRUE(found.status[query].ok() || absl::IsDeadlineExceeded(found.status[query])) << found.status[query];
    }
    EXPECT_TRUE(absl::IsDeadlineExceeded(found.status.back()));
  }
  // Cancelled from outside, by a client that went away.
  std::atomic<bool> cancelled{false};
  std::thread client([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    cancelled = true;
  });
  const Answers found = made.Search(index, kPool, 3, {.cancelled = &cancelled});
  client.join();
  EXPECT_TRUE(absl::IsCancelled(found.status.back())) << found.status.back();
}

TEST(BlockTier, ASearcherGoesOnAfterADeadline) {
  const Made made(DType::kU8, Metric::kL2, 24);
  const auto slow = made.Open("delay:3ms+nvme");
  const Answers expected = made.Search(made.Open("dram"), kPool);
  Searcher searcher(slow);
  Answer answer;
  const Dials dials = slow->Resolve(kPool)->dials;
  for (int i = 0; i < 5; ++i) {
    const absl::Status late =
        searcher.Search(made.queries.Row(0), dials, &answer, nullptr, {.deadline = steady_clock::now() + std::chrono::milliseconds(4)});
    EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
    ASSERT_TRUE(searcher.Search(made.queries.Row(0), dials, &answer).ok());
    ASSERT_EQ(answer.nearest.size(), 10u);
    for (std::size_t k = 0; k < 10; ++k) EXPECT_EQ(answer.nearest[k].label, expected.nearest[0][k].label);
  }
}

TEST(OpenTiers, WrongPlacementsHaveNamedErrors) {
  const Made made(DType::kU8, Metric::kL2, 8, 300);
  const auto error = [&](const OpenOptions& options) {
    const absl::Status status = Index::Open(made.path, options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(error({.fast = "nvme"}), HasSubstr("fast: tier nvme is for L0 only"));
  EXPECT_THAT(error({.fast = "mapped:/tmp/x"}), HasSubstr("is for L0 only"));
  EXPECT_THAT(error({.slow = "tape"}), HasSubstr("tape"));
  EXPECT_THAT(error({.cache = CachePolicy::kStatic}), HasSubstr("cache: policy static needs a size"));
  EXPECT_THAT(std::string((*Index::Open(made.path))->SetCachePolicy(CachePolicy::kNone).message()), HasSubstr("without a cache"));
}

}  // namespace
}  // namespace hmann
