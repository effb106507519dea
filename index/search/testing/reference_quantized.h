/// For tests: the quantized traversal, slow and simple.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "index/search/quantized_traversal.h"
#include "index/search/testing/random_index.h"

namespace hmann {

/// The quantized traversal and its scorers (candidate_pool.h, cell_scorer.h) with ordered
/// sets, one estimate at a time: slow and simple. `w`: the candidates that L1 has found;
/// `met`: all nodes that L1 has scored.
class ReferenceQuantized {
 public:
  /// (key, id) of a candidate.
  using Entry = std::pair<DistanceKey, NodeId>;

  ReferenceQuantized(const RandomIndex& index, const std::byte* query,
                     const ResolvedParams& options)
      : index_(index),
        placed_(index.placed()),
        reference_(index.Reference()),
        query_(query),
        options_(options) {}

  std::vector<Entry> Run(const std::vector<Entry>& w, std::set<NodeId> met) {
    estimator_.Prepare(*placed_.encoder, query_);
    met_ = std::move(met);
    const bool follows =
        options_.nprobe > 0 && options_.typical_distance > 0 && !options_.epsilon.has_value();
    if (options_.ef_l0 == 0)
      window_ = std::max(256u, 4 * options_.k);
    else
      window_ = std::max(options_.k, options_.ef_l0 * (follows ? 4 : 1));
    for (const Entry& entry : w) {
      results_.insert(entry);
      centroids_.insert(entry.second);
      if (options_.ef_l0 > 0) Keep(entry);
    }
    limit_ = Limit();
    const float farther = follows ? Farther() : 1;
    const auto cells = static_cast<std::size_t>(static_cast<float>(options_.nprobe) *
                                                std::min(farther * farther, 4.0f));
    const std::size_t nprobe = std::min(w.size(), cells);
    std::size_t codes = 0;
    std::vector<NodeId> centroids;
    for (std::size_t i = 0, last = 0; i < nprobe; ++i) {
      centroids.push_back(w[i].second);
      codes += ListedBy(w[i].second);
      const auto [begin, end] = placed_.cells->MembersOf(w[i].second);
      for (NodeId id = begin; id < end; ++id) {
        if (OfferOfCell(id)) last = i;
      }
      if (i >= 32 + 2 * last || codes >= 2 * MeanListed(nprobe)) break;
    }
    scored_.insert(centroids.begin(), centroids.end());
    for (const NodeId centroid : centroids) {
      for (const NodeId id : placed_.cells->ReplicasOf(centroid)) {
        if (scored_.count(placed_.cells->CentroidOf(id)) == 0) OfferOfCell(id);
      }
    }
    do {
      reads_from_ = window_;
      if (follows && options_.ef_l0 > 0)
        reads_from_ = std::max<std::size_t>(
            options_.k, static_cast<std::size_t>(static_cast<float>(options_.ef_l0) * Farther()));
    } while (Round());
    std::vector<Entry> nearest(results_.begin(), results_.end());
    nearest.resize(std::min<std::size_t>(nearest.size(), options_.k));
    return nearest;
  }

  std::set<NodeId> read;
  std::uint64_t hops = 0, estimates = 0, distances_fast = 0, distances_slow = 0;

 private:
  DistanceKey Exact(NodeId id) const {
    return placed_.kernels.one(query_, index_.Row(id), placed_.kernels.dim);
  }
  std::pair<float, float> Estimate(NodeId id) const {
    const NodeId centroid = placed_.cells->CentroidOf(id);
    const float centroid_distance = placed_.kernels.ToDistance(Exact(centroid)),
                gap = estimator_.SquaredGap(index_.Row(centroid), centroid_distance);
    const std::byte* code = placed_.Code(id);
    float estimate, error;
    estimator_.Estimate(&code, &centroid_distance, 1, &estimate, &error, &gap);
    return {estimate, error};
  }
  DistanceKey Limit() const {
    if (!options_.epsilon.has_value() || results_.size() < options_.k) return ~DistanceKey{0};
    const DistanceKey kth = std::next(results_.begin(), options_.k - 1)->first;
    return placed_.kernels.ToKey((1 + *options_.epsilon) * placed_.kernels.ToDistance(kth));
  }
  /// The distance of the kth over the typical one, between 1 and 4.
  float Farther() const {
    if (results_.size() < options_.k) return 4;
    const DistanceKey kth = std::next(results_.begin(), options_.k - 1)->first;
    return std::clamp(placed_.kernels.ToDistance(kth) / options_.typical_distance, 1.0f, 4.0f);
  }
  void Keep(const Entry& entry) {
    pool_.insert(entry);
    if (pool_.size() > window_) pool_.erase(std::prev(pool_.end()));
  }
  std::size_t ListedBy(NodeId centroid) const {
    const auto [begin, end] = placed_.cells->MembersOf(centroid);
    return end - begin + placed_.cells->ReplicasOf(centroid).size();
  }
  std::size_t MeanListed(std::size_t centroids) const {
    std::size_t all = 0;
    for (NodeId id = 0; id < placed_.n1(); ++id) all += ListedBy(id);
    return all * centroids / placed_.n1();
  }
  void CountCode(NodeId id) {
    ++estimates;
    if (centroids_.insert(placed_.cells->CentroidOf(id)).second) ++distances_fast;
  }
  void Offer(NodeId id) {
    CountCode(id);
    const Entry entry(placed_.kernels.ToKey(Estimate(id).first), id);
    if (entry.first <= limit_) Keep(entry);
  }
  /// Returns whether it entered the pool.
  bool OfferOfCell(NodeId id) {
    CountCode(id);
    const Entry entry(placed_.kernels.ToKey(Estimate(id).first), id);
    if (entry.first > limit_ || pool_.count(entry) > 0) return false;
    Keep(entry);
    if (pool_.count(entry) == 0) return false;
    met_.insert(id);
    return true;
  }
  bool Round() {
    std::vector<Entry> wanted;
    limit_ = Limit();
    const DistanceKey bound = results_.size() < options_.k
                                  ? ~DistanceKey{0}
                                  : std::next(results_.begin(), options_.k - 1)->first;
    std::size_t place = 0;
    for (auto at = pool_.begin(); at != pool_.end() && wanted.size() < options_.beam_width; ++at) {
      if (place++ == reads_from_) break;
      if (done_.count(at->second) > 0) continue;
      if (at->first > limit_) break;
      done_.insert(at->second);
      if (scored_.count(at->second) > 0) continue;
      if (at->second >= placed_.n1() && options_.error_bound >= 0 && bound != ~DistanceKey{0}) {
        const auto [estimate, error] = Estimate(at->second);
        if (placed_.kernels.ToKey(estimate - *options_.error_bound * error) > bound) continue;
      }
      wanted.push_back(*at);
    }
    if (wanted.empty()) return false;
    ++hops;
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

  const RandomIndex& index_;
  const PlacedIndex& placed_;
  const ReferenceIndex reference_;
  const std::byte* query_;
  const ResolvedParams options_;
  CodeQuery estimator_;
  std::size_t window_ = 0, reads_from_ = 0;
  DistanceKey limit_ = 0;
  std::set<Entry> pool_, results_;
  std::set<NodeId> met_, done_, centroids_, scored_;
};

}  // namespace hmann
