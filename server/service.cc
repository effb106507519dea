#include "server/service.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/support/byte_buffer.h"
#include "index/base/status_macros.h"
#include "proto/wire.h"
#include "server/caller.h"
#include "server/convert.h"
#include "server/errors.h"
#include "server/parsed_query.h"
#include "server/raw_message.h"

namespace hmann {
namespace {

/// Reads and checks all of a request.
absl::StatusOr<ParsedQuery> Parse(const Registry& registry, const RequestLimits& limits,
                                  const std::string& name, const v1::Vectors& vectors,
                                  std::uint64_t most, absl::string_view field,
                                  const v1::SearchOptions& options) {
  HMANN_ASSIGN_OR_RETURN(ParsedQuery parsed, ParseOptions(registry, limits, name, options));
  HMANN_RETURN_IF_ERROR(ParseVectors(vectors, most, field, limits, &parsed));
  return parsed;
}

/// Where a reply goes.
struct ReplyTo {
  grpc::CallbackServerContext* context;
  grpc::ByteBuffer* bytes;
  ReplyWatch* watch;
};

/// A call that was answered when it came.
class AnsweredCall : public grpc::ServerUnaryReactor {
 public:
  AnsweredCall(const ReplyTo& to, const absl::Status& status, std::uint64_t bytes)
      : reply_(to.watch, [context = to.context] { context->TryCancel(); }) {
    reply_.Sent(bytes);
    Finish(ToGrpc(status));
  }
  void OnDone() override { delete this; }

 private:
  ReplyWatch::Reply reply_;
};

/// A call that waits for the pool. gRPC and the pool both hold it; it deletes itself when
/// gRPC is done, which is after Complete.
class PooledCall : public grpc::ServerUnaryReactor, public SearchJob {
 public:
  PooledCall(Method method, ParsedQuery parsed, Clock::time_point deadline, const ReplyTo& to)
      : SearchJob(parsed.index, parsed.vectors.count, EffortOf(parsed.dials, parsed.budget),
                  parsed.Bytes(), deadline),
        method_(method),
        parsed_(std::move(parsed)),
        out_(*to.bytes),
        reply_(to.watch, [context = to.context] { context->TryCancel(); }) {}

  void Complete(const absl::Status& status) override {
    parsed_.metrics->Ended(method_, parsed_.index, status, Clock::now() - parsed_.began,
                           parsed_.vectors.count);
    reply_.Sent(out_.Length());
    Finish(ToGrpc(status));
  }
  void OnCancel() override { Cancel(); }
  void OnDone() override { delete this; }

 protected:
  /// `keep` gets the answer to each of the queries [begin, end); `field(i)` names one.
  absl::Status Search(std::size_t begin, std::size_t end, Searcher& searcher,
                      const SearchLimits& limits, absl::FunctionRef<std::string(std::size_t)> field,
                      absl::FunctionRef<void(std::size_t, const hmann::Answer&)> keep,
                      Counters* counters) {
    const auto row = [this](std::size_t i) { return parsed_.vectors.row(i); };
    return parsed_.Search(
        begin, end, row, searcher, limits,
        [&](std::size_t i, const absl::Status& status, const hmann::Answer& answer) {
          // The options were valid when the call was parsed, so it is the vector.
          if (absl::IsInvalidArgument(status)) return BadField(field(i), status.message());
          if (status.ok()) keep(i, answer);
          return status;
        },
        counters);
  }

  const Method method_;
  const ParsedQuery parsed_;
  grpc::ByteBuffer& out_;

 private:
  ReplyWatch::Reply reply_;
};

class SingleCall : public PooledCall {
 public:
  using Request = v1::SearchRequest;
  static constexpr Method kMethod = Method::kSearch;

  static absl::StatusOr<ParsedQuery> ParseRequest(const Registry& registry,
                                                  const RequestLimits& limits,
                                                  const v1::SearchRequest& request) {
    return Parse(registry, limits, request.index(), request.query(), 1, "query", request.options());
  }

  SingleCall(std::unique_ptr<Request> request, ParsedQuery parsed, Clock::time_point deadline,
             const ReplyTo& to)
      : PooledCall(kMethod, std::move(parsed), deadline, to), request_(std::move(request)) {}

  void Complete(const absl::Status& status) override {
    PooledCall::Complete(status.ok() ? Write(response_, &out_) : status);
  }

