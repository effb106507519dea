// Compares the reimplemented search with hnswlib's own, and checks the touches that it
// reports. hnswlib's vectorized loops prefetch past a list's end.
#define NO_MANUAL_VECTORIZATION
#include "eval/adapters/hnsw_traversal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hnswlib/hnswlib.h>

#include <map>
#include <memory>
#include <set>

#include "datasets/vector_file.h"
#include "eval/adapters/touch_access.h"

namespace hmann::eval {
namespace {

constexpr std::uint64_t kRows = 3000, kQueries = 100;
constexpr std::uint32_t kK = 10;

/// Stands in for EmulatedLines: records fetches and waits.
struct NotedLines {
  std::set<std::uintptr_t> fetched;
  std::uint64_t fetches = 0, uses = 0, late = 0, cleared = 0;

  void Clear() {
    fetched.clear();
    ++cleared;
  }
  void Fetch(const std::byte* address, std::size_t bytes) { fetches += Note(address, bytes); }
  void Use(const std::byte* address, std::size_t bytes) {
    ++uses;
    late += Note(address, bytes) > 0 ? 1 : 0;
  }

 private:
  std::uint64_t Note(const std::byte* address, std::size_t bytes) {
    std::uint64_t fresh = 0;
    const auto begin = reinterpret_cast<std::uintptr_t>(address);
    for (std::uintptr_t line = begin / 64; line <= (begin + bytes - 1) / 64; ++line)
      fresh += fetched.insert(line).second ? 1 : 0;
    return fresh;
  }
};

/// hnswlib's index over a part of the sample, and its copy. The components are whole
/// numbers, so sums of floats are exact too.
template <typename Dist>
class Graph {
 public:
  using Space = std::conditional_t<std::is_same_v<Dist, int>, hnswlib::L2SpaceI, hnswlib::L2Space>;
  using Component = std::conditional_t<std::is_same_v<Dist, int>, std::uint8_t, float>;

  Graph()
      : base_(*VectorFile::Open("datasets/sample/base.u8bin", kRows)),
        queries_(*VectorFile::Open("datasets/sample/query.u8bin", kQueries)) {
    kernels_ = *ChooseKernels(std::is_same_v<Dist, int> ? DType::kU8 : DType::kF32, Metric::kL2,
                              base_.dim());
    space_ = std::make_unique<Space>(base_.dim());
    index_ = std::make_unique<hnswlib::HierarchicalNSW<Dist>>(space_.get(), kRows, 8, 60);
    for (std::uint64_t i = 0; i < kRows; ++i) index_->addPoint(Row(base_, i).data(), i);
    image_ = *CopyOfHnswlib(*index_);
    traversal_ = std::make_unique<HnswTraversal<Dist>>(&image_, &kernels_);
  }

  static std::vector<Component> Row(const VectorFile& file, std::uint64_t i) {
    std::vector<Component> row(file.dim());
    for (std::uint32_t j = 0; j < file.dim(); ++j)
      row[j] = static_cast<Component>(std::to_integer<int>(file.Row(i)[j]));
    return row;
  }

  std::vector<std::uint32_t> Theirs(std::uint32_t ef) {
    index_->setEf(ef);
    std::vector<std::uint32_t> all;
    for (std::uint64_t q = 0; q < kQueries; ++q) {
      auto found = index_->searchKnn(Row(queries_, q).data(), kK);
      EXPECT_EQ(found.size(), kK);
      all.resize(all.size() + kK);
      for (std::size_t rank = kK; rank-- > 0; found.pop())
        all[q * kK + rank] = static_cast<std::uint32_t>(found.top().second);
    }
    return all;
  }
  template <typename Access>
  std::vector<std::uint32_t> Ours(std::uint32_t ef, Ahead ahead, Access& access) {
    std::vector<std::uint32_t> all(kQueries * kK);
    for (std::uint64_t q = 0; q < kQueries; ++q) {
      const std::vector<Component> row = Row(queries_, q);
      traversal_->Begin(reinterpret_cast<const std::byte*>(row.data()), kK, ef, ahead, false,
                        access);
      while (traversal_->Step(access)) {
      }
      EXPECT_EQ(traversal_->Finish(access, all.data() + q * kK), kK);
    }
    return all;
  }

