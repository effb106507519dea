#include "index/construct/checkpoints.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "index/base/status_macros.h"

namespace hmann {

std::string Checkpoints::NameOf(unsigned step) const { return absl::StrCat(name_, "-", step); }

std::vector<std::span<NodeId>> Checkpoints::Lists(NodeId inserted) const {
  std::vector<std::span<NodeId>> lists;
  for (std::uint32_t layer = 0; layer < graph_.layers(); ++layer) {
    const std::size_t nodes = std::min(inserted, graph_.nodes(layer));
    lists.emplace_back(graph_.Links(layer, 0), nodes * graph_.max_degree(layer));
  }
  return lists;
}

AfterBatch Checkpoints::AfterEach() {
  if (!work_.on_disk()) return nullptr;
  return [this](const LinkedSoFar& state) {
    return StepOf(state) > kept_ ? Keep(state) : absl::OkStatus();
  };
}

absl::Status Checkpoints::Keep(const LinkedSoFar& state) {
  const unsigned step = StepOf(state);
  HMANN_ASSIGN_OR_RETURN(ArtifactWriter writer, work_.Create(NameOf(step)));
  HMANN_RETURN_IF_ERROR(writer.Append(&state, sizeof(state)));
  for (const std::span<const NodeId> lists : Lists(state.inserted))
    HMANN_RETURN_IF_ERROR(writer.Append(lists));
  HMANN_RETURN_IF_ERROR(writer.Commit());
  work_.RemoveAll(absl::StrCat(NameOf(kept_), "."));
  kept_ = step;
  return absl::OkStatus();
}

LinkedSoFar Checkpoints::Restore() {
  LinkedSoFar state;
  for (unsigned step = 2 * kCheckpoints; step > 0; --step) {
    if (!ReadStep(step, state)) continue;
    kept_ = step;
    return state;
  }
  return {};
}

bool Checkpoints::ReadStep(unsigned step, LinkedSoFar& state) {
  if (!work_.Has(NameOf(step))) return false;
  const absl::StatusOr<Buffer> file = work_.Map({NameOf(step)});
  if (!file.ok() || file->size() < sizeof(state)) return false;
  std::memcpy(&state, file->data(), sizeof(state));
  if (state.inserted > count_ || state.refined > count_) return false;
  std::size_t bytes = sizeof(state);
  for (const std::span<NodeId> lists : Lists(state.inserted)) bytes += lists.size_bytes();
  if (file->size() != bytes) return false;
  const std::byte* from = file->data() + sizeof(state);
  for (const std::span<NodeId> lists : Lists(state.inserted)) {
    std::memcpy(lists.data(), from, lists.size_bytes());
    from += lists.size_bytes();
  }
  return true;
}

}  // namespace hmann
