#include "index/construct/streamed_upper.h"

#include <cstring>
#include <utility>

#include "index/base/status_macros.h"

namespace hmann {
namespace {

constexpr char kIds[] = "ids", kVectors[] = "vectors";

}  // namespace

bool HasUpperNodes(const Stages& stages) {
  return stages.work().Has(stages.Name(kIds)) && stages.work().Has(stages.Name(kVectors));
}

absl::Status UpperNodes::Write(std::span<const NodeId> ids, std::span<const std::byte> rows,
                               const Stages& stages) {
  if (HasUpperNodes(stages)) return absl::OkStatus();
  HMANN_ASSIGN_OR_RETURN(ArtefactWriter vectors, stages.work().Create(stages.Name(kVectors)));
  HMANN_RETURN_IF_ERROR(vectors.Append(rows));
  HMANN_RETURN_IF_ERROR(vectors.Commit());
  HMANN_ASSIGN_OR_RETURN(ArtefactWriter list, stages.work().Create(stages.Name(kIds)));
  HMANN_RETURN_IF_ERROR(list.Append(ids));
  return list.Commit();
}

absl::StatusOr<UpperNodes> UpperNodes::Map(const Stages& stages) {
  UpperNodes nodes;
  HMANN_ASSIGN_OR_RETURN(nodes.ids_, stages.work().Map({stages.Name(kIds)}));
  HMANN_ASSIGN_OR_RETURN(nodes.rows_, stages.work().Map({stages.Name(kVectors)}));
  return nodes;
}

std::function<void(std::uint32_t, std::byte*)> UpperNodes::Copy(std::size_t stride) const {
  return [rows = rows_.data(), stride](std::uint32_t id, std::byte* place) {
    std::memcpy(place, rows + std::size_t{id} * stride, stride);
  };
}

absl::StatusOr<StreamedUpper> MakeStreamedUpper(const StreamedSource& source,
                                                const Stages& stages) {
  StreamedLayer layer(source, stages);
  HMANN_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> order, layer.Order());
  StreamedUpper made;
  made.id_of.reserve(order.size());
  for (const std::uint32_t i : order) made.id_of.push_back(source.unique[i]);
  HMANN_RETURN_IF_ERROR(layer.MakeLinks(made.id_of, order));
  HMANN_ASSIGN_OR_RETURN(made.links, layer.Back());
  return made;
}

}  // namespace hmann