 protected:
  absl::Status Answer(std::size_t begin, std::size_t end, Searcher& searcher,
                      const SearchLimits& limits) override {
    Counters counters;
    HMANN_RETURN_IF_ERROR(Search(
        begin, end, searcher, limits, [](std::size_t) { return "query"; },
        [&](std::size_t, const hmann::Answer& answer) { ToWire(answer, &response_); }, &counters));
    TellDials(parsed_, &response_);
    if (parsed_.counters) ToWire(counters, response_.mutable_counters());
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<Request> request_;  // whose bytes the vectors are
  v1::SearchResponse response_;
};

class BatchCall : public PooledCall {
 public:
  using Request = v1::SearchBatchRequest;
  static constexpr Method kMethod = Method::kSearchBatch;

  static absl::StatusOr<ParsedQuery> ParseRequest(const Registry& registry,
                                                  const RequestLimits& limits,
                                                  const v1::SearchBatchRequest& request) {
    return Parse(registry, limits, request.index(), request.queries(), limits.max_batch, "queries",
                 request.options());
  }

  BatchCall(std::unique_ptr<Request> request, ParsedQuery parsed, Clock::time_point deadline,
            const ReplyTo& to)
      : PooledCall(kMethod, std::move(parsed), deadline, to), request_(std::move(request)) {}

  void Complete(const absl::Status& status) override {
    if (!status.ok()) {
      PooledCall::Complete(status);
    } else {
      CloseGaps();
      TellDials(parsed_, &response_);
      response_.set_cut_short(cut_short_.load());
      if (parsed_.counters) ToWire(counters_, response_.mutable_counters());
      PooledCall::Complete(Write(response_, &out_));
    }
  }

 protected:
  std::size_t Together() const override { return parsed_.Together(); }

  absl::Status Answer(std::size_t begin, std::size_t end, Searcher& searcher,
                      const SearchLimits& limits) override {
    Counters counters;
    const absl::Status status = Search(
        begin, end, searcher, limits,
        [](std::size_t i) { return absl::StrCat("queries[", i, "]"); },
        [&](std::size_t i, const hmann::Answer& answer) { Keep(i, answer); }, &counters);
    if (!parsed_.counters) return status;
    const std::lock_guard lock(mutex_);
    counters_ += counters;
    return status;
  }

 private:
  /// Into the places of query `i`, which no other thread touches.
  void Keep(std::size_t i, const hmann::Answer& answer) {
    std::call_once(sized_, [this] { MakeRoom(); });
    cut_short_ += answer.cut_short ? 1 : 0;
    std::uint64_t* ids = response_.mutable_ids()->mutable_data() + i * parsed_.dials.k;
    float* distances = response_.mutable_distances()->mutable_data() + i * parsed_.dials.k;
    for (std::size_t j = 0; j < answer.nearest.size(); ++j) {
      ids[j] = answer.nearest[j].label;
      distances[j] = answer.nearest[j].distance;
    }
    response_.mutable_counts()->mutable_data()[i] =
        static_cast<std::uint32_t>(answer.nearest.size());
  }

  /// Each query's answer has k places of its own in the response, so that threads do not
  /// meet. Not before the first search begins: a call that is refused or waits takes no
  /// memory for its reply.
  void MakeRoom() {
    const int queries = static_cast<int>(parsed_.vectors.count),
              ids = queries * static_cast<int>(parsed_.dials.k);
    response_.mutable_ids()->Resize(ids, 0);
    response_.mutable_distances()->Resize(ids, 0);
    response_.mutable_counts()->Resize(queries, 0);
  }

  /// Moves answers together where one has fewer than k.
  void CloseGaps() {
    std::uint64_t* ids = response_.mutable_ids()->mutable_data();
    float* distances = response_.mutable_distances()->mutable_data();
    std::size_t end = 0;
    for (int i = 0; i < response_.counts_size(); ++i) {
      const std::size_t begin = static_cast<std::size_t>(i) * parsed_.dials.k,
                        count = response_.counts(i);
      if (begin != end) {
        std::copy_n(ids + begin, count, ids + end);
        std::copy_n(distances + begin, count, distances + end);
      }
      end += count;
    }
    response_.mutable_ids()->Truncate(static_cast<int>(end));
    response_.mutable_distances()->Truncate(static_cast<int>(end));
  }

