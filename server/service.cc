#include "server/service.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "grpcpp/support/byte_buffer.h"
#include "index/base/status_macros.h"
#include "proto/wire.h"
#include "server/convert.h"
#include "server/core/caller.h"
#include "server/core/errors.h"
#include "server/core/jobs.h"
#include "server/grpc_status.h"
#include "server/raw_message.h"

namespace hmann::server {
namespace {

/// A call that was answered on arrival.
class AnsweredCall : public grpc::ServerUnaryReactor {
 public:
  AnsweredCall(grpc::CallbackServerContext* context, ReplyWatch* replies,
               const absl::Status& status, std::uint64_t bytes)
      : reply_(replies, [context] { context->TryCancel(); }) {
    reply_.Sent(bytes);
    Finish(EndOf(status, context));
  }
  void OnDone() override { delete this; }

 private:
  ReplyWatch::Reply reply_;
};

class SingleSearch : public SmallCall<QueryRequest> {
 public:
  using Request = v1::SearchRequest;
  static constexpr Method kMethod = Method::kSearch;

  static absl::StatusOr<Query> Read(const Serving& serving, const Request& request) {
    return ReadQuery(serving.registry, serving.limits, request.index(), request.query(), 1, "query",
                     request.options());
  }

  SingleSearch(const To& to, std::unique_ptr<Request> request, const Serving& serving, Query query,
               const CallFacts& facts)
      : SmallCall(to, serving, std::move(query), facts), request_(std::move(request)) {}

 private:
  void Keep(std::size_t, const hmann::Answer& answer) override { ToWire(answer, &response_); }
  void KeepWork(std::size_t, const Counters& work) override {
    ToWire(work, response_.mutable_counters());
  }
  const google::protobuf::MessageLite& Message() override {
    ReportParams(index(), options(), &response_);
    return response_;
  }

  const std::unique_ptr<Request> request_;  // owns the bytes of the vectors
  v1::SearchResponse response_;
};

/// Compares all vectors that match, whatever the defaults of the index are.
class ExactSearch : public SingleSearch {
 public:
  static constexpr Method kMethod = Method::kAdmin;
  using SingleSearch::SingleSearch;

  static absl::StatusOr<Query> Read(const Serving& serving, const Request& request) {
    v1::SearchParams options = request.options();
    if (options.mode() != v1::MODE_UNSPECIFIED && options.mode() != v1::MODE_SCAN)
      return BadField("options.mode", "expected none or scan: all vectors are compared");
    options.set_mode(v1::MODE_SCAN);
    HMANN_ASSIGN_OR_RETURN(Query query, ReadQuery(serving.registry, serving.limits, request.index(),
                                                  request.query(), 1, "query", options));
    // Such a width is that of a search by vectors, not by codes.
    query.options.search.params.ef_l0 = static_cast<std::uint32_t>(query.index.rows());
    query.options.narrow = false;
    return query;
  }
};

class BatchSearch : public UnaryWork<QueryRequest> {
 public:
  using Request = v1::SearchBatchRequest;
  static constexpr Method kMethod = Method::kSearchBatch;

  static absl::StatusOr<Query> Read(const Serving& serving, const Request& request) {
    return ReadQuery(serving.registry, serving.limits, request.index(), request.queries(),
                     serving.limits.max_batch, "queries", request.options());
  }

  BatchSearch(UnaryCall* call, std::unique_ptr<Request> request, const Serving& serving,
              Query query, const CallFacts& facts)
      : UnaryWork(call, serving, std::move(query), facts), request_(std::move(request)) {}

 private:
  /// Writes to the slots of query `i`, which no other thread touches.
  void Keep(std::size_t i, const hmann::Answer& answer) override {
    std::call_once(sized_, [this] { MakeRoom(); });
    cut_short_ += answer.cut_short ? 1 : 0;
    std::uint64_t* ids = response_.mutable_ids()->mutable_data() + i * k();
    float* distances = response_.mutable_distances()->mutable_data() + i * k();
    for (std::size_t j = 0; j < answer.nearest.size(); ++j) {
      ids[j] = answer.nearest[j].label;
      distances[j] = answer.nearest[j].distance;
    }
    response_.mutable_counts()->mutable_data()[i] =
        static_cast<std::uint32_t>(answer.nearest.size());
  }

  void KeepWork(std::size_t, const Counters& work) override {
    const std::lock_guard lock(mutex_);
    work_ += work;
  }

