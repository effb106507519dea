#include "server/stream_call.h"

#include <utility>

#include "index/base/status_macros.h"
#include "server/convert.h"
#include "server/core/errors.h"
#include "server/grpc_status.h"
#include "server/raw_message.h"

namespace hmann::server {
namespace {

/// The reply for a query that failed.
grpc::ByteBuffer FailureOf(std::uint64_t id, const absl::Status& status) {
  const grpc::Status end = ToGrpc(status);
  v1::SearchStreamResponse response;
  response.set_id(id);
  v1::Failure& failure = *response.mutable_failure();
  failure.set_code(static_cast<std::int32_t>(end.error_code()));
  failure.set_message(end.error_message());
  failure.set_details(end.error_details());
  grpc::ByteBuffer bytes;
  // Write fails only for lack of memory; the stream then ends, since its buffer is
  // invalid.
  Write(response, &bytes).IgnoreError();
  return bytes;
}

}  // namespace

/// Queries with the same options that the pool handles together. Their answers leave
/// together, after the pool has checked that the index file has not changed.
class StreamCall::Group : public QueuedQuery {
 public:
  Group(StreamCall* stream, std::vector<Asked> queries)
      : QueuedQuery(stream->serving_, queries[0].index, *queries[0].options, queries.size(),
                    queries.size() * queries[0].vectors.bytes.size(),
                    {Method::kSearchStream, queries[0].began, stream->deadline_}),
        stream_(*stream),
        queries_(std::move(queries)),
        ends_(queries_.size()) {}

 private:
  struct End {
    absl::Status status;
    v1::SearchStreamResponse response;
  };

  const void* Row(std::size_t i) const override { return queries_[i].vectors.row(0); }
  std::string Field(std::size_t) const override { return "search.query"; }
  void Keep(std::size_t i, const hmann::Answer& answer) override {
    v1::SearchStreamResponse& response = ends_[i].response;
    response.set_id(queries_[i].id);
    ToWire(answer, response.mutable_answer());
    ReportParams(index(), options(), response.mutable_answer());
  }
  /// A vector that cannot be searched for fails its own query; any other error fails the
  /// group.
  absl::Status KeepError(std::size_t i, absl::Status why) override {
    if (!absl::IsInvalidArgument(why)) return why;
    ends_[i].status = std::move(why);
    return absl::OkStatus();
  }
  void KeepWork(std::size_t i, const Counters& work) override {
    ToWire(work, ends_[i].response.mutable_answer()->mutable_counters());
  }

  void Complete(const absl::Status& status) override {
    std::vector<grpc::ByteBuffer> replies(queries_.size());
    for (std::size_t i = 0; i < queries_.size(); ++i) {
      absl::Status end = status.ok() ? ends_[i].status : status;
      if (end.ok()) end = Write(ends_[i].response, &replies[i]);
      if (!end.ok()) replies[i] = FailureOf(queries_[i].id, end);
      Count(end, queries_[i].began, 1);
    }
    stream_.Answered(this, replies);
    delete this;
  }

