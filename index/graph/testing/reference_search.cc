#include "index/graph/testing/reference_search.h"

#include <algorithm>
#include <set>

#include "index/base/check.h"

namespace hmann {
namespace {

/// Everything that one graph search has measured; nothing is ever discarded.
struct Scored {
  std::set<Candidate> all;
  std::set<NodeId> met, expanded;

  void Add(Candidate candidate) {
    all.insert(candidate);
    met.insert(candidate.id);
  }
  /// The nearest `count` candidates.
  std::vector<Candidate> Nearest(std::size_t count) const {
    std::vector<Candidate> nearest(all.begin(), all.end());
    nearest.resize(std::min(count, nearest.size()));
    return nearest;
  }
};

class Reference {
 public:
  Reference(const ReferenceIndex& index, const std::byte* query, const ReferenceParams& params)
      : index_(index), query_(query), params_(params), n1_(index.layers.n1()) {}

  ReferenceAnswer Run() {
    RaiseWidths();
    Scored found;
    std::size_t width = params_.ef_l0;
    if (n1_ > 0) {
      found = SearchL1();
      if (params_.ef_l0 == 0) {
        width = std::min(params_.ef_l1, n1_);
      } else if (params_.pool) {
        SearchL0(found, params_.ef_l0, params_.epsilon, params_.width);
      } else {
        found = RunAlgorithm3(found.Nearest(params_.ef_l1));
        width = params_.k;
      }
    }
    if (found.all.size() < params_.k) {
      // The results form a closed component, or there is no L1: continue from them and
      // from node 0.
      found.expanded.clear();
      if (!found.met.contains(0)) MeasureInL0(found, {0});
      SearchL0(found, std::max<std::size_t>(params_.k, width));
    }
    counters_.node_reads = read_.size();
    for (NodeId id : read_) counters_.node_bytes += index_.record_bytes(id);
    return {found.Nearest(params_.k), counters_};
  }

 private:
  void RaiseWidths() {
    if (params_.ef_l0 == 0) {
      params_.ef_l1 = std::max(params_.ef_l1, std::min(params_.k, n1_));
      if (params_.k > n1_) {
        params_.pool = true;
        params_.ef_l0 = params_.k;
      }
    } else if (params_.pool) {
      params_.ef_l0 = std::max(params_.ef_l0, params_.k);
    }
  }

  Candidate Measure(NodeId id) {
    ++(id < n1_ ? counters_.distances_fast : counters_.distances_slow);
    return {index_.kernels.one(query_, index_.row(id), index_.kernels.dim), id};
  }

  bool IsBeyondEpsilon(const Scored& scored, DistanceKey key, float epsilon) const {
    if (epsilon <= -1 || scored.all.size() < params_.k) return false;
    const DistanceKey kth = std::next(scored.all.begin(), params_.k - 1)->key;
    return key > index_.kernels.ToKey((1 + epsilon) * index_.kernels.ToDistance(kth));
  }

  /// Takes the nearest unexpanded candidate among the nearest `ef` and within `epsilon`,
  /// and marks it as expanded; false if there is none.
  bool TakeNext(Scored& scored, std::size_t ef, NodeId* id, float epsilon = -1) {
    std::size_t place = 0;
    for (auto it = scored.all.begin(); it != scored.all.end() && place < ef; ++it, ++place) {
      if (scored.expanded.contains(it->id)) continue;
      if (IsBeyondEpsilon(scored, it->key, epsilon)) return false;
      scored.expanded.insert(it->id);
      *id = it->id;
      return true;
    }
    return false;
  }

  /// Searches the layers above L1 greedily, then L1 with efSearchL1.
  Scored SearchL1() {
    NodeId entry = 0;
    for (std::uint32_t layer = index_.layers.top(); layer >= 2; --layer) {
      Candidate best = Measure(entry);
      for (bool moved = true; moved;) {
        moved = false;
        std::set<Candidate> neighbors;
        for (NodeId id : index_.links(layer, entry)) neighbors.insert(Measure(id));
        if (!neighbors.empty() && neighbors.begin()->key < best.key) {
          best = *neighbors.begin();
          entry = best.id;
          moved = true;
        }
      }
    }
    Scored scored;
    scored.Add(Measure(entry));
    for (NodeId id; TakeNext(scored, params_.ef_l1, &id);) {
      ++counters_.expanded_l1;
      for (NodeId link : index_.links(1, id)) {
        if (!scored.met.contains(link)) scored.Add(Measure(link));
      }
    }
    scored.expanded.clear();
    return scored;
  }

