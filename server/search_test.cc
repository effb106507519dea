// Searches through a real server: answers equal to those of the engine, bit for bit, and
// the code of every bad request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <thread>

#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/testing/fixture.h"

namespace hmann::server {
namespace {

using testing::HasSubstr;

constexpr std::size_t kDim = 128;

std::vector<std::vector<Neighbor>> InProcess(const SearchParams& params, std::size_t queries) {
  const auto index = *Index::Open(SampleIndex());
  Searcher searcher(index);
  std::vector<std::vector<Neighbor>> answers(queries);
  for (std::size_t i = 0; i < queries; ++i) {
    Answer answer;
    const absl::Status status = searcher.Search(SampleQueries(i, 1).data(), params, &answer);
    EXPECT_TRUE(status.ok()) << status;
    answers[i].swap(answer.nearest);
  }
  return answers;
}

/// Expects equality, bit for bit.
void ExpectSame(const std::vector<Neighbor>& expected, const std::uint64_t* ids,
                const float* distances) {
  for (std::size_t j = 0; j < expected.size(); ++j) {
    EXPECT_EQ(ids[j], expected[j].label);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(distances[j]),
              std::bit_cast<std::uint32_t>(expected[j].distance))
        << distances[j] << " and " << expected[j].distance;
  }
}

class SearchTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ServerOptions options = LoopbackOptions({{"sift", SampleIndex()}, {"cosine", CosineIndex()}});
    options.limits.max_batch = 64;
    options.limits.max_reply_bytes = 1 << 16;
    options.limits.max_ef = 20000;
    served_ = new Served(options);
  }
  static void TearDownTestSuite() {
    delete served_;
    served_ = nullptr;
  }

  static client::Client& client() { return *served_->client; }

  /// The error of a search for `row` on "sift".
  static absl::Status Error(std::span<const std::byte> row, const client::SearchParams& params) {
    return client().Search("sift", client::Vectors::Raw(row), params).status();
  }

  static Served* served_;
};
Served* SearchTest::served_ = nullptr;

void ExpectBadField(const absl::Status& status, const std::string& field,
                    const std::string& words) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("field " + field));
  EXPECT_THAT(std::string(status.message()), HasSubstr(words));
  EXPECT_TRUE(HasDetail(status, "google.rpc.BadRequest"));
}

TEST_F(SearchTest, AnswersAreThoseOfTheEngineToTheBit) {
  for (const SearchMode mode :
       {SearchMode::kMultiStart, SearchMode::kGraph, SearchMode::kQuantized, SearchMode::kUpper}) {
    for (const std::uint32_t ef_l0 : {1u, 3u, 64u}) {
      SearchParams wire{.k = 7, .ef_l1 = 20, .ef_l0 = ef_l0, .mode = mode};
      if (mode == SearchMode::kUpper) wire.ef_l0.reset();
      const auto expected = InProcess(wire, 20);
      for (std::size_t i = 0; i < 20; ++i) {
        const auto answer =
            client().Search("sift", client::Vectors::Raw(SampleQueries(i, 1)), wire);
        ASSERT_TRUE(answer.ok()) << answer.status();
        ASSERT_EQ(answer->ids.size(), expected[i].size());
        ExpectSame(expected[i], answer->ids.data(), answer->distances.data());
      }
      const auto batch = client().SearchBatch(
          "sift", client::Vectors::Raw(SampleQueries(0, 20), SampleQueries(0, 20).size() / 128),
          wire);
      ASSERT_TRUE(batch.ok()) << batch.status();
      ASSERT_EQ(batch->counts, std::vector<std::uint32_t>(20, 7));
      for (std::size_t i = 0; i < 20; ++i)
        ExpectSame(expected[i], batch->ids.data() + i * 7, batch->distances.data() + i * 7);
    }
  }
}

