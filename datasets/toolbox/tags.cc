#include "datasets/toolbox/tags.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/strings/match.h"
#include "index/base/errors.h"
#include "index/base/file.h"
#include "index/base/random.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

constexpr std::uint32_t kTags = 20'000, kMostOfVector = 30;
constexpr std::uint32_t kShareOfCluster = 16;   ///< of the tags of a frequency: one in so many
constexpr std::uint64_t kTriesPerCluster = 16;  ///< to find a vector of the same cluster

/// Streams of one seed, other than those of the vectors.
enum TagStream : std::uint64_t { kTagsOfVector = 101, kTagsOfCluster, kTagsOfQuery };

/// Tags from 1 on, the most frequent first. Those of one binary order of magnitude are
/// about as frequent; this replaces one by one that the cluster has.
std::uint32_t OfCluster(std::uint64_t seed, std::uint64_t cluster, std::uint32_t tag) {
  const std::uint32_t first = std::bit_floor(tag), count = std::min(first, kTags + 1 - first);
  const std::uint64_t begin =
      RandomBelow(Random(seed, kTagsOfCluster), cluster * kTags + first, count);
  return first + static_cast<std::uint32_t>(
                     (begin + (tag - first) % (count / kShareOfCluster + 1)) % count);
}

/// The tags of vector i, ascending.
std::vector<std::uint32_t> TagsOf(const GenerateOptions& options, std::uint64_t i) {
  const std::uint64_t stream = Random(Random(options.seed, kTagsOfVector), i);
  const std::size_t count = 1 + RandomBelow(stream, 0, kMostOfVector);
  std::vector<std::uint32_t> tags;
  for (std::uint64_t draw = 2; tags.size() < count; draw += 2) {
    // With a uniform logarithm, tag r has a share of about 1 / r.
    const double drawn = std::exp(RandomUnit(stream, draw) * std::log(kTags + 1.0));
    std::uint32_t tag = std::clamp(static_cast<std::uint32_t>(drawn), 1u, kTags);
    if (RandomBelow(stream, draw + 1, 2) == 0)
      tag = OfCluster(options.seed, ClusterOf(options, i), tag);
    const auto at = std::lower_bound(tags.begin(), tags.end(), tag - 1);
    if (at == tags.end() || *at != tag - 1) tags.insert(at, tag - 1);
  }
  return tags;
}

/// One or two tags of a vector before `first`.
std::vector<std::uint32_t> TagsOfQuery(const GenerateOptions& options, std::uint64_t i) {
  const std::uint64_t stream = Random(Random(options.seed, kTagsOfQuery), i);
  std::uint64_t draw = 3, near = 0;
  const std::uint64_t cluster = ClusterOf(options, i), most = kTriesPerCluster * options.clusters;
  do {
    near = RandomBelow(stream, draw++, options.first);
  } while (ClusterOf(options, near) != cluster && draw < most);
  const std::vector<std::uint32_t> tags = TagsOf(options, near);
  const std::uint64_t one = RandomBelow(stream, 0, tags.size());
  if (tags.size() == 1 || RandomBelow(stream, 1, 2) == 0) return {tags[one]};
  const std::uint64_t two = (one + 1 + RandomBelow(stream, 2, tags.size() - 1)) % tags.size();
  return {tags[std::min(one, two)], tags[std::max(one, two)]};
}

}  // namespace

absl::Status GenerateTags(const GenerateOptions& options, bool queries, const std::string& path,
                          Progress& progress) {
  HMANN_RETURN_IF_ERROR(options.Validate());
  if (options.shape != Shape::kClustered)
    return InvalidArgument("tags: of clustered vectors alone, not of kind ",
                           std::string(Name(options.shape)));
  if (!absl::EndsWith(path, ".spmat")) return InvalidArgument(path, ": expected suffix .spmat");
  if (queries && options.first == 0)
    return InvalidArgument("tags of queries: expected a first vector behind those of the base");
  HMANN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  const auto tags_of = [&](std::uint64_t i) {
    progress.Advance(1);
    return (queries ? TagsOfQuery : TagsOf)(options, options.first + i);
  };
  progress.Start("tags", 2 * options.n, "vectors");
  std::int64_t end = 0;
  const std::int64_t header[] = {static_cast<std::int64_t>(options.n), kTags, 0, 0};
  HMANN_RETURN_IF_ERROR(file.Append(header, sizeof(header)));
  for (std::uint64_t i = 0; i < options.n; ++i) {
    end += static_cast<std::int64_t>(tags_of(i).size());
    HMANN_RETURN_IF_ERROR(file.Append(&end, sizeof(end)));
  }
  for (std::uint64_t i = 0; i < options.n; ++i) {
    const std::vector<std::uint32_t> tags = tags_of(i);
    HMANN_RETURN_IF_ERROR(file.Append(tags.data(), tags.size() * sizeof(tags[0])));
  }
  progress.Finish();
  const float one = 1;
  for (std::int64_t i = 0; i < end; ++i) HMANN_RETURN_IF_ERROR(file.Append(&one, sizeof(one)));
  HMANN_RETURN_IF_ERROR(file.WriteAt(2 * sizeof(end), &end, sizeof(end)));
  return file.Commit();
}

}  // namespace hmann
