#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "hmann/answer.h"
#include "hmann/dials.h"
#include "index/search/best_first_walk.h"
#include "index/search/multi_start_walk.h"
#include "index/search/placed_index.h"
#include "index/search/quantised_walk.h"
#include "index/search/rerank_walk.h"
#include "index/search/scan_walk.h"
#include "index/search/upper_walk.h"
#include "index/search/walk.h"

namespace hmann {

/// Turns ids into an answer. Labels of unpromoted nodes lie in their records, mostly on a
/// cache line that was not read yet: many are asked for together.
class LabelWalk {
 public:
  /// The answer is complete once Done.
  void Open(const PlacedIndex& index, const Beam& found, std::uint32_t k,
            std::vector<Neighbour>& answer) {
    index_ = &index;
    answer_ = &answer;
    answer.resize(std::min(k, found.size()));
    ids_.clear();
    places_.clear();
    read_ = 0;
    for (std::uint32_t i = 0; i < answer.size(); ++i) {
      const NodeId id = found.id(i);
      answer[i] = {id < index.n1() ? index.FastLabel(id) : 0,
                   index.kernels.ToDistance(found.key(i))};
      if (id < index.n1()) continue;
      ids_.push_back(id);
      places_.push_back(i);
    }
  }

  bool Done() const { return read_ == ids_.size(); }
  std::span<const NodeId> Wanted() const {
    return std::span(ids_).subspan(
        read_, std::min<std::size_t>(ids_.size() - read_, index_->records.max_links));
  }
  RecordPart Part() const { return RecordPart::kLabel; }
  template <typename Hint>
  void ForUpcoming(std::uint32_t, const Hint&) const {}

  void Absorb(std::span<const std::byte* const> records) {
    for (const std::byte* record : records)
      (*answer_)[places_[read_++]].label = index_->SlowLabel(record);
  }

 private:
  const PlacedIndex* index_ = nullptr;
  std::vector<Neighbour>* answer_ = nullptr;
  std::vector<NodeId> ids_;
  std::vector<std::uint32_t> places_;  ///< of ids_ in the answer
  std::size_t read_ = 0;               ///< of ids_
};

/// One query, from its entry point to its answer, whatever holds the records: a sequence
/// of walks, of which one is at work at a time. Down to L1; through L0, as the dials say;
/// to the exact distances of what was found, where these two went by codes of scalar
/// quantisation; to what closed components have hidden, where k is not filled; to the
/// labels. With a predicate (Dials::matches) what matches is kept in results_, apart from
/// what is walked through, and where k is not filled scans all that match.
///
///   query.Open(vector, dials, lists_reads);
///   while (!query.Done()) {
///     query.Visit([&](auto& walk) {
///       ...; walk.Absorb(records); if (walk.Done()) query.Next();
///     });
///   }
///   query.TakeAnswer(&answer);
///
/// Keeps its scratch from query to query. `L0Walks`: the walks through L0, in the order
/// of WalkKind.
template <L0Walk... L0Walks>
class BasicQuery {
 public:
  explicit BasicQuery(const PlacedIndex& index) : index_(index), vector_(index.kernels.row_bytes) {}

  /// `dials` must outlive the query. `lists_reads`: somebody will ask how many distinct
  /// records were read. `parts`, `in_step`: of a multi-start search (WalkStart); as many
  /// as it has then are in Parts(). Errors: those of EncodeRow; the query is then done.
  absl::Status Open(const void* vector, const Dials& dials, bool lists_reads,
                    std::uint32_t parts = 1, std::uint32_t in_step = 0) {
    phase_ = Phase::kDone;
    if (absl::Status status = EncodeRow(index_.kernels, vector, vector_.data()); !status.ok())
      return status;
    dials_ = &dials;
    by_codes_ = index_.coded != nullptr && dials.walk != WalkKind::kQuantised;
    if (by_codes_) {
      const ScalarQuantiser& quantiser = *index_.coded->quantiser;
      code_query_.resize(quantiser.query_bytes());
      quantiser.EncodeQuery(vector_.data(), code_query_.data(), code_scratch_);
    }
    parts_ = parts;
    in_step_ = in_step;
    answer_.cut_short = false;
    counters_.Clear(lists_reads);
    results_.Open(dials.matches, Kept());
    if (dials.matches != nullptr && ScanIsEnough()) {
      OpenScan();
      SkipWhatIsDone();
    } else if (index_.n1() > 0) {
      upper_.Open(Start());
      phase_ = Phase::kUpper;
    } else {
      scratch_.beam.Reset(dials.ef_l0);
      OpenL0();
      SkipWhatIsDone();
    }
    return absl::OkStatus();
  }

