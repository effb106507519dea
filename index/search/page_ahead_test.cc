/// Pages of a mapped L0 that are not in memory, of a real file.
#include "index/search/page_ahead.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "index/base/file.h"
#include "index/search/testing/executor_answers.h"
#include "index/search/testing/random_index.h"

namespace hmann {
namespace {

constexpr std::size_t kPage = 4096;

std::int64_t MajorFaults() {
  rusage use{};
  EXPECT_EQ(::getrusage(RUSAGE_THREAD, &use), 0);
  return use.ru_majflt;
}

class PageAheadTest : public testing::Test {
 protected:
  PageAheadTest()
      : path_(absl::StrCat(testing::TempDir(), "/hmann_page_ahead.", ::getpid())),
        index_({.n = 20000, .n1 = 1000, .m = 8, .dim = 60}),
        placed_(index_.placed()) {}
  ~PageAheadTest() override { ::unlink(path_.c_str()); }

  void SetUp() override {
    const std::string_view l0(reinterpret_cast<const char*>(placed_.l0),
                              placed_.records.TotalBytes());
    ASSERT_TRUE(WriteTextFile(path_, l0).ok());
    file_ = *MappedFile::Open(path_);
    file_.Advise(MappedFile::Access::kRandom, 0, file_.bytes().size());
    placed_.l0 = file_.bytes().data();
    placed_.mapped = true;
    Evict();
    if (ShareInMemory(file_.bytes()) != 0.0) GTEST_SKIP() << "files stay in memory here";
  }

  /// Nothing of the file stays in memory.
  void Evict() const {
    file_.Advise(MappedFile::Access::kNone, 0, file_.bytes().size());
    const FileDescriptor file = file_.Reopen();
    EXPECT_EQ(::fdatasync(file.fd()), 0);
    EXPECT_EQ(::posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED), 0);
  }
  std::span<const std::byte> Page(std::size_t page) const {
    return file_.bytes().subspan(page * kPage, kPage);
  }
  void ReadPages(std::size_t first, std::size_t pages) const {
    for (std::size_t page = first; page < first + pages; ++page)
      (void)*static_cast<const volatile std::byte*>(Page(page).data());
  }

  const std::string path_;
  RandomIndex index_;
  PlacedIndex placed_;
  MappedFile file_;
};

TEST_F(PageAheadTest, ReadsWhatWasAddedAndNothingElse) {
  PageAhead pages(placed_);
  pages.Add(Page(7).subspan(100, 3));
  pages.Add(Page(90).subspan(4000, 96));
  pages.Add(file_.bytes().subspan(20 * kPage - 1, 2));  // of two pages
  pages.Add(Page(7).subspan(5, 4));
  pages.Send();
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  const double expected = 4.0 / (static_cast<double>(file_.bytes().size()) / kPage);
  while (ShareInMemory(file_.bytes()) < expected && std::chrono::steady_clock::now() < give_up)
    std::this_thread::yield();
  for (const std::size_t page : {7, 19, 20, 90}) EXPECT_EQ(ShareInMemory(Page(page)), 1.0) << page;
  EXPECT_DOUBLE_EQ(*ShareInMemory(file_.bytes()), expected);
}

TEST_F(PageAheadTest, IsOnWhileQueriesReadFromADrive) {
  PageAhead pages(placed_);
  const auto many = [&pages] {
    for (int query = 0; query < 64; ++query) pages.Begin();
    return pages.on();
  };
  many();
  EXPECT_FALSE(many()) << "nothing was read";
  ReadPages(0, 100);
  for (int query = 0; query < 64 && !pages.on(); ++query) pages.Begin();
  EXPECT_TRUE(pages.on());
  EXPECT_FALSE(many());
  ReadPages(0, 100);
  for (int query = 0; query < 64 && !pages.on(); ++query) pages.Begin();
  EXPECT_FALSE(pages.on()) << "these are in memory by now";
  placed_.mapped = false;
  PageAhead of_memory(placed_);
  ReadPages(100, 100);
  for (int query = 0; query < 64; ++query) {
    of_memory.Begin();
    ASSERT_FALSE(of_memory.on());
  }
}

TEST_F(PageAheadTest, AQueryFindsItsPagesOnTheirWay) {
  for (const auto& [mode, prefetch] : {std::pair(SearchMode::kGraph, Prefetch::kHop),
                                       std::pair(SearchMode::kGraph, Prefetch::kOff),
                                       std::pair(SearchMode::kMultiStart, Prefetch::kHop)}) {
    SCOPED_TRACE(absl::StrCat(static_cast<int>(mode), " ", static_cast<int>(prefetch)));
    const SearchParams options{
        .k = 10, .ef_l1 = 8, .ef_l0 = 20, .mode = mode, .prefetch = prefetch};
    ParamsExecutor mapped(placed_), memory(index_.placed());
    std::int64_t first = 0, last = 0;
    for (std::uint64_t query = 0; query < 16; ++query) {
      Evict();
      const std::int64_t faults = MajorFaults();
      const ExecutorAnswer found = MustSearch(mapped, index_.Query(query), options);
      (query < 8 ? first : last) += query < 2 || query >= 8 ? MajorFaults() - faults : 0;
      ASSERT_NO_FATAL_FAILURE(ExpectSameAnswer(
          found.nearest, MustSearch(memory, index_.Query(query), options).nearest));
    }
    EXPECT_GT(first, 100) << "at first each page stops the query";
    EXPECT_EQ(last > 100, prefetch == Prefetch::kOff) << last;
    EXPECT_TRUE(last <= 10 || prefetch == Prefetch::kOff) << last;
  }
}

}  // namespace
}  // namespace hmann
