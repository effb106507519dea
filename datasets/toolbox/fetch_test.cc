#include "datasets/toolbox/fetch.h"

#include <archive.h>
#include <archive_entry.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "datasets/ground_truth.h"
#include "datasets/testing/temp_folder.h"
#include "datasets/toolbox/archive.h"
#include "datasets/toolbox/manifest.h"
#include "datasets/toolbox/testing/pattern.h"
#include "datasets/toolbox/testing/test_server.h"
#include "datasets/vector_file.h"
#include "gmock/gmock.h"

namespace hmann {
namespace {

using testing::HasSubstr;
using testing::SizeIs;
using u32 = std::uint32_t;

constexpr std::uint64_t kBigAnnBytes = 128'000'000'008;
const char* const kBigAnnBase = "/billion-scale-ann-benchmarks/bigann/base.1B.u8bin";
const char* const kBigAnnQueries = "/billion-scale-ann-benchmarks/bigann/query.public.10K.u8bin";

/// The part of BIGANN that the tests need: the first 2000 vectors, zeros behind.
TestServer::File BigAnnBase() {
  return {.content = Bytes(u32{1'000'000'000}, u32{128}) + Pattern(2000 * 128),
          .total_bytes = kBigAnnBytes};
}
TestServer::File BigAnnQueries() {
  return {.content = Bytes(u32{10'000}, u32{128}) + Pattern(10'000 * 128, 1)};
}

class FetchTest : public testing::Test {
 protected:
  absl::StatusOr<std::vector<FetchedFile>> FetchSet(const std::string& name,
                                                    const std::string& folder = "set") {
    const auto selection = Select(name);
    EXPECT_TRUE(selection.ok()) << selection.status();
    return Fetch(
        *selection,
        {.folder = folder_ / folder, .base_url = server_.url(), .attempts = 3, .pause_ms = 1},
        progress_);
  }

  const TempFolder folder_;
  TestServer server_;
  Progress progress_{Progress::Show::kNever};
};

TEST_F(FetchTest, BringsASliceOfBigAnn) {
  server_.Put(kBigAnnBase, BigAnnBase());
  server_.Put(kBigAnnQueries, BigAnnQueries());
  const auto fetched = FetchSet("bigann:1K");
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  ASSERT_THAT(*fetched, SizeIs(2));
  const auto base = VectorFile::Open(folder_ / "set/base.1K.u8bin");
  ASSERT_TRUE(base.ok()) << base.status();
  EXPECT_EQ(base->n(), 1000u);
  EXPECT_EQ(ReadAll(folder_ / "set/base.1K.u8bin"), Bytes(u32{1000}, u32{128}) + Pattern(128'000));
  EXPECT_EQ(server_.requests()[0].range, "bytes=0-128007");
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "set")) {
    EXPECT_THAT(entry.path().string(), testing::Not(HasSubstr(".part")));
  }

  const std::size_t requests = server_.requests().size();
  const auto again = FetchSet("bigann:1K");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE((*again)[0].was_there);
  EXPECT_THAT(server_.requests(), SizeIs(requests)) << "what is there is not asked for again";
}

TEST_F(FetchTest, BringsThePublishedGroundTruth) {
  server_.Put(kBigAnnBase, BigAnnBase());
  server_.Put(kBigAnnQueries, BigAnnQueries());
  auto selection = Select("bigann:10M");
  ASSERT_TRUE(selection.ok());
  ASSERT_THAT(selection->files, SizeIs(3));
  selection->files.erase(selection->files.begin());  // 1.28 GB of base
  const std::string truth = Bytes(u32{10'000}, u32{100}) + std::string(8'000'000, '\x01');
  server_.Put("/billion-scale-ann-benchmarks/GT_10M/bigann-10M", {.content = truth});
  const auto fetched = Fetch(
      *selection,
      {.folder = folder_ / "set", .base_url = server_.url() + "/", .attempts = 2, .pause_ms = 1},
      progress_);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  const auto read = ReadGroundTruth(folder_ / "set/GT.10M.gt");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->k, 100u);
  EXPECT_FALSE(read->distances.empty());
}

TEST_F(FetchTest, GoesOnAfterAnInterruption) {
  TestServer::File base = BigAnnBase();
  base.cut_after = 50'000;
  base.cuts = 1;
  server_.Put(kBigAnnBase, base);
  const auto failed = FetchSet("bigann:1K");  // the queries are missing
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kNotFound) << failed.status();
  server_.Put(kBigAnnQueries, BigAnnQueries());
  const auto fetched = FetchSet("bigann:1K");
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_TRUE((*fetched)[0].was_there);
  EXPECT_FALSE((*fetched)[1].was_there);
}

TEST_F(FetchTest, NamesAnotherHeaderThanTheCatalogs) {
  TestServer::File base = BigAnnBase();
  base.content.replace(4, 4, Bytes(u32{96}));
  server_.Put(kBigAnnBase, base);
  const absl::Status status = FetchSet("bigann:1K").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("n = 1000000000, dim = 96 found"));
  server_.Put(kBigAnnBase, BigAnnBase());
  server_.Put(kBigAnnQueries, BigAnnQueries());
  EXPECT_TRUE(FetchSet("bigann:1K").ok()) << "the wrong file does not stand in the way";
}

TEST_F(FetchTest, NamesAWrongSizeOnTheServer) {
  TestServer::File base = BigAnnBase();
  base.total_bytes -= 128;
  server_.Put(kBigAnnBase, base);
  const absl::Status status = FetchSet("bigann:1K").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("has 127999999880 bytes, 128000000008 expected"));
}

TEST_F(FetchTest, NamesAChangedChecksum) {
  server_.Put(kBigAnnBase, BigAnnBase());
  server_.Put(kBigAnnQueries, BigAnnQueries());
  ASSERT_TRUE(FetchSet("bigann:1K").ok());
  const std::string path = folder_ / "set/base.1K.u8bin";
  const std::string whole = ReadAll(path);

  std::string damaged = whole;
  damaged[5000] ^= 1;
  folder_.Write("set/base.1K.u8bin", damaged);
  absl::Status status = FetchSet("bigann:1K").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("base.1K.u8bin: 128008 bytes with checksum"));

  std::filesystem::remove(path);
  TestServer::File other = BigAnnBase();
  other.content[5000] ^= 1;
  server_.Put(kBigAnnBase, other);
  status = FetchSet("bigann:1K").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss)
      << "the publisher has changed the file: " << status;
  EXPECT_FALSE(std::filesystem::exists(path));

