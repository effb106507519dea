// Faiss behind the evaluation protocol. {"index": "hnsw"} (default) is HNSW over floats.
// "hnsw-sq8" is HNSW over 8 bits a dimension, the best reranked. "ivf" is {"nlist": ...}
// inverted lists of bytes, or of halves (floats, cosine). "ivfpq" is such lists of 4-bit
// product codes in fast-scan order, the best reranked. "nsg" is NSG over floats, out of
// the nearest neighbors that inverted lists find. "imi" is inverted lists by two
// codebooks, over product codes of rotated vectors (OPQ). These two, and those that
// rerank, cannot filter.
//
// All queries go in one call, on one thread. For single queries, this version's HNSW
// clears a visited table of n bytes each time, and its users avoid that in the same way.
// Its fast scan reads a list once for several queries.
#include <faiss/Index.h>
#include <faiss/IndexFlat.h>
#include <faiss/IndexHNSW.h>
#include <faiss/IndexIVFFlat.h>
#include <faiss/IndexIVFPQ.h>
#include <faiss/IndexIVFPQFastScan.h>
#include <faiss/IndexNSG.h>
#include <faiss/IndexPQ.h>
#include <faiss/IndexPreTransform.h>
#include <faiss/IndexRefine.h>
#include <faiss/IndexScalarQuantizer.h>
#include <faiss/VectorTransform.h>
#include <faiss/impl/DistanceComputer.h>
#include <faiss/impl/IDSelector.h>
#include <faiss/impl/io.h>
#include <faiss/index_io.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "eval/adapters/adapter.h"
#include "index/base/status_macros.h"

extern "C" void openblas_set_num_threads(int threads)
    __attribute__((weak));  // absent with another BLAS

namespace hmann::eval {
namespace {

#define HMANN_TEXT_INNER_(x) #x
#define HMANN_TEXT_(x) HMANN_TEXT_INNER_(x)
constexpr const char* kVersion = "Faiss " HMANN_TEXT_(FAISS_VERSION_MAJOR) "." HMANN_TEXT_(
    FAISS_VERSION_MINOR) "." HMANN_TEXT_(FAISS_VERSION_PATCH);

using Id = decltype(faiss::Index::ntotal);

enum class Kind { kHnsw, kHnswSq8, kIvf, kIvfPq, kNsg, kImi };
constexpr const char* kKinds[][2] = {{"hnsw", " HNSWFlat"}, {"hnsw-sq8", " HNSW-SQ8 + refine"},
                                     {"ivf", " IVF"},       {"ivfpq", " IVF-PQ fast-scan + refine"},
                                     {"nsg", " NSG"},       {"imi", " OPQ + IMI"}};

std::vector<float> Floats(const VectorFile& file, bool normalize) {
  std::vector<float> floats(file.n() * file.dim());
  for (std::uint64_t i = 0; i < file.n(); ++i)
    ToFloats(file, i, normalize, floats.data() + i * file.dim());
  return floats;
}

/// Sets Faiss' own threads and those of the BLAS beneath it.
void UseThreads(int threads) {
  omp_set_num_threads(threads);
  if (openblas_set_num_threads != nullptr) openblas_set_num_threads(threads);
}

/// Counts the bytes that would be written: what a search needs.
struct ByteCounter : faiss::IOWriter {
  std::uint64_t bytes = 0;
  std::size_t operator()(const void*, std::size_t size, std::size_t n) override {
    bytes += size * n;
    return n;
  }
};

/// Counts the distances of a search over the vectors of another index.
class CountedVectors : public faiss::Index {
 public:
  explicit CountedVectors(faiss::Index* vectors)
      : Index(vectors->d, vectors->metric_type), vectors_(vectors) {
    ntotal = vectors->ntotal;
  }
  std::uint64_t distances() const { return distances_; }

  faiss::DistanceComputer* get_distance_computer() const override {
    return new Counted(vectors_->get_distance_computer(), distances_);
  }
  void add(Id, const float*) override {}
  void search(Id, const float*, Id, float*, Id*, const faiss::SearchParameters*) const override {}
  void reset() override {}

