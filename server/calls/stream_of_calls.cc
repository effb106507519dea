#include "server/calls/stream_of_calls.h"

#include <algorithm>
#include <utility>

namespace hmann::server {
namespace {

/// Messages of a stream that are worked on at once: a guess.
constexpr std::size_t kMostRunning = 16;

}  // namespace

class StreamOfCalls::Message : public AnyCall {
 public:
  Message(StreamOfCalls* stream, const grpc::ByteBuffer& bytes)
      : AnyCall(&stream->context(), stream->method_, &stream->calls_),
        stream_(*stream),
        access_(stream->access_),
        bytes_(bytes) {}

  void Begin(bool here) {
    here_ = here;
    grpc::ByteBuffer bytes;
    bytes.Swap(&bytes_);
    Access access = access_;  // it may end before the call of `begin_` returns
    stream_.begin_(this, access, bytes);
  }
  bool runs_here() const override { return here_; }
  void End(const absl::Status& status) override { stream_.Ended(this, status); }

 private:
  StreamOfCalls& stream_;
  const Access access_;
  grpc::ByteBuffer bytes_;
  bool here_ = false;
};

StreamOfCalls::StreamOfCalls(Calls* calls, Method method, Calls::Begin begin, Wrap wrap,
                             grpc::CallbackServerContext* context, Access access)
    : StreamCall(method, kMostUnanswered, &calls->serving().metrics, calls->replies(),
                 calls->unread(), context),
      calls_(*calls),
      method_(method),
      begin_(std::move(begin)),
      wrap_(std::move(wrap)),
      access_(std::move(access)) {}

StreamOfCalls::~StreamOfCalls() = default;

absl::Status StreamOfCalls::Take(const grpc::ByteBuffer& message) {
  auto taken = std::make_unique<Message>(this, message);
  const std::lock_guard lock(mutex());
  waiting_.push_back(std::move(taken));
  return absl::OkStatus();
}

StreamCall::Work StreamOfCalls::Next() {
  if (waiting_.empty() || running_.size() == kMostRunning) return nullptr;
  Message* const next = running_.emplace_back(std::move(waiting_.front())).get();
  waiting_.pop_front();
  return [next](bool here) { next->Begin(here); };
}

std::size_t StreamOfCalls::Drop() {
  for (const auto& message : running_) message->Cancel();
  const std::size_t waited = waiting_.size();
  waiting_.clear();
  return waited;
}

void StreamOfCalls::Ended(Message* message, const absl::Status& status) {
  const auto alive = shared_from_this();
  std::unique_ptr<Message> ended;
  {
    const std::lock_guard lock(mutex());
    const auto place = std::find_if(running_.begin(), running_.end(),
                                    [&](const auto& one) { return one.get() == message; });
    ended = std::move(*place);
    running_.erase(place);
  }
  Answered(wrap_(status, *message->reply()));
}

}  // namespace hmann::server
