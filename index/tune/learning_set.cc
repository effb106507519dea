#include "index/tune/learning_set.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "datasets/recall.h"
#include "datasets/vector_file.h"
#include "index/base/random.h"
#include "index/base/statistics.h"
#include "index/base/status_macros.h"
#include "index/format/reader.h"
#include "index/index_impl.h"
#include "index/tune/exact_search.h"

namespace hmann {
namespace {

/// The queries of a file, `most` of them from place `first` of a random order; `chosen`
/// gets their rows in the file.
absl::Status ReadQueries(const LearningOptions& options, const IndexInfo& info, LearningSet& set,
                         std::vector<std::uint32_t>& chosen) {
  HMANN_ASSIGN_OR_RETURN(VectorFile file, VectorFile::Open(options.queries));
  HMANN_RETURN_IF_ERROR(file.FitQueries(info.dim, info.dtype, "the index"));
  if (file.n() <= options.first) {
    return absl::InvalidArgumentError(absl::StrCat(options.queries, ": expected more than ",
                                                   options.first, " queries to learn from, found ",
                                                   file.n()));
  }
  const std::vector<std::uint32_t> order =
      RandomPermutation(static_cast<std::uint32_t>(file.n()), options.seed);
  const std::uint64_t last = std::min<std::uint64_t>(file.n(), options.first + options.most);
  chosen.assign(order.begin() + static_cast<std::ptrdiff_t>(options.first),
                order.begin() + static_cast<std::ptrdiff_t>(last));
  for (const std::uint32_t row : chosen)
    set.rows.insert(set.rows.end(), file.Row(row), file.Row(row) + set.vector_bytes);
  set.origin = options.queries;
  return absl::OkStatus();
}

/// The rows of `chosen`.
GroundTruth Chosen(const GroundTruth& all, const std::vector<std::uint32_t>& chosen) {
  GroundTruth truth{
      .n = static_cast<std::uint32_t>(chosen.size()), .k = all.k, .ids = {}, .distances = {}};
  for (const std::uint32_t row : chosen) {
    const auto ids = all.Ids(row);
    truth.ids.insert(truth.ids.end(), ids.begin(), ids.end());
    const auto distances = all.Distances(row);
    truth.distances.insert(truth.distances.end(), distances.begin(), distances.end());
  }
  return truth;
}

/// Vectors of an index file as doubles.
class Vectors {
 public:
  explicit Vectors(const IndexFile& file) : file_(file), records_(file.records()) {}

  std::vector<double> operator[](NodeId id) const {
    const std::byte* row = id < records_.n1
                               ? file_.fast_rows().data() + id * file_.fast_row_stride()
                               : file_.l0().data() + records_.Offset(id) + records_.row_offset;
    std::vector<float> components(file_.info().dim);
    ReadComponents(file_.info().dtype, row, file_.info().dim, components.data());
    return {components.begin(), components.end()};
  }

  std::vector<NodeId> Links(NodeId id) const {
    std::vector<NodeId> links(records_.max_links);
    std::memcpy(links.data(), file_.l0().data() + records_.Offset(id) + records_.LinksOffset(id),
                links.size() * sizeof(NodeId));
    std::erase_if(links, [&](NodeId link) { return link >= records_.n; });
    return links;
  }

