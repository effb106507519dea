#include <algorithm>
#include <utility>

#include "index/base/check.h"
#include "index/base/status_macros.h"
#include "index/construct/pipeline_state.h"

namespace hmann {

void Pipeline::AppendBottomLinks(NodeId id, std::vector<NodeId>& links) const {
  const NodeId* nodes = bottom_->Links(0, node_of_id_[id]);
  const std::size_t count = CountLinks(nodes, layers_.MaxDegree(0));
  for (std::size_t i = 0; i < count; ++i) links.push_back(id_of_node_[nodes[i]]);
}

void Pipeline::AdviseRandom(bool random) const {
  if (vectors_.advise_random) vectors_.advise_random(random);
  bottom_->AdviseRandom(random);
}

const std::byte* Pipeline::RowOf(NodeId id) const {
  if (upper_ != nullptr && id < layers_.n1()) return upper_->Row(id);
  const NodeId node = node_of_id_[id];
  if (vectors_.all != nullptr) return rows_.Row(node);
  return loader_.has_value() ? loader_->Row(node) : window_->Row(id);
}

std::vector<float> Pipeline::MeanOfSample() {
  if (vectors_.all != nullptr) return MeanOf(kernels_, n_, [this](NodeId id) { return RowOf(id); });
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

absl::Status Pipeline::AddLinkCodes(const CodeInfo& info, IndexContents& contents) {
  LinkCodes::Source source{
      n_, layers_.MaxDegree(0), [this](NodeId id) { return RowOf(id); },
      [this](NodeId id, std::vector<NodeId>& links) { AppendBottomLinks(id, links); }, nullptr};
  if (vectors_.all == nullptr) {
    // Half of the memory is for what is written.
    loader_.emplace(vectors_, memory_.write_room / 2,
                    PartLoader::Costs{.of_part = 2 * sizeof(NodeId), .few = LinkCodes::kWindow},
                    not_cancelled_);
    source.load = [this](NodeId first, NodeId last) {
      const auto collect = [this](NodeRange ids, NodeSubset& nodes) {
        pool_.ParallelFor(ids.size(), 256, [&](std::size_t begin, std::size_t end, int) {
          for (std::size_t i = begin; i < end; ++i) {
            const NodeId node = node_of_id_[ids.first + i];
            nodes.Add(node);
            const NodeId* links = bottom_->Links(0, node);
            for (std::uint32_t l = 0; l < CountLinks(links, layers_.MaxDegree(0)); ++l)
              nodes.Add(links[l]);
          }
        });
        return std::uint64_t{0};
      };
      // There is no memory, or no fault of the kind: it is asked whether the build is to
      // end where records are written.
      HMANN_CHECK(
          loader_->For({first, last}, n_, collect, [](NodeRange) { return absl::OkStatus(); })
              .ok());
    };
  }
  HMANN_ASSIGN_OR_RETURN(LinkCodes made, LinkCodes::Make(kernels_, info, seed_, contents.code_mean,
                                                         std::move(source), pool_));
  LinkCodes& links = link_codes_.emplace(std::move(made));
  contents.link_codes = [&links](NodeId id) { return links.Of(id); };
  return absl::OkStatus();
}

absl::Status Pipeline::AddCodes(IndexContents& contents) {
  const NodeId n1 = layers_.n1();
  if (options_.bits == 0 || n1 == 0) return absl::OkStatus();
  const bool of_links = options_.codes == CodePlace::kLink;
  if (!of_links && n1 < options_.replicas) return absl::OkStatus();
  const CodeInfo info{options_.bits, of_links ? 0 : options_.replicas,
                      CodeBytes(kernels_.dim, options_.bits), options_.codes};
  contents.codes = info;
  contents.code_mean = MeanOfSample();
  if (of_links) return AddLinkCodes(info, contents);
  contents.cells = std::move(centroids_.cells);
  contents.second_centroids = std::move(centroids_.second_centroids);
  NodeCodes::Source source{n_, n1, contents.cells, [this](NodeId id) { return RowOf(id); },
                           nullptr};
  if (window_.has_value()) {
    source.window = window_->size();
    source.load = [this](NodeId first) { window_->Load(first); };
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
    const bool of_links = options_.bits > 0 && options_.codes == CodePlace::kLink;
    const std::size_t code = options_.bits > 0 ? CodeBytes(kernels_.dim, options_.bits) : 0;
    HMANN_ASSIGN_OR_RETURN(
        window_, IdWindow::Make({n_, &vectors_, bottom_.get(), &node_of_id_, &id_of_node_, code},
                                of_links ? memory_.write_room / 2 : memory_.write_room, pool_));
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
