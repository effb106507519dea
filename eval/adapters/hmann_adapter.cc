// hmann behind the protocol that its rivals use. Build settings: {"promote": 0.16,
// "method": "insertion", "alpha": 1.2, "bits": 2, "seed": 1, "from_hnswlib": FILE},
// or {"index": FILE} of one that is finished; and how it is opened: {"fast": "dram",
// "slow": "mapped", "cache": "none", "cache_bytes": 0, "migration_bytes": 16777216,
// "helper_threads": 0, "sq": 0}, all optional. Settings: dials, as `hmann search --json`
// names them: {"walk": "best-first", "ef_l1": 16, "ef_l0": 64}; all optional.
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "eval/adapters/adapter.h"
#include "eval/adapters/asked_dials.h"
#include "eval/adapters/lines.h"
#include "index/base/status_macros.h"
#include "index/dials/dials_json.h"
#include "index/hmann.h"

namespace hmann {
namespace {

absl::StatusOr<std::string> TextIn(const nlohmann::json& object, const char* key,
                                   const std::string& fallback) {
  const auto value = object.find(key);
  if (value == object.end()) return fallback;
  if (!value->is_string())
    return absl::InvalidArgumentError(
        absl::StrCat("setting ", key, ": expected a text, found ", value->dump()));
  return value->get<std::string>();
}

absl::StatusOr<double> FractionIn(const nlohmann::json& object, const char* key, double fallback) {
  const auto value = object.find(key);
  if (value == object.end()) return fallback;
  if (!value->is_number())
    return absl::InvalidArgumentError(
        absl::StrCat("setting ", key, ": expected a number, found ", value->dump()));
  return value->get<double>();
}

class HmannAdapter : public Adapter {
 public:
  std::string Describe() const override { return absl::StrCat("hmann ", HMANN_VERSION); }

  /// Of an index that is open.
  nlohmann::json DefaultSettings() const override {
    nlohmann::json settings = nlohmann::json::array();
    const auto add = [&](const char* walk, int ef_l1, int ef_l0) {
      settings.push_back({{"walk", walk}, {"ef_l1", ef_l1}, {"ef_l0", ef_l0}});
    };
    // One ladder a walk: points of equal recall and unequal speed would only put steps
    // into the front.
    for (const int ef_l1 : {10, 14, 20, 28, 40, 56, 80, 112, 160, 224, 320})
      add("multi-start", ef_l1, 1);
    if (build_.metric == Metric::kInnerProduct) {
      for (const int ef_l0 : {10, 14, 20, 28, 40, 56, 80, 112, 160, 224, 320, 480})
        add("best-first", 1, ef_l0);
      if (!HasCodes()) return settings;
      for (const int ef_l0 : {14, 20, 28, 40, 56, 80, 112, 160}) add("quantised", 16, ef_l0);
      return settings;
    }
    const auto ending = [&](const char* walk, int ef_l1, double epsilon) {
      add(walk, ef_l1, 400);
      settings.back()["epsilon"] = epsilon;
    };
    for (const double epsilon :
         {0.03, 0.05, 0.07, 0.09, 0.11, 0.13, 0.16, 0.2, 0.24, 0.3, 0.4, 0.6})
      ending("best-first", 1, epsilon);
    if (!HasCodes()) return settings;
    for (const double epsilon : {0.04, 0.07, 0.1, 0.14, 0.2, 0.25, 0.3})
      ending("quantised", 16, epsilon);
    return settings;
  }

  absl::StatusOr<std::optional<FinishedIndex>> OpenFinished(const AdapterJob& job) override {
    if (!job.build.contains("index")) return std::nullopt;
    std::vector<std::string> keys = LoadSettings();
    keys.emplace_back("index");
    HMANN_RETURN_IF_ERROR(CheckKeys(job.build, keys));
    HMANN_ASSIGN_OR_RETURN(const std::string path, TextIn(job.build, "index", ""));
    HMANN_RETURN_IF_ERROR(ReadOpening(job.build));
    HMANN_RETURN_IF_ERROR(Open(path));
    build_.metric = index_->info().metric;
    return FinishedIndex{path, index_->info().file_bytes};
  }

