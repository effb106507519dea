/// An index file from the writer through the reader: the content comes back unchanged,
/// and the bytes are the expected ones.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "index/base/units.h"
#include "index/format/reader.h"
#include "index/format/testing/reseal.h"
#include "index/format/testing/ring_index.h"
#include "index/format/verify.h"

namespace hmann {
namespace {

using ::testing::HasSubstr;

constexpr char kGolden[] = "index/format/golden/v4.hmann";

absl::StatusOr<IndexInfo> Write(const std::string& path, RingIndex& index) {
  Progress silent(Progress::Show::kNever);
  return WriteIndex(path, index.contents, silent, nullptr);
}
absl::Status Verify(const std::string& path) {
  Progress silent(Progress::Show::kNever);
  return VerifyIndex(path, silent);
}

template <class T>
std::vector<T> As(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

std::vector<NodeId> Padded(std::span<const NodeId> links, std::uint32_t most) {
  std::vector<NodeId> list(links.begin(), links.end());
  list.resize(most, kNoNode);
  return list;
}

void ExpectHolds(const IndexFile& file, RingIndex& index) {
  const Layers& layers = index.contents.layers;
  const RecordLayout& records = file.records();
  ASSERT_EQ(file.layers().nodes, layers.nodes);
  ASSERT_EQ(file.layers().m, layers.m);
  for (std::uint32_t layer = 1; layer <= layers.top(); ++layer) {
    const std::size_t list_bytes = layers.MaxDegree(layer) * sizeof(NodeId);
    ASSERT_EQ(file.upper_links(layer).size(), layers.nodes[layer] * list_bytes);
    for (NodeId id = 0; id < layers.nodes[layer]; ++id) {
      ASSERT_EQ(As<NodeId>(file.upper_links(layer).subspan(id * list_bytes, list_bytes)),
                Padded(index.Links(layer, id), layers.MaxDegree(layer)));
    }
  }
  for (NodeId id = 0; id < layers.n(); ++id) {
    const auto record = file.l0().subspan(records.Offset(id));
    const bool fast = id < layers.n1();
    const auto row = fast ? file.fast_rows().subspan(id * file.fast_row_stride(), records.row_bytes)
                          : record.first(records.row_bytes);
    const auto label = fast ? file.fast_labels().subspan(std::size_t{id} * records.label_bytes,
                                                         records.label_bytes)
                            : record.subspan(records.LabelOffset(id), records.label_bytes);
    std::uint64_t number = 0;
    std::memcpy(&number, label.data(), label.size());
    ASSERT_EQ(0, std::memcmp(row.data(), index.Row(id), row.size())) << id;
    ASSERT_EQ(number, index.Label(id)) << id;
    std::vector<NodeId> links(records.max_links);
    records.UnpackPadded(record.data() + records.LinksOffset(id), links.data());
    ASSERT_EQ(links, Padded(index.Links(0, id), records.max_links));
  }
}

TEST(Format, WhatGoesInComesOut) {
  const std::vector<RingIndex::Shape> shapes = {
      {},
      {.n = 1, .n1 = 0},
      {.n = 2, .n1 = 1, .m = 2, .dim = 1, .metric = Metric::kL2},
      {.n = 500, .n1 = 0, .m = 8, .dim = 96, .dtype = DType::kF32, .metric = Metric::kInnerProduct},
      {.n = 500, .n1 = 499, .m = 16, .dim = 128, .metric = Metric::kL2, .user_labels = true},
      {.n = 300, .n1 = 48, .m = 2, .dim = 33, .dtype = DType::kI8},
      {.n = 300, .n1 = 48, .m = 2, .dim = 33, .dtype = DType::kF16, .bits = 2},
      {.n = 90, .n1 = 20, .m = 5, .dim = 1200, .dtype = DType::kF32, .user_labels = true},
      {.n = 90, .n1 = 20, .m = 5, .dim = 500, .dtype = DType::kF32},
      {.n = 90, .n1 = 0, .m = 5, .dim = 784, .metric = Metric::kL2, .user_labels = true},
      {.n = 90, .n1 = 89, .m = 5, .dim = 1536, .dtype = DType::kF16},
      {.n = 7, .n1 = 2, .m = 5, .user_labels = true, .bits = 1},
      {.n = 90, .n1 = 21, .m = 5, .dim = 1200, .dtype = DType::kF32, .bits = 4},
      {.n = 300, .n1 = 48, .m = 2, .dim = 33, .dtype = DType::kF32, .scalar_bits = 4},
      {.n = 90, .n1 = 20, .m = 5, .dim = 9, .dtype = DType::kF16, .scalar_bits = 8},
  };
  for (const RingIndex::Shape& shape : shapes) {
    RingIndex index(shape);
    SCOPED_TRACE(absl::StrCat("n ", shape.n, ", dim ", shape.dim));
    TemporaryPath path(::testing::TempDir(), "round_trip");
    const auto written = Write(path, index);
    ASSERT_TRUE(written.ok()) << written.status();
    const auto file = IndexFile::Open(path);
    ASSERT_TRUE(file.ok()) << file.status();
    ExpectHolds(*file, index);
    EXPECT_EQ(Verify(path), absl::OkStatus());
    EXPECT_EQ(file->info().content_hash, written->content_hash);
    EXPECT_EQ(file->info().version, "4.0");
    EXPECT_EQ(file->info().file_bytes, file->file().bytes().size());
  }
}

TEST(Format, InfoIsWhatTheBuildSaidAndBytesAddUp) {
  RingIndex index;
  TemporaryPath path(::testing::TempDir(), "info");
  const auto info = Write(path, index);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->n, 200u);
  EXPECT_EQ(info->dim, 20u);
  EXPECT_EQ(info->dtype, DType::kU8);
  EXPECT_EQ(info->metric, Metric::kCosine);
  EXPECT_EQ(info->m, 4u);
  EXPECT_EQ(info->ef_construction, 40u);
  EXPECT_EQ(info->alpha, 1.25f);
  EXPECT_DOUBLE_EQ(info->promote, 0.16);
  EXPECT_EQ(info->seed, 7u);
  EXPECT_EQ(info->version, "4.0");
  EXPECT_FALSE(info->user_labels);
  ASSERT_EQ(info->layers.size(), 4u);
  EXPECT_EQ(info->layers[1].nodes, 32u);
  EXPECT_EQ(info->layers[3].nodes, 2u);
  EXPECT_EQ(info->layers[0].max_degree, 8u);
  EXPECT_EQ(info->layers[2].max_degree, 4u);
  EXPECT_EQ(info->layers[0].mean_degree, 8.0);
  EXPECT_EQ(info->layers[3].mean_degree, 1.0);

  std::map<std::string, StructureBytes> lines;
  std::uint64_t sum = 0;
  for (const StructureBytes& line : info->bytes) {
    lines[line.name] = line;
    sum += line.bytes;
  }
  EXPECT_EQ(sum, info->file_bytes);
  EXPECT_EQ(lines["upper_links"].bytes, 4u * (32 * 8 + 8 * 4 + 2 * 4));
  EXPECT_EQ(lines["fast_vectors"].bytes, 32u * 20);
  EXPECT_EQ(lines["l0_links"].bytes, 200u * 8) << "eight bits a link";
  EXPECT_EQ(lines["slow_vectors"].bytes, 168u * 20);
  EXPECT_EQ(lines["labels"].bytes, 200u * 4);
  EXPECT_EQ(lines["norms"].bytes, 200u * 4);
  EXPECT_EQ(lines["header"].bytes, 4096u);
  EXPECT_EQ(lines["l0_links"].formula, 4u * 200 * 8);
  for (const char* name : {"upper_links", "fast_vectors", "slow_vectors"})
    EXPECT_EQ(lines[name].bytes, lines[name].formula) << name;
}

/// The golden file: today's writer makes the same bytes, and today's reader reads them.
/// Until hmann 1.0, a deliberate change of the format rewrites it:
/// HMANN_GOLDEN=overwrite.
TEST(Format, GoldenFile) {
  RingIndex index({.user_labels = true, .bits = 2, .replicas = 2, .scalar_bits = 4});
  if (const char* mode = std::getenv("HMANN_GOLDEN");
      mode != nullptr && std::string_view(mode) == "overwrite") {
    ASSERT_TRUE(Write(kGolden, index).ok());
  }
  const auto file = IndexFile::Open(kGolden);
  ASSERT_TRUE(file.ok()) << file.status();
  ExpectHolds(*file, index);
  EXPECT_EQ(Verify(kGolden), absl::OkStatus());
  EXPECT_EQ(file->info().version, "4.0");
  EXPECT_LT(file->info().file_bytes, 100'000u);
  std::set<SectionKind> kinds;
  for (const Section& section : file->sections()) kinds.insert(section.kind);
  EXPECT_EQ(kinds.size(), 12u) << "every kind of section is in it";
  EXPECT_EQ(file->info().codes, index.contents.codes);
  ASSERT_EQ(file->cells().size(), index.contents.cells.size());
  for (std::size_t i = 0; i < file->cells().size(); ++i) {
    EXPECT_EQ(file->cells()[i].centroid, index.contents.cells[i].centroid);
    EXPECT_EQ(file->cells()[i].first, index.contents.cells[i].first);
  }
  EXPECT_TRUE(std::equal(file->second_centroids().begin(), file->second_centroids().end(),
                         index.contents.second_centroids.begin()));
  EXPECT_TRUE(std::equal(file->code_mean().begin(), file->code_mean().end(),
                         index.contents.code_mean.begin()));
  for (NodeId id = 32; id < 200; ++id) {
    const std::byte* expected = index.contents.code(id);
    EXPECT_TRUE(std::equal(expected, expected + CodeBytes(20, 2),
                           file->codes().data() + (id - 32) * CodeBytes(20, 2)));
  }
  TemporaryPath path(::testing::TempDir(), "golden");
  ASSERT_TRUE(Write(path, index).ok());
  EXPECT_TRUE(ReadBytes(path) == ReadBytes(kGolden)) << "the writer's bytes changed";
}

TEST(Format, AlphaIsTheOnlyDifferenceItMakes) {
  TemporaryPath path(::testing::TempDir(), "alpha");
  RingIndex one({.alpha = 1.0f}), other({.alpha = 1.5f});
  const auto of_one = Write(path, one);
  ASSERT_TRUE(of_one.ok()) << of_one.status();
  std::vector<std::byte> changed = ReadBytes(path);
  const auto of_other = Write(path, other);
  ASSERT_TRUE(of_other.ok()) << of_other.status();
  EXPECT_EQ(of_one->alpha, 1.0f);
  EXPECT_EQ(of_other->alpha, 1.5f);
  EXPECT_EQ(of_other->content_hash, of_one->content_hash) << "a tuned table stays valid";
  Poke(std::span(changed), header_offset::kAlpha, 1.5f);
  ResealHeader(changed);
  EXPECT_TRUE(ReadBytes(path) == changed);
  for (const float wrong : {0.0f, 0.9f, 2.1f}) {
    other.contents.alpha = wrong;
    EXPECT_EQ(Write(path, other).status().code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
}

TEST(Format, CodesThatContradictThemselvesAreRefused) {
  TemporaryPath path(::testing::TempDir(), "wrong_codes");
  const auto refused = [&](const std::function<void(IndexContents&)>& change) {
    RingIndex index({.bits = 2, .replicas = 2});
    change(index.contents);
    EXPECT_EQ(Write(path, index).status().code(), absl::StatusCode::kInvalidArgument);
  };
  refused([](IndexContents& c) { c.codes.bits = 5; });
  refused([](IndexContents& c) {
    c.codes.bits = 3;
    c.codes.code_bytes = CodeBytes(20, 3);
  });
  refused([](IndexContents& c) { c.codes.replicas = 3; });
  refused([](IndexContents& c) { c.codes.code_bytes += 1; });
  refused([](IndexContents& c) { c.cells.clear(); });
  refused([](IndexContents& c) { c.cells[3].first = c.cells[2].first; });
  refused([](IndexContents& c) { c.cells[3].centroid = c.cells[2].centroid; });
  refused([](IndexContents& c) { c.second_centroids.pop_back(); });
  refused([](IndexContents& c) { c.code_mean.pop_back(); });
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(Format, NoByteComesFromUninitializedMemory) {
  std::vector<std::vector<std::byte>> files;
  for (const int fill : {0xff, 0x01, 0x00}) {
    ::mallopt(M_PERTURB, fill);  // malloc gives memory filled with ~fill
    RingIndex index({.n = 300, .n1 = 48, .m = 5, .dim = 33, .user_labels = true});
    TemporaryPath path(::testing::TempDir(), "perturbed");
    const auto written = Write(path, index);
    ::mallopt(M_PERTURB, 0);
    ASSERT_TRUE(written.ok()) << written.status();
    files.push_back(ReadBytes(path));
  }
  EXPECT_TRUE(files[0] == files[1]);
  EXPECT_TRUE(files[0] == files[2]);
}
#endif

long PageFaults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

TEST(Format, OpeningTenGigabytesTouchesTheHeaderOnly) {
  RingIndex index(
      {.n = 620'000, .n1 = 64, .m = 16, .dim = 4096, .dtype = DType::kF32, .metric = Metric::kL2});
  index.contents.row = [&](NodeId id) { return id < 64 ? index.Row(id) : nullptr; };
  TemporaryPath path(::testing::TempDir(), "sparse");
  const auto written = Write(path, index);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_GT(written->file_bytes, 10'000'000'000u);
  struct stat status {};
  ASSERT_EQ(::stat(path.str().c_str(), &status), 0);
  EXPECT_LT(static_cast<std::uint64_t>(status.st_blocks) * 512, 4_MiB) << "the file is sparse";

  const long before = PageFaults();
  const auto file = IndexFile::Open(path);
  const long faults = PageFaults() - before;
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_LT(faults, 300);
  EXPECT_EQ(file->l0().size(), file->records().TotalBytes());
}

TEST(Format, HolesAreTheSameBytesAndChecksumAsZeros) {
  RingIndex index(
      {.n = 5000, .n1 = 10, .m = 2, .dim = 250, .dtype = DType::kF32, .metric = Metric::kL2});
  TemporaryPath path(::testing::TempDir(), "holes");
  index.contents.row = [&](NodeId id) { return id < 20 || id > 4000 ? index.Row(id) : nullptr; };
  ASSERT_TRUE(Write(path, index).ok());
  EXPECT_THAT(std::string(Verify(path).message()), ::testing::Not(HasSubstr("checksum")))
      << "what is wrong is the links, not the checksum";
  EXPECT_THAT(std::string(Verify(path).message()), HasSubstr("no link twice"));
}

}  // namespace
}  // namespace hmann
