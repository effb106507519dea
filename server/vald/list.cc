#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "hmann/collection.h"
#include "index/base/status_macros.h"
#include "server/calls/raw_message.h"
#include "server/core/errors.h"
#include "server/vald/convert.h"
#include "server/vald/service.h"

namespace hmann::server {
namespace {

/// Calls at once, each of which has a thread that waits for its client, and messages that
/// wait for the client: guesses.
constexpr int kMostLists = 4;
constexpr std::size_t kMostAhead = 16;

/// A call that gets all vectors of an index, one a message.
class ListCall : public StreamCall {
 public:
  /// `running`: the number of these calls.
  ListCall(std::atomic<int>& running, Calls* calls, Loader* loader,
           grpc::CallbackServerContext* context, Access access)
      : StreamCall(Method::kGet, /*most_unanswered=*/1, &calls->serving().metrics, calls->replies(),
                   calls->unread(), context),
        running_(running),
        serving_(calls->serving()),
        loader_(*loader),
        access_(std::move(access)) {
    ++running_;
  }
  ~ListCall() override { --running_; }

  void OnWriteDone(bool ok) override {
    StreamCall::OnWriteDone(ok);
    taken_.notify_all();
  }

 private:
  absl::Status Take(const grpc::ByteBuffer&) override {
    const auto begin = [&]() -> absl::Status {
      HMANN_RETURN_IF_ERROR(access_.Check(Role::kRead, serving_.nameless));
      if (running_ > kMostLists) return QueueFull(kMostLists, std::chrono::seconds(10));
      HMANN_ASSIGN_OR_RETURN(index_, serving_.registry.Get(serving_.nameless));
      return loader_.Run(true, [this, alive = shared_from_this()] { Close(Counted(SendAll())); });
    };
    const absl::Status status = begin();
    return status.ok() ? status : Counted(status);
  }
  Work Next() override { return nullptr; }
  std::size_t Drop() override {
    taken_.notify_all();
    return 0;
  }

  const absl::Status& Counted(const absl::Status& status) const {
    serving_.metrics.Ended(Method::kGet, serving_.registry.Named(serving_.nameless).get(), status,
                           QueuedRequest::Clock::now() - began_, 0);
    return status;
  }

  absl::Status SendAll() {
    Generation& generation = index_.generation();
    // A lent searcher keeps the file from being changed.
    std::unique_ptr<AnySearcher> lent = generation.TakeSearcher();
    if (lent == nullptr) return FileChanged(serving_.nameless);
    const auto send = [&](std::uint64_t label, std::span<const std::byte> row) {
      return SendOne(label, row.data());
    };
    absl::Status status = index_.moment() != nullptr
                              ? ForRows(*index_.moment(), send)
                              : index_.index()->ForRows([&](auto ids, auto labels, auto rows) {
                                  const std::size_t bytes = rows.size() / ids.size();
                                  absl::Status sent;
                                  for (std::size_t i = 0; i < ids.size() && sent.ok(); ++i)
                                    sent = send(labels[i], rows.subspan(i * bytes, bytes));
                                  return sent;
                                });
    if (status.ok() && !generation.Intact()) status = FileChanged(serving_.nameless);
    generation.GiveBack(std::move(lent));
    return index_.ForClients(status);
  }

  /// Waits until the client has read most of the vectors before. ReplyWatch cancels a
  /// client that reads none.
  absl::Status SendOne(std::uint64_t label, const std::byte* row) {
    if (!index_.generation().current())
      return absl::AbortedError("the index was replaced while its vectors were listed");
    {
      std::unique_lock lock(mutex());
      taken_.wait(lock, [&] { return is_ending() || waiting_replies() < kMostAhead; });
      if (is_ending()) return absl::CancelledError("the client went away");
    }
    ::payload::v1::Object_Vector vector;
    vector.set_id(IdOf(label, index_));
    AppendFloats(row, index_.info(), vector.mutable_vector());
    grpc::ByteBuffer message;
    HMANN_RETURN_IF_ERROR(Write(vector, &message));
    Send(ValdStreamed(absl::OkStatus(), message));
    return absl::OkStatus();
  }

  std::atomic<int>& running_;
  const Serving& serving_;
  Loader& loader_;
  Access access_;
  Snapshot index_;
  const QueuedRequest::Clock::time_point began_ = QueuedRequest::Clock::now();
  std::condition_variable taken_;
};

}  // namespace

grpc::ServerGenericBidiReactor* ValdService::List(grpc::CallbackServerContext* context) {
  return calls_.Stream(context, Method::kGet, [&](Access access) {
    return std::make_shared<ListCall>(lists_, &calls_, &loader_, context, std::move(access));
  });
}

}  // namespace hmann::server