  bool Waits() const override { return open_.slow.starts_with("nvme"); }

  absl::Status Check(const AdapterJob& job, const VectorFile&) override {
    std::vector<std::string> keys = LoadSettings();
    keys.insert(keys.end(), {"m", "ef_construction", "method", "dtype", "alpha", "promote", "seed",
                             "bits", "replicas", "from_hnswlib"});
    HMANN_RETURN_IF_ERROR(CheckKeys(job.build, keys));
    build_.base = job.base;
    build_.rows = job.rows;
    build_.metric = job.metric;
    build_.m = job.m;
    build_.ef_construction = job.ef_construction;
    build_.threads = job.threads;
    if (job.build.contains("promote")) {
      HMANN_ASSIGN_OR_RETURN(build_.promote, FractionIn(job.build, "promote", 0));
    }
    HMANN_ASSIGN_OR_RETURN(const double alpha, FractionIn(job.build, "alpha", build_.alpha));
    build_.alpha = static_cast<float>(alpha);
    const auto read = [&](const char* name, auto* field, int least, int most) -> absl::Status {
      if (!job.build.contains(name)) return absl::OkStatus();
      HMANN_ASSIGN_OR_RETURN(const std::uint64_t value, NumberIn(job.build, name, least, most));
      *field = static_cast<std::uint32_t>(value);
      return absl::OkStatus();
    };
    HMANN_RETURN_IF_ERROR(read("bits", &build_.bits, 0, 4));
    HMANN_RETURN_IF_ERROR(read("replicas", &build_.replicas, 1, 4));
    HMANN_RETURN_IF_ERROR(read("m", &build_.m, 2, 512));
    HMANN_RETURN_IF_ERROR(read("ef_construction", &build_.ef_construction, 1, 100000));
    if (job.build.contains("seed")) {
      HMANN_ASSIGN_OR_RETURN(build_.seed, NumberIn(job.build, "seed", 0, ~std::uint64_t{0}));
    }
    HMANN_RETURN_IF_ERROR(CheckWords(job.build));
    return ReadOpening(job.build);
  }

  absl::Status Build(const AdapterJob& job, const VectorFile& base, const std::string& path,
                     BuildFigures* figures) override {
    build_.out = path;
    HMANN_RETURN_IF_ERROR(build_.Validate());
    Progress progress;
    HMANN_ASSIGN_OR_RETURN(const BuildReport report, hmann::Build(build_, progress));
    for (const PhaseTime& phase : report.phases) {
      if (phase.name != "total") figures->phases.emplace_back(phase.name, phase.seconds);
    }
    figures->index_bytes = report.info.file_bytes;
    return Load(job, base, path);
  }

  absl::Status Save(const std::string&) override {
    return absl::OkStatus();
  }  // Build has written the file

  absl::Status Load(const AdapterJob&, const VectorFile&, const std::string& path) override {
    return Open(path);
  }

  std::uint64_t BytesMadeAtLoad() const override { return ScalarCodes().bytes; }

  absl::Status Prepare(const VectorFile& queries) override {
    const IndexInfo& info = index_->info();
    HMANN_RETURN_IF_ERROR(queries.CheckShape(info.dim, info.dtype, "the index"));
    n_ = queries.n();
    row_bytes_ = queries.row_bytes();
    queries_.resize(n_ * row_bytes_);
    for (std::uint64_t i = 0; i < n_; ++i)
      std::memcpy(queries_.data() + i * row_bytes_, queries.Row(i), row_bytes_);
    return absl::OkStatus();
  }

  absl::Status Set(const nlohmann::json& setting) override {
    HMANN_ASSIGN_OR_RETURN(search_, AskedDials(setting));
    return absl::OkStatus();
  }

