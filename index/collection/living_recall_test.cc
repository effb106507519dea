/// Recall of searches among what is merged and what is not, with filters and dead rows,
/// compared with exact answers: 225 cells. HMANN_SOAK: more rows and queries;
/// HMANN_RECALL_BASE and HMANN_RECALL_QUERIES name the files of others.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <numeric>
#include <thread>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "datasets/vector_file.h"
#include "index/base/thread_pool.h"
#include "index/collection/testing/ledger.h"
#include "index/graph/select.h"

namespace hmann {
namespace {

enum class Where : std::uint8_t { kNear, kRandom, kFar };
constexpr const char* kNames[] = {"near", "random", "far"};
constexpr double kShares[] = {1, 0.5, 0.1, 0.03, 0.01};
constexpr double kDead = 0.2;
constexpr std::uint32_t kK = 10;

/// Rows, queries and what each row is: its cluster, a random number, and its rank for
/// each query.
class RecallData {
 public:
  explicit RecallData(const SampleFolder& folder) {
    const bool is_large = IsSoak();
    std::string base = folder / "base.fbin", queries = folder / "queries.fbin";
    n_ = is_large ? 100'000 : 20'000;
    const std::uint64_t tested = is_large ? 300 : 150;
    if (const char* path = std::getenv("HMANN_RECALL_BASE"); path != nullptr) {
      base = path;
      queries = std::getenv("HMANN_RECALL_QUERIES");
    } else {
      GenerateOptions options{.n = n_, .dim = 32, .intrinsic_dim = 10, .clusters = 100};
      WriteGenerated(base, options);
      options.first = n_;
      options.n = 2 * tested;
      WriteGenerated(queries, options);
    }
    base_ = *VectorFile::Open(base);
    queries_ = *VectorFile::Open(queries);
    n_ = std::min(n_, base_.n());
    q_ = std::min(tested, queries_.n() / 2);
    kernels_ = *ChooseKernels(base_.dtype(), Metric::kL2, base_.dim());
    learn_ = folder / absl::StrCat("learn", SuffixOf(base_.dtype()));
    auto writer = VectorWriter::Create(learn_, base_.dim());
    for (std::uint64_t i = q_; i < std::min(queries_.n(), q_ + 2000); ++i)
      HMANN_CHECK(writer->Append(queries_.Row(i), 1).ok());
    HMANN_CHECK(writer->Commit().ok());
    Rank();
  }

  std::uint64_t n() const { return n_; }
  std::uint64_t queries() const { return q_; }
  const std::byte* Row(std::uint64_t row) const { return base_.Row(row); }
  const std::byte* Query(std::uint64_t q) const { return queries_.Row(q); }
  CreateCollection Options() const {
    CreateCollection options{.dtype = base_.dtype(), .dim = base_.dim(), .queries = learn_};
    options.types = "c:int64,u:int64";
    return options;
  }
  std::size_t row_bytes() const { return base_.row_bytes(); }
  std::string Attributes(std::uint64_t row) const {
    return absl::StrCat("{\"c\":", cluster_[row], ",\"u\":", U(row), "}");
  }

  /// The filter of a query, and which rows it takes.
  std::string FilterOf(double share, Where where, std::uint64_t q, std::vector<bool>* takes) const {
    takes->assign(n_, share == 1);
    if (share == 1) return "";
    if (where == Where::kRandom) {
      const auto below = static_cast<std::uint64_t>(share * 1e6);
      for (std::uint64_t row = 0; row < n_; ++row) (*takes)[row] = U(row) < below;
      return absl::StrCat("u < ", below);
    }
    std::vector<std::uint32_t> order = centers_[q];
    if (where == Where::kFar) std::reverse(order.begin(), order.end());
    std::vector<bool> taken(kClusters);
    std::vector<std::uint32_t> chosen;
    for (std::uint64_t rows = 0; rows < static_cast<std::uint64_t>(share * n_);) {
      const std::uint32_t next = order[chosen.size()];
      taken[next] = true;
      chosen.push_back(next);
      rows += sizes_[next];
    }
    for (std::uint64_t row = 0; row < n_; ++row) (*takes)[row] = taken[cluster_[row]];
    return absl::StrCat("c in (", absl::StrJoin(chosen, ","), ")");
  }
  /// Rows that die: those nearest to queries, or random ones.
  std::vector<std::uint64_t> Dying(bool is_near) const {
    const auto wanted = static_cast<std::uint64_t>(kDead * n_);
    std::set<std::uint64_t> dying;
    for (std::uint64_t at = 0; dying.size() < wanted; ++at) {
      if (!is_near) dying.insert(RandomBelow(3, at, n_));
      for (std::uint64_t q = 0; is_near && q < q_ && dying.size() < wanted; ++q)
        dying.insert(ranked_[q][at].id);
    }
    return {dying.begin(), dying.end()};
  }
  /// The distance of the kth of the rows that `takes` and are alive, and their number.
  float Kth(std::uint64_t q, const std::vector<bool>& takes, const std::vector<bool>& alive,
            std::uint32_t* found) const {
    float kth = 0;
    *found = 0;
    for (const Candidate& row : ranked_[q]) {
      if (!takes[row.id] || !alive[row.id]) continue;
      kth = kernels_.ToDistance(row.key);
      if (++*found == kK) break;
    }
    return kth;
  }

