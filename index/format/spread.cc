#include "index/format/spread.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "index/base/status_macros.h"
#include "index/format/reader.h"

namespace hmann {
namespace {

std::vector<std::uint32_t> MembersOfCells(const IndexFile& file) {
  if (file.cells().empty()) return {};
  const NodeId n = file.layers().n(), n1 = file.layers().nodes[1];
  std::vector<std::uint32_t> members(n1);
  const std::span<const CellEntry> cells = file.cells();
  for (std::size_t cell = 0; cell < cells.size(); ++cell) {
    const NodeId end = cell + 1 < cells.size() ? cells[cell + 1].first : n;
    if (cells[cell].centroid < n1 && cells[cell].first <= end)
      members[cells[cell].centroid] = end - cells[cell].first;
  }
  return members;
}

}  // namespace

Spread SpreadOf(std::vector<std::uint32_t> values) {
  Spread spread;
  spread.count = values.size();
  if (values.empty()) return spread;
  std::sort(values.begin(), values.end());
  const auto count = static_cast<double>(values.size());
  spread.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  for (std::size_t i = 0; i < Spread::kShares.size(); ++i) {
    const auto rank = static_cast<std::size_t>(std::ceil(Spread::kShares[i] * count));
    spread.quantiles[i] = values[std::max<std::size_t>(rank, 1) - 1];
  }
  return spread;
}

absl::StatusOr<GraphSpread> MeasureSpread(const std::string& path, Progress& progress) {
  HMANN_ASSIGN_OR_RETURN(const IndexFile file, IndexFile::Open(path));
  const RecordLayout& records = file.records();
  const NodeId n = file.layers().n();
  std::vector<std::uint32_t> in(n), out(n);
  constexpr NodeId kStep = 65536;
  progress.Start("links of L0", n, "nodes");
  for (NodeId id = 0; id < n; ++id) {
    const auto* links = reinterpret_cast<const NodeId*>(file.l0().data() + records.Offset(id) +
                                                        records.LinksOffset(id));
    std::uint32_t& degree = out[id];
    for (; degree < records.max_links && links[degree] != kNoNode; ++degree) {
      if (links[degree] >= n)
        return absl::DataLossError(absl::StrCat(path, ": L0, node ", id, ", link ", degree,
                                                ": expected a node below ", n, "; found ",
                                                links[degree]));
      ++in[links[degree]];
    }
    if (id % kStep == kStep - 1) progress.Advance(kStep);
  }
  progress.Finish();
  return GraphSpread{SpreadOf(std::move(in)), SpreadOf(std::move(out)),
                     SpreadOf(MembersOfCells(file))};
}

}  // namespace hmann
