// Admin.ExactSearch on every placement: the truth, whatever codes and defaults a search
// would use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "datasets/ground_truth.h"
#include "datasets/testing/temp_folder.h"
#include "server/testing/fixture.h"

namespace hmann::server {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

/// The SHA-256 of "operator" and of "reader".
constexpr char kBoth[] =
    "06e55b633481f7bb072957eabcf110c972e86691c3cfedabe088024bffe42f23 admin\n"
    "3d0941964aa3ebdcb00ccef58b1bb399f9f898465e9886d5aec7f31090a0fb30 read\n";
constexpr std::uint64_t kN = 10'000;

client::Vectors QueryAt(std::size_t i) { return client::Vectors::Raw(SampleQueries(i, 1)); }

class ExactSearchTest : public testing::Test {
 protected:
  ExactSearchTest() {
    const std::string with = folder_ / "with.hmann";
    std::filesystem::copy_file(SampleIndex(), with);
    Progress quiet(Progress::Show::kNever);
    EXPECT_TRUE(
        MakeAttributes(with, {.from = "datasets/sample/attributes.csv", .types = ""}, quiet).ok());
    OpenOptions coded, far, device;
    coded.slow = "dram";
    coded.sq_bits = 4;
    coded.coarse_codes = true;
    far.slow = "emulated:lat=10ns";
    device.slow = "nvme";
    ServerOptions options = LoopbackOptions({{"mapped", SampleIndex()},
                                             {"coded", SampleIndex(), coded},
                                             {"far", SampleIndex(), far},
                                             {"device", SampleIndex(), device},
                                             {"attributes", with, far}});
    options.tokens = folder_.Write("tokens", kBoth);
    server_ = *Server::Start(options);
    EXPECT_TRUE(WaitLoaded(*server_).ok());
    operator_.emplace(Connected("operator"));
  }
  client::Client Connected(const std::string& token) {
    return *client::Client::Connect(
        server_->address(),
        {.own_connection = true, .retry = false, .token_file = folder_.Write(token, token)});
  }

  const TempFolder folder_;
  std::unique_ptr<Server> server_;
  std::optional<client::Client> operator_;
};

TEST_F(ExactSearchTest, ItIsTheTruthOnEveryPlacement) {
  const GroundTruth truth = *ReadGroundTruth("datasets/sample/query.gt100");
  for (const char* name : {"mapped", "coded", "far", "device"}) {
    SCOPED_TRACE(name);
    for (std::size_t i = 0; i < 20; ++i) {
      const auto found = operator_->ExactSearch(name, QueryAt(i), {.k = 100}, {.counters = true});
      ASSERT_TRUE(found.ok()) << found.status();
      ASSERT_EQ(found->distances.size(), 100u);
      EXPECT_TRUE(
          std::equal(found->distances.begin(), found->distances.end(), truth.Distances(i).begin()));
      EXPECT_EQ(found->counters->distances_fast + found->counters->distances_slow, kN)
          << "each vector itself";
      EXPECT_EQ(found->counters->estimates, 0u);
      EXPECT_EQ(found->params.mode, SearchMode::kScan);
      EXPECT_GT(found->generation, 0u);
    }
  }
}

TEST_F(ExactSearchTest, AFilterAndADistanceBoundIt) {
  const client::CallOptions call{.counters = true, .filter = "strength > 3000"};
  for (std::size_t i = 0; i < 20; ++i) {
    const auto found = operator_->ExactSearch("attributes", QueryAt(i), {.k = 10}, call);
    ASSERT_TRUE(found.ok()) << found.status();
    ASSERT_EQ(found->ids.size(), 10u);
    EXPECT_EQ(found->counters->distances_fast + found->counters->distances_slow, *found->matches);
    EXPECT_LT(*found->matches, kN);
    const float bound = found->distances[4];
    const auto within =
        operator_->ExactSearch("attributes", QueryAt(i), {.k = 10, .max_distance = bound}, call);
    ASSERT_TRUE(within.ok()) << within.status();
    EXPECT_EQ(within->ids.size(),
              static_cast<std::size_t>(
                  std::upper_bound(found->distances.begin(), found->distances.end(), bound) -
                  found->distances.begin()));
  }
}

TEST_F(ExactSearchTest, ItHasTheLimitsOfASearch) {
  const auto error = [&](const client::SearchParams& params) {
    return operator_->ExactSearch("mapped", QueryAt(0), params).status();
  };
  for (const auto& [params, words] : {std::pair(client::SearchParams{.k = 10'001}, "options.k"),
                                      {{.k = 10, .mode = SearchMode::kGraph}, "options.mode"},
                                      {{.k = 10, .ef_l0 = 100}, "options.ef_l0"},
                                      {{.k = 10, .recall = 0.9}, "recall"}}) {
    const absl::Status status = error(params);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << words << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
  }
  EXPECT_EQ(error({.k = 10, .mode = SearchMode::kScan}), absl::OkStatus());
  const auto two = client::Vectors::Raw(SampleQueries(0, 2));
  EXPECT_EQ(operator_->ExactSearch("mapped", two, {.k = 10}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(operator_->ExactSearch("none", QueryAt(0), {.k = 10}).status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(Connected("reader").ExactSearch("mapped", QueryAt(0), {.k = 10}).status().code(),
            StatusCode::kPermissionDenied);
  const Served open(LoopbackOptions({{"mapped", SampleIndex()}}));
  EXPECT_EQ(open.client->ExactSearch("mapped", QueryAt(0), {.k = 10}).status().code(),
            StatusCode::kPermissionDenied)
      << "without tokens";
}

}  // namespace
}  // namespace hmann::server