 private:
  static constexpr std::uint32_t kClusters = 200;
  static std::uint64_t U(std::uint64_t row) { return RandomBelow(11, row, 1'000'000); }

  void Rank() {
    std::vector<const std::byte*> centers;
    for (std::uint64_t c = 0; c < kClusters; ++c) centers.push_back(Row(RandomBelow(5, c, n_)));
    sizes_.resize(kClusters);
    const auto distance = [&](const std::byte* a, const std::byte* b) {
      return kernels_.one(a, b, kernels_.dim);
    };
    cluster_.resize(n_);
    for (std::uint64_t row = 0; row < n_; ++row) {
      std::vector<DistanceKey> keys;
      for (const std::byte* center : centers) keys.push_back(distance(center, Row(row)));
      cluster_[row] =
          static_cast<std::uint32_t>(std::min_element(keys.begin(), keys.end()) - keys.begin());
      ++sizes_[cluster_[row]];
    }
    ranked_.resize(q_);
    centers_.resize(q_);
    for (std::uint64_t q = 0; q < q_; ++q) {
      for (std::uint64_t row = 0; row < n_; ++row)
        ranked_[q].push_back({distance(Query(q), Row(row)), static_cast<NodeId>(row)});
      std::sort(ranked_[q].begin(), ranked_[q].end());
      std::vector<Candidate> near;
      for (std::uint32_t c = 0; c < kClusters; ++c)
        near.push_back({distance(Query(q), centers[c]), c});
      std::sort(near.begin(), near.end());
      for (const Candidate& center : near) centers_[q].push_back(center.id);
    }
  }

  std::uint64_t n_ = 0, q_ = 0;
  VectorFile base_, queries_;
  std::string learn_;
  Kernels kernels_;
  std::vector<std::uint32_t> cluster_;
  std::vector<std::uint64_t> sizes_;
  std::vector<std::vector<Candidate>> ranked_;
  std::vector<std::vector<std::uint32_t>> centers_;
};

struct Cell {
  double delta = 0;
  bool dies = false;
  std::uint32_t bits = 0;
  double target = 0, share = 0;
  Where where = Where::kNear;
  double recall = 0, error = 0, told = 0, distances = 0, matching = 0;
  std::uint64_t missing = 0;  ///< answers, of all queries

  double lacks() const { return told - recall; }
  std::string ToString() const {
    return absl::StrFormat(
        "delta %.1f dead %.1f codes %d target %.2f share %.2f %-6s recall %.4f +- %.4f told %.4f "
        "distances %.0f of %.0f, missing %d",
        delta, dies ? kDead : 0, bits, target, share, kNames[static_cast<int>(where)], recall,
        error, told, distances, matching, missing);
  }
};

/// The collections of one share of rows that are not merged.
class CellsOfDelta {
 public:
  CellsOfDelta(const RecallData& data, double delta) : data_(data), delta_(delta) {
    HMANN_CHECK(Collection::Create(folder_ / "c", data.Options()).ok());
    alive_.assign(data.n(), true);
    Open("c", 0);
    const auto sealed = static_cast<std::uint64_t>((1 - delta) * static_cast<double>(data.n()));
    Put(0, sealed);
    Progress quiet(Progress::Show::kNever);
    if (sealed > 0) HMANN_CHECK(collection_->Compact(quiet).ok());
    Put(sealed, data.n());
  }

  void Run(std::vector<Cell>* cells) {
    const auto all = {Where::kNear, Where::kRandom, Where::kFar};
    Measure(0, false, 0.95, all, cells);
    Measure(0, false, 0.99, all, cells);
    Open("c", 4);
    Measure(4, false, 0.95, all, cells);
    collection_.reset();
    for (const bool is_near : {false, true}) {
      const std::string name = is_near ? "near" : "random";
      std::filesystem::copy(folder_ / "c", folder_ / name,
                            std::filesystem::copy_options::recursive);
      Open(name, 0);
      alive_.assign(data_.n(), true);
      WriteBatch batch;
      for (const std::uint64_t row : data_.Dying(is_near)) {
        alive_[row] = false;
        batch.Delete(row);
      }
      HMANN_CHECK(collection_->Write(batch).ok());
      const auto wheres =
          is_near ? std::vector{Where::kFar} : std::vector{Where::kNear, Where::kRandom};
      Measure(0, true, 0.95, wheres, cells);
      Open(name, 4);
      Measure(4, true, 0.99, wheres, cells);
      collection_.reset();
    }
  }

