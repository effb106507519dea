#include "index/construct/joined_upper.h"

#include <utility>

#include "index/base/status_macros.h"

namespace hmann {
namespace {

constexpr char kIds[] = "ids", kRows[] = "row-of";

}  // namespace

bool HasUpperNodes(const Stages& stages) {
  return stages.work().Has(stages.Name(kIds)) && stages.work().Has(stages.Name(kRows));
}

absl::Status UpperNodes::Write(std::span<const NodeId> ids, std::span<const std::uint32_t> row_of,
                               const Stages& stages) {
  if (HasUpperNodes(stages)) return absl::OkStatus();
  HMANN_ASSIGN_OR_RETURN(ArtifactWriter rows, stages.work().Create(stages.Name(kRows)));
  HMANN_RETURN_IF_ERROR(rows.Append(row_of));
  HMANN_RETURN_IF_ERROR(rows.Commit());
  HMANN_ASSIGN_OR_RETURN(ArtifactWriter list, stages.work().Create(stages.Name(kIds)));
  HMANN_RETURN_IF_ERROR(list.Append(ids));
  return list.Commit();
}

absl::StatusOr<UpperNodes> UpperNodes::Map(const Stages& stages) {
  UpperNodes nodes;
  HMANN_ASSIGN_OR_RETURN(nodes.ids_, stages.work().Map({stages.Name(kIds)}));
  HMANN_ASSIGN_OR_RETURN(nodes.row_of_, stages.work().Map({stages.Name(kRows)}));
  return nodes;
}

NodeVectors::Copy UpperNodes::Copy(NodeVectors::Copy of_row) const {
  const auto* row_of = reinterpret_cast<const std::uint32_t*>(row_of_.data());
  return [row_of, copy = std::move(of_row)](std::uint32_t id, std::byte* place) {
    copy(row_of[id], place);
  };
}

absl::StatusOr<JoinedUpper> JoinUpper(const JoinedSource& source, const Stages& stages) {
  JoinedLayer layer(source, stages);
  HMANN_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> order, layer.Order());
  JoinedUpper made;
  made.id_of.reserve(order.size());
  for (const std::uint32_t i : order) made.id_of.push_back(source.unique[i]);
  HMANN_RETURN_IF_ERROR(layer.Make("back", made.id_of, order));
  HMANN_ASSIGN_OR_RETURN(made.links, layer.Back());
  return made;
}

}  // namespace hmann