 private:
  const IndexFile& file_;
  const RecordLayout& records_;
};

double Length(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

void AppendRow(const std::vector<double>& vector, DType dtype, std::vector<std::byte>& rows) {
  for (const double value : vector) {
    if (IsFloat(dtype)) {
      const auto component = static_cast<float>(value);
      const auto* bytes = reinterpret_cast<const std::byte*>(&component);
      rows.insert(rows.end(), bytes, bytes + sizeof(component));
    } else {
      const double low = dtype == DType::kU8 ? 0 : -128, high = dtype == DType::kU8 ? 255 : 127;
      rows.push_back(static_cast<std::byte>(
          static_cast<int>(std::lround(std::clamp(value, low, high))) & 0xff));
    }
  }
}

/// See MakeLearningSet.
void MakeQueries(const LearningOptions& options, const IndexFile& file, LearningSet& set) {
  const Vectors vectors(file);
  const std::uint64_t n = file.info().n;
  for (std::uint64_t i = 0; i < options.most; ++i) {
    const std::uint64_t draw = 3 * (options.first + i);
    const auto id = static_cast<NodeId>(RandomBelow(options.seed, draw, n));
    std::vector<double> query = vectors[id];
    const std::vector<NodeId> links = vectors.Links(id);
    double nearest = 0;
    for (const NodeId link : links) {
      const double distance = Length(query, vectors[link]);
      if (distance > 0 && (nearest == 0 || distance < nearest)) nearest = distance;
    }
    if (links.size() >= 2) {
      const std::size_t a = RandomBelow(options.seed, draw + 1, links.size());
      const std::size_t b =
          (a + 1 + RandomBelow(options.seed, draw + 2, links.size() - 1)) % links.size();
      const std::vector<double> from = vectors[links[a]], to = vectors[links[b]];
      const double length = Length(from, to);
      for (std::size_t j = 0; j < query.size() && length > 0; ++j)
        query[j] += 2 * (to[j] - from[j]) * nearest / length;
    }
    AppendRow(query, file.info().dtype, set.rows);
  }
  set.origin = "made from indexed vectors";
}

/// How often the kernel has given this thread's core to another one that wanted it.
long Preemptions() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}

/// In this time a search has read about as much as the last-level cache of a core's share
/// holds.
constexpr std::chrono::milliseconds kBetweenSettings(5);

/// Runs queries and looks at the clock.
class Runner {
 public:
  Runner(std::shared_ptr<const Index> index, const LearningSet& learning)
      : index_(std::move(index)),
        learning_(learning),
        searcher_(index_),
        counts_apart_(!index_->on_block_tier() && ImplOf(*index_).cache() == nullptr) {}

  absl::StatusOr<Sample> Run(const Dials& setting, std::uint64_t first, std::uint64_t count) {
    constexpr std::uint64_t kBetweenCounted = 4;
    Sample sample;
    times_.clear();
    disturbed_.clear();
    if (counts_apart_) HMANN_RETURN_IF_ERROR(AnswerOthers(setting, first, count));
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t query = (first + i) % learning_.n();
      const long preempted = Preemptions();
      const auto start = std::chrono::steady_clock::now();
      HMANN_RETURN_IF_ERROR(searcher_.Search(learning_.Row(query), setting, &answer_,
                                             counts_apart_ ? nullptr : &sample.counters));
      const double time =
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
              .count();
      (Preemptions() == preempted ? times_ : disturbed_).push_back(time);
      sample.recalls.push_back(static_cast<float>(Recall(query, setting.k)));
      if (counts_apart_ && i % kBetweenCounted == 0) {
        HMANN_RETURN_IF_ERROR(
            searcher_.Search(learning_.Row(query), setting, &answer_, &sample.counters));
      }
    }
    sample.counted = counts_apart_ ? (count + kBetweenCounted - 1) / kBetweenCounted : count;
    if (times_.size() < disturbed_.size())
      times_.insert(times_.end(), disturbed_.begin(), disturbed_.end());
    std::sort(times_.begin(), times_.end());
    const auto timed = static_cast<double>(times_.size());
    for (const double time : times_) sample.mean_us += time / timed;
    sample.p95_us = Percentile(times_, 0.95);
    sample.p99_us = Percentile(times_, 0.99);
    return sample;
  }

 private:
  /// Queries other than those about to be timed, so that the CPU's caches hold what other
  /// queries leave there, not what the same ones left when they ran at the setting
  /// before: that makes a fast setting half again as fast as it will be.
  absl::Status AnswerOthers(const Dials& setting, std::uint64_t first, std::uint64_t count) {
    const auto end = std::chrono::steady_clock::now() + kBetweenSettings;
    for (std::uint64_t i = count; i < learning_.n() && std::chrono::steady_clock::now() < end;
         ++i, ++others_) {
      const std::uint64_t query =
          (first + count + others_ % (learning_.n() - count)) % learning_.n();
      HMANN_RETURN_IF_ERROR(searcher_.Search(learning_.Row(query), setting, &answer_, nullptr));
    }
    return absl::OkStatus();
  }

  double Recall(std::uint64_t query, std::uint32_t k) {
    ids_.clear();
    distances_.clear();
    for (const Neighbour& neighbour : answer_.nearest) {
      ids_.push_back(neighbour.label);
      distances_.push_back(neighbour.distance);
    }
    return RecallAtK(learning_.truth, query, k, ids_, distances_);
  }

