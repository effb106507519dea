/// An index file from the writer through the reader: what goes in comes out, in these bytes, for ever.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>

#include "absl/strings/str_cat.h"
#include "index/base/units.h"
#include "index/format/reader.h"
#include "index/format/testing/reseal.h"
#include "index/format/testing/ring_index.h"
#include "index/format/verify.h"

namespace hmann {
namespace {

using ::testing::HasSubstr;

constexpr char kGolden[] = "index/format/golden/v1.hmann";

absl::StatusOr<IndexInfo> Write(const std::string& path, RingIndex& index, const std::atomic<bool>* cancelled = nullptr) {
  Progress silent(Progress::Show::kNever);
  return WriteIndex(path, index.contents, silent, cancelled);
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
    const auto record = file.l0().subspan(records.Offset(id), records.RecordBytes(id));
    const bool fast = id < layers.n1();
    const auto row = fast ? file.fast_rows().subspan(id * file.fast_row_stride(), records.row_bytes)
                          : record.subspan(records.row_offset, records.row_bytes);
    const auto label = fast ? file.fast_labels().subspan(std::size_t{id} * records.label_bytes, records.label_bytes)
                            : record.subspan(records.label_offset, records.label_bytes);
    std::uint64_t number = 0;
    std::memcpy(&number, label.data(), label.size());
    ASSERT_EQ(0, std::memcmp(row.data(), index.Row(id), row.size())) << id;
    ASSERT_EQ(number, index.Label(id)) << id;
    ASSERT_EQ(As<NodeId>(record.subspan(records.LinksOffset(id), 4 * records.max_links)), Padded(index.Links(0, id), records.max_links));
    if (records.code_bytes == 0) continue;
    const std::size_t used = index.Links(0, id).size() * records.code_bytes;
    const auto codes = record.subspan(records.LinksEnd(id), records.CodesEnd(id) - records.LinksEnd(id));
    ASSERT_EQ(0, std::memcmp(codes.data(), index.contents.edge_codes(id), used)) << id;
    ASSERT_TRUE(std::all_of(codes.begin() + static_cast<std::ptrdiff_t>(used), codes.end(), [](std::byte b) { return b == std::byte{0}; }));
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
      {.n = 90, .n1 = 20, .m = 5, .dim = 1200, .dtype = DType::kF32, .user_labels = true},
      {.n = 7, .n1 = 2, .m = 5, .user_labels = true, .bits = 1, .place = CodePlace::kEdge},
      {.n = 90, .n1 = 20, .m = 5, .dim = 1200, .dtype = DType::kF32, .bits = 3, .place = CodePlace::kEdge},
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
  EXPECT_EQ(info->alpha, std::nullopt);
  EXPECT_EQ(info->promotion, PromotionOrder::kDegree);
  EXPECT_DOUBLE_EQ(info->promote, 0.16);
  EXPECT_EQ(info->seed, 7u);
  EXPECT_EQ(info->version, "1.0");
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
  EXPECT_EQ(lines["l0_links"].bytes, 4u * 200 * 8);
  EXPECT_EQ(lines["slow_vectors"].bytes, 168u * 20);
  EXPECT_EQ(lines["labels"].bytes, 200u * 4);
  EXPECT_EQ(lines["norms"].bytes, 200u * 4);
  EXPECT_EQ(lines["header"].bytes, 4096u);
  for (const char* name : {"upper_links", "fast_vectors", "l0_links", "slow_vectors"})
    EXPECT_EQ(lines[name].bytes, lines[name].formula) << name;
}

TEST(Format, PromotionOrderNames) {
  for (const PromotionOrder order :
       {PromotionOrder::kDegree, PromotionOrder::kInDegree, PromotionOrder::kOutDegree, PromotionOrder::kRandom}) {
    EXPECT_EQ(*ParsePromotionOrder(Name(order)), order);
  }
  EXPECT_EQ(ParsePromotionOrder("rank").status().code(), absl::StatusCode::kInvalidArgument);
}

/// The tiny file of version 1.0 must open for ever; while 1.0 is what we write, today's writer makes the same bytes. After a deliberate
/// change of the format add a file for the new version; HMANN_GOLDEN=overwrite rewrites this one (only before its version is released).
TEST(Format, GoldenFileOfVersion1) {
  RingIndex index;
  const char* golden = std::getenv("HMANN_GOLDEN");
  if (golden != nullptr && std::string_view(golden) == "overwrite") {
    ASSERT_TRUE(Write(kGolden, index).ok());
  }
  const auto file = IndexFile::Open(kGolden);
  ASSERT_TRUE(file.ok()) << file.status();
  ExpectHolds(*file, index);
  EXPECT_EQ(Verify(kGolden), absl::OkStatus());
  EXPECT_EQ(file->info().version, "1.0");
  EXPECT_LT(file->info().file_bytes, 100'000u);
  TemporaryPath path(::testing::TempDir(), "golden");
  ASSERT_TRUE(Write(path, index).ok());
  EXPECT_TRUE(ReadBytes(path) == ReadBytes(kGolden)) << "the writer's bytes changed";
}

/// The same of version 1.1, which added sketches and cells.
TEST(Format, GoldenFileOfVersion1Point1) {
  constexpr char kGoldenOfCodes[] = "index/format/golden/v1_1.hmann";
  RingIndex index({.bits = 2, .assign = 2});
  const char* golden = std::getenv("HMANN_GOLDEN");
  if (golden != nullptr && std::string_view(golden) == "overwrite") {
    ASSERT_TRUE(Write(kGoldenOfCodes, index).ok());
  }
  const auto file = IndexFile::Open(kGoldenOfCodes);
  ASSERT_TRUE(file.ok()) << file.status();
  ExpectHolds(*file, index);
  EXPECT_EQ(Verify(kGoldenOfCodes), absl::OkStatus());
  EXPECT_EQ(file->info().version, "1.1");
  EXPECT_EQ(file->info().codes, index.contents.codes);
  ASSERT_EQ(file->cells().size(), index.contents.cells.size());
  for (std::size_t i = 0; i < file->cells().size(); ++i) {
    EXPECT_EQ(file->cells()[i].hub, index.contents.cells[i].hub);
    EXPECT_EQ(file->cells()[i].first, index.contents.cells[i].first);
  }
  EXPECT_TRUE(std::equal(file->second_hubs().begin(), file->second_hubs().end(), index.contents.second_hubs.begin()));
  EXPECT_TRUE(std::equal(file->sketch_mean().begin(), file->sketch_mean().end(), index.contents.sketch_mean.begin()));
  for (NodeId id = 32; id < 200; ++id) {
    const std::byte* expected = index.contents.sketch(id);
    EXPECT_TRUE(std::equal(expected, expected + SketchBytes(20, 2), file->sketches().data() + (id - 32) * SketchBytes(20, 2)));
  }
  TemporaryPath path(::testing::TempDir(), "golden_codes");
  ASSERT_TRUE(Write(path, index).ok());
  EXPECT_TRUE(ReadBytes(path) == ReadBytes(kGoldenOfCodes)) << "the writer's bytes changed";
}

/// The same of version 1.2, which added sketches of links; older readers must refuse it.
TEST(Format, GoldenFileOfVersion1Point2) {
  constexpr char kGoldenOfEdges[] = "index/format/golden/v1_2.hmann";
  RingIndex index({.n = 100, .n1 = 20, .bits = 1, .place = CodePlace::kEdge});
  const char* golden = std::getenv("HMANN_GOLDEN");
  if (golden != nullptr && std::string_view(golden) == "overwrite") {
    ASSERT_TRUE(Write(kGoldenOfEdges, index).ok());
  }
  const auto file = IndexFile::Open(kGoldenOfEdges);
  ASSERT_TRUE(file.ok()) << file.status();
  ExpectHolds(*file, index);
  EXPECT_EQ(Verify(kGoldenOfEdges), absl::OkStatus());
  EXPECT_EQ(file->info().version, "1.2");
  EXPECT_EQ(file->info().codes, index.contents.codes);
  EXPECT_TRUE(file->cells().empty() && file->sketches().empty() && file->second_hubs().empty());
  EXPECT_TRUE(std::equal(file->sketch_mean().begin(), file->sketch_mean().end(), index.contents.sketch_mean.begin()));
  const auto line =
      std::find_if(file->info().bytes.begin(), file->info().bytes.end(), [](const auto& l) { return l.name == "edge_codes"; });
  ASSERT_NE(line, file->info().bytes.end());
  EXPECT_EQ(line->tier, "slow");
  EXPECT_EQ(line->bytes, 100u * 8 * SketchBytes(20, 1));
  const std::vector<std::byte> bytes = ReadBytes(kGoldenOfEdges);
  EXPECT_EQ(As<std::uint16_t>(std::span(bytes).subspan(12, 2))[0], 2) << "min_reader_minor";
  TemporaryPath path(::testing::TempDir(), "golden_edges");
  ASSERT_TRUE(Write(path, index).ok());
  EXPECT_TRUE(ReadBytes(path) == bytes) << "the writer's bytes changed";
}

/// The same of version 1.3, which added alpha; older readers may go on without knowing it.
TEST(Format, GoldenFileOfVersion1Point3) {
  constexpr char kGoldenOfAlpha[] = "index/format/golden/v1_3.hmann";
  RingIndex index({.bits = 1, .alpha = 1.25f});
  const char* golden = std::getenv("HMANN_GOLDEN");
  if (golden != nullptr && std::string_view(golden) == "overwrite") {
    ASSERT_TRUE(Write(kGoldenOfAlpha, index).ok());
  }
  const auto file = IndexFile::Open(kGoldenOfAlpha);
  ASSERT_TRUE(file.ok()) << file.status();
  ExpectHolds(*file, index);
  EXPECT_EQ(Verify(kGoldenOfAlpha), absl::OkStatus());
  EXPECT_EQ(file->info().version, "1.3");
  EXPECT_EQ(file->info().alpha, 1.25f);
  const std::vector<std::byte> bytes = ReadBytes(kGoldenOfAlpha);
  EXPECT_EQ(As<std::uint16_t>(std::span(bytes).subspan(12, 2))[0], 0) << "min_reader_minor";
  TemporaryPath path(::testing::TempDir(), "golden_alpha");
  ASSERT_TRUE(Write(path, index).ok());
  EXPECT_TRUE(ReadBytes(path) == bytes) << "the writer's bytes changed";
}

TEST(Format, AlphaIsTheOnlyDifferenceItMakes) {
  TemporaryPath path(::testing::TempDir(), "alpha");
  RingIndex without({.bits = 1, .place = CodePlace::kEdge}), with({.bits = 1, .place = CodePlace::kEdge, .alpha = 1.0f});
  const auto plain = Write(path, without);
  ASSERT_TRUE(plain.ok()) << plain.status();
  std::vector<std::byte> before = ReadBytes(path);
  const auto recorded = Write(path, with);
  ASSERT_TRUE(recorded.ok()) << recorded.status();
  EXPECT_EQ(plain->alpha, std::nullopt);
  EXPECT_EQ(recorded->alpha, 1.0f);
  EXPECT_EQ(recorded->content_hash, plain->content_hash) << "a tuned table stays valid";
  Poke(std::span(before), header_offset::kMinor, std::uint16_t{3});
  Poke(std::span(before), header_offset::kAlpha, 1.0f);
  ResealHeader(before);
  EXPECT_TRUE(ReadBytes(path) == before);
  with.contents.alpha = 0.9f;
  EXPECT_EQ(Write(path, with).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Format, CodesThatContradictThemselvesAreRefused) {
  TemporaryPath path(::testing::TempDir(), "wrong_codes");
  const auto refused = [&](const std::function<void(IndexContents&)>& change, CodePlace place = CodePlace::kHub) {
    RingIndex index({.bits = 3, .assign = 2, .place = place});
    change(index.contents);
    EXPECT_EQ(Write(path, index).status().code(), absl::StatusCode::kInvalidArgument);
  };
  refused([](IndexContents& c) { c.codes.bits = 5; });
  refused([](IndexContents& c) { c.codes.assign = 3; });
  refused([](IndexContents& c) { c.codes.sketch_bytes += 1; });
  refused([](IndexContents& c) { c.cells.clear(); });
  refused([](IndexContents& c) { c.cells[3].first = c.cells[2].first; });
  refused([](IndexContents& c) { c.cells[3].hub = c.cells[2].hub; });
  refused([](IndexContents& c) { c.second_hubs.pop_back(); });
  refused([](IndexContents& c) { c.sketch_mean.pop_back(); });
  refused([](IndexContents& c) { c.codes.place = CodePlace::kEdge; });
  refused([](IndexContents& c) { c.codes.place = static_cast<CodePlace>(2); });
  refused([](IndexContents& c) { c.codes.assign = 1; }, CodePlace::kEdge);
  refused([](IndexContents& c) { c.codes.sketch_bytes -= 1; }, CodePlace::kEdge);
  refused([](IndexContents& c) { c.cells = {{0, 32}}; }, CodePlace::kEdge);
  refused([](IndexContents& c) { c.edge_codes = nullptr; }, CodePlace::kEdge);
  refused([](IndexContents& c) { c.sketch_mean.pop_back(); }, CodePlace::kEdge);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(Format, NoByteComesFromUninitialisedMemory) {
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
  RingIndex index({.n = 530'000, .n1 = 64, .m = 16, .dim = 4096, .dtype = DType::kF32, .metric = Metric::kL2});
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
  RingIndex index({.n = 5000, .n1 = 10, .m = 2, .dim = 250, .dtype = DType::kF32, .metric = Metric::kL2});
  TemporaryPath path(::testing::TempDir(), "holes");
  index.contents.row = [&](NodeId id) { return id < 20 || id > 4000 ? index.Row(id) : nullptr; };
  ASSERT_TRUE(Write(path, index).ok());
  EXPECT_THAT(std::string(Verify(path).message()), ::testing::Not(HasSubstr("checksum"))) << "what is wrong is the links, not the checksum";
  EXPECT_THAT(std::string(Verify(path).message()), HasSubstr("no link twice"));
}

TEST(Writer, RefusesContentsThatContradictThemselves) {
  TemporaryPath path(::testing::TempDir(), "refused");
  const auto refusal = [&](auto change) {
    RingIndex index;
    change(index);
    const absl::Status status = Write(path, index).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    struct stat ignored {};
    EXPECT_NE(::stat(path.str().c_str(), &ignored), 0) << "nothing may be left behind";
    return std::string(status.message());
  };
  const std::vector<NodeId> nine(9, 1);
  EXPECT_THAT(refusal([&](RingIndex& i) { i.contents.links = [&](std::uint32_t, NodeId) { return std::span<const NodeId>(nine); }; }),
              HasSubstr("expected at most 8 links in layer 1; found 9"));
  EXPECT_THAT(refusal([](RingIndex& i) { i.contents.label = [](NodeId) { return std::uint64_t{1} << 32; }; }), HasSubstr("32 bits"));
  EXPECT_THAT(refusal([](RingIndex& i) { i.contents.row = [](NodeId) { return nullptr; }; }), HasSubstr("promoted node without a vector"));
  EXPECT_THAT(refusal([](RingIndex& i) { i.contents.row_bytes = 20; }), HasSubstr("row_bytes: expected 24; found 20"));
  EXPECT_THAT(refusal([](RingIndex& i) { i.contents.layers.nodes[2] = 9; }), HasSubstr("layers"));
  EXPECT_THAT(refusal([](RingIndex& i) { i.contents.layers.m = 1; }), HasSubstr("m: expected 2"));
}

TEST(Writer, CancelledOrFullDiskKeepsTheOldIndex) {
  TemporaryPath path(::testing::TempDir(), "kept");
  RingIndex old;
  ASSERT_TRUE(Write(path, old).ok());
  const std::vector<std::byte> before = ReadBytes(path);

  RingIndex larger({.n = 20'000, .n1 = 100});
  const std::atomic<bool> cancelled = true;
  EXPECT_EQ(Write(path, larger, &cancelled).status().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(ReadBytes(path) == before);

  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small{.rlim_cur = 256 * 1024, .rlim_max = limit.rlim_max};
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status full = Write(path, larger).status();
  ::setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
  EXPECT_TRUE(ReadBytes(path) == before);
  EXPECT_EQ(Verify(path), absl::OkStatus());
}

}  // namespace
}  // namespace hmann
