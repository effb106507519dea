#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "hmann/collection.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"
#include "server/calls/raw_message.h"
#include "server/core/errors.h"
#include "server/vald/convert.h"
#include "server/vald/service.h"
#include "server/vald/streamed.h"

namespace hmann::server {
namespace {

/// Calls at once; each has a thread, which waits for its client. A guess.
constexpr int kMostLists = 4;

/// A call that gets all vectors of an index, one a message. A thread reads them, and
/// waits for the client. ReplyWatch cancels a client that does not read.
class ListCall : public grpc::ServerGenericBidiReactor, private UnreadRequests::Call {
 public:
  /// `running`: the number of these calls.
  ListCall(std::atomic<int>& running, Calls* calls, Loader* loader,
           grpc::CallbackServerContext* context)
      : Call(/*is_stream=*/false),
        running_(running),
        calls_(*calls),
        loader_(*loader),
        context_(*context),
        reply_(calls->replies(), [context] { context->TryCancel(); }) {}

  ~ListCall() override { --running_; }

  void Start(const absl::StatusOr<Snapshot>& index) {
    if (++running_ > kMostLists) return End(QueueFull(kMostLists, std::chrono::seconds(10)));
    if (!index.ok()) return End(index.status());
    index_ = *index;
    calls_.unread()->Add(this);
    StartRead(&in_);
  }

  void OnReadDone(bool ok) override {
    if (!calls_.unread()->Remove(this)) return;
    if (!ok) return End(InvalidArgument("expected a request, found none"));
    if (const absl::Status runs = loader_.Run(true, [this] { End(SendAll()); }); !runs.ok())
      End(runs);
  }
  void OnWriteDone(bool ok) override {
    reply_.Taken(sent_);
    Wake(ok ? State::kReady : State::kGone);
  }
  void OnCancel() override { Wake(State::kGone); }
  void OnDone() override { delete this; }

 private:
  enum class State : std::uint8_t { kReady, kWrites, kGone };

  std::string Peer() const override { return context_.peer(); }
  void TooLong(std::uint64_t bytes) override { End(RequestTooLarge(bytes)); }

  void End(const absl::Status& status) {
    calls_.serving().metrics.Ended(Method::kGet, index_.has_value() ? &index_->served() : nullptr,
                                   status, QueuedRequest::Clock::now() - began_, 0);
    Finish(EndOf(status, &context_));
  }

  void Wake(State state) {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kGone) state_ = state;
    changed_.notify_all();
  }

  absl::Status SendAll() {
    Generation& generation = index_->generation();
    const auto send = [&](std::uint64_t label, std::span<const std::byte> row) {
      return generation.current() ? Send(label, row.data()) : Replaced();
    };
    // A lent searcher keeps the file from being changed.
    std::unique_ptr<AnySearcher> lent = generation.TakeSearcher();
    if (lent == nullptr) return Replaced();
    absl::Status status = index_->moment() != nullptr
                              ? ForRows(*index_->moment(), send)
                              : index_->index()->ForRows([&](auto ids, auto labels, auto rows) {
                                  const std::size_t bytes = rows.size() / ids.size();
                                  absl::Status sent;
                                  for (std::size_t i = 0; i < ids.size() && sent.ok(); ++i)
                                    sent = send(labels[i], rows.subspan(i * bytes, bytes));
                                  return sent;
                                });
    if (status.ok() && !generation.Intact()) status = FileChanged(index_->served().name());
    generation.GiveBack(std::move(lent));
    status.Update(Wait());
    return index_->ForClients(status);
  }

  static absl::Status Replaced() {
    return absl::AbortedError("the index was replaced while its vectors were listed");
  }

  /// Until the client has taken the last message.
  absl::Status Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return state_ != State::kWrites; });
    return state_ == State::kGone ? absl::CancelledError("the client went away") : absl::OkStatus();
  }

  absl::Status Send(std::uint64_t label, const std::byte* row) {
    ::payload::v1::Object_Vector vector;
    vector.set_id(IdOf(label, *index_));
    AppendFloats(row, index_->info(), vector.mutable_vector());
    grpc::ByteBuffer message;
    HMANN_RETURN_IF_ERROR(Write(vector, &message));
    HMANN_RETURN_IF_ERROR(Wait());
    out_ = ValdStreamed(absl::OkStatus(), message);
    sent_ = out_.Length();
    reply_.Sent(sent_);
    {
      const std::lock_guard lock(mutex_);
      if (state_ == State::kReady) state_ = State::kWrites;
    }
    StartWrite(&out_);
    return absl::OkStatus();
  }

  std::atomic<int>& running_;
  Calls& calls_;
  Loader& loader_;
  grpc::CallbackServerContext& context_;
  const QueuedRequest::Clock::time_point began_ = QueuedRequest::Clock::now();
  ReplyWatch::Reply reply_;
  std::optional<Snapshot> index_;
  grpc::ByteBuffer in_, out_;
  std::uint64_t sent_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kReady;  ///< guarded by mutex_
};

}  // namespace

grpc::ServerGenericBidiReactor* ValdService::List(grpc::CallbackServerContext* context) {
  auto* const call = new ListCall(lists_, &calls_, &loader_, context);  // deletes itself
  const auto open = [&]() -> absl::StatusOr<Snapshot> {
    HMANN_ASSIGN_OR_RETURN(Access access, calls_.MayStart(*context, Method::kGet));
    HMANN_RETURN_IF_ERROR(access.Check(Role::kRead, index()));
    return calls_.serving().registry.Get(index());
  };
  call->Start(open());
  return call;
}

}  // namespace hmann::server
