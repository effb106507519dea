/// The migration space: compared with a simple model, and with searchers and helpers that
/// run concurrently.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "index/search/migration_helpers.h"
#include "index/search/testing/random_index.h"

namespace hmann {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr int kRounds = 150;
#else
constexpr int kRounds = 1500;
#endif

constexpr std::size_t kCapacity = MigrationSpace::kSlots;

bool IsRecord(const PlacedIndex& index, NodeId id, const std::byte* copy) {
  bool same = true;
  index.ForBytes(id, RecordPart::kRecord, [&](std::span<const std::byte> bytes) {
    same &= std::equal(bytes.begin(), bytes.end(), copy + (bytes.data() - index.Record(id)));
  });
  return same;
}

/// A simple model of the space: a list of all posts ever made.
class Model {
 public:
  enum class Answer { kTaken, kDuplicate, kQueryIsFull, kHelperIsBehind };

  void Begin() { first_ = posts_.size(); }
  Answer Post(NodeId id) {
    if (std::find(posts_.begin() + static_cast<std::ptrdiff_t>(first_), posts_.end(), id) !=
        posts_.end())
      return Answer::kDuplicate;
    if (posts_.size() - first_ == kCapacity) return Answer::kQueryIsFull;
    if (posts_.size() - passed_ == kCapacity) return Answer::kHelperIsBehind;
    posts_.push_back(id);
    return Answer::kTaken;
  }
  bool CopyOne() {
    if (passed_ == posts_.size()) return false;
    ++passed_;
    return true;
  }
  /// The posts of the current query, and whether the helper has passed each.
  std::map<NodeId, bool> Live() const {
    std::map<NodeId, bool> live;
    for (std::size_t post = first_; post < posts_.size(); ++post)
      live[posts_[post]] = post < passed_;
    return live;
  }

 private:
  std::vector<NodeId> posts_;
  std::size_t first_ = 0, passed_ = 0;
};

/// The cases that the sequences have covered, so that none goes untested.
struct Met {
  int taken = 0, duplicates = 0, full = 0, behind = 0, found = 0, not_yet = 0,
      of_earlier_queries = 0;
};

/// Looks for every node. Only live copies may be found, complete and inside the space,
/// and no two may share a byte.
void CheckCopies(const PlacedIndex& index, const MigrationSpace& space, const Model& model,
                 Met& met) {
  const std::map<NodeId, bool> live = model.Live();
  ASSERT_LE(live.size(), kCapacity);
  std::vector<std::pair<const std::byte*, const std::byte*>> extents;
  for (NodeId id = 0; id < index.layers.n(); ++id) {
    const auto post = live.find(id);
    const std::byte* copy = space.Find(id);
    ASSERT_EQ(copy != nullptr, post != live.end() && post->second) << "node " << id;
    if (post != live.end() && !post->second) ++met.not_yet;
    if (copy == nullptr) continue;
    ++met.found;
    ASSERT_TRUE(IsRecord(index, id, copy)) << "node " << id;
    index.ForBytes(id, RecordPart::kRecord, [&](std::span<const std::byte> bytes) {
      const std::byte* begin = copy + (bytes.data() - index.Record(id));
      extents.emplace_back(begin, begin + bytes.size());
    });
  }
  std::sort(extents.begin(), extents.end());
  for (std::size_t i = 1; i < extents.size(); ++i)
    ASSERT_LE(extents[i - 1].second, extents[i].first);
  if (!extents.empty()) {
    ASSERT_LE(extents.back().second - extents.front().first,
              static_cast<std::ptrdiff_t>(MigrationSpace::Bytes(index)));
  }
}

/// A random sequence. Its seed determines the number of nodes, how eager the helper is
/// and how long a query lasts.
void CompareWithModel(const RandomIndex& index, std::uint64_t seed, Met& met) {
  const PlacedIndex& placed = index.placed();
  MigrationSpace space(placed);
  SlowMemory memory(nullptr);
  Model model;
  const NodeId nodes = std::min<NodeId>(placed.layers.n(), 30u << (seed % 6));
  const std::uint64_t copies = std::array{5, 45, 60}[seed % 3],
                      query = std::array{40, 700, 5000}[seed / 3 % 3];
  std::vector<NodeId> before;
  for (std::uint64_t step = 0; step < 12'000; ++step) {
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", step ", step));
    if (RandomBelow(seed, 4 * step, query) == 0) {
      before.clear();
      for (const auto& [id, copied] : model.Live()) before.push_back(id);
      space.Begin();
      model.Begin();
      for (const NodeId id : before) ASSERT_EQ(space.Find(id), nullptr) << "of the query before";
      met.of_earlier_queries += static_cast<int>(before.size());
    } else if (RandomBelow(seed, 4 * step + 1, 100) < copies) {
      ASSERT_EQ(space.CopyOne(memory), model.CopyOne());
    } else {
      const auto id = static_cast<NodeId>(RandomBelow(seed, 4 * step + 2, nodes));
      const Model::Answer expected = model.Post(id);
      ASSERT_EQ(space.Post(id), expected == Model::Answer::kTaken);
      met.taken += expected == Model::Answer::kTaken ? 1 : 0;
      met.duplicates += expected == Model::Answer::kDuplicate ? 1 : 0;
      met.full += expected == Model::Answer::kQueryIsFull ? 1 : 0;
      met.behind += expected == Model::Answer::kHelperIsBehind ? 1 : 0;
    }
    if (step % 60 == 0) {
      ASSERT_NO_FATAL_FAILURE(CheckCopies(placed, space, model, met));
    }
  }
}

