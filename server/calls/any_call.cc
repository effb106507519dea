#include "server/calls/any_call.h"

#include <utility>

#include "server/calls/calls.h"

namespace hmann::server {

void AnyCall::Queue(std::unique_ptr<QueuedRequest> work, bool here) {
  QueuedRequest* const job = work.get();
  before_ = std::move(owned_);
  owned_ = std::move(work);
  work_.store(job);
  if (cancelled_.load()) job->Cancel();
  // While some are refused, a batch of one takes its turn with the others.
  SearchPool& pool = calls_.serving().pool;
  pool.Start(
      job, [&] { return calls_.CallerOf(context_, method_); }, here && !pool.RefusesSome());
}

void AnyCall::Refuse(const absl::Status& status, const ServedIndex* index) {
  calls_.serving().metrics.Ended(method_, index, status, {}, 0);
  End(status);
}

void AnyCall::Cancel() {
  cancelled_.store(true);
  if (QueuedRequest* const work = work_.load(); work != nullptr) work->Cancel();
}

}  // namespace hmann::server
