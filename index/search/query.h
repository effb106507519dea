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
#include "hmann/resolved_params.h"
#include "index/search/graph_traversal.h"
#include "index/search/multi_start_traversal.h"
#include "index/search/placed_index.h"
#include "index/search/quantized_traversal.h"
#include "index/search/rerank_traversal.h"
#include "index/search/scan_traversal.h"
#include "index/search/traversal.h"
#include "index/search/upper_traversal.h"

namespace hmann {

inline bool IsBeyond(float distance, const ResolvedParams& params) {
  return params.max_distance.has_value() && distance > *params.max_distance;
}

/// Turns ids into an answer. Labels of unpromoted nodes lie in their records, mostly on a
/// cache line not read yet. It requests many at once.
class LabelTraversal {
 public:
  /// The answer is complete once Done is true.
  void Open(const PlacedIndex& index, const Beam& found, const ResolvedParams& params,
            std::vector<Neighbor>& answer) {
    index_ = &index;
    answer_ = &answer;
    std::uint32_t size = std::min(params.k, found.size());
    while (size > 0 && IsBeyond(index.kernels.ToDistance(found.key(size - 1)), params)) --size;
    answer.resize(size);
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
    for (const std::byte* record : records) {
      (*answer_)[places_[read_]].label = index_->SlowLabel(ids_[read_], record);
      ++read_;
    }
  }

 private:
  const PlacedIndex* index_ = nullptr;
  std::vector<Neighbor>* answer_ = nullptr;
  std::vector<NodeId> ids_;
  std::vector<std::uint32_t> places_;  ///< of ids_ in the answer
  std::size_t read_ = 0;               ///< of ids_
};

/// One query, from its entry point to its answer, on any tier. It is a sequence of
/// traversals, one active at a time:
/// - down to L1, then through L0 according to the search parameters;
/// - a scan in place of either (ScanTraversal);
/// - reranking by exact distances, if these used codes of scalar quantization;
/// - a search for what disconnected components have hidden, if fewer than k were found;
/// - the labels.
/// With a predicate (ResolvedParams::matches), matches are kept in results_, apart from
/// the nodes that are traversed. If these are few, or fewer than k are found, it scans
/// all matches.
///
///   query.Open(vector, parameters, lists_reads);
///   while (!query.Done()) {
///     query.Visit([&](auto& traversal) {
///       ...; traversal.Absorb(records); if (traversal.Done()) query.Next();
///     });
///   }
///   query.TakeAnswer(&answer);
///
/// Keeps its scratch from query to query. `L0Modes`: the traversals through L0, in the
/// order of SearchMode.
template <L0Traversal... L0Modes>
class BasicQuery {
 public:
  explicit BasicQuery(const PlacedIndex& index) : index_(index), vector_(index.kernels.row_bytes) {}

  /// `parameters` must outlive the query. `lists_reads`: the number of distinct records
  /// read will be needed. Errors: those of EncodeRow; the query is then done.
  absl::Status Open(const void* vector, const ResolvedParams& params, bool lists_reads) {
    phase_ = Phase::kDone;
    if (absl::Status status = EncodeRow(index_.kernels, vector, vector_.data()); !status.ok())
      return status;
    params_ = &params;
    // A search that visits all vectors is exact, so it goes by the vectors.
    by_codes_ = index_.coded != nullptr && params.mode != SearchMode::kQuantized &&
                params.ef_l0 < index_.layers.n();
    if (by_codes_) {
      const ScalarQuantizer& quantizer = *index_.coded->quantizer;
      code_query_.resize(quantizer.query_bytes());
      quantizer.EncodeQuery(vector_.data(), code_query_.data(), code_scratch_);
    }
    answer_.cut_short = false;
    counters_.Clear(lists_reads);
    results_.Open(params.matches, Kept());
    mode_ = params.mode;
    scans_ = gave_up_ = false;
    if (mode_ == SearchMode::kScan || (params.matches != nullptr && ScanIsEnough())) {
      OpenScan();
      SkipWhatIsDone();
    } else if (index_.n1() > 0) {
      upper_.Open(Start());
      phase_ = Phase::kUpper;
    } else {
      scratch_.beam.Reset(params.ef_l0);
      OpenL0();
      SkipWhatIsDone();
    }
    return absl::OkStatus();
  }

