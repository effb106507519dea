// hmann behind the protocol that its baselines use. Build settings: {"promote": 0.16,
// "method": "insertion", "alpha": 1.2, "bits": 2, "seed": 1, "from_hnswlib": FILE,
// "memory": BYTES, "rank": "random"}, or {"index": FILE} for a finished index. Settings
// for opening: {"fast": "dram", "slow": "mapped", "cache": "none", "cache_bytes": 0,
// "read_buffer_bytes": 16777216, "sq": 0, "filter": TEXT, "attrs": FILE, "types": TEXT};
// attributes are made from the rows of "attrs". Search settings:
// parameters, as `hmann search --json` names them: {"mode": "graph", "ef_l1": 16,
// "ef_l0": 64}, or {"recall": 0.95}. All are optional.
#include <memory>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "eval/adapters/adapter.h"
#include "eval/adapters/ladder.h"
#include "eval/adapters/lines.h"
#include "eval/adapters/requested_params.h"
#include "hmann/hmann.h"
#include "index/base/status_macros.h"
#include "index/construct/pipeline.h"
#include "index/params/params_json.h"

namespace hmann::eval {
namespace {

using Settings = JsonReader<nlohmann::json>;

/// Reads a whole number if the key is present; otherwise `value` stays as it is.
template <typename T>
void WholeIn(Settings& settings, const char* key, T least, T most, T* value) {
  if (settings.Has(key)) settings.Whole(key, least, most, value);
}

/// Reads a word that `parse` understands.
template <typename T, typename Parse>
void WordIn(Settings& settings, const char* key, Parse parse, T* value) {
  std::optional<std::string> word;
  settings.Text(key, &word);
  if (!word) return;
  const auto parsed = parse(*word);
  parsed.ok() ? void(*value = *parsed) : settings.Reject(parsed.status().message());
}

class HmannAdapter : public Adapter {
 public:
  std::string Describe() const override { return absl::StrCat("hmann ", HMANN_VERSION); }

  /// Requires an open index.
  nlohmann::json DefaultSettings() const override {
    if (matches_ != nullptr && index_->Resolve({.matches = matches_.get(), .recall = 0.8}).ok())
      return {{{"recall", 0.8}}, {{"recall", 0.9}}, {{"recall", 0.95}}, {{"recall", 0.98}}};
    const IndexInfo& info = index_->info();
    return Ladder(info.metric == Metric::kInnerProduct, info.codes.bits > 0, Waits());
  }

  absl::StatusOr<std::optional<BuildFigures>> OpenFinished(const AdapterInput& job) override {
    if (!job.build.contains("index")) return std::nullopt;
    std::vector<std::string> keys = LoadSettings();
    keys.emplace_back("index");
    HMANN_RETURN_IF_ERROR(CheckKeys(job.build, keys));
    absl::Status status;
    Settings settings(job.build, "setting ", absl::StatusCode::kInvalidArgument, &status);
    std::string path;
    settings.Text("index", &path);
    ReadOpening(settings);
    HMANN_RETURN_IF_ERROR(status);
    HMANN_RETURN_IF_ERROR(Open(path));
    return BuildFigures{{"index_bytes", index_->info().file_bytes}, {"index_file", path}};
  }

  bool Waits() const override { return open_.slow.starts_with("nvme"); }

  absl::Status Check(const AdapterInput& job, const VectorFile&) override {
    std::vector<std::string> keys = LoadSettings();
    keys.insert(keys.end(), {"m", "ef_construction", "method", "dtype", "alpha", "promote", "seed",
                             "bits", "replicas", "from_hnswlib", "memory", "rank"});
    HMANN_RETURN_IF_ERROR(CheckKeys(job.build, keys));
    build_.rank_at_random = job.build.value("rank", "degree") == "random";
    build_.base = job.base;
    build_.rows = job.rows;
    build_.metric = job.metric;
    build_.m = job.m;
    build_.ef_construction = job.ef_construction;
    build_.threads = job.threads;
    absl::Status status;
    Settings settings(job.build, "setting ", absl::StatusCode::kInvalidArgument, &status);
    settings.Number("promote", 0, 1, &build_.promote);
    if (settings.Has("alpha")) settings.Number("alpha", 1, 2, &build_.alpha);
    settings.Whole("bits", 0, 4, &build_.bits);
    settings.Whole("replicas", 1, 4, &build_.replicas);
    settings.Whole("m", 2, 512, &build_.m);
    WholeIn<std::uint32_t>(settings, "ef_construction", 1, 100000, &build_.ef_construction);
    WholeIn<std::uint64_t>(settings, "seed", 0, ~std::uint64_t{0}, &build_.seed);
    WholeIn<std::uint64_t>(settings, "memory", 0, ~std::uint64_t{0}, &build_.memory);
    if (settings.Has("from_hnswlib")) settings.Text("from_hnswlib", &build_.from_hnswlib);
    WordIn(settings, "method", ParseBuildMethod, &build_.method);
    WordIn(settings, "dtype", ParseDType, &build_.dtype);
    ReadOpening(settings);
    return status;
  }