  bool Done() const { return phase_ == Phase::kDone; }
  const Dials& dials() const { return *dials_; }
  /// Candidates that the walk at work begins with, or has found unless it keeps its own.
  const Beam& found() const { return scratch_.beam; }
  WalkCounters& counters() { return counters_; }

  /// Calls visit(walk) with the walk at work.
  template <typename Visitor>
  void Visit(const Visitor& visit) {
    switch (phase_) {
      case Phase::kUpper:
        return visit(upper_);
      case Phase::kL0:
        return VisitL0(visit);
      case Phase::kRerank:
        return visit(rerank_);
      case Phase::kRest:
        return visit(rest_);
      case Phase::kScan:
        return visit(scan_);
      case Phase::kLabels:
        return visit(labels_);
      case Phase::kDone:
        return;
    }
  }

  /// More than one: the parts of a multi-start search, each to be walked to its end, in
  /// any order or side by side, before Next.
  std::span<MultiStartWalk> Parts() {
    std::span<MultiStartWalk> parts;
    if (phase_ == Phase::kL0) {
      VisitL0([&parts](auto& walk) {
        if constexpr (requires { walk.Parts(); }) parts = walk.Parts();
      });
    }
    return parts;
  }

  /// The walk at work is done: on to the next.
  void Next() {
    OpenNext();
    SkipWhatIsDone();
  }

  /// Ends the search with the best of what it has found whose records can be had without
  /// waiting: those of promoted nodes, and of which has_record(id). False: that is
  /// nothing yet, and the search goes on.
  template <typename HasRecord>
  bool CutShort(const HasRecord& has_record) {
    if (phase_ == Phase::kLabels || phase_ == Phase::kRerank || phase_ == Phase::kDone ||
        (phase_ == Phase::kUpper && !upper_.InL1()))
      return false;
    Keep(has_record);
    if (kept_.size() == 0) return false;
    if (phase_ == Phase::kL0) VisitL0([this](auto& walk) { walk.Finish(counters_); });
    answer_.cut_short = true;
    std::swap(scratch_.beam, kept_);
    const bool rerank = by_codes_ && phase_ < Phase::kRest;
    rerank ? OpenRerank() : OpenLabels();
    SkipWhatIsDone();
    return true;
  }

  /// Queries from the next Open on do not see this node (SearchLimits::excluded).
  void Exclude(NodeId node) { scratch_.visited.Exclude(node); }

  /// Queries from the next Open on tell `ahead` what they will probably want first.
  void TellAhead(ReadsAhead* ahead) { ahead_ = ahead; }

  /// Gives the query up.
  void Drop() { phase_ = Phase::kDone; }

  /// The content of `out` from before goes back into the query, as memory for the next
  /// answer.
  void TakeAnswer(Answer* out) { std::swap(*out, answer_); }

  /// All work, with distinct reads where they are listed. `read`: scratch.
  const Counters& TakeCounters(VisitedSet& read) {
    read.Clear();
    for (const NodeId node : counters_.read) {
      if (read.Insert(node)) counters_.total.slow_bytes += index_.records.RecordBytes(node);
    }
    counters_.total.slow_reads = read.size();
    return counters_.total;
  }

 private:
  enum class Phase { kUpper, kL0, kRerank, kRest, kScan, kLabels, kDone };

  /// Of a walk that goes by the vectors themselves.
  WalkStart StartExact() { return StartOn(index_, vector_.data()); }
  WalkStart Start() {
    return by_codes_ ? StartOn(*index_.coded, code_query_.data()) : StartExact();
  }
  WalkStart StartOn(const PlacedIndex& index, const std::byte* query) {
    return {.index = index,
            .query = query,
            .dials = *dials_,
            .scratch = scratch_,
            .counters = counters_,
            .parts = parts_,
            .in_step = in_step_,
            .kept = Kept(),
            .results = dials_->matches != nullptr ? &results_ : nullptr,
            .ahead = ahead_};
  }
  std::uint32_t Kept() const { return by_codes_ ? index_.KeptFor(dials_->k) : dials_->k; }

  /// Calls visit with the walk of dials_->walk.
  template <typename Visitor>
  void VisitL0(const Visitor& visit) {
    const auto kind = static_cast<std::size_t>(dials_->walk);
    [&]<std::size_t... kI>(std::index_sequence<kI...>) {
      (void)((kind == kI && (visit(std::get<kI>(l0_)), true)) || ...);
    }(std::index_sequence_for<L0Walks...>());
  }

  void OpenNext() {
    switch (phase_) {
      case Phase::kUpper:
        return OpenL0();
      case Phase::kL0:
        if (!FinishL0()) {
          Keep([](NodeId) { return true; });
          std::swap(scratch_.beam, kept_);
        }
        return by_codes_ ? OpenRerank() : OpenRest();
      case Phase::kRerank:
        return answer_.cut_short ? OpenLabels() : OpenRest();
      case Phase::kRest:
      case Phase::kScan:
        return OpenLabels();
      case Phase::kLabels:
      case Phase::kDone:
        phase_ = Phase::kDone;
    }
  }

