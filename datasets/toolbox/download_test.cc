#include "datasets/toolbox/download.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>

#include "datasets/testing/temp_folder.h"
#include "datasets/toolbox/testing/pattern.h"
#include "datasets/toolbox/testing/test_server.h"

namespace hmann {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::uint64_t kManyBytes = 128'000'000'008;

class DownloadTest : public testing::Test {
 protected:
  absl::Status Get(const std::string& path, std::uint64_t total = 0, std::uint64_t wanted = 0) {
    return Download({.url = server_.url() + path,
                     .path = folder_ / "file",
                     .total_bytes = total,
                     .wanted_bytes = wanted,
                     .attempts = 3,
                     .pause_ms = 1},
                    progress_);
  }

  const TempFolder folder_;
  TestServer server_;
  Progress progress_{Progress::Show::kNever};
};

TEST_F(DownloadTest, TakesAWholeFile) {
  server_.Put("/a", {.content = Pattern(100'000)});
  ASSERT_TRUE(Get("/a").ok());
  EXPECT_EQ(ReadAll(folder_ / "file"), Pattern(100'000));
}

TEST_F(DownloadTest, TakesAPrefixByRange) {
  server_.Put("/a", {.content = Pattern(100'000), .total_bytes = kManyBytes});
  ASSERT_TRUE(Get("/a", kManyBytes, 50'000).ok());
  EXPECT_EQ(ReadAll(folder_ / "file"), Pattern(50'000));
  ASSERT_THAT(server_.requests(), SizeIs(1));
  EXPECT_EQ(server_.requests()[0].range, "bytes=0-49999");
  EXPECT_EQ(server_.requests()[0].sent, 50'000u);
}

TEST_F(DownloadTest, ResumesAfterACutConnection) {
  server_.Put("/a", {.content = Pattern(200'000), .cut_after = 60'000, .cuts = 3});
  const absl::Status status = Get("/a", 200'000);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(ReadAll(folder_ / "file"), Pattern(200'000));
  const auto requests = server_.requests();
  ASSERT_THAT(requests, SizeIs(4));
  EXPECT_EQ(requests[1].range, "bytes=60000-");
  EXPECT_EQ(requests[1].if_range, "\"v1\"");
  EXPECT_EQ(requests[3].range, "bytes=180000-");
}

TEST_F(DownloadTest, ResumesInALaterCall) {
  folder_.Write("file", Pattern(60'000));
  folder_.Write("file.from", "\"v1\"");
  server_.Put("/a", {.content = Pattern(200'000)});
  ASSERT_TRUE(Get("/a", 200'000, 150'000).ok());
  EXPECT_EQ(ReadAll(folder_ / "file"), Pattern(150'000));
  const auto requests = server_.requests();
  ASSERT_THAT(requests, SizeIs(1));
  EXPECT_EQ(requests[0].range, "bytes=60000-149999");
}

TEST_F(DownloadTest, StartsAgainWhenTheFileHasChanged) {
  folder_.Write("file", Pattern(70'000, 9));
  folder_.Write("file.from", "\"v0\"");
  server_.Put("/a", {.content = Pattern(200'000)});
  ASSERT_TRUE(Get("/a", 200'000).ok());
  EXPECT_EQ(ReadAll(folder_ / "file"), Pattern(200'000));
  EXPECT_EQ(server_.requests()[0].range, "bytes=70000-");
  EXPECT_EQ(server_.requests()[0].if_range, "\"v0\"");
}

TEST_F(DownloadTest, StartsAgainWhenNothingTellsWhatTheBytesAre) {
  folder_.Write("file", Pattern(70'000, 9));
  server_.Put("/a", {.content = Pattern(200'000), .etag = ""});
  ASSERT_TRUE(Get("/a", 200'000).ok());
  EXPECT_EQ(ReadAll(folder_ / "file"), Pattern(200'000));
  EXPECT_EQ(server_.requests()[0].range, "");
}

TEST_F(DownloadTest, TakesAPrefixFromAServerWithoutRanges) {
  server_.Put("/a", {.content = Pattern(100'000), .total_bytes = 50'000'000, .ranges = false});
  ASSERT_TRUE(Get("/a", 50'000'000, 30'000).ok());
  EXPECT_EQ(ReadAll(folder_ / "file"), Pattern(30'000));
  EXPECT_LT(server_.requests()[0].sent, 50'000'000u) << "reading stops when enough has come";
}

TEST_F(DownloadTest, StartsAgainWhereAServerWithoutRangesIsCut) {
  server_.Put("/a", {.content = Pattern(100'000), .ranges = false, .cut_after = 60'000, .cuts = 1});
  ASSERT_TRUE(Get("/a", 100'000).ok());
  EXPECT_EQ(ReadAll(folder_ / "file"), Pattern(100'000));
}

TEST_F(DownloadTest, FindsThatACompleteFileIsComplete) {
  server_.Put("/a", {.content = Pattern(1000)});
  ASSERT_TRUE(Get("/a").ok());
  ASSERT_TRUE(Get("/a").ok()) << "the server answers 416: there is no more";
  EXPECT_EQ(ReadAll(folder_ / "file"), Pattern(1000));
}

TEST_F(DownloadTest, NamesAWrongSize) {
  server_.Put("/a", {.content = Pattern(1000)});
  for (const std::uint64_t wanted : {0, 10}) {
    const absl::Status status = Get("/a", 1001, wanted);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("has 1000 bytes, 1001 expected"));
  }
}

TEST_F(DownloadTest, NamesAMissingFileAndDoesNotInsist) {
  const absl::Status status = Get("/absent");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("/absent"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("404"));
  EXPECT_THAT(server_.requests(), SizeIs(1));
}

TEST_F(DownloadTest, TriesAgainWhileTheServerIsBusyButNotForEver) {
  server_.Put("/a", {.content = Pattern(1000), .unavailable = 2});
  EXPECT_TRUE(Get("/a").ok());
  server_.Put("/b", {.content = Pattern(1000), .unavailable = 100});
  std::filesystem::remove(folder_ / "file");
  EXPECT_EQ(Get("/b").code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(server_.requests(), SizeIs(3 + 3));
}

TEST_F(DownloadTest, FollowsRedirectsAndRefusesOtherSchemes) {
  server_.Put("/a", {.content = "", .redirect = "/b"});
  server_.Put("/b", {.content = Pattern(1000)});
  EXPECT_TRUE(Get("/a").ok());
  EXPECT_EQ(ReadAll(folder_ / "file"), Pattern(1000));
  const std::string secret = folder_.Write("secret", "secret");
  server_.Put("/c", {.content = "", .redirect = "file://" + secret});
  std::filesystem::remove(folder_ / "file");
  EXPECT_FALSE(Get("/c").ok());
  EXPECT_FALSE(
      Download({.url = "file://" + secret, .path = folder_ / "file", .attempts = 1, .pause_ms = 1},
               progress_)
          .ok());
  EXPECT_THAT(ReadAll(folder_ / "file"), IsEmpty());
}

}  // namespace
}  // namespace hmann
