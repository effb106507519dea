#include "server/write_service.h"

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "grpcpp/alarm.h"
#include "hmann/collection.h"
#include "index/base/status_macros.h"
#include "server/calls/raw_message.h"
#include "server/convert.h"
#include "server/core/errors.h"
#include "server/core/query.h"

namespace hmann::server {
namespace {

/// After which a write that found no room may come again: a guess.
constexpr std::chrono::seconds kComeAgain(1);

template <typename Request>
constexpr Method kMethodOf = std::is_same_v<Request, v1::PutRequest>      ? Method::kPut
                             : std::is_same_v<Request, v1::DeleteRequest> ? Method::kDelete
                             : std::is_same_v<Request, v1::UpdateRequest> ? Method::kUpdate
                                                                          : Method::kCompact;

template <typename Request>
absl::StatusOr<std::vector<VectorLabel>> ReadRows(const Request& request,
                                                  const RequestLimits& limits) {
  std::vector<VectorLabel> rows;
  for (const std::uint64_t label : request.labels()) rows.emplace_back(label);
  for (const std::string& name : request.names()) rows.emplace_back(name);
  if (rows.empty()) return BadField("labels", "expected one or more, found none");
  if (rows.size() > limits.max_batch) {
    return BadField("labels",
                    absl::StrCat("expected at most ", limits.max_batch, ", found ", rows.size()));
  }
  return rows;
}

absl::Status CheckCount(const char* field, std::size_t found, std::size_t rows) {
  if (found == rows) return absl::OkStatus();
  return BadField(field, absl::StrCat("expected ", rows, ", as there are labels, found ", found));
}

absl::StatusOr<Written> Do(const v1::PutRequest& request, const Snapshot& index,
                           const RequestLimits& limits, const std::atomic<bool>&) {
  HMANN_ASSIGN_OR_RETURN(const std::vector<VectorLabel> rows, ReadRows(request, limits));
  HMANN_ASSIGN_OR_RETURN(const QueryVectors vectors,
                         ReadVectors(request.vectors(), index.info(), limits.max_batch, "vectors"));
  HMANN_RETURN_IF_ERROR(CheckCount("vectors", vectors.count, rows.size()));
  const auto attributes = static_cast<std::size_t>(request.attributes_size());
  if (attributes > 0) HMANN_RETURN_IF_ERROR(CheckCount("attributes", attributes, rows.size()));
  const std::size_t bytes = vectors.bytes.size() / vectors.count;
  WriteBatch batch;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string_view text =
        attributes == 0 ? std::string_view() : request.attributes(static_cast<int>(i));
    batch.Put(rows[i], vectors.row(i), bytes, text);
  }
  batch.SetOperation(request.operation());
  return index.generation().collection()->Write(batch);
}

absl::StatusOr<Written> DeleteByFilter(const v1::DeleteRequest& request, const Snapshot& index) {
  Collection& collection = *index.generation().collection();
  const absl::StatusOr<Filter> filter =
      Filter::Parse(request.filter(), ReadArguments(request.filter_arguments()));
  if (!filter.ok()) return BadField("filter", filter.status().message());
  const std::shared_ptr<const Moment> now = collection.Now();
  HMANN_ASSIGN_OR_RETURN(const auto prepared, Prepare(now, {.k = 1}, &*filter));
  if (!request.all() && LiveRows(*now) > 0 && MatchingRows(*prepared) == LiveRows(*now)) {
    return BadField("filter", absl::StrCat("it holds for all ", LiveRows(*now),
                                           " vectors: say `all` if that is meant"));
  }
  return collection.Delete(*filter, request.operation());
}

absl::StatusOr<Written> Do(const v1::DeleteRequest& request, const Snapshot& index,
                           const RequestLimits& limits, const std::atomic<bool>&) {
  const bool has_labels = request.labels_size() + request.names_size() > 0;
  if (has_labels && (request.has_filter() || request.all()))
    return BadField("filter", "expected labels or a filter, found both");
  if (request.has_filter()) return DeleteByFilter(request, index);
  if (request.all()) return index.generation().collection()->DeleteAll(request.operation());
  HMANN_ASSIGN_OR_RETURN(const std::vector<VectorLabel> rows, ReadRows(request, limits));
  WriteBatch batch;
  for (const VectorLabel& row : rows) batch.Delete(row);
  batch.SetOperation(request.operation());
  return index.generation().collection()->Write(batch);
}

absl::StatusOr<Written> Do(const v1::UpdateRequest& request, const Snapshot& index,
                           const RequestLimits& limits, const std::atomic<bool>&) {
  HMANN_ASSIGN_OR_RETURN(const std::vector<VectorLabel> rows, ReadRows(request, limits));
  HMANN_RETURN_IF_ERROR(
      CheckCount("attributes", static_cast<std::size_t>(request.attributes_size()), rows.size()));
  WriteBatch batch;
  for (std::size_t i = 0; i < rows.size(); ++i)
    batch.Update(rows[i], request.attributes(static_cast<int>(i)));
  batch.SetOperation(request.operation());
  return index.generation().collection()->Write(batch);
}

absl::StatusOr<Written> Do(const v1::CompactRequest&, const Snapshot& index, const RequestLimits&,
                           const std::atomic<bool>& cancelled) {
  Progress quiet(Progress::Show::kNever);
  Collection& collection = *index.generation().collection();
  const absl::Status merged = collection.Compact(quiet, &cancelled);
  // Unlike a write, a merge that lacks memory or disk does not get them by waiting.
  if (absl::IsResourceExhausted(merged)) return FailedPrecondition(merged.message());
  HMANN_RETURN_IF_ERROR(merged);
  const CollectionInfo info = collection.info();
  return Written{.sequence = info.covered, .rows = info.sealed_rows};
}

/// The number after `prefix` at the start of a text.
std::optional<std::uint64_t> NumberAfter(absl::string_view text, absl::string_view prefix) {
  std::uint64_t number = 0;
  if (!absl::ConsumePrefix(&text, prefix)) return std::nullopt;
  const std::size_t end = text.find_first_not_of("0123456789");
  if (!absl::SimpleAtoi(text.substr(0, end), &number)) return std::nullopt;
  return number;
}

/// The row of a request that the engine's error names, by its place or its label.
template <typename Request>
std::optional<int> RowOf(const absl::Status& error, const Request& request) {
  if (const auto row = NumberAfter(error.message(), "row ")) return static_cast<int>(*row);
  const auto label = NumberAfter(error.message(), "label ");
  if (!label.has_value()) return std::nullopt;
  for (int i = 0; i < request.labels_size(); ++i)
    if (request.labels(i) == *label) return i;
  for (int i = 0; i < request.names_size(); ++i)
    if (VectorLabel(request.names(i)).number() == *label) return request.labels_size() + i;
  return std::nullopt;
}

/// The engine's error of a write with what clients may act on: the field of its row, or
/// the label that is unknown or exists.
template <typename Request>
absl::Status OfRow(const absl::Status& error, const Request& request) {
  const absl::string_view why = error.message();
  if constexpr (requires { request.names(); }) {
    if (absl::StartsWith(why, "operation: "))
      return absl::IsInvalidArgument(error) ? BadField("operation", why.substr(11))
                                            : OfOperation(error, request.operation());
    const std::optional<int> row = RowOf(error, request);
    if (absl::IsNotFound(error) || absl::IsAlreadyExists(error)) {
      if (!row.has_value()) return error;
      const int name = *row - request.labels_size();
      return OfLabel(error, name < 0 ? absl::StrCat(request.labels(*row)) : request.names(name));
    }
    if (!absl::IsInvalidArgument(error) || error.GetPayload(kField).has_value()) return error;
    if (absl::StartsWith(why, "a batch of ")) return BadField("labels", why);
    if (!row.has_value()) return error;
    const bool of_attributes = absl::StrContains(why, "): attributes: ");
    const bool of_label = !of_attributes && (absl::StrContains(why, "is no label") ||
                                             absl::StrContains(why, "a label of ") ||
                                             absl::StrContains(why, "the same "));
    const bool of_vector = requires { request.vectors(); } && absl::StartsWith(why, "row ") &&
                           !of_label && !of_attributes;
    const int name = *row - request.labels_size();
    return BadField(of_vector   ? absl::StrCat("vectors[", *row, "]")
                    : !of_label ? absl::StrCat("attributes[", *row, "]")
                    : name < 0  ? absl::StrCat("labels[", *row, "]")
                                : absl::StrCat("names[", name, "]"),
                    why);
  }
  return error;
}

/// Whether an error of a write or a merge ends when the disk has space again.
bool LacksSpace(absl::string_view error) {
  return absl::StrContains(error, "space on the disk") || absl::StrContains(error, "No space left");
}

/// The answer to a write. Returns its error as clients see it: with the field of its row,
/// and with a time to come again, unless merges, which are what makes room, fail for
/// another reason than a full disk.
template <typename Request>
absl::Status Answer(const absl::StatusOr<Written>& written, const Snapshot& index,
                    const Request& request, v1::WriteResponse* response) {
  if (!written.ok()) {
    const std::string failed = index.generation().collection()->info().last_error;
    const bool ends =
        failed.empty() || LacksSpace(failed) || LacksSpace(written.status().message());
    return index.ForClients(
        OfWrite(OfRow(written.status(), request), ends ? kComeAgain : std::chrono::seconds(0)));
  }
  response->set_sequence(written->sequence);
  response->set_rows(written->rows);
  response->set_generation(index.generation().number());
  return absl::OkStatus();
}

}  // namespace

