#include "index/tune/draw.h"

#include <algorithm>
#include <utility>

#include "hmann/distance.h"
#include "index/base/random.h"
#include "index/base/status_macros.h"

namespace hmann {

absl::StatusOr<Draw> Draw::Of(const IndexFile& file, std::uint64_t most) {
  constexpr std::uint64_t kSpare = 3;  // for each: a guess
  const IndexInfo& info = file.info();
  HMANN_ASSIGN_OR_RETURN(Kernels kernels, ChooseKernels(info.dtype, info.metric, info.dim));
  return Draw(file, std::move(kernels), kSpare * most);
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

}  // namespace hmann
