#include "server/search_stream.h"

#include <utility>

#include "index/base/status_macros.h"
#include "server/calls/grpc_status.h"
#include "server/calls/raw_message.h"
#include "server/convert.h"

namespace hmann::server {
namespace {

/// The reply for a query that failed.
grpc::ByteBuffer FailedReply(std::uint64_t id, const absl::Status& status) {
  v1::SearchStreamResponse response;
  response.set_id(id);
  *response.mutable_failure() = FailureOf(status);
  grpc::ByteBuffer bytes;
  // Write fails only for lack of memory; the stream then ends, since its buffer is
  // invalid.
  Write(response, &bytes).IgnoreError();
  return bytes;
}

}  // namespace

/// Queries with the same options that the pool handles together. Their answers leave
/// together, after the pool has checked that the index file has not changed.
class SearchStreamCall::Group : public QueuedQuery {
 public:
  Group(SearchStreamCall* stream, std::vector<Asked> queries)
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
      if (!end.ok()) replies[i] = FailedReply(queries_[i].id, end);
      Count(end, queries_[i].began, 1);
    }
    stream_.Ended(this, replies);
    delete this;
  }

  SearchStreamCall& stream_;
  const std::vector<Asked> queries_;
  std::vector<End> ends_;
};

SearchStreamCall::SearchStreamCall(const Serving& serving, ReplyWatch* replies,
                                   UnreadRequests* unread, grpc::CallbackServerContext* call,
                                   Caller caller, Access access)
    : StreamCall(Method::kSearchStream, kMostUnanswered, &serving.metrics, replies, unread, call),
      serving_(serving),
      caller_(caller),
      deadline_(CallDeadline(*call)),
      access_(std::move(access)) {}

/// Reads a message. Errors, which end the stream: bytes that do not parse as one; a name
/// for which the client has no right, or not any more.
absl::Status SearchStreamCall::Read(const grpc::ByteBuffer& message, Asked* requested) {
  requested->request = std::make_unique<v1::SearchStreamRequest>();
  HMANN_RETURN_IF_ERROR(server::Read(message, requested->request.get()));
  const v1::SearchRequest& search = requested->request->search();
  // New settings stay in force even when they are invalid, so that each query gets the
  // error.
  if (!search.index().empty() || search.has_options()) options_ = nullptr;
  if (!search.index().empty()) index_ = search.index();
  if (search.has_options()) wire_options_ = search.options();
  const absl::Status may = access_.Check(Role::kRead, index_);
  if (!may.ok()) Refused();
  return may;
}

absl::Status SearchStreamCall::Parse(Asked* requested) {
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

std::vector<SearchStreamCall::Asked> SearchStreamCall::TakeTogether() {
  std::vector<Asked> together;
  const std::shared_ptr<const RequestParams> options = waiting_.front().options;
  while (!waiting_.empty() && waiting_.front().options == options &&
         together.size() < options->together) {
    together.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  return together;
}

absl::Status SearchStreamCall::Take(const grpc::ByteBuffer& message) {
  Asked requested;
  const absl::Status read = Read(message, &requested);
  const absl::Status parsed = read.ok() ? Parse(&requested) : read;
  if (!parsed.ok()) {
    serving_.metrics.Ended(Method::kSearchStream, serving_.registry.Named(index_).get(), parsed, {},
                           1);
  }
  if (read.ok() && !parsed.ok()) {
    Answered(FailedReply(requested.id, parsed));
  } else if (read.ok()) {
    const std::lock_guard lock(mutex());
    waiting_.push_back(std::move(requested));
  }
  return read;
}

StreamCall::Work SearchStreamCall::Next() {
  if (waiting_.empty() || groups_.size() >= static_cast<std::size_t>(serving_.pool.threads()))
    return nullptr;
  Group* const group = new Group(this, TakeTogether());  // the pool owns it; deletes itself
  groups_.push_back(group);
  return [this, group](bool here) {
    serving_.pool.Start(
        group, [this] { return caller_; }, here);
  };
}

std::size_t SearchStreamCall::Drop() {
  for (Group* group : groups_) group->Cancel();
  const std::size_t waited = waiting_.size();
  waiting_.clear();
  return waited;
}

void SearchStreamCall::Ended(Group* group, const std::vector<grpc::ByteBuffer>& replies) {
  {
    const std::lock_guard lock(mutex());
    std::erase(groups_, group);
  }
  Answered(replies);
}

}  // namespace hmann::server
