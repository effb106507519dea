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
#include "index/search/drivers.h"
#include "index/search/gated_walk.h"
#include "index/search/l0_walks.h"
#include "index/search/placed_index.h"
#include "index/search/upper_search.h"

namespace hmann {

/// One query on an index whose L0 is addressable, from its entry point to its answer, a step at a time. Each step asks for what the next
/// one reads: a thread that advances several flights in turn waits for none of them.
///
///   flight.Open(query, dials, access);
///   while (!flight.Done()) { if (flight.AtBeams()) ...; else flight.Step(access); }
///   flight.TakeAnswer(&neighbours);
///
/// Keeps its scratch from query to query.
template <typename Access>
class QueryFlight {
 public:
  explicit QueryFlight(const PlacedIndex& index) : index_(index), query_(index.kernels.row_bytes) {}

  /// `dials` must outlive the flight's query. Errors: those of EncodeRow; the flight is then done.
  absl::Status Open(const void* query, const Dials& dials, bool lists_reads, Access& access) {
    phase_ = Phase::kDone;
    if (absl::Status status = EncodeRow(index_.kernels, query, query_.data()); !status.ok()) return status;
    dials_ = &dials;
    answer_.cut_short = false;
    counters_.Clear(lists_reads);
    access.Begin(dials.prefetch);
    if (index_.n1() > 0) {
      upper_.Open(index_, query_.data(), dials, scratch_, counters_, access);
      phase_ = Phase::kUpper;
    } else {
      scratch_.beam.Reset(dials.ef_l0);
      OpenL0(access);
    }
    return absl::OkStatus();
  }

  bool Done() const { return phase_ == Phase::kDone; }
  /// L1 is searched, and what follows are the beams, which are their caller's: it calls BeamsDone with what they found in beam().
  bool AtBeams() const { return phase_ == Phase::kBeams; }
  void BeamsDone(Access& access) { OpenRest(access); }
  /// Ends the search with what it has found, as soon as that is something; labels are still read.
  void CutShort(Access& access) {
    if (phase_ == Phase::kLabels || phase_ == Phase::kDone || (phase_ == Phase::kUpper && !upper_.InL1())) return;
    if (phase_ == Phase::kGated) TakeResults(gated_.results(), dials_->k, scratch_.beam);
    if (scratch_.beam.size() == 0) return;
    answer_.cut_short = true;
    OpenLabels(access);
  }
  /// Gives the query up.
  void Drop() { phase_ = Phase::kDone; }

  void Step(Access& access) {
    switch (phase_) {
      case Phase::kUpper:
        upper_.Step();
        if (upper_.Done()) OpenL0(access);
        return;
      case Phase::kPool:
      case Phase::kRest:
        Advance(pool_, access);
        if (!pool_.Done()) return;
        return phase_ == Phase::kPool ? OpenRest(access) : OpenLabels(access);
      case Phase::kGated:
        Advance(gated_, access);
        if (!gated_.Done()) return;
        TakeResults(gated_.results(), dials_->k, scratch_.beam);
        return OpenRest(access);
      case Phase::kLabels:
        return AdvanceLabels(access);
      case Phase::kBeams:
      case Phase::kDone:
        return;
    }
  }

  /// The nearest k, nearest first; the content of `out` from before goes back into the flight, as memory for the next answer.
  void TakeAnswer(Answer* out) { std::swap(*out, answer_); }

  const std::byte* query() const { return query_.data(); }
  Beam& beam() { return scratch_.beam; }
  WalkCounters& counters() { return counters_; }

 private:
  enum class Phase { kUpper, kBeams, kPool, kGated, kRest, kLabels, kDone };

  void OpenL0(Access& access) {
    if (dials_->walk == WalkKind::kGated) {
      gated_.Open(index_, query_.data(), *dials_, scratch_, counters_);
      phase_ = Phase::kGated;
      Ask(gated_, access);
    } else if (dials_->ef_l0 == 0 || index_.n1() == 0) {
      OpenRest(access);
    } else if (dials_->walk == WalkKind::kBeams) {
      phase_ = Phase::kBeams;
    } else {
      OpenPoolWalk(index_, query_.data(), *dials_, scratch_, counters_, pool_);
      phase_ = Phase::kPool;
      Ask(pool_, access);
    }
  }

  void OpenRest(Access& access) {
    if (scratch_.beam.size() >= dials_->k) return OpenLabels(access);
    OpenRestWalk(index_, query_.data(), *dials_, scratch_, counters_, pool_);
    phase_ = Phase::kRest;
    Ask(pool_, access);
  }

  template <typename L0Walk>
  void Ask(const L0Walk& walk, Access& access) {
    records_.resize(std::max<std::size_t>(dials_->width * std::size_t{index_.records.max_links}, kMaxWidth));
    AskForWanted(walk, access, records_, 0);
  }

  template <typename L0Walk>
  void Advance(L0Walk& walk, Access& access) {
    if (walk.Done()) return;
    access.Await(walk.Wanted(), walk.Part(), 0);
    walk.Absorb({records_.data(), walk.Wanted().size()});
    if (!walk.Done()) AskForWanted(walk, access, records_, 0);
  }

  /// Labels of unpromoted nodes lie in their records, mostly on a cache line that was not read yet: asked for together.
  void OpenLabels(Access& access) {
    answer_.nearest.resize(std::min(dials_->k, scratch_.beam.size()));
    records_.resize(std::max<std::size_t>(records_.size(), index_.records.max_links));
    labelled_ = 0;
    phase_ = answer_.nearest.empty() ? Phase::kDone : Phase::kLabels;
    AskForLabels(access);
  }

  std::size_t LabelsAtOnce() const { return std::min<std::size_t>(answer_.nearest.size() - labelled_, index_.records.max_links); }

  void AskForLabels(Access& access) {
    for (std::size_t i = 0; i < LabelsAtOnce(); ++i) {
      const NodeId id = scratch_.beam.id(static_cast<std::uint32_t>(labelled_ + i));
      records_[i] = id < index_.n1() ? nullptr : access.Ask(id, RecordPart::kLabel, i);
    }
  }

  void AdvanceLabels(Access& access) {
    const std::size_t count = LabelsAtOnce();
    for (std::size_t i = 0; i < count; ++i) {
      const auto place = static_cast<std::uint32_t>(labelled_ + i);
      const NodeId id = scratch_.beam.id(place);
      const std::byte* record = records_[i];
      if (record != nullptr) access.Await({&id, 1}, RecordPart::kLabel, i);
      answer_.nearest[place] = {record == nullptr ? index_.FastLabel(id) : index_.SlowLabel(record),
                                index_.kernels.ToDistance(scratch_.beam.key(place))};
    }
    labelled_ += count;
    if (labelled_ == answer_.nearest.size()) {
      phase_ = Phase::kDone;
    } else {
      AskForLabels(access);
    }
  }

  const PlacedIndex& index_;
  std::vector<std::byte> query_;  ///< in stored form
  const Dials* dials_ = nullptr;
  LayerScratch scratch_;
  WalkCounters counters_;
  UpperWalk<Access> upper_;
  BestFirstWalk pool_;
  GatedWalk gated_;
  RecordPointers records_;
  Answer answer_;
  std::size_t labelled_ = 0;
  Phase phase_ = Phase::kDone;
};

}  // namespace hmann
