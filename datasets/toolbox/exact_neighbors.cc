#include "datasets/toolbox/exact_neighbors.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "datasets/exact_distance.h"
#include "index/base/buffer.h"
#include "index/base/cpu.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"
#include "index/base/thread_pool.h"
#include "index/base/units.h"
#include "index/distance/check_norm.h"

namespace hmann {
namespace {

constexpr std::size_t kChunk = 64;  ///< rows that a thread takes at once
/// Queries that a thread takes at once, and rows that stay in its cache meanwhile.
constexpr std::size_t kQueriesAtOnce = 32, kRowsAtOnce = 256;
constexpr double kRound = 0x1p-24 * 1.01;  ///< the relative error of an f32

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
  double Worst(std::size_t k) const {
    return heap_.size() == k ? heap_.front().distance : std::numeric_limits<double>::infinity();
  }
  std::vector<Candidate> TakeSorted() {
    std::sort_heap(heap_.begin(), heap_.end());
    return std::move(heap_);
  }

 private:
  std::vector<Candidate> heap_;
};

/// Rows of a file for the kernel: as they are, or as f32, normalized under cosine.
struct Block {
  Buffer values;
  std::uint64_t begin = 0;
  std::vector<const std::byte*> rows;
  std::vector<double> norms;  ///< of f32 before they are normalized
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
        dim_(base.dim()),
        whole_(!IsFloat(base.dtype()) && options.metric != Metric::kCosine) {}

