#include "server/core/versions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>

#include "datasets/testing/temp_folder.h"

namespace hmann::server {
namespace {

using testing::ElementsAre;
using namespace std::chrono_literals;

TEST(VersionsTest, DigitsCompareAsNumbers) {
  const char* const ordered[] = {"",
                                 "a",
                                 "v",
                                 "v0",
                                 "v1",
                                 "v01.x",
                                 "v1.x",
                                 "v2",
                                 "v9",
                                 "v9a",
                                 "v010",
                                 "v10",
                                 "v10.2",
                                 "v10.10",
                                 "v99999999999999999998",
                                 "v99999999999999999999",
                                 "v100000000000000000000",
                                 "vv"};
  for (std::size_t i = 0; i < std::size(ordered); ++i) {
    for (std::size_t j = 0; j < std::size(ordered); ++j)
      EXPECT_EQ(NaturalLess(ordered[i], ordered[j]), i < j) << ordered[i] << " " << ordered[j];
  }
}

TEST(VersionsTest, OnlyIndexesOfAFolderTheLastOneFirst) {
  const TempFolder folder;
  for (const char* name : {"v9.hmann", "v10.hmann", "v11.hmann.tmp", "v9.hmann.attrs", "v12.txt"})
    folder.Write(name, name);
  EXPECT_THAT(*VersionsIn(folder / ""), ElementsAre(folder / "v10.hmann", folder / "v9.hmann"));
  EXPECT_EQ(VersionsIn(folder / "none").status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(VersionsIn(folder / "v9.hmann").ok());
}

class VersionListTest : public testing::Test {
 protected:
  std::string Newest() {
    const absl::StatusOr<FileVersion> newest = list_.Newest(spec_);
    if (!newest.ok()) return std::string(absl::StatusCodeToString(newest.status().code()));
    last_ = *newest;
    return std::filesystem::path(newest->path).filename();
  }

  const TempFolder folder_;
  const IndexSpec spec_{.name = "name", .path = folder_ / "", .versions = true};
  VersionList list_;
  FileVersion last_;
};

TEST_F(VersionListTest, ANewFileIsTakenOnceItDoesNotChange) {
  EXPECT_EQ(Newest(), "NOT_FOUND");
  folder_.Write("v9.hmann", "nine");
  EXPECT_EQ(Newest(), "v9.hmann") << "there is no other";
  folder_.Write("v10.hmann", "t");
  EXPECT_EQ(Newest(), "v9.hmann");
  folder_.Write("v10.hmann", "te");
  EXPECT_EQ(Newest(), "v9.hmann") << "it grows";
  EXPECT_EQ(Newest(), "v10.hmann");
  std::filesystem::remove(folder_ / "v10.hmann");
  EXPECT_EQ(Newest(), "v9.hmann");
}

TEST_F(VersionListTest, ARefusedOneIsPassedOverUntilItChanges) {
  folder_.Write("v9.hmann", "nine");
  folder_.Write("v10.hmann", "half");
  EXPECT_EQ(Newest(), "v10.hmann");
  list_.Refuse(last_);
  EXPECT_EQ(Newest(), "v9.hmann");
  EXPECT_EQ(Newest(), "v9.hmann");
  folder_.Write("v10.hmann", "whole");
  EXPECT_EQ(Newest(), "v9.hmann") << "it has just changed";
  EXPECT_EQ(Newest(), "v10.hmann");
  list_.Refuse(last_);
  list_.Refuse({folder_ / "v9.hmann", StampOf(folder_ / "v9.hmann")});
  EXPECT_EQ(Newest(), "") << "nothing is new";
}

TEST_F(VersionListTest, NoClockMatters) {
  folder_.Write("v9.hmann", "nine");
  folder_.Write("v10.hmann", "ten");
  for (const auto shift : {-100000h, 100000h}) {
    std::filesystem::last_write_time(folder_ / "v9.hmann",
                                     std::filesystem::file_time_type::clock::now() + shift);
    list_ = {};
    EXPECT_EQ(Newest(), "v10.hmann");
  }
}

}  // namespace
}  // namespace hmann::server
