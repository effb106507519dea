#include "index/graph/beam.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "index/base/random.h"

namespace hmann {
namespace {

/// A simple reference: a set of (key, id) that drops its last entry, and a flag for each.
class SlowBeam {
 public:
  using Entry = std::pair<DistanceKey, NodeId>;

  void Reset(std::uint32_t width) {
    width_ = width;
    entries_.clear();
    expanded_.clear();
  }
  bool Insert(DistanceKey key, NodeId id) {
    entries_.insert({key, id});
    if (entries_.size() <= width_) return true;
    const Entry last = *entries_.rbegin();
    entries_.erase(last);
    return last != Entry(key, id);
  }
  bool InsertUnique(DistanceKey key, NodeId id) {
    return !entries_.contains({key, id}) && Insert(key, id);
  }
  bool HasNext(std::uint32_t window) const { return Next(window) != entries_.end(); }
  NodeId PeekNext() const { return Next(width_)->second; }
  NodeId PopNext() {
    const NodeId node = PeekNext();
    expanded_.insert(*Next(width_));
    return node;
  }
  void Reopen(std::uint32_t width) {
    width_ = width;
    while (entries_.size() > width) entries_.erase(std::prev(entries_.end()));
    expanded_.clear();
  }
  const std::set<Entry>& entries() const { return entries_; }
  bool expanded(const Entry& entry) const { return expanded_.contains(entry); }
  std::uint32_t width() const { return width_; }

 private:
  std::set<Entry>::const_iterator Next(std::uint32_t window) const {
    auto it = entries_.begin();
    for (std::uint32_t i = 0; it != entries_.end(); ++it, ++i) {
      if (i == window) return entries_.end();
      if (!expanded_.contains(*it)) return it;
    }
    return it;
  }

  std::set<Entry> entries_, expanded_;
  std::uint32_t width_ = 0;
};

void ExpectSame(const Beam& beam, const SlowBeam& slow) {
  ASSERT_EQ(beam.size(), slow.entries().size());
  ASSERT_EQ(beam.width(), slow.width());
  std::uint32_t i = 0;
  for (const SlowBeam::Entry& entry : slow.entries()) {
    ASSERT_EQ(beam.key(i), entry.first) << "entry " << i;
    ASSERT_EQ(beam.id(i), entry.second) << "entry " << i;
    ASSERT_EQ(beam.expanded(i), slow.expanded(entry)) << "entry " << i;
    ++i;
  }
}

TEST(Beam, DoesWhatASortedSetDoes) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::uint64_t counter = 0;
    const auto below = [&](std::uint64_t bound) { return RandomBelow(seed, counter++, bound); };
    // Few distinct keys, so that ties are common, with the top bit set or not.
    const auto key_of = [&](NodeId id) {
      return static_cast<DistanceKey>(Random(seed, 1000000 + id) & 0x80000007u);
    };
    const auto width = static_cast<std::uint32_t>(1 + below(40));
    Beam beam;
    SlowBeam slow;
    beam.Reset(width);
    slow.Reset(width);
    std::set<NodeId> inserted;
    for (int step = 0; step < 400; ++step) {
      const std::uint64_t action = below(20);
      if (action < 12) {
        const auto id = static_cast<NodeId>(below(kMaxNodes + 1));
        if (!inserted.insert(id).second) continue;
        ASSERT_EQ(beam.Insert(key_of(id), id), slow.Insert(key_of(id), id));
      } else if (action < 14) {
        std::vector<DistanceKey> keys;
        std::vector<NodeId> ids;
        for (std::uint64_t left = below(40); left > 0; --left) {
          const auto id = static_cast<NodeId>(below(kMaxNodes + 1));
          if (!inserted.insert(id).second) continue;
          ids.push_back(id);
          keys.push_back(key_of(id));
          slow.Insert(keys.back(), id);
        }
        beam.InsertMany(keys.data(), ids.data(), static_cast<std::uint32_t>(ids.size()));
      } else if (action < 18) {
        const auto window = static_cast<std::uint32_t>(below(width + 3));
        ASSERT_EQ(beam.HasNext(window), slow.HasNext(window));
        if (!beam.HasNext(width)) continue;
        ASSERT_EQ(beam.PeekNext(), slow.PeekNext());
        ASSERT_EQ(beam.PopNext(), slow.PopNext());
      } else if (action == 18) {
        const auto next = static_cast<std::uint32_t>(1 + below(40));
        beam.Reopen(next);
        slow.Reopen(next);
      } else if (below(8) == 0) {
        beam.Reset(width);
        slow.Reset(width);
        inserted.clear();
      }
      ASSERT_NO_FATAL_FAILURE(ExpectSame(beam, slow)) << "step " << step;
    }
  }
}

TEST(Beam, InsertUniqueTakesACandidateOnce) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Beam beam;
    SlowBeam slow;
    beam.Reset(12);
    slow.Reset(12);
    for (std::uint64_t step = 0; step < 500; ++step) {
      const auto id = static_cast<NodeId>(RandomBelow(seed, step, 60));
      const DistanceKey key = id / 3;
      ASSERT_EQ(beam.InsertUnique(key, id), slow.InsertUnique(key, id)) << "step " << step;
      ASSERT_NO_FATAL_FAILURE(ExpectSame(beam, slow)) << "step " << step;
    }
  }
}

TEST(Beam, AWiderBeamKeepsWhatItsWindowDoesNotExpand) {
  Beam beam;
  beam.Reset(4);
  for (NodeId id = 0; id < 4; ++id) beam.Insert(10 - id, id);
  EXPECT_EQ(beam.PopNext(), 3u);
  EXPECT_EQ(beam.PopNext(), 2u);
  EXPECT_FALSE(beam.HasNext(2));
  EXPECT_TRUE(beam.HasNext(3));
  EXPECT_TRUE(beam.Insert(1, 9)) << "the nearest of all";
  EXPECT_TRUE(beam.HasNext(2));
  EXPECT_EQ(beam.PopNext(), 9u);
  EXPECT_FALSE(beam.HasNext(2));
  EXPECT_EQ(beam.size(), 4u);
  EXPECT_FALSE(beam.Insert(9, 8)) << "farther than the last of a full beam";
}

TEST(Beam, LargestIdAndKeyFit) {
  Beam beam;
  beam.Reset(2);
  const auto largest = static_cast<NodeId>(kMaxNodes);
  EXPECT_TRUE(beam.Insert(~DistanceKey{0}, largest));
  EXPECT_EQ(beam.id(0), largest);
  EXPECT_EQ(beam.key(0), ~DistanceKey{0});
  EXPECT_EQ(beam.PopNext(), largest);
  EXPECT_TRUE(beam.expanded(0));
  EXPECT_EQ(beam.id(0), largest) << "the flag is not part of the id";
}

}  // namespace
}  // namespace hmann
