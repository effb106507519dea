#include "server/write_service.h"

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
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
  return collection.Delete(*filter);
}

absl::StatusOr<Written> Do(const v1::DeleteRequest& request, const Snapshot& index,
                           const RequestLimits& limits, const std::atomic<bool>&) {
  const bool has_labels = request.labels_size() + request.names_size() > 0;
  if (has_labels && (!request.filter().empty() || request.all()))
    return BadField("filter", "expected labels or a filter, found both");
  if (!request.filter().empty()) return DeleteByFilter(request, index);
  if (request.all()) return index.generation().collection()->DeleteAll();
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

/// The answer to a write. Returns its error as clients see it: with a time to come again,
/// unless merges fail, which are what makes room.
absl::Status Answer(const absl::StatusOr<Written>& written, const Snapshot& index,
                    v1::WriteResponse* response) {
  if (!written.ok()) {
    const bool merges = index.generation().collection()->info().last_error.empty();
    return index.ForClients(
        OfWrite(written.status(), merges ? kComeAgain : std::chrono::seconds(0)));
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
      : StreamCall(Method::kWrite, kMostUnanswered, &service.metrics_, replies, unread, call),
        service_(service),
        access_(std::move(access)) {}

 private:
  /// Messages that are in memory: a guess.
  static constexpr std::size_t kMostUnanswered = 4;

  struct Asked {
    v1::WriteStreamRequest request;
    std::uint64_t bytes = 0;
    Snapshot index;
    QueuedRequest::Clock::time_point began;
  };

  absl::Status Take(const grpc::ByteBuffer& message) override {
    Asked asked;
    asked.bytes = message.Length();
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
    const absl::Status queued = service_.writers_.Submit(running_.index.generation().number(),
                                                         running_.bytes, [this, alive] { Run(); });
    if (!queued.ok()) EndOrWait(queued);
  }

  void Run() {
    const v1::WriteStreamRequest& request = running_.request;
    const std::atomic<bool> never = false;
    const auto with = [&](const auto& write) {
      return Do(write, running_.index, service_.limits_, never);
    };
    response_.Clear();
    EndOrWait(Answer(request.has_put()       ? with(request.put())
                     : request.has_delete_() ? with(request.delete_())
                                             : with(request.update()),
                     running_.index, response_.mutable_written()));
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
    service_.metrics_.Ended(Method::kWrite, named.get(), status,
                            QueuedRequest::Clock::now() - running_.began, 0);
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
    return writers_.Submit(pending->index.generation().number(), bytes.Length(), write);
  };
  if (const absl::Status status = start(); !status.ok())
    call->Refuse(status, registry_.Named(pending->request.index()).get());
}

template <typename Request>
void WriteService::Finish(AnyCall* call, Pending<Request>& pending) {
  v1::WriteResponse response;
  absl::Status status = Answer(Do(pending.request, pending.index, limits_, call->cancelled()),
                               pending.index, &response);
  if (status.ok()) status = hmann::server::Write(response, call->reply());
  metrics_.Ended(Method::kWrite, &pending.index.served(), status,
                 QueuedRequest::Clock::now() - pending.began, 0);
  call->End(status);
}

WriteService::Begin WriteService::Named(absl::string_view method) {
  if (method == "Put") return &WriteService::Start<v1::PutRequest>;
  if (method == "Delete") return &WriteService::Start<v1::DeleteRequest>;
  if (method == "Update") return &WriteService::Start<v1::UpdateRequest>;
  if (method == "Compact") return &WriteService::Start<v1::CompactRequest>;
  return nullptr;
}

}  // namespace hmann::server
