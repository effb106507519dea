// HNSW over two memories, one of them emulated: the graph is hnswlib's, its search is
// hnswlib's told again (hnsw_walk.h), and every touch of the index goes through one
// accessor. Distances are hmann's kernels, which are faster than hnswlib's own (u8 128-d
// 4.1 ns against 4.8, f32 7.3 against 10.5, Zen 4).
//
// Settings: {"placement": "slow", "ef": 40, "fast_share": 0.1, "emulated": "lat=300ns",
// "ahead": "own"}; the last three are optional. What a model (eval/models/placement.h)
// says of each line is found out before the clock starts, in a steady state: all queries
// are run once to warm it, once to log what it says. A timed run reads the log, and waits
// for what was slow as the emulated tier says.
#ifdef __SANITIZE_ADDRESS__  // its vectorised loops prefetch past a list's end
#define NO_MANUAL_VECTORIZATION
#endif
#include <hnswlib/hnswlib.h>

#include <atomic>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <variant>

#include "absl/strings/str_cat.h"
#include "eval/adapters/adapter.h"
#include "eval/adapters/hnsw_image.h"
#include "eval/adapters/hnsw_walk.h"
#include "eval/adapters/touch_access.h"
#include "index/base/status_macros.h"
#include "index/distance/distance.h"
#include "index/tiers/emulation.h"

namespace hmann {
namespace {

/// What a timed run needs besides the index.
struct Setting {
  std::string placement;
  double fast_share = 0.1;
  Ahead ahead = Ahead::kOwn;
  std::uint32_t ef = 0;
  std::string emulated = "lat=0ns";

  std::string TraceKey() const {
    return absl::StrCat(placement, "|", fast_share, "|", static_cast<int>(ahead), "|", ef);
  }
};

/// An emulated memory and what the searching thread has asked of it.
struct Emulated {
  std::shared_ptr<EmulatedBus> bus;
  std::unique_ptr<EmulatedLines> lines;
};

/// What a model said of a search at one setting.
struct Trace {
  TouchLog log;  ///< empty where everything is slow, or nothing
  nlohmann::json counters;
};

template <typename Dist>
struct Space;
template <>
struct Space<int> {
  using Type = hnswlib::L2SpaceI;
};
template <>
struct Space<float> {
  using Type = hnswlib::L2Space;
};

/// The graph of one distance type, and searches over it.
template <typename Dist>
class Rival {
 public:
  using Index = hnswlib::HierarchicalNSW<Dist>;

  explicit Rival(const Kernels& kernels) : kernels_(kernels), space_(kernels.dim) {}

