#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "index/attributes/json_rows.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"
#include "index/collection/moment.h"

namespace hmann {

/// A searcher of the sealed index that was searched last, and memory for a query.
class CollectionSearcher::Scratch {
 public:
  Searcher& Of(const Segment& segment) {
    if (index_ != segment.index()) {
      searcher_ = std::make_unique<Searcher>(segment.index());
      index_ = segment.index();
    }
    return *searcher_;
  }
  /// Lets go of an index that no moment needs any more.
  void Keep(const Moment& moment) {
    if (moment.sealed.segment != nullptr && moment.sealed.segment->index() == index_) return;
    searcher_.reset();
    index_.reset();
  }

  std::vector<std::byte> query;
  Answer part;
  DeltaGraph::Scratch graph;
  std::vector<Neighbor> found;

 private:
  std::shared_ptr<const Index> index_;
  std::unique_ptr<Searcher> searcher_;
};

CollectionSearcher::CollectionSearcher() : scratch_(std::make_unique<Scratch>()) {}
CollectionSearcher::~CollectionSearcher() = default;
CollectionSearcher::CollectionSearcher(CollectionSearcher&&) noexcept = default;

namespace {

bool IsNearer(const Neighbor& a, const Neighbor& b) {
  return a.distance != b.distance ? a.distance < b.distance : a.label < b.label;
}

/// The k nearest of all parts so far.
class Nearest {
 public:
  Nearest(std::uint32_t k, std::optional<float> max_distance, std::vector<Neighbor>& found)
      : k_(k), max_distance_(max_distance), found_(found) {
    found_.clear();
  }
  void Add(std::span<const Neighbor> more) {
    found_.insert(found_.end(), more.begin(), more.end());
    std::sort(found_.begin(), found_.end(), IsNearer);
    if (found_.size() > k_) found_.resize(k_);
  }
  /// Nothing farther away can be an answer; absent: everything can.
  std::optional<float> bound() const {
    return found_.size() == k_ ? std::optional(found_.back().distance) : max_distance_;
  }

 private:
  const std::uint32_t k_;
  const std::optional<float> max_distance_;
  std::vector<Neighbor>& found_;
};

/// A search of the delta of one moment.
class DeltaSearch {
 public:
  DeltaSearch(const PreparedSearch& prepared, const std::byte* query, Nearest& nearest,
              DeltaGraph::Scratch& scratch, std::vector<Neighbor>& found)
      : prepared_(prepared),
        tail_(prepared.moment->tail),
        kernels_(prepared.moment->shape->kernels),
        words_(prepared.delta.has_value() ? *prepared.delta : tail_.words()),
        query_(query),
        nearest_(nearest),
        scratch_(scratch),
        found_(found) {}

  /// Returns the number of distances.
  std::uint64_t Run() {
    std::uint64_t scanned = tail_.first();
    if (prepared_.delta_params.has_value()) {
      for (const auto& graph : prepared_.moment->graphs) {
        const std::uint64_t end = std::min(graph->end(), tail_.end());
        if (end - graph->first() <= kLeastGraph) continue;
        Scan(scanned, graph->first());
        if (!Walk(*graph, end)) Scan(graph->first(), end);
        scanned = end;
      }
    }
    Scan(scanned, tail_.end());
    return distances_;
  }

 private:
  /// So few rows are scanned faster: a guess.
  static constexpr std::uint64_t kLeastGraph = 1024;

  /// False: it has given up.
  bool Walk(const DeltaGraph& graph, std::uint64_t end) {
    const ResolvedParams& params = *prepared_.delta_params;
    const std::uint64_t rows = tail_.end() - tail_.first();
    const std::optional<float> bound = nearest_.bound();
    const DistanceKey most = bound.has_value() ? kernels_.ToKey(*bound) : ~DistanceKey{0};
    DeltaGraph::Wanted wanted{
        .width = params.ef_l0, .k = prepared_.k, .end = EpsilonLimit::Of(params, most)};
    if (prepared_.delta_matching < rows) {
      wanted.among = words_;
      const double share = static_cast<double>(end - graph.first()) / static_cast<double>(rows);
      if (~params.most_distances != 0)
        wanted.most_distances =
            static_cast<std::uint64_t>(share * static_cast<double>(params.most_distances));
    }
    const DeltaGraph::Searched searched = graph.Search(tail_, kernels_, query_, wanted, scratch_);
    distances_ += searched.distances;
    if (searched.gave_up) return false;
    const Beam& found = DeltaGraph::Found(wanted, scratch_);
    found_.clear();
    for (std::uint32_t i = 0; i < found.size() && found_.size() < prepared_.k; ++i) {
      const float distance = kernels_.ToDistance(found.key(i));
      if (bound.has_value() && distance > *bound) break;
      found_.push_back({tail_.Label(graph.first() + found.id(i)), distance});
    }
    nearest_.Add(found_);
    return true;
  }

