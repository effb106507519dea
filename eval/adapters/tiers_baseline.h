/// hnswlib's graph over two memories: building, recording and searching.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "eval/adapters/adapter.h"
#include "eval/adapters/hnsw_image.h"
#include "eval/adapters/hnsw_traversal.h"
#include "eval/adapters/hnswlib_build.h"
#include "eval/adapters/touch_access.h"
#include "hmann/distance.h"
#include "index/base/status_macros.h"
#include "index/tiers/emulation.h"

namespace hmann::eval {

/// What a timed run needs in addition to the index.
struct TierSetting {
  std::string placement;
  std::uint64_t fast_bytes = ~std::uint64_t{0};  ///< for the whole index; for models
  int in_flight = 1;
  Ahead ahead = Ahead::kOwn;
  std::uint32_t ef = 0;
  std::string emulated = "lat=0ns";

  std::string TraceKey() const {
    return absl::StrCat(placement, "|", fast_bytes, "|", static_cast<int>(ahead), "|", ef, "|",
                        in_flight > 1);
  }
};

/// An emulated memory and the requests of the searching thread to it.
struct Emulated {
  std::shared_ptr<EmulatedBus> bus;
  std::unique_ptr<OutstandingLines> outstanding;
  std::vector<std::unique_ptr<EmulatedLines>> lines;  ///< one per query in flight

  void SetInFlight(std::size_t in_flight) {
    while (lines.size() < in_flight)
      lines.push_back(std::make_unique<EmulatedLines>(bus.get(), TickClock(), outstanding.get()));
  }
};

/// A model's answers for a search at one setting.
// NOLINTNEXTLINE(bugprone-exception-escape): moving json throws in assertions only.
struct Trace {
  TouchLog log;                       ///< empty if everything is slow, or nothing
  std::vector<std::uint64_t> starts;  ///< where each query begins in the log
  nlohmann::json counters;
};

/// The graph of one distance type, and searches over it.
template <typename Dist>
class Baseline {
 public:
  using Index = hnswlib::HierarchicalNSW<Dist>;
  using Space = std::conditional_t<std::is_same_v<Dist, int>, hnswlib::L2SpaceI, hnswlib::L2Space>;

  explicit Baseline(const Kernels& kernels) : kernels_(kernels), space_(kernels.dim) {}

  void Build(const AdapterInput& job, const VectorFile& base, BuildFigures* figures) {
    index_ = std::make_unique<Index>(&space_, base.n(), job.m, job.ef_construction);
    AddRows(base.n(), job.threads, [&](std::uint64_t i) { index_->addPoint(base.Row(i), i); });
    (*figures)["index_bytes"] = BytesOf(*index_);
  }
  void Save(const std::string& path) { index_->saveIndex(path); }

  absl::Status Load(const std::string& path) {
    index_ = nullptr;
    const Index index(&space_, path);
    HMANN_ASSIGN_OR_RETURN(image_, CopyOfHnswlib(index));
    modes_.clear();
    SetInFlight(1);
    return absl::OkStatus();
  }
  void SetInFlight(int in_flight) {
    modes_.reserve(static_cast<std::size_t>(in_flight));
    while (modes_.size() < static_cast<std::size_t>(in_flight))
      modes_.emplace_back(&image_, &kernels_);
  }

  void Prepare(const VectorFile& queries) { queries_ = CopyRows(queries); }

  /// Runs the queries against the setting's model. Errors: as MakePlacement.
  absl::StatusOr<Trace> Record(const TierSetting& setting, std::uint32_t k) {
    const double share = std::min(
        1.0, static_cast<double>(setting.fast_bytes) / static_cast<double>(image_.Lines() * 64));
    PlacementRequest request = {setting.placement, share, image_.Lines(), {}};
    std::uint64_t upper_bytes = image_.lists.size();
    for (const int level : image_.level_of) {
      request.in_upper.push_back(level > 0);
      upper_bytes += level > 0 ? image_.vector_bytes + sizeof(std::byte*) : 0;
    }
    HMANN_ASSIGN_OR_RETURN(const std::unique_ptr<PlacementModel> model, MakePlacement(request));
    const std::vector<IndexMemory> memory = image_.Memory();
    Trace trace;
    std::vector<std::uint32_t> labels(k);
    const auto run = [&](RecordingAccess& access) {
      trace.starts.clear();
      for (std::uint64_t q = 0; q < Count(); ++q) {
        trace.starts.push_back(trace.log.size());
        modes_[0].Begin(Query(q), k, setting.ef, setting.ahead, setting.in_flight > 1, access);
        while (modes_[0].Step(access)) {
        }
        modes_[0].Finish(access, labels.data());
      }
    };
    if (model->Learns()) {
      RecordingAccess access(model.get(), memory, image_.nodes, nullptr);
      run(access);
    }
    const bool uniform = setting.placement == "dram" || setting.placement == "slow";
    RecordingAccess access(model.get(), memory, image_.nodes, uniform ? nullptr : &trace.log);
    run(access);
    const auto mean = [this](std::uint64_t total) {
      return static_cast<double>(total) / static_cast<double>(Count());
    };
    const std::uint64_t fast_bytes =
        setting.placement == "fast-upper" ? upper_bytes : FastLines(request) * 64;
    trace.counters = {{"node_reads", mean(access.node_reads())},
                      {"slow_lines", mean(access.slow_lines())},
                      {"node_bytes", mean(access.slow_lines() * 64)},
                      {"lines", mean(access.lines())},
                      {"fast_bytes", fast_bytes}};
    return trace;
  }

