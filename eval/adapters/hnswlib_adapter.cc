// hnswlib behind the evaluation protocol. {"distance": "float"} (default) is its usual
// way with such data; {"distance": "u8"} is its integer L2. {"level0": "mapped"} leaves
// level 0 in the index's file, mapped for random access. This is a separate program,
// compiled for the local CPU, so neither its flags nor its headers meet the engine's
// objects.
#include <cstring>
#include <memory>
#include <type_traits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "eval/adapters/adapter.h"
#include "eval/adapters/hnswlib_build.h"
#include "eval/adapters/hnswlib_mapped.h"
#include "index/base/status_macros.h"

namespace hmann::eval {
namespace {

/// A row in the form that the space computes on.
void Convert(const VectorFile& file, std::uint64_t i, bool normalize, float* out) {
  ToFloats(file, i, normalize, out);
}
void Convert(const VectorFile& file, std::uint64_t i, bool /*normalize*/, std::uint8_t* out) {
  std::memcpy(out, file.Row(i), file.dim());
}

#if __has_include(<hnswlib/stop_condition.h>)  // 0.8, not Debian's
constexpr const char* kVersion = "hnswlib 0.8";
constexpr bool kFilters = true;
struct MaskFilter : hnswlib::BaseFilterFunctor {
  bool operator()(hnswlib::labeltype row) override { return (mask[row / 8] >> row % 8 & 1) != 0; }
  std::string mask;
};
#else
constexpr const char* kVersion = "hnswlib 0.6.2";
constexpr bool kFilters = false;
struct MaskFilter {
  std::string mask;
};
#endif

/// Replaces a space's distance function during its lifetime and counts the calls. Only
/// one may exist at a time, on one thread.
template <typename Dist>
class CountedDistance {
 public:
  explicit CountedDistance(hnswlib::HierarchicalNSW<Dist>& index) : index_(index) {
    own_ = index.fstdistfunc_;
    calls_ = 0;
    index.fstdistfunc_ = Call;
  }
  ~CountedDistance() { index_.fstdistfunc_ = own_; }
  CountedDistance(const CountedDistance&) = delete;
  CountedDistance& operator=(const CountedDistance&) = delete;
  std::uint64_t calls() const { return calls_; }

 private:
  static Dist Call(const void* a, const void* b, const void* dim) {
    ++calls_;
    return own_(a, b, dim);
  }

  hnswlib::HierarchicalNSW<Dist>& index_;
  static inline hnswlib::DISTFUNC<Dist> own_ = nullptr;
  static inline std::uint64_t calls_ = 0;
};

/// One graph over one distance type.
template <typename Dist>
class Graph {
 public:
  using Component = std::conditional_t<std::is_same_v<Dist, int>, std::uint8_t, float>;

  Graph(std::unique_ptr<hnswlib::SpaceInterface<Dist>> space, std::uint32_t dim, bool normalize)
      : space_(std::move(space)), dim_(dim), normalize_(normalize) {}

  void Build(const AdapterInput& job, const VectorFile& base) {
    index_ = std::make_unique<hnswlib::HierarchicalNSW<Dist>>(space_.get(), base.n(), job.m,
                                                              job.ef_construction);
    AddRows(base.n(), job.threads, [&](std::uint64_t i) {
      thread_local std::vector<Component> row;
      row.resize(dim_);
      Convert(base, i, normalize_, row.data());
      index_->addPoint(row.data(), i);
    });
  }

  void Save(const std::string& path) { index_->saveIndex(path); }
  void Load(const std::string& path) {
    index_ = std::make_unique<hnswlib::HierarchicalNSW<Dist>>(space_.get(), path);
  }
  absl::Status Map(const std::string& path) {
    index_.reset();
    HMANN_ASSIGN_OR_RETURN(mapped_, MappedHnswlib<Dist>::Open(path, space_.get()));
    return absl::OkStatus();
  }

  std::uint64_t Bytes() const { return BytesOf(*index_); }

  void Prepare(const VectorFile& queries) {
    queries_.resize(queries.n() * dim_);
    for (std::uint64_t i = 0; i < queries.n(); ++i)
      Convert(queries, i, normalize_, queries_.data() + i * dim_);
  }

  void Restrict(const std::string& mask) { filter_.mask = mask; }
  void SetEf(std::uint64_t ef) { index().setEf(ef); }

  /// Answers all queries and returns the number of distances computed.
  std::uint64_t Count(const RunShare& all) const {
    const CountedDistance<Dist> counted(index());
    Search(all);
    return counted.calls();
  }

  void Search(const RunShare& share) const {
    for (std::uint64_t q = share.begin; q < share.end; ++q) {
      const QueryTimer timer(share, q);
      auto found = Nearest(queries_.data() + q * dim_, share.k);
      std::uint32_t* ids = share.ids + q * share.k;
      for (std::size_t rank = found.size(); rank-- > 0; found.pop())
        ids[rank] = static_cast<std::uint32_t>(found.top().second);
    }
  }

 private:
  auto Nearest(const Component* query, std::uint32_t k) const {
    if constexpr (kFilters) {
      if (!filter_.mask.empty()) return index().searchKnn(query, k, &filter_);
    }
    return index().searchKnn(query, k);
  }
  hnswlib::HierarchicalNSW<Dist>& index() const {
    return index_ != nullptr ? *index_ : *mapped_.index();
  }