 private:
  struct Counted : faiss::DistanceComputer {
    Counted(faiss::DistanceComputer* of, std::uint64_t& count) : own(of), calls(count) {}
    void set_query(const float* x) override { own->set_query(x); }
    float operator()(Id i) override { return ++calls, (*own)(i); }
    float symmetric_dis(Id i, Id j) override { return own->symmetric_dis(i, j); }
    std::unique_ptr<faiss::DistanceComputer> own;
    std::uint64_t& calls;
  };

  faiss::Index* vectors_;
  mutable std::uint64_t distances_ = 0;
};

class FaissAdapter : public Adapter {
 public:
  std::string Describe() const override {
    return absl::StrCat(kVersion, kKinds[static_cast<int>(kind_)][1]);
  }

  nlohmann::json DefaultSettings() const override {
    nlohmann::json settings = nlohmann::json::array();
    if (lists()) {
      for (const auto& [nprobe, again] :
           {std::pair(4, 4), {8, 4}, {16, 8}, {32, 8}, {64, 16}, {128, 16}, {256, 32}, {512, 32}}) {
        // The lists of IMI are many and short.
        settings.push_back({{"nprobe", kind_ == Kind::kImi ? 4 * nprobe : nprobe}});
        if (reranks()) settings.back()["refine"] = again;
      }
      return settings;
    }
    for (const int ef : {10, 16, 24, 40, 64, 100, 160, 256, 400}) {
      settings.push_back({{"ef", ef}});
      if (reranks()) settings.back()["refine"] = 2;
    }
    return settings;
  }

  absl::Status Check(const AdapterInput& job, const VectorFile&) override {
    HMANN_RETURN_IF_ERROR(CheckKeys(job.build, {"index", "nlist"}));
    const nlohmann::json index = job.build.value("index", nlohmann::json("hnsw"));
    const auto* kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                    [&](const auto& one) { return index == one[0]; });
    if (kind == std::end(kKinds)) {
      return InvalidArgument(
          "setting index: expected hnsw, hnsw-sq8, ivf, ivfpq, nsg or imi, found ",
          JsonText(index));
    }
    kind_ = static_cast<Kind>(kind - kKinds);
    if (!job.build.contains("nlist")) return absl::OkStatus();
    if (!lists() || kind_ == Kind::kImi)
      return InvalidArgument("setting nlist: expected with ivf and ivfpq only");
    return NumberIn(job.build, "nlist", 1, 1u << 24).status();
  }