  const google::protobuf::MessageLite& Message() override {
    CloseGaps();
    ReportParams(index(), options(), &response_);
    response_.set_cut_short(cut_short_.load());
    if (options().counters) ToWire(work_, response_.mutable_counters());
    return response_;
  }

  /// Gives each query's answer k slots of its own in the response, so that threads do not
  /// share any. It runs when the first search starts: a refused or waiting call takes no
  /// memory for its reply.
  void MakeRoom() {
    const int count = static_cast<int>(queries()), ids = count * static_cast<int>(k());
    response_.mutable_ids()->Resize(ids, 0);
    response_.mutable_distances()->Resize(ids, 0);
    response_.mutable_counts()->Resize(count, 0);
  }

  /// Compacts the answers when one has fewer than k.
  void CloseGaps() {
    std::uint64_t* ids = response_.mutable_ids()->mutable_data();
    float* distances = response_.mutable_distances()->mutable_data();
    std::size_t end = 0;
    for (int i = 0; i < response_.counts_size(); ++i) {
      const std::size_t begin = static_cast<std::size_t>(i) * k(), count = response_.counts(i);
      if (begin != end) {
        std::copy_n(ids + begin, count, ids + end);
        std::copy_n(distances + begin, count, distances + end);
      }
      end += count;
    }
    response_.mutable_ids()->Truncate(static_cast<int>(end));
    response_.mutable_distances()->Truncate(static_cast<int>(end));
  }

  const std::unique_ptr<Request> request_;  // owns the bytes of the vectors
  v1::SearchBatchResponse response_;
  std::once_flag sized_;
  std::atomic<std::uint32_t> cut_short_{0};
  std::mutex mutex_;
  Counters work_;
};

/// An index, and the bytes of one of its vectors.
using Place = std::pair<Snapshot, std::uint64_t>;

class GetWork : public UnaryWork<LabelsRequest> {
 public:
  using Request = v1::GetRequest;
  static constexpr Method kMethod = Method::kGet;

  /// Adds the names to the labels.
  static absl::StatusOr<Place> Read(const Serving& serving, Request& request) {
    for (const std::string& name : request.names()) request.add_labels(VectorLabel(name).number());
    HMANN_ASSIGN_OR_RETURN(Snapshot index, serving.registry.Get(request.index()));
    HMANN_ASSIGN_OR_RETURN(const std::uint64_t bytes,
                           CheckGet(LabelsOf(request).size(), index.info(), serving.limits));
    return Place(std::move(index), bytes);
  }

  GetWork(UnaryCall* call, std::unique_ptr<Request> request, const Serving& serving,
          const Place& place, const CallFacts& facts)
      : UnaryWork(call, serving, place.first, LabelsOf(*request), place.second, facts),
        request_(std::move(request)) {}

 private:
  static std::span<const std::uint64_t> LabelsOf(const Request& request) {
    return {request.labels().data(), static_cast<std::size_t>(request.labels_size())};
  }
  char* Room(std::size_t bytes) override {
    response_.mutable_vectors()->mutable_raw()->resize(bytes);
    return response_.mutable_vectors()->mutable_raw()->data();
  }
  const google::protobuf::MessageLite& Message() override {
    SetVersion(index(), &response_);
    return response_;
  }