  absl::Status SetShape(const RunShape& shape) override {
    if (shape.in_flight > static_cast<int>(kMostInFlight)) {
      return absl::InvalidArgumentError(
          absl::StrCat("in_flight: expected at most ", kMostInFlight, ", found ", shape.in_flight));
    }
    while (searchers_.size() < static_cast<std::size_t>(shape.threads))
      searchers_.emplace_back(index_);
    in_flight_ = shape.in_flight > 1 ? shape.in_flight : usual_in_flight_;
    return absl::OkStatus();
  }

  absl::Status Search(const RunShare& share) override { return Run(share, nullptr); }

  std::vector<std::string> LoadSettings() const override {
    return {"fast",           "slow",      "cache", "cache_bytes", "migration_bytes",
            "helper_threads", "in_flight", "sq"};
  }

  bool CanCount() const override { return true; }
  absl::StatusOr<nlohmann::json> Count(std::uint32_t k, std::uint32_t* ids) override {
    Counters sum;
    HMANN_RETURN_IF_ERROR(Run({0, 0, n_, k, ids, nullptr}, &sum));
    nlohmann::json counts = ToJson(sum, static_cast<double>(n_));
    counts["fast_bytes"] = FastBytes();
    counts["distances"] =
        counts["distances_fast"].get<double>() + counts["distances_slow"].get<double>();
    const IndexInfo& info = index_->info();
    const std::uint64_t scalar_code = ScalarCodes().bytes / info.n;
    counts["lines"] = LinesOf(
        {counts["distances"].get<double>(),
         counts["expanded_l1"].get<double>() + counts["expanded_l0"].get<double>(),
         counts["estimates"].get<double>()},
        {static_cast<std::uint32_t>(info.dim * SizeOf(info.dtype)), info.layers[0].max_degree * 4,
         *open_.sq_bits > 0 ? static_cast<std::uint32_t>(scalar_code) : info.codes.code_bytes});
    return counts;
  }

 private:
  bool HasCodes() const { return index_->info().codes.bits > 0; }

  absl::Status Open(const std::string& path) {
    HMANN_ASSIGN_OR_RETURN(index_, Index::Open(path, open_));
    index_->Warm();
    searchers_.emplace_back(index_);
    return absl::OkStatus();
  }

  /// How an index is opened, whoever has built it.
  absl::Status ReadOpening(const nlohmann::json& build) {
    HMANN_ASSIGN_OR_RETURN(open_.fast, TextIn(build, "fast", open_.fast));
    HMANN_ASSIGN_OR_RETURN(open_.slow, TextIn(build, "slow", open_.slow));
    HMANN_ASSIGN_OR_RETURN(const std::string cache, TextIn(build, "cache", "none"));
    HMANN_ASSIGN_OR_RETURN(open_.cache, ParseCachePolicy(cache));
    if (build.contains("in_flight")) {
      HMANN_ASSIGN_OR_RETURN(const std::uint64_t in_flight,
                             NumberIn(build, "in_flight", 1, kMostInFlight));
      in_flight_ = usual_in_flight_ = static_cast<int>(in_flight);
    }
    if (build.contains("sq")) {
      HMANN_ASSIGN_OR_RETURN(const std::uint64_t bits, NumberIn(build, "sq", 0, 8));
      open_.sq_bits = static_cast<std::uint32_t>(bits);
    }
    if (build.contains("helper_threads")) {
      HMANN_ASSIGN_OR_RETURN(const std::uint64_t threads, NumberIn(build, "helper_threads", 0, 64));
      open_.helper_threads = static_cast<int>(threads);
    }
    for (const auto& [key, value] : {std::pair("cache_bytes", &open_.cache_bytes),
                                     std::pair("migration_bytes", &open_.migration_bytes)}) {
      if (!build.contains(key)) continue;
      HMANN_ASSIGN_OR_RETURN(*value, NumberIn(build, key, 0, std::uint64_t{1} << 48));
    }
    return absl::OkStatus();
  }

