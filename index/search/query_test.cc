#include "index/search/query.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "hmann/param_table.h"
#include "index/search/testing/random_index.h"

namespace hmann {
namespace {

const std::vector<SearchParams>& EveryMode() {
  static const std::vector<SearchParams> options = {
      {.k = 10, .ef_l1 = 12, .ef_l0 = 40, .mode = SearchMode::kGraph, .beam_width = 3},
      {.k = 10, .ef_l1 = 12, .ef_l0 = 60, .mode = SearchMode::kGraph, .epsilon = 0.3f},
      {.k = 10, .ef_l1 = 12, .mode = SearchMode::kUpper},
      {.k = 10, .mode = SearchMode::kScan},
      {.k = 10, .ef_l1 = 20, .ef_l0 = 3, .mode = SearchMode::kMultiStart},
      {.k = 10,
       .ef_l1 = 12,
       .ef_l0 = 40,
       .mode = SearchMode::kQuantized,
       .nprobe = 0,
       .beam_width = 4},
      {.k = 10,
       .ef_l1 = 12,
       .ef_l0 = 0,
       .mode = SearchMode::kQuantized,
       .nprobe = 20,
       .beam_width = 4},
      {.k = 300, .ef_l1 = 3, .ef_l0 = 2, .mode = SearchMode::kMultiStart},
      {.k = 300, .ef_l1 = 3, .ef_l0 = 2, .mode = SearchMode::kGraph},
  };
  return options;
}

std::vector<std::pair<std::uint64_t, float>> Pairs(const std::vector<Neighbor>& nearest) {
  std::vector<std::pair<std::uint64_t, float>> pairs;
  for (const Neighbor& neighbor : nearest) pairs.emplace_back(neighbor.label, neighbor.distance);
  return pairs;
}

/// Uses only the interface of a traversal: it passes copies of records that are destroyed
/// after each Absorb.
class CopyingExecutor {
 public:
  explicit CopyingExecutor(const PlacedIndex& index)
      : index_(index), without_l0_(index), query_(without_l0_) {
    without_l0_.l0 = nullptr;
  }

  Query& query() { return query_; }

  /// Runs at most `steps` steps.
  void Run(std::uint64_t steps = ~std::uint64_t{0}) {
    for (; steps > 0 && !query_.Done(); --steps) {
      query_.Visit([this](auto& traversal) {
        std::vector<std::vector<std::byte>> copies;
        std::vector<const std::byte*> pointers;
        for (const NodeId id : traversal.Wanted()) {
          ASSERT_LT(id, index_.layers.n());
          const std::byte* record = index_.Record(id);
          const auto [row, tail] = index_.Extents(id, RecordPart::kRecord);
          std::vector<std::byte>& copy =
              copies.emplace_back(tail.offset + tail.bytes + kListSlackBytes, std::byte{0xab});
          std::copy_n(record, row.bytes, copy.data());
          std::copy_n(record + tail.offset, tail.bytes, copy.data() + tail.offset);
        }
        for (const std::vector<std::byte>& copy : copies) pointers.push_back(copy.data());
        traversal.Absorb(pointers);
        if (traversal.Done()) query_.Next();
      });
    }
  }

