/// For tests: an empty collection of small vectors, open for writing.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "hmann/collection.h"
#include "index/construct/testing/build_samples.h"

namespace hmann {

class SmallCollectionTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kDim = 8;

  /// `types`: of attributes, as CreateCollection has them.
  explicit SmallCollectionTest(std::string types = {}) { create_.types = std::move(types); }

  void SetUp() override {
    create_.dtype = DType::kU8;
    create_.dim = kDim;
    create_.build.m = 4;
    create_.build.ef_construction = 20;
    ASSERT_TRUE(Collection::Create(folder_, create_).ok());
    Open();
  }
  void Open(bool read_only = false) {
    collection_.reset();
    auto opened = Collection::Open(folder_, {.read_only = read_only, .merges = false});
    ASSERT_TRUE(opened.ok()) << opened.status();
    collection_ = *opened;
  }
  void Compact() {
    Progress quiet(Progress::Show::kNever);
    const absl::Status status = collection_->Compact(quiet);
    ASSERT_TRUE(status.ok()) << status;
  }

  SampleFolder parent_;
  const std::string folder_ = parent_ / "c.live";
  std::shared_ptr<Collection> collection_;

 private:
  CreateCollection create_;
};

}  // namespace hmann