  absl::Status CheckWords(const nlohmann::json& build) {
    if (build.contains("method")) {
      HMANN_ASSIGN_OR_RETURN(const std::string method, TextIn(build, "method", ""));
      HMANN_ASSIGN_OR_RETURN(build_.method, ParseBuildMethod(method));
    }
    HMANN_ASSIGN_OR_RETURN(build_.from_hnswlib, TextIn(build, "from_hnswlib", ""));
    if (build.contains("dtype")) {
      HMANN_ASSIGN_OR_RETURN(const std::string dtype, TextIn(build, "dtype", ""));
      HMANN_ASSIGN_OR_RETURN(build_.dtype, ParseDType(dtype));
    }
    return absl::OkStatus();
  }

  /// Empty: it was opened without.
  Placement ScalarCodes() const {
    for (Placement& placement : index_->Placements()) {
      if (placement.structure == "scalar_codes") return std::move(placement);
    }
    return {};
  }

  /// Of the index: all but L0 and the order of labels, which stays in the file.
  std::uint64_t FastBytes() const {
    std::uint64_t bytes = 0;
    for (const Placement& placement : index_->Placements()) {
      const bool slow = placement.structure == "l0" || placement.structure.starts_with("label_");
      bytes += slow ? 0 : placement.bytes;
    }
    return bytes;
  }

  absl::Status Run(const RunShare& share, Counters* counters) {
    SearchOptions options = search_;
    options.k = share.k;
    HMANN_ASSIGN_OR_RETURN(const ResolvedSearch resolved, index_->Resolve(options));
    Searcher& searcher = searchers_[static_cast<std::size_t>(share.thread)];
    if (in_flight_ > 1) return RunMany(share, resolved.dials, searcher, counters);
    Answer found;
    for (std::uint64_t q = share.begin; q < share.end; ++q) {
      const QueryTimer timer(share, q);
      HMANN_RETURN_IF_ERROR(searcher.Search(Query(q), resolved.dials, &found, counters));
      Store(found.nearest, share, q);
    }
    return absl::OkStatus();
  }

  absl::Status RunMany(const RunShare& share, const Dials& dials, Searcher& searcher,
                       Counters* counters) const {
    std::vector<std::optional<QueryTimer>> timers(share.end - share.begin);
    absl::Status first_error;
    const auto begin = [&](std::size_t i) -> const void* {
      timers[i].emplace(share, share.begin + i);
      return Query(share.begin + i);
    };
    const auto done = [&](std::size_t i, const absl::Status& status, Answer& found) {
      timers[i].reset();
      first_error.Update(status);
      if (status.ok()) Store(found.nearest, share, share.begin + i);
    };
    HMANN_RETURN_IF_ERROR(searcher.SearchMany(
        timers.size(), begin, dials, static_cast<std::uint32_t>(in_flight_), done, counters));
    return first_error;
  }

  const std::byte* Query(std::uint64_t q) const { return queries_.data() + q * row_bytes_; }
  static void Store(const std::vector<Neighbour>& found, const RunShare& share, std::uint64_t q) {
    for (std::size_t rank = 0; rank < found.size(); ++rank)
      share.ids[q * share.k + rank] = static_cast<std::uint32_t>(found[rank].label);
  }

  BuildOptions build_;
  OpenOptions open_{.slow = "dram",
                    .sq_bits = 0};  ///< on 2 MiB pages, where nothing else is asked for
  SearchOptions search_;
  std::shared_ptr<const Index> index_;
  std::vector<Searcher> searchers_;  ///< one a thread
  int usual_in_flight_ = 1,
      in_flight_ =
          1;  ///< queries of a thread under way at once: where the setting does not say, and now
  std::uint64_t n_ = 0, row_bytes_ = 0;
  std::vector<std::byte> queries_;
};

}  // namespace
}  // namespace hmann

int main(int argc, char** argv) {
  hmann::HmannAdapter adapter;
  return hmann::RunAdapter(argc, argv, adapter);
}
