#include "index/search/gated_walk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "index/search/testing/random_index.h"

namespace hmann {
namespace {

using ::testing::HasSubstr;

/// (key, id) of a candidate.
using Entry = std::pair<DistanceKey, NodeId>;

/// The gated walk and its scorers (gated_pool.h, cell_scorer.h, link_scorer.h) in ordered sets, one estimate at a time: slow and obvious.
/// `w`: what L1 has found; `met`: all that L1 has scored.
class ReferenceGated {
 public:
  ReferenceGated(const RandomIndex& index, const std::byte* query, const Dials& options)
      : index_(index), placed_(index.placed()), reference_(index.Reference()), query_(query), options_(options) {}

  std::vector<Entry> Run(const std::vector<Entry>& w, std::set<NodeId> met) {
    estimator_.Prepare(*placed_.sketcher, query_);
    met_ = std::move(met);
    window_ = options_.ef_l0 > 0 ? static_cast<std::size_t>(options_.ef_l0) : std::max(256u, 4 * options_.k);
    for (const Entry& entry : w) {
      results_.insert(entry);
      hubs_.insert(entry.second);
      if (options_.ef_l0 > 0) Keep(entry);
    }
    limit_ = Limit();
    std::vector<NodeId> hubs;
    for (std::size_t i = 0; i < std::min<std::size_t>(w.size(), static_cast<std::size_t>(options_.cells)); ++i) hubs.push_back(w[i].second);
    for (const NodeId hub : hubs) {
      const auto [begin, end] = placed_.cells->MembersOf(hub);
      for (NodeId id = begin; id < end; ++id) OfferOfCell(id);
    }
    by_edge_ = placed_.cells == nullptr;
    const std::set<NodeId> scored(hubs.begin(), hubs.end());
    for (const NodeId hub : hubs) {
      for (const NodeId id : placed_.cells->GuestsOf(hub)) {
        if (scored.count(placed_.cells->HubOf(id)) == 0) OfferOfCell(id);
      }
    }
    while (Round()) {
    }
    std::vector<Entry> nearest(results_.begin(), results_.end());
    nearest.resize(std::min<std::size_t>(nearest.size(), options_.k));
    return nearest;
  }

  std::set<NodeId> read;
  std::uint64_t rounds = 0, sketches = 0, distances_fast = 0, distances_slow = 0;

 private:
  DistanceKey Exact(NodeId id) const { return placed_.kernels.one(query_, index_.Row(id), placed_.kernels.dim); }
  std::pair<float, float> Estimate(NodeId id) const {
    const NodeId hub = placed_.cells->HubOf(id);
    const float hub_distance = placed_.kernels.ToDistance(Exact(hub)), gap = estimator_.SquaredGap(index_.Row(hub), hub_distance);
    const std::byte* sketch = placed_.Sketch(id);
    float estimate, error;
    estimator_.Estimate(&sketch, &hub_distance, 1, &estimate, &error, &gap);
    return {estimate, error};
  }
  DistanceKey Limit() const {
    if (!options_.reach.has_value() || results_.size() < options_.k) return ~DistanceKey{0};
    const DistanceKey kth = std::next(results_.begin(), options_.k - 1)->first;
    return placed_.kernels.ToKey(*options_.reach * placed_.kernels.ToDistance(kth));
  }
  void Keep(const Entry& entry) {
    pool_.insert(entry);
    if (pool_.size() > window_) pool_.erase(std::prev(pool_.end()));
  }
  void CountSketch(NodeId id) {
    ++sketches;
    if (hubs_.insert(placed_.cells->HubOf(id)).second) ++distances_fast;
  }
  void Offer(NodeId id) {
    CountSketch(id);
    const Entry entry(placed_.kernels.ToKey(Estimate(id).first), id);
    if (entry.first <= limit_) Keep(entry);
  }
  void OfferOfCell(NodeId id) {
    CountSketch(id);
    const Entry entry(placed_.kernels.ToKey(Estimate(id).first), id);
    if (entry.first > limit_ || pool_.count(entry) > 0) return;
    Keep(entry);
    if (pool_.count(entry) > 0) met_.insert(id);
  }
  bool Round() {
    std::vector<Entry> wanted;
    limit_ = Limit();
    const DistanceKey bound = results_.size() < options_.k ? ~DistanceKey{0} : std::next(results_.begin(), options_.k - 1)->first;
    for (auto at = pool_.begin(); at != pool_.end() && wanted.size() < options_.width; ++at) {
      if (done_.count(at->second) > 0) continue;
      if (at->first > limit_) break;
      done_.insert(at->second);
      if (at->second >= placed_.n1() && options_.stop >= 0 && bound != ~DistanceKey{0}) {
        const auto [estimate, error] = Estimate(at->second);
        if (placed_.kernels.ToKey(estimate - *options_.stop * error) > bound) continue;
      }
      wanted.push_back(*at);
    }
    if (wanted.empty()) return false;
    ++rounds;
    for (const Entry& entry : wanted) {
      read.insert(entry.second);
      if (entry.second < placed_.n1()) continue;
      ++distances_slow;
      pool_.erase(entry);
      const Entry exact(Exact(entry.second), entry.second);
      pool_.insert(exact);
      results_.insert(exact);
    }
    if (options_.ef_l0 == 0) return true;
    if (by_edge_) {
      FollowEdges(wanted);
      return true;
    }
    std::vector<NodeId> promoted, others;
    for (const Entry& entry : wanted) {
      for (const NodeId link : reference_.links(0, entry.second)) {
        if (met_.insert(link).second) (link < placed_.n1() ? promoted : others).push_back(link);
      }
    }
    EnterExactly(promoted);
    for (const NodeId id : others) Offer(id);
    return true;
  }

