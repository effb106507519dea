#include "index/construct/id_window.h"

#include <algorithm>
#include <utility>

#include "index/base/status_macros.h"

namespace hmann {
namespace {

constexpr NodeId kFew = 4096;
using Move = std::pair<NodeId, NodeId>;  // node, place

}  // namespace

absl::StatusOr<IdWindow> IdWindow::Make(const Source& source, std::uint64_t room,
                                        ThreadPool& pool) {
  IdWindow window;
  window.source_ = source;
  window.pool_ = &pool;
  window.most_ = source.graph->max_degree(0);
  const std::uint64_t each = source.vectors->stride + window.most_ * sizeof(NodeId) +
                             std::max<std::uint64_t>(sizeof(Move), NodeVectors::kBytesOfGather) +
                             source.beside;
  window.size_ = static_cast<NodeId>(
      std::min<std::uint64_t>(source.n, std::max<std::uint64_t>(kFew, room / each)));
  HMANN_ASSIGN_OR_RETURN(window.rows_,
                         Buffer::Allocate(std::size_t{window.size_} * source.vectors->stride));
  HMANN_ASSIGN_OR_RETURN(
      window.links_, Buffer::Allocate(std::size_t{window.size_} * window.most_ * sizeof(NodeId)));
  return window;
}

void IdWindow::Load(NodeId first) {
  first_ = first;
  last_ = first + std::min(size_, source_.n - first);
  const std::span<const NodeId> nodes(source_.node_of_id->data() + first_, last_ - first_);
  source_.vectors->Gather(nodes, *pool_, rows_.data());
  // As Gather does.
  const std::size_t part = nodes.size() / static_cast<std::size_t>(pool_->threads()) + 1;
  pool_->ParallelFor(nodes.size(), std::max<std::size_t>(part, kFew),
                     [&](std::size_t begin, std::size_t end, int) {
                       std::vector<Move> moves;
                       moves.reserve(end - begin);
                       for (std::size_t i = begin; i < end; ++i)
                         moves.emplace_back(nodes[i], static_cast<NodeId>(i));
                       std::sort(moves.begin(), moves.end());
                       std::vector<NodeId> scratch;
                       for (const auto& [node, place] : moves) {
                         NodeId* const list =
                             reinterpret_cast<NodeId*>(links_.data()) + std::size_t{place} * most_;
                         const std::span<const NodeId> links = source_.graph->List(node, scratch);
                         for (std::uint32_t l = 0; l < most_; ++l)
                           list[l] = l < links.size() ? (*source_.id_of_node)[links[l]] : kNoNode;
                       }
                     });
}

}  // namespace hmann
