#include "datasets/ground_truth.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "datasets/hdf5_file.h"
#include "datasets/row_layout.h"
#include "index/base/errors.h"
#include "index/base/file.h"
#include "index/base/statistics.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

constexpr std::uint32_t kMostNeighbors = 1u << 24;  ///< with a larger k the file is no ground truth

absl::Status CheckDistances(const std::string& path, const GroundTruth& truth) {
  for (std::size_t i = 0; i < truth.distances.size(); ++i) {
    if (!std::isnan(truth.distances[i])) continue;
    return InvalidArgument(path, ": query ", i / truth.k, ", neighbor ", i % truth.k,
                           ": the distance is NaN");
  }
  return absl::OkStatus();
}

absl::StatusOr<GroundTruth> ReadVecs(const std::string& path) {
  HMANN_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  const auto layout = VecsLayout(path, file.bytes(), 4, 0, kMostNeighbors);
  if (!layout.ok()) return WithFormat(layout.status(), path, file.bytes());
  HMANN_RETURN_IF_ERROR(CheckVecsDims(path, file.bytes(), *layout, 0, layout->n));
  if (layout->n > std::numeric_limits<std::uint32_t>::max()) {
    return InvalidArgument(path, ": ", layout->n, " queries found, less than 2^32 expected");
  }
  GroundTruth truth{
      .n = static_cast<std::uint32_t>(layout->n), .k = layout->dim, .ids = {}, .distances = {}};
  truth.ids.resize(layout->n * layout->dim);
  for (std::uint64_t i = 0; i < layout->n; ++i) {
    for (std::uint32_t j = 0; j < truth.k; ++j) {
      truth.ids[i * truth.k + j] = IdOfFile(
          ReadU32(file.bytes(), layout->offset + i * layout->stride + 4 * std::uint64_t{j}));
    }
  }
  return truth;
}

absl::StatusOr<GroundTruth> ReadHdf5(const std::string& path) {
  HMANN_ASSIGN_OR_RETURN(Hdf5Neighbors file, ReadHdf5Neighbors(path));
  GroundTruth truth{.n = static_cast<std::uint32_t>(file.n),
                    .k = static_cast<std::uint32_t>(file.k),
                    .ids = {},
                    .distances = {}};
  truth.ids.reserve(file.ids.size());
  for (const std::int64_t id : file.ids)
    truth.ids.push_back(id < 0 ? kNoNeighbor : static_cast<std::uint64_t>(id));
  truth.distances.reserve(file.distances.size());
  for (const double d : file.distances)
    truth.distances.push_back(static_cast<float>(file.distance == "euclidean" ? d * d : d));
  return truth;
}

absl::StatusOr<GroundTruth> ReadBare(const std::string& path) {
  HMANN_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  const std::span<const std::byte> bytes = file.bytes();
  if (bytes.size() < 8)
    return InvalidArgument(path, ": ", bytes.size(), " bytes found, a header of 8 expected");
  GroundTruth truth{.n = ReadU32(bytes, 0), .k = ReadU32(bytes, 4), .ids = {}, .distances = {}};
  if (truth.n == 0 || truth.k == 0 || truth.k > kMostNeighbors) {
    return InvalidArgument(path, ": offset 0: ", truth.n, " queries with ", truth.k,
                           " neighbors found, at least 1 of each and at most ", kMostNeighbors,
                           " neighbors expected");
  }
  const std::uint64_t count = std::uint64_t{truth.n} * truth.k;  // below 2^56
  const bool wide = bytes.size() == 8 + 12 * count;
  const bool has_distances = wide || bytes.size() == 8 + 8 * count;
  if (!has_distances && bytes.size() != 8 + 4 * count) {
    return WithFormat(
        InvalidArgument(path, ": ", bytes.size(), " bytes found, ", 8 + 4 * count, " (ids), ",
                        8 + 8 * count, " (ids and distances) or ", 8 + 12 * count,
                        " (ids of 64 bits and distances) expected for ", truth.n, " queries with ",
                        truth.k, " neighbors"),
        path, bytes);
  }
  truth.ids.resize(count);
  if (wide) {
    std::memcpy(truth.ids.data(), bytes.data() + 8, 8 * count);
  } else {
    for (std::uint64_t i = 0; i < count; ++i) truth.ids[i] = IdOfFile(ReadU32(bytes, 8 + 4 * i));
  }
  if (has_distances) {
    truth.distances.resize(count);
    std::memcpy(truth.distances.data(), bytes.data() + bytes.size() - 4 * count, 4 * count);
  }
  return truth;
}

}  // namespace

