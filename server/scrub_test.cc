// Tests the scrubbing of data that is read in place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "absl/strings/match.h"
#include "datasets/testing/temp_folder.h"
#include "index/format/reader.h"
#include "server/testing/fixture.h"

namespace hmann::server {
namespace {

using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

/// The sample index with one bit flipped in its last section, L0.
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

/// `./dev soak-server` checks a thousand files; otherwise a few.
TEST(ScrubTest, OneBitAnywhereIsRefusedOrFound) {
  const std::size_t files = std::getenv("HMANN_SOAK") != nullptr ? 1000 : 24;
  const TempFolder folder;
  const std::string content = ReadAll(CosineIndex());
  const auto intact = IndexFile::Open(CosineIndex());
  ASSERT_TRUE(intact.ok()) << intact.status();
  const auto in_section = [&](std::uint64_t at) {
    const auto& sections = intact->sections();
    return std::any_of(sections.begin(), sections.end(), [at](const Section& section) {
      return at >= section.offset && at < section.offset + section.bytes;
    });
  };
  for (const char* slow : {"dram", "mapped", "nvme"}) {
    OpenOptions options;
    options.slow = slow;
    if (!Index::Open(CosineIndex(), options).ok()) continue;  // no O_DIRECT here
    std::size_t refused = 0, found = 0, between = 0;
    for (std::size_t i = 0; i < files; ++i) {
      constexpr std::size_t kPrime = 7919;
      const std::size_t part = content.size() / files, at = i * part + i * kPrime % part;
      std::string damaged = content;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << i % 8));
      const std::string path = folder.Write("damaged.hmann", damaged);
      const auto index = Index::Open(path, options);
      if (!index.ok()) {
        ++refused;
      } else if (absl::IsDataLoss((*index)->Scrub([](std::uint64_t) { return true; }))) {
        ++found;
      } else {
        ++between;  // padding between sections, which is never read
        EXPECT_FALSE(in_section(at)) << slow << ": byte " << at;
      }
    }
    std::cout << slow << ": of " << files << " files with a flipped bit " << refused
              << " were refused, " << found << " found, in " << between
              << " it lay between sections\n";
    EXPECT_GT(refused, 0u);
    EXPECT_GT(refused + found, files / 2);
  }
}

TEST(ScrubTest, AtMostSoManyBytesASecondAndNoneWhereItIsOff) {
  const TempFolder folder;
  const std::string damaged = folder.Write("damaged.hmann", DamagedSample());
  for (const std::uint64_t rate : {std::uint64_t{0}, std::uint64_t{1}}) {
    ServerOptions options = LoopbackOptions({{"damaged", damaged}});
    options.scrub_bytes_per_second = rate;
    Served served(options);
    // The next MiB would wait a fortnight; the server must stop anyway.
    std::this_thread::sleep_for(200ms);
    EXPECT_EQ(Summary(*served.client, 0).state, client::IndexState::kServing);
  }
}

TEST(ScrubTest, ADamagedCopyIsFound) {
  const TempFolder folder;
  const std::string copy = folder / "copy";
  ServerOptions options = LoopbackOptions({{"sift", SampleIndex()}});
  options.open.slow = absl::StrCat("mapped:", copy);
  options.scrub_bytes_per_second = 1 << 30;
  {
    Served served(options);  // makes the copy
    EXPECT_EQ(Summary(*served.client, 0).state, client::IndexState::kServing);
  }
  std::string content = ReadAll(copy);
  ASSERT_FALSE(content.empty());
  content[content.size() / 2] = static_cast<char>(content[content.size() / 2] ^ 4);
  folder.Write("copy", content);
  Served served(options);
  while (Summary(*served.client, 0).state == client::IndexState::kServing)
    std::this_thread::sleep_for(1ms);
  EXPECT_THAT(Summary(*served.client, 0).reason, HasSubstr("section l0"));
}

}  // namespace
}  // namespace hmann::server
