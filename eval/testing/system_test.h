/// For tests: a comparison over a few rows of the sample, in its own folder.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "eval/system.h"

namespace hmann::eval {

class SystemTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(testing::TempDir(), "system_test.", ::getpid());
    std::filesystem::create_directories(folder_);
    job_.base = "datasets/sample/base.u8bin";
    job_.queries = "datasets/sample/query.u8bin";
    job_.rows = 2000;
    job_.query_rows = job_.query_count = 50;
    job_.folder = folder_;
    job_.work = folder_ + "/work";
    job_.threads = 2;
    job_.build_timeout = std::chrono::minutes(2);
    job_.run_timeout = std::chrono::minutes(1);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
  BenchmarkData job_;
};

}  // namespace hmann::eval
