#include "index/format/scalar_codes.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "hmann/search_params.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

/// Components to which a range is fitted.
constexpr std::size_t kSampled = std::size_t{1} << 20;
/// Vectors that are searched for, and the number of their nearest.
constexpr NodeId kQueries = 200;
constexpr std::uint32_t kNearest = 10;

/// Codes are worth their bytes if searches then read at most this share of bytes. They
/// are too coarse if less than this share of the nearest is among the first 4 kNearest by
/// codes, which are those that a search ranks by exact distances. Both are guesses.
constexpr double kWorthwhile = 0.5, kLeastFound = 0.98;

/// The nearest to one vector of the index, among its neighbors and theirs.
struct Neighborhood {
  NodeId query;
  std::vector<NodeId> near;  ///< nearest first
};

class Trial {
 public:
  Trial(const IndexFile& file, const Kernels& kernels) : file_(file), kernels_(kernels) {
    const NodeId n = file.layers().n(), queries = std::min(n, kQueries);
    for (NodeId i = 0; i < queries; ++i) {
      neighborhoods_.push_back(Around(static_cast<NodeId>(std::uint64_t{i} * n / queries)));
      bytes_without_ += static_cast<double>(neighborhoods_.back().near.size() * kernels.row_bytes);
    }
  }

  /// Bytes that scoring all neighborhoods reads: by codes, and by the rows that may be
  /// nearer than the nearest by codes. Infinite if codes miss the nearest.
  double BytesWith(const ScalarQuantizer& codes) const {
    ScalarQuantizer::Scratch scratch;
    std::vector<std::byte> query(codes.query_bytes()), code(codes.code_bytes());
    double bytes = 0;
    std::size_t found = 0, wanted = 0;
    for (const Neighborhood& hood : neighborhoods_) {
      const std::size_t k = std::min<std::size_t>(kNearest, hood.near.size());
      codes.EncodeQuery(file_.Row(hood.query), query.data(), scratch);
      std::vector<std::pair<DistanceKey, std::size_t>> by_code;
      for (std::size_t i = 0; i < hood.near.size(); ++i) {
        codes.Encode(file_.Row(hood.near[i]), code.data(), scratch);
        by_code.emplace_back(codes.kernels().one(query.data(), code.data(), kernels_.dim), i);
      }
      std::sort(by_code.begin(), by_code.end());
      if (k == 0) continue;
      const DistanceKey most = codes.Margin(query.data(), by_code[k - 1].first);
      std::size_t ranked = 0;
      for (; ranked < by_code.size() && (ranked < k || by_code[ranked].first <= most); ++ranked)
        found += ranked < 4 * k && by_code[ranked].second < k ? 1 : 0;
      wanted += k;
      bytes +=
          static_cast<double>(hood.near.size() * codes.code_bytes() + ranked * kernels_.row_bytes);
    }
    const bool finds = static_cast<double>(found) >= kLeastFound * static_cast<double>(wanted);
    return finds ? bytes : std::numeric_limits<double>::infinity();
  }
  double BytesWithout() const { return bytes_without_; }

 private:
  Neighborhood Around(NodeId query) const {
    const RecordLayout& records = file_.records();
    std::vector<NodeId> links(records.max_links), ids;
    const auto add = [&](NodeId id) {
      records.UnpackPadded(file_.l0().data() + records.ListOffset(id), links.data());
      for (const NodeId link : links)
        if (link < records.n && link != query) ids.push_back(link);
    };
    add(query);
    for (std::size_t i = 0, end = ids.size(); i < end; ++i) add(ids[i]);
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    std::vector<std::pair<DistanceKey, NodeId>> keys;
    keys.reserve(ids.size());
    for (const NodeId id : ids)
      keys.emplace_back(kernels_.one(file_.Row(query), file_.Row(id), kernels_.dim), id);
    std::sort(keys.begin(), keys.end());
    Neighborhood hood{query, {}};
    for (const auto& [key, id] : keys) hood.near.push_back(id);
    return hood;
  }

  const IndexFile& file_;
  const Kernels& kernels_;
  std::vector<Neighborhood> neighborhoods_;
  double bytes_without_ = 0;
};

}  // namespace

absl::StatusOr<ScalarQuantizer> LearnScalarCodes(
    const Kernels& kernels, std::uint32_t bits, std::size_t n,
    const std::function<const std::byte*(NodeId)>& row) {
  const std::size_t count = std::min(n, std::max<std::size_t>(256, kSampled / kernels.dim));
  return ScalarQuantizer::Learn(
      kernels, bits, count, [&](std::size_t i) { return row(static_cast<NodeId>(i * n / count)); });
}

bool MayHaveScalarCodes(DType dtype, std::uint64_t n, std::uint32_t row_bytes) {
  return IsFloat(dtype) && n > kFewVectors && row_bytes > kCacheLineBytes;
}

absl::StatusOr<std::optional<ScalarQuantizer>> ChooseScalarCodes(const IndexFile& file) {
  const IndexInfo& info = file.info();
  std::optional<ScalarQuantizer> best;
  if (!MayHaveScalarCodes(info.dtype, info.n, file.records().row_bytes) || file.layers().top() == 0)
    return best;
  HMANN_ASSIGN_OR_RETURN(const Kernels kernels, ChooseKernels(info.dtype, info.metric, info.dim));
  const Trial trial(file, kernels);
  double least = kWorthwhile * trial.BytesWithout();
  for (const std::uint32_t bits : {4u, 8u}) {
    HMANN_ASSIGN_OR_RETURN(
        ScalarQuantizer codes,
        LearnScalarCodes(kernels, bits, info.n, [&](NodeId id) { return file.Row(id); }));
    const double bytes = trial.BytesWith(codes);
    if (bytes >= least) continue;
    least = bytes;
    best = std::move(codes);
  }
  return best;
}

}  // namespace hmann
