// Faiss' IndexHNSWFlat behind the evaluation protocol. All queries are handed over in one call, on one thread: for single queries this
// version clears a visited table of n bytes each time, which its users avoid in the same way.
#include <faiss/Index.h>
#include <faiss/IndexHNSW.h>
#include <faiss/index_io.h>
#include <omp.h>

#include <exception>
#include <memory>

#include "absl/strings/str_cat.h"
#include "eval/adapters/adapter.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

#define HMANN_TEXT_INNER_(x) #x
#define HMANN_TEXT_(x) HMANN_TEXT_INNER_(x)
constexpr const char* kName =
    "Faiss " HMANN_TEXT_(FAISS_VERSION_MAJOR) "." HMANN_TEXT_(FAISS_VERSION_MINOR) "." HMANN_TEXT_(FAISS_VERSION_PATCH) " HNSWFlat";

std::vector<float> Floats(const VectorFile& file, bool normalise) {
  std::vector<float> floats(file.n() * file.dim());
  for (std::uint64_t i = 0; i < file.n(); ++i) ToFloats(file, i, normalise, floats.data() + i * file.dim());
  return floats;
}

class FaissAdapter : public Adapter {
 public:
  std::string Describe() const override { return kName; }

  nlohmann::json DefaultSettings() const override {
    nlohmann::json settings = nlohmann::json::array();
    for (const int ef : {10, 16, 24, 40, 64, 100, 160, 256, 400}) settings.push_back({{"ef", ef}});
    return settings;
  }

  absl::Status Check(const AdapterJob& job, const VectorFile&) override { return CheckKeys(job.build, {}); }

  absl::Status Build(const AdapterJob& job, const VectorFile& base, const std::string&, BuildFigures* figures) override {
    return Guard([&] {
      omp_set_num_threads(job.threads);
      normalise_ = job.metric == Metric::kCosine;
      index_ = std::make_unique<faiss::IndexHNSWFlat>(static_cast<int>(base.dim()), static_cast<int>(job.m),
                                                      job.metric == Metric::kL2 ? faiss::METRIC_L2 : faiss::METRIC_INNER_PRODUCT);
      index_->hnsw.efConstruction = static_cast<int>(job.ef_construction);
      // One call: it sorts the vectors of a call by level, so blocks would give another graph.
      const std::vector<float> floats = Floats(base, normalise_);
      index_->add(static_cast<faiss::Index::idx_t>(base.n()), floats.data());
      const faiss::HNSW& hnsw = index_->hnsw;
      figures->index_bytes = base.n() * base.dim() * sizeof(float) + hnsw.neighbors.size() * sizeof(hnsw.neighbors[0]) +
                             hnsw.offsets.size() * sizeof(hnsw.offsets[0]) + hnsw.levels.size() * sizeof(hnsw.levels[0]);
    });
  }

  absl::Status Save(const std::string& path) override {
    return Guard([&] { faiss::write_index(index_.get(), path.c_str()); });
  }

  absl::Status Load(const AdapterJob& job, const VectorFile&, const std::string& path) override {
    return Guard([&] {
      normalise_ = job.metric == Metric::kCosine;
      std::unique_ptr<faiss::Index> index(faiss::read_index(path.c_str()));
      index_.reset(dynamic_cast<faiss::IndexHNSWFlat*>(index.get()));
      if (index_ != nullptr) [[maybe_unused]]
        auto* moved = index.release();
    });
  }

  absl::Status Prepare(const VectorFile& queries) override {
    if (index_ == nullptr) return absl::InternalError("Faiss: the kept file holds no IndexHNSWFlat");
    n_ = queries.n();
    queries_ = Floats(queries, normalise_);
    omp_set_num_threads(1);
    return absl::OkStatus();
  }

  absl::Status Set(const nlohmann::json& setting) override {
    HMANN_RETURN_IF_ERROR(CheckKeys(setting, {"ef"}));
    HMANN_ASSIGN_OR_RETURN(const std::uint64_t ef, NumberIn(setting, "ef", 1, 1u << 20));
    index_->hnsw.efSearch = static_cast<int>(ef);
    return absl::OkStatus();
  }

  absl::Status Search(const RunShare& share) override {
    distances_.resize(n_ * share.k);
    labels_.resize(n_ * share.k);
    const std::uint64_t dim = queries_.size() / n_;
    // One call for all, unless each query is timed.
    const std::uint64_t step = share.seconds == nullptr ? share.end - share.begin : 1;
    HMANN_RETURN_IF_ERROR(Guard([&] {
      for (std::uint64_t q = share.begin; q < share.end; q += step) {
        const QueryTimer timer(share, q);
        index_->search(static_cast<faiss::Index::idx_t>(step), queries_.data() + q * dim, static_cast<faiss::Index::idx_t>(share.k),
                       distances_.data() + q * share.k, labels_.data() + q * share.k);
      }
    }));
    for (std::uint64_t i = share.begin * share.k; i < share.end * share.k; ++i) {
      share.ids[i] = labels_[i] < 0 ? kNoId : static_cast<std::uint32_t>(labels_[i]);
    }
    return absl::OkStatus();
  }

 private:
  template <typename Work>
  static absl::Status Guard(Work work) {
    try {
      work();
      return absl::OkStatus();
    } catch (const std::exception& error) {
      return absl::InternalError(absl::StrCat("Faiss: ", error.what()));
    }
  }

  std::unique_ptr<faiss::IndexHNSWFlat> index_;
  bool normalise_ = false;
  std::uint64_t n_ = 0;
  std::vector<float> queries_, distances_;
  std::vector<faiss::Index::idx_t> labels_;
};

}  // namespace
}  // namespace hmann

int main(int argc, char** argv) {
  hmann::FaissAdapter adapter;
  return hmann::RunAdapter(argc, argv, adapter);
}