 private:
  const PlacedIndex& index_;
  PlacedIndex without_l0_;
  Query query_;
};

TEST(Query, ReadsNothingButTheRecordsThatItsWalksWant) {
  const RandomIndex index({.n = 2000, .n1 = 200, .m = 5, .dim = 7, .bits = 2});
  CopyingExecutor copying(index.placed());
  ParamsExecutor executor(index.placed());
  for (const SearchParams& options : EveryMode()) {
    for (std::uint64_t number = 0; number < 10; ++number) {
      SCOPED_TRACE(absl::StrCat("traversal ", static_cast<int>(*options.mode), ", ef_l0 ",
                                options.ef_l0.value_or(0), ", query ", number));
      const std::vector<std::byte> vector = index.Query(number);
      std::vector<Neighbor> expected;
      Counters counted;
      ASSERT_TRUE(executor.Search(vector.data(), options, &expected, &counted, {}).ok());
      const ResolvedParams params = *ResolveToEnd(options, index.placed());
      ASSERT_TRUE(copying.query().Open(vector.data(), params, true).ok());
      copying.Run();
      Answer answer;
      copying.query().TakeAnswer(&answer);
      EXPECT_EQ(Pairs(answer.nearest), Pairs(expected));
      EXPECT_FALSE(answer.cut_short);
      VisitedSet read;
      const Counters found = copying.query().TakeCounters(read);
      for (const CounterName& counter : CounterNames())
        EXPECT_EQ(found.*counter.value, counted.*counter.value) << counter.name;
    }
  }
}

/// Runs the whole query in one thread, part by part.
Answer RunPartByPart(const PlacedIndex& index, Query& query) {
  std::vector<const std::byte*> records;
  const auto run = [&](auto& traversal) {
    while (!traversal.Done()) {
      records.clear();
      for (const NodeId id : traversal.Wanted()) records.push_back(index.Record(id));
      traversal.Absorb(records);
    }
  };
  while (!query.Done()) {
    if (query.Parts().empty()) query.Visit(run);
    for (MultiStartTraversal& part : query.Parts()) run(part);
    query.Next();
  }
  Answer answer;
  query.TakeAnswer(&answer);
  return answer;
}

TEST(Query, ThreadsOfAMultiStartSearchDivideTheCandidates) {
  const RandomIndex index({.n = 2000, .n1 = 200, .m = 5, .dim = 7});
  SearchParams options{.k = 10, .ef_l1 = 30, .ef_l0 = 2, .mode = SearchMode::kMultiStart};
  Counters alone;
  for (const std::uint32_t threads : {1u, 2u, 7u, 30u, 64u}) {
    SCOPED_TRACE(absl::StrCat(threads, " threads"));
    options.query_threads = threads;
    const ResolvedParams params = *ResolveToEnd(options, index.placed());
    Counters sum;
    for (std::uint64_t number = 0; number < 20; ++number) {
      Query query(index.placed());
      ASSERT_TRUE(query.Open(index.Query(number).data(), params, true).ok());
      EXPECT_EQ(RunPartByPart(index.placed(), query).nearest.size(), 10u);
      VisitedSet read;
      sum += query.TakeCounters(read);
    }
    if (threads == 1) alone = sum;
    // Each has its own visited set, so together they compute more.
    EXPECT_GE(sum.distances_slow, alone.distances_slow);
    EXPECT_LE(sum.longest_distances, alone.longest_distances);
    EXPECT_LE(alone.longest_distances, sum.longest_distances * threads);
  }
}

TEST(Query, OneThreadOfAMultiStartSearchIsAGraphSearchFromAllCandidates) {
  const RandomIndex index({.n = 2000, .n1 = 200, .m = 5, .dim = 7});
  for (std::uint64_t number = 0; number < 40; ++number) {
    std::vector<Answer> answers;
    std::vector<Counters> counters;
    for (const SearchMode mode : {SearchMode::kMultiStart, SearchMode::kGraph}) {
      const ResolvedParams params =
          *ResolveToEnd({.k = 10, .ef_l1 = 30, .ef_l0 = 30, .mode = mode}, index.placed());
      Query query(index.placed());
      ASSERT_TRUE(query.Open(index.Query(number).data(), params, true).ok());
      answers.push_back(RunPartByPart(index.placed(), query));
      VisitedSet read;
      counters.push_back(query.TakeCounters(read));
    }
    EXPECT_EQ(Pairs(answers[0].nearest), Pairs(answers[1].nearest));
    EXPECT_EQ(counters[0].expanded_l0, counters[1].expanded_l0);
    EXPECT_EQ(counters[0].distances_slow, counters[1].distances_slow);
    // What L1 has scored and dropped is scored again: V_t opens with EP alone.
    EXPECT_GE(counters[0].distances_fast, counters[1].distances_fast);
  }
}

/// Cut short after any number of steps, a query answers with the results whose records
/// are available, nearest first, by exact distances.
TEST(Query, CutShortItAnswersWithWhatItHas) {
  const RandomIndex index({.n = 2000, .n1 = 200, .m = 5, .dim = 7, .bits = 2});
  const PlacedIndex& placed = index.placed();
  std::map<std::uint64_t, NodeId> id_of;
  for (NodeId id = 0; id < placed.layers.n(); ++id) id_of[index.Label(id)] = id;
  for (const SearchParams& options : EveryMode()) {
    const ResolvedParams params = *ResolveToEnd(options, placed);
    const std::vector<std::byte> vector = index.Query(3);
    for (const NodeId odd : {0u, 1u}) {
      const auto has_record = [odd](NodeId id) { return id % 2 >= odd; };  // all, or odd ones
      std::size_t cut = 0;
      for (std::uint64_t steps = 0; steps < 60; ++steps) {
        CopyingExecutor copying(placed);
        ASSERT_TRUE(copying.query().Open(vector.data(), params, false).ok());
        copying.Run(steps);
        const bool was_cut = copying.query().CutShort(has_record);
        copying.Run();
        Answer answer;
        copying.query().TakeAnswer(&answer);
        EXPECT_EQ(answer.cut_short, was_cut);
        if (!was_cut) continue;
        ++cut;
        EXPECT_GE(answer.nearest.size(), 1u);
        EXPECT_LE(answer.nearest.size(), params.k);
        float before = 0;
        for (const Neighbor& neighbor : answer.nearest) {
          const NodeId id = id_of.at(neighbor.label);
          EXPECT_TRUE(id < placed.n1() || has_record(id));
          EXPECT_GE(neighbor.distance, before);
          before = neighbor.distance;
        }
      }
      EXPECT_GT(cut, 5u);
    }
  }
}

/// A traversal that does not exist in the engine: it reads every record and is always
/// right. A query needs only a file with such a class and a place in the list of
/// BasicQuery. A user also needs its name (SearchMode, ParamTable, search.proto).
class ScanTraversal {
 public:
  static constexpr bool kLeavesBeam = false;