  std::shared_ptr<const Index> index_;
  const LearningSet& learning_;
  Searcher searcher_;
  const bool counts_apart_;
  std::uint64_t others_ = 0;
  Answer answer_;
  std::vector<std::uint64_t> ids_;
  std::vector<float> distances_;
  std::vector<double> times_, disturbed_;
};

}  // namespace

absl::StatusOr<LearningSet> MakeLearningSet(const LearningOptions& options, Progress& progress) {
  HMANN_ASSIGN_OR_RETURN(const IndexFile file, IndexFile::Open(options.index));
  const IndexInfo& info = file.info();
  LearningSet set;
  set.vector_bytes = info.dim * SizeOf(QueryType(info.dtype));
  if (options.most == 0)
    return absl::InvalidArgumentError("learning queries: expected at least 1, found 0");
  if (options.k == 0 || options.k > info.n) {
    return absl::InvalidArgumentError(
        absl::StrCat("k: expected 1 to the ", info.n, " vectors of the index, found ", options.k));
  }
  std::vector<std::uint32_t> chosen;
  if (options.queries.empty()) {
    MakeQueries(options, file, set);
  } else {
    HMANN_RETURN_IF_ERROR(ReadQueries(options, info, set, chosen));
  }
  if (options.queries.empty() || options.groundtruth.empty()) {
    HMANN_ASSIGN_OR_RETURN(set.truth, ExactSearch(file, set.rows, options.k, 0, progress));
    return set;
  }
  HMANN_ASSIGN_OR_RETURN(const GroundTruth truth, ReadGroundTruth(options.groundtruth));
  const std::uint64_t needed = std::uint64_t{*std::max_element(chosen.begin(), chosen.end())} + 1;
  if (const absl::Status covers = CheckTruthCovers(truth, needed, options.k); !covers.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(options.groundtruth, ": ", covers.message()));
  }
  set.truth = Chosen(truth, chosen);
  return set;
}

absl::StatusOr<LearningSet> MakeLeftOut(const LearningOptions& options, Progress& progress) {
  HMANN_ASSIGN_OR_RETURN(const IndexFile file, IndexFile::Open(options.index));
  const IndexInfo& info = file.info();
  if (options.most == 0 || options.k == 0 || options.k >= info.n)
    return absl::InvalidArgumentError(absl::StrCat("k: expected 1 to less than the ", info.n,
                                                   " vectors of the index, found ", options.k));
  LearningSet set;
  set.vector_bytes = info.dim * SizeOf(QueryType(info.dtype));
  set.origin = "left out in turn";
  const Vectors vectors(file);
  const std::uint64_t first = info.layers.size() > 2 ? info.layers[2].nodes : 0;
  for (std::uint64_t i = 0; i < options.most; ++i) {
    const auto id = static_cast<NodeId>(first + RandomBelow(options.seed, i, info.n - first));
    set.left_out.push_back(id);
    AppendRow(vectors[id], info.dtype, set.rows);
  }
  HMANN_ASSIGN_OR_RETURN(const GroundTruth with,
                         ExactSearch(file, set.rows, options.k + 1, 0, progress));
  set.truth = {.n = with.n, .k = options.k, .ids = {}, .distances = {}};
  for (std::uint32_t i = 0; i < with.n; ++i) {
    const auto ids = with.Ids(i);
    const auto distances = with.Distances(i);
    const std::uint64_t own = file.Label(set.left_out[i]);
    const auto place = std::find(ids.begin(), ids.end(), own) - ids.begin();
    for (std::ptrdiff_t j = 0; j < static_cast<std::ptrdiff_t>(options.k); ++j) {
      const auto from = static_cast<std::size_t>(j < place ? j : j + 1);
      set.truth.ids.push_back(ids[from]);
      set.truth.distances.push_back(distances[from]);
    }
  }
  return set;
}

Measure MeasureOn(std::shared_ptr<const Index> index, const LearningSet& learning) {
  auto runner = std::make_shared<Runner>(std::move(index), learning);
  return [runner](const Dials& setting, std::uint64_t first, std::uint64_t count) {
    return runner->Run(setting, first, count);
  };
}

}  // namespace hmann