  absl::Status Build(const AdapterInput& job, const VectorFile& base, const std::string& path,
                     BuildFigures* figures) override {
    build_.out = path;
    if (build_.memory > 0) build_.work = path + ".work";
    HMANN_RETURN_IF_ERROR(build_.Validate());
    Progress progress;
    HMANN_ASSIGN_OR_RETURN(const BuildReport report, BuildIndex(build_, progress));
    for (const PhaseTime& phase : report.phases)
      if (phase.name != "total") (*figures)["phases"][phase.name] = phase.seconds;
    figures->update({{"index_bytes", report.info.file_bytes},
                     {"peak_anonymous_bytes", report.peak_anonymous_bytes},
                     {"work_bytes", report.work_bytes}});
    return Load(job, base, path);
  }

  absl::Status Load(const AdapterInput&, const VectorFile&, const std::string& path) override {
    return Open(path);
  }

  std::uint64_t BytesMadeAtLoad() const override { return made_bytes_; }

  /// The filter of the settings selects the same rows.
  absl::Status Restrict(const std::string& mask) override {
    return matches_ != nullptr ? absl::OkStatus() : Adapter::Restrict(mask);
  }

  absl::Status Prepare(const VectorFile& queries) override {
    const IndexInfo& info = index_->info();
    HMANN_RETURN_IF_ERROR(queries.CheckShape(info.dim, info.dtype, "the index"));
    row_bytes_ = queries.row_bytes();
    queries_ = CopyRows(queries);
    return absl::OkStatus();
  }

  absl::Status Set(const nlohmann::json& setting) override {
    HMANN_ASSIGN_OR_RETURN(search_, RequestedParams(setting));
    return absl::OkStatus();
  }

  absl::Status SetShape(const RunShape& shape) override {
    if (shape.in_flight > static_cast<int>(kMostInFlight)) {
      return InvalidArgument("in_flight: expected at most ", kMostInFlight, ", found ",
                             shape.in_flight);
    }
    while (searchers_.size() < static_cast<std::size_t>(shape.threads))
      searchers_.emplace_back(index_);
    in_flight_ = shape.in_flight > 1 ? shape.in_flight : usual_in_flight_;
    return absl::OkStatus();
  }

  absl::Status Search(const RunShare& share) override { return Run(share, nullptr); }

  std::vector<std::string> LoadSettings() const override {
    return {"fast",      "slow", "cache", "cache_bytes", "read_buffer_bytes",
            "in_flight", "sq",   "attrs", "types",       "filter"};
  }

  bool CanCount() const override { return true; }
  absl::StatusOr<nlohmann::json> Count(const RunShare& all) override {
    Counters sum;
    HMANN_RETURN_IF_ERROR(Run(all, &sum));
    nlohmann::json counts = ToJson(sum, static_cast<double>(all.end));
    counts["fast_bytes"] = fast_bytes_;
    const auto queries = static_cast<double>(all.end);
    counts["longest_distances"] = static_cast<double>(sum.longest_distances) / queries;
    counts["longest_accesses"] = static_cast<double>(sum.longest_accesses) / queries;
    counts["distances"] =
        counts["distances_fast"].get<double>() + counts["distances_slow"].get<double>();
    const IndexInfo& info = index_->info();
    const std::uint64_t scalar_code = scalar_code_bytes_ / info.n;
    counts["lines"] = LinesOf(
        {counts["distances"].get<double>(),
         counts["expanded_l1"].get<double>() + counts["expanded_l0"].get<double>(),
         counts["estimates"].get<double>()},
        {static_cast<std::uint32_t>(info.dim * SizeOf(info.dtype)), info.layers[0].max_degree * 4,
         scalar_code > 0 ? static_cast<std::uint32_t>(scalar_code) : info.codes.code_bytes});
    return counts;
  }

