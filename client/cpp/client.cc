#include "hmann/client.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/cancellation.h"
#include "client/cpp/credentials.h"
#include "client/cpp/wire.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/support/sync_stream.h"
#include "hmann/v1/admin.grpc.pb.h"
#include "hmann/v1/search.grpc.pb.h"
#include "hmann/v1/write.grpc.pb.h"
#include "index/base/check.h"
#include "index/base/json_reader.h"
#include "index/base/status_macros.h"
#include "proto/wire.h"
#include "vald/vald.grpc.pb.h"

namespace hmann::client {
namespace {

/// RESOURCE_EXHAUSTED is deliberately absent: a full queue states when to retry.
constexpr char kRetryPolicy[] =
    R"({"methodConfig":[{"name":[{"service":"hmann.v1.Search"},{"service":"hmann.v1.Write"}],)"
    R"("retryPolicy":{"maxAttempts":4,"initialBackoff":"0.02s",)"
    R"("maxBackoff":"0.5s","backoffMultiplier":2,"retryableStatusCodes":["UNAVAILABLE"]}}],)"
    R"("retryThrottling":{"maxTokens":10,"tokenRatio":0.1}})";

/// Errors: INVALID_ARGUMENT for a predicate, for which the protocol has no field.
absl::Status CheckSendable(const SearchParams& options) {
  if (options.matches == nullptr) return absl::OkStatus();
  return InvalidArgument(
      "matches: a server cannot be given a predicate; give it CallOptions::filter, or search an "
      "index that is opened here");
}

/// 16 random bytes: two of a billion billions are equal with a probability of 1 in 700.
std::string DrawOperation() {
  std::string operation(16, '\0');
  HMANN_CHECK(::getentropy(operation.data(), operation.size()) == 0);
  return operation;
}

/// Creates a request without its vectors.
template <typename Request>
Request RequestFor(const std::string& index, const SearchParams& options, const CallOptions& call) {
  Request request;
  request.set_index(Utf8(index));
  hmann::ToWire(options, request.mutable_options());
  request.mutable_options()->set_counters(call.counters);
  if (call.filter.has_value()) request.mutable_options()->set_filter(*call.filter);
  ToWire(call.filter_arguments, request.mutable_options()->mutable_filter_arguments());
  return request;
}

/// Creates a request for a write.
template <typename Request>
Request WriteFor(const std::string& index, const Rows& rows, const CallOptions& call,
                 std::span<const std::string> attributes = {}) {
  Request request;
  request.set_index(Utf8(index));
  request.mutable_labels()->Assign(rows.labels.begin(), rows.labels.end());
  request.mutable_names()->Assign(rows.names.begin(), rows.names.end());
  request.set_operation(call.operation.empty() ? DrawOperation() : call.operation);
  if constexpr (requires { request.attributes(); })
    request.mutable_attributes()->Assign(attributes.begin(), attributes.end());
  return request;
}

/// The fields that single and batch answers share.
template <typename Found, typename Response>
auto FoundIn(const Response& response) {
  Found found;
  found.ids.assign(response.ids().begin(), response.ids().end());
  found.distances.assign(response.distances().begin(), response.distances().end());
  found.names.assign(response.names().begin(), response.names().end());
  found.params = ResolvedFromWire(response.params());
  if (response.has_counters()) found.counters = hmann::FromWire(response.counters());
  if (response.has_predicted()) {
    found.predicted.emplace();
    found.predicted->recall = response.predicted().recall();
    if (response.predicted().has_mean_us())
      found.predicted->mean_us = response.predicted().mean_us();
    found.predicted->predicted_for = response.predicted().predicted_for();
  }
  found.cut_short = response.cut_short();
  if (response.has_matches()) found.matches = response.matches();
  found.generation = response.generation();
  found.sequence = response.sequence();
  return found;
}

Written WrittenIn(const v1::WriteResponse& response) {
  return {response.sequence(), response.rows(), response.generation()};
}

}  // namespace

class Client::Impl {
 public:
  Impl(const std::string& address, const std::shared_ptr<grpc::Channel>& channel,
       Credentials credentials)
      : address_(address),
        tls_(credentials.tls),
        stubs_(v1::Search::NewStub(channel), v1::Admin::NewStub(channel),
               v1::Write::NewStub(channel), ::vald::v1::Index::NewStub(channel),
               ::vald::v1::Search::NewStub(channel), ::vald::v1::Object::NewStub(channel)),
        authorization_(std::move(credentials.authorization)) {}

