#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "hmann/v1/search.pb.h"
#include "server/calls/stream_call.h"
#include "server/core/jobs.h"
#include "server/core/tokens.h"

namespace hmann::server {

/// A SearchStream call. Queries that arrive while the pool searches for others of this
/// stream go to the pool together, so that one thread keeps several in flight.
class SearchStreamCall : public StreamCall {
 public:
  static constexpr std::size_t kMostUnanswered = 64;

  /// `caller` is as in SearchPool::Submit. If the call has no deadline, each query gets
  /// the default. `access`: of the client, which can change while the stream is open.
  SearchStreamCall(const Serving& serving, ReplyWatch* replies, UnreadRequests* unread,
                   grpc::CallbackServerContext* call, Caller caller, Access access);

 private:
  /// A query that is not answered yet.
  struct Asked {
    std::uint64_t id = 0;
    std::unique_ptr<v1::SearchStreamRequest> request;
    Snapshot index;
    std::shared_ptr<const RequestParams> options;
    QueryVectors vectors;  ///< may view the request's bytes
    QueuedRequest::Clock::time_point began;
  };
  class Group;

  absl::Status Take(const grpc::ByteBuffer& message) override;
  Work Next() override;
  std::size_t Drop() override;
  absl::Status Read(const grpc::ByteBuffer& message, Asked* requested);
  absl::Status Parse(Asked* requested);
  std::vector<Asked> TakeTogether();
  void Ended(Group* group, const std::vector<grpc::ByteBuffer>& replies);

  const Serving& serving_;
  const Caller caller_;
  const std::chrono::system_clock::time_point deadline_;  ///< of the call; max: none

  // Used by the reading thread only; there is one at a time.
  Access access_;
  std::string index_;
  v1::SearchParams wire_options_;
  std::shared_ptr<const RequestParams> options_;  ///< in force
  std::uint64_t generation_ = 0;                  ///< of options_

  // Guarded by mutex():
  std::deque<Asked> waiting_;
  std::vector<Group*> groups_;  ///< in the pool
};

}  // namespace hmann::server
