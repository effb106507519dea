// A swap in a cgroup that has no room for two files (needs root): it is refused, and the
// file before is served on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "eval/memory_group.h"
#include "index/base/units.h"
#include "tests/server_program.h"

namespace hmann {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

/// 65 MB that are soon built: few vectors, and most are duplicates.
constexpr std::uint32_t kRows = 500, kDistinct = 20, kDim = 32768;

std::vector<float> AnyVector(std::uint32_t seed) {
  std::vector<float> vector(kDim);
  for (float& value : vector) {
    seed = seed * 1664525 + 1013904223;
    value = static_cast<float>(seed >> 16);
  }
  return vector;
}

void WriteLargeVectors(const std::string& path) {
  std::string bytes(sizeof(kRows) + sizeof(kDim), '\0');
  std::memcpy(bytes.data(), &kRows, sizeof(kRows));
  std::memcpy(bytes.data() + sizeof(kRows), &kDim, sizeof(kDim));
  for (std::uint32_t row = 0; row < kRows; ++row) {
    const std::vector<float> vector = AnyVector(row % kDistinct);
    bytes.append(reinterpret_cast<const char*>(vector.data()), kDim * sizeof(float));
  }
  WriteFile(path, bytes);
}

TEST(SwapMemory, TooLittleForTwoIsRefusedAndTheFileBeforeServesOn) {
  auto group = eval::MemoryGroup::Create("swap", 512_MiB);
  if (!group.ok()) GTEST_SKIP() << group.status();
  const TestFolder folder("swap_memory");
  const std::string index = folder / "large.hmann", inside = folder / "inside.sh";
  WriteLargeVectors(folder / "large.fbin");
  const Outcome built = Hmann(
      {"build", "--base", folder / "large.fbin", "--out", index, "--bits", "0", "--no-calibrate"});
  ASSERT_EQ(built.exit_code, 0) << built.err;
  WriteFile(inside, absl::StrCat("#!/bin/sh\necho 0 >", group->procs(), " && exec ", HmannProgram(),
                                 " \"$@\"\n"));
  std::filesystem::permissions(inside, std::filesystem::perms::owner_all);
  const Outcome hash = RunProgram({"/bin/sh", "-c", "printf %s mine | sha256sum"});
  WriteFile(folder / "tokens", absl::StrCat(hash.out.substr(0, 64), " admin\n"));
  WriteFile(folder / "mine", "mine");

  ServerProgram server(index, {"--slow", "dram", "--tokens", folder / "tokens"}, inside);
  auto client = *client::Client::Connect(server.address(), {.token_file = folder / "mine"});
  ASSERT_EQ(client.WaitReady("sample", {.deadline = 60s}), absl::OkStatus());
  const std::vector<float> query = AnyVector(7);
  const auto ask = [&] { return client.Search("sample", client::Vectors::Floats(query), {}); };
  const auto before = ask();
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_EQ(before->ids[0] % kDistinct, 7u);
  ASSERT_TRUE(group->Limit(group->Use().anonymous_bytes + 48_MiB).ok());

  const absl::Status refused = client.Swap("sample", index).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("are needed"));
  const auto after = ask();
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->generation, before->generation);
  EXPECT_EQ(after->ids, before->ids);
  EXPECT_EQ(group->Use().out_of_memory_kills, 0u);

  ASSERT_TRUE(group->Limit(512_MiB).ok());
  const auto swapped = client.Swap("sample", index);
  ASSERT_TRUE(swapped.ok()) << swapped.status();
  EXPECT_EQ(ask()->generation, swapped->generation);
  EXPECT_EQ(group->Use().out_of_memory_kills, 0u);
}

}  // namespace
}  // namespace hmann
