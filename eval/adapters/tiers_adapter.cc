// HNSW over two memories, one of them emulated: the graph is hnswlib's, its search is
// hnswlib's told again (hnsw_walk.h), and every touch of the index goes through one
// accessor. Distances are hmann's kernels, which are faster than hnswlib's own (u8 128-d
// 4.1 ns against 4.8, f32 7.3 against 10.5, Zen 4).
//
// Settings: {"placement": "slow", "ef": 40, "fast_bytes": 27000000, "emulated":
// "lat=300ns", "ahead": "own", "in_flight": 4}; all but two are optional, and fast_bytes
// are of the whole index. With several queries in flight
// each has a walk of its own, which gives way to the next where it would wait. What a
// model (eval/models/placement.h) says of each line is found out before the clock starts,
// in a steady state: all queries are run once to warm it, once to log what it says, one
// after the other. A timed run reads the log, and waits for what was slow as the emulated
// tier says.
#include <map>
#include <memory>
#include <variant>

#include "eval/adapters/tiers_rival.h"
#include "hmann/distance.h"
#include "index/base/json_reader.h"
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

  absl::Status Check(const AdapterJob& job, const VectorFile& base) override {
    HMANN_RETURN_IF_ERROR(CheckKeys(job.build, {}));
    if (job.metric != Metric::kL2 || (base.dtype() != DType::kU8 && base.dtype() != DType::kF32)) {
      return InvalidArgument("HNSW over two memories: expected u8 or f32 under l2, found ",
                             std::string(Name(base.dtype())), " under ",
                             std::string(Name(job.metric)));
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
    return WithGraph(rival_, [&](auto& rival) { rival.Build(job, base, figures); });
  }
  absl::Status Save(const std::string& path) override {
    return WithGraph(rival_, [&](auto& rival) { rival.Save(path); });
  }
  absl::Status Load(const AdapterJob&, const VectorFile&, const std::string& path) override {
    return WithGraph(rival_, [&](auto& rival) { return rival.Load(path); });
  }
  bool ServesFromFile() const override { return true; }
  absl::Status Prepare(const VectorFile& queries) override {
    return WithGraph(rival_, [&](auto& rival) { rival.Prepare(queries); });
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
    if (ahead != "own" && ahead != "neighbours") reader.Wrong("ahead", "own or neighbours", ahead);
    HMANN_RETURN_IF_ERROR(status);
    wanted.ahead = ahead == "own" ? Ahead::kOwn : Ahead::kNeighbours;
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
    return WithGraph(rival_, [&](auto& rival) -> absl::Status {
      rival.SetInFlight(shape.in_flight);
      if (traces_.contains(setting_.TraceKey())) return absl::OkStatus();
      HMANN_ASSIGN_OR_RETURN(Trace trace, rival.Record(setting_, k_));
      traces_.emplace(setting_.TraceKey(), std::move(trace));
      return absl::OkStatus();
    });
  }

  absl::Status Search(const RunShare& share) override {
    return WithGraph(rival_, [&](auto& rival) {
      return rival.Search(setting_, traces_.at(setting_.TraceKey()), buses_.at(setting_.emulated),
                          share);
    });
  }

  bool CanCount() const override { return true; }
  absl::StatusOr<nlohmann::json> Count(const RunShare& all) override {
    HMANN_RETURN_IF_ERROR(Search(all));
    return traces_.at(setting_.TraceKey()).counters;
  }

 private:
  std::variant<std::monostate, Rival<int>, Rival<float>> rival_;
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