/// A WriteStream call. One write of it runs at a time.
class WriteService::StreamOfWrites : public StreamCall {
 public:
  StreamOfWrites(WriteService& service, ReplyWatch* replies, UnreadRequests* unread,
                 grpc::CallbackServerContext* call, Access access)
      : StreamCall(Method::kWriteStream, kMostUnanswered, &service.metrics_, replies, unread, call),
        service_(service),
        access_(std::move(access)) {}

 private:
  /// Messages that are in memory: a guess.
  static constexpr std::size_t kMostUnanswered = 4;

  struct Asked {
    v1::WriteStreamRequest request;
    Snapshot index;
    QueuedRequest::Clock::time_point began;
  };

  absl::Status Take(const grpc::ByteBuffer& message) override {
    Asked asked;
    asked.began = QueuedRequest::Clock::now();
    HMANN_RETURN_IF_ERROR(Read(message, &asked.request));
    v1::WriteStreamRequest& request = asked.request;
    std::string* const name = request.has_put()       ? request.mutable_put()->mutable_index()
                              : request.has_delete_() ? request.mutable_delete_()->mutable_index()
                              : request.has_update()  ? request.mutable_update()->mutable_index()
                                                      : nullptr;
    if (name == nullptr) return BadField("write", "expected put, delete or update, found none");
    if (name->empty()) *name = index_;
    index_ = *name;
    if (const absl::Status may = access_.Check(Role::kWrite, index_); !may.ok()) {
      Refused();
      return may;
    }
    const std::lock_guard lock(mutex());
    waiting_.push_back(std::move(asked));
    return absl::OkStatus();
  }

