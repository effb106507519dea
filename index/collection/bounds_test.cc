// A collection stays within its limit, whatever is written, and always gets out of it by
// itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "hmann/collection.h"
#include "index/base/random.h"
#include "index/collection/testing/ledger.h"

namespace hmann {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::uint64_t kMiB = 1 << 20;

/// A collection with a limit, and what it must have.
class BoundsTest : public testing::Test {
 protected:
  void Create(std::uint32_t dim, DType dtype = DType::kF32) {
    CreateCollection options;
    options.dtype = dtype;
    options.dim = dim;
    options.build.m = 4;
    options.build.ef_construction = 20;
    ASSERT_TRUE(Collection::Create(folder_, options).ok());
    dim_ = dim;
  }
  void Open(std::uint64_t limit, bool merges = true) {
    collection_.reset();
    auto opened = Collection::Open(folder_, {.delta_bytes = limit, .merges = merges});
    ASSERT_TRUE(opened.ok()) << opened.status();
    collection_ = *std::move(opened);
  }
  std::vector<float> Vector(std::uint64_t seed) const {
    std::vector<float> vector(dim_);
    for (std::uint32_t i = 0; i < dim_; ++i)
      vector[i] = static_cast<float>(RandomBelow(seed, i, 1000)) - 500;
    return vector;
  }
  void Add(std::uint64_t label, std::uint64_t seed, WriteBatch* batch) const {
    batch->Put(label, Vector(seed).data(), dim_ * sizeof(float));
  }
  /// Writes; a refusal for lack of room must end by itself. Returns how many there were.
  template <typename Write>
  int MustWrite(const Write& write, Written* written = nullptr) {
    using Clock = std::chrono::steady_clock;
    const auto patience = Clock::now() + std::chrono::minutes(10);
    for (int refused = 0;; ++refused) {
      const absl::StatusOr<Written> done = write();
      const CollectionInfo info = collection_->info();
      EXPECT_LE(info.delta_bytes, info.delta_limit / 20 * 21);
      most_delta_ = std::max(most_delta_, info.delta_bytes);
      most_journal_ = std::max(most_journal_, info.journal_bytes);
      if (done.ok() && written != nullptr) *written = *done;
      if (done.ok()) return refused;
      if (!absl::IsResourceExhausted(done.status()) || Clock::now() > patience) {
        ADD_FAILURE() << done.status();
        return refused;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  int MustWrite(const WriteBatch& batch) {
    return MustWrite([&] { return collection_->Write(batch); });
  }
  absl::Status Refused(const WriteBatch& batch) { return collection_->Write(batch).status(); }

  SampleFolder parent_;
  const std::string folder_ = parent_ / "c.live";
  std::shared_ptr<Collection> collection_;
  std::uint32_t dim_ = 0;
  std::uint64_t most_delta_ = 0, most_journal_ = 0;
};

TEST_F(BoundsTest, TheSameLabelsPutAgainAndAgain) {
  Create(64);
  Open(kMiB / 2);
  for (std::uint64_t round = 0; round < 16; ++round) {
    WriteBatch batch;
    for (std::uint64_t label = 0; label < 300; ++label) Add(label, round * 300 + label, &batch);
    MustWrite(batch);
  }
  EXPECT_EQ(collection_->info().live, 300u);
  EXPECT_GE(collection_->info().merges, 2u);
  EXPECT_EQ(collection_->info().merge_failures, 0u);
  // SQLite's log comes on top.
  EXPECT_LT(most_journal_, 2 * kMiB);
}

TEST_F(BoundsTest, UpdatesBringTheirVectorsAlong) {
  Create(64);
  Open(kMiB / 2, false);
  WriteBatch batch;
  for (std::uint64_t label = 0; label < 400; ++label) Add(label, label, &batch);
  ASSERT_TRUE(collection_->Write(batch).ok());
  Progress quiet(Progress::Show::kNever);
  ASSERT_TRUE(collection_->Compact(quiet).ok());
  Open(kMiB / 2);
  for (int round = 0; round < 10; ++round) {
    WriteBatch updates;
    for (std::uint64_t label = 0; label < 300; ++label)
      updates.Update(label, absl::StrCat("{\"round\":", round, "}"));
    MustWrite(updates);
  }
  EXPECT_EQ(collection_->info().live, 400u);
  EXPECT_GE(collection_->info().merges, 2u);
  // Tags take memory, too.
  WriteBatch tags;
  for (std::uint64_t label = 0; label < 100; ++label)
    tags.Update(label, absl::StrCat("{\"t\":\"", std::string(60'000, 'x'), label, "\"}"));
  EXPECT_EQ(Refused(tags).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Refused(tags).message()), HasSubstr("write fewer rows at once"));
}

TEST_F(BoundsTest, AWriteThatCannotFitIsAnErrorForGood) {
  Create(256);
  Open(kMiB);
  WriteBatch batch;
  for (std::uint64_t label = 0; label < 2000; ++label) Add(label, label, &batch);
  const absl::Status status = Refused(batch);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("may take 1.0 MiB"), HasSubstr("write fewer rows at once")));
  EXPECT_EQ(collection_->info().live, 0u);
}

TEST_F(BoundsTest, WithoutMergesItSaysCompact) {
  Create(64);
  Open(kMiB, false);
  absl::Status status;
  std::uint64_t label = 0;
  for (; status.ok() && label < 100'000; label += 100) {
    WriteBatch batch;
    for (std::uint64_t i = 0; i < 100; ++i) Add(label + i, label + i, &batch);
    status = collection_->Write(batch).status();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Compact"));
  // What goes makes room: deletions are taken always.
  WriteBatch deletion;
  for (std::uint64_t i = 0; i < 500; ++i) deletion.Delete(i);
  EXPECT_TRUE(collection_->Write(deletion).ok());
  EXPECT_GT(collection_->info().dead_bytes, 500u * 64 * sizeof(float));
  Progress quiet(Progress::Show::kNever);
  ASSERT_TRUE(collection_->Compact(quiet).ok());
  EXPECT_EQ(collection_->info().dead_bytes, 0u);
  WriteBatch batch;
  Add(0, 0, &batch);
  EXPECT_TRUE(collection_->Write(batch).ok());
}

/// A journal that a process with more memory wrote.
TEST_F(BoundsTest, AJournalOverTheLimitOpens) {
  Create(64);
  Open(64 * kMiB, false);
  std::map<std::uint64_t, std::uint64_t> seeds;
  for (std::uint64_t round = 0; round < 20; ++round) {
    WriteBatch batch;
    for (std::uint64_t i = 0; i < 500; ++i) {
      const std::uint64_t label = RandomBelow(1, round * 500 + i, 1000);
      seeds[label] = round * 500 + i;
      Add(label, seeds[label], &batch);
    }
    ASSERT_TRUE(collection_->Write(batch).ok());
  }
  const std::uint64_t sequence = collection_->info().sequence;
  collection_.reset();
  const auto reader = Collection::Open(folder_, {.read_only = true, .delta_bytes = kMiB});
  EXPECT_EQ(reader.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(reader.status().message()), HasSubstr("hmann compact"));
  const auto starved = Collection::Open(folder_, {.delta_bytes = kMiB, .merge_memory = kMiB});
  EXPECT_EQ(starved.status().code(), absl::StatusCode::kResourceExhausted) << starved.status();
  EXPECT_THAT(std::string(starved.status().message()), HasSubstr("build-memory"));
  for (const bool merges : {false, true}) {
    Open(kMiB, merges);
    const CollectionInfo info = collection_->info();
    EXPECT_EQ(info.sequence, sequence);
    EXPECT_EQ(info.live, seeds.size());
    EXPECT_LE(info.delta_bytes, kMiB);
    EXPECT_LT(info.journal_bytes, 2 * kMiB);
  }
  CollectionSearcher reads;
  std::vector<float> found(dim_);
  for (const auto& [label, seed] : seeds) {
    ASSERT_TRUE(reads.Get(*collection_->Now(), {&label, 1}, found.data()).ok());
    ASSERT_EQ(found, Vector(seed)) << label;
  }
}

TEST_F(BoundsTest, TheJournalGivesItsDiskBack) {
  Create(1024);
  Open(64 * kMiB, false);
  for (std::uint64_t round = 0; round < 20; ++round) {
    WriteBatch batch;
    for (std::uint64_t label = 0; label < 250; ++label) Add(label, round, &batch);
    ASSERT_TRUE(collection_->Write(batch).ok());
  }
  EXPECT_GT(collection_->info().journal_bytes, 20 * kMiB);
  Progress quiet(Progress::Show::kNever);
  ASSERT_TRUE(collection_->Compact(quiet).ok());
  EXPECT_LT(collection_->info().journal_bytes, 200'000u);
}

/// Random writes of any mix, and a map of what they left.
class RandomWrites : public BoundsTest {
 protected:
  struct Row {
    std::uint64_t seed = 0;
    std::int64_t year = -1;  ///< -1: none
    std::string tag;         ///< empty: none
  };

  void Run(std::uint64_t seed) {
    seed_ = seed;
    limit_ = (1 + Draw(3)) * kMiB;
    collection_.reset();
    std::filesystem::remove_all(folder_);
    rows_.clear();
    Create(static_cast<std::uint32_t>(8 << Draw(4)));
    Open(limit_);
    const std::uint64_t labels = 50 + Draw(1000);
    for (int step = 0; step < 40 && !HasFailure(); ++step) Step(labels);
    Open(limit_);
    Check();
  }

 private:
  std::uint64_t Draw(std::uint64_t bound) { return RandomBelow(seed_, ++drawn_, bound); }

  std::string LabelOf(std::uint64_t i) const {
    return i % 3 == 0 ? absl::StrCat("name of ", i) : std::string();
  }
  void Named(std::uint64_t i, const std::function<void(const VectorLabel&)>& visit) const {
    const std::string name = LabelOf(i);
    name.empty() ? visit(VectorLabel(i)) : visit(VectorLabel(name));
  }

  void Step(std::uint64_t labels) {
    switch (Draw(10)) {
      case 0:
        return DeleteWhere();
      case 1:
        if (Draw(8) == 0) {
          MustWrite([&] { return collection_->DeleteAll(); });
          rows_.clear();
        } else {
          Open(limit_);
        }
        return;
      case 2:
        return Delete(labels);
      case 3:
      case 4:
        return Update();
      default:
        return Put(labels);
    }
  }

  void Put(std::uint64_t labels) {
    WriteBatch batch;
    std::map<std::uint64_t, Row> put;
    const std::uint64_t size = Draw(3) == 0 ? 1 : 1 + Draw(400);
    for (std::uint64_t i = 0; i < size; ++i) {
      const std::uint64_t label = Draw(labels);
      Row row{Draw(1 << 30), Draw(2) == 0 ? -1 : static_cast<std::int64_t>(Draw(100)), ""};
      if (Draw(4) == 0) row.tag = std::string(1 + Draw(200), static_cast<char>('a' + Draw(20)));
      Named(label, [&](const VectorLabel& name) {
        batch.Put(name, Vector(row.seed).data(), dim_ * sizeof(float), Json(row));
      });
      put[label] = row;
    }
    if (Draw(2) == 0) batch.SetOperation(absl::StrCat("operation ", seed_, " ", drawn_));
    MustWrite(batch);
    for (const auto& [label, row] : put) rows_[label] = row;
  }

  static std::string Json(const Row& row) {
    std::vector<std::string> members;
    if (!row.tag.empty()) members.push_back(absl::StrCat("\"tag\":\"", row.tag, "\""));
    if (row.year >= 0) members.push_back(absl::StrCat("\"year\":", row.year));
    return absl::StrCat("{", absl::StrJoin(members, ","), "}");
  }

  void Update() {
    WriteBatch batch;
    std::map<std::uint64_t, std::int64_t> years;
    const std::uint64_t one_of = 1 + Draw(20);
    for (const auto& [label, row] : rows_) {
      if (Draw(one_of) != 0) continue;
      years[label] = static_cast<std::int64_t>(Draw(100));
      Named(label, [&](const VectorLabel& name) {
        batch.Update(name, absl::StrCat("{\"year\":", years[label], "}"));
      });
    }
    MustWrite(batch);
    for (const auto& [label, year] : years) rows_[label].year = year;
  }

  void Delete(std::uint64_t labels) {
    WriteBatch batch;
    const std::uint64_t size = 1 + Draw(labels);
    for (std::uint64_t i = 0; i < size; ++i) {
      const std::uint64_t label = Draw(labels);
      Named(label, [&](const VectorLabel& name) { batch.Delete(name); });
      rows_.erase(label);
    }
    MustWrite(batch);
  }

  void DeleteWhere() {
    if (std::none_of(rows_.begin(), rows_.end(), [](auto& row) { return row.second.year >= 0; }))
      return;  // there may be no such field
    const auto most = static_cast<std::int64_t>(Draw(40));
    const auto filter = Filter::Parse(absl::StrCat("year < ", most));
    ASSERT_TRUE(filter.ok());
    Written written;
    MustWrite([&] { return collection_->Delete(*filter); }, &written);
    EXPECT_EQ(written.rows, std::erase_if(rows_, [&](const auto& row) {
                return row.second.year >= 0 && row.second.year < most;
              }));
  }

  void Check() {
    const std::shared_ptr<const Moment> now = collection_->Now();
    ASSERT_EQ(LiveRows(*now), rows_.size());
    CollectionSearcher reads;
    std::vector<float> found(dim_);
    for (const auto& [label, row] : rows_) {
      std::uint64_t number = 0;
      Named(label, [&](const VectorLabel& name) { number = name.number(); });
      std::vector<std::string> attributes;
      const absl::Status status = reads.Get(*now, {&number, 1}, found.data(), &attributes);
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_EQ(found, Vector(row.seed)) << label;
      const std::string& object = attributes.at(0);
      const std::string year = row.year < 0 ? "{" : absl::StrCat("\"year\":", row.year);
      ASSERT_THAT(object, AllOf(HasSubstr(year), HasSubstr(row.tag)));
      ASSERT_EQ(object == "{}", row.year < 0 && row.tag.empty());
      if (LabelOf(label).empty()) continue;
      const auto names = collection_->Names({&number, 1});
      ASSERT_TRUE(names.ok());
      ASSERT_EQ(names->at(0), LabelOf(label));
    }
  }

  std::uint64_t seed_ = 0, drawn_ = 0, limit_ = 0;
  std::map<std::uint64_t, Row> rows_;
};

TEST_F(RandomWrites, StayWithinTheLimitAndAreAllThere) {
  const std::uint64_t seeds = IsSoak() ? 1000 : 20;
  for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Run(seed);
  }
}

}  // namespace
}  // namespace hmann
