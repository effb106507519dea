#include "datasets/toolbox/exact_neighbors.h"

#include <faiss/utils/distances.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "datasets/exact_distance.h"
#include "index/base/buffer.h"
#include "index/base/cpu.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"
#include "index/base/thread_pool.h"
#include "index/base/units.h"

namespace hmann {
namespace {

constexpr std::size_t kChunk = 64;  ///< rows or queries that a thread takes at once
constexpr std::uint64_t kFullScanRows = 1 << 16;
/// f32 distances stay finite up to it; EncodeRow requires the same.
constexpr double kLargestSquare = std::numeric_limits<float>::max() / 4;

struct Candidate {
  double distance;
  std::uint64_t id;
  bool operator<(const Candidate& other) const {
    return distance != other.distance ? distance < other.distance : id < other.id;
  }
};

/// The k best so far: a heap with the worst on top.
class Best {
 public:
  void Offer(const Candidate& candidate, std::size_t k) {
    if (heap_.size() == k) {
      if (!(candidate < heap_.front())) return;
      std::pop_heap(heap_.begin(), heap_.end());
      heap_.back() = candidate;
    } else {
      heap_.push_back(candidate);
    }
    std::push_heap(heap_.begin(), heap_.end());
  }
  double Worst() const { return heap_.front().distance; }
  bool Excludes(double distance, std::size_t k) const {
    return heap_.size() == k && distance > Worst();
  }
  void Clear() { heap_.clear(); }
  std::vector<Candidate> TakeSorted() {
    std::sort_heap(heap_.begin(), heap_.end());
    return std::move(heap_);
  }

 private:
  std::vector<Candidate> heap_;
};

/// Rows of a file as f32, normalized under cosine, with what the error bound needs.
struct Block {
  Buffer values;
  std::uint64_t begin = 0, rows = 0;
  double largest_norm = 0;
  std::vector<double> norms;

  const float* data() const { return reinterpret_cast<const float*>(values.data()); }
};

class ExactSearch {
 public:
  ExactSearch(const VectorFile& base, const VectorFile& queries, const ExactOptions& options,
              Progress& progress)
      : base_(base),
        queries_(queries),
        options_(options),
        progress_(progress),
        pool_(options.threads > 0 ? options.threads : UsableCores()),
        dim_(base.dim()) {}

  absl::StatusOr<ExactReport> Run() {
    HMANN_RETURN_IF_ERROR(Check());
    best_.resize(queries_.n());
    least_left_out_.assign(queries_.n(), std::numeric_limits<double>::infinity());
    HMANN_RETURN_IF_ERROR(SearchBlocks());
    ExactReport report;
    HMANN_ASSIGN_OR_RETURN(report.scanned_queries, ScanUnproved());
    GroundTruth& truth = report.truth;
    truth.n = static_cast<std::uint32_t>(queries_.n());
    truth.k = options_.k;
    truth.ids.reserve(queries_.n() * options_.k);
    truth.distances.reserve(queries_.n() * options_.k);
    for (Best& best : best_) {
      for (const Candidate& candidate : best.TakeSorted()) {
        truth.ids.push_back(candidate.id);
        truth.distances.push_back(static_cast<float>(candidate.distance));
      }
    }
    return report;
  }

 private:
  std::uint64_t BlockRows(const VectorFile& file) const {
    return std::min(file.n(),
                    std::max<std::uint64_t>(1, options_.block_bytes / (4 * std::uint64_t{dim_})));
  }

  absl::Status Check() const;
  absl::Status CheckCancelled() const {
    return options_.cancelled != nullptr && options_.cancelled->load(std::memory_order_relaxed)
               ? absl::CancelledError("the work was cancelled")
               : absl::OkStatus();
  }
  absl::Status SearchBlocks();
  absl::Status Load(const VectorFile& file, std::uint64_t begin, std::uint64_t rows, Block* block);
  absl::Status SearchPair(const Block& base, const Block& queries);
  void Measure(const Block& base, const Block& queries, std::size_t wanted);
  absl::StatusOr<std::uint64_t> ScanUnproved();

  double ErrorBound(double query_norm, double base_norm) const {
    const double unit = (dim_ + 8) * 0x1p-24 * 1.01;
    if (options_.metric == Metric::kL2)
      return unit * (query_norm + base_norm) * (query_norm + base_norm);
    return unit * query_norm * base_norm;
  }
  double Exact(std::uint64_t query, std::uint64_t row) const {
    return ExactDistance(queries_.dtype(), base_.dtype(), options_.metric, queries_.Row(query),
                         base_.Row(row), dim_);
  }