std::optional<Density> DensityOf(const GroundTruth& truth) {
  if (truth.distances.empty() || truth.k < 10) return std::nullopt;
  std::vector<double> tenths, dims;
  for (std::uint32_t query = 0; query < truth.n; ++query) {
    const std::span<const float> squared = truth.Distances(query);
    if (squared[0] < 0 || !std::isfinite(squared[9])) return std::nullopt;
    tenths.push_back(std::sqrt(squared[9]));
    if (squared[0] == 0 || squared[0] == squared.back() || !std::isfinite(squared.back())) continue;
    double logs = 0;  // of distances, the roots: half of the logs of squares
    for (const float d : squared) logs += std::log(double{d} / squared.back()) / 2;
    dims.push_back(-(truth.k - 1.0) / logs);
  }
  return Density{Median(std::move(tenths)), dims.empty() ? 0 : Median(std::move(dims))};
}

absl::StatusOr<GroundTruth> ReadGroundTruth(const std::string& path) {
  const std::string suffix = FormatSuffix(path);
  HMANN_ASSIGN_OR_RETURN(GroundTruth truth, suffix == ".ivecs" ? ReadVecs(path)
                                            : suffix == ".hdf5" || suffix == ".h5"
                                                ? ReadHdf5(path)
                                                : ReadBare(path));
  HMANN_RETURN_IF_ERROR(CheckDistances(path, truth));
  return truth;
}

absl::Status WriteGroundTruth(const std::string& path, const GroundTruth& truth) {
  const std::string suffix = FormatSuffix(path);
  if (!IsTruthSuffix(suffix))
    return InvalidArgument(path, ": suffix '", suffix, "' found, expected .gt, .ibin or .ivecs");
  const std::uint64_t count = std::uint64_t{truth.n} * truth.k;
  if (count == 0 || truth.ids.size() != count ||
      (!truth.distances.empty() && truth.distances.size() != count)) {
    return InvalidArgument(path, ": ", truth.n, " x ", truth.k, " ground truth with ",
                           truth.ids.size(), " ids and ", truth.distances.size(), " distances");
  }
  const bool vecs = suffix == ".ivecs", no_distances = vecs || suffix == ".ibin";
  const std::uint64_t most = no_distances ? 0x7fffffff : 0xfffffffe;
  std::vector<std::uint32_t> ids(count);
  bool wide = false;
  for (std::uint64_t i = 0; i < count; ++i) {
    ids[i] = static_cast<std::uint32_t>(truth.ids[i]);
    if (truth.ids[i] <= most || truth.ids[i] == kNoNeighbor) continue;
    if (no_distances || truth.distances.empty()) {
      return InvalidArgument(path, ": query ", i / truth.k, ": id ", truth.ids[i],
                             " found, at most ", most, " expected in this format; .gt with ",
                             "distances holds any");
    }
    wide = true;
  }
  HMANN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  if (vecs) {
    for (std::uint32_t i = 0; i < truth.n; ++i) {
      HMANN_RETURN_IF_ERROR(file.Append(&truth.k, 4));
      HMANN_RETURN_IF_ERROR(
          file.Append(ids.data() + std::uint64_t{i} * truth.k, 4 * std::size_t{truth.k}));
    }
    return file.Commit();
  }
  HMANN_RETURN_IF_ERROR(file.Append(&truth.n, 4));
  HMANN_RETURN_IF_ERROR(file.Append(&truth.k, 4));
  HMANN_RETURN_IF_ERROR(wide ? file.Append(truth.ids.data(), 8 * count)
                             : file.Append(ids.data(), 4 * count));
  if (suffix != ".ibin" && !truth.distances.empty())
    HMANN_RETURN_IF_ERROR(file.Append(truth.distances.data(), 4 * count));
  return file.Commit();
}

absl::StatusOr<GroundTruth> MergeNeighbors(std::span<const GroundTruth> parts, std::uint32_t k) {
  GroundTruth merged{.n = parts.empty() ? 0 : parts[0].n, .k = k, .ids = {}, .distances = {}};
  for (const GroundTruth& part : parts) {
    if (part.n != merged.n || part.distances.size() != part.ids.size())
      return InvalidArgument("neighbors to merge: expected those of ", merged.n,
                             " queries with distances, found ", part.n, " queries and ",
                             part.distances.size(), " distances");
    merged.metric = part.metric;
  }
  if (merged.n == 0) return InvalidArgument("neighbors to merge: expected some, found none");
  for (std::uint32_t query = 0; query < merged.n; ++query) {
    std::vector<std::pair<float, std::uint64_t>> all;
    for (const GroundTruth& part : parts) {
      for (std::uint32_t j = 0; j < part.k; ++j) {
        if (part.Ids(query)[j] != kNoNeighbor)
          all.emplace_back(part.Distances(query)[j], part.Ids(query)[j]);
      }
    }
    std::sort(all.begin(), all.end());
    std::unordered_set<std::uint64_t> seen;
    std::erase_if(all, [&](const auto& found) { return !seen.insert(found.second).second; });
    all.resize(k, {std::numeric_limits<float>::infinity(), kNoNeighbor});
    for (const auto& [distance, id] : all) {
      merged.distances.push_back(distance);
      merged.ids.push_back(id);
    }
  }
  return merged;
}

}  // namespace hmann
