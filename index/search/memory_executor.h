#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "index/base/thread_pool.h"
#include "index/graph/visited.h"
#include "index/search/access.h"
#include "index/search/executor.h"
#include "index/search/layered_access.h"
#include "index/search/query.h"

namespace hmann {

/// Drives queries on an index whose L0 is addressable: one at a time, or several in turn,
/// so that each query's fetches are in flight while the others compute.
class MemoryExecutor : public Executor {
 public:
  /// `index` must outlive the executor.
  explicit MemoryExecutor(const PlacedIndex& index) : index_(index), shared_(index) {}
  absl::Status Run(const QueryBatch& batch) override;
  absl::Status Read(const RecordBatch& batch) override;

 private:
  /// A query in flight with its own access to the records.
  template <typename Access>
  struct Slot {
    Slot(const PlacedIndex& index, ThreadShare& shared) : query(index), access(index, shared) {}
    Query query;
    Access access;
    std::vector<const std::byte*> records;  ///< the records that its traversal wants
    std::size_t which = 0;                  ///< number of its query
    StopCheck::Clock::time_point cut;       ///< when its budget is spent
  };
  /// Scratch of query threads beyond the first.
  template <typename Access>
  struct Helper {
    explicit Helper(const PlacedIndex& index) : shared(index), access(index, shared) {}
    ThreadShare shared;
    Access access;
    std::vector<const std::byte*> records;
    absl::Status status;
  };
  template <typename Access>
  struct State {
    std::vector<std::unique_ptr<Slot<Access>>> slots;
    std::vector<std::unique_ptr<Helper<Access>>> helpers;
  };

  template <typename Access>
  absl::Status RunWith(State<Access>& state, const QueryBatch& batch);
  template <typename Access>
  absl::Status ReadWith(State<Access>& state, const RecordBatch& batch);
  /// Begins the next query that can begin, in `slot`; those that cannot are answered at
  /// once. False: there is none.
  template <typename Access>
  bool Begin(Slot<Access>& slot, const QueryBatch& batch, std::size_t* next);
  template <typename Access>
  void Finish(Slot<Access>& slot, const QueryBatch& batch);
  /// Makes a step of the query's traversal.
  template <typename Access>
  static void Step(Slot<Access>& slot);
  /// Runs all parts of a multi-start search, each in its own thread. Errors: those of
  /// StopCheck.
  template <typename Access>
  absl::Status RunParts(Slot<Access>& slot, State<Access>& state, const QueryBatch& batch);

  const PlacedIndex& index_;
  State<PlainAccess> plain_;
  State<LayeredAccess> layered_;
  ThreadShare shared_;                   ///< by all slots
  std::unique_ptr<ThreadPool> threads_;  ///< made at the first multi-threaded query
  Answer answer_;
  VisitedSet read_;
};

}  // namespace hmann