TEST_F(SearchTest, ADistanceBoundsAnswers) {
  const SearchParams params{.k = 50, .max_distance = 60'000};
  const auto expected = InProcess(params, 20);
  const auto batch = client().SearchBatch(
      "sift", client::Vectors::Raw(SampleQueries(0, 20), SampleQueries(0, 20).size() / 128),
      params);
  ASSERT_TRUE(batch.ok()) << batch.status();
  std::size_t at = 0, shortened = 0;
  for (std::size_t i = 0; i < 20; ++i) {
    ASSERT_EQ(batch->counts[i], expected[i].size());
    ExpectSame(expected[i], batch->ids.data() + at, batch->distances.data() + at);
    at += expected[i].size();
    shortened += expected[i].size() < 50 ? 1 : 0;
    for (const Neighbor& neighbor : expected[i]) EXPECT_LE(neighbor.distance, 60'000);
  }
  EXPECT_GT(shortened, 0u);
  EXPECT_GT(at, 0u);
  ExpectBadField(Error(SampleQueries(0, 1), {.max_distance = std::nanf("")}),
                 "options.max_distance", "NaN");
}

TEST_F(SearchTest, FloatsAskAnIndexOfIntegersToo) {
  const auto row = SampleQueries(3, 1);
  std::vector<float> floats;
  for (const std::byte component : row) floats.push_back(static_cast<float>(component));
  const auto raw = client().Search("sift", client::Vectors::Raw(row), {});
  const auto from_floats = client().Search("sift", client::Vectors::Floats(floats), {});
  ASSERT_TRUE(raw.ok() && from_floats.ok()) << raw.status() << from_floats.status();
  EXPECT_EQ(raw->ids, from_floats->ids);
  EXPECT_EQ(raw->distances, from_floats->distances);

  for (const float bad : {0.5f, 256.0f, -1.0f, std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity()}) {
    floats[5] = bad;
    ExpectBadField(client().Search("sift", client::Vectors::Floats(floats), {}).status(), "query",
                   "component 5");
  }
}

TEST_F(SearchTest, ParamsAndCountersComeBack) {
  const auto index = *Index::Open(SampleIndex());
  for (const SearchParams& requested :
       {SearchParams{.k = 5},
        SearchParams{.k = 5, .mode = SearchMode::kMultiStart, .query_threads = 2},
        SearchParams{.k = 5,
        .mode = SearchMode::kGraph,
        .beam_width = 3,
        .epsilon = 0.3f,
        .prefetch = Prefetch::kOff},
        SearchParams{.k = 5,
        .ef_l1 = 7,
        .ef_l0 = 9,
        .mode = SearchMode::kQuantized,
        .nprobe = 11,
        .beam_width = 13,
        .error_bound = 1.25f,
        .epsilon = 0.1f}}) {
    const auto reply =
        client().Search("sift", client::Vectors::Raw(SampleQueries(0, 1)), requested);
    ASSERT_TRUE(reply.ok()) << reply.status();
    ResolvedParams expected = index->Resolve(requested)->params;
    expected.most_distances = reply->params.most_distances;  // follows from the index
    EXPECT_EQ(reply->params, expected) << "to the bit";
    EXPECT_FALSE(reply->counters.has_value());
  }
  const client::CallOptions count{.counters = true};
  const auto answer =
      client().Search("sift", client::Vectors::Raw(SampleQueries(0, 1)), {.k = 5}, count);
  ASSERT_TRUE(answer.ok()) << answer.status();

  // The counters of a batch are the sum over its queries.
  ASSERT_TRUE(answer->counters.has_value());
  std::uint64_t distances = 0;
  for (std::size_t i = 0; i < 10; ++i) {
    const auto one =
        client().Search("sift", client::Vectors::Raw(SampleQueries(i, 1)), {.k = 5}, count);
    distances += one->counters->distances_fast + one->counters->distances_slow;
  }
  const auto batch = client().SearchBatch(
      "sift", client::Vectors::Raw(SampleQueries(0, 10), SampleQueries(0, 10).size() / 128),
      {.k = 5}, count);
  EXPECT_GT(distances, 0u);
  EXPECT_EQ(batch->counters->distances_fast + batch->counters->distances_slow, distances);
}

TEST_F(SearchTest, BadParamsAreNamed) {
  const auto row = SampleQueries(0, 1);
  ExpectBadField(Error(row, {.k = 0}), "options.k", "at least 1");
  ExpectBadField(Error(row, {.k = 10001}), "options.k", "10000");
  ExpectBadField(Error(row, {.k = 1, .ef_l1 = 20001}), "options.ef_l1", "20000");
  ExpectBadField(Error(row, {.k = 1, .ef_l0 = 20001}), "options.ef_l0", "20000");
  ExpectBadField(Error(row, {.k = 1, .query_threads = 1000}), "options.query_threads", "1000");
  ExpectBadField(Error(row, {.mode = SearchMode::kQuantized, .nprobe = 20001}), "options.nprobe",
                 "20000");
  ExpectBadField(Error(row, {.mode = SearchMode::kQuantized, .error_bound = -1}),
                 "options.error_bound", "found -1");
  ExpectBadField(Error(row, {.epsilon = -2}), "options.epsilon", "found -2");
  ExpectBadField(Error(row, {.epsilon = -0.7f}), "options.epsilon", "-1, or -0.5 to");
  ExpectBadField(Error(row, {.mode = SearchMode::kGraph, .nprobe = 3}), "options.nprobe",
                 "only quantized");
  ExpectBadField(Error(row, {.mode = static_cast<SearchMode>(7)}), "options.mode", "number 8");
  ExpectBadField(Error(row, {.prefetch = static_cast<Prefetch>(9)}), "options.prefetch",
                 "number 10");
}

TEST_F(SearchTest, BadVectorsAreNamed) {
  const std::vector<std::byte> bytes(70 * kDim);
  ExpectBadField(Error(std::span(bytes).first(kDim - 1), {}), "query", "128");
  ExpectBadField(Error(std::span(bytes).first(2 * kDim), {}), "query", "256");
  ExpectBadField(Error({}, {}), "query", "found 0");
  const auto batch = [&](std::size_t size) {
    return client()
        .SearchBatch("sift",
                     client::Vectors::Raw(std::span(bytes).first(size),
                                          (std::span(bytes).first(size)).size() / 128),
                     {})
        .status();
  };
  ExpectBadField(batch(3 * kDim + 1), "queries", "multiple of 128");
  ExpectBadField(batch(65 * kDim), "queries", "64");
}

TEST_F(SearchTest, ZeroVectorUnderCosineIsNamedWithItsPlace) {
  std::vector<std::byte> queries = RepeatedQueries(3);
  std::fill(queries.begin() + kDim, queries.begin() + 2 * kDim, std::byte{0});
  ExpectBadField(
      client()
          .Search("cosine", client::Vectors::Raw(std::span(queries).subspan(kDim, kDim)), {})
          .status(),
      "query", "zero");
  ExpectBadField(client()
                     .SearchBatch("cosine", client::Vectors::Raw(queries, queries.size() / 128), {})
                     .status(),
                 "queries[1]", "zero");
  EXPECT_TRUE(
      client().Search("cosine", client::Vectors::Raw(std::span(queries).first(kDim)), {}).ok());
}

TEST_F(SearchTest, AnUnknownIndexIsNotFound) {
  const absl::Status status =
      client().Search("glove", client::Vectors::Raw(SampleQueries(0, 1)), {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("[index glove]"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("it has: sift"));
  EXPECT_TRUE(HasDetail(status, "google.rpc.ResourceInfo"));
  EXPECT_EQ(client().Describe("glove").status().code(), absl::StatusCode::kNotFound);
  const absl::Status of_long = client().Describe(std::string(3000, 'x')).status();
  EXPECT_EQ(of_long.code(), absl::StatusCode::kNotFound) << "and not too much for a header";
  EXPECT_THAT(std::string(of_long.message()), HasSubstr("x... (3000 bytes)"));
  EXPECT_EQ(client().WaitReady("glove").code(), absl::StatusCode::kNotFound);
}

TEST_F(SearchTest, AReplyOverTheLimitIsRefusedBeforeTheSearch) {
  // 64 x 100 x 12 bytes = 76,800 > 65,536.
  const absl::Status status =
      client()
          .SearchBatch(
              "sift", client::Vectors::Raw(SampleQueries(0, 64), SampleQueries(0, 64).size() / 128),
              {.k = 100})
          .status();
  ExpectBadField(status, "options.k", "76800");
  EXPECT_EQ(Reason(status), "REPLY_TOO_LARGE");
}

TEST_F(SearchTest, AMessageOverTheLimitIsToldFromAFullQueue) {
  const auto index = client().Describe("sift");
  ASSERT_TRUE(index.ok()) << index.status();
  const std::vector<std::byte> bytes(index->limits.max_request_bytes + 1);
  const absl::Status status =
      client().SearchBatch("sift", client::Vectors::Raw(bytes, bytes.size() / 128), {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(Reason(status), "REQUEST_TOO_LARGE");
  EXPECT_FALSE(HasDetail(status, "google.rpc.RetryInfo"));
}

TEST_F(SearchTest, DescribeSaysWhatTheEngineSays) {
  const auto index = *Index::Open(SampleIndex());
  const IndexInfo& info = index->info();
  const auto described = client().Describe("sift");
  ASSERT_TRUE(described.ok()) << described.status();
  EXPECT_EQ(described->n, info.n);
  EXPECT_EQ(described->dim, info.dim);
  EXPECT_EQ(described->dtype, client::DType::kU8);
  EXPECT_EQ(described->metric, client::Metric::kL2);
  EXPECT_EQ(described->m, info.m);
  EXPECT_EQ(described->ef_construction, info.ef_construction);
  EXPECT_EQ(described->promote, info.promote);
  EXPECT_EQ(described->content_hash, info.content_hash);
  EXPECT_EQ(described->seed, info.seed);
  EXPECT_EQ(described->version, info.version);
  EXPECT_EQ(described->file_bytes, info.file_bytes);
  EXPECT_EQ(described->alpha, info.alpha);
  EXPECT_EQ(described->codes.bits, info.codes.bits);
  EXPECT_EQ(described->codes.replicas, info.codes.replicas);
  ASSERT_EQ(described->layers.size(), info.layers.size());
  for (std::size_t i = 0; i < info.layers.size(); ++i)
    EXPECT_EQ(described->layers[i].nodes, info.layers[i].nodes);
  ASSERT_EQ(described->bytes.size(), info.bytes.size());
  for (std::size_t i = 0; i < info.bytes.size(); ++i)
    EXPECT_EQ(described->bytes[i].bytes, info.bytes[i].bytes);
  const std::vector<Placement> placements = index->Placements();
  ASSERT_EQ(described->placements.size(), placements.size());
  for (std::size_t i = 0; i < placements.size(); ++i) {
    EXPECT_EQ(described->placements[i].structure, placements[i].structure);
    EXPECT_EQ(described->placements[i].tier, placements[i].tier);
    EXPECT_EQ(described->placements[i].bytes, placements[i].bytes);
    EXPECT_EQ(described->placements[i].where, "");
  }
  EXPECT_EQ(described->simd, index->kernels().simd);
  EXPECT_EQ(described->threads, 2u);
  EXPECT_EQ(described->limits.max_batch, 64u);
}

TEST_F(SearchTest, ListHasEveryIndexInOrder) {
  const auto listed = client().List();
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_EQ(listed->size(), 2u);
  EXPECT_EQ((*listed)[0].name, "sift");
  EXPECT_EQ((*listed)[0].state, client::IndexState::kServing);
  EXPECT_EQ((*listed)[1].name, "cosine");
  EXPECT_EQ((*listed)[1].n, 1000u);
}

TEST_F(SearchTest, BytesThatAreNoMessageAreInvalid) {
  grpc::GenericStub stub(ChannelTo(served_->server->address()));
  const grpc::Slice slice("\xff\xff\xff no message");
  const grpc::ByteBuffer request(&slice, 1);
  for (const char* method : {"/hmann.v1.Search/Search", "/hmann.v1.Search/SearchBatch"}) {
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    const auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
    call->StartCall();
    grpc::ByteBuffer reply;
    grpc::Status status;
    call->Finish(&reply, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok));
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr("request: expected a hmann.v1.Search"));
  }
}

TEST_F(SearchTest, ManyClientsAtOnceGetTheirOwnAnswers) {
  const auto expected = InProcess({}, 50);
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 50; ++i) {
        const std::size_t query = (i + 6 * static_cast<std::size_t>(t)) % 50;
        const auto answer =
            client().Search("sift", client::Vectors::Raw(SampleQueries(query, 1)), {});
        ASSERT_TRUE(answer.ok()) << answer.status();
        ASSERT_EQ(answer->ids.size(), expected[query].size());
        ExpectSame(expected[query], answer->ids.data(), answer->distances.data());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace hmann::server
