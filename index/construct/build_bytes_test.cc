#include "index/construct/build_bytes.h"

#include <gtest/gtest.h>
#include <hnswlib/hnswlib.h>
#include <malloc.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "index/base/units.h"
#include "index/construct/testing/build_samples.h"

namespace hmann {
namespace {

std::uint64_t AnonymousBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::uint64_t kib = 0;
    if (word == "RssAnon:" && status >> kib) return kib << 10;
  }
  return 0;
}

/// Peak anonymous memory of this process during the object's life, as the kernel counts
/// it, relative to the beginning. Samples several thousand times a second.
class Peak {
 public:
  Peak() {
    // Arrays get blocks of their own, as large ones do anyway, and nothing is left of an
    // earlier build.
    ::mallopt(M_MMAP_THRESHOLD, 128 << 10);
    ::malloc_trim(0);
    before_ = AnonymousBytes();
    watcher_ = std::thread([this] {
      while (!done_) {
        most_ = std::max(most_, AnonymousBytes());
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    });
  }
  ~Peak() {
    if (watcher_.joinable()) Bytes();
  }
  std::uint64_t Bytes() {
    done_ = true;
    watcher_.join();
    return most_ - before_;
  }

 private:
  std::atomic<bool> done_{false};
  std::uint64_t before_ = 0, most_ = 0;
  std::thread watcher_;
};

constexpr NodeId kNodes = 131072;  ///< its arrays are whole huge pages
constexpr std::uint32_t kDim = 32, kLinks = 16;

BuildOptions Options(const SampleFolder& folder, Shape shape = Shape::kClustered) {
  BuildOptions options;
  options.base = folder / "base.fbin";
  options.out = folder / "index.hmann";
  options.m = kLinks;
  options.ef_construction = 8;
  options.alpha = 1;
  options.promote = 0.1;
  options.threads = 2;
  if (!std::filesystem::exists(options.base)) {
    WriteGenerated(options.base,
                   {.shape = shape, .n = kNodes, .dim = kDim, .intrinsic_dim = 6, .clusters = 50});
  }
  return options;
}

BuildShape Made(const BuildOptions& options) {
  return {.n = kNodes,
          .n1 = static_cast<NodeId>(kNodes * *options.promote),
          .m = kLinks,
          .dim = kDim,
          .stride = kDim * sizeof(float),
          .bits = options.bits.value_or(2),
          .replicas = options.replicas.value_or(1),
          .method = options.method.value_or(DefaultMethod(DType::kF32, options.metric))};
}

/// The formula assumes that every vector has a copy, which costs 28 bytes each. It also
/// allows 16 MiB for scratch. Two threads and the last huge page of each array need less
/// than 8 of these, which is half of one copy of the links.
void ExpectPeak(const BuildOptions& options, const BuildShape& shape) {
  Peak peak;
  EXPECT_EQ(MustBuild(options).duplicates, 0u);
  const std::uint64_t taken = peak.Bytes(),
                      arrays = BuildBytes(shape) - 16_MiB - std::uint64_t{28} * kNodes;
  EXPECT_LE(taken, arrays + 8_MiB);
  EXPECT_GE(taken, arrays / 10 * 9);
}

TEST(BuildBytes, AreWhatAnInsertionTakes) {
  const SampleFolder folder;
  BuildOptions options = Options(folder);
  options.method = BuildMethod::kInsertion;
  ExpectPeak(options, Made(options));
}

TEST(BuildBytes, AreWhatAPartitionTakes) {
  const SampleFolder folder;
  BuildOptions options = Options(folder);
  options.method = BuildMethod::kPartition;
  ExpectPeak(options, Made(options));
}

TEST(BuildBytes, HoldWhereVectorsHaveCopies) {
  const SampleFolder folder;
  const BuildOptions options = Options(folder, Shape::kDuplicates);
  Peak peak;
  EXPECT_GT(MustBuild(options).duplicates, kNodes / 3);
  EXPECT_LE(peak.Bytes(), BuildBytes(Made(options)));
}

TEST(BuildBytes, AreWhatAPromotionTakes) {
  const SampleFolder folder;
  BuildOptions options = Options(folder);
  MustBuild(options);
  options.base.clear();
  options.from_index = options.out;
  for (const auto& [share, bits, replicas] : {std::tuple(0.1, 0u, 1u), std::tuple(0.6, 4u, 2u)}) {
    SCOPED_TRACE(absl::StrCat(share, " promoted, ", bits, " bits"));
    options.promote = share;
    options.bits = bits;
    options.replicas = replicas;
    BuildShape shape = Made(options);
    shape.finished_graph = true;
    ExpectPeak(options, shape);
  }
}

TEST(BuildBytes, AreWhatAnImportTakes) {
  const SampleFolder folder;
  BuildOptions options = Options(folder);
  const VectorFile base = *VectorFile::Open(options.base);
  options.from_hnswlib = folder / "theirs.bin";
  {
    hnswlib::L2Space space(kDim);
    hnswlib::HierarchicalNSW<float> graph(&space, kNodes, kLinks, 8);
    for (std::size_t row = 0; row < kNodes; ++row) graph.addPoint(base.Row(row), row);
    graph.saveIndex(options.from_hnswlib);
  }
  BuildShape shape = Made(options);
  shape.finished_graph = shape.imported = true;
  ExpectPeak(options, shape);
}

}  // namespace
}  // namespace hmann