void CompareWithModelOn(const RandomShape& shape) {
  const RandomIndex index(shape);
  Met met;
  for (std::uint64_t seed = 0; seed < 18; ++seed)
    ASSERT_NO_FATAL_FAILURE(CompareWithModel(index, seed, met));
  EXPECT_GT(met.taken, 0);
  EXPECT_GT(met.duplicates, 0);
  EXPECT_GT(met.full, 0);
  EXPECT_GT(met.behind, 0);
  EXPECT_GT(met.found, 0);
  EXPECT_GT(met.not_yet, 0);
  EXPECT_GT(met.of_earlier_queries, 0);
}

TEST(MigrationSpace, EqualsAPlainModel) {
  CompareWithModelOn({.n = 1000, .n1 = 200, .m = 4, .dim = 70});
}
TEST(MigrationSpace, EqualsAPlainModelWithUserLabels) {
  CompareWithModelOn({.n = 700, .n1 = 100, .m = 5, .dim = 33, .user_labels = true});
}

/// One searcher: hops of posts, between which it looks for what it has posted.
class Rounds {
 public:
  Rounds(const PlacedIndex& index, MigrationHelpers& helpers, std::uint64_t seed)
      : index_(index), helpers_(helpers), seed_(seed) {}

  void Run() {
    for (int hop = 0; hop < kRounds && !testing::Test::HasFatalFailure(); ++hop) {
      // A departing searcher removes its space while a helper may be using it.
      if (hop % 25 == 0) {
        if (space_.has_value()) helpers_.Remove(&*space_);
        helpers_.Add(&space_.emplace(index_));
      }
      OneQuery(hop % 2 == 0);
    }
    helpers_.Remove(&*space_);
  }

  std::uint64_t found() const { return found_; }

 private:
  std::uint64_t Draw(std::uint64_t bound) { return RandomBelow(seed_, draws_++, bound); }

  void Look(NodeId id) {
    const std::byte* copy = space_->Find(id);
    if (copy == nullptr) return;
    ++found_;
    ASSERT_TRUE(IsRecord(index_, id, copy)) << "node " << id;
  }

  /// `to_the_end`: waits until all copies are complete; otherwise the next query begins
  /// while the helper is at work.
  void OneQuery(bool to_the_end) {
    space_->Begin();
    helpers_.Wake();
    std::vector<NodeId> posted;
    const std::uint64_t posts = 1 + Draw(2 * kCapacity);
    for (std::uint64_t i = 0; i < posts; ++i) {
      const auto id = static_cast<NodeId>(Draw(index_.layers.n()));
      if (space_->Post(id)) posted.push_back(id);
      if (!posted.empty()) {
        ASSERT_NO_FATAL_FAILURE(Look(posted[Draw(posted.size())]));
      }
    }
    ASSERT_LE(posted.size(), kCapacity);
    if (!to_the_end) return;
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    for (const NodeId id : posted) {
      while (space_->Find(id) == nullptr) {
        ASSERT_LT(std::chrono::steady_clock::now(), give_up) << "a copy never came";
        helpers_.Wake();
        std::this_thread::yield();
      }
      ASSERT_NO_FATAL_FAILURE(Look(id));
    }
  }

  const PlacedIndex& index_;
  MigrationHelpers& helpers_;
  const std::uint64_t seed_;
  std::optional<MigrationSpace> space_;
  std::uint64_t draws_ = 0, found_ = 0;
};

void SearchBesideEachOther(int helper_threads) {
  const RandomIndex index({.n = 3000, .n1 = 500, .m = 6, .dim = 128});
  MigrationHelpers helpers(helper_threads, nullptr);
  std::array<Rounds, 2> searchers = {Rounds(index.placed(), helpers, 1),
                                     Rounds(index.placed(), helpers, 2)};
  std::vector<std::thread> threads;
  for (Rounds& searcher : searchers) threads.emplace_back([&searcher] { searcher.Run(); });
  for (std::thread& thread : threads) thread.join();
  for (const Rounds& searcher : searchers) EXPECT_GT(searcher.found(), 0u);
  EXPECT_EQ(helpers.spaces(), 0u);
}

TEST(MigrationHelpers, TwoSearchersFindWholeRecordsOfOneHelper) { SearchBesideEachOther(1); }
TEST(MigrationHelpers, TwoSearchersFindWholeRecordsOfTwoHelpers) { SearchBesideEachOther(2); }

}  // namespace
}  // namespace hmann