  std::unique_ptr<hnswlib::SpaceInterface<Dist>> space_;
  std::unique_ptr<hnswlib::HierarchicalNSW<Dist>> index_;
  MappedHnswlib<Dist> mapped_;  ///< used if index_ is null
  std::uint32_t dim_;
  bool normalize_;
  mutable MaskFilter filter_;  ///< hnswlib takes a pointer to it, and only reads
  std::vector<Component> queries_;
};

class HnswlibAdapter : public Adapter {
 public:
  std::string Describe() const override {
    return absl::StrCat(kVersion, ", ", integer_ ? "u8" : "float",
                        mapped_ ? ", level 0 mapped" : "");
  }

  nlohmann::json DefaultSettings() const override {
    nlohmann::json settings = nlohmann::json::array();
    for (const int ef : {10, 14, 20, 28, 40, 56, 80, 112, 160, 224, 320, 480})
      settings.push_back({{"ef", ef}});
    return settings;
  }

  absl::Status Check(const AdapterInput& job, const VectorFile& base) override {
    HMANN_RETURN_IF_ERROR(CheckKeys(job.build, {"distance", "level0"}));
    const nlohmann::json distance = job.build.value("distance", nlohmann::json("float"));
    if (distance != "float" && distance != "u8")
      return InvalidArgument("setting distance: expected float or u8, found ", JsonText(distance));
    integer_ = distance == "u8";
    const nlohmann::json level0 = job.build.value("level0", nlohmann::json("memory"));
    if (level0 != "memory" && level0 != "mapped")
      return InvalidArgument("setting level0: expected memory or mapped, found ", JsonText(level0));
    maps_ = level0 == "mapped";
    if (integer_ && (base.dtype() != DType::kU8 || job.metric != Metric::kL2)) {
      return InvalidArgument("hnswlib's integer distance: expected u8 under l2, found ",
                             std::string(Name(base.dtype())), " under ",
                             std::string(Name(job.metric)));
    }
    if (integer_) {
      graph_.emplace<Graph<int>>(std::make_unique<hnswlib::L2SpaceI>(base.dim()), base.dim(),
                                 false);
    } else if (job.metric == Metric::kL2) {
      graph_.emplace<Graph<float>>(std::make_unique<hnswlib::L2Space>(base.dim()), base.dim(),
                                   false);
    } else {
      graph_.emplace<Graph<float>>(std::make_unique<hnswlib::InnerProductSpace>(base.dim()),
                                   base.dim(), job.metric == Metric::kCosine);
    }
    return absl::OkStatus();
  }

  absl::Status Build(const AdapterInput& job, const VectorFile& base, const std::string&,
                     BuildFigures* figures) override {
    return WithGraph(graph_, [&](auto& graph) {
      graph.Build(job, base);
      (*figures)["index_bytes"] = graph.Bytes();
    });
  }
  absl::Status Save(const std::string& path) override {
    return WithGraph(graph_, [&](auto& graph) { graph.Save(path); });
  }
  absl::Status Load(const AdapterInput&, const VectorFile&, const std::string& path) override {
    mapped_ = maps_;
    if (maps_) return WithGraph(graph_, [&](auto& graph) { return graph.Map(path); });
    return WithGraph(graph_, [&](auto& graph) { graph.Load(path); });
  }
  absl::Status Restrict(const std::string& mask) override {
    if (!kFilters) return Adapter::Restrict(mask);
    return WithGraph(graph_, [&](auto& graph) { graph.Restrict(mask); });
  }
  absl::Status Prepare(const VectorFile& queries) override {
    return WithGraph(graph_, [&](auto& graph) { graph.Prepare(queries); });
  }
  absl::Status Set(const nlohmann::json& setting) override {
    HMANN_RETURN_IF_ERROR(CheckKeys(setting, {"ef"}));
    HMANN_ASSIGN_OR_RETURN(const std::uint64_t ef, NumberIn(setting, "ef", 1, 1u << 20));
    return WithGraph(graph_, [&](auto& graph) { graph.SetEf(ef); });
  }
  absl::Status SetShape(const RunShape& shape) override {
    if (shape.in_flight == 1) return absl::OkStatus();
    return InvalidArgument(Describe(), ": expected in_flight 1, found ", shape.in_flight);
  }
  absl::Status Search(const RunShare& share) override {
    return WithGraph(graph_, [&](auto& graph) { graph.Search(share); });
  }

  bool CanCount() const override { return true; }
  absl::StatusOr<nlohmann::json> Count(const RunShare& all) override {
    double distances = 0;
    HMANN_RETURN_IF_ERROR(WithGraph(graph_, [&](auto& graph) {
      distances = static_cast<double>(graph.Count(all)) / static_cast<double>(all.end);
    }));
    return nlohmann::json{{"distances", distances}};
  }

  std::vector<std::string> LoadSettings() const override { return {"level0"}; }
  bool ServesFromFile() const override { return maps_; }

 private:
  bool integer_ = false, maps_ = false;
  bool mapped_ = false;  ///< load the index mapped; same build and file
  std::variant<std::monostate, Graph<float>, Graph<int>> graph_;
};

}  // namespace
}  // namespace hmann::eval

int main(int argc, char** argv) {
  hmann::eval::HnswlibAdapter adapter;
  return hmann::eval::RunAdapter(argc, argv, adapter);
}
