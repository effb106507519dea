#include "server/stream_call.h"

#include <algorithm>
#include <utility>

#include "index/base/status_macros.h"
#include "server/convert.h"
#include "server/errors.h"
#include "server/raw_message.h"

namespace hmann {
namespace {

/// The end of a query that has no answer.
grpc::ByteBuffer FailureOf(std::uint64_t id, const absl::Status& status) {
  const grpc::Status end = ToGrpc(status);
  v1::SearchStreamResponse response;
  response.set_id(id);
  v1::Failure& failure = *response.mutable_failure();
  failure.set_code(static_cast<std::int32_t>(end.error_code()));
  failure.set_message(end.error_message());
  failure.set_details(end.error_details());
  grpc::ByteBuffer bytes;
  // Memory alone can be wanting; the stream then ends as its buffer is none.
  Write(response, &bytes).IgnoreError();
  return bytes;
}

/// A call that ends at once.
class Refused : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit Refused(const absl::Status& status) { Finish(ToGrpc(status)); }
  void OnDone() override { delete this; }
};

}  // namespace

/// Queries of the same options that the pool has together. Their answers leave together,
/// after the pool has looked whether the index's file is the same still.
class StreamCall::Group : public SearchJob {
 public:
  Group(StreamCall* stream, std::vector<Asked> asked, Clock::time_point deadline)
      : SearchJob(asked[0].options->index, asked.size(),
                  EffortOf(asked[0].options->dials, asked[0].options->budget), Bytes(asked),
                  deadline),
        stream_(*stream),
        asked_(std::move(asked)),
        options_(asked_[0].options),
        ends_(asked_.size()) {}

  bool IsNarrow() const { return asked_.size() == 1 && options_->IsNarrow(); }

  void Complete(const absl::Status& status) override {
    std::vector<grpc::ByteBuffer> replies(asked_.size());
    for (std::size_t i = 0; i < asked_.size(); ++i) {
      absl::Status end = status.ok() ? ends_[i].status : status;
      if (end.ok()) end = Write(ends_[i].response, &replies[i]);
      if (!end.ok()) replies[i] = FailureOf(asked_[i].id, end);
      options_->metrics->Ended(Method::kSearchStream, options_->index, end,
                               Clock::now() - asked_[i].began, 1);
    }
    stream_.Answered(this, replies);
    delete this;
  }

 protected:
  std::size_t Together() const override { return options_->Together(); }

  absl::Status Answer(std::size_t begin, std::size_t end, Searcher& searcher,
                      const SearchLimits& limits) override {
    // Work is counted by query, or for all of them at once.
    const std::size_t at_once = options_->counters ? 1 : end - begin;
    for (std::size_t i = begin; i < end; i += at_once) {
      Counters counters;
      HMANN_RETURN_IF_ERROR(options_->Search(
          i, i + at_once, [this](std::size_t one) { return asked_[one].vectors.row(0); }, searcher,
          limits,
          [this](std::size_t one, const absl::Status& status, const hmann::Answer& answer) {
            return Keep(one, status, answer);
          },
          &counters));
      if (options_->counters)
        ToWire(counters, ends_[i].response.mutable_answer()->mutable_counters());
    }
    return absl::OkStatus();
  }

 private:
  struct End {
    absl::Status status;
    v1::SearchStreamResponse response;
  };

  static std::uint64_t Bytes(const std::vector<Asked>& asked) {
    return asked.size() *
           (asked[0].vectors.bytes.size() + ReplyBytes(1, asked[0].options->dials.k));
  }

  /// A vector that cannot be searched for fails its query; all else fails the group.
  absl::Status Keep(std::size_t i, const absl::Status& status, const hmann::Answer& answer) {
    if (absl::IsInvalidArgument(status)) {
      ends_[i].status = BadField("search.query", status.message());
      return absl::OkStatus();
    }
    if (!status.ok()) return status;
    v1::SearchStreamResponse& response = ends_[i].response;
    response.set_id(asked_[i].id);
    ToWire(answer, response.mutable_answer());
    TellDials(*options_, response.mutable_answer());
    return absl::OkStatus();
  }

  StreamCall& stream_;
  const std::vector<Asked> asked_;
  const std::shared_ptr<const ParsedQuery> options_;
  std::vector<End> ends_;
};

