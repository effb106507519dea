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
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "hmann/v1/search.pb.h"
#include "server/connections/reply_watch.h"
#include "server/connections/unread_requests.h"
#include "server/core/jobs.h"
#include "server/core/tokens.h"

namespace hmann::server {

/// A SearchStream call. Queries that arrive while the pool searches for others of this
/// stream go to the pool together, so that one thread keeps several in flight. Reading
/// stops while kMostUnanswered queries are unanswered or their answers are unread by the
/// client; HTTP/2 then holds the client back.
///
/// The object keeps itself alive until gRPC is done with it. Thread safety: it is used by
/// gRPC's threads, by the pool's, and by any thread that calls End.
class StreamCall : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                   public std::enable_shared_from_this<StreamCall>,
                   private UnreadRequests::Call {
 public:
  static constexpr std::size_t kMostUnanswered = 64;

  /// Starts reading. `caller` is as in SearchPool::Submit. If the call has no deadline,
  /// each query gets the default. `access`: of the client, which can change while the
  /// stream is open.
  static std::shared_ptr<StreamCall> Start(const Serving& serving, ReplyWatch* replies,
                                           UnreadRequests* unread,
                                           grpc::CallbackServerContext* call, Caller caller,
                                           Access access);

  /// Stops reading. Once every query read so far is answered, the call ends with
  /// `status`.
  void End(const absl::Status& status);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

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

  StreamCall(const Serving& serving, ReplyWatch* replies, UnreadRequests* unread,
             grpc::CallbackServerContext* call, Caller caller, Access access);

  absl::Status Take(Asked* requested);
  absl::Status Parse(Asked* requested);
  /// Performs every step that is possible now. `here`: this thread may search.
  void Settle(bool here);
  std::vector<Asked> TakeTogether();
  void Answered(Group* group, const std::vector<grpc::ByteBuffer>& replies);
  void Queue(const grpc::ByteBuffer& reply);
  std::string Peer() const override { return context_.peer(); }
  void TooLong(std::uint64_t bytes) override;

  const Serving& serving_;
  UnreadRequests& unread_;
  grpc::CallbackServerContext& context_;
  const Caller caller_;
  const std::chrono::system_clock::time_point deadline_;  ///< of the call; max: none
  ReplyWatch::Reply reply_;                               ///< covers replies_ and out_
  std::shared_ptr<StreamCall> self_;                      ///< until OnDone

  // Used by the reading thread only; there is one at a time.
  grpc::ByteBuffer in_;
  Access access_;
  std::string index_;
  v1::SearchParams wire_options_;
  std::shared_ptr<const RequestParams> options_;  ///< in force
  std::uint64_t generation_ = 0;                  ///< of options_

  std::mutex mutex_;  ///< guards all below
  grpc::ByteBuffer out_;
  std::uint64_t out_bytes_ = 0;
  std::deque<Asked> waiting_;
  std::vector<Group*> groups_;  ///< in the pool
  std::deque<grpc::ByteBuffer> replies_;
  std::size_t unanswered_ = 0;  ///< queries read whose reply is not written
  bool reading_ = false, writing_ = false;
  bool no_more_ = false;    ///< nothing more to read
  bool cancelled_ = false;  ///< replies have no reader
  bool finished_ = false;
  absl::Status end_;
};

}  // namespace hmann::server