 private:
  absl::Status Open(const std::string& path) {
    if (!attrs_.from.empty()) {
      Progress progress;
      HMANN_RETURN_IF_ERROR(MakeAttributes(path, attrs_, progress));
    }
    HMANN_ASSIGN_OR_RETURN(index_, Index::Open(path, open_));
    if (!filter_.empty()) {
      HMANN_ASSIGN_OR_RETURN(const Filter filter, Filter::Parse(filter_));
      HMANN_ASSIGN_OR_RETURN(matches_, index_->Filtered(filter));
    }
    index_->Warm();
    searchers_.emplace_back(index_);
    for (const Placement& placement : index_->Placements()) {  // Placements() queries the kernel
      const bool slow = placement.structure == "l0" || placement.structure.starts_with("label_");
      fast_bytes_ += slow ? 0 : placement.bytes;
      if (placement.structure != "scalar_codes") continue;
      scalar_code_bytes_ = placement.bytes;
      made_bytes_ = absl::StrContains(placement.where, "made at load") ? placement.bytes : 0;
    }
    return absl::OkStatus();
  }

  /// Reads the options that open an index, built here or finished.
  void ReadOpening(Settings& settings) {
    for (const auto& [key, text] : {std::pair("fast", &open_.fast),
                                    {"slow", &open_.slow},
                                    {"attrs", &attrs_.from},
                                    {"types", &attrs_.types},
                                    {"filter", &filter_}})
      if (settings.Has(key)) settings.Text(key, text);
    WordIn(settings, "cache", ParseCachePolicy, &open_.cache);
    WholeIn(settings, "in_flight", 1, static_cast<int>(kMostInFlight), &usual_in_flight_);
    in_flight_ = usual_in_flight_;
    settings.Whole("sq", 0, 8, &open_.sq_bits);
    constexpr std::uint64_t kMost = std::uint64_t{1} << 48;
    WholeIn<std::uint64_t>(settings, "cache_bytes", 0, kMost, &open_.cache_bytes);
    WholeIn<std::uint64_t>(settings, "read_buffer_bytes", 0, kMost, &open_.read_buffer_bytes);
  }

  absl::Status Run(const RunShare& share, Counters* counters) {
    SearchParams options = search_;
    options.k = share.k;
    options.matches = matches_.get();
    HMANN_ASSIGN_OR_RETURN(const ResolvedSearch resolved, index_->Resolve(options));
    Searcher& searcher = searchers_[static_cast<std::size_t>(share.thread)];
    if (in_flight_ > 1) return RunMany(share, resolved.params, searcher, counters);
    Answer found;
    for (std::uint64_t q = share.begin; q < share.end; ++q) {
      const QueryTimer timer(share, q);
      HMANN_RETURN_IF_ERROR(searcher.Search(Query(q), resolved.params, &found, counters));
      Store(found.nearest, share, q);
    }
    return absl::OkStatus();
  }

  absl::Status RunMany(const RunShare& share, const ResolvedParams& params, Searcher& searcher,
                       Counters* counters) const {
    std::vector<std::optional<QueryTimer>> timers(share.end - share.begin);
    FirstError first;
    const auto begin = [&](std::size_t i) -> const void* {
      timers[i].emplace(share, share.begin + i);
      return Query(share.begin + i);
    };
    const auto done = [&](std::size_t i, const absl::Status& status, Answer& found) {
      timers[i].reset();
      first.Note(share.begin + i, status);
      if (status.ok()) Store(found.nearest, share, share.begin + i);
    };
    HMANN_RETURN_IF_ERROR(searcher.SearchMany(
        timers.size(), begin, params, static_cast<std::uint32_t>(in_flight_), done, counters));
    return first.Named("query ");
  }

  const std::byte* Query(std::uint64_t q) const { return queries_.data() + q * row_bytes_; }
  static void Store(const std::vector<Neighbor>& found, const RunShare& share, std::uint64_t q) {
    for (std::size_t rank = 0; rank < found.size(); ++rank)
      share.ids[q * share.k + rank] = static_cast<std::uint32_t>(found[rank].label);
  }

  BuildOptions build_;
  OpenOptions open_{.slow = "dram"};  ///< on 2 MiB pages unless requested otherwise
  MakeAttributesOptions attrs_;
  std::string filter_;
  std::shared_ptr<const Matches> matches_;  ///< null: all may be answers
  SearchParams search_;
  std::shared_ptr<const Index> index_;
  std::uint64_t fast_bytes_ = 0;         ///< all but L0 and the label order
  std::uint64_t scalar_code_bytes_ = 0;  ///< in use
  std::uint64_t made_bytes_ = 0;         ///< of them, not in the file
  std::vector<Searcher> searchers_;      ///< one per thread
  /// Queries that a thread keeps in flight: by default, and in the current shape.
  int usual_in_flight_ = 1, in_flight_ = 1;
  std::uint64_t row_bytes_ = 0;
  std::vector<std::byte> queries_;
};

}  // namespace
}  // namespace hmann::eval

int main(int argc, char** argv) {
  hmann::eval::HmannAdapter adapter;
  return hmann::eval::RunAdapter(argc, argv, adapter);
}
