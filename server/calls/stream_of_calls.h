#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "server/calls/calls.h"

namespace hmann::server {

/// A stream whose messages are requests of a method with one reply. Each is answered as a
/// call of its own would be, in any order; an error is the answer to its message only.
class StreamOfCalls : public StreamCall {
 public:
  static constexpr std::size_t kMostUnanswered = 64;

  /// The message for the outcome of a request: its reply, or an error.
  using Wrap = std::function<grpc::ByteBuffer(const absl::Status&, const grpc::ByteBuffer& reply)>;

  /// `begin`: of the method. `calls` outlives this.
  StreamOfCalls(Calls* calls, Method method, Calls::Begin begin, Wrap wrap,
                grpc::CallbackServerContext* context, Access access);
  ~StreamOfCalls() override;

 private:
  class Message;

  absl::Status Take(const grpc::ByteBuffer& message) override;
  Work Next() override;
  std::size_t Drop() override;
  void Ended(Message* message, const absl::Status& status);

  Calls& calls_;
  const Method method_;
  const Calls::Begin begin_;
  const Wrap wrap_;
  Access access_;  ///< used by the reading thread only
  // Guarded by mutex():
  std::deque<std::unique_ptr<Message>> waiting_;
  std::vector<std::unique_ptr<Message>> running_;
};

}  // namespace hmann::server