  server_.Put(kBigAnnBase, BigAnnBase());
  ASSERT_TRUE(FetchSet("bigann:1K").ok());
  EXPECT_EQ(ReadAll(path), whole);
}

TEST_F(FetchTest, RefusesAForeignManifest) {
  std::filesystem::create_directories(folder_ / "set");
  for (const char* text : {"[]", "{", R"({"files": {"a": {"bytes": -1, "xxh3": "", "url": ""}}})",
                           R"({"files": {"a": 1}})"}) {
    folder_.Write("set/manifest.json", text);
    EXPECT_EQ(FetchSet("bigann:1K").status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

struct Entry {
  std::string path, content;
  unsigned type = AE_IFREG;
};

std::string Packed(const TempFolder& folder, const std::vector<Entry>& entries) {
  const std::string path = folder / "made.tar.gz";
  archive* writer = archive_write_new();
  archive_write_add_filter_gzip(writer);
  archive_write_set_format_pax_restricted(writer);
  archive_write_open_filename(writer, path.c_str());
  for (const Entry& item : entries) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, item.path.c_str());
    archive_entry_set_filetype(entry, item.type);
    archive_entry_set_perm(entry, 0644);
    if (item.type == AE_IFLNK) archive_entry_set_symlink(entry, item.content.c_str());
    if (item.type == AE_IFREG)
      archive_entry_set_size(entry, static_cast<la_int64_t>(item.content.size()));
    archive_write_header(writer, entry);
    if (item.type == AE_IFREG) archive_write_data(writer, item.content.data(), item.content.size());
    archive_entry_free(entry);
  }
  archive_write_close(writer);
  archive_write_free(writer);
  return path;
}

std::string FvecsOf(u32 n, u32 dim) {
  std::string content;
  for (u32 i = 0; i < n; ++i) content += Bytes(dim) + std::string(4 * dim, '\0');
  return content;
}

TEST_F(FetchTest, UnpacksAnArchive) {
  const std::vector<Entry> entries = {{"siftsmall", "", AE_IFDIR},
                                      {"siftsmall/siftsmall_base.fvecs", FvecsOf(10'000, 128)},
                                      {"siftsmall/siftsmall_query.fvecs", FvecsOf(100, 128)},
                                      {"siftsmall/siftsmall_groundtruth.ivecs", FvecsOf(100, 100)}};
  server_.Put("/local/texmex/corpus/siftsmall.tar.gz",
              {.content = ReadAll(Packed(folder_, entries))});
  const auto fetched = FetchSet("siftsmall");
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  ASSERT_THAT(*fetched, SizeIs(3));
  const auto base = VectorFile::Open((*fetched)[0].path);
  ASSERT_TRUE(base.ok()) << base.status();
  EXPECT_EQ(base->n(), 10'000u);
  const auto truth = ReadGroundTruth((*fetched)[2].path);
  ASSERT_TRUE(truth.ok()) << truth.status();
  EXPECT_EQ(truth->k, 100u);
  const std::size_t requests = server_.requests().size();
  ASSERT_TRUE(FetchSet("siftsmall").ok());
  EXPECT_THAT(server_.requests(), SizeIs(requests));
}

TEST_F(FetchTest, NamesAnArchiveMemberOfWrongSize) {
  const std::vector<Entry> entries = {{"siftsmall/siftsmall_base.fvecs", FvecsOf(9'999, 128)},
                                      {"siftsmall/siftsmall_query.fvecs", FvecsOf(100, 128)},
                                      {"siftsmall/siftsmall_groundtruth.ivecs", FvecsOf(100, 100)}};
  server_.Put("/local/texmex/corpus/siftsmall.tar.gz",
              {.content = ReadAll(Packed(folder_, entries))});
  EXPECT_THAT(std::string(FetchSet("siftsmall").status().message()),
              HasSubstr("5159484 bytes found, 5160000 expected"));
}

TEST_F(FetchTest, ArchivesCannotLeaveTheirFolder) {
  std::filesystem::create_directories(folder_ / "in");
  std::filesystem::create_directory_symlink(folder_.path(), folder_ / "in/link");
  const std::vector<Entry> bad[] = {{{"../out.txt", "x"}},           {{"a/../../out.txt", "x"}},
                                    {{folder_ / "out.txt", "x"}},    {{"link/out.txt", "x"}},
                                    {{"l", "../out.txt", AE_IFLNK}}, {{"..", "x"}}};
  for (const auto& entries : bad) {
    const auto unpacked = UnpackArchive(Packed(folder_, entries), folder_ / "in", 1000, progress_);
    EXPECT_EQ(unpacked.status().code(), absl::StatusCode::kInvalidArgument)
        << entries[0].path << unpacked.status();
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out.txt")) << entries[0].path;
  }
  EXPECT_THAT(std::string(UnpackArchive(Packed(folder_, {{"big", std::string(1001, 'x')}}),
                                        folder_ / "in", 1000, progress_)
                              .status()
                              .message()),
              HasSubstr("more than expected"));
  EXPECT_EQ(UnpackArchive(folder_.Write("no.tar.gz", "no archive"), folder_ / "in", 1000, progress_)
                .status()
                .code(),
            absl::StatusCode::kDataLoss);
  const std::string packed = ReadAll(Packed(folder_, {{"a", Pattern(5000)}}));
  EXPECT_EQ(UnpackArchive(folder_.Write("cut.tar.gz", packed.substr(0, packed.size() / 2)),
                          folder_ / "in", 10'000, progress_)
                .status()
                .code(),
            absl::StatusCode::kDataLoss);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "in/a"));
}

TEST(Catalog, SizesFollowFromTheFormat) {
  const auto total = [](const char* name, std::size_t file) {
    return Select(name)->files[file].total_bytes;
  };
  const auto wanted = [](const char* name, std::size_t file) {
    return Select(name)->files[file].wanted_bytes;
  };
  EXPECT_EQ(total("bigann", 0), 128'000'000'008u);
  EXPECT_EQ(total("deep1b:1M", 0), 384'000'000'008u);
  EXPECT_EQ(wanted("bigann:1M", 0), 128'000'008u);
  EXPECT_EQ(wanted("bigann:10M", 0), 1'280'000'008u);
  EXPECT_EQ(wanted("bigann:100M", 0), 12'800'000'008u);
  EXPECT_EQ(wanted("deep1b:10M", 0), 3'840'000'008u);
  EXPECT_EQ(wanted("deep1b:100M", 0), 38'400'000'008u);
  EXPECT_EQ(total("bigann", 1), 1'280'008u);
  EXPECT_EQ(total("deep1b", 1), 3'840'008u);
  EXPECT_EQ(total("bigann:100M", 2), 8'000'008u);
  EXPECT_EQ(Select("sift1m")->members[0].bytes, 516'000'000u);
  EXPECT_EQ(Select("gist1m")->members[0].bytes, 3'844'000'000u);
  EXPECT_FALSE(Select("bigann:1M")->has_ground_truth);
  EXPECT_TRUE(Select("deep1b:1B")->has_ground_truth);
  EXPECT_EQ(Select("bigann:1000M")->folder, "bigann-1B");
}

TEST(Catalog, NamesWhatItCannotGive) {
  EXPECT_EQ(Select("sift").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(Select("sift").status().message()), HasSubstr("sift1m"));
  for (const char* name :
       {"bigann:", "bigann:0", "bigann:x", "bigann:-1", "bigann:2B", "bigann:99999999999999999999",
        "bigann:18446744073709551615K", "sift1m:10K"}) {
    EXPECT_EQ(Select(name).status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
}

}  // namespace
}  // namespace hmann