std::shared_ptr<StreamCall> StreamCall::Start(const CallContext& context,
                                              grpc::CallbackServerContext* call,
                                              std::uint64_t caller) {
  std::shared_ptr<StreamCall> stream(new StreamCall(context, call, caller));
  stream->self_ = stream;
  stream->Settle(false);
  return stream;
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* StreamCall::Refuse(
    const absl::Status& status) {
  return new Refused(status);
}

StreamCall::StreamCall(const CallContext& context, grpc::CallbackServerContext* call,
                       std::uint64_t caller)
    : context_(context),
      caller_(caller),
      deadline_(call->deadline()),
      reply_(&context.replies, [call] { call->TryCancel(); }) {}

/// Under the mutex.
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

absl::Status StreamCall::Parse(Asked* asked) {
  asked->began = SearchJob::Clock::now();
  asked->id = asked->request->id();
  const v1::SearchRequest& search = asked->request->search();
  if (!search.index().empty() || search.has_options() || options_ == nullptr) {
    // What was said holds on even where it cannot be had: so each query is told why.
    options_ = nullptr;
    if (!search.index().empty()) index_ = search.index();
    if (search.has_options()) wire_options_ = search.options();
    HMANN_ASSIGN_OR_RETURN(ParsedQuery parsed,
                           ParseOptions(context_.registry, context_.limits, index_, wire_options_));
    parsed.metrics = &context_.metrics;
    options_ = std::make_shared<const ParsedQuery>(std::move(parsed));
  }
  asked->options = options_;
  ParsedQuery one = *options_;
  HMANN_RETURN_IF_ERROR(ParseVectors(search.query(), 1, "search.query", context_.limits, &one));
  asked->vectors = std::move(one.vectors);
  return absl::OkStatus();
}

std::vector<StreamCall::Asked> StreamCall::TakeTogether() {
  std::vector<Asked> together;
  const std::shared_ptr<const ParsedQuery> options = waiting_.front().options;
  while (!waiting_.empty() && waiting_.front().options == options &&
         together.size() < options->Together()) {
    together.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  return together;
}

void StreamCall::Settle(bool here) {
  // Whatever is begun below may end before this returns.
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
      if (!waiting_.empty() && groups_.size() < static_cast<std::size_t>(context_.pool.threads())) {
        group = std::make_unique<Group>(this, TakeTogether(),
                                        DeadlineOf(deadline_, context_.default_deadline));
        groups_.push_back(group.get());
      }
      if (no_more_ && groups_.empty() && replies_.empty() && !writing_ && !finished_)
        finished_ = finish = true;
    }
    if (read) StartRead(&in_);
    if (write) StartWrite(&out_);
    if (finish) Finish(ToGrpc(end_));
    if (group == nullptr) return;
    Submit(std::move(group), here);
  }
}

void StreamCall::Submit(std::unique_ptr<Group> group, bool here) {
  // The pool has it, until it is complete and deletes itself.
  Group* const job = group.release();
  if (here && job->IsNarrow() && context_.pool.TryRunHere(job)) return;
  if (const absl::Status status = context_.pool.Submit(job, caller_); !status.ok())
    job->Complete(status);
}

void StreamCall::Answered(Group* group, const std::vector<grpc::ByteBuffer>& replies) {
  {
    const std::lock_guard lock(mutex_);
    std::erase(groups_, group);
    for (const grpc::ByteBuffer& reply : replies) Queue(reply);
  }
  Settle(false);
}

void StreamCall::OnReadDone(bool ok) {
  Asked asked;
  asked.request = std::make_unique<v1::SearchStreamRequest>();
  // Bytes that are no message are of no query, and end the stream.
  const absl::Status read = ok ? Read(in_, asked.request.get()) : absl::OkStatus();
  const bool is_query = ok && read.ok();
  const absl::Status parsed = is_query ? Parse(&asked) : read;
  if (!parsed.ok()) {
    context_.metrics.Ended(Method::kSearchStream,
                           asked.options == nullptr ? nullptr : asked.options->index, parsed, {},
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
      waiting_.push_back(std::move(asked));
    } else {
      Queue(FailureOf(asked.id, parsed));
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
  // Settle may hold it for a moment longer.
  const std::shared_ptr<StreamCall> last = std::move(self_);
}

}  // namespace hmann