  void Open(const TraversalStart& start) {
    start_.emplace(start);
    found_.Reset(start.params.k);
    next_ = start.index.n1();
    for (NodeId id = 0; id < next_; ++id) Score(id, start.index.FastRow(id));
    Want();
  }
  bool Done() const { return wanted_.empty(); }
  std::span<const NodeId> Wanted() const { return wanted_; }
  RecordPart Part() const { return RecordPart::kRow; }
  template <typename Hint>
  void ForUpcoming(std::uint32_t, const Hint&) const {}
  void Absorb(std::span<const std::byte* const> records) {
    for (std::size_t i = 0; i < records.size(); ++i) Score(wanted_[i], records[i]);
    Want();
  }
  template <typename Add>
  void ForResults(const Add& add) const {
    add(found_);
  }
  void Finish(TraversalCounters&) const {}

 private:
  void Score(NodeId id, const std::byte* row) {
    const Kernels& kernels = start_->index.kernels;
    found_.Insert(kernels.one(start_->query, row, kernels.dim), id);
  }
  void Want() {
    wanted_.resize(std::min<std::size_t>(7, start_->index.layers.n() - next_));
    std::iota(wanted_.begin(), wanted_.end(), next_);
    next_ += static_cast<NodeId>(wanted_.size());
  }

  std::optional<TraversalStart> start_;
  Beam found_;
  NodeId next_ = 0;
  std::vector<NodeId> wanted_;
};

TEST(Query, ANewWalkIsAClassAndAPlaceInTheList) {
  const RandomIndex index({.n = 500, .n1 = 60, .m = 5, .dim = 7});
  const PlacedIndex& placed = index.placed();
  BasicQuery<MultiStartSearch, GraphL0Traversal, QuantizedTraversal, NoL0Traversal,
             hmann::ScanTraversal, ScanTraversal>
      query(placed);
  ResolvedParams params = *SearchParams{.k = 10}.Resolve(placed.Context());
  params.mode = static_cast<SearchMode>(kModes);
  const std::vector<std::byte> vector = index.Query(2);
  ASSERT_TRUE(query.Open(vector.data(), params, false).ok());
  while (!query.Done()) {
    query.Visit([&](auto& traversal) {
      std::vector<const std::byte*> records;
      for (const NodeId id : traversal.Wanted()) records.push_back(placed.Record(id));
      traversal.Absorb(records);
      if (traversal.Done()) query.Next();
    });
  }
  Answer answer;
  query.TakeAnswer(&answer);
  ParamsExecutor executor(placed);
  std::vector<Neighbor> all;
  ASSERT_TRUE(executor
                  .Search(vector.data(),
                          {.k = 500, .ef_l1 = 60, .ef_l0 = 500, .mode = SearchMode::kGraph}, &all,
                          nullptr, {})
                  .ok());
  all.resize(10);
  EXPECT_EQ(Pairs(answer.nearest), Pairs(all));
}

/// The lists that name every traversal agree, so that a new one is missing from none.
TEST(Query, EveryWalkHasAName) { EXPECT_EQ(FindParam("mode")->words.size(), kModes); }

}  // namespace
}  // namespace hmann
