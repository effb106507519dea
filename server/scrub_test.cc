// What is read in place is checked while it is served.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "absl/strings/match.h"
#include "datasets/temp_folder.h"
#include "index/format/reader.h"
#include "server/testing/fixture.h"

namespace hmann {
namespace {

using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

/// The sample index with a bit of its last section, L0, flipped.
std::string DamagedSample() {
  std::string content = ReadAll(SampleIndex());
  const auto file = IndexFile::Open(SampleIndex());
  EXPECT_TRUE(file.ok()) << file.status();
  const Section& l0 = file->sections().back();
  EXPECT_EQ(l0.kind, SectionKind::kL0);
  content[l0.offset + l0.bytes / 2] = static_cast<char>(content[l0.offset + l0.bytes / 2] ^ 4);
  return content;
}

client::IndexSummary Summary(client::Client& client, std::size_t i) { return (*client.List())[i]; }

TEST(ScrubTest, ADamagedIndexFailsByNameAndNoOther) {
  const TempFolder folder;
  const std::string damaged = folder.Write("damaged.hmann", DamagedSample());
  for (const char* slow : {"dram", "mapped", "nvme"}) {
    ServerOptions options = LoopbackOptions({{"damaged", damaged}, {"sift", SampleIndex()}});
    options.open.slow = slow;
    options.scrub_bytes_per_second = 1 << 30;
    Served served(options);
    if (absl::StrContains(Summary(*served.client, 1).reason, "refuses O_DIRECT")) continue;
    while (Summary(*served.client, 0).state == client::IndexState::kServing)
      std::this_thread::sleep_for(1ms);
    EXPECT_EQ(Summary(*served.client, 0).state, client::IndexState::kFailed) << slow;
    EXPECT_THAT(Summary(*served.client, 0).reason, HasSubstr("section l0"));
    const auto query = client::Vectors::Raw(SampleQueries(0, 1));
    const absl::Status failed = served.client->Search("damaged", query, {}).status();
    EXPECT_EQ(failed.code(), absl::StatusCode::kFailedPrecondition) << failed;
    EXPECT_EQ(Reason(failed), "INDEX_FAILED");
    EXPECT_THAT(std::string(failed.message()), HasSubstr("damaged.hmann"));
    EXPECT_THAT(std::string(failed.message()), Not(HasSubstr(folder.path())));
    const absl::Status other = served.client->Search("sift", query, {}).status();
    EXPECT_TRUE(other.ok()) << other;
    EXPECT_EQ(Summary(*served.client, 1).state, client::IndexState::kServing);
  }
}

TEST(ScrubTest, AtMostSoManyBytesASecondAndNoneWhereItIsOff) {
  const TempFolder folder;
  const std::string damaged = folder.Write("damaged.hmann", DamagedSample());
  for (const std::uint64_t rate : {std::uint64_t{0}, std::uint64_t{1}}) {
    ServerOptions options = LoopbackOptions({{"damaged", damaged}});
    options.scrub_bytes_per_second = rate;
    Served served(options);
    // The first MiB takes the rest of a fortnight; a server ends all the same.
    std::this_thread::sleep_for(200ms);
    EXPECT_EQ(Summary(*served.client, 0).state, client::IndexState::kServing);
  }
}

}  // namespace
}  // namespace hmann