  absl::Status Build(const AdapterInput& job, const VectorFile& base, const std::string&,
                     BuildFigures* figures) override {
    return Guard([&] {
      // Training 64 small codebooks is mostly waiting for each other.
      UseThreads(kind_ == Kind::kImi && base.n() < 100'000 ? 1 : job.threads);
      normalize_ = job.metric == Metric::kCosine;
      Adopt(Make(job, base));
      // One call: HNSW sorts the vectors of a call by level, so blocks would give another
      // graph.
      const std::vector<float> floats = Floats(base, normalize_);
      const auto n = static_cast<Id>(base.n());
      if (nsg_ != nullptr) {
        std::vector<Id> near = NearRows(n, static_cast<int>(base.dim()), floats.data());
        nsg_->build(n, floats.data(), near.data(), kNear);
      } else {
        if (!index_->is_trained) index_->train(n, floats.data());
        index_->add(n, floats.data());
      }
      ByteCounter counter;
      faiss::write_index(index_.get(), &counter);
      (*figures)["index_bytes"] = counter.bytes;
    });
  }

  absl::Status Save(const std::string& path) override {
    return Guard([&] { faiss::write_index(index_.get(), path.c_str()); });
  }

  absl::Status Load(const AdapterInput& job, const VectorFile&, const std::string& path) override {
    return Guard([&] {
      normalize_ = job.metric == Metric::kCosine;
      Adopt(std::unique_ptr<faiss::Index>(faiss::read_index(path.c_str())));
    });
  }

  absl::Status Restrict(const std::string& mask) override {
    if (reranks() || kind_ >= Kind::kNsg) return Adapter::Restrict(mask);
    mask_ = mask;
    selector_.emplace(mask_.size(), reinterpret_cast<const std::uint8_t*>(mask_.data()));
    return absl::OkStatus();
  }

  absl::Status Prepare(const VectorFile& queries) override {
    const bool found = lists()               ? ivf_ != nullptr
                       : kind_ == Kind::kNsg ? nsg_ != nullptr
                                             : hnsw_ != nullptr;
    if (!found || (reranks() && refine_ == nullptr)) {
      return Internal("the kept file: expected an index of ", Describe(), ", found another");
    }
    n_ = queries.n();
    queries_ = Floats(queries, normalize_);
    UseThreads(1);
    return absl::OkStatus();
  }

  absl::Status Set(const nlohmann::json& setting) override {
    const char* param = lists() ? "nprobe" : "ef";
    HMANN_RETURN_IF_ERROR(CheckKeys(setting, reranks() ? std::vector<std::string>{param, "refine"}
                                                       : std::vector<std::string>{param}));
    HMANN_ASSIGN_OR_RETURN(const std::uint64_t value, NumberIn(setting, param, 1, 1u << 20));
    if (reranks()) {
      HMANN_ASSIGN_OR_RETURN(const std::uint64_t again, NumberIn(setting, "refine", 1, 1u << 12));
      refine_->k_factor = static_cast<float>(again);
    }
    if (lists()) {
      ivf_->nprobe = of_lists_.nprobe = value;
    } else if (kind_ == Kind::kNsg) {
      // It draws as many nodes to start from, and for ever if there are fewer.
      nsg_->nsg.search_L = static_cast<int>(std::min<std::uint64_t>(value, nsg_->ntotal));
    } else {
      hnsw_->hnsw.efSearch = of_graph_.efSearch = static_cast<int>(value);
    }
    if (selector_) of_lists_.sel = of_graph_.sel = &*selector_;
    return absl::OkStatus();
  }

  absl::Status Search(const RunShare& share) override {
    distances_.resize(n_ * share.k);
    labels_.resize(n_ * share.k);
    const std::uint64_t dim = queries_.size() / n_;
    // One call for all, unless each query is timed.
    const std::uint64_t step = share.seconds == nullptr ? share.end - share.begin : 1;
    const faiss::SearchParameters* params = &of_graph_;
    if (lists()) params = &of_lists_;
    HMANN_RETURN_IF_ERROR(Guard([&] {
      for (std::uint64_t q = share.begin; q < share.end; q += step) {
        const QueryTimer timer(share, q);
        index_->search(static_cast<Id>(step), queries_.data() + q * dim, static_cast<Id>(share.k),
                       distances_.data() + q * share.k, labels_.data() + q * share.k,
                       selector_ ? params : nullptr);
      }
    }));
    for (std::uint64_t i = share.begin * share.k; i < share.end * share.k; ++i) {
      share.ids[i] = labels_[i] < 0 ? kNoId : static_cast<std::uint32_t>(labels_[i]);
    }
    return absl::OkStatus();
  }

  bool CanCount() const override { return !reranks(); }
  absl::StatusOr<nlohmann::json> Count(const RunShare& all) override {
    const auto queries = static_cast<double>(all.end);
    if (lists()) {
      const std::size_t before = faiss::indexIVF_stats.ndis;
      HMANN_RETURN_IF_ERROR(Search(all));
      const auto scored = static_cast<double>(faiss::indexIVF_stats.ndis - before) / queries;
      return nlohmann::json{{kind_ == Kind::kIvf ? "distances" : "estimates", scored}};
    }
    faiss::Index*& vectors = nsg_ != nullptr ? nsg_->storage : hnsw_->storage;
    CountedVectors counted(vectors);
    faiss::Index* const own = std::exchange(vectors, &counted);
    const absl::Status searched = Search(all);
    vectors = own;
    HMANN_RETURN_IF_ERROR(searched);
    return nlohmann::json{{"distances", static_cast<double>(counted.distances()) / queries}};
  }

 private:
  template <typename Work>
  static absl::Status Guard(Work work) {
    try {
      work();
      return absl::OkStatus();
    } catch (const std::exception& error) {
      return Internal("Faiss: ", error.what());
    }
  }

  bool lists() const { return kind_ == Kind::kIvf || kind_ == Kind::kIvfPq || kind_ == Kind::kImi; }
  bool reranks() const { return kind_ == Kind::kHnswSq8 || kind_ == Kind::kIvfPq; }

  /// Creates the index, empty and untrained.
  std::unique_ptr<faiss::Index> Make(const AdapterInput& job, const VectorFile& base) const {
    const auto dim = static_cast<int>(base.dim()), m = static_cast<int>(job.m);
    const faiss::MetricType metric =
        job.metric == Metric::kL2 ? faiss::METRIC_L2 : faiss::METRIC_INNER_PRODUCT;
    std::unique_ptr<faiss::IndexHNSW> hnsw;
    if (kind_ == Kind::kHnsw) hnsw = std::make_unique<faiss::IndexHNSWFlat>(dim, m, metric);
    if (kind_ == Kind::kHnswSq8)
      hnsw = std::make_unique<faiss::IndexHNSWSQ>(dim, faiss::ScalarQuantizer::QT_8bit, m, metric);
    if (hnsw != nullptr) hnsw->hnsw.efConstruction = static_cast<int>(job.ef_construction);
    if (kind_ == Kind::kNsg) return MakeNsg(base.n(), dim, 2 * m, metric);
    if (kind_ == Kind::kImi) return MakeImi(dim);
    std::unique_ptr<faiss::Index> first = std::move(hnsw);
    // Byte vectors are scanned and reranked as bytes.
    const bool bytes = base.dtype() == DType::kU8 && job.metric != Metric::kCosine;
    if (lists()) {
      // Its k-means wants 39 vectors per list; a 4-bit code covers two dimensions.
      const auto by_size = std::min<std::uint64_t>(
          static_cast<std::uint64_t>(4 * std::sqrt(base.n())), base.n() / 39);
      const std::uint64_t nlist = job.build.value("nlist", std::max<std::uint64_t>(by_size, 1));
      auto centroids = std::make_unique<faiss::IndexFlat>(dim, metric);
      std::unique_ptr<faiss::IndexIVF> ivf;
      if (kind_ == Kind::kIvfPq)
        ivf = std::make_unique<faiss::IndexIVFPQFastScan>(centroids.get(), dim, nlist,
                                                          dim % 2 == 0 ? dim / 2 : dim, 4, metric);
      else
        ivf = std::make_unique<faiss::IndexIVFScalarQuantizer>(
            centroids.get(), dim, nlist,
            bytes ? faiss::ScalarQuantizer::QT_8bit_direct : faiss::ScalarQuantizer::QT_fp16,
            metric, false);
      ivf->own_fields = centroids.release() != nullptr;
      first = std::move(ivf);
    }
    if (!reranks()) return first;
    std::unique_ptr<faiss::Index> again;
    if (bytes)
      again = std::make_unique<faiss::IndexScalarQuantizer>(
          dim, faiss::ScalarQuantizer::QT_8bit_direct, metric);
    auto refine = bytes ? std::make_unique<faiss::IndexRefine>(first.get(), again.get())
                        : std::make_unique<faiss::IndexRefineFlat>(first.get());
    refine->own_fields = first.release() != nullptr;
    refine->own_refine_index = true;
    if (bytes) [[maybe_unused]]
      auto* owned = again.release();
    return refine;
  }

  /// The kNear nearest rows of each row, approximately, and sooner than by NN-descent.
  static std::vector<Id> NearRows(Id n, int dim, const float* rows) {
    constexpr Id kBlock = 4096;
    faiss::IndexFlatL2 centroids(dim);
    faiss::IndexIVFFlat lists(&centroids, static_cast<std::size_t>(dim),
                              static_cast<std::size_t>(std::sqrt(n)));
    lists.train(n, rows);
    lists.add(n, rows);
    lists.nprobe = 8;
    std::vector<Id> near(static_cast<std::size_t>(n) * kNear), found(kBlock * (kNear + 1));
    std::vector<Id> others(kNear + 1);  // without the row itself
    std::vector<float> distances(found.size());
    for (Id begin = 0; begin < n; begin += kBlock) {
      const Id count = std::min(kBlock, n - begin);
      lists.search(count, rows + begin * dim, kNear + 1, distances.data(), found.data());
      for (Id i = 0; i < count; ++i) {
        const Id* from = found.data() + i * (kNear + 1);
        std::remove_copy(from, from + kNear + 1, others.begin(), begin + i);
        std::copy_n(others.begin(), kNear, near.begin() + (begin + i) * kNear);
      }
    }
    return near;
  }

  /// With the paper's L and C, and as many links as HNSW has in level 0.
  static std::unique_ptr<faiss::Index> MakeNsg(std::uint64_t n, int dim, int links,
                                               faiss::MetricType metric) {
    auto nsg = std::make_unique<faiss::IndexNSGFlat>(dim, links, metric);
    nsg->nsg.L = static_cast<int>(std::min<std::uint64_t>(70, n));
    nsg->nsg.C = 500;
    return nsg;
  }

  /// With 64 bytes of code, as the paper has, or what divides the dimension.
  static std::unique_ptr<faiss::Index> MakeImi(int dim) {
    int code = std::min(dim, 64);
    while (dim % code != 0) --code;
    auto cells = std::make_unique<faiss::MultiIndexQuantizer>(dim, 2, 8);
    auto lists =
        std::make_unique<faiss::IndexIVFPQ>(cells.get(), dim, std::size_t{1} << 16, code, 8);
    lists->own_fields = cells.release() != nullptr;
    lists->quantizer_trains_alone = 1;
    // Each of 256 centroids in two dimensions: 64 rows tell as much as 256.
    lists->pq.cp.max_points_per_centroid = 64;
    auto turn = std::make_unique<faiss::OPQMatrix>(dim, code);
    turn->niter = 5;  // 50 by default, which take minutes
    turn->max_train_points = 1 << 14;
    auto index = std::make_unique<faiss::IndexPreTransform>(turn.get(), lists.get());
    index->own_fields = turn.release() != nullptr && lists.release() != nullptr;
    return index;
  }

  void Adopt(std::unique_ptr<faiss::Index> index) {
    index_ = std::move(index);
    refine_ = dynamic_cast<faiss::IndexRefine*>(index_.get());
    faiss::Index* first = refine_ == nullptr ? index_.get() : refine_->base_index;
    if (auto* turned = dynamic_cast<faiss::IndexPreTransform*>(first)) first = turned->index;
    nsg_ = dynamic_cast<faiss::IndexNSG*>(first);
    hnsw_ = dynamic_cast<faiss::IndexHNSW*>(first);
    ivf_ = dynamic_cast<faiss::IndexIVF*>(first);
  }

  static constexpr int kNear = 64;

  Kind kind_ = Kind::kHnsw;
  std::unique_ptr<faiss::Index> index_;
  faiss::IndexRefine* refine_ = nullptr;  ///< these four: parts of index_, or null
  faiss::IndexNSG* nsg_ = nullptr;
  faiss::IndexHNSW* hnsw_ = nullptr;
  faiss::IndexIVF* ivf_ = nullptr;
  std::string mask_;
  std::optional<faiss::IDSelectorBitmap> selector_;  ///< over mask_
  faiss::SearchParametersHNSW of_graph_;             ///< these two: with a selector
  faiss::SearchParametersIVF of_lists_;
  bool normalize_ = false;
  std::uint64_t n_ = 0;
  std::vector<float> queries_, distances_;
  std::vector<Id> labels_;
};

}  // namespace
}  // namespace hmann::eval

int main(int argc, char** argv) {
  hmann::eval::FaissAdapter adapter;
  return hmann::eval::RunAdapter(argc, argv, adapter);
}
