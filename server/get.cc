// Vectors by label: the call that is no search, and runs where searches do.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "index/base/status_macros.h"
#include "server/caller.h"
#include "server/convert.h"
#include "server/errors.h"
#include "server/raw_message.h"
#include "server/reply_watch.h"
#include "server/service.h"

namespace hmann {
namespace {

/// Labels that a thread takes together: more reads than a device has under way at once.
constexpr std::size_t kTogether = 64;

/// What the engine says of a label, with details.
absl::Status OfLabel(const absl::Status& status) {
  if (absl::IsNotFound(status)) return UnknownLabel(status);
  return absl::IsFailedPrecondition(status) ? NoLabelOrder(status) : status;
}

/// A request for vectors that was read and checked.
class GetCall : public grpc::ServerUnaryReactor, public SearchJob {
 public:
  GetCall(ServedIndex* index, std::unique_ptr<v1::GetRequest> request, std::uint64_t vector_bytes,
          Clock::time_point began, Clock::time_point deadline, Metrics* metrics,
          grpc::CallbackServerContext* context, grpc::ByteBuffer* reply, ReplyWatch* watch)
      : SearchJob(index, static_cast<std::size_t>(request->labels_size()), {.walk = {}},
                  static_cast<std::uint64_t>(request->labels_size()) *
                      (vector_bytes + sizeof(std::uint64_t)),
                  deadline),
        index_(*index),
        request_(std::move(request)),
        vector_bytes_(vector_bytes),
        began_(began),
        metrics_(*metrics),
        reply_(reply),
        sent_(watch, [context] { context->TryCancel(); }) {}

  void Complete(const absl::Status& status) override {
    const absl::Status written = status.ok() ? Write(response_, reply_) : status;
    metrics_.Ended(Method::kGet, &index_, written, Clock::now() - began_, 0);
    sent_.Sent(reply_->Length());
    Finish(ToGrpc(written));
  }
  void OnCancel() override { Cancel(); }
  void OnDone() override { delete this; }

 protected:
  std::size_t Together() const override { return kTogether; }
  absl::Status Answer(std::size_t begin, std::size_t end, Searcher& searcher,
                      const SearchLimits& limits) override {
    const std::span<const std::uint64_t> labels(request_->labels().data(),
                                                static_cast<std::size_t>(request_->labels_size()));
    // A call that is refused or waits takes no memory for its reply.
    std::call_once(sized_, [&] {
      std::string* raw = response_.mutable_vectors()->mutable_raw();
      raw->resize(labels.size() * vector_bytes_);
      vectors_ = raw->data();
    });
    Counters counters;
    const absl::Status status = searcher.Get(labels.subspan(begin, end - begin),
                                             vectors_ + begin * vector_bytes_, &counters, limits);
    metrics_.Worked(index_, counters);
    return OfLabel(status);
  }

 private:
  ServedIndex& index_;
  const std::unique_ptr<v1::GetRequest> request_;
  const std::uint64_t vector_bytes_;
  const Clock::time_point began_;
  Metrics& metrics_;
  grpc::ByteBuffer* const reply_;
  ReplyWatch::Reply sent_;
  v1::GetResponse response_;
  std::once_flag sized_;
  char* vectors_ = nullptr;  // in response_; threads write to different parts
};

}  // namespace

grpc::ServerUnaryReactor* SearchService::Get(grpc::CallbackServerContext* context,
                                             const grpc::ByteBuffer* bytes,
                                             grpc::ByteBuffer* reply) {
  const auto began = SearchJob::Clock::now();
  const auto start = [&]() -> absl::StatusOr<GetCall*> {
    HMANN_RETURN_IF_ERROR(MayStart(*context));
    auto request = std::make_unique<v1::GetRequest>();
    HMANN_RETURN_IF_ERROR(Read(*bytes, request.get()));
    HMANN_ASSIGN_OR_RETURN(ServedIndex* const served, registry_.Find(request->index()));
    HMANN_ASSIGN_OR_RETURN(const Index* const index, served->Get());
    HMANN_ASSIGN_OR_RETURN(const std::uint64_t vector_bytes,
                           CheckGet(*request, index->info(), limits_));
    return new GetCall(served, std::move(request), vector_bytes, began,
                       DeadlineOf(context->deadline(), default_deadline_), &metrics_, context,
                       reply, &replies_);
  };
  const absl::StatusOr<GetCall*> call = start();
  if (!call.ok()) return Refuse(Method::kGet, context, call.status());
  const std::uint64_t caller = CallerOf(*context, tokens_ != nullptr);
  if (const absl::Status status = pool_.Submit(*call, caller); !status.ok())
    (*call)->Complete(status);
  return *call;
}

}  // namespace hmann
