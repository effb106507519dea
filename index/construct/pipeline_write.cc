#include <algorithm>
#include <utility>

#include "index/base/status_macros.h"
#include "index/construct/pipeline_state.h"

namespace hmann {

void Pipeline::AppendBottomLinks(NodeId id, std::vector<NodeId>& links) const {
  const NodeId* nodes = bottom_->Links(0, node_of_id_[id]);
  const std::size_t count = CountLinks(nodes, layers_.MaxDegree(0));
  for (std::size_t i = 0; i < count; ++i) links.push_back(id_of_node_[nodes[i]]);
}

void Pipeline::AdviseRandom(bool random) const {
  rows_.rows.AdviseRandom(random);
  bottom_->AdviseRandom(random);
}

const std::byte* Pipeline::RowOf(NodeId id) const {
  if (upper_ != nullptr && id < layers_.n1()) return upper_->Row(id);
  return rows_.Row(node_of_id_[id]);
}

absl::Status Pipeline::AddCodes(IndexContents& contents) {
  const NodeId n1 = layers_.n1();
  if (options_.bits == 0 || n1 == 0) return absl::OkStatus();
  const bool of_links = options_.codes == CodePlace::kLink;
  if (!of_links && n1 < options_.replicas) return absl::OkStatus();
  const auto row = [this](NodeId id) { return RowOf(id); };
  const CodeInfo info{options_.bits, of_links ? 0 : options_.replicas,
                      CodeBytes(kernels_.dim, options_.bits), options_.codes};
  contents.codes = info;
  if (of_links) {
    LinkCodes::Source source{
        n_, layers_.MaxDegree(0), row,
        [this](NodeId id, std::vector<NodeId>& links) { AppendBottomLinks(id, links); }};
    HMANN_ASSIGN_OR_RETURN(LinkCodes made,
                           LinkCodes::Make(kernels_, info, seed_, std::move(source), pool_));
    LinkCodes& links = link_codes_.emplace(std::move(made));
    contents.code_mean = links.mean();
    contents.link_codes = [&links](NodeId id) { return links.Of(id); };
    return absl::OkStatus();
  }
  contents.cells = std::move(centroids_.cells);
  contents.second_centroids = std::move(centroids_.second_centroids);
  contents.code_mean = MeanOf(kernels_, n_, row);
  NodeCodes::Source source{n_, n1, contents.cells, row, nullptr};
  if (window_.has_value()) {
    source.window = window_->size();
    source.load = [this](NodeId first) { window_->Load(first); };
    source.row = [this](NodeId id) { return id < layers_.n1() ? RowOf(id) : window_->Row(id); };
  }
  HMANN_ASSIGN_OR_RETURN(NodeCodes made, NodeCodes::Make(kernels_, info, seed_, contents.code_mean,
                                                         std::move(source), pool_));
  NodeCodes& codes = node_codes_.emplace(std::move(made));
  contents.code = [&codes](NodeId id) { return codes.Of(id); };
  return absl::OkStatus();
}

absl::Status Pipeline::Write() {
  phases_.Begin("write", n_, "records");
  id_of_node_.resize(n_);
  for (NodeId id = 0; id < n_; ++id) id_of_node_[node_of_id_[id]] = id;
  if (work_ != nullptr) {
    const std::size_t code = options_.bits > 0 ? CodeBytes(kernels_.dim, options_.bits) : 0;
    HMANN_ASSIGN_OR_RETURN(
        window_, IdWindow::Make({n_, &rows_, bottom_.get(), &node_of_id_, &id_of_node_, code},
                                memory_.write_room, pool_));
  }
  std::vector<NodeId> renamed;
  IndexContents contents;
  contents.dtype = kernels_.dtype;
  contents.metric = kernels_.metric;
  contents.dim = kernels_.dim;
  contents.row_bytes = kernels_.row_bytes;
  contents.layers = layers_;
  contents.ef_construction = ef_construction_;
  contents.alpha = alpha_;
  contents.seed = seed_;
  contents.user_labels = !user_labels_.empty();
  contents.links = [&](std::uint32_t layer, NodeId id) -> std::span<const NodeId> {
    if (layer > 0) {
      const NodeId* links = upper_->graph().Links(layer - 1, id);
      return {links, CountLinks(links, layers_.MaxDegree(layer))};
    }
    if (window_.has_value()) {
      window_->Need(id);
      return window_->Links(id);
    }
    renamed.clear();
    AppendBottomLinks(id, renamed);
    return renamed;
  };
  contents.row = [&](NodeId id) {
    if (!window_.has_value() || id < layers_.n1()) return RowOf(id);
    window_->Need(id);
    return window_->Row(id);
  };
  contents.label = [&](NodeId id) -> std::uint64_t {
    const std::uint32_t row = row_of_[node_of_id_[id]];
    return user_labels_.empty() ? row : user_labels_[row];
  };
  HMANN_RETURN_IF_ERROR(AddCodes(contents));
  if (work_ != nullptr) AdviseRandom(false);
  HMANN_ASSIGN_OR_RETURN(report_.info,
                         WriteIndex(options_.out, contents, job_.progress, job_.cancelled));
  phases_.End("write");
  return absl::OkStatus();
}

}  // namespace hmann
