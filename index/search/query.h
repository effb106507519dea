#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "index/dials/answer.h"
#include "index/dials/dials.h"
#include "index/graph/layer_search.h"
#include "index/search/best_first_walk.h"
#include "index/search/gated_walk.h"
#include "index/search/label_walk.h"
#include "index/search/multi_start_walk.h"
#include "index/search/placed_index.h"
#include "index/search/upper_walk.h"
#include "index/search/walk.h"

namespace hmann {

static_assert(Walk<UpperWalk> && Walk<BestFirstWalk> && Walk<GatedWalk> && Walk<MultiStartWalk> && Walk<LabelWalk>);

/// One query, from its entry point to its answer, whatever holds the records: a sequence of walks, of which one is at work at a time. Down
/// to L1; through L0, as the dials say; to what closed components have hidden, where k is not filled; to the labels.
///
///   query.Open(vector, dials, lists_reads);
///   while (!query.Done()) query.Visit([&](auto& walk) { ...; walk.Absorb(records); if (walk.Done()) query.Next(); });
///   query.TakeAnswer(&answer);
///
/// Keeps its scratch from query to query.
class Query {
 public:
  explicit Query(const PlacedIndex& index) : index_(index), vector_(index.kernels.row_bytes) {}

  /// `dials` must outlive the query. `lists_reads`: somebody will ask for counters(). `threads`: parts of a multi-start search; as many of
  /// them as it has are in Parts(). Errors: those of EncodeRow; the query is then done.
  absl::Status Open(const void* vector, const Dials& dials, bool lists_reads, std::uint32_t threads = 1) {
    phase_ = Phase::kDone;
    if (absl::Status status = EncodeRow(index_.kernels, vector, vector_.data()); !status.ok()) return status;
    dials_ = &dials;
    threads_ = threads;
    answer_.cut_short = false;
    counters_.Clear(lists_reads);
    if (index_.n1() > 0) {
      upper_.Open(index_, vector_.data(), dials, scratch_, counters_);
      phase_ = Phase::kUpper;
    } else {
      scratch_.beam.Reset(dials.ef_l0);
      OpenL0();
      SkipWhatIsDone();
    }
    return absl::OkStatus();
  }

  bool Done() const { return phase_ == Phase::kDone; }

  /// Calls visit(walk) with the walk at work.
  template <typename Visitor>
  void Visit(const Visitor& visit) {
    switch (phase_) {
      case Phase::kUpper:
        return visit(upper_);
      case Phase::kBestFirst:
      case Phase::kRest:
        return visit(best_first_);
      case Phase::kGated:
        return visit(gated_);
      case Phase::kMultiStart:
        return visit(parts_[0]);
      case Phase::kLabels:
        return visit(labels_);
      case Phase::kDone:
        return;
    }
  }

  /// More than one: the parts of a multi-start search, each to be walked to its end, in any order or side by side, before Next.
  std::span<MultiStartWalk> Parts() { return phase_ == Phase::kMultiStart ? std::span(parts_).first(parts_open_) : std::span(parts_).first(0); }

  /// The walk at work is done: on to the next.
  void Next() {
    OpenNext();
    SkipWhatIsDone();
  }

  /// Ends the search with the best of what it has found whose records can be had without waiting: those of promoted nodes, and of which
  /// has_record(id). False: that is nothing yet, and the search goes on.
  template <typename HasRecord>
  bool CutShort(const HasRecord& has_record) {
    if (phase_ == Phase::kLabels || phase_ == Phase::kDone || (phase_ == Phase::kUpper && !upper_.InL1())) return false;
    Keep(has_record);
    if (kept_.size() == 0) return false;
    CloseL0();
    answer_.cut_short = true;
    OpenLabels();
    SkipWhatIsDone();
    return true;
  }

  /// Candidates that the walk at work begins with or has found, unless it keeps its own.
  const Beam& found() const { return scratch_.beam; }
  const Dials& dials() const { return *dials_; }
  Counters& counters() { return counters_.total; }

  /// Gives the query up.
  void Drop() { phase_ = Phase::kDone; }

  /// The content of `out` from before goes back into the query, as memory for the next answer.
  void TakeAnswer(Answer* out) { std::swap(*out, answer_); }

  /// Work so far, with distinct reads where they are listed. `read`: scratch.
  Counters TakeCounters(VisitedSet& read) {
    if (!counters_.lists_reads) return counters_.total;
    read.Clear();
    for (const NodeId node : counters_.read) {
      if (read.Insert(node)) counters_.total.slow_bytes += index_.records.RecordBytes(node);
    }
    counters_.total.slow_reads = read.size();
    return counters_.total;
  }

 private:
  enum class Phase { kUpper, kBestFirst, kGated, kMultiStart, kRest, kLabels, kDone };