 private:
  void Open(const std::string& name, std::uint32_t bits) {
    collection_.reset();
    OpenCollection options{.merges = false};
    options.index.sq_bits = bits;
    options.index.coarse_codes = true;
    collection_ = *Collection::Open(folder_ / name, options);
    while (collection_->info().loose_rows >= 64)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  void Put(std::uint64_t begin, std::uint64_t end) {
    while (begin < end) {
      WriteBatch batch;
      std::vector<std::string> attributes;
      const std::uint64_t last = std::min(end, begin + 1000);
      for (std::uint64_t row = begin; row < last; ++row)
        attributes.push_back(data_.Attributes(row));
      for (std::uint64_t row = begin; row < last; ++row)
        batch.Put(row, data_.Row(row), data_.row_bytes(), attributes[row - begin]);
      HMANN_CHECK(collection_->Write(batch).ok());
      begin = last;
    }
    while (collection_->info().loose_rows >= 64)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

  void Measure(std::uint32_t bits, bool dies, double target, std::span<const Where> wheres,
               std::vector<Cell>* cells) {
    for (const double share : kShares)
      for (const Where where : wheres) {
        cells->push_back({.delta = delta_,
                          .dies = dies,
                          .bits = bits,
                          .target = target,
                          .share = share,
                          .where = where});
        Fill(&cells->back());
      }
  }
  void Measure(std::uint32_t bits, bool dies, double target, std::initializer_list<Where> wheres,
               std::vector<Cell>* cells) {
    Measure(bits, dies, target, std::span(wheres.begin(), wheres.size()), cells);
  }

  void Fill(Cell* cell) {
    const std::uint64_t queries = data_.queries();
    std::vector<double> recalls(queries), told(queries), work(queries), matching(queries);
    std::atomic<std::uint64_t> missing = 0;
    const auto now = collection_->Now();
    ThreadPool pool(2);
    pool.ParallelFor(queries, 8, [&](std::size_t begin, std::size_t end, int) {
      CollectionSearcher searcher;
      std::vector<bool> takes;
      for (std::size_t q = begin; q < end; ++q) {
        const std::string text = data_.FilterOf(cell->share, cell->where, q, &takes);
        std::optional<Filter> filter;
        if (!text.empty()) filter = *Filter::Parse(text);
        auto prepared =
            Prepare(now, {.k = kK, .recall = cell->target}, filter ? &*filter : nullptr);
        told[q] = cell->target;
        if (!prepared.ok()) {  // such a target is refused
          prepared = Prepare(now, {.k = kK, .recall = 0.9}, filter ? &*filter : nullptr);
          told[q] = 0.9;
        }
        HMANN_CHECK(prepared.ok());
        Answer answer;
        Counters counters;
        HMANN_CHECK(searcher.Search(data_.Query(q), **prepared, &answer, &counters).ok());
        std::uint32_t expected = 0;
        const float kth = data_.Kth(q, takes, alive_, &expected) * (1 + 1e-5F);
        std::uint32_t found = 0;
        for (const Neighbor& neighbor : answer.nearest) {
          HMANN_CHECK(takes[neighbor.label] && alive_[neighbor.label]);
          found += neighbor.distance <= kth ? 1 : 0;
        }
        missing += expected - answer.nearest.size();
        recalls[q] = expected == 0 ? 1 : std::min(1.0, static_cast<double>(found) / expected);
        work[q] = static_cast<double>(counters.distances_fast + counters.distances_slow +
                                      counters.estimates);
        matching[q] = static_cast<double>(MatchingRows(**prepared));
      }
    });
    const auto mean = [&](const std::vector<double>& of) {
      return std::accumulate(of.begin(), of.end(), 0.0) / static_cast<double>(queries);
    };
    cell->recall = mean(recalls);
    cell->told = mean(told);
    cell->distances = mean(work);
    cell->matching = mean(matching);
    cell->missing = missing;
    double squares = 0;
    for (const double recall : recalls)
      squares += (recall - cell->recall) * (recall - cell->recall);
    cell->error = std::sqrt(squares) / static_cast<double>(queries);
  }

  const RecallData& data_;
  const double delta_;
  const SampleFolder folder_;
  std::shared_ptr<Collection> collection_;
  std::vector<bool> alive_;
};

TEST(LivingRecallTest, IsAsToldAmongWhatIsMergedAndWhatIsNot) {
  const SampleFolder folder;
  const RecallData data(folder);
  std::vector<Cell> cells;
  for (const double delta : {0.0, IsSoak() ? 0.1 : 0.5, 1.0}) CellsOfDelta(data, delta).Run(&cells);
  ASSERT_EQ(cells.size(), 225u);
  std::sort(cells.begin(), cells.end(),
            [](const Cell& a, const Cell& b) { return a.lacks() > b.lacks(); });
  std::size_t within = 0;
  for (const Cell& cell : cells) within += cell.lacks() <= 0.01 ? 1 : 0;
  std::cout << within << " of " << cells.size() << " cells within 0.01\n";
  for (std::size_t i = 0; i < (IsSoak() ? 225u : 5u); ++i) std::cout << cells[i].ToString() << "\n";
  // Few queries: what chance takes is allowed, two standard errors.
  for (const Cell& cell : cells) {
    EXPECT_EQ(cell.missing, 0u) << cell.ToString();
    EXPECT_GE(cell.recall + 2 * cell.error + 0.01, cell.told) << cell.ToString();
  }
}

}  // namespace
}  // namespace hmann
