#include "server/calls/stream_of_calls.h"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

namespace hmann::server {
namespace {

/// Messages of a stream that are not answered or not read by the client, and those that
/// are worked on at once: guesses.
constexpr std::size_t kMostUnanswered = 64, kMostRunning = 16;

class StreamOfCalls : public StreamCall {
 public:
  StreamOfCalls(Calls* calls, Method method, Calls::Begin begin, WrapReply wrap,
                grpc::CallbackServerContext* context, Access access)
      : StreamCall(method, kMostUnanswered, &calls->serving().metrics, calls->replies(),
                   calls->unread(), context),
        calls_(*calls),
        method_(method),
        begin_(std::move(begin)),
        wrap_(std::move(wrap)),
        access_(std::move(access)) {}

 private:
  class Message : public AnyCall {
   public:
    Message(StreamOfCalls* stream, const grpc::ByteBuffer& bytes)
        : AnyCall(&stream->context(), stream->method_, &stream->calls_),
          stream_(*stream),
          access_(stream->access_),
          bytes_(bytes) {}

    void Begin(bool here) {
      here_ = here;
      // It may end, and delete this, before the call of `begin_` returns.
      grpc::ByteBuffer bytes;
      bytes.Swap(&bytes_);
      Access access = access_;
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

  absl::Status Take(const grpc::ByteBuffer& message) override {
    auto taken = std::make_unique<Message>(this, message);
    const std::lock_guard lock(mutex());
    waiting_.push_back(std::move(taken));
    return absl::OkStatus();
  }

  Work Next() override {
    if (waiting_.empty() || running_.size() == kMostRunning) return nullptr;
    Message* const next = running_.emplace_back(std::move(waiting_.front())).get();
    waiting_.pop_front();
    return [next](bool here) { next->Begin(here); };
  }

  std::size_t Drop() override {
    for (const auto& message : running_) message->Cancel();
    const std::size_t waited = waiting_.size();
    waiting_.clear();
    return waited;
  }

  void Ended(Message* message, const absl::Status& status) {
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

  Calls& calls_;
  const Method method_;
  const Calls::Begin begin_;
  const WrapReply wrap_;
  const Access access_;
  // Guarded by mutex():
  std::deque<std::unique_ptr<Message>> waiting_;
  std::vector<std::unique_ptr<Message>> running_;
};

}  // namespace

std::shared_ptr<StreamCall> MakeStreamOfCalls(Calls* calls, Method method, Calls::Begin begin,
                                              WrapReply wrap, grpc::CallbackServerContext* context,
                                              Access access) {
  return std::make_shared<StreamOfCalls>(calls, method, std::move(begin), std::move(wrap), context,
                                         std::move(access));
}

}  // namespace hmann::server
