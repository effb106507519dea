#include "index/construct/import/import_check.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "index/base/status_macros.h"
#include "index/distance/reference.h"

namespace hmann {
namespace {

constexpr std::uint64_t kLeastM = 2;
constexpr std::uint64_t kMostM = 512;  // as BuildOptions::Validate
constexpr std::uint64_t kMostEfConstruction = 100000;
constexpr float kCosineTolerance = 1e-5f;

}  // namespace

absl::Status StoredVectorCheck::LoadExpected(std::uint64_t row) {
  const std::byte* vector = base_.Row(row);
  expected_.resize(base_.dim());
  for (std::size_t i = 0; i < expected_.size(); ++i)
    expected_[i] = static_cast<float>(Component(base_.dtype(), vector, i));
  if (metric_ != Metric::kCosine) return absl::OkStatus();
  double squares = 0;
  for (float x : expected_) squares += static_cast<double>(x) * x;
  if (squares == 0)
    return InvalidArgument(base_.path(), ": row ", row, ": a zero vector has no cosine");
  const double norm = std::sqrt(squares);
  for (float& x : expected_) x = static_cast<float>(x / norm);
  return absl::OkStatus();
}

absl::Status StoredVectorCheck::Check(const ImportReader& reader, std::uint64_t row,
                                      const std::byte* vector, std::uint64_t offset) {
  const bool cosine = metric_ == Metric::kCosine;
  if (!cosine && base_.dtype() == stored_ &&
      std::memcmp(vector, base_.Row(row), base_.row_bytes()) == 0)
    return absl::OkStatus();
  HMANN_RETURN_IF_ERROR(LoadExpected(row));
  const float tolerance = cosine ? kCosineTolerance : 0;
  for (std::size_t i = 0; i < expected_.size(); ++i) {
    const auto found = static_cast<float>(Component(stored_, vector, i));
    if (std::abs(found - expected_[i]) <= tolerance) continue;  // false for NaN on either side
    const std::string what =
        absl::StrCat("component ", i, " of row ", row, cosine ? " divided by its norm" : "", " of ",
                     base_.path());
    return reader.Mismatch(offset + i * SizeOf(stored_), what,
                           absl::StrFormat("%.9g", expected_[i]), absl::StrFormat("%.9g", found));
  }
  return absl::OkStatus();
}

absl::Status CheckLinks(const ImportReader& reader, std::uint64_t offset, NodeId node,
                        std::span<const NodeId> links, NodeId n) {
  for (std::size_t i = 0; i < links.size(); ++i) {
    const std::uint64_t at = offset + i * sizeof(NodeId);
    if (links[i] >= n)
      return reader.Corrupt(at, absl::StrCat("link ", i, " of node ", node),
                            absl::StrCat("below ", n), links[i]);
    if (links[i] == node)
      return reader.Corrupt(at, absl::StrCat("link ", i, " of node ", node), "another node",
                            "itself");
    if (std::find(links.begin(), links.begin() + i, links[i]) != links.begin() + i) {
      return reader.Corrupt(at, absl::StrCat("link ", i, " of node ", node), "no node twice",
                            absl::StrCat(links[i], " again"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckM(const ImportReader& reader, std::uint64_t offset, std::uint64_t m) {
  if (m >= kLeastM && m <= kMostM) return absl::OkStatus();
  return reader.Mismatch(offset, "M", absl::StrCat(kLeastM, " to ", kMostM), m);
}

absl::Status CheckEfConstruction(const ImportReader& reader, std::uint64_t offset,
                                 std::uint64_t ef_construction) {
  if (ef_construction >= 1 && ef_construction <= kMostEfConstruction) return absl::OkStatus();
  return reader.Mismatch(offset, "efConstruction", absl::StrCat("1 to ", kMostEfConstruction),
                         ef_construction);
}

}  // namespace hmann