  Work Next() override {
    if (runs_ || waiting_.empty()) return nullptr;
    runs_ = true;
    running_ = std::move(waiting_.front());
    waiting_.pop_front();
    return [this](bool) { Begin(); };
  }

  std::size_t Drop() override {
    const std::size_t waited = waiting_.size();
    waiting_.clear();
    return waited;
  }

  /// Looks up the collection, and queues the write.
  void Begin() {
    absl::StatusOr<Snapshot> index = service_.registry_.Get(NameOf(running_.request));
    if (!index.ok()) return End(index.status());
    running_.index = *std::move(index);
    if (running_.index.moment() == nullptr) return End(NotACollection(NameOf(running_.request)));
    const auto alive = shared_from_this();
    const absl::Status queued =
        service_.writers_.Submit(running_.index.generation().number(), [this, alive] { Run(); });
    if (!queued.ok()) EndOrWait(queued);
  }

  void Run() {
    const v1::WriteStreamRequest& request = running_.request;
    const std::atomic<bool> never = false;
    const auto with = [&](const auto& write) {
      return Answer(Do(write, running_.index, service_.limits_, never), running_.index, write,
                    response_.mutable_written());
    };
    response_.Clear();
    EndOrWait(request.has_put()       ? with(request.put())
              : request.has_delete_() ? with(request.delete_())
                                      : with(request.update()));
  }

  /// Where there will be room, the client is held back until there is.
  void EndOrWait(const absl::Status& status) {
    bool waits = absl::IsResourceExhausted(status) && status.GetPayload(kRetryNs).has_value();
    if (waits) {
      const std::lock_guard lock(mutex());
      waits = !is_ending();
    }
    if (!waits) return End(status);
    // An alarm keeps what its function owns, also after it has rung, and this owns it.
    until_it_rings_ = shared_from_this();
    alarm_ = std::make_unique<grpc::Alarm>();  // one that rings may set another
    alarm_->Set(std::chrono::system_clock::now() + kComeAgain, [this](bool) {
      const auto alive = std::exchange(until_it_rings_, nullptr);
      Begin();
    });
  }