  void Build(const AdapterJob& job, const VectorFile& base, BuildFigures* figures) {
    index_ = std::make_unique<Index>(&space_, base.n(), job.m, job.ef_construction);
    index_->addPoint(base.Row(0), 0);
    std::atomic<std::uint64_t> next{1};
    std::vector<std::exception_ptr> errors(static_cast<std::size_t>(job.threads));
    std::vector<std::thread> threads;
    for (std::exception_ptr& error : errors) {
      threads.emplace_back([&] {
        try {
          for (std::uint64_t i = next++; i < base.n(); i = next++) index_->addPoint(base.Row(i), i);
        } catch (...) {
          error = std::current_exception();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& error : errors) {
      if (error) std::rethrow_exception(error);
    }
    figures->index_bytes = base.n() * (index_->size_data_per_element_ + sizeof(void*));
    for (std::uint64_t i = 0; i < base.n(); ++i) {
      figures->index_bytes +=
          static_cast<std::uint64_t>(index_->element_levels_[i]) * index_->size_links_per_element_;
    }
  }
  void Save(const std::string& path) { index_->saveIndex(path); }

  absl::Status Load(const std::string& path) {
    index_ = nullptr;
    const Index index(&space_, path);
    HMANN_ASSIGN_OR_RETURN(image_, CopyOfHnswlib(index));
    walk_.emplace(&image_, &kernels_);
    return absl::OkStatus();
  }

  void Prepare(const VectorFile& queries) {
    queries_.resize(queries.n() * queries.row_bytes());
    for (std::uint64_t q = 0; q < queries.n(); ++q) {
      std::memcpy(queries_.data() + q * queries.row_bytes(), queries.Row(q), queries.row_bytes());
    }
  }

  /// Runs the queries past the setting's model. Errors: as MakePlacement.
  absl::StatusOr<Trace> Record(const Setting& setting, std::uint32_t k) {
    PlacementRequest request = {setting.placement, setting.fast_share, image_.Lines(), {}};
    std::uint64_t upper_bytes = image_.lists.size();
    for (const int level : image_.level_of) {
      request.in_upper.push_back(level > 0);
      upper_bytes += level > 0 ? image_.vector_bytes + sizeof(std::byte*) : 0;
    }
    HMANN_ASSIGN_OR_RETURN(const std::unique_ptr<PlacementModel> model, MakePlacement(request));
    const std::vector<IndexMemory> memory = image_.Memory();
    std::vector<std::uint32_t> labels(k);
    const auto run = [&](RecordingAccess& access) {
      for (std::uint64_t q = 0; q < Count(); ++q)
        walk_->Search(Query(q), k, setting.ef, setting.ahead, access, labels.data());
    };
    if (model->Learns()) {
      RecordingAccess access(model.get(), memory, image_.nodes, nullptr);
      run(access);
    }
    Trace trace;
    const bool uniform = setting.placement == "dram" || setting.placement == "slow";
    RecordingAccess access(model.get(), memory, image_.nodes, uniform ? nullptr : &trace.log);
    run(access);
    const auto mean = [this](std::uint64_t total) {
      return static_cast<double>(total) / static_cast<double>(Count());
    };
    const std::uint64_t fast_bytes =
        setting.placement == "fast-upper" ? upper_bytes : FastLines(request) * 64;
    trace.counters = {{"slow_reads", mean(access.slow_reads())},
                      {"slow_lines", mean(access.slow_lines())},
                      {"slow_bytes", mean(access.slow_lines() * 64)},
                      {"lines", mean(access.lines())},
                      {"fast_bytes", fast_bytes}};
    return trace;
  }

  absl::Status Search(const Setting& setting, const Trace& trace, Emulated& emulated,
                      const RunShare& share) {
    if (share.begin != 0 || share.end != Count()) {
      return absl::InvalidArgumentError(absl::StrCat("a log is of all ", Count(),
                                                     " queries on one thread; asked for [",
                                                     share.begin, ", ", share.end, ")"));
    }
    if (setting.placement == "dram") {
      NoAccess access;
      Run(setting, share, access);
    } else if (setting.placement == "slow") {
      SlowAccess<EmulatedLines> access{emulated.lines.get()};
      Run(setting, share, access);
    } else {
      ReplayAccess<EmulatedLines> access{emulated.lines.get(), TouchLog::Reader(trace.log)};
      Run(setting, share, access);
      if (!access.log.AtEnd())
        return absl::InternalError("the search took another way than the one that was logged");
    }
    return absl::OkStatus();
  }

 private:
  template <typename Access>
  void Run(const Setting& setting, const RunShare& share, Access& access) {
    for (std::uint64_t q = share.begin; q < share.end; ++q) {
      const QueryTimer timer(share, q);
      walk_->Search(Query(q), share.k, setting.ef, setting.ahead, access, share.ids + q * share.k);
    }
  }
  std::uint64_t Count() const { return queries_.size() / kernels_.row_bytes; }
  const std::byte* Query(std::uint64_t q) const { return queries_.data() + q * kernels_.row_bytes; }

  Kernels kernels_;
  typename Space<Dist>::Type space_;
  std::unique_ptr<Index> index_;  ///< between Build and Load
  HnswImage image_;
  std::optional<HnswWalk<Dist>> walk_;
  std::vector<std::byte> queries_;
};

absl::StatusOr<Ahead> ParseAhead(const nlohmann::json& value) {
  if (value == "own") return Ahead::kOwn;
  if (value == "vectors") return Ahead::kVectors;
  if (value == "neighbours") return Ahead::kNeighbours;
  return absl::InvalidArgumentError(
      absl::StrCat("setting ahead: expected own, vectors or neighbours, found ", value.dump()));
}

class TiersAdapter : public Adapter {
 public:
  std::string Describe() const override { return "HNSW of hnswlib 0.6.2, hmann's distances"; }

  nlohmann::json DefaultSettings() const override {
    nlohmann::json settings = nlohmann::json::array();
    for (const int ef : {10, 20, 40, 80, 160, 320})
      settings.push_back({{"placement", "slow"}, {"ef", ef}, {"emulated", "lat=300ns"}});
    return settings;
  }

  absl::Status Check(const AdapterJob& job, const VectorFile& base) override {
    HMANN_RETURN_IF_ERROR(CheckKeys(job.build, {}));
    if (job.metric != Metric::kL2 || (base.dtype() != DType::kU8 && base.dtype() != DType::kF32)) {
      return absl::InvalidArgumentError(
          absl::StrCat("HNSW over two memories: expected u8 or f32 under l2, found ",
                       std::string(Name(base.dtype())), " under ", std::string(Name(job.metric))));
    }
    k_ = job.k;
    HMANN_ASSIGN_OR_RETURN(const Kernels kernels,
                           ChooseKernels(base.dtype(), job.metric, base.dim()));
    base.dtype() == DType::kU8 ? void(rival_.emplace<Rival<int>>(kernels))
                               : void(rival_.emplace<Rival<float>>(kernels));
    return absl::OkStatus();
  }

  absl::Status Build(const AdapterJob& job, const VectorFile& base, const std::string&,
                     BuildFigures* figures) override {
    return Guard([&](auto& rival) {
      rival.Build(job, base, figures);
      return absl::OkStatus();
    });
  }
  absl::Status Save(const std::string& path) override {
    return Guard([&](auto& rival) {
      rival.Save(path);
      return absl::OkStatus();
    });
  }
  absl::Status Load(const AdapterJob&, const VectorFile&, const std::string& path) override {
    return Guard([&](auto& rival) { return rival.Load(path); });
  }
  bool ServesFromFile() const override { return true; }
  absl::Status Prepare(const VectorFile& queries) override {
    return Guard([&](auto& rival) {
      rival.Prepare(queries);
      query_count_ = queries.n();
      return absl::OkStatus();
    });
  }

  absl::Status Set(const nlohmann::json& setting) override {
    HMANN_RETURN_IF_ERROR(
        CheckKeys(setting, {"placement", "ef", "fast_share", "emulated", "ahead"}));
    Setting wanted;
    HMANN_ASSIGN_OR_RETURN(const std::uint64_t ef, NumberIn(setting, "ef", 1, 1u << 20));
    wanted.ef = static_cast<std::uint32_t>(ef);
    const nlohmann::json placement = setting.value("placement", nlohmann::json()),
                         emulated = setting.value("emulated", nlohmann::json("lat=0ns")),
                         share = setting.value("fast_share", nlohmann::json(0.1));
    if (!placement.is_string() || !emulated.is_string() || !share.is_number()) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected placement and emulated as texts, fast_share as a number, found ",
                       setting.dump()));
    }
    wanted.placement = placement.get<std::string>();
    wanted.emulated = emulated.get<std::string>();
    wanted.fast_share = share.get<double>();
    HMANN_ASSIGN_OR_RETURN(wanted.ahead, ParseAhead(setting.value("ahead", nlohmann::json("own"))));
    if (!buses_.contains(wanted.emulated)) {
      HMANN_ASSIGN_OR_RETURN(const EmulationSpec spec, EmulationSpec::Parse(wanted.emulated));
      Emulated memory;
      HMANN_ASSIGN_OR_RETURN(memory.bus, EmulatedBus::Make(spec));
      memory.lines = std::make_unique<EmulatedLines>(memory.bus.get());
      buses_.emplace(wanted.emulated, std::move(memory));
    }
    if (!traces_.contains(wanted.TraceKey())) {
      HMANN_RETURN_IF_ERROR(Guard([&](auto& rival) -> absl::Status {
        HMANN_ASSIGN_OR_RETURN(Trace trace, rival.Record(wanted, k_));
        traces_.emplace(wanted.TraceKey(), std::move(trace));
        return absl::OkStatus();
      }));
    }
    setting_ = std::move(wanted);
    return absl::OkStatus();
  }

