// A layer that is joined through files, whatever memory its jobs have.
#include "index/construct/jobs/joined_layer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <numeric>
#include <utility>

#include "index/base/units.h"
#include "index/construct/jobs/link_store.h"
#include "index/construct/jobs/work_folder.h"
#include "index/construct/make_bottom.h"
#include "index/construct/testing/build_samples.h"

namespace hmann {
namespace {

/// The stages of a new work folder.
struct WorkAt {
  WorkAt(const std::string& path, int threads)
      : work(*WorkFolder::Open(path, "{}")), pool(threads) {}

  std::unique_ptr<WorkFolder> work;
  Progress quiet{Progress::Show::kNever};
  std::vector<PhaseTime> times;
  Phases phases{quiet, times};
  ThreadPool pool;
  TaskContext job{pool, quiet, nullptr};
  Stages stages{"l0", "", *work, phases, job};
};

/// Makes the links of L0 of a sample, with `room` for what a job loads.
std::vector<std::vector<NodeId>> LinksWith(const SampleFolder& folder, const VectorFile& file,
                                           const Kernels& kernels, std::uint64_t room,
                                           int threads) {
  const std::string path = folder / "work";
  const WorkAt at(path, threads);
  auto made = MakeBottom({.rows = {.stride = RowStride(kernels),
                                   .count = static_cast<NodeId>(file.n()),
                                   .copy = CopyFrom(file, kernels)},
                          .file = &file,
                          .kernels = kernels,
                          .m = 6,
                          .ef_construction = 20,
                          .alpha = 1.2f,
                          .seed = 1,
                          .room = room},
                         at.stages);
  EXPECT_TRUE(made.ok()) << made.status();
  std::vector<std::vector<NodeId>> copied;
  std::vector<NodeId> scratch;
  for (NodeId node = 0; node < file.n(); ++node) {
    const std::span<const NodeId> links = made->graph->List(node, scratch);
    copied.emplace_back(links.begin(), links.end());
  }
  made = absl::CancelledError();
  at.work->Clear();
  EXPECT_FALSE(std::filesystem::exists(path));
  return copied;
}

TEST(JoinedLayer, HasTheSameLinksWhateverAJobMayLoad) {
  SampleFolder folder;
  const BuildOptions options = SmallBuild(folder, DType::kU8, Metric::kL2, 20'000);
  const VectorFile file = *VectorFile::Open(options.base);
  const Kernels kernels = *ChooseKernels(DType::kU8, Metric::kL2, file.dim());
  const auto links = LinksWith(folder, file, kernels, 1_GiB, 2);
  // Room for less than one node; for some groups and a part of a range; for nearly all.
  for (const std::uint64_t room : {1_KiB, 700_KiB, 3000_KiB})
    EXPECT_TRUE(LinksWith(folder, file, kernels, room, 3) == links) << room;
}

/// The order of nodes and their links, of a layer that is cut into parts of 3,000.
std::pair<std::vector<std::uint32_t>, std::vector<std::vector<NodeId>>> PartedLinks(
    NodeId n, const NodeVectors::Copy& copy, const Kernels& kernels, std::uint64_t room,
    const Stages& stages) {
  std::vector<std::uint32_t> all(n);
  std::iota(all.begin(), all.end(), 0u);
  PartitionOptions partition = PartitionFor(all.size(), 1);
  partition.whole = partition.part = 3000;
  JoinedLayer layer({.kernels = kernels,
                     .stride = RowStride(kernels),
                     .unique = all,
                     .copy = copy,
                     .m = 6,
                     .alpha = 1.2f,
                     .partition = partition,
                     .room = room},
                    stages);
  const auto order = layer.Order();
  EXPECT_TRUE(order.ok()) << order.status();
  const absl::Status made = layer.Make("back", *order, *order);
  EXPECT_TRUE(made.ok()) << made;
  const PackedLists back = *layer.Back();
  std::vector<std::vector<NodeId>> links;
  std::vector<NodeId> scratch;
  for (NodeId node = 0; node < n; ++node) {
    const std::span<const NodeId> list = back.Read(node, scratch);
    links.emplace_back(list.begin(), list.end());
  }
  return {*order, links};
}

/// Checks that such a layer has the same links in memory and in a folder.
void ExpectSamePartedLinks(NodeId n, const NodeVectors::Copy& copy, const Kernels& kernels) {
  const MemoryArtifacts memory;
  Progress quiet{Progress::Show::kNever};
  std::vector<PhaseTime> times;
  Phases phases{quiet, times};
  ThreadPool pool(2);
  const TaskContext job{pool, quiet, nullptr};
  const auto whole = PartedLinks(n, copy, kernels, kUnbounded, {"l0", "", memory, phases, job});
  std::vector<std::uint32_t> rows = whole.first;
  std::sort(rows.begin(), rows.end());
  for (std::uint32_t i = 0; i < rows.size(); ++i) ASSERT_EQ(rows[i], i);
  for (const std::vector<NodeId>& list : whole.second) {
    std::vector<NodeId> links = list;
    std::sort(links.begin(), links.end());
    EXPECT_TRUE(std::adjacent_find(links.begin(), links.end()) == links.end());
    EXPECT_TRUE(!links.empty() && links.back() < n);
  }
  // Room for nothing; for some of a part; for a part.
  SampleFolder folder;
  for (const std::uint64_t room : {1_KiB, 700_KiB, 1_GiB}) {
    const WorkAt at(folder / "work", 3);
    EXPECT_TRUE(PartedLinks(n, copy, kernels, room, at.stages) == whole) << room;
    // A stage that was lost is made again, with all before it.
    at.work->RemoveAll("done-l0-back.");
    at.work->RemoveAll("l0-back-");
    EXPECT_TRUE(PartedLinks(n, copy, kernels, room, at.stages) == whole) << room;
    at.work->Clear();
  }
}

TEST(JoinedLayer, OfPartsHasTheSameLinksInMemoryAndInAFolder) {
  SampleFolder folder;
  const BuildOptions options = SmallBuild(folder, DType::kU8, Metric::kL2, 20'000);
  const VectorFile file = *VectorFile::Open(options.base);
  const Kernels kernels = *ChooseKernels(DType::kU8, Metric::kL2, file.dim());
  ExpectSamePartedLinks(static_cast<NodeId>(file.n()), CopyFrom(file, kernels), kernels);
}

/// Most vectors lie on a short line, so that means and parts are as odd as they can be.
TEST(JoinedLayer, OfOddPartsHasTheSameLinks) {
  const Kernels kernels = *ChooseKernels(DType::kF32, Metric::kL2, 8);
  const auto copy = [&](std::uint32_t row, std::byte* place) {
    const auto x = static_cast<float>(row);
    const std::array<float, 8> vector = {row % 1000 == 7 ? 1e6f * x : 1e-3f * x};
    EXPECT_TRUE(EncodeRow(kernels, vector.data(), place).ok());
  };
  ExpectSamePartedLinks(7000, copy, kernels);
}

TEST(StoredLists, OfAnyLengthComeBack) {
  std::vector<NodeId> stored;
  PutList({}, &stored);
  const std::vector<NodeId> one = {0}, more = {5, 2'147'483'646, 7};
  PutList(one, &stored);
  PutList(more, &stored);
  SampleFolder folder;
  const WorkAt at(folder / "work", 1);
  const auto* bytes = reinterpret_cast<const char*>(stored.data());
  ASSERT_TRUE(at.work->Write("l0-links-0", {bytes, stored.size() * sizeof(NodeId)}).ok());
  const auto links = StoredLinks::Map(at.stages, "links", 0, {10, 13});
  ASSERT_TRUE(links.ok()) << links.status();
  std::vector<NodeId> list;
  links->Append(10, &list);
  EXPECT_TRUE(list.empty());
  links->Append(12, &list);
  EXPECT_EQ(list, more);
  links->Append(11, &list);
  EXPECT_EQ(list.back(), 0u);
  // Lists of another number of nodes do not belong to this range.
  EXPECT_EQ(StoredLinks::Map(at.stages, "links", 0, {10, 14}).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST(StoredLeaves, ThatAreDamagedAreRefused) {
  SampleFolder folder;
  WorkAt at(folder / "work", 2);
  constexpr NodeId kNodes = 9000;
  std::vector<std::byte> group;
  LeafEncoder encoder(at.stages.Ranges(kNodes)[0].size());
  const std::vector<NodeId> first = {0, 3, 8999}, second = {4096, 4097};
  encoder.Add(first, &group);
  encoder.Add(second, &group);
  const auto read = [&](const std::vector<std::byte>& leaves, NodeRange nodes) {
    const auto bytes = static_cast<GroupBytes>(leaves.size());
    std::string file(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
    file.append(reinterpret_cast<const char*>(leaves.data()), leaves.size());
    EXPECT_TRUE(at.work->Write("l0-leaves-0", file).ok());
    const StoredLeaves stored = *StoredLeaves::Map(at.stages, 1, kNodes, kNodes);
    std::vector<std::vector<NodeId>> found;
    const absl::Status status =
        stored.ForEach({0, 1}, nodes, at.pool, [&](std::span<const NodeId> members, int) {
          found.emplace_back(members.begin(), members.end());
        });
    return std::pair(status, found);
  };
  using Leaves = std::vector<std::vector<NodeId>>;
  EXPECT_EQ(read(group, {0, kNodes}).second, (Leaves{first, second}));
  EXPECT_EQ(read(group, {4, 8000}).second, Leaves{second});
  EXPECT_EQ(read(group, {8999, 9000}).second, Leaves{first});
  // Cut anywhere, or with a member that is no node.
  for (std::size_t size = 1; size < group.size(); ++size) {
    const auto [status, found] =
        read({group.begin(), group.begin() + static_cast<std::ptrdiff_t>(size)}, {0, kNodes});
    EXPECT_TRUE(!status.ok() || found == Leaves{first}) << size;
  }
  std::vector<std::byte> wrong = group;
  wrong.back() = std::byte{0x7f};
  EXPECT_TRUE(read(wrong, {0, kNodes}).first.ok());
  encoder.Add(std::vector<NodeId>{kNodes}, &wrong);
  EXPECT_EQ(read(wrong, {0, kNodes}).first.code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace hmann
