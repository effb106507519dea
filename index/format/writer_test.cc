// Contents that the writer rejects, and the files that remain when it cannot finish.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "index/format/reader.h"
#include "index/format/testing/reseal.h"
#include "index/format/testing/ring_index.h"
#include "index/format/verify.h"

namespace hmann {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<IndexInfo> WriteIndex(const std::string& path, RingIndex& index,
                                     const std::atomic<bool>* cancelled = nullptr) {
  Progress silent(Progress::Show::kNever);
  return WriteIndex(path, index.contents, silent, cancelled);
}
absl::Status VerifyWritten(const std::string& path) {
  Progress silent(Progress::Show::kNever);
  return VerifyIndex(path, silent);
}

TEST(Writer, RefusesContentsThatContradictThemselves) {
  TemporaryPath path(::testing::TempDir(), "refused");
  const auto refusal = [&](auto change) {
    RingIndex index;
    change(index);
    const absl::Status status = WriteIndex(path, index).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    struct stat ignored {};
    EXPECT_NE(::stat(path.str().c_str(), &ignored), 0) << "nothing may be left behind";
    return std::string(status.message());
  };
  const std::vector<NodeId> nine(9, 1);
  EXPECT_THAT(refusal([&](RingIndex& i) {
                i.contents.links = [&](std::uint32_t, NodeId) {
                  return std::span<const NodeId>(nine);
                };
              }),
              HasSubstr("expected at most 8 links in layer 1; found 9"));
  EXPECT_THAT(refusal([](RingIndex& i) {
                i.contents.label = [](NodeId id) { return id + std::uint64_t{1}; };
              }),
              HasSubstr("node 199: expected a row number of its own below 200 as its label; "
                        "found 200"));
  EXPECT_THAT(refusal([](RingIndex& i) {
                i.contents.label = [](NodeId id) { return id == 7 ? 3 : std::uint64_t{id}; };
              }),
              HasSubstr("node 7: expected a row number of its own below 200 as its label; "
                        "found 3"));
  EXPECT_THAT(refusal([](RingIndex& i) { i.contents.row = [](NodeId) { return nullptr; }; }),
              HasSubstr("promoted node without a vector"));
  EXPECT_THAT(refusal([](RingIndex& i) { i.contents.row_bytes = 20; }),
              HasSubstr("row_bytes: expected 24; found 20"));
  EXPECT_THAT(refusal([](RingIndex& i) { i.contents.layers.nodes[2] = 9; }), HasSubstr("layers"));
  EXPECT_THAT(refusal([](RingIndex& i) { i.contents.layers.m = 1; }), HasSubstr("m: expected 2"));
}

TEST(Writer, CancelledOrFullDiskKeepsTheOldIndex) {
  TemporaryPath path(::testing::TempDir(), "kept");
  RingIndex old;
  ASSERT_TRUE(WriteIndex(path, old).ok());
  const std::vector<std::byte> before = ReadBytes(path);

  RingIndex larger({.n = 20'000, .n1 = 100});
  const std::atomic<bool> cancelled = true;
  EXPECT_EQ(WriteIndex(path, larger, &cancelled).status().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(ReadBytes(path) == before);

  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small{.rlim_cur = 256 * 1024, .rlim_max = limit.rlim_max};
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status full = WriteIndex(path, larger).status();
  ::setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
  EXPECT_TRUE(ReadBytes(path) == before);
  EXPECT_EQ(VerifyWritten(path), absl::OkStatus());
}

}  // namespace
}  // namespace hmann