  void SearchL0(Scored& scored, std::size_t ef, float epsilon = -1, std::uint32_t width = 1) {
    for (;;) {
      std::vector<NodeId> together, fresh;
      for (NodeId id; together.size() < width && TakeNext(scored, ef, &id, epsilon);)
        together.push_back(id);
      if (together.empty()) return;
      counters_.hops +=
          std::any_of(together.begin(), together.end(), [this](NodeId id) { return id < n1_; }) ? 1
                                                                                                : 0;
      for (NodeId id : together) {
        ++counters_.expanded_l0;
        ++counters_.node_accesses;
        read_.insert(id);
        for (NodeId link : index_.links(0, id)) {
          if (!scored.met.contains(link) &&
              std::find(fresh.begin(), fresh.end(), link) == fresh.end())
            fresh.push_back(link);
        }
      }
      MeasureInL0(scored, fresh);
    }
  }

  void MeasureInL0(Scored& scored, const std::vector<NodeId>& ids) {
    bool waits = false;
    for (NodeId id : ids) {
      scored.Add(Measure(id));
      if (id < n1_) continue;
      read_.insert(id);
      ++counters_.node_accesses;
      waits = true;
    }
    counters_.hops += waits ? 1 : 0;
  }

  /// Algorithm 3 line by line, one thread after the other; returns the merged W_t.
  Scored RunAlgorithm3(const std::vector<Candidate>& ep) {
    const std::size_t threads = std::min<std::size_t>(params_.thr, ep.size());
    const std::size_t width = std::max<std::size_t>({ep.size(), params_.ef_l0, params_.k});
    Scored merged;
    for (std::size_t t = 0; t < threads; ++t) {
      std::set<NodeId> visited;            // V_t
      std::set<Candidate> queue, nearest;  // C_t, W_t
      for (std::size_t i = 0; i < ep.size(); ++i) {
        visited.insert(ep[i].id);
        nearest.insert(ep[i]);
        if (i % threads == t) queue.insert(ep[i]);
      }
      while (!queue.empty()) {
        const Candidate next = *queue.begin();
        if (*nearest.rbegin() < next) break;
        queue.erase(queue.begin());
        ExpandInL0(next.id, visited, queue, nearest, width);
      }
      for (const Candidate& candidate : nearest) merged.Add(candidate);
    }
    return merged;
  }

  void ExpandInL0(NodeId id, std::set<NodeId>& visited, std::set<Candidate>& queue,
                  std::set<Candidate>& nearest, std::size_t width) {
    ++counters_.expanded_l0;
    ++counters_.node_accesses;
    counters_.hops += id < n1_ ? 1 : 0;
    read_.insert(id);
    Scored fresh;
    std::vector<NodeId> links;
    for (NodeId link : index_.links(0, id)) {
      if (visited.insert(link).second) links.push_back(link);
    }
    MeasureInL0(fresh, links);
    for (const Candidate& candidate : fresh.all) {
      if (nearest.size() == width && !(candidate < *nearest.rbegin())) continue;
      queue.insert(candidate);
      nearest.insert(candidate);
      if (nearest.size() > width) nearest.erase(std::prev(nearest.end()));
    }
  }

  const ReferenceIndex& index_;
  const std::byte* query_;
  ReferenceParams params_;
  NodeId n1_;
  std::set<NodeId> read_;
  ReferenceCounters counters_;
};

}  // namespace

ReferenceAnswer ReferenceSearch(const ReferenceIndex& index, const std::byte* query,
                                ReferenceParams params) {
  HMANN_CHECK(params.k > 0 && params.k <= index.layers.n());
  return Reference(index, query, params).Run();
}

}  // namespace hmann