  void EnterExactly(const std::vector<NodeId>& promoted) {
    distances_fast += promoted.size();
    for (const NodeId id : promoted) {
      results_.insert({Exact(id), id});
      Keep({Exact(id), id});
    }
  }

  /// What cannot enter the pool any more, with what an integer key may round off.
  float BoundDistance() const {
    const DistanceKey worst = pool_.size() < window_ ? ~DistanceKey{0} : std::prev(pool_.end())->first, bound = std::min(worst, limit_);
    if (bound == ~DistanceKey{0}) return std::numeric_limits<float>::max();
    return placed_.kernels.ToDistance(bound) + (placed_.kernels.dtype == DType::kF32 || placed_.kernels.metric == Metric::kCosine ? 0 : 1);
  }
  /// Estimates centred on where a link leaves from; one that enters the pool stays, one that does not may come again from elsewhere.
  void FollowEdges(const std::vector<Entry>& wanted) {
    std::vector<NodeId> promoted;
    for (const Entry& entry : wanted) {
      const float bound = BoundDistance();
      for (const NodeId link : reference_.links(0, entry.second)) {
        ++sketches;
        if (met_.count(link) > 0) continue;
        const std::vector<std::byte> code = index_.EdgeSketch(entry.second, link);
        const std::byte* sketch = code.data();
        const float from = placed_.kernels.ToDistance(Exact(entry.second));
        float estimate;
        estimator_.Estimate(&sketch, &from, 1, &estimate, nullptr);
        if (estimate > bound) continue;
        if (link < placed_.n1()) {
          promoted.push_back(link);
          met_.insert(link);
          continue;
        }
        const Entry offered(placed_.kernels.ToKey(estimate), link);
        if (offered.first > limit_) continue;
        Keep(offered);
        if (pool_.count(offered) > 0) met_.insert(link);
      }
    }
    EnterExactly(promoted);
  }