  /// The same, with three queries that take turns, one step each.
  template <typename Access>
  std::vector<std::uint32_t> InTurn(std::uint32_t ef, Ahead ahead, std::vector<Access>& accesses) {
    std::vector<HnswTraversal<Dist>> traversals(accesses.size(), {&image_, &kernels_});
    std::vector<std::vector<Component>> rows(accesses.size());
    std::vector<std::uint64_t> queries(accesses.size());
    std::vector<std::uint32_t> all(kQueries * kK);
    std::uint64_t next = 0, done = 0;
    const auto begin = [&](std::size_t slot) {
      queries[slot] = next++;
      if (queries[slot] >= kQueries) return;
      rows[slot] = Row(queries_, queries[slot]);
      traversals[slot].Begin(reinterpret_cast<const std::byte*>(rows[slot].data()), kK, ef, ahead,
                             true, accesses[slot]);
    };
    for (std::size_t slot = 0; slot < accesses.size(); ++slot) begin(slot);
    while (done < kQueries) {
      for (std::size_t slot = 0; slot < accesses.size(); ++slot) {
        if (queries[slot] >= kQueries || traversals[slot].Step(accesses[slot])) continue;
        EXPECT_EQ(traversals[slot].Finish(accesses[slot], all.data() + queries[slot] * kK), kK);
        ++done;
        begin(slot);
      }
    }
    return all;
  }

  std::unique_ptr<PlacementModel> Model(const std::string& name, double share) const {
    PlacementRequest request = {name, share, image_.Lines(), {}};
    for (const int level : image_.level_of) request.in_upper.push_back(level > 0);
    return *MakePlacement(request);
  }
  /// Records a run in the model's steady state: its counts, and its log.
  RecordingAccess Record(const std::string& name, double share, TouchLog* log) {
    const std::unique_ptr<PlacementModel> model = Model(name, share);
    RecordingAccess warm(model.get(), image_.Memory(), image_.nodes, nullptr);
    Ours(40, Ahead::kOwn, warm);
    RecordingAccess access(model.get(), image_.Memory(), image_.nodes, log);
    Ours(40, Ahead::kOwn, access);
    return access;
  }

  const Kernels& kernels() const { return kernels_; }
  const HnswImage& image() const { return image_; }

