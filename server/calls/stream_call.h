#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "hmann/v1/search.pb.h"
#include "server/connections/reply_watch.h"
#include "server/connections/unread_requests.h"
#include "server/core/metrics.h"

namespace hmann::server {

/// A call with many messages, each of which gets a reply. Reading stops while many of
/// them are unanswered or their replies are unread by the client; HTTP/2 then holds the
/// client back.
///
/// The object keeps itself alive until gRPC is done with it. Thread safety: it is used by
/// gRPC's threads, by those that do the work, and by any thread that calls End.
class StreamCall : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                   public std::enable_shared_from_this<StreamCall>,
                   private UnreadRequests::Call {
 public:
  /// Starts reading; call once.
  void Start();
  /// Reads on if the account has room by now.
  void LookIn() { Settle(false); }
  /// Stops reading. Once every message read so far is answered, the call ends with
  /// `status`.
  void End(const absl::Status& status);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 protected:
  /// `here`: the thread that calls it may do the work itself.
  using Work = std::function<void(bool here)>;

  StreamCall(Method method, std::size_t most_unanswered, Metrics* metrics, ReplyWatch* replies,
             UnreadRequests* unread, grpc::CallbackServerContext* call);

  /// Takes a message, for which Answered or Drop will be called. Runs in the reading
  /// thread; there is one at a time. An error ends the stream.
  virtual absl::Status Take(const grpc::ByteBuffer& message) = 0;
  /// What can begin now; empty: nothing. Requires mutex().
  virtual Work Next() = 0;
  /// Forgets the messages whose work has not begun, stops the others soon, and returns
  /// the number of those forgotten: replies have no reader. Requires mutex().
  virtual std::size_t Drop() = 0;

  /// Sends the replies of messages.
  void Answered(std::span<const grpc::ByteBuffer> replies);
  void Answered(const grpc::ByteBuffer& reply) { Answered({&reply, 1}); }
  /// Sends a reply to a message that gets others, too. Close ends that message.
  void Send(const grpc::ByteBuffer& reply);
  void Close(const absl::Status& status);
  /// Begins what can begin. `here`: as of Work.
  void Settle(bool here);
  /// Whether to read the next message now. Requires mutex().
  bool MayRead();
  /// Counts a client that may not do what it asks for.
  void Refused() { unread_.Refused(Peer()); }
  /// The client has gone, or the server wants the end. Requires mutex().
  bool is_ending() const { return cancelled_ || !end_.ok(); }
  /// Replies that wait for the client. Requires mutex().
  std::size_t waiting_replies() const { return replies_.size(); }
  std::mutex& mutex() { return mutex_; }
  grpc::CallbackServerContext& context() { return context_; }

 private:
  std::string Peer() const override { return context_.peer(); }
  void TooLong(std::uint64_t bytes) override;

  const Method method_;
  const std::size_t most_unanswered_;
  Metrics& metrics_;
  UnreadRequests& unread_;
  grpc::CallbackServerContext& context_;
  ReplyWatch::Reply reply_;           ///< covers replies_ and out_
  std::shared_ptr<StreamCall> self_;  ///< until OnDone
  grpc::ByteBuffer in_;               ///< used by the reading thread only

  std::mutex mutex_;  ///< guards all below
  grpc::ByteBuffer out_;
  std::uint64_t out_bytes_ = 0;
  std::deque<grpc::ByteBuffer> replies_;
  std::size_t open_ = 0;        ///< messages taken that are not answered
  std::size_t unanswered_ = 0;  ///< messages taken whose reply is not written
  bool reading_ = false, writing_ = false;
  bool no_more_ = false;    ///< nothing more to read
  bool cancelled_ = false;  ///< replies have no reader
  bool finished_ = false;
  absl::Status end_;
};

/// The failure of one message, for its reply.
v1::Failure FailureOf(const absl::Status& status);

}  // namespace hmann::server
