#include "index/tune/learning_set.h"

#include <algorithm>
#include <utility>

#include "datasets/recall.h"
#include "datasets/vector_file.h"
#include "hmann/calibration.h"
#include "index/base/random.h"
#include "index/base/status_macros.h"
#include "index/format/reader.h"
#include "index/tune/exact_search.h"
#include "index/tune/wide_search.h"

namespace hmann {
namespace {

/// Reads `most` queries of a file from place `first` of a random order; `chosen` gets
/// their rows in the file.
absl::Status ReadQueries(const LearningOptions& options, const IndexInfo& info, LearningSet& set,
                         std::vector<std::uint32_t>& chosen) {
  HMANN_ASSIGN_OR_RETURN(VectorFile file, VectorFile::Open(options.queries));
  HMANN_RETURN_IF_ERROR(file.FitQueries(info.dim, info.dtype, "the index"));
  if (file.n() <= options.first) {
    return InvalidArgument(options.queries, ": expected more than ", options.first,
                           " queries to learn from, found ", file.n());
  }
  const std::vector<std::uint32_t> order =
      RandomPermutation(static_cast<std::uint32_t>(file.n()), options.seed);
  const std::uint64_t last = std::min<std::uint64_t>(file.n(), options.first + options.most);
  chosen.assign(order.begin() + static_cast<std::ptrdiff_t>(options.first),
                order.begin() + static_cast<std::ptrdiff_t>(last));
  for (const std::uint32_t row : chosen) {
    HMANN_RETURN_IF_ERROR(file.CheckFinite(row, row + 1));
    set.rows.insert(set.rows.end(), file.Row(row), file.Row(row) + set.vector_bytes);
  }
  set.origin = options.queries;
  return absl::OkStatus();
}

/// Returns the rows `chosen` of the ground truth.
GroundTruth Chosen(const GroundTruth& all, const std::vector<std::uint32_t>& chosen) {
  GroundTruth truth{.n = static_cast<std::uint32_t>(chosen.size()),
                    .k = all.k,
                    .ids = {},
                    .distances = {},
                    .metric = all.metric};
  for (const std::uint32_t row : chosen) {
    const auto ids = all.Ids(row);
    truth.ids.insert(truth.ids.end(), ids.begin(), ids.end());
    const auto distances = all.Distances(row);
    truth.distances.insert(truth.distances.end(), distances.begin(), distances.end());
  }
  return truth;
}

/// Above this number of distances neighbors are searched for, not computed: seconds on
/// two cores.
constexpr double kMostCompared = 2e9;

/// Finds the k nearest vectors of the index to each query.
absl::StatusOr<GroundTruth> NearestOf(const std::string& index, const IndexFile& file,
                                      std::span<const std::byte> queries, std::uint32_t k,
                                      Progress& progress) {
  const IndexInfo& info = file.info();
  const std::size_t vector_bytes = info.dim * SizeOf(QueryType(info.dtype));
  const std::size_t count = queries.size() / vector_bytes;
  const double distances = static_cast<double>(info.n) * static_cast<double>(count);
  if (distances <= kMostCompared) return ExactSearch(file, queries, k, 0, progress);
  return WideSearch(index, file, queries, k, progress);
}

/// See MakeLearningSet.
absl::Status LeaveOut(const LearningOptions& options, const IndexFile& file, LearningSet& set,
                      Progress& progress) {
  const IndexInfo& info = file.info();
  std::vector<NodeId> chosen;
  HMANN_ASSIGN_OR_RETURN(Draw draw, Draw::Of(file, options.most));
  const NodeId first = info.layers.size() > 2 ? info.layers[2].nodes : 0;
  for (std::uint64_t i = 0; i < options.most; ++i) {
    chosen.push_back(draw.LastCopy(draw.Next(options.seed, options.first + i, first)));
    file.AppendQuery(chosen.back(), set.rows);
  }
  if (options.k == info.n) {
    set.origin = kOfTheIndex;
    HMANN_ASSIGN_OR_RETURN(set.truth,
                           NearestOf(options.index, file, set.rows, options.k, progress));
    return absl::OkStatus();
  }
  set.origin = kLeftOutInTurn;
  set.left_out = std::move(chosen);
  HMANN_ASSIGN_OR_RETURN(set.truth_with_itself,
                         NearestOf(options.index, file, set.rows, options.k + 1, progress));
  const GroundTruth& with = set.truth_with_itself;
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
  return absl::OkStatus();
}

/// Repeats each query in proportion to how many of its nearest in all shards are in this
/// one, and leaves out queries of which none is. There are as many queries as before.
absl::Status WeighByShare(const LearningOptions& options, const GroundTruth& of_all,
                          LearningSet& set) {
  std::vector<std::uint64_t> until = {0};  // neighbors in this shard, of the queries before
  for (std::uint32_t i = 0; i < of_all.n; ++i) {
    const auto all = of_all.Ids(i).first(options.k), here = set.truth.Ids(i);
    const auto both = std::count_if(here.begin(), here.end(), [&](std::uint64_t id) {
      return std::find(all.begin(), all.end(), id) != all.end();
    });
    until.push_back(until.back() + static_cast<std::uint64_t>(both));
  }
  const double share = static_cast<double>(until.back()) / of_all.n / options.k;
  if (share < 0.5 / options.of_shards || share > 2.0 / options.of_shards) {
    return InvalidArgument(options.groundtruth, ": expected the labels of neighbors in all ",
                           options.of_shards, " shards, of which one has about 1 / ",
                           options.of_shards, "; found ", share, " here");
  }
  std::vector<std::uint32_t> drawn, chosen;
  for (std::uint32_t i = 0; i < of_all.n; ++i) {
    drawn.insert(drawn.end(),
                 until[i + 1] * of_all.n / until.back() - until[i] * of_all.n / until.back(), i);
  }
  LearningSet weighed = set;
  weighed.rows.clear();
  // Apart from its copies, so that it finds no warm cache.
  for (const std::uint32_t place : RandomPermutation(of_all.n, options.seed)) {
    const std::uint32_t i = drawn[place];
    chosen.push_back(i);
    weighed.in_shard.push_back(static_cast<std::uint32_t>(until[i + 1] - until[i]));
    weighed.rows.insert(weighed.rows.end(), set.Row(i), set.Row(i) + set.vector_bytes);
  }
  weighed.truth = Chosen(set.truth, chosen);
  set = std::move(weighed);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Draw> Draw::Of(const IndexFile& file, std::uint64_t most) {
  constexpr std::uint64_t kSpare = 3;  // for each: a guess
  const IndexInfo& info = file.info();
  HMANN_ASSIGN_OR_RETURN(const Kernels kernels, ChooseKernels(info.dtype, info.metric, info.dim));
  return Draw(file, kernels, kSpare * most);
}

NodeId Draw::Next(std::uint64_t seed, std::uint64_t i, NodeId first) {
  for (std::uint64_t attempt = 0;; ++attempt) {
    const auto drawn =
        static_cast<NodeId>(first + RandomBelow(seed + attempt, i, file_.info().n - first));
    if (spare_ == 0 || !CopyNextTo(drawn, kNoNode).has_value()) return drawn;
    --spare_;
  }
}

std::optional<NodeId> Draw::CopyNextTo(NodeId node, NodeId but) {
  const RecordLayout& records = file_.records();
  links_.resize(records.max_links);
  records.UnpackPadded(file_.l0().data() + records.ListOffset(node), links_.data());
  links_.resize(CountLinks(links_.data(), records.max_links));
  CopyFinder finder(kernels_);
  const auto found = std::find_if(links_.rbegin(), links_.rend(), [&](NodeId link) {
    return link != but && finder.AreCopies(file_.Row(node), file_.Row(link));
  });
  return found == links_.rend() ? std::nullopt : std::optional(*found);
}

NodeId Draw::LastCopy(NodeId drawn) {
  constexpr int kMostSteps = 2 * 32;  // up from a node, and down
  NodeId node = drawn, before = kNoNode;
  for (int step = 0; step < kMostSteps; ++step) {
    const std::optional<NodeId> next = CopyNextTo(node, before);
    if (!next.has_value() || links_.size() == 1) return node;  // it leads to the one above
    before = std::exchange(node, *next);
  }
  return drawn;
}

absl::StatusOr<LearningSet> MakeLearningSet(const LearningOptions& options, Progress& progress) {
  HMANN_ASSIGN_OR_RETURN(const IndexFile file, IndexFile::Open(options.index));
  const IndexInfo& info = file.info();
  LearningSet set;
  set.of_shards = options.of_shards;
  set.vector_bytes = info.dim * SizeOf(QueryType(info.dtype));
  if (options.most == 0) return InvalidArgument("learning queries: expected at least 1, found 0");
  if (options.k == 0 || options.k > info.n) {
    return InvalidArgument("k: expected 1 to the ", info.n, " vectors of the index, found ",
                           options.k);
  }
  if (options.queries.empty()) {
    HMANN_RETURN_IF_ERROR(LeaveOut(options, file, set, progress));
    return set;
  }
  std::vector<std::uint32_t> chosen;
  HMANN_RETURN_IF_ERROR(ReadQueries(options, info, set, chosen));
  if (options.groundtruth.empty()) {
    HMANN_ASSIGN_OR_RETURN(set.truth,
                           NearestOf(options.index, file, set.rows, options.k, progress));
    return set;
  }
  HMANN_ASSIGN_OR_RETURN(GroundTruth truth, ReadGroundTruth(options.groundtruth));
  truth.metric = info.metric;
  const std::uint64_t needed = std::uint64_t{*std::max_element(chosen.begin(), chosen.end())} + 1;
  if (const absl::Status covers = CheckTruthCovers(truth, needed, options.k); !covers.ok())
    return InvalidArgument(options.groundtruth, ": ", covers.message());
  set.truth = Chosen(truth, chosen);
  if (options.of_shards == 1) return set;
  const GroundTruth of_all = std::move(set.truth);
  HMANN_ASSIGN_OR_RETURN(set.truth, NearestOf(options.index, file, set.rows, options.k, progress));
  HMANN_RETURN_IF_ERROR(WeighByShare(options, of_all, set));
  return set;
}

SearchLimits LearningSet::Limits(std::uint64_t i) const {
  SearchLimits limits;
  if (!left_out.empty()) limits.excluded = left_out[i];
  return limits;
}

LearningSet LearningSet::LeftIn() const {
  LearningSet set = *this;
  set.truth = truth_with_itself;
  set.left_out.clear();
  return set;
}

double LearningSet::RecallOf(std::uint64_t i, std::uint32_t k, const Answer& answer) const {
  std::vector<std::uint64_t> ids;
  std::vector<float> distances;
  for (const Neighbor& neighbor : answer.nearest) {
    ids.push_back(neighbor.label);
    distances.push_back(neighbor.distance);
  }
  if (!in_shard.empty()) return RecallAtK(truth, i, in_shard[i], ids, distances);
  return RecallOfMerged(truth, i, k, of_shards, ids, distances);
}

}  // namespace hmann