  const std::string& address() const { return address_; }

  /// Makes one unary call, `(stub->*method)(context, request, response)`, with its
  /// deadline and cancellation.
  template <typename Stub, typename Request, typename Response>
  absl::Status Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response* response, const CallOptions& call) {
    grpc::ClientContext context;
    Prepare(call, &context);
    const Cancellation::Attachment attachment(call.cancellation, &context);
    return Named((stub<Stub>().*method)(&context, request, response));
  }

  template <typename Request>
  absl::StatusOr<Written> Write(grpc::Status (v1::Write::Stub::*method)(grpc::ClientContext*,
                                                                        const Request&,
                                                                        v1::WriteResponse*),
                                const Request& request, const CallOptions& call) {
    v1::WriteResponse response;
    HMANN_RETURN_IF_ERROR(Call(method, request, &response, call));
    return WrittenIn(response);
  }

  template <typename Request, typename Response>
  class Stream;

 private:
  template <typename Stub>
  Stub& stub() const {
    return *std::get<std::unique_ptr<Stub>>(stubs_);
  }

  void Prepare(const CallOptions& call, grpc::ClientContext* context) const {
    context->set_deadline(
        std::chrono::system_clock::now() +
        std::chrono::duration_cast<std::chrono::system_clock::duration>(call.deadline));
    if (!authorization_.empty()) context->AddMetadata("authorization", authorization_);
  }

  absl::Status Named(const grpc::Status& status) const {
    return NameFault(FromGrpc(status), address_, tls_);
  }

  const std::string address_;
  const bool tls_;
  const std::tuple<std::unique_ptr<v1::Search::Stub>, std::unique_ptr<v1::Admin::Stub>,
                   std::unique_ptr<v1::Write::Stub>, std::unique_ptr<::vald::v1::Index::Stub>,
                   std::unique_ptr<::vald::v1::Search::Stub>,
                   std::unique_ptr<::vald::v1::Object::Stub>>
      stubs_;
  const std::string authorization_;
};

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;

absl::StatusOr<Client> Client::Connect(const std::string& address, const ConnectOptions& options) {
  if (const std::size_t colon = address.rfind(':');
      colon == std::string::npos || colon == 0 || colon + 1 == address.size() ||
      absl::StartsWith(address, "http://") || absl::StartsWith(address, "https://")) {
    return InvalidArgument("server: expected HOST:PORT or unix:PATH, found '", address, "'");
  }
  HMANN_ASSIGN_OR_RETURN(Credentials credentials, MakeCredentials(address, options));
  grpc::ChannelArguments arguments;
  // The request bounds its reply, and the server has its own limit.
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // The defaults, a second that grows to two minutes, keep a client away from a server
  // that has come back.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  if (options.own_connection) arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (options.retry) arguments.SetServiceConfigJSON(kRetryPolicy);
  const auto channel = grpc::CreateCustomChannel(address, credentials.channel, arguments);
  return Client(std::make_unique<Impl>(address, channel, std::move(credentials)));
}

absl::StatusOr<Answer> Client::Search(const std::string& index, const Vectors& query,
                                      const SearchParams& options, const CallOptions& call) {
  HMANN_RETURN_IF_ERROR(CheckSendable(options));
  auto request = RequestFor<v1::SearchRequest>(index, options, call);
  v1::SearchResponse response;
  ToWire(query, request.mutable_query());
  HMANN_RETURN_IF_ERROR(impl_->Call(&v1::Search::Stub::Search, request, &response, call));
  return FoundIn<Answer>(response);
}