  void End(const absl::Status& status) {
    response_.set_id(running_.request.id());
    if (!status.ok()) *response_.mutable_failure() = FailureOf(status);
    grpc::ByteBuffer reply;
    Write(response_, &reply).IgnoreError();  // it fails for lack of memory only
    const auto named = service_.registry_.Named(NameOf(running_.request));
    service_.metrics_.Ended(Method::kWriteStream, named.get(), status,
                            QueuedRequest::Clock::now() - running_.began,
                            status.ok() ? response_.written().rows() : 0);
    {
      const std::lock_guard lock(mutex());
      runs_ = false;
      running_ = {};
    }
    Answered(reply);
  }

  static const std::string& NameOf(const v1::WriteStreamRequest& request) {
    return request.has_put()       ? request.put().index()
           : request.has_delete_() ? request.delete_().index()
                                   : request.update().index();
  }

  WriteService& service_;
  // Used by the reading thread only:
  Access access_;
  std::string index_;
  // Used by the one thread that works for it:
  Asked running_;
  v1::WriteStreamResponse response_;
  std::unique_ptr<grpc::Alarm> alarm_;
  std::shared_ptr<StreamCall> until_it_rings_;
  // Guarded by mutex():
  std::deque<Asked> waiting_;
  bool runs_ = false;
};

std::shared_ptr<StreamCall> WriteService::Stream(grpc::CallbackServerContext* context,
                                                 ReplyWatch* replies, UnreadRequests* unread,
                                                 Access access) {
  return std::make_shared<StreamOfWrites>(*this, replies, unread, context, std::move(access));
}

template <typename Request>
struct WriteService::Pending {
  Request request;
  Snapshot index;
  QueuedRequest::Clock::time_point began = QueuedRequest::Clock::now();
};

template <typename Request>
void WriteService::Start(AnyCall* call, Access& access, const grpc::ByteBuffer& bytes) {
  const auto pending = std::make_shared<Pending<Request>>();
  const auto start = [&]() -> absl::Status {
    HMANN_RETURN_IF_ERROR(Read(bytes, &pending->request));
    HMANN_RETURN_IF_ERROR(access.Check(Role::kWrite, pending->request.index()));
    HMANN_ASSIGN_OR_RETURN(pending->index, registry_.Get(pending->request.index()));
    if (pending->index.moment() == nullptr) return NotACollection(pending->request.index());
    const auto write = [this, call, pending] { Finish(call, *pending); };
    if constexpr (std::is_same_v<Request, v1::CompactRequest>) return loader_.Run(true, write);
    return writers_.Submit(pending->index.generation().number(), write);
  };
  if (const absl::Status status = start(); !status.ok())
    call->Refuse(status, registry_.Named(pending->request.index()).get());
}

template <typename Request>
void WriteService::Finish(AnyCall* call, Pending<Request>& pending) {
  v1::WriteResponse response;
  // One that has waited until its deadline passed changes nothing.
  absl::Status status = call->cancelled()
                            ? absl::CancelledError("the call ended before its write began")
                            : Answer(Do(pending.request, pending.index, limits_, call->cancelled()),
                                     pending.index, pending.request, &response);
  if (status.ok()) status = hmann::server::Write(response, call->reply());
  constexpr bool kWrites = !std::is_same_v<Request, v1::CompactRequest>;
  metrics_.Ended(kMethodOf<Request>, &pending.index.served(), status,
                 QueuedRequest::Clock::now() - pending.began, kWrites ? response.rows() : 0);
  call->End(status);
}

std::pair<Method, WriteService::Begin> WriteService::Named(absl::string_view method) {
  if (method == "Put") return {Method::kPut, &WriteService::Start<v1::PutRequest>};
  if (method == "Delete") return {Method::kDelete, &WriteService::Start<v1::DeleteRequest>};
  if (method == "Update") return {Method::kUpdate, &WriteService::Start<v1::UpdateRequest>};
  return {Method::kCompact,
          method == "Compact" ? &WriteService::Start<v1::CompactRequest> : nullptr};
}

}  // namespace hmann::server
