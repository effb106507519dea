// The disk's own figures, from a real file.
#include "eval/disk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace hmann {
namespace {

using testing::HasSubstr;

class Disk : public testing::Test {
 protected:
  void SetUp() override {
    path_ = absl::StrCat(testing::TempDir(), "disk_test.", ::getpid());
    std::ofstream(path_) << std::string(1'000'000, 'x');
    options_.time = std::chrono::milliseconds(250);
    options_.depths = {1, 3, 8};
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::string path_;
  DiskOptions options_;
};

TEST_F(Disk, EveryDepthIsMeasured) {
  for (const int threads : {1, 2}) {
    options_.threads = threads;
    const absl::StatusOr<DiskFigures> figures = MeasureDisk(path_, options_);
    ASSERT_TRUE(figures.ok()) << figures.status();
    EXPECT_EQ(figures->blocks, 1'000'000u / 4096);
    EXPECT_EQ(figures->threads, threads);
    ASSERT_EQ(figures->depths.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
      const DepthFigures& at = figures->depths[i];
      EXPECT_EQ(at.depth, options_.depths[i]);
      EXPECT_GT(at.reads, 0u);
      EXPECT_NEAR(at.iops * at.seconds, static_cast<double>(at.reads), 1e-6);
      EXPECT_GT(at.latency.p50, 0);
      EXPECT_LE(at.latency.p50, at.latency.p99);
      EXPECT_LE(at.iops, figures->most_iops());
    }
  }
}

/// The kernel's count of what disks gave to this process so far.
std::uint64_t BytesFromDisks() {
  std::ifstream io("/proc/self/io");
  std::uint64_t read_bytes = 0;
  for (std::string key; io >> key;) {
    std::uint64_t value = 0;
    if (io >> value && key == "read_bytes:") read_bytes = value;
  }
  return read_bytes;
}

TEST_F(Disk, ReadsGoPastThePageCache) {
  const std::uint64_t before = BytesFromDisks();
  const absl::StatusOr<DiskFigures> figures = MeasureDisk(path_, options_);
  ASSERT_TRUE(figures.ok()) << figures.status();
  std::uint64_t counted = 0;
  for (const DepthFigures& at : figures->depths) counted += at.reads * 4096;
  EXPECT_GE(BytesFromDisks() - before, counted);
}

TEST_F(Disk, WhatCannotBeMeasuredIsNamed) {
  EXPECT_EQ(MeasureDisk(path_ + ".none", options_).status().code(), absl::StatusCode::kNotFound);
  std::ofstream(path_, std::ios::trunc) << "short";
  EXPECT_THAT(std::string(MeasureDisk(path_, options_).status().message()),
              HasSubstr("at least a block of 4096 bytes, found 5"));
  options_.depths = {1, 0};
  EXPECT_FALSE(MeasureDisk(path_, options_).ok());
  options_.depths.clear();
  EXPECT_FALSE(MeasureDisk(path_, options_).ok());
}

TEST_F(Disk, CancellingEndsIt) {
  const std::atomic<bool> cancelled{true};
  options_.cancelled = &cancelled;
  options_.time = std::chrono::minutes(10);
  EXPECT_EQ(MeasureDisk(path_, options_).status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace hmann
