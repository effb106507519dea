#include "index/construct/make_bottom.h"

#include <utility>

#include "index/base/status_macros.h"
#include "index/construct/bottom_layer.h"
#include "index/construct/duplicates.h"
#include "index/construct/insertion_order.h"
#include "index/construct/partition.h"

namespace hmann {

absl::StatusOr<Bottom> MakeBottom(const BottomOptions& options, StoredVectors rows, NodeId n,
                                  std::unique_ptr<ImportedGraph> imported, Phases& phases,
                                  const Job& job) {
  const Kernels& kernels = options.kernels;
  Bottom made;
  phases.Begin("order", n, "vectors");
  DuplicateGroups duplicates =
      FindDuplicates(rows.rows.data(), n, options.row_bytes, rows.stride, job.pool);
  made.copies = duplicates.copies;
  Partition partition;
  InsertionOrder order;
  if (imported != nullptr) {
    order = OrderOfRows(std::move(duplicates), n);
  } else if (options.method == BuildMethod::kPartition) {
    HMANN_ASSIGN_OR_RETURN(
        partition, Partition::Make(rows, kernels, duplicates.unique,
                                   PartitionFor(duplicates.unique.size(), options.seed), job));
    order = OrderOf(std::move(duplicates), n, partition.order());
  } else {
    order = RandomOrder(std::move(duplicates), n, options.seed);
  }
  made.row_of = std::move(order.row_of);
  made.equal = std::move(order.equal);
  if (imported == nullptr) {
    HMANN_ASSIGN_OR_RETURN(made.rows, GatherVectors(rows, made.row_of, job.pool));
    rows = {};  // two copies of the vectors are the most that a build holds
  } else {
    made.rows = std::move(rows);
  }
  made.vectors = NodeVectors::InMemory(made.rows, n);
  phases.End("order");
  if (imported != nullptr) {
    // In the memory that the links came in: a second copy would be the largest thing that
    // a promotion holds beside the vectors.
    made.graph = std::make_unique<InsertionGraph>(
        InsertionGraph::Over(std::move(imported->links), n, imported->max_degree,
                             made.rows.rows.data(), made.rows.stride, kernels));
    return made;
  }
  const BottomSource source{
      made.rows, kernels, n, order.inserted, options.m, options.ef_construction, options.alpha};
  const bool joined = options.method == BuildMethod::kPartition;
  HMANN_ASSIGN_OR_RETURN(InsertionGraph graph,
                         joined ? JoinBottom(source, std::move(partition), "", phases, job)
                                : InsertBottom(source, phases, job));
  if (joined) HMANN_RETURN_IF_ERROR(LinkBackbone(source, graph, phases, job));
  LinkDuplicates(made.equal, graph);
  graph.DropUpperLayers();
  made.graph = std::make_unique<InsertionGraph>(std::move(graph));
  return made;
}

}  // namespace hmann
