#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "hmann/v1/search.pb.h"
#include "server/connections/reply_watch.h"
#include "server/core/jobs.h"

namespace hmann::server {

/// A SearchStream. Queries that came while the pool searched for others of this stream go
/// to it together, so that one thread has several under way. Reads no further when
/// kMostUnanswered are not answered, or their answers not taken: HTTP/2 then holds the
/// client back.
///
/// It keeps itself alive until gRPC is done with it. Thread safety: gRPC's threads, the
/// pool's, and any that calls End.
class StreamCall : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                   public std::enable_shared_from_this<StreamCall> {
 public:
  static constexpr std::size_t kMostUnanswered = 64;

  /// Begins to read. `caller`: as SearchPool::Submit has it. Where the call has no
  /// deadline, each query has the default.
  static std::shared_ptr<StreamCall> Start(const Serving& serving, ReplyWatch* replies,
                                           grpc::CallbackServerContext* call, std::uint64_t caller);
  /// Ends at once, with an error.
  static grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Refuse(
      const absl::Status& status);

  /// Reads no more; when what was read is answered, the call ends with `status`.
  void End(const absl::Status& status);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  /// A query on its way to an answer.
  struct Asked {
    std::uint64_t id = 0;
    std::unique_ptr<v1::SearchStreamRequest> request;
    Snapshot index;
    std::shared_ptr<const RequestOptions> options;
    QueryVectors vectors;  ///< may view the request's bytes
    SearchJob::Clock::time_point began;
  };
  class Group;

  StreamCall(const Serving& serving, ReplyWatch* replies, grpc::CallbackServerContext* call,
             std::uint64_t caller);

  absl::Status Parse(Asked* asked);
  /// Does whatever can be done now. `here`: this thread may search.
  void Settle(bool here);
  std::vector<Asked> TakeTogether();
  void Answered(Group* group, const std::vector<grpc::ByteBuffer>& replies);
  void Queue(const grpc::ByteBuffer& reply);

  const Serving& serving_;
  const std::uint64_t caller_;
  const std::chrono::system_clock::time_point deadline_;  ///< of the call; max: none
  ReplyWatch::Reply reply_;                               ///< of replies_ and out_
  std::shared_ptr<StreamCall> self_;                      ///< until OnDone

  // Of the reading thread, which is one at a time.
  grpc::ByteBuffer in_;
  std::string index_;
  v1::SearchOptions wire_options_;
  std::shared_ptr<const RequestOptions> options_;  ///< that hold on
  ServedIndex* served_ = nullptr;                  ///< that they are for
  std::uint64_t generation_ = 0;                   ///< of it

  std::mutex mutex_;  ///< of what follows
  grpc::ByteBuffer out_;
  std::uint64_t out_bytes_ = 0;
  std::deque<Asked> waiting_;
  std::vector<Group*> groups_;  ///< that the pool has
  std::deque<grpc::ByteBuffer> replies_;
  std::size_t unanswered_ = 0;  ///< read, and the reply not written
  bool reading_ = false, writing_ = false;
  bool no_more_ = false;    ///< is to be read
  bool cancelled_ = false;  ///< nobody takes replies
  bool finished_ = false;
  absl::Status end_;
};

}  // namespace hmann::server