  const std::unique_ptr<Request> request_;  // whose bytes the vectors are
  v1::SearchBatchResponse response_;
  std::once_flag sized_;
  std::atomic<std::uint32_t> cut_short_{0};
  std::mutex mutex_;
  Counters counters_;
};

}  // namespace

absl::Status SearchService::Authorized(const grpc::CallbackServerContext& context,
                                       Role needed) const {
  if (tokens_ == nullptr) return absl::OkStatus();
  const auto found = context.client_metadata().find("authorization");
  if (found == context.client_metadata().end()) return Authorize(tokens_, "", needed);
  return Authorize(tokens_, {found->second.data(), found->second.size()}, needed);
}

absl::Status SearchService::MayStart(const grpc::CallbackServerContext& context) {
  if (!stopping_.load(std::memory_order_relaxed)) return Authorized(context, Role::kRead);
  refused_.fetch_add(1);
  return ServerStopping();
}

grpc::ServerUnaryReactor* SearchService::Finished(grpc::CallbackServerContext* context,
                                                  const absl::Status& status, std::uint64_t bytes) {
  return new AnsweredCall({context, nullptr, &replies_}, status, bytes);
}

grpc::ServerUnaryReactor* SearchService::Refuse(Method method, grpc::CallbackServerContext* context,
                                                const absl::Status& status) {
  metrics_.Ended(method, nullptr, status, {}, 0);
  return Reply(context, status);
}

template <typename Call>
grpc::ServerUnaryReactor* SearchService::Start(grpc::CallbackServerContext* context,
                                               const grpc::ByteBuffer& bytes,
                                               grpc::ByteBuffer* reply) {
  const auto began = SearchJob::Clock::now();
  if (const absl::Status status = MayStart(*context); !status.ok())
    return Refuse(Call::kMethod, context, status);
  auto request = std::make_unique<typename Call::Request>();
  if (const absl::Status status = Read(bytes, request.get()); !status.ok())
    return Refuse(Call::kMethod, context, status);
  absl::StatusOr<ParsedQuery> parsed = Call::ParseRequest(registry_, limits_, *request);
  if (!parsed.ok()) return Refuse(Call::kMethod, context, parsed.status());
  parsed->metrics = &metrics_;
  parsed->began = began;
  const bool narrow = parsed->IsNarrow();
  auto* call = new Call(std::move(request), *std::move(parsed),
                        DeadlineOf(context->deadline(), default_deadline_),
                        ReplyTo{context, reply, &replies_});
  if (narrow && pool_.TryRunHere(call)) return call;
  const std::uint64_t caller = CallerOf(*context, tokens_ != nullptr);
  if (const absl::Status status = pool_.Submit(call, caller); !status.ok()) call->Complete(status);
  return call;
}

grpc::ServerUnaryReactor* SearchService::Search(grpc::CallbackServerContext* context,
                                                const grpc::ByteBuffer* request,
                                                grpc::ByteBuffer* reply) {
  return Start<SingleCall>(context, *request, reply);
}

grpc::ServerUnaryReactor* SearchService::SearchBatch(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request,
                                                     grpc::ByteBuffer* reply) {
  return Start<BatchCall>(context, *request, reply);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* SearchService::SearchStream(
    grpc::CallbackServerContext* context) {
  if (const absl::Status status = MayStart(*context); !status.ok()) {
    metrics_.Ended(Method::kSearchStream, nullptr, status, {}, 0);
    return StreamCall::Refuse(status);
  }
  std::shared_ptr<StreamCall> stream =
      StreamCall::Start({registry_, pool_, limits_, default_deadline_, metrics_, replies_}, context,
                        CallerOf(*context, tokens_ != nullptr));
  {
    const std::lock_guard lock(mutex_);
    // Twice as many as live, at most.
    if (streams_.size() == streams_.capacity())
      std::erase_if(streams_, [](const auto& ended) { return ended.expired(); });
    streams_.push_back(stream);
  }
  if (stopping_.load()) stream->End(ServerStopping());
  return stream.get();
}

void SearchService::Stop() {
  stopping_.store(true);
  std::vector<std::weak_ptr<StreamCall>> streams;
  {
    const std::lock_guard lock(mutex_);
    streams.swap(streams_);
  }
  for (const std::weak_ptr<StreamCall>& weak : streams) {
    if (const std::shared_ptr<StreamCall> stream = weak.lock()) stream->End(ServerStopping());
  }
}

}  // namespace hmann