 private:
  VectorFile base_, queries_;
  Kernels kernels_;
  std::unique_ptr<Space> space_;
  std::unique_ptr<hnswlib::HierarchicalNSW<Dist>> index_;
  HnswImage image_;
  std::unique_ptr<HnswTraversal<Dist>> traversal_;
};

template <typename Dist>
class Traversal : public testing::Test {
 protected:
  static void SetUpTestSuite() { graph_ = new Graph<Dist>(); }
  static void TearDownTestSuite() { delete graph_; }
  static Graph<Dist>* graph_;
};
template <typename Dist>
Graph<Dist>* Traversal<Dist>::graph_ = nullptr;

using Dists = testing::Types<int, float>;
TYPED_TEST_SUITE(Traversal, Dists);

TYPED_TEST(Traversal, AnswersAreThoseOfHnswlib) {
  ASSERT_GT(this->graph_->image().top_level, 1) << "a descent of several levels is part of it";
  for (const std::uint32_t ef : {1u, 10u, 40u, 200u}) {
    const std::vector<std::uint32_t> theirs = this->graph_->Theirs(ef);
    for (const Ahead ahead : {Ahead::kOwn, Ahead::kNeighbors}) {
      NoAccess access;
      EXPECT_EQ(this->graph_->Ours(ef, ahead, access), theirs)
          << "ef " << ef << ", ahead " << static_cast<int>(ahead);
    }
  }
}

TYPED_TEST(Traversal, DistancesAreThoseOfTheKernels) {
  const Kernels& kernels = this->graph_->kernels();
  for (std::uint32_t node = 0; node < 50; ++node) {
    const DistanceKey key = kernels.one(this->graph_->image().Vector(0),
                                        this->graph_->image().Vector(node), kernels.dim);
    EXPECT_EQ(static_cast<float>(HnswTraversal<TypeParam>::FromKey(key)), kernels.ToDistance(key));
  }
}

TYPED_TEST(Traversal, EverythingThatIsUsedIsToldOf) {
  std::uint64_t late[2];
  for (const Ahead ahead : {Ahead::kOwn, Ahead::kNeighbors}) {
    NotedLines lines;
    SlowAccess<NotedLines> access{&lines};
    EXPECT_EQ(this->graph_->Ours(40, ahead, access), this->graph_->Theirs(40));
    EXPECT_EQ(lines.cleared, kQueries) << "nothing stays in a cache between queries";
    EXPECT_GT(lines.uses, kQueries * 100);
    late[static_cast<int>(ahead)] = lines.late;
  }
  EXPECT_LT(late[1], late[0]) << "a vector that was fetched whole is not waited for from the start";
}

TYPED_TEST(Traversal, InTurnTheAnswersAreTheSameAndNothingIsUsedThatWasNotAskedForBefore) {
  for (const Ahead ahead : {Ahead::kOwn, Ahead::kNeighbors}) {
    std::vector<NotedLines> lines(3);
    std::vector<SlowAccess<NotedLines>> accesses;
    accesses.reserve(lines.size());
    for (NotedLines& of_slot : lines) accesses.push_back({&of_slot});
    EXPECT_EQ(this->graph_->InTurn(40, ahead, accesses), this->graph_->Theirs(40));
    std::uint64_t late = 0, cleared = 0;
    for (const NotedLines& of_slot : lines) {
      late += of_slot.late;
      cleared += of_slot.cleared;
    }
    EXPECT_EQ(cleared, kQueries);
    EXPECT_EQ(late, kQueries) << "the entry point's vector alone";
  }
}

TYPED_TEST(Traversal, ALogGivesTheSameTouchesAsTheModelThatWroteIt) {
  for (const std::string name : kPlacements) {
    TouchLog log;
    const RecordingAccess recorded = this->graph_->Record(name, 0.2, &log);
    NotedLines lines;
    ReplayAccess<NotedLines> replay{&lines, TouchLog::Reader(log)};
    EXPECT_EQ(this->graph_->Ours(40, Ahead::kOwn, replay), this->graph_->Theirs(40)) << name;
    EXPECT_TRUE(replay.log.AtEnd()) << name;
    EXPECT_EQ(lines.fetches + lines.late, recorded.slow_lines())
        << name << ": each slow line of a query is fetched once";
  }
}

TYPED_TEST(Traversal, PlacementsOrderAsTheyMust) {
  std::map<std::string, std::uint64_t> slow;
  std::uint64_t all = 0;
  for (const std::string name : kPlacements) {
    const RecordingAccess recorded = this->graph_->Record(name, 0.2, nullptr);
    slow[name] = recorded.slow_lines();
    if (name == "slow") all = recorded.lines();
  }
  EXPECT_EQ(slow["dram"], 0u);
  EXPECT_EQ(slow["slow"], all);
  EXPECT_LT(slow["fast-upper"], all);
  EXPECT_GT(slow["fast-upper"], all / 2) << "most of a search is in level 0";
  for (const char* name :
       {"memory-mode", "memory-mode-lru", "first-touch", "first-touch-queries"}) {
    EXPECT_LT(slow[name], all) << name;
    EXPECT_GT(slow[name], all / 10) << name;
  }
  for (const char* name :
       {"memory-mode", "memory-mode-lru", "first-touch", "first-touch-queries"}) {
    const std::uint64_t left = this->graph_->Record(name, 1.0, nullptr).slow_lines();
    EXPECT_EQ(left, 0u) << name << ": all of it fits";
  }
}

TEST(TouchAccess, OnlySlowLinesOfATouchAreFetchedAndNeighborsTogether) {
  TouchLog log;
  log.Append(0b01101, 5);
  log.Append(0, 5);
  NotedLines lines;
  ReplayAccess<NotedLines> access{&lines, TouchLog::Reader(log)};
  const auto* address = reinterpret_cast<const std::byte*>(
      std::uintptr_t{64} * 1000 + 60);  // five lines, beginning with the thousandth
  access.Use(Part::kVector, 0, address, 4 + 4 * 64);
  EXPECT_EQ(lines.fetched, (std::set<std::uintptr_t>{1000, 1002, 1003}));
  EXPECT_EQ(lines.uses, 2u);
  EXPECT_EQ(lines.late, 0u) << "all were asked for before the first was waited for";
  access.Use(Part::kVector, 0, address, 4 + 4 * 64);
  EXPECT_EQ(lines.uses, 2u);
  EXPECT_TRUE(access.log.AtEnd());
}

TEST(TouchAccess, TouchesLongerThan64LinesAreSplit) {
  std::vector<std::uint32_t> counts;
  std::uintptr_t first = 0;
  ForLines(reinterpret_cast<const void*>(std::uintptr_t{6400}), 100 * 64,
           [&](const std::byte* piece, std::uint32_t count) {
             if (first == 0) first = reinterpret_cast<std::uintptr_t>(piece);
             counts.push_back(count);
           });
  EXPECT_EQ(first, 6400u);
  EXPECT_THAT(counts, testing::ElementsAre(64, 36));
}

}  // namespace
}  // namespace hmann::eval
