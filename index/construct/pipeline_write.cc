#include <algorithm>
#include <utility>

#include "index/base/status_macros.h"
#include "index/construct/pipeline_state.h"

namespace hmann {

void Pipeline::AdviseRandom(bool random) const {
  if (vectors_.advise_random) vectors_.advise_random(random);
  bottom_->AdviseRandom(random);
}

const std::byte* Pipeline::RowOf(NodeId id) const {
  if (upper_ != nullptr && id < layers_.n1()) return upper_->Row(id);
  return window_->Row(id);
}

std::vector<float> Pipeline::MeanOfSample() {
  // Some at a time, in the order of ids.
  constexpr NodeId kAtOnce = 4096;
  const NodeId step = MeanStep(n_);
  std::vector<NodeId> nodes;
  std::vector<std::byte> loaded(kAtOnce * vectors_.stride);
  return MeanOf(kernels_, n_, [&](NodeId id) {
    const NodeId place = id / step % kAtOnce;
    if (place == 0) {
      nodes.clear();
      for (std::uint64_t next = id; next < n_ && nodes.size() < kAtOnce; next += step)
        nodes.push_back(node_of_id_[next]);
      vectors_.Gather(nodes, pool_, loaded.data());
    }
    return std::as_const(loaded).data() + std::size_t{place} * vectors_.stride;
  });
}

absl::Status Pipeline::AddCodes(IndexContents& contents) {
  const NodeId n1 = layers_.n1();
  const std::uint32_t bits = inputs_->bits(), replicas = inputs_->replicas();
  if (bits == 0 || n1 < replicas) return absl::OkStatus();
  const CodeInfo info{bits, replicas, CodeBytes(kernels_.dim, bits)};
  contents.codes = info;
  contents.code_mean = MeanOfSample();
  contents.cells = std::move(centroids_.cells);
  contents.second_centroids = std::move(centroids_.second_centroids);
  NodeCodes::Source source{n_,
                           n1,
                           contents.cells,
                           [this](NodeId id) { return RowOf(id); },
                           [this](NodeId first) { window_->Load(first); },
                           window_->size()};
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
  const std::size_t code = inputs_->bits() > 0 ? CodeBytes(kernels_.dim, inputs_->bits()) : 0;
  HMANN_ASSIGN_OR_RETURN(
      window_, IdWindow::Make({n_, &vectors_, bottom_.get(), &node_of_id_, &id_of_node_, code},
                              memory_.write_room, pool_));
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
    window_->Need(id);
    return window_->Links(id);
  };
  contents.row = [&](NodeId id) {
    if (id >= layers_.n1()) window_->Need(id);
    return RowOf(id);
  };
  contents.label = [&](NodeId id) -> std::uint64_t {
    const std::uint32_t row = row_of_[node_of_id_[id]];
    return user_labels_.empty() ? row : user_labels_[row];
  };
  HMANN_RETURN_IF_ERROR(AddCodes(contents));
  AdviseRandom(false);
  HMANN_ASSIGN_OR_RETURN(report_.info,
                         WriteIndex(options_.out, contents, job_.progress, job_.cancelled));
  phases_.End("write");
  return absl::OkStatus();
}

}  // namespace hmann
