// HNSW over two memories, one of them emulated. The graph is hnswlib's, the search is
// hnswlib's reimplemented (hnsw_traversal.h), and every touch of the index passes one
// accessor. Distances use hmann's kernels, which are faster than hnswlib's own (u8 128-d
// 4.1 ns against 4.8, f32 7.3 against 10.5, Zen 4).
//
// Settings: {"placement": "slow", "ef": 40, "fast_bytes": 27000000, "emulated":
// "lat=300ns", "ahead": "own", "in_flight": 4}. All but two are optional; fast_bytes
// refers to the whole index. With several queries in flight, each has its own traversal,
// which yields to the next where it would wait.
//
// A model (eval/models/placement.h) classifies each line before the clock starts, in a
// steady state. All queries run once to warm it and once, one after the other, to log its
// answers. A timed run reads the log and waits for slow lines as the emulated tier
// dictates.
#include <map>
#include <memory>
#include <variant>

#include "eval/adapters/tiers_baseline.h"
#include "hmann/distance.h"
#include "index/base/status_macros.h"
#include "index/tiers/emulation.h"

namespace hmann::eval {
namespace {

class TiersAdapter : public Adapter {
 public:
  std::string Describe() const override { return "HNSW of hnswlib 0.6.2, hmann's distances"; }

  nlohmann::json DefaultSettings() const override {
    nlohmann::json settings = nlohmann::json::array();
    for (const int ef : {10, 20, 40, 80, 160, 320})
      settings.push_back({{"placement", "slow"}, {"ef", ef}, {"emulated", "lat=300ns"}});
    return settings;
  }

  absl::Status Check(const AdapterInput& job, const VectorFile& base) override {
    HMANN_RETURN_IF_ERROR(CheckKeys(job.build, {}));
    if (job.metric != Metric::kL2 || (base.dtype() != DType::kU8 && base.dtype() != DType::kF32)) {
      return InvalidArgument("HNSW over two memories: expected u8 or f32 under l2, found ",
                             std::string(Name(base.dtype())), " under ",
                             std::string(Name(job.metric)));
    }
    k_ = job.k;
    HMANN_ASSIGN_OR_RETURN(const Kernels kernels,
                           ChooseKernels(base.dtype(), job.metric, base.dim()));
    base.dtype() == DType::kU8 ? void(baseline_.emplace<Baseline<int>>(kernels))
                               : void(baseline_.emplace<Baseline<float>>(kernels));
    return absl::OkStatus();
  }

  absl::Status Build(const AdapterInput& job, const VectorFile& base, const std::string&,
                     BuildFigures* figures) override {
    return WithGraph(baseline_, [&](auto& baseline) { baseline.Build(job, base, figures); });
  }
  absl::Status Save(const std::string& path) override {
    return WithGraph(baseline_, [&](auto& baseline) { baseline.Save(path); });
  }
  absl::Status Load(const AdapterInput&, const VectorFile&, const std::string& path) override {
    return WithGraph(baseline_, [&](auto& baseline) { return baseline.Load(path); });
  }
  bool ServesFromFile() const override { return true; }
  absl::Status Prepare(const VectorFile& queries) override {
    return WithGraph(baseline_, [&](auto& baseline) { baseline.Prepare(queries); });
  }

  absl::Status Set(const nlohmann::json& setting) override {
    HMANN_RETURN_IF_ERROR(
        CheckKeys(setting, {"placement", "ef", "fast_bytes", "emulated", "ahead"}));
    TierSetting wanted;
    std::string ahead = "own";
    absl::Status status;
    JsonReader reader(setting, "setting ", absl::StatusCode::kInvalidArgument, &status);
    reader.Text("placement", &wanted.placement);
    reader.Whole("ef", 1, 1u << 20, &wanted.ef);
    if (setting.contains("fast_bytes"))
      reader.Whole("fast_bytes", 1, std::uint64_t{1} << 48, &wanted.fast_bytes);
    if (setting.contains("emulated")) reader.Text("emulated", &wanted.emulated);
    if (setting.contains("ahead")) reader.Text("ahead", &ahead);
    if (ahead != "own" && ahead != "neighbors") reader.Wrong("ahead", "own or neighbors", ahead);
    HMANN_RETURN_IF_ERROR(status);
    wanted.ahead = ahead == "own" ? Ahead::kOwn : Ahead::kNeighbors;
    if (!buses_.contains(wanted.emulated)) {
      HMANN_ASSIGN_OR_RETURN(const EmulationSpec spec, EmulationSpec::Parse(wanted.emulated));
      Emulated memory;
      HMANN_ASSIGN_OR_RETURN(memory.bus, EmulatedBus::Make(spec));
      memory.outstanding = std::make_unique<OutstandingLines>();
      buses_.emplace(wanted.emulated, std::move(memory));
    }
    setting_ = std::move(wanted);
    return absl::OkStatus();
  }

  absl::Status SetShape(const RunShape& shape) override {
    if (shape.threads != 1 || shape.in_flight > 64) {
      return InvalidArgument("expected threads 1 and in_flight up to 64, found ", shape.threads,
                             " and ", shape.in_flight);
    }
    setting_.in_flight = shape.in_flight;
    return WithGraph(baseline_, [&](auto& baseline) -> absl::Status {
      baseline.SetInFlight(shape.in_flight);
      if (traces_.contains(setting_.TraceKey())) return absl::OkStatus();
      HMANN_ASSIGN_OR_RETURN(Trace trace, baseline.Record(setting_, k_));
      traces_.emplace(setting_.TraceKey(), std::move(trace));
      return absl::OkStatus();
    });
  }

  absl::Status Search(const RunShare& share) override {
    return WithGraph(baseline_, [&](auto& baseline) {
      return baseline.Search(setting_, traces_.at(setting_.TraceKey()),
                             buses_.at(setting_.emulated), share);
    });
  }

  bool CanCount() const override { return true; }
  absl::StatusOr<nlohmann::json> Count(const RunShare& all) override {
    HMANN_RETURN_IF_ERROR(Search(all));
    return traces_.at(setting_.TraceKey()).counters;
  }

 private:
  std::variant<std::monostate, Baseline<int>, Baseline<float>> baseline_;
  std::uint32_t k_ = 0;
  TierSetting setting_;
  std::map<std::string, Emulated> buses_;  ///< by their settings
  std::map<std::string, Trace> traces_;    ///< by TierSetting::TraceKey
};

}  // namespace
}  // namespace hmann::eval

int main(int argc, char** argv) {
  hmann::eval::TiersAdapter adapter;
  return hmann::eval::RunAdapter(argc, argv, adapter);
}