  absl::Status Search(const RunShare& share) override {
    return Guard([&](auto& rival) {
      return rival.Search(setting_, traces_.at(setting_.TraceKey()), buses_.at(setting_.emulated),
                          share);
    });
  }

  bool CanCount() const override { return true; }
  absl::StatusOr<nlohmann::json> Count(std::uint32_t k, std::uint32_t* ids) override {
    const RunShare all = {0, 0, query_count_, k, ids, nullptr};
    HMANN_RETURN_IF_ERROR(Search(all));
    return traces_.at(setting_.TraceKey()).counters;
  }

 private:
  /// hnswlib throws: what it says becomes a Status.
  template <typename Work>
  absl::Status Guard(Work work) {
    try {
      return std::visit(
          [&](auto& rival) -> absl::Status {
            if constexpr (std::is_same_v<std::decay_t<decltype(rival)>, std::monostate>) {
              return absl::FailedPreconditionError("no data yet");
            } else {
              return work(rival);
            }
          },
          rival_);
    } catch (const std::exception& error) {
      return absl::InternalError(absl::StrCat("hnswlib: ", error.what()));
    }
  }

  std::variant<std::monostate, Rival<int>, Rival<float>> rival_;
  std::uint32_t k_ = 0;
  std::uint64_t query_count_ = 0;
  Setting setting_;
  std::map<std::string, Emulated> buses_;  ///< by their settings
  std::map<std::string, Trace> traces_;    ///< by Setting::TraceKey
};

}  // namespace
}  // namespace hmann

int main(int argc, char** argv) {
  hmann::TiersAdapter adapter;
  return hmann::RunAdapter(argc, argv, adapter);
}