absl::StatusOr<BatchAnswer> Client::SearchBatch(const std::string& index, const Vectors& queries,
                                                const SearchParams& options,
                                                const CallOptions& call) {
  HMANN_RETURN_IF_ERROR(CheckSendable(options));
  auto request = RequestFor<v1::SearchBatchRequest>(index, options, call);
  v1::SearchBatchResponse response;
  ToWire(queries, request.mutable_queries());
  HMANN_RETURN_IF_ERROR(impl_->Call(&v1::Search::Stub::SearchBatch, request, &response, call));
  auto answer = FoundIn<BatchAnswer>(response);
  answer.counts.assign(response.counts().begin(), response.counts().end());
  return answer;
}

/// A call of messages in both directions. It starts with its first message, because a
/// call without any would look half sent. One thread may write while another reads.
template <typename Request, typename Response>
class Client::Impl::Stream {
 public:
  Stream(Impl& client, const CallOptions& call) : client_(client), call_(call) {}
  ~Stream() {
    if (messages_ == nullptr || ended_) return;
    context_.TryCancel();
    messages_->Finish();
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  absl::Status Write(const Request& request) {
    Begin();
    return messages_->Write(request) ? absl::OkStatus() : Unavailable("the stream has ended");
  }
  absl::Status DoneWriting() {
    Begin();
    return messages_->WritesDone() ? absl::OkStatus() : Unavailable("the stream has ended");
  }
  /// False after the last.
  absl::StatusOr<bool> Read(Response* response) {
    {
      std::unique_lock lock(mutex_);
      begun_.wait(lock, [this] { return messages_ != nullptr; });
    }
    if (!ended_ && messages_->Read(response)) return true;
    if (!std::exchange(ended_, true)) HMANN_RETURN_IF_ERROR(client_.Named(messages_->Finish()));
    return false;
  }

 private:
  void Begin() {
    if (messages_ != nullptr) return;
    {
      const std::lock_guard lock(mutex_);
      client_.Prepare(call_, &context_);
      if constexpr (std::is_same_v<Request, v1::SearchStreamRequest>) {
        messages_ = client_.stub<v1::Search::Stub>().SearchStream(&context_);
      } else {
        messages_ = client_.stub<v1::Write::Stub>().WriteStream(&context_);
      }
      attachment_.emplace(call_.cancellation, &context_);
    }
    begun_.notify_all();
  }

  Impl& client_;
  const CallOptions call_;
  grpc::ClientContext context_;
  std::optional<Cancellation::Attachment> attachment_;
  std::mutex mutex_;
  std::condition_variable begun_;
  std::unique_ptr<grpc::ClientReaderWriter<Request, Response>> messages_;
  bool ended_ = false;
};

namespace {

/// The error of one message of a stream.
absl::Status StatusOf(const v1::Failure& failure) {
  absl::Status status = FromGrpc(grpc::Status(static_cast<grpc::StatusCode>(failure.code()),
                                              failure.message(), failure.details()));
  return status.ok() ? Internal("a response of the stream holds nothing") : status;
}

}  // namespace

struct SearchStream::Impl {
  const absl::Status sendable;  ///< not OK: nothing is ever sent
  /// The first message carries index and options for all.
  v1::SearchStreamRequest request;
  v1::SearchStreamResponse response;
  Client::Impl::Stream<v1::SearchStreamRequest, v1::SearchStreamResponse> stream;
};

SearchStream::SearchStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SearchStream::SearchStream(SearchStream&&) noexcept = default;
SearchStream& SearchStream::operator=(SearchStream&&) noexcept = default;
SearchStream::~SearchStream() = default;

absl::Status SearchStream::Send(std::uint64_t id, const Vectors& query) {
  HMANN_RETURN_IF_ERROR(impl_->sendable);
  impl_->request.set_id(id);
  ToWire(query, impl_->request.mutable_search()->mutable_query());
  const absl::Status sent = impl_->stream.Write(impl_->request);
  impl_->request.Clear();
  return sent;
}

absl::Status SearchStream::DoneSending() {
  HMANN_RETURN_IF_ERROR(impl_->sendable);
  return impl_->stream.DoneWriting();
}

absl::StatusOr<std::optional<StreamedAnswer>> SearchStream::Receive() {
  HMANN_RETURN_IF_ERROR(impl_->sendable);
  v1::SearchStreamResponse& response = impl_->response;
  HMANN_ASSIGN_OR_RETURN(const bool more, impl_->stream.Read(&response));
  if (!more) return std::nullopt;
  if (response.has_answer())
    return StreamedAnswer{response.id(), FoundIn<Answer>(response.answer())};
  return StreamedAnswer{response.id(), StatusOf(response.failure())};
}

SearchStream Client::OpenStream(const std::string& index, const SearchParams& options,
                                const CallOptions& call) {
  auto impl = std::unique_ptr<SearchStream::Impl>(
      new SearchStream::Impl{CheckSendable(options), {}, {}, {*impl_, call}});
  *impl->request.mutable_search() = RequestFor<v1::SearchRequest>(index, options, call);
  return SearchStream(std::move(impl));
}

struct WriteStream::Impl {
  const std::string index;
  v1::WriteStreamResponse response;
  Client::Impl::Stream<v1::WriteStreamRequest, v1::WriteStreamResponse> stream;
};

WriteStream::WriteStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
WriteStream::WriteStream(WriteStream&&) noexcept = default;
WriteStream& WriteStream::operator=(WriteStream&&) noexcept = default;
WriteStream::~WriteStream() = default;

absl::Status WriteStream::Put(std::uint64_t id, const Rows& rows, const Vectors& vectors,
                              std::span<const std::string> attributes,
                              const std::string& operation) {
  v1::WriteStreamRequest request;
  request.set_id(id);
  v1::PutRequest& put = *request.mutable_put();
  put = WriteFor<v1::PutRequest>(impl_->index, rows, {.operation = operation}, attributes);
  ToWire(vectors, put.mutable_vectors());
  return impl_->stream.Write(request);
}

absl::Status WriteStream::Delete(std::uint64_t id, const Rows& rows, const std::string& operation) {
  v1::WriteStreamRequest request;
  request.set_id(id);
  *request.mutable_delete_() =
      WriteFor<v1::DeleteRequest>(impl_->index, rows, {.operation = operation});
  return impl_->stream.Write(request);
}

absl::Status WriteStream::Update(std::uint64_t id, const Rows& rows,
                                 std::span<const std::string> attributes,
                                 const std::string& operation) {
  v1::WriteStreamRequest request;
  request.set_id(id);
  *request.mutable_update() =
      WriteFor<v1::UpdateRequest>(impl_->index, rows, {.operation = operation}, attributes);
  return impl_->stream.Write(request);
}

absl::Status WriteStream::DoneSending() { return impl_->stream.DoneWriting(); }

absl::StatusOr<std::optional<StreamedWrite>> WriteStream::Receive() {
  v1::WriteStreamResponse& response = impl_->response;
  HMANN_ASSIGN_OR_RETURN(const bool more, impl_->stream.Read(&response));
  if (!more) return std::nullopt;
  if (response.has_written()) return StreamedWrite{response.id(), WrittenIn(response.written())};
  return StreamedWrite{response.id(), StatusOf(response.failure())};
}

WriteStream Client::OpenWrites(const std::string& index, const CallOptions& call) {
  return WriteStream(
      std::unique_ptr<WriteStream::Impl>(new WriteStream::Impl{index, {}, {*impl_, call}}));
}

absl::StatusOr<std::vector<std::byte>> Client::Get(const std::string& index,
                                                   std::span<const std::uint64_t> labels,
                                                   const CallOptions& call) {
  v1::GetRequest request;
  v1::GetResponse response;
  request.set_index(Utf8(index));
  request.mutable_labels()->Add(labels.begin(), labels.end());
  HMANN_RETURN_IF_ERROR(impl_->Call(&v1::Search::Stub::Get, request, &response, call));
  const auto bytes = std::as_bytes(std::span(response.vectors().raw()));
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

absl::StatusOr<IndexDescription> Client::Describe(const std::string& index, const CallOptions& call,
                                                  bool where) {
  v1::DescribeRequest request;
  v1::DescribeResponse response;
  request.set_index(Utf8(index));
  request.set_where(where);
  HMANN_RETURN_IF_ERROR(impl_->Call(&v1::Search::Stub::Describe, request, &response, call));
  return FromWire(response);
}

absl::StatusOr<std::vector<IndexSummary>> Client::List(const CallOptions& call) {
  v1::ListResponse response;
  HMANN_RETURN_IF_ERROR(impl_->Call(&v1::Search::Stub::List, v1::ListRequest(), &response, call));
  std::vector<IndexSummary> out;
  for (const v1::IndexSummary& summary : response.indexes()) out.push_back(FromWire(summary));
  return out;
}

absl::StatusOr<Loaded> Client::Load(const std::string& index, const std::string& path,
                                    const LoadOptions& options, const CallOptions& call,
                                    const Probe& probe) {
  v1::LoadRequest request;
  v1::LoadResponse response;
  request.set_index(Utf8(index));
  request.set_path(Utf8(path));
  ToWire(probe, request.mutable_probe());
  v1::LoadOptions& wire = *request.mutable_options();
  wire.set_fast(Utf8(options.fast));
  wire.set_slow(Utf8(options.slow));
  wire.set_cache(Utf8(options.cache));
  wire.set_cache_bytes(options.cache_bytes);
  if (options.sq_bits.has_value()) wire.set_sq_bits(*options.sq_bits);
  HMANN_RETURN_IF_ERROR(impl_->Call(&v1::Admin::Stub::Load, request, &response, call));
  return Loaded{response.generation(), response.content_hash(), response.seconds()};
}

absl::StatusOr<Loaded> Client::Swap(const std::string& index, const std::string& path,
                                    const CallOptions& call, const Probe& probe) {
  v1::SwapRequest request;
  v1::LoadResponse response;
  ToWire(probe, request.mutable_probe());
  request.set_index(Utf8(index));
  request.set_path(Utf8(path));
  HMANN_RETURN_IF_ERROR(impl_->Call(&v1::Admin::Stub::Swap, request, &response, call));
  return Loaded{response.generation(), response.content_hash(), response.seconds()};
}

absl::Status Client::Unload(const std::string& index, const CallOptions& call) {
  v1::UnloadRequest request;
  v1::UnloadResponse response;
  request.set_index(Utf8(index));
  return impl_->Call(&v1::Admin::Stub::Unload, request, &response, call);
}

absl::StatusOr<Written> Client::Put(const std::string& index, const Rows& rows,
                                    const Vectors& vectors, std::span<const std::string> attributes,
                                    const CallOptions& call) {
  auto request = WriteFor<v1::PutRequest>(index, rows, call, attributes);
  ToWire(vectors, request.mutable_vectors());
  return impl_->Write(&v1::Write::Stub::Put, request, call);
}

absl::StatusOr<Written> Client::Delete(const std::string& index, const Rows& rows,
                                       const CallOptions& call) {
  return impl_->Write(&v1::Write::Stub::Delete, WriteFor<v1::DeleteRequest>(index, rows, call),
                      call);
}

absl::StatusOr<Written> Client::DeleteMatching(const std::string& index, bool all,
                                               const CallOptions& call) {
  auto request = WriteFor<v1::DeleteRequest>(index, {}, call);
  if (call.filter.has_value()) request.set_filter(*call.filter);
  ToWire(call.filter_arguments, request.mutable_filter_arguments());
  request.set_all(all);
  return impl_->Write(&v1::Write::Stub::Delete, request, call);
}

absl::StatusOr<Written> Client::Update(const std::string& index, const Rows& rows,
                                       std::span<const std::string> attributes,
                                       const CallOptions& call) {
  return impl_->Write(&v1::Write::Stub::Update,
                      WriteFor<v1::UpdateRequest>(index, rows, call, attributes), call);
}

absl::StatusOr<Written> Client::Compact(const std::string& index, const CallOptions& call) {
  v1::CompactRequest request;
  request.set_index(Utf8(index));
  return impl_->Write(&v1::Write::Stub::Compact, request, call);
}

absl::StatusOr<std::vector<IndexStatus>> Client::Status(const std::string& index,
                                                        const CallOptions& call) {
  v1::StatusRequest request;
  v1::StatusResponse response;
  request.set_index(Utf8(index));
  HMANN_RETURN_IF_ERROR(impl_->Call(&v1::Admin::Stub::Status, request, &response, call));
  std::vector<IndexStatus> out;
  for (const v1::IndexStatus& status : response.indexes()) out.push_back(FromWire(status));
  return out;
}

absl::StatusOr<Answer> Client::ExactSearch(const std::string& index, const Vectors& query,
                                           const SearchParams& options, const CallOptions& call) {
  HMANN_RETURN_IF_ERROR(CheckSendable(options));
  auto request = RequestFor<v1::SearchRequest>(index, options, call);
  v1::SearchResponse response;
  ToWire(query, request.mutable_query());
  HMANN_RETURN_IF_ERROR(impl_->Call(&v1::Admin::Stub::ExactSearch, request, &response, call));
  return FoundIn<Answer>(response);
}

absl::Status Client::Drain(const CallOptions& call) {
  v1::DrainResponse response;
  return impl_->Call(&v1::Admin::Stub::Drain, v1::DrainRequest(), &response, call);
}

absl::StatusOr<ValdIndex> Client::DescribeVald(const CallOptions& call) {
  using Index = ::vald::v1::Index::Stub;
  ::payload::v1::Info_Index_Count count;
  ::payload::v1::Info_Index_PropertyDetail property;
  HMANN_RETURN_IF_ERROR(impl_->Call(&Index::IndexInfo, ::payload::v1::Empty(), &count, call));
  HMANN_RETURN_IF_ERROR(
      impl_->Call(&Index::IndexProperty, ::payload::v1::Empty(), &property, call));
  ValdIndex index{count.stored(), {}, {}};
  ::payload::v1::Search_Request request;
  request.mutable_config()->set_num(1);
  for (const auto& [agent, one] : property.details()) {
    index.shapes.insert(
        absl::StrCat(one.dimension(), " x ", one.object_type(), ", ", one.distance_type()));
    request.mutable_vector()->Resize(one.dimension(), 1);
  }
  ::payload::v1::Search_Response found;
  HMANN_RETURN_IF_ERROR(impl_->Call(&::vald::v1::Search::Stub::Search, request, &found, call));
  if (!found.results().empty()) index.id = found.results(0).id();
  return index;
}

absl::Status Client::FindVald(const std::string& id, const CallOptions& call) {
  ::payload::v1::Object_ID request, response;
  request.set_id(Utf8(id));
  return impl_->Call(&::vald::v1::Object::Stub::Exists, request, &response, call);
}

absl::Status Client::WaitReady(const std::string& index, const CallOptions& call,
                               std::chrono::nanoseconds patience) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kFirstPause(5), kLongestPause(200);
  const Clock::time_point begin = Clock::now();
  const Clock::time_point deadline =
      begin + std::chrono::duration_cast<Clock::duration>(call.deadline);
  v1::DescribeRequest request;
  request.set_index(Utf8(index));
  absl::Status last = absl::DeadlineExceededError("its time was over before the first call");
  for (std::chrono::milliseconds pause = kFirstPause; Clock::now() < deadline;
       pause = std::min(2 * pause, kLongestPause)) {
    v1::DescribeResponse response;
    // Without wait_for_ready: with it, a call that finds no server does not say why.
    const absl::Status status =
        impl_->Call(&v1::Search::Stub::Describe, request, &response,
                    {.deadline = deadline - Clock::now(), .cancellation = call.cancellation});
    if (status.ok() || (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status)))
      return status;
    if (absl::IsUnavailable(status)) last = status;
    // Certificates do not become right by waiting.
    const bool connects = !absl::StrContains(status.message(), "no connection to ");
    if (absl::StrContains(status.message(), "the server's certificate ") ||
        absl::StrContains(status.message(), "does not use TLS") ||
        (!connects && Clock::now() - begin >= patience)) {
      return status;
    }
    std::this_thread::sleep_for(std::min<Clock::duration>(
        pause, std::max(deadline - Clock::now(), Clock::duration::zero())));
  }
  return absl::DeadlineExceededError(
      absl::StrCat("index '", index, "' is not ready: ", last.message()));
}

}  // namespace hmann::client