  bool Done() const { return phase_ == Phase::kDone; }
  const ResolvedParams& params() const { return *params_; }
  /// The candidates from which the active traversal starts, or those it has found unless
  /// it keeps its own.
  const Beam& found() const { return scratch_.beam; }
  TraversalCounters& counters() { return counters_; }

  /// Calls visit(traversal) with the active traversal.
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
      case Phase::kLabels:
        return visit(labels_);
      case Phase::kDone:
        return;
    }
  }

  /// If more than one: the parts of a multi-start search. Each must be advanced to its
  /// end, in any order or side by side, before Next.
  std::span<MultiStartTraversal> Parts() {
    std::span<MultiStartTraversal> parts;
    if (phase_ == Phase::kL0) {
      VisitL0([&parts](auto& traversal) {
        if constexpr (requires { traversal.Parts(); }) parts = traversal.Parts();
      });
    }
    return parts;
  }

  /// The active traversal is done; opens the next.
  void Next() {
    OpenNext();
    SkipWhatIsDone();
  }

  /// Ends the search with the best results whose records are available without waiting:
  /// those of promoted nodes, and those for which has_record(id) is true. False: there
  /// are none yet, and the search continues.
  template <typename HasRecord>
  bool CutShort(const HasRecord& has_record) {
    if (phase_ == Phase::kLabels || phase_ == Phase::kRerank || phase_ == Phase::kDone ||
        (phase_ == Phase::kUpper && !upper_.InL1()))
      return false;
    Keep(has_record);
    if (kept_.size() == 0) return false;
    if (phase_ == Phase::kL0) VisitL0([this](auto& traversal) { traversal.Finish(counters_); });
    answer_.cut_short = true;
    std::swap(scratch_.beam, kept_);
    const bool rerank = by_codes_ && phase_ < Phase::kRest;
    rerank ? OpenRerank() : OpenLabels();
    SkipWhatIsDone();
    return true;
  }

  /// Queries from the next Open on do not see this node (SearchLimits::excluded).
  void Exclude(NodeId node) { scratch_.visited.Exclude(node); }

  /// Queries from the next Open on announce to `ahead` what they will probably want
  /// first.
  void AnnounceReads(ReadsAhead* ahead) { ahead_ = ahead; }

  /// Abandons the query.
  void Drop() { phase_ = Phase::kDone; }

  /// Swaps the answer into `out`. The query reuses the old content of `out` as memory for
  /// the next answer.
  void TakeAnswer(Answer* out) { std::swap(*out, answer_); }

  /// Counters of all work, with distinct reads where they are listed. `read`: scratch.
  const Counters& TakeCounters(VisitedSet& read) {
    read.Clear();
    for (const NodeId node : counters_.read) {
      if (read.Insert(node)) counters_.total.node_bytes += index_.records.RecordBytes(node);
    }
    counters_.total.node_reads += read.size();
    return counters_.total;
  }

 private:
  enum class Phase { kUpper, kL0, kRerank, kRest, kLabels, kDone };

  /// For a traversal that uses the vectors themselves.
  TraversalStart StartExact() { return StartOn(index_, vector_.data()); }
  TraversalStart Start() {
    return by_codes_ ? StartOn(*index_.coded, code_query_.data()) : StartExact();
  }
  TraversalStart StartOn(const PlacedIndex& index, const std::byte* query) {
    return {.index = index,
            .query = query,
            .params = *params_,
            .scratch = scratch_,
            .counters = counters_,
            .kept = Kept(),
            .results = params_->matches != nullptr ? &results_ : nullptr,
            .ahead = ahead_,
            .scans = scans_};
  }
  /// Among matches, which may be far away, four times as many are near the kth: a guess.
  std::uint32_t Kept() const {
    if (!by_codes_) return params_->k;
    const std::uint32_t kept = index_.KeptFor(params_->k);
    return params_->matches == nullptr ? kept
                                       : std::max(kept, std::min(4 * kept, index_.layers.n()));
  }

  /// Calls visit with the traversal of L0.
  template <typename Visitor>
  void VisitL0(const Visitor& visit) {
    const auto kind = static_cast<std::size_t>(mode_);
    [&]<std::size_t... kI>(std::index_sequence<kI...>) {
      (void)((kind == kI && (visit(std::get<kI>(l0_)), true)) || ...);
    }(std::index_sequence_for<L0Modes...>());
  }

  void OpenNext() {
    switch (phase_) {
      case Phase::kUpper:
        return OpenL0();
      case Phase::kL0:
        if (const bool in_beam = FinishL0(); gave_up_)
          return OpenScan();
        else if (by_codes_ && CodesAreTooCoarse())
          return OpenAgain();
        else if (!in_beam) {
          Keep([](NodeId) { return true; });
          std::swap(scratch_.beam, kept_);
        }
        return by_codes_ ? OpenRerank() : OpenRest();
      case Phase::kRerank:
        return answer_.cut_short ? OpenLabels() : OpenRest();
      case Phase::kRest:
        return rest_.GaveUp() ? OpenScan() : OpenLabels();
      case Phase::kLabels:
      case Phase::kDone:
        phase_ = Phase::kDone;
    }
  }

  /// Whether matches that it could not keep may be nearer than the kth: they are so far
  /// away that the errors of codes exceed the differences.
  bool CodesAreTooCoarse() const {
    const Beam& found = results_.beam;
    return params_->matches != nullptr && found.size() == Kept() && found.size() > params_->k &&
           found.bound() <=
               index_.coded->quantizer->Margin(code_query_.data(), found.key(params_->k - 1));
  }

  /// Searches by the vectors instead.
  void OpenAgain() {
    by_codes_ = false;
    results_.Open(params_->matches, Kept());
    upper_.Open(Start());
    phase_ = Phase::kUpper;
  }

  /// Returns whether the results are in the beam.
  bool FinishL0() {
    bool leaves_beam = false;
    gave_up_ = false;
    VisitL0([&](auto& traversal) {
      traversal.Finish(counters_);
      leaves_beam = traversal.kLeavesBeam;
      if constexpr (requires { traversal.GaveUp(); }) gave_up_ = traversal.GaveUp();
    });
    return leaves_beam && (params_->matches == nullptr || scans_);
  }

  void SkipWhatIsDone() {
    for (bool done = true; done && phase_ != Phase::kDone;) {
      Visit([&done](const auto& traversal) { done = traversal.Done(); });
      if (done) OpenNext();
    }
  }

  void OpenL0() {
    if (index_.n1() == 0 && params_->mode != SearchMode::kQuantized) return OpenRest();
    VisitL0([this](auto& traversal) { traversal.Open(Start()); });
    phase_ = Phase::kL0;
  }

  /// Sets kept_ to the nearest Kept() of the matches that the active traversal has found,
  /// without unpromoted nodes for which `may_keep` is false.
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
      VisitL0([&](auto& traversal) {
        traversal.ForResults(add);
        leaves_beam = traversal.kLeavesBeam;
      });
    }
    if (params_->matches != nullptr && phase_ <= Phase::kL0 && !scans_) return add(results_.beam);
    if (leaves_beam) add(scratch_.beam);
  }

  /// Fewer than k were found, because they form a closed component or there is no upper
  /// layer. Every node can be reached from node 0. A beam that is not full has lost
  /// nothing: it holds everything that was met. One that reaches beyond max_distance has
  /// all answers.
  void OpenRest() {
    const Beam& found = scratch_.beam;
    const std::uint32_t size = found.size();
    if (size >= params_->k || scans_ ||
        (size > 0 && IsBeyond(index_.kernels.ToDistance(found.key(size - 1)), *params_)))
      return OpenLabels();
    if (params_->matches != nullptr) return OpenScan();
    scratch_.visited.Clear();
    for (std::uint32_t i = 0; i < scratch_.beam.size(); ++i)
      scratch_.visited.Insert(scratch_.beam.id(i));
    scratch_.beam.Reopen(std::max(params_->k, scratch_.beam.width()));
    rest_.OpenAt(StartExact(), 0);
    phase_ = Phase::kRest;
  }

  /// A traversal would meet k n / m nodes before it had k of m matches.
  bool ScanIsEnough() const {
    const std::uint64_t size = params_->matches->size();
    return size * size <= std::uint64_t{params_->k} * index_.layers.n();
  }

  /// Scans in place of any traversal of L0. What a graph traversal has met is in its beam
  /// or too far, so the scan leaves it out. It goes by codes of scalar quantization only
  /// where a traversal by codes has given up. Among matches, and where the user names the
  /// mode, their errors may exceed the differences.
  void OpenScan() {
    const bool is_long =
        (params_->matches != nullptr ? params_->matches->size() : index_.layers.n()) > kFew;
    const bool gave_up = phase_ == Phase::kL0 && mode_ == SearchMode::kGraph;
    // Where most nodes would be reranked, codes save nothing.
    const bool by_codes = by_codes_ && gave_up && params_->matches == nullptr && is_long &&
                          2 * std::uint64_t{Kept()} <= index_.layers.n();
    const bool goes_on = params_->matches == nullptr &&
                         (phase_ == Phase::kRest || (gave_up && by_codes == by_codes_));
    const bool scanned = scans_;
    by_codes_ = by_codes;
    scans_ = true;
    // A scan of full width is exact, so it goes by the vectors.
    const bool by_quantized_codes =
        is_long && !scanned && !params_->is_exact && params_->ef_l0 < index_.layers.n() &&
        (!gave_up_ || mode_ == SearchMode::kQuantized) && index_.encoder != nullptr &&
        index_.coded == nullptr && (index_.far || index_.blocks != nullptr);
    mode_ = by_quantized_codes ? SearchMode::kQuantized : SearchMode::kScan;
    if (goes_on) {
      scratch_.beam.Reopen(Kept());
    } else {
      scratch_.beam.Reset(Kept());
      scratch_.visited.Clear();
    }
    VisitL0([this](auto& traversal) { traversal.Open(Start()); });
    phase_ = Phase::kL0;
  }

  void OpenRerank() {
    rerank_.Open(StartExact(), code_query_.data());
    phase_ = Phase::kRerank;
  }

  void OpenLabels() {
    labels_.Open(index_, scratch_.beam, *params_, answer_.nearest);
    phase_ = Phase::kLabels;
  }

  /// So many vectors are read at once as soon as their codes are scored.
  static constexpr std::uint64_t kFew = kFewVectors;

  const PlacedIndex& index_;
  std::vector<std::byte> vector_;  ///< in stored form
  bool by_codes_ = false;          ///< of scalar quantization
  std::vector<std::byte> code_query_;
  ScalarQuantizer::Scratch code_scratch_;
  const ResolvedParams* params_ = nullptr;
  SearchMode mode_ = SearchMode::kGraph;  ///< of the traversal of L0
  bool scans_ = false, gave_up_ = false;
  ReadsAhead* ahead_ = nullptr;
  LayerScratch scratch_;  ///< beam: what was found so far
  Results results_;
  Beam kept_;
  TraversalCounters counters_;
  UpperTraversal upper_;
  std::tuple<L0Modes...> l0_;
  RerankTraversal rerank_;
  GraphTraversal rest_;
  LabelTraversal labels_;
  Answer answer_;
  Phase phase_ = Phase::kDone;
};

/// `--mode upper`: L0 is not searched.
class NoL0Traversal {
 public:
  static constexpr bool kLeavesBeam = true;
  void Open(const TraversalStart&) {}
  bool Done() const { return true; }
  std::span<const NodeId> Wanted() const { return {}; }
  RecordPart Part() const { return RecordPart::kRow; }
  template <typename Hint>
  void ForUpcoming(std::uint32_t, const Hint&) const {}
  void Absorb(std::span<const std::byte* const>) {}
  template <typename Add>
  void ForResults(const Add&) const {}
  void Finish(TraversalCounters&) const {}
};

using Query = BasicQuery<MultiStartSearch, GraphL0Traversal, QuantizedTraversal, NoL0Traversal,
                         ScanTraversal>;

}  // namespace hmann
