#include "hmann/tuned_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "index/base/file.h"

namespace hmann {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kHash = 0xfedcba9876543210, kVectors = 1000;

class TunedTableFile : public ::testing::Test {
 protected:
  void SetUp() override {
    index_ = absl::StrCat(::testing::TempDir(), "/tuned_table_", ::getpid(), ".hmann");
  }
  void TearDown() override { std::filesystem::remove(TunedPath(index_)); }

  static TunedEntry Entry(const std::string& slow, std::uint32_t k) {
    TunedEntry entry{.placement = {"dram", slow, "none"},
                     .k = k,
                     .queries = 500,
                     .origin = "q.fbin",
                     .cpu = "a CPU",
                     .simd = "avx2",
                     .in_flight = k == 100 ? 16u : 0u,
                     .in_flight_gain = k == 100 ? 1.25 : 0,
                     .settings = {}};
    for (const double recall : {0.9, 0.95, 0.99}) {
      TunedSetting setting;
      setting.params.k = k;
      setting.params.mode = SearchMode::kQuantized;
      setting.params.ef_l1 = 16;
      setting.params.ef_l0 = k + 5;
      setting.params.nprobe = 128;
      setting.params.beam_width = 8;
      setting.params.error_bound = 1.5f;
      setting.params.epsilon = 0.1f;
      setting.recall = recall;
      setting.recall_low = recall - 0.001;
      setting.mean_us = 1000 * recall - 800;
      setting.p95_us = 2 * setting.mean_us;
      entry.settings.push_back(setting);
    }
    return entry;
  }

  static TunedTable Table() {
    TunedTable table{.content_hash = kHash, .entries = {}, .calibration = {}};
    table.Put(Entry("mapped", 10));
    table.Put(Entry("nvme", 10));
    table.Put(Entry("nvme", 100));
    return table;
  }

  void Write(const std::string& text) const { std::ofstream(TunedPath(index_)) << text; }
  std::string Text() const { return *ReadTextFile(TunedPath(index_), 1 << 20); }
  absl::Status ReadStatus(std::uint64_t hash = kHash) const {
    return ReadTunedTable(index_, hash, kVectors).status();
  }

  std::string index_;
};

TEST_F(TunedTableFile, ComesBackAsItWasWritten) {
  ASSERT_TRUE(WriteTunedTable(index_, Table()).ok());
  const auto table = ReadTunedTable(index_, kHash, kVectors);
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_EQ(table->entries.size(), 3u);
  const TunedEntry* entry = table->Find({"dram", "nvme", "none"}, 100);
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->queries, 500u);
  EXPECT_EQ(entry->origin, "q.fbin");
  EXPECT_EQ(entry->in_flight, 16u);
  EXPECT_EQ(entry->in_flight_gain, 1.25);
  EXPECT_EQ(table->Find({"dram", "nvme", "none"}, 10)->in_flight, 0u) << "not measured";
  ASSERT_EQ(entry->settings.size(), 3u);
  const TunedSetting& setting = entry->settings[1];
  EXPECT_EQ(setting.params.mode, SearchMode::kQuantized);
  EXPECT_EQ(setting.params.k, 100u);
  EXPECT_EQ(setting.params.ef_l0, 105u);
  EXPECT_EQ(setting.params.nprobe, 128u);
  EXPECT_EQ(setting.params, Entry("nvme", 100).settings[1].params) << "every param, to the bit";
  EXPECT_EQ(setting.params.error_bound, 1.5f);
  EXPECT_DOUBLE_EQ(setting.recall, 0.95);
  EXPECT_DOUBLE_EQ(setting.mean_us, 150);
}

TEST_F(TunedTableFile, PutReplacesTheSamePlacementAndKAlone) {
  TunedTable table = Table();
  TunedEntry entry = Entry("nvme", 10);
  entry.origin = "later";
  table.Put(entry);
  EXPECT_EQ(table.entries.size(), 3u);
  EXPECT_EQ(table.Find({"dram", "nvme", "none"}, 10)->origin, "later");
  EXPECT_EQ(table.Find({"dram", "mapped", "none"}, 10)->origin, "q.fbin");
}