  const std::unique_ptr<Request> request_;  // owns the labels
  v1::GetResponse response_;
};

/// The header that carries a token; empty without one.
std::string_view AuthorizationOf(const grpc::CallbackServerContext& context) {
  const auto found = context.client_metadata().find("authorization");
  if (found == context.client_metadata().end()) return {};
  return {found->second.data(), found->second.size()};
}

/// Errors: RESOURCE_EXHAUSTED for a call with too much metadata.
absl::Status CheckHeaders(const grpc::CallbackServerContext& context) {
  constexpr std::size_t kMostHeaders = 16 << 10;
  std::size_t bytes = 0;
  for (const auto& [key, value] : context.client_metadata()) bytes += key.size() + value.size();
  return bytes <= kMostHeaders ? absl::OkStatus() : HeadersTooLarge(bytes, kMostHeaders);
}

}  // namespace

absl::StatusOr<Access> SearchService::Authorized(const grpc::CallbackServerContext& context,
                                                 Role needed) const {
  Access access(tokens_, AuthorizationOf(context));
  absl::Status status = CheckHeaders(context);
  if (status.ok()) status = access.Check(needed);
  if (status.ok()) return access;
  unread_.Refused(context.peer());
  return status;
}

absl::StatusOr<Access> SearchService::MayAdminister(
    const grpc::CallbackServerContext& context) const {
  if (tokens_ == nullptr) {
    return absl::PermissionDeniedError(
        "hmann.v1.Admin is for tokens of role admin: start the server with --tokens");
  }
  return Authorized(context, Role::kAdmin);
}

absl::StatusOr<Access> SearchService::MayStart(const grpc::CallbackServerContext& context,
                                               Method method) {
  if (stopping_.load(std::memory_order_relaxed)) {
    refused_.fetch_add(1);
    return ServerStopping();
  }
  if (method == Method::kAdmin) return MayAdminister(context);
  return Authorized(context, method == Method::kWrite ? Role::kWrite : Role::kRead);
}

grpc::ServerUnaryReactor* SearchService::Finished(grpc::CallbackServerContext* context,
                                                  const absl::Status& status, std::uint64_t bytes) {
  return new AnsweredCall(context, &replies_, status, bytes);
}

Caller SearchService::CallerOf(const grpc::CallbackServerContext& context, Method method) const {
  return {tokens_ != nullptr ? CallerWith(AuthorizationOf(context)) : CallerAt(context.peer()),
          static_cast<std::uint64_t>(method)};
}

/// The work for a request. On errors, `named` is the index that it names, or null.
template <typename Work, typename To>
absl::StatusOr<std::unique_ptr<Work>> SearchService::Make(
    const To& to, Access& access, const grpc::CallbackServerContext& context,
    const grpc::ByteBuffer& bytes, std::shared_ptr<ServedIndex>* named) const {
  constexpr Role kNeeded = Work::kMethod == Method::kAdmin ? Role::kAdmin : Role::kRead;
  const CallFacts facts{Work::kMethod, QueuedRequest::Clock::now(), CallDeadline(context)};
  auto request = std::make_unique<typename Work::Request>();
  HMANN_RETURN_IF_ERROR(Read(bytes, request.get()));
  HMANN_RETURN_IF_ERROR(access.Check(kNeeded, request->index()));
  auto read = Work::Read(serving_, *request);
  if (!read.ok()) {
    *named = serving_.registry.Named(request->index());
    return read.status();
  }
  return std::make_unique<Work>(to, std::move(request), serving_, *std::move(read), facts);
}

template <typename Work>
grpc::ServerUnaryReactor* SearchService::Small(grpc::CallbackServerContext* context,
                                               const grpc::ByteBuffer& request,
                                               grpc::ByteBuffer* reply) {
  std::shared_ptr<ServedIndex> named;
  if (!request.Valid()) unread_.Refused(context->peer());
  const auto make = [&]() -> absl::StatusOr<std::unique_ptr<Work>> {
    HMANN_ASSIGN_OR_RETURN(Access access, MayStart(*context, Work::kMethod));
    const typename Work::To to{context, reply, &replies_};
    return Make<Work>(to, access, *context, request, &named);
  };
  auto made = make();
  if (!made.ok()) {
    serving_.metrics.Ended(Work::kMethod, named.get(), made.status(), {}, 0);
    return Reply(context, made.status());
  }
  Work* const call = made->release();  // deletes itself
  serving_.pool.Start(call, [&] { return CallerOf(*context, Work::kMethod); });
  return call;
}

grpc::ServerUnaryReactor* SearchService::Search(grpc::CallbackServerContext* context,
                                                const grpc::ByteBuffer* request,
                                                grpc::ByteBuffer* reply) {
  return Small<SingleSearch>(context, *request, reply);
}

grpc::ServerUnaryReactor* SearchService::SearchExactly(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request,
                                                       grpc::ByteBuffer* reply) {
  return Small<ExactSearch>(context, *request, reply);
}

template <typename Work>
void SearchService::Begin(UnaryCall* call, Access& access, const grpc::ByteBuffer& bytes) {
  std::shared_ptr<ServedIndex> named;
  auto work = Make<Work>(call, access, call->context(), bytes, &named);
  if (!work.ok()) return call->Refuse(work.status(), named.get());
  QueuedRequest* const job = work->get();
  call->Keep(*std::move(work));
  // While some are refused, a batch of one takes its turn with the others.
  serving_.pool.Start(
      job, [&] { return CallerOf(call->context(), Work::kMethod); }, !serving_.pool.RefusesSome());
}

UnaryCall* SearchService::NewCall(grpc::CallbackServerContext* context, Method method,
                                  UnaryCall::Begin begin) {
  return new UnaryCall(context, method, serving_, &replies_, &unread_, &room_, std::move(begin));
}

template <typename Work>
grpc::ServerGenericBidiReactor* SearchService::Unary(grpc::CallbackServerContext* context) {
  absl::StatusOr<Access> access = MayStart(*context, Work::kMethod);
  UnaryCall* const call =
      NewCall(context, Work::kMethod,
              [this, access](UnaryCall* call, const grpc::ByteBuffer& bytes) mutable {
                Begin<Work>(call, *access, bytes);
              });
  if (!access.ok()) {
    call->Refuse(access.status());
    return call;
  }
  if (serving_.pool.RefusesSome()) {
    const Caller caller = CallerOf(*context, Work::kMethod);
    const auto deadline = DeadlineOf(serving_, {Work::kMethod, {}, CallDeadline(*context)});
    if (!serving_.pool.MayHaveRoom(caller, deadline)) {
      room_.Add(call, caller, deadline);
      return call;
    }
  }
  call->Read();
  return call;
}

grpc::ServerGenericBidiReactor* SearchService::BeginWrite(grpc::CallbackServerContext* context,
                                                          WriteService::Begin begin) {
  absl::StatusOr<Access> access = MayStart(*context, Method::kWrite);
  UnaryCall* const call = NewCall(
      context, Method::kWrite,
      [writes = writes_, access, begin](UnaryCall* call, const grpc::ByteBuffer& bytes) mutable {
        (writes->*begin)(call, *access, bytes);
      });
  if (access.ok()) {
    call->Read();
  } else {
    call->Refuse(access.status());
  }
  return call;
}

void SearchService::LookIn() {
  room_.LookIn(QueuedRequest::Clock::now(), [&](Caller caller, auto deadline) {
    return serving_.pool.MayHaveRoom(caller, deadline);
  });
}

grpc::ServerGenericBidiReactor* SearchService::Stream(grpc::CallbackServerContext* context,
                                                      Method method) {
  absl::StatusOr<Access> access = MayStart(*context, method);
  if (!access.ok()) {
    UnaryCall* const call = NewCall(context, method, nullptr);
    call->Refuse(access.status());
    return call;
  }
  if (method == Method::kWrite)
    return Started(writes_->Stream(context, &replies_, &unread_, *std::move(access)));
  return Started(std::make_shared<SearchStreamCall>(
      serving_, &replies_, &unread_, context, CallerOf(*context, method), *std::move(access)));
}

StreamCall* SearchService::Started(const std::shared_ptr<StreamCall>& stream) {
  stream->Start();
  {
    const std::lock_guard lock(mutex_);
    // The list holds at most twice as many as are live.
    if (streams_.size() == streams_.capacity())
      std::erase_if(streams_, [](const auto& ended) { return ended.expired(); });
    streams_.push_back(stream);
  }
  if (stopping_.load()) stream->End(ServerStopping());
  return stream.get();
}

grpc::ServerGenericBidiReactor* SearchService::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  absl::string_view method = context->method();
  if (absl::ConsumePrefix(&method, "/hmann.v1.Search/")) {
    if (method == "SearchBatch") return Unary<BatchSearch>(context);
    if (method == "SearchStream") return Stream(context, Method::kSearchStream);
    if (method == "Get") return Unary<GetWork>(context);
  }
  if (absl::ConsumePrefix(&method, "/hmann.v1.Write/")) {
    if (method == "WriteStream") return Stream(context, Method::kWrite);
    if (const WriteService::Begin begin = WriteService::Named(method); begin != nullptr)
      return BeginWrite(context, begin);
  }
  unread_.Refused(context->peer());
  return CallbackGenericService::CreateReactor(context);  // UNIMPLEMENTED
}

void SearchService::Stop() {
  stopping_.store(true);
  room_.Close(ServerStopping());
  std::vector<std::weak_ptr<StreamCall>> streams;
  {
    const std::lock_guard lock(mutex_);
    streams.swap(streams_);
  }
  for (const std::weak_ptr<StreamCall>& weak : streams) {
    if (const std::shared_ptr<StreamCall> stream = weak.lock()) stream->End(ServerStopping());
  }
}

}  // namespace hmann::server