  void Scan(std::uint64_t begin, std::uint64_t end) {
    constexpr std::size_t kAtOnce = 64;
    std::array<const std::byte*, kAtOnce> rows;
    std::array<std::uint64_t, kAtOnce> numbers;
    std::array<DistanceKey, kAtOnce> keys;
    std::size_t size = 0;
    std::optional<float> bound = nearest_.bound();
    found_.clear();
    const auto score = [&] {
      distances_ += size;
      kernels_.many(query_, rows.data(), size, kernels_.dim, keys.data());
      for (std::size_t i = 0; i < size; ++i) {
        const float distance = kernels_.ToDistance(keys[i]);
        if (!bound.has_value() || distance <= *bound)
          found_.push_back({tail_.Label(numbers[i]), distance});
      }
      size = 0;
      if (found_.size() >= std::max<std::size_t>(prepared_.k, kAtOnce)) {
        nearest_.Add(found_);
        found_.clear();
        bound = nearest_.bound();
      }
    };
    tail_.ForSet(words_, begin, end, [&](std::uint64_t row) {
      numbers[size] = row;
      rows[size] = tail_.Row(row);
      if (++size == kAtOnce) score();
    });
    if (size > 0) score();
    nearest_.Add(found_);
  }

  const PreparedSearch& prepared_;
  const Tail& tail_;
  const Kernels& kernels_;
  const std::span<const std::uint64_t> words_;
  const std::byte* const query_;
  Nearest& nearest_;
  DeltaGraph::Scratch& scratch_;
  std::vector<Neighbor>& found_;
  std::uint64_t distances_ = 0;
};

}  // namespace

absl::Status CollectionSearcher::Search(const void* query, const PreparedSearch& prepared,
                                        Answer* answer, Counters* counters, SearchLimits limits) {
  const Moment& moment = *prepared.moment;
  scratch_->Keep(moment);
  if (limits.budget.count() == 0 && prepared.budget.has_value()) limits.budget = *prepared.budget;
  moment.facts->Searched();
  answer->cut_short = false;
  Nearest nearest(prepared.k, prepared.max_distance, answer->nearest);
  if (prepared.sealed.has_value()) {
    HMANN_RETURN_IF_ERROR(
        scratch_->Of(*prepared.sealed->segment)
            .Search(query, prepared.sealed->search.params, &scratch_->part, counters, limits));
    answer->cut_short = scratch_->part.cut_short;
    nearest.Add(scratch_->part.nearest);
  }
  if (prepared.delta_matching == 0) return absl::OkStatus();
  scratch_->query.resize(moment.shape->kernels.row_bytes);
  HMANN_RETURN_IF_ERROR(EncodeRow(moment.shape->kernels, query, scratch_->query.data()));
  const std::uint64_t distances =
      DeltaSearch(prepared, scratch_->query.data(), nearest, scratch_->graph, scratch_->found)
          .Run();
  if (counters != nullptr) counters->distances_fast += distances;
  return absl::OkStatus();
}

absl::Status CollectionSearcher::Get(const Moment& moment, std::span<const std::uint64_t> labels,
                                     void* vectors, std::vector<std::string>* attributes) {
  scratch_->Keep(moment);
  std::vector<std::optional<std::uint64_t>> rows;
  if (!moment.facts->rows.FindAll(labels, moment.rows_version, &rows)) {  // it is not the last
    absl::flat_hash_map<std::uint64_t, std::uint64_t> all;
    moment.tail.ForLive([&](std::uint64_t row) { all[moment.tail.Label(row)] = row; });
    for (std::size_t i = 0; i < labels.size(); ++i)
      if (const auto found = all.find(labels[i]); found != all.end()) rows[i] = found->second;
  }
  if (attributes != nullptr) attributes->assign(labels.size(), "{}");
  const CollectionShape& shape = *moment.shape;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    std::byte* const out = static_cast<std::byte*>(vectors) + i * shape.vector_bytes;
    AttributeCells cells;
    if (rows[i].has_value() && moment.tail.Has(*rows[i])) {
      std::memcpy(out, moment.tail.Row(*rows[i]), shape.vector_bytes);
      cells = moment.tail.Cells(*rows[i]);
    } else {
      std::uint32_t id = kNoId;
      const Segment* const segment = moment.sealed.segment.get();
      if (segment != nullptr) HMANN_RETURN_IF_ERROR(segment->Find({&labels[i], 1}, {&id, 1}));
      if (id == kNoId || !moment.sealed.Has(id))
        return NotFound("label ", labels[i], ": no vector of the collection has it");
      HMANN_RETURN_IF_ERROR(scratch_->Of(*segment).Get({&labels[i], 1}, out));
      if (attributes != nullptr) {
        HMANN_ASSIGN_OR_RETURN(cells, segment->CellsOf(id, *moment.fields));
      }
    }
    if (attributes != nullptr) (*attributes)[i] = JsonOf(*moment.fields, cells);
  }
  return absl::OkStatus();
}

}  // namespace hmann