TEST_F(TunedTableFile, AnIndexThatIsNotTunedIsNotFound) {
  EXPECT_EQ(ReadStatus().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(ReadStatus().message(), HasSubstr("run hmann tune"));
}

TEST_F(TunedTableFile, ATableOfOtherContentIsStale) {
  ASSERT_TRUE(WriteTunedTable(index_, Table()).ok());
  const absl::Status status = ReadStatus(kHash + 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("stale"));
  EXPECT_THAT(status.message(), HasSubstr("fedcba9876543210"));
}

TEST_F(TunedTableFile, NamesWhatIsWrong) {
  ASSERT_TRUE(WriteTunedTable(index_, Table()).ok());
  const std::string good = Text();
  const struct {
    const char *from, *to, *message;
  } cases[] = {
      {"\"version\": 3", "\"version\": 99", "is version 99; this program reads 3: run hmann tune"},
      {"\"hmann tuned table\"", "\"a table\"", "format: expected hmann tuned table, found a table"},
      {"fedcba9876543210", "not a hash", "content_hash: expected a hexadecimal number"},
      {"\"k\": 10,", "\"k\": \"ten\",",
       "entries[0].k: expected a whole number from 1 to 1048576, found \"ten\""},
      {"\"k\": 10,", "\"k\": 2000,",
       "k: expected at most the 1000 vectors of the index, found 2000"},
      {"\"mode\": \"quantized\"", "\"mode\": \"default\"",
       "settings[0]: mode: expected multi-start, graph, quantized, upper, scan, found 'default'"},
      {"\"recall\": 0.9,", "\"recall\": 7,",
       "settings[0].recall: expected a number from 0 to 1, found 7"},
      {"\"ef_l1\": 16", "\"ef_l2\": 16",
       "settings[0]: ef_l1: expected a parameter of this mode, found nothing"},
      {"\"ef_l1\": 16", "\"ef_l1\": 1.5", "settings[0]: ef_l1: expected 1 to 1048576, found 1.5"},
      {"\"error_bound\": 1.5", "\"error_bound\": -0.5",
       "settings[0]: error_bound: expected 0 to 1000000, found -0.5"}};
  for (const auto& [from, to, message] : cases) {
    std::string wrong = good;
    const std::size_t place = wrong.find(from);
    ASSERT_NE(place, std::string::npos) << from;
    wrong.replace(place, std::string(from).size(), to);
    Write(wrong);
    EXPECT_THAT(ReadStatus().message(), HasSubstr(message));
  }
}

TEST_F(TunedTableFile, ATruncatedTableIsAnErrorAndNeverHalfATable) {
  ASSERT_TRUE(WriteTunedTable(index_, Table()).ok());
  const std::string good = Text();
  for (std::size_t length = 0; length + 2 < good.size(); length += 7) {
    Write(good.substr(0, length));
    EXPECT_EQ(ReadStatus().code(), absl::StatusCode::kDataLoss) << length;
  }
}

TEST_F(TunedTableFile, ACalibrationComesBackAndADamagedOneIsRefused) {
  TunedTable table{.content_hash = kHash, .entries = {}, .calibration = Calibration()};
  table.calibration->origin = "made";
  table.calibration->curves = {{{SearchMode::kGraph}, 10, 300, {{0.5f, 0.9, 120}, {1, 0.95}}},
                               {{SearchMode::kGraph, false, 4}, 10, 300, {{1, 0.95}}},
                               {{SearchMode::kQuantized, true}, 10, 300, {{1.25f, 0.95}}},
                               {{SearchMode::kUpper}, 10, 300, {{1, 0.5}}}};
  table.calibration->difficulties = {{1, 0.25f, 0}, {10, 0.5f, 0.75f}};
  ASSERT_TRUE(WriteTunedTable(index_, table).ok());
  const auto read = ReadTunedTable(index_, kHash, kVectors);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_TRUE(read->calibration.has_value());
  EXPECT_EQ(read->calibration->curves[0].queries, 300u);
  EXPECT_EQ(read->calibration->curves[1].way.scalar_bits, 4u);
  EXPECT_EQ(read->calibration->curves[2].points[0].ef_scale, 1.25f);
  EXPECT_TRUE(read->calibration->curves[2].way.cells);
  EXPECT_EQ(read->calibration->curves[0].points[0].distances, 120);
  EXPECT_EQ(read->calibration->curves[3].way.mode, SearchMode::kUpper);
  ASSERT_EQ(read->calibration->difficulties.size(), 2u);
  EXPECT_EQ(read->calibration->difficulties[1].k, 10u);
  EXPECT_EQ(read->calibration->difficulties[1].typical, 0.5f);
  EXPECT_EQ(read->calibration->difficulties[1].rise, 0.75f);
  EXPECT_EQ(read->Choose({"dram", "mapped", "none"}, 10, {.recall = 0.9}).status().message(),
            "not tuned for k 10: run hmann tune INDEX --queries Q --k 10");
  EXPECT_THAT(std::string(read->Choose({"dram", "nvme", "none"}, 10, {}).status().message()),
              HasSubstr("not tuned for fast dram, slow nvme, cache none, k 10: run hmann tune"));

  const std::string text = Text();
  const auto damaged = [&](const std::string& from, const std::string& to) {
    Write(absl::StrReplaceAll(text, {{from, to}}));
    EXPECT_EQ(ReadStatus().code(), absl::StatusCode::kDataLoss);
    return std::string(ReadStatus().message());
  };
  EXPECT_THAT(damaged("\"ef_scale\": 0.5", "\"ef_scale\": 1.5"),
              HasSubstr("points[1]: expected an ef_scale and a recall that"));
  EXPECT_THAT(damaged("\"ef_scale\": 0.5", "\"ef_scale\": \"x\""),
              HasSubstr("curves[0].points[0].ef_scale"));
  EXPECT_THAT(damaged("\"recall\": 0.9,", "\"recall\": 7,"), HasSubstr("recall"));
  EXPECT_THAT(damaged("\"distances\": 120", "\"distances\": -1"), HasSubstr("distances"));
  EXPECT_THAT(damaged("quantized", "multi-start"), HasSubstr("curves[2].mode"));
  EXPECT_THAT(damaged("\"cells\": 1", "\"cells\": 2"), HasSubstr("cells"));
  EXPECT_THAT(damaged("\"k\": 10", "\"k\": 0"), HasSubstr("curves[0].k"));
  EXPECT_THAT(damaged("\"k\": 1,", "\"k\": 10,"), HasSubstr("difficulties[1].k"));
  EXPECT_THAT(damaged("\"epsilon_rise\": 0.75", "\"epsilon_rise\": -1"), HasSubstr("rise"));
}

TEST_F(TunedTableFile, ChoosesByTargetAndSaysWhatCannotBe) {
  const TunedTable table = Table();
  const TunedEntryKey mapped{"dram", "mapped", "none"};
  const auto chosen = table.Choose(mapped, 10, {.recall = 0.94});
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  // Between the settings of 0.9 in 100 us and of 0.95 in 150 us, which have the same
  // parameters.
  EXPECT_DOUBLE_EQ(chosen->recall, 0.94);
  EXPECT_GT(chosen->mean_us, 100);
  EXPECT_LT(chosen->mean_us, 150);
  EXPECT_EQ(chosen->params, table.entries[0].settings[0].params);
  const auto within = table.Choose(mapped, 10, {.latency_us = 160});
  EXPECT_GT(within->recall, 0.95);
  EXPECT_LT(within->recall, 0.965);
  EXPECT_NEAR(within->mean_us, 160 / (1 + kLatencyMargin), 1e-6);
  const absl::Status too_high = table.Choose(mapped, 10, {.recall = 0.999}).status();
  EXPECT_EQ(too_high.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(too_high.message(), HasSubstr("recall 0.999 cannot be met"));
  EXPECT_THAT(too_high.message(),
              HasSubstr("the best is recall 0.9900 (at least 0.9890) in 190.0 us"));
  EXPECT_THAT(table.Choose(mapped, 10, {.latency_us = 3}).status().message(),
              HasSubstr("latency 3us cannot be met"));
  const absl::Status other_k = table.Choose(mapped, 7, {.recall = 0.9}).status();
  EXPECT_EQ(other_k.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(other_k.message(), HasSubstr("tuned: fast dram, slow mapped, cache none, k 10"));
}

TEST_F(TunedTableFile, InterpolatesEpsilonLinearly) {
  TunedTable table = Table();
  std::vector<TunedSetting>& settings = table.entries[0].settings;
  settings.resize(2);
  settings[0].params.mode = SearchMode::kGraph;
  for (TunedSetting& setting : settings) setting.params = settings[0].params;
  settings[0].params.epsilon = 0.0158F;
  settings[0].recall = settings[0].recall_low = 0.9022;
  settings[1].params.epsilon = 0.0793F;
  settings[1].recall = settings[1].recall_low = 0.9509;
  const auto chosen = table.Choose(table.entries[0].placement, 10, {.recall = 0.92});
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  // Geometric interpolation gives 0.0255, at which the sample has a recall of 0.909.
  EXPECT_NEAR(*chosen->params.epsilon, 0.0346, 1e-3);
}

TEST(TierWithoutPath, KeepsWhatTimesDependOn) {
  EXPECT_EQ(TierWithoutPath("nvme:/mnt/x"), "nvme");
  EXPECT_EQ(TierWithoutPath("mapped"), "mapped");
  EXPECT_EQ(TierWithoutPath("dax:/dev/dax0.0"), "dax");
  EXPECT_EQ(TierWithoutPath("numa:1"), "numa:1");
  EXPECT_EQ(TierWithoutPath("emulated:lat=300ns"), "emulated:lat=300ns");
}

}  // namespace
}  // namespace hmann