  void OpenNext() {
    switch (phase_) {
      case Phase::kUpper:
        return OpenL0();
      case Phase::kGated:
      case Phase::kMultiStart:
        Keep([](NodeId) { return true; });
        CloseL0();
        return OpenRest();
      case Phase::kBestFirst:
        return OpenRest();
      case Phase::kRest:
        return OpenLabels();
      case Phase::kLabels:
      case Phase::kDone:
        phase_ = Phase::kDone;
    }
  }

  void SkipWhatIsDone() {
    for (bool done = true; done && phase_ != Phase::kDone;) {
      Visit([&done](const auto& walk) { done = walk.Done(); });
      if (done) OpenNext();
    }
  }

  void OpenL0() {
    const bool searches_l0 = dials_->ef_l0 > 0 && index_.n1() > 0;
    if (dials_->walk == WalkKind::kGated) {
      gated_.Open(index_, vector_.data(), *dials_, scratch_, counters_);
      phase_ = Phase::kGated;
    } else if (!searches_l0) {
      OpenRest();
    } else if (dials_->walk == WalkKind::kBeams) {
      OpenParts();
    } else {
      scratch_.beam.Reopen(dials_->ef_l0);
      best_first_.Open(index_, vector_.data(), scratch_, counters_, nullptr, {dials_->reach, dials_->k}, dials_->width);
      phase_ = Phase::kBestFirst;
    }
  }

  void OpenParts() {
    const std::uint32_t beams = std::min(dials_->ef_l1, scratch_.beam.size());
    parts_open_ = std::max(1u, std::min(threads_, beams));
    if (parts_.size() < parts_open_) parts_.resize(parts_open_);
    for (std::uint32_t i = 0; i < parts_open_; ++i) {
      const auto begin = [&](std::uint32_t part) { return static_cast<std::uint32_t>(std::uint64_t{part} * beams / parts_open_); };
      parts_[i].Open(index_, vector_.data(), *dials_, scratch_.beam, begin(i), begin(i + 1), counters_.lists_reads);
    }
    phase_ = Phase::kMultiStart;
  }

  /// kept_ becomes the nearest k of what the walk at work has found, without unpromoted nodes that `may_keep` is false for.
  template <typename MayKeep>
  void Keep(const MayKeep& may_keep) {
    const auto add = [&](const Beam& found) {
      for (std::uint32_t i = 0; i < found.size(); ++i) {
        if (found.id(i) < index_.n1() || may_keep(found.id(i))) kept_.InsertUnique(found.key(i), found.id(i));
      }
    };
    kept_.Reset(dials_->k);
    if (phase_ == Phase::kMultiStart) {
      for (std::uint32_t i = 0; i < parts_open_; ++i) parts_[i].ForResults(add);
    } else {
      add(phase_ == Phase::kGated ? gated_.results() : scratch_.beam);
    }
  }

  /// What was kept is what L0 has found.
  void CloseL0() {
    std::swap(scratch_.beam, kept_);
    if (phase_ != Phase::kMultiStart) return;
    for (std::uint32_t i = 0; i < parts_open_; ++i) {
      counters_.total += parts_[i].counters().total;
      counters_.Read(parts_[i].counters().read);
    }
  }

  /// What was found is closed in on itself (or there is no upper layer), and k is not filled: every node can be reached from node 0.
  /// A beam that is not full has lost nothing: what it holds is all that was met.
  void OpenRest() {
    if (scratch_.beam.size() >= dials_->k) return OpenLabels();
    scratch_.visited.Clear();
    for (std::uint32_t i = 0; i < scratch_.beam.size(); ++i) scratch_.visited.Insert(scratch_.beam.id(i));
    scratch_.beam.Reopen(std::max(dials_->k, scratch_.beam.width()));
    best_first_.OpenAt(index_, vector_.data(), 0, scratch_, counters_);
    phase_ = Phase::kRest;
  }

  void OpenLabels() {
    labels_.Open(index_, scratch_.beam, dials_->k, answer_.nearest);
    phase_ = Phase::kLabels;
  }

  const PlacedIndex& index_;
  std::vector<std::byte> vector_;  ///< in stored form
  const Dials* dials_ = nullptr;
  std::uint32_t threads_ = 1;
  LayerScratch scratch_;  ///< beam: what was found so far
  Beam kept_;
  WalkCounters counters_;
  UpperWalk upper_;
  BestFirstWalk best_first_;
  GatedWalk gated_;
  std::vector<MultiStartWalk> parts_;
  std::uint32_t parts_open_ = 0;
  LabelWalk labels_;
  Answer answer_;
  Phase phase_ = Phase::kDone;
};

}  // namespace hmann
