#include "server/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hmann::server {
namespace {

using testing::HasSubstr;

ServerOptions Good() {
  ServerOptions options;
  options.indexes = {{"sift", "/tmp/sift.hmann"}};
  return options;
}

void ExpectInvalid(const ServerOptions& options, const std::string& words) {
  const absl::Status status = options.Validate();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(words));
}

TEST(OptionsTest, ParsesNameAndPath) {
  const auto spec = IndexSpec::Parse("sift-1m=/a=b/c.hmann");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->name, "sift-1m");
  EXPECT_EQ(spec->path, "/a=b/c.hmann");
  EXPECT_EQ(IndexSpec::Parse("data/sift.hmann")->name, "sift");
  EXPECT_EQ(IndexSpec::Parse("data/sift.hmann")->path, "data/sift.hmann");
  for (const char* bad : {"", "si ft.hmann", "=path", "sift=", "si ft=path", "a/b=path"}) {
    EXPECT_EQ(IndexSpec::Parse(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(OptionsTest, KnowsLoopback) {
  for (const char* loopback : {"127.0.0.1:50051", "127.1.2.3:0", "localhost:1", "[::1]:65535"})
    EXPECT_TRUE(*IsLoopback("--listen", loopback)) << loopback;
  for (const char* beyond :
       {"0.0.0.0:50051", "[::]:0", "192.168.0.1:1", "example.org:1", "127.evil.org:1"})
    EXPECT_FALSE(*IsLoopback("--listen", beyond)) << beyond;
  for (const char* bad :
       {"", "50051", ":50051", "localhost", "localhost:", "localhost:65536", "localhost:x"})
    EXPECT_FALSE(IsLoopback("--listen", bad).ok()) << bad;
}

TEST(OptionsTest, AnAddressIsNamedByItsOptionAndReadAsPeopleWriteIt) {
  EXPECT_TRUE(*IsLoopback("--listen", "LOCALHOST:0"));
  EXPECT_THAT(std::string(IsLoopback("--listen", "::1:0").status().message()),
              HasSubstr("expected [::1]:0"));
  ServerOptions options = Good();
  for (const char* bad : {":9100", "9100", "unix:/run/http", "localhost:x"}) {
    options.http = bad;
    ExpectInvalid(options, "--http");
  }
}

TEST(OptionsTest, BeyondLoopbackOnlyWithInsecure) {
  ServerOptions options = Good();
  options.listen = "0.0.0.0:0";
  ExpectInvalid(options, "--insecure");
  options.insecure = true;
  EXPECT_TRUE(options.Validate().ok());
}

TEST(OptionsTest, NamesWhatIsWrong) {
  EXPECT_TRUE(Good().Validate().ok());
  ServerOptions options = Good();
  options.indexes.clear();
  ExpectInvalid(options, "--index");
  options = Good();
  options.indexes.push_back({"sift", "/tmp/other.hmann"});
  ExpectInvalid(options, "twice");
  options = Good();
  options.queue = 0;
  ExpectInvalid(options, "--queue");
  options = Good();
  options.threads = -1;
  ExpectInvalid(options, "--threads");
  options = Good();
  options.limits.max_ef = kMaxEf + 1;
  ExpectInvalid(options, "max_ef");
}

TEST(OptionsTest, AnAgentOfValdHasOneIndexOfThoseServed) {
  ServerOptions options = Good();
  options.vald = {"sift", "127.0.0.1:0", {"10.0.0.1", "127.0.0.2"}};
  EXPECT_TRUE(options.Validate().ok());
  options.vald.index = "glove";
  ExpectInvalid(options, "--vald: no --index has the name 'glove'");
  options.aliases["glove"] = "sift";
  EXPECT_TRUE(options.Validate().ok());
  options.vald.listen = "0.0.0.0:8081";
  ExpectInvalid(options, "--vald-listen 0.0.0.0:8081");
  options.vald.listen.clear();
  options.vald.agents = {"10.0.0.1", "db.example"};
  ExpectInvalid(options, "--vald-agents: expected IPv4 addresses, found 'db.example'");
  options.vald.index.clear();
  ExpectInvalid(options, "expected --vald NAME");
}

TEST(OptionsTest, LimitsOfConnectionsAreThoseOfThePage) {
  using namespace std::chrono_literals;
  const ConnectionLimits limits;
  EXPECT_EQ(limits.streams, 256u) << "512 calls without a message";
  EXPECT_EQ(limits.cancels_per_second, 1000u);
  EXPECT_EQ(limits.transport_bytes, 1u << 30);
  EXPECT_TRUE(limits.handshake_timeout == 10s && limits.idle_timeout == 5min);
  EXPECT_TRUE(limits.request_timeout == 30s && limits.reply_timeout == 1min);
  EXPECT_TRUE(limits.min_ping == 10s);
}

}  // namespace
}  // namespace hmann::server
