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
#include "server/calls/raw_message.h"
#include "server/convert.h"
#include "server/core/errors.h"
#include "server/core/jobs.h"
#include "server/search_stream.h"

namespace hmann::server {
namespace {

template <typename Base>
class SingleSearch : public Base {
 public:
  using Request = v1::SearchRequest;
  static constexpr Method kMethod = Method::kSearch;

  static absl::StatusOr<Query> Read(const Serving& serving, const Request& request) {
    return ReadQuery(serving.registry, serving.limits, request.index(), request.query(), 1, "query",
                     request.options());
  }

  SingleSearch(const typename Base::To& to, std::unique_ptr<Request> request,
               const Serving& serving, Query query, const CallFacts& facts)
      : Base(to, serving, std::move(query), facts), request_(std::move(request)) {}

 private:
  void Keep(std::size_t, const hmann::Answer& answer) override { ToWire(answer, &response_); }
  void KeepWork(std::size_t, const Counters& work) override {
    ToWire(work, response_.mutable_counters());
  }
  const google::protobuf::MessageLite& Message() override {
    ReportParams(this->index(), this->options(), &response_);
    return response_;
  }

  const std::unique_ptr<Request> request_;  // owns the bytes of the vectors
  v1::SearchResponse response_;
};

/// Compares all vectors that match, whatever the defaults of the index are.
class ExactSearch : public SingleSearch<SmallCall<QueryRequest>> {
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

  BatchSearch(AnyCall* call, std::unique_ptr<Request> request, const Serving& serving, Query query,
              const CallFacts& facts)
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

  GetWork(AnyCall* call, std::unique_ptr<Request> request, const Serving& serving,
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

}  // namespace

grpc::ServerUnaryReactor* SearchService::SearchExactly(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request,
                                                       grpc::ByteBuffer* reply) {
  return Small<ExactSearch>(context, *request, reply);
}

grpc::ServerGenericBidiReactor* SearchService::StreamSearches(
    grpc::CallbackServerContext* context) {
  return Stream(context, Method::kSearchStream, [&](Access access) {
    return std::make_shared<SearchStreamCall>(serving_, &replies_, &unread_, context,
                                              CallerOf(*context, Method::kSearchStream),
                                              std::move(access));
  });
}

grpc::ServerGenericBidiReactor* SearchService::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  absl::string_view method = context->method();
  if (absl::ConsumePrefix(&method, "/hmann.v1.Search/")) {
    if (method == "Search") return Unary<SingleSearch<UnaryWork<QueryRequest>>>(context);
    if (method == "SearchBatch") return Unary<BatchSearch>(context);
    if (method == "SearchStream") return StreamSearches(context);
    if (method == "Get") return Unary<GetWork>(context);
  }
  if (absl::ConsumePrefix(&method, "/hmann.v1.Write/")) {
    if (method == "WriteStream") {
      return Stream(context, Method::kWriteStream, [&](Access access) {
        return writes_->Stream(context, &replies_, &unread_, std::move(access));
      });
    }
    if (const auto [writes, begin] = WriteService::Named(method); begin != nullptr)
      return Unary(context, writes, std::bind_front(begin, writes_), false);
  }
  if (vald_ != nullptr) {
    if (auto* const call = vald_->Begin(context); call != nullptr) return call;
  }
  unread_.Refused(context->peer());
  return CallbackGenericService::CreateReactor(context);  // UNIMPLEMENTED
}

}  // namespace hmann::server