  const VectorFile& base_;
  const VectorFile& queries_;
  const ExactOptions& options_;
  Progress& progress_;
  ThreadPool pool_;
  const std::uint32_t dim_;
  std::vector<Best> best_;
  /// Per query: no vector left out so far is nearer than this.
  std::vector<double> least_left_out_;
  std::vector<float> candidate_distances_;
  std::vector<std::int64_t> candidate_ids_;
};

absl::Status ExactSearch::Check() const {
  HMANN_RETURN_IF_ERROR(queries_.CheckShape(base_.dim(), base_.dtype(), base_.path()));
  if (options_.k == 0 || options_.k > base_.n()) {
    return InvalidArgument("k: ", options_.k, " asked for, 1 to ", base_.n(),
                           " expected (the vectors of the base)");
  }
  if (queries_.n() > std::numeric_limits<std::uint32_t>::max()) {
    return InvalidArgument(queries_.path(), ": ", queries_.n(),
                           " queries found, less than 2^32 expected");
  }
  const std::uint64_t wanted =
      queries_.n() * (std::uint64_t{options_.k} * (sizeof(Candidate) + 12) + 64) +
      BlockRows(base_) * dim_ * 4 +
      BlockRows(queries_) *
          (std::uint64_t{dim_} * 4 + 12 * (std::uint64_t{options_.k} + options_.slack));
  const std::uint64_t usable = UsableMemoryBytes();
  if (wanted <= usable) return absl::OkStatus();
  return ResourceExhausted("ground truth: ", FormatSize(wanted), " needed for ", queries_.n(),
                           " queries with ", options_.k, " neighbors, ", FormatSize(usable),
                           " usable");
}

absl::Status ExactSearch::Load(const VectorFile& file, std::uint64_t begin, std::uint64_t rows,
                               Block* block) {
  HMANN_RETURN_IF_ERROR(file.CheckFinite(begin, begin + rows));
  if (block->values.size() < rows * dim_ * 4) {
    HMANN_ASSIGN_OR_RETURN(block->values, Buffer::Allocate(rows * dim_ * 4));
  }
  block->begin = begin;
  block->rows = rows;
  block->norms.assign(rows, 0);
  const bool normalize = options_.metric == Metric::kCosine;
  auto* values = reinterpret_cast<float*>(block->values.data());
  std::atomic<std::uint64_t> bad_row{rows};
  pool_.ParallelFor(rows, kChunk, [&](std::size_t from, std::size_t to, int) {
    for (std::size_t i = from; i < to; ++i) {
      const std::byte* row = file.Row(begin + i);
      float* out = values + i * dim_;
      double square = 0;
      ReadComponents(file.dtype(), row, dim_, out);
      for (std::uint32_t c = 0; c < dim_; ++c) square += double{out[c]} * out[c];
      if (normalize ? square == 0 : square > kLargestSquare) bad_row = i;
      block->norms[i] = normalize ? 1 : std::sqrt(square);
      for (std::uint32_t c = 0; normalize && c < dim_; ++c)
        out[c] = static_cast<float>(out[c] / std::sqrt(square));
    }
  });
  if (bad_row < rows) {
    return InvalidArgument(file.path(), ": row ", begin + bad_row,
                           options_.metric == Metric::kCosine
                               ? ": a zero vector: it has no direction, so cosine is undefined"
                               : ": a squared norm whose f32 distances may overflow");
  }
  block->largest_norm = *std::max_element(block->norms.begin(), block->norms.end());
  return absl::OkStatus();
}

absl::Status ExactSearch::SearchBlocks() {
  Block base, queries;
  const std::uint64_t base_rows = BlockRows(base_), query_rows = BlockRows(queries_);
  base_.Advise(MappedFile::Access::kSequential, 0, base_.n());
  progress_.Start("ground truth", base_.n() * queries_.n(), "distances");
  for (std::uint64_t b = 0; b < base_.n(); b += base_rows) {
    HMANN_RETURN_IF_ERROR(Load(base_, b, std::min(base_rows, base_.n() - b), &base));
    for (std::uint64_t q = 0; q < queries_.n(); q += query_rows) {
      if (query_rows < queries_.n() || b == 0)
        HMANN_RETURN_IF_ERROR(Load(queries_, q, std::min(query_rows, queries_.n() - q), &queries));
      HMANN_RETURN_IF_ERROR(SearchPair(base, queries));
    }
  }
  progress_.Finish();
  return absl::OkStatus();
}

/// Searches in slices of queries, so that progress is visible.
absl::Status ExactSearch::SearchPair(const Block& base, const Block& queries) {
  // Faiss's own block size; fewer if the search can be cancelled.
  const std::uint64_t at_once = options_.cancelled == nullptr ? 4096 : 512;
  const std::size_t wanted =
      std::min<std::uint64_t>(std::uint64_t{options_.k} + options_.slack, base.rows);
  candidate_distances_.resize(queries.rows * wanted);
  candidate_ids_.resize(queries.rows * wanted);
  for (std::uint64_t begin = 0; begin < queries.rows; begin += at_once) {
    HMANN_RETURN_IF_ERROR(CheckCancelled());
    const std::uint64_t n = std::min(at_once, queries.rows - begin);
    const float* x = queries.data() + begin * dim_;
    float* distances = candidate_distances_.data() + begin * wanted;
    std::int64_t* ids = candidate_ids_.data() + begin * wanted;
    const int threads = omp_get_max_threads();
    omp_set_num_threads(pool_.threads());
    try {
      if (options_.metric == Metric::kL2) {
        faiss::knn_L2sqr(x, base.data(), dim_, n, base.rows, wanted, distances, ids);
      } else {
        faiss::knn_inner_product(x, base.data(), dim_, n, base.rows, wanted, distances, ids);
      }
    } catch (const std::exception& error) {
      omp_set_num_threads(threads);
      return Internal("ground truth: Faiss: ", error.what());
    }
    omp_set_num_threads(threads);
    progress_.Advance(n * base.rows);
  }
  Measure(base, queries, wanted);
  return absl::OkStatus();
}

void ExactSearch::Measure(const Block& base, const Block& queries, std::size_t wanted) {
  pool_.ParallelFor(queries.rows, kChunk, [&](std::size_t from, std::size_t to, int) {
    for (std::size_t i = from; i < to; ++i) {
      const std::uint64_t query = queries.begin + i;
      const double bound = ErrorBound(queries.norms[i], base.largest_norm);
      double last = -std::numeric_limits<double>::infinity();
      for (std::size_t j = 0; j < wanted; ++j) {
        const std::int64_t id = candidate_ids_[i * wanted + j];
        if (id < 0) continue;
        const double f32 = candidate_distances_[i * wanted + j];
        const double rough = options_.metric == Metric::kL2       ? f32
                             : options_.metric == Metric::kCosine ? 1 - f32
                                                                  : -f32;
        last = std::max(last, rough);
        if (best_[query].Excludes(rough - bound, options_.k)) continue;
        const std::uint64_t row = base.begin + static_cast<std::uint64_t>(id);
        best_[query].Offer({Exact(query, row), row}, options_.k);
      }
      if (wanted < base.rows)
        least_left_out_[query] = std::min(least_left_out_[query], last - bound);
    }
  });
}

/// Compares the queries whose answers are not proven with the whole base. Returns their
/// number.
absl::StatusOr<std::uint64_t> ExactSearch::ScanUnproved() {
  std::vector<std::uint64_t> open;
  for (std::uint64_t query = 0; query < queries_.n(); ++query) {
    if (!(best_[query].Worst() < least_left_out_[query])) open.push_back(query);
  }
  if (open.empty()) return 0;
  for (const std::uint64_t query : open) best_[query].Clear();
  progress_.Start("ground truth, ties", base_.n() * open.size(), "distances");
  for (std::uint64_t begin = 0; begin < base_.n(); begin += kFullScanRows) {
    HMANN_RETURN_IF_ERROR(CheckCancelled());
    const std::uint64_t end = std::min(base_.n(), begin + kFullScanRows);
    pool_.ParallelFor(open.size(), 1, [&](std::size_t from, std::size_t to, int) {
      for (std::size_t i = from; i < to; ++i) {
        for (std::uint64_t row = begin; row < end; ++row)
          best_[open[i]].Offer({Exact(open[i], row), row}, options_.k);
      }
    });
    progress_.Advance((end - begin) * open.size());
  }
  progress_.Finish();
  return open.size();
}

}  // namespace

absl::StatusOr<ExactReport> ExactNeighbors(const VectorFile& base, const VectorFile& queries,
                                           const ExactOptions& options, Progress& progress) {
  return ExactSearch(base, queries, options, progress).Run();
}

}  // namespace hmann