  const RandomIndex& index_;
  const PlacedIndex& placed_;
  const ReferenceIndex reference_;
  const std::byte* query_;
  const Dials options_;
  SketchQuery estimator_;
  std::size_t window_ = 0;
  DistanceKey limit_ = 0;
  bool by_edge_ = false;
  std::set<Entry> pool_, results_;
  std::set<NodeId> met_, done_, hubs_;
};

/// Fast walk and reference from the same L1.
void ExpectReference(const RandomIndex& index, std::uint64_t query_number, const SearchOptions& asked) {
  const PlacedIndex& placed = index.placed();
  const absl::StatusOr<Dials> resolved = asked.Resolve(placed.Context());
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  const Dials& options = *resolved;
  std::vector<std::byte> query(placed.kernels.row_bytes);
  ASSERT_TRUE(EncodeRow(placed.kernels, index.Query(query_number).data(), query.data()).ok());
  LayerScratch scratch;
  NullLayerCounters none;
  OpenBeam(placed.upper[0], query.data(), 0, std::max<std::uint32_t>(options.ef_l1, options.k), scratch, none);
  SearchLayer(placed.upper[0], query.data(), options.ef_l1, scratch, none);
  std::vector<Entry> w;
  std::set<NodeId> met;
  for (std::uint32_t i = 0; i < scratch.beam.size(); ++i) w.emplace_back(scratch.beam.key(i), scratch.beam.id(i));
  for (NodeId id = 0; id < placed.layers.n(); ++id) {
    if (scratch.visited.Contains(id)) met.insert(id);
  }
  ReferenceGated reference(index, query.data(), options);
  const std::vector<Entry> expected = reference.Run(w, met);

  WalkCounters counters;
  counters.Clear(true);
  GatedWalk walk;
  std::vector<const std::byte*> records;
  walk.Open({placed, query.data(), options, scratch, counters});
  while (!walk.Done()) {
    records.clear();
    for (const NodeId id : walk.Wanted()) records.push_back(placed.Record(id));
    walk.Absorb(records);
  }
  std::vector<Entry> found;
  for (std::uint32_t i = 0; i < walk.results().size(); ++i) found.emplace_back(walk.results().key(i), walk.results().id(i));
  EXPECT_EQ(found, expected);
  EXPECT_EQ(std::set<NodeId>(counters.read.begin(), counters.read.end()), reference.read);
  EXPECT_EQ(counters.read.size(), reference.read.size()) << "no record twice";
  EXPECT_EQ(counters.total.rounds, reference.rounds);
  EXPECT_EQ(counters.total.sketches, reference.sketches);
  EXPECT_EQ(counters.total.distances_fast, reference.distances_fast);
  EXPECT_EQ(counters.total.distances_slow, reference.distances_slow);
}

TEST(GatedWalk, IsTheReferenceAtManyDials) {
  std::uint64_t query = 0;
  for (const auto& [dtype, metric] : {std::pair(DType::kU8, Metric::kL2), std::pair(DType::kF32, Metric::kL2),
                                      std::pair(DType::kF32, Metric::kInnerProduct), std::pair(DType::kU8, Metric::kCosine)}) {
    for (const std::uint32_t assign : {1u, 2u}) {
      const RandomIndex index(
          {.n = 400, .n1 = 50, .m = 4, .dim = 9, .dtype = dtype, .metric = metric, .seed = 3, .bits = 2, .assign = assign});
      for (const std::uint32_t ef_l0 : {0u, 1u, 10u, 60u, 400u}) {
        for (const std::uint32_t cells : {0u, 1u, 7u, 50u}) {
          for (const std::optional<float> stop : {std::optional<float>(), {0.0f}, {1.5f}}) {
            SCOPED_TRACE(absl::StrCat(absl::string_view(Name(dtype).data()), " ", absl::string_view(Name(metric).data()), " assign ",
                                      assign, ", ef_l0 ", ef_l0, ", cells ", cells, ", stop ", stop.value_or(-1)));
            for (const float reach : {0.0f, 1.0f, 1.3f}) {
              if (reach > 0 && metric == Metric::kInnerProduct) continue;
              SCOPED_TRACE(absl::StrCat("reach ", reach));
              ++query;
              ExpectReference(index, query,
                              {.k = 10,
                               .ef_l1 = 12,
                               .ef_l0 = ef_l0,
                               .walk = WalkKind::kGated,
                               .cells = cells,
                               .width = 1 + static_cast<std::uint32_t>(query % 9),
                               .stop = stop,
                               .reach = reach});
              if (testing::Test::HasFailure()) return;
            }
          }
        }
      }
    }
  }
}

TEST(GatedWalk, IsTheReferenceWithSketchesOfLinks) {
  std::uint64_t query = 0;
  for (const auto& [dtype, metric] : {std::pair(DType::kU8, Metric::kL2), std::pair(DType::kF32, Metric::kL2),
                                      std::pair(DType::kF32, Metric::kInnerProduct), std::pair(DType::kU8, Metric::kCosine)}) {
    for (const std::uint32_t bits : {1u, 2u, 3u, 4u}) {
      for (const NodeId n1 : {1u, 50u}) {
        const RandomIndex index({.n = 400,
                                 .n1 = n1,
                                 .m = 4,
                                 .dim = 9,
                                 .dtype = dtype,
                                 .metric = metric,
                                 .seed = bits,
                                 .bits = bits,
                                 .place = CodePlace::kEdge});
        for (const std::uint32_t ef_l0 : {1u, 10u, 60u, 400u}) {
          for (const std::uint32_t width : {1u, 3u, 8u, 64u}) {
            SCOPED_TRACE(absl::StrCat(absl::string_view(Name(dtype).data()), " ", absl::string_view(Name(metric).data()), " bits ", bits,
                                      ", n1 ", n1, ", ef_l0 ", ef_l0, ", width ", width));
            for (const float reach : {0.0f, 1.3f}) {
              if (reach > 0 && metric == Metric::kInnerProduct) continue;
              ExpectReference(index, query++,
                              {.k = 10, .ef_l1 = 12, .ef_l0 = ef_l0, .walk = WalkKind::kGated, .width = width, .reach = reach});
            }
            if (testing::Test::HasFailure()) return;
          }
        }
      }
    }
  }
}

TEST(GatedWalk, SketchesOfLinksHaveNoCells) {
  const RandomIndex index({.bits = 2, .place = CodePlace::kEdge});
  AskedDriver runner(index.placed());
  std::vector<Neighbour> nearest;
  for (const SearchOptions& options :
       {SearchOptions{.walk = WalkKind::kGated, .cells = 1}, SearchOptions{.walk = WalkKind::kGated, .stop = 1},
        SearchOptions{.ef_l0 = 0, .walk = WalkKind::kGated}}) {
    const absl::Status status = runner.Search(index.Query(1).data(), options, &nearest, nullptr, {});
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("sketches by hub"));
  }
  EXPECT_TRUE(runner.Search(index.Query(1).data(), {.walk = WalkKind::kGated}, &nearest, nullptr, {}).ok());
}

TEST(GatedWalk, WithEveryDialOpenItIsExact) {
  for (std::uint32_t shape = 0; shape < 8; ++shape) {
    const std::uint32_t bits = shape % 4 + 1;
    const RandomIndex index(
        {.n = 500, .n1 = 60, .m = 4, .dim = 12, .seed = bits, .bits = bits, .place = shape < 4 ? CodePlace::kHub : CodePlace::kEdge});
    AskedDriver runner(index.placed());
    for (std::uint64_t q = 0; q < 20; ++q) {
      const std::vector<std::byte> query = index.Query(q);
      std::set<float> all;
      for (NodeId id = 0; id < 500; ++id)
        all.insert(index.placed().kernels.ToDistance(index.placed().kernels.one(query.data(), index.Row(id), 12)));
      std::vector<Neighbour> nearest;
      Counters counters;
      ASSERT_TRUE(runner.Search(query.data(), {.k = 1, .ef_l1 = 60, .ef_l0 = 500, .walk = WalkKind::kGated}, &nearest, &counters, {}).ok());
      EXPECT_EQ(nearest[0].distance, *all.begin());
      EXPECT_GT(counters.sketches, 0u);
      ASSERT_TRUE(
          runner.Search(query.data(), {.k = 500, .ef_l1 = 60, .ef_l0 = 500, .walk = WalkKind::kGated}, &nearest, &counters, {}).ok());
      EXPECT_EQ(nearest.size(), 500u) << "k is always filled";
    }
  }
}

TEST(GatedWalk, AnIndexWithoutSketchesSaysSo) {
  const RandomIndex index({});
  AskedDriver runner(index.placed());
  std::vector<Neighbour> nearest;
  const absl::Status status = runner.Search(index.Query(1).data(), {.walk = WalkKind::kGated}, &nearest, nullptr, {});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("build it with --codes hub"));
}

TEST(GatedWalk, DamagedRecordsNeverCrashASearch) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const CodePlace place = seed % 2 == 0 ? CodePlace::kEdge : CodePlace::kHub;
    RandomIndex index({.n = 200, .n1 = 40, .m = 3, .dim = 4, .seed = seed, .bits = 2, .assign = 2, .place = place});
    std::uint64_t counter = 0;
    index.Damage([&](std::byte* bytes, std::size_t size) {
      for (std::size_t i = 0; i < size; i += 1 + RandomBelow(seed, counter++, 40))
        bytes[i] = static_cast<std::byte>(Random(seed, counter++));
    });
    AskedDriver runner(index.placed());
    std::vector<Neighbour> nearest;
    for (const std::int64_t ef_l0 : {0, 30}) {
      if (place == CodePlace::kEdge && ef_l0 == 0) continue;
      const SearchOptions options{.k = 20, .ef_l0 = ef_l0, .walk = WalkKind::kGated, .cells = place == CodePlace::kEdge ? 0 : 5};
      ASSERT_TRUE(runner.Search(index.Query(1).data(), options, &nearest, nullptr, {}).ok());
      EXPECT_LE(nearest.size(), 20u);
    }
  }
}

}  // namespace
}  // namespace hmann
