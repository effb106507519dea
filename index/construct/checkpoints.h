#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "index/construct/graph/insert.h"
#include "index/construct/jobs/artifacts.h"
#include "index/construct/jobs/stages.h"

namespace hmann {

/// Keeps the lists of a graph while nodes are inserted into it, so that an interrupted
/// build can continue: each time another eighth of the nodes is inserted, or refined.
class Checkpoints {
 public:
  /// `name`: of the artifacts. `count`: nodes that are inserted. All must outlive this.
  /// In memory nothing is kept.
  Checkpoints(const Artifacts& work, std::string name, InsertionGraph& graph, NodeId count)
      : work_(work), name_(std::move(name)), graph_(graph), count_(count) {}

  /// Reads the last state into the graph, which has no links.
  LinkedSoFar Restore();
  /// Keeps the state where another eighth is done.
  AfterBatch AfterEach();

 private:
  unsigned StepOf(const LinkedSoFar& state) const {
    return static_cast<unsigned>((std::uint64_t{state.inserted} + state.refined) * kCheckpoints /
                                 count_);
  }
  std::string NameOf(unsigned step) const;
  /// The lists of the nodes inserted so far, layer by layer.
  std::vector<std::span<NodeId>> Lists(NodeId inserted) const;
  absl::Status Keep(const LinkedSoFar& state);
  bool ReadStep(unsigned step, LinkedSoFar& state);

  const Artifacts& work_;
  std::string name_;
  InsertionGraph& graph_;
  NodeId count_;
  unsigned kept_ = 0;  ///< the last step
};

}  // namespace hmann