  absl::Status Search(const TierSetting& setting, const Trace& trace, Emulated& emulated,
                      const RunShare& share) {
    if (share.begin != 0 || share.end != Count()) {
      return InvalidArgument("a log is of all ", Count(), " queries on one thread; asked for [",
                             share.begin, ", ", share.end, ")");
    }
    const auto slots = static_cast<std::size_t>(setting.in_flight);
    if (setting.placement == "dram") {
      std::vector<NoAccess> accesses(slots);
      Run(setting, share, accesses, [](std::size_t, std::uint64_t) {});
      return absl::OkStatus();
    }
    emulated.SetInFlight(slots);
    if (setting.placement == "slow") {
      std::vector<SlowAccess<EmulatedLines>> accesses;
      for (std::size_t i = 0; i < slots; ++i) accesses.push_back({emulated.lines[i].get()});
      Run(setting, share, accesses, [](std::size_t, std::uint64_t) {});
      return absl::OkStatus();
    }
    std::vector<ReplayAccess<EmulatedLines>> accesses;
    for (std::size_t i = 0; i < slots; ++i)
      accesses.push_back({emulated.lines[i].get(), TouchLog::Reader(trace.log)});
    std::uint64_t taken = 0;
    Run(setting, share, accesses, [&](std::size_t slot, std::uint64_t query) {
      TouchLog::Reader& reader = accesses[slot].log;
      if (query == kEnds) {
        taken += reader.at();
      } else {
        taken -= trace.starts[query];
        reader = TouchLog::Reader(trace.log, trace.starts[query]);
      }
    });
    if (taken != trace.log.size())
      return Internal("the search took another way than the one that was logged");
    return absl::OkStatus();
  }

 private:
  static constexpr std::uint64_t kEnds = ~std::uint64_t{0};

  /// Uses one slot per access; queries take turns, one step each. Calls `turn(slot,
  /// query)` before a query begins in a slot, and `turn(slot, kEnds)` after it ends.
  template <typename Access, typename Turn>
  void Run(const TierSetting& setting, const RunShare& share, std::vector<Access>& accesses,
           Turn turn) {
    std::vector<std::optional<QueryTimer>> timers(accesses.size());
    std::vector<std::uint64_t> queries(accesses.size(), kEnds);
    std::uint64_t next = share.begin;
    std::size_t busy = 0;
    const auto begin = [&](std::size_t slot) {
      queries[slot] = kEnds;
      if (next == share.end) return;
      queries[slot] = next++;
      ++busy;
      turn(slot, queries[slot]);
      timers[slot].emplace(share, queries[slot]);
      modes_[slot].Begin(Query(queries[slot]), share.k, setting.ef, setting.ahead,
                         setting.in_flight > 1, accesses[slot]);
    };
    for (std::size_t slot = 0; slot < accesses.size(); ++slot) begin(slot);
    while (busy > 0) {
      for (std::size_t slot = 0; slot < accesses.size(); ++slot) {
        if (queries[slot] == kEnds || modes_[slot].Step(accesses[slot])) continue;
        modes_[slot].Finish(accesses[slot], share.ids + queries[slot] * share.k);
        timers[slot].reset();
        turn(slot, kEnds);
        --busy;
        begin(slot);
      }
    }
  }
  std::uint64_t Count() const { return queries_.size() / kernels_.row_bytes; }
  const std::byte* Query(std::uint64_t q) const { return queries_.data() + q * kernels_.row_bytes; }

  Kernels kernels_;
  Space space_;
  std::unique_ptr<Index> index_;  ///< set between Build and Load
  HnswImage image_;
  std::vector<HnswTraversal<Dist>> modes_;  ///< one per query in flight
  std::vector<std::byte> queries_;
};

}  // namespace hmann::eval