  /// Whether what was found is in the beam.
  bool FinishL0() {
    bool leaves_beam = false;
    VisitL0([&](auto& walk) {
      walk.Finish(counters_);
      leaves_beam = walk.kLeavesBeam;
    });
    return leaves_beam && dials_->matches == nullptr;
  }

  void SkipWhatIsDone() {
    for (bool done = true; done && phase_ != Phase::kDone;) {
      Visit([&done](const auto& walk) { done = walk.Done(); });
      if (done) OpenNext();
    }
  }

  void OpenL0() {
    if (index_.n1() == 0 && dials_->walk != WalkKind::kQuantised) return OpenRest();
    VisitL0([this](auto& walk) { walk.Open(Start()); });
    phase_ = Phase::kL0;
  }

  /// kept_ becomes the nearest Kept() of the matches that the walk at work has found,
  /// without unpromoted nodes that `may_keep` is false for.
  template <typename MayKeep>
  void Keep(const MayKeep& may_keep) {
    kept_.Reset(Kept());
    const auto add = [&](const Beam& found) {
      for (std::uint32_t i = 0; i < found.size(); ++i) {
        const NodeId id = found.id(i);
        if (results_.May(id) && (id < index_.n1() || may_keep(id)))
          kept_.InsertUnique(found.key(i), id);
      }
    };
    bool leaves_beam = true;
    if (phase_ == Phase::kL0) {
      VisitL0([&](auto& walk) {
        walk.ForResults(add);
        leaves_beam = walk.kLeavesBeam;
      });
    }
    if (dials_->matches != nullptr && phase_ <= Phase::kL0) return add(results_.beam);
    if (leaves_beam) add(scratch_.beam);
  }

  /// What was found is closed in on itself (or there is no upper layer), and k is not
  /// filled: every node can be reached from node 0. A beam that is not full has lost
  /// nothing: what it holds is all that was met.
  void OpenRest() {
    if (scratch_.beam.size() >= dials_->k) return OpenLabels();
    if (dials_->matches != nullptr) return OpenScan();
    scratch_.visited.Clear();
    for (std::uint32_t i = 0; i < scratch_.beam.size(); ++i)
      scratch_.visited.Insert(scratch_.beam.id(i));
    scratch_.beam.Reopen(std::max(dials_->k, scratch_.beam.width()));
    rest_.OpenAt(StartExact(), 0);
    phase_ = Phase::kRest;
  }

  /// A walk would meet k n / m nodes before it had k of m matches.
  bool ScanIsEnough() const {
    const std::uint64_t size = dials_->matches->size();
    return size * size <= std::uint64_t{dials_->k} * index_.layers.n();
  }

  void OpenScan() {
    scan_.Open(StartExact());
    phase_ = Phase::kScan;
  }

  void OpenRerank() {
    rerank_.Open(StartExact(), code_query_.data());
    phase_ = Phase::kRerank;
  }

  void OpenLabels() {
    labels_.Open(index_, scratch_.beam, dials_->k, answer_.nearest);
    phase_ = Phase::kLabels;
  }

  const PlacedIndex& index_;
  std::vector<std::byte> vector_;  ///< in stored form
  bool by_codes_ = false;          ///< of scalar quantisation
  std::vector<std::byte> code_query_;
  ScalarQuantiser::Scratch code_scratch_;
  const Dials* dials_ = nullptr;
  std::uint32_t parts_ = 1, in_step_ = 0;
  ReadsAhead* ahead_ = nullptr;
  LayerScratch scratch_;  ///< beam: what was found so far
  Results results_;
  Beam kept_;
  WalkCounters counters_;
  UpperWalk upper_;
  std::tuple<L0Walks...> l0_;
  RerankWalk rerank_;
  BestFirstWalk rest_;
  ScanWalk scan_;
  LabelWalk labels_;
  Answer answer_;
  Phase phase_ = Phase::kDone;
};

/// `--walk upper`: L0 is not searched.
class NoL0Walk {
 public:
  static constexpr bool kLeavesBeam = true;
  void Open(const WalkStart&) {}
  bool Done() const { return true; }
  std::span<const NodeId> Wanted() const { return {}; }
  RecordPart Part() const { return RecordPart::kRow; }
  template <typename Hint>
  void ForUpcoming(std::uint32_t, const Hint&) const {}
  void Absorb(std::span<const std::byte* const>) {}
  template <typename Add>
  void ForResults(const Add&) const {}
  void Finish(WalkCounters&) const {}
};

using Query = BasicQuery<MultiStartSearch, BestFirstL0Walk, QuantisedWalk, NoL0Walk>;

}  // namespace hmann