  StreamCall& stream_;
  const std::vector<Asked> queries_;
  std::vector<End> ends_;
};

std::shared_ptr<StreamCall> StreamCall::Start(const Serving& serving, ReplyWatch* replies,
                                              UnreadRequests* unread,
                                              grpc::CallbackServerContext* call, Caller caller,
                                              Access access) {
  std::shared_ptr<StreamCall> stream(
      new StreamCall(serving, replies, unread, call, caller, std::move(access)));
  stream->self_ = stream;
  stream->Settle(false);
  return stream;
}

StreamCall::StreamCall(const Serving& serving, ReplyWatch* replies, UnreadRequests* unread,
                       grpc::CallbackServerContext* call, Caller caller, Access access)
    : Call(/*is_stream=*/true),
      serving_(serving),
      unread_(*unread),
      context_(*call),
      caller_(caller),
      deadline_(CallDeadline(*call)),
      reply_(replies, [call] { call->TryCancel(); }),
      access_(std::move(access)) {}

/// Requires the mutex.
void StreamCall::Queue(const grpc::ByteBuffer& reply) {
  reply_.Sent(reply.Length());
  replies_.push_back(reply);
}

void StreamCall::End(const absl::Status& status) {
  {
    const std::lock_guard lock(mutex_);
    no_more_ = true;
    end_ = status;
  }
  Settle(false);
}

/// Reads a message. Errors, which end the stream: bytes that do not parse as one; a name
/// for which the client has no right, or not any more.
absl::Status StreamCall::Take(Asked* requested) {
  HMANN_RETURN_IF_ERROR(Read(in_, requested->request.get()));
  const v1::SearchRequest& search = requested->request->search();
  // New settings stay in force even when they are invalid, so that each query gets the
  // error.
  if (!search.index().empty() || search.has_options()) options_ = nullptr;
  if (!search.index().empty()) index_ = search.index();
  if (search.has_options()) wire_options_ = search.options();
  const absl::Status may = access_.Check(Role::kRead, index_);
  if (!may.ok()) unread_.Refused(Peer());
  return may;
}

absl::Status StreamCall::Parse(Asked* requested) {
  requested->began = QueuedRequest::Clock::now();
  requested->id = requested->request->id();
  const v1::SearchRequest& search = requested->request->search();
  HMANN_ASSIGN_OR_RETURN(requested->index, serving_.registry.Get(index_));
  const std::uint64_t generation = requested->index.generation().number();
  if (options_ == nullptr || generation_ != generation) {
    options_ = nullptr;
    HMANN_ASSIGN_OR_RETURN(RequestParams options,
                           ReadParams(wire_options_, requested->index, serving_.limits));
    options_ = std::make_shared<const RequestParams>(options);
    generation_ = generation;
  }
  requested->options = options_;
  const std::uint32_t k = options_->search.params.k;
  if (options_->prepared != nullptr) options_ = nullptr;  // each query has its moment
  HMANN_ASSIGN_OR_RETURN(requested->vectors,
                         ReadVectors(search.query(), requested->index.info(), 1, "search.query"));
  return CheckReplySize(1, k, serving_.limits);
}

std::vector<StreamCall::Asked> StreamCall::TakeTogether() {
  std::vector<Asked> together;
  const std::shared_ptr<const RequestParams> options = waiting_.front().options;
  while (!waiting_.empty() && waiting_.front().options == options &&
         together.size() < options->together) {
    together.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  return together;
}

void StreamCall::Settle(bool here) {
  // Work started below may end before this returns.
  const std::shared_ptr<StreamCall> alive = shared_from_this();
  for (;;) {
    bool read = false, write = false, finish = false;
    std::unique_ptr<Group> group;
    {
      const std::lock_guard lock(mutex_);
      if (cancelled_) {
        waiting_.clear();
        replies_.clear();
      }
      if (!reading_ && !no_more_ && unanswered_ < kMostUnanswered) reading_ = read = true;
      if (!writing_ && !replies_.empty()) {
        out_.Swap(&replies_.front());
        out_bytes_ = out_.Length();
        replies_.pop_front();
        writing_ = write = true;
      }
      if (!waiting_.empty() && groups_.size() < static_cast<std::size_t>(serving_.pool.threads())) {
        group = std::make_unique<Group>(this, TakeTogether());
        groups_.push_back(group.get());
      }
      if (no_more_ && groups_.empty() && replies_.empty() && !writing_ && !finished_)
        finished_ = finish = true;
    }
    if (read) {
      unread_.Add(this);
      StartRead(&in_);
    }
    if (write) StartWrite(&out_);
    if (finish) Finish(EndOf(end_, &context_));
    if (group == nullptr) return;
    // The pool holds the group until it completes and deletes itself.
    serving_.pool.Start(
        group.release(), [this] { return caller_; }, here);
  }
}

void StreamCall::Answered(Group* group, const std::vector<grpc::ByteBuffer>& replies) {
  {
    const std::lock_guard lock(mutex_);
    std::erase(groups_, group);
    for (const grpc::ByteBuffer& reply : replies) Queue(reply);
  }
  Settle(false);
}

void StreamCall::TooLong(std::uint64_t bytes) {
  const absl::Status status = RequestTooLarge(bytes);
  serving_.metrics.Ended(Method::kSearchStream, nullptr, status, {}, 0);
  End(status);
}

void StreamCall::OnReadDone(bool ok) {
  if (!unread_.Remove(this)) return;
  if (!ok && !in_.Valid()) unread_.Refused(Peer());  // it has never sent a request
  Asked requested;
  requested.request = std::make_unique<v1::SearchStreamRequest>();
  const absl::Status read = ok ? Take(&requested) : absl::OkStatus();
  const bool is_query = ok && read.ok();
  const absl::Status parsed = is_query ? Parse(&requested) : read;
  if (!parsed.ok()) {
    serving_.metrics.Ended(Method::kSearchStream, serving_.registry.Named(index_).get(), parsed, {},
                           1);
  }
  {
    const std::lock_guard lock(mutex_);
    reading_ = false;
    unanswered_ += is_query ? 1 : 0;
    if (!is_query) {
      no_more_ = true;
      end_.Update(read);
    } else if (parsed.ok()) {
      waiting_.push_back(std::move(requested));
    } else {
      Queue(FailureOf(requested.id, parsed));
    }
  }
  Settle(true);
}

void StreamCall::OnWriteDone(bool ok) {
  {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    reply_.Taken(out_bytes_);
    --unanswered_;
    if (!ok) cancelled_ = no_more_ = true;
  }
  Settle(false);
}

void StreamCall::OnCancel() {
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = no_more_ = true;
    for (Group* group : groups_) group->Cancel();
  }
  Settle(false);
}

void StreamCall::OnDone() {
  // Settle may keep this alive a moment longer.
  const std::shared_ptr<StreamCall> last = std::move(self_);
}

}  // namespace hmann::server
