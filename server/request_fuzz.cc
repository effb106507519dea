/// libFuzzer target for request handling: parsing bytes as a message, checking options,
/// vectors and labels, and running the resulting search over a real index. The first
/// input byte selects a single query, a batch, a stream message or labels. It also
/// selects whether the index name is filled in and whether the vectors are resized to
/// fit. The rest is the message.
///
/// Canary: with HMANN_FUZZ_CANARY=1 the target aborts as soon as a search by a
/// non-default mode is answered. A fuzzer that does not find one within seconds does not
/// work.
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>

#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"
#include "index/base/check.h"
#include "index/base/random.h"
#include "index/construct/pipeline.h"
#include "server/calls/raw_message.h"
#include "server/convert.h"
#include "server/core/search_pool.h"

namespace hmann::server {
namespace {

constexpr std::uint32_t kDim = 8;
constexpr RequestLimits kLimits{
    .max_batch = 4, .max_k = 50, .max_ef = 100, .max_query_threads = 2, .max_reply_bytes = 4096};

/// One index, "a", of 500 vectors; its file is removed once it is open.
const Registry& Served() {
  static const Registry* const registry = [] {
    const std::string path = "/tmp/request_fuzz." + std::to_string(::getpid()) + ".hmann";
    std::array<std::byte, std::size_t{500} * kDim> rows;
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::byte>(Random(1, i));
    BuildOptions options;
    options.vectors = {rows.data(), DType::kU8, kDim, rows.size() / kDim, kDim};
    options.out = path;
    Progress silent(Progress::Show::kNever);
    HMANN_CHECK(BuildIndex(options, silent).ok());
    auto* made = new Registry({{"a", path}});
    HMANN_CHECK(made->indexes()[0]->Load(path, {}).ok());
    std::filesystem::remove(path);
    return made;
  }();
  return *registry;
}

void Search(const Query& query) {
  const std::unique_ptr<AnySearcher> searcher = query.index.generation().TakeSearcher();
  HMANN_CHECK(searcher != nullptr);
  const ResolvedParams& params = query.options.search.params;
  for (std::size_t i = 0; i < query.vectors.count; ++i) {
    Answer answer;
    Counters counters;
    const absl::Status status =
        searcher->index->Search(query.vectors.row(i), params, &answer, &counters,
                                {QueuedRequest::Clock::now() + std::chrono::seconds(5), nullptr});
    HMANN_CHECK(status.ok() || absl::IsInvalidArgument(status));
    HMANN_CHECK(answer.nearest.size() <= params.k && params.k <= kLimits.max_k);
    static const bool canary = std::getenv("HMANN_FUZZ_CANARY") != nullptr;
    HMANN_CHECK(!canary || !status.ok() || params.mode != SearchMode::kGraph);
    v1::SearchResponse response;
    ToWire(answer, &response);
    ToWire(counters, response.mutable_counters());
    ReportParams(query.index, query.options, &response);
    grpc::ByteBuffer reply;
    HMANN_CHECK(Write(response, &reply).ok());
  }
}

/// Handles a request as service and stream do before it waits for a thread.
void Call(std::string name, v1::Vectors* vectors, const v1::SearchParams& options, bool named,
          bool whole, std::uint64_t most) {
  if (named) name = "a";
  if (whole) vectors->mutable_raw()->resize(kDim * (vectors->raw().size() / kDim + 1));
  const absl::StatusOr<Query> query =
      ReadQuery(Served(), kLimits, name, *vectors, most, "query", options);
  if (!query.ok()) return;
  HMANN_CHECK(query->vectors.count >= 1 && query->vectors.count <= most);
  HMANN_CHECK(query->options.together >= 1);
  Search(*query);
}

void Get(v1::GetRequest& request, bool named) {
  if (named) request.set_index("a");
  const absl::StatusOr<Snapshot> index = Served().Get(request.index());
  if (!index.ok()) return;
  const std::span<const std::uint64_t> labels(request.labels().data(),
                                              static_cast<std::size_t>(request.labels_size()));
  const auto bytes = CheckGet(labels.size(), index->info(), kLimits);
  if (!bytes.ok()) return;
  HMANN_CHECK(*bytes == kDim && labels.size() <= kLimits.max_batch);
  std::array<std::byte, std::size_t{4} * kDim> vectors;
  const absl::Status status =
      index->generation().TakeSearcher()->index->Get(labels, vectors.data());
  HMANN_CHECK(status.ok() || absl::IsNotFound(status));
}

void Receive(std::uint8_t how, const grpc::ByteBuffer& bytes) {
  const bool named = (how & 8) != 0, whole = (how & 16) != 0;
  v1::SearchRequest one;
  v1::SearchBatchRequest batch;
  v1::SearchStreamRequest message;
  v1::GetRequest labels;
  if (how % 4 == 0 && Read(bytes, &one).ok())
    Call(one.index(), one.mutable_query(), one.options(), named, whole, 1);
  if (how % 4 == 1 && Read(bytes, &batch).ok())
    Call(batch.index(), batch.mutable_queries(), batch.options(), named, whole, kLimits.max_batch);
  if (how % 4 == 2 && Read(bytes, &message).ok()) {
    v1::SearchRequest* search = message.mutable_search();
    Call(search->index(), search->mutable_query(), search->options(), named, whole, 1);
  }
  if (how % 4 == 3 && Read(bytes, &labels).ok()) Get(labels, named);
}

}  // namespace
}  // namespace hmann::server

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const grpc::Slice slice(data + 1, size - 1);
  hmann::server::Receive(data[0], grpc::ByteBuffer(&slice, 1));
  return 0;
}