  absl::StatusOr<GroundTruth> Run() {
    HMANN_RETURN_IF_ERROR(Check());
    best_.resize(queries_.n());
    // Differences lose nothing to the size of what they are differences of.
    HMANN_ASSIGN_OR_RETURN(
        kernels_,
        ChooseKernels(whole_ ? base_.dtype() : DType::kF32,
                      options_.metric == Metric::kCosine ? Metric::kL2 : options_.metric, dim_));
    progress_.Start("ground truth", base_.n() * queries_.n(), "distances");
    HMANN_RETURN_IF_ERROR(options_.among ? SearchAmong() : SearchBlocks());
    progress_.Finish();
    GroundTruth truth;
    truth.metric = options_.metric;
    truth.n = static_cast<std::uint32_t>(queries_.n());
    truth.k = options_.k;
    truth.ids.reserve(queries_.n() * options_.k);
    truth.distances.reserve(queries_.n() * options_.k);
    for (Best& best : best_) {
      for (const Candidate& candidate : best.TakeSorted()) {
        truth.ids.push_back(candidate.id);
        const auto rounded = static_cast<float>(candidate.distance);
        const bool vanished = rounded == 0 && candidate.distance != 0;
        truth.distances.push_back(vanished ? std::copysign(kVanished, rounded) : rounded);
      }
      const std::size_t end = std::size_t{options_.k} * (&best - best_.data() + 1);
      truth.ids.resize(end, kNoNeighbor);
      truth.distances.resize(end, std::numeric_limits<float>::infinity());
    }
    return truth;
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
  absl::Status SearchAmong();
  absl::Status Load(const VectorFile& file, std::uint64_t begin, std::uint64_t count, Block* block);
  absl::Status Convert(const VectorFile& file, Block* block);
  void Compare(const Block& base, const Block& queries, std::size_t from, std::size_t to);

  /// The least distance, as Exact gives it, of two rows at which the kernel finds
  /// `found`. `norms`: the product of theirs.
  double LowerBound(float found, double norms) const {
    if (whole_) return std::abs(found) < 0x1p24f ? found : found - std::abs(found) * kRound;
    // See reference.h: of the terms, and what f32 cannot hold.
    const double share = (dim_ / 4.0 + 8) * kRound, vanished = dim_ * 0x1p-148;
    if (options_.metric == Metric::kInnerProduct) return found - share * norms - vanished;
    const double square = std::max(0.0, found * (1 - share) - vanished);
    if (options_.metric == Metric::kL2) return square;
    // Normalized rows were rounded, and so are doubles.
    const double apart = std::max(0.0, std::sqrt(square) - 2 * kRound);
    return apart * apart / 2 - (dim_ + 8) * 0x1p-52;
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
  const bool whole_;  ///< kernel distances are sums of whole numbers
  Kernels kernels_;
  std::vector<Best> best_;
};

absl::Status ExactSearch::Check() const {
  HMANN_RETURN_IF_ERROR(queries_.CheckShape(base_.dim(), base_.dtype(), base_.path()));
  HMANN_RETURN_IF_ERROR(base_.CheckScale(options_.metric));
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
      (BlockRows(base_) + BlockRows(queries_)) * (std::uint64_t{dim_} * 4 + 16);
  const std::uint64_t usable = UsableMemoryBytes();
  if (wanted <= usable) return absl::OkStatus();
  return ResourceExhausted("ground truth: ", FormatSize(wanted), " needed for ", queries_.n(),
                           " queries with ", options_.k, " neighbors, ", FormatSize(usable),
                           " usable");
}

absl::Status ExactSearch::Load(const VectorFile& file, std::uint64_t begin, std::uint64_t count,
                               Block* block) {
  HMANN_RETURN_IF_ERROR(file.CheckFinite(begin, begin + count));
  block->begin = begin;
  block->rows.resize(count);
  block->norms.assign(count, 0);
  for (std::uint64_t i = 0; i < count; ++i) block->rows[i] = file.Row(begin + i);
  return whole_ ? absl::OkStatus() : Convert(file, block);
}

absl::Status ExactSearch::Convert(const VectorFile& file, Block* block) {
  const std::uint64_t count = block->rows.size();
  if (block->values.size() < count * dim_ * sizeof(float)) {
    HMANN_ASSIGN_OR_RETURN(block->values, Buffer::Allocate(count * dim_ * sizeof(float)));
  }
  auto* values = reinterpret_cast<float*>(block->values.data());
  pool_.ParallelFor(count, kChunk, [&](std::size_t from, std::size_t to, int) {
    for (std::size_t i = from; i < to; ++i) {
      float* out = values + i * dim_;
      ReadComponents(file.dtype(), block->rows[i], dim_, out);
      block->rows[i] = reinterpret_cast<const std::byte*>(out);
      double square = 0;
      for (std::uint32_t c = 0; c < dim_; ++c) square += double{out[c]} * out[c];
      block->norms[i] = std::sqrt(square);
      if (options_.metric != Metric::kCosine || square == 0) continue;
      for (std::uint32_t c = 0; c < dim_; ++c)
        out[c] = static_cast<float>(out[c] / block->norms[i]);
    }
  });
  for (std::uint64_t i = 0; i < count; ++i) {
    const absl::Status valid = CheckNorm(options_.metric, block->norms[i] * block->norms[i]);
    if (valid.ok()) continue;
    return InvalidArgument(file.path(), ": row ", block->begin + i, ": ", valid.message());
  }
  return absl::OkStatus();
}

absl::Status ExactSearch::SearchBlocks() {
  Block base, queries;
  const std::uint64_t base_rows = BlockRows(base_), query_rows = BlockRows(queries_);
  base_.Advise(MappedFile::Access::kSequential, 0, base_.n());
  for (std::uint64_t b = 0; b < base_.n(); b += base_rows) {
    HMANN_RETURN_IF_ERROR(Load(base_, b, std::min(base_rows, base_.n() - b), &base));
    for (std::uint64_t q = 0; q < queries_.n(); q += query_rows) {
      const std::uint64_t count = std::min(query_rows, queries_.n() - q);
      if (query_rows < queries_.n() || b == 0)
        HMANN_RETURN_IF_ERROR(Load(queries_, q, count, &queries));
      const std::size_t share = count / static_cast<std::size_t>(pool_.threads());
      pool_.ParallelFor(
          count, std::clamp<std::size_t>(share, 1, kQueriesAtOnce),
          [&](std::size_t from, std::size_t to, int) { Compare(base, queries, from, to); });
      HMANN_RETURN_IF_ERROR(CheckCancelled());
    }
  }
  return absl::OkStatus();
}

absl::Status ExactSearch::SearchAmong() {
  Block checked;
  for (const VectorFile* file : {&base_, &queries_}) {
    for (std::uint64_t i = 0; i < file->n(); i += BlockRows(*file))
      HMANN_RETURN_IF_ERROR(Load(*file, i, std::min(BlockRows(*file), file->n() - i), &checked));
  }
  std::vector<FirstError> errors(static_cast<std::size_t>(pool_.threads()));
  pool_.ParallelFor(queries_.n(), 1, [&](std::size_t from, std::size_t to, int thread) {
    for (std::size_t query = from; query < to && CheckCancelled().ok(); ++query) {
      const absl::StatusOr<std::vector<std::uint64_t>> rows = options_.among(query);
      errors[thread].Note(query, rows.status());
      if (!rows.ok()) continue;
      for (const std::uint64_t row : *rows)
        best_[query].Offer({Exact(query, row), row}, options_.k);
      progress_.Advance(base_.n());
    }
  });
  FirstError first;
  for (const FirstError& error : errors) first.Note(error.item, error.status);
  HMANN_RETURN_IF_ERROR(first.Named("query "));
  return CheckCancelled();
}

void ExactSearch::Compare(const Block& base, const Block& queries, std::size_t from,
                          std::size_t to) {
  std::vector<DistanceKey> keys((to - from) * kRowsAtOnce);
  for (std::uint64_t first = 0; first < base.rows.size() && CheckCancelled().ok();
       first += kRowsAtOnce) {
    const std::size_t count = std::min<std::size_t>(kRowsAtOnce, base.rows.size() - first);
    kernels_.block(queries.rows.data() + from, to - from, base.rows.data() + first, count, dim_,
                   keys.data(), kRowsAtOnce);
    for (std::size_t i = from; i < to; ++i) {
      const std::uint64_t query = queries.begin + i;
      Best& best = best_[query];
      double worst = best.Worst(options_.k);
      for (std::size_t j = 0; j < count; ++j) {
        const float found = kernels_.ToDistance(keys[(i - from) * kRowsAtOnce + j]);
        // Rows ascend, so an equal distance is no better.
        if (LowerBound(found, queries.norms[i] * base.norms[first + j]) >= worst) continue;
        const std::uint64_t row = base.begin + first + j;
        best.Offer({Exact(query, row), row}, options_.k);
        worst = best.Worst(options_.k);
      }
    }
    progress_.Advance(count * (to - from));
  }
}

}  // namespace

absl::StatusOr<GroundTruth> ExactNeighbors(const VectorFile& base, const VectorFile& queries,
                                           const ExactOptions& options, Progress& progress) {
  return ExactSearch(base, queries, options, progress).Run();
}

}  // namespace hmann
