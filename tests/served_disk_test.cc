// Collections on disks that fill up, or hang, while a server writes them (needs root).
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/server_program.h"
#include "tests/small_disk.h"

namespace hmann {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using namespace std::chrono_literals;

constexpr std::size_t kRowBytes = 128;

void CreateEmpty(const std::string& path) {
  const Outcome made = Hmann({"create", path, "--dim", "128", "--dtype", "u8"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
}

/// Puts rows whose components are those of their labels.
absl::StatusOr<client::Written> Put(client::Client& client, const std::string& index,
                                    const std::vector<std::uint64_t>& labels,
                                    const client::CallOptions& call = {.deadline = 20s}) {
  std::vector<std::byte> rows;
  for (const std::uint64_t label : labels)
    rows.insert(rows.end(), kRowBytes, static_cast<std::byte>(label));
  return client.Put(index, {.labels = labels}, client::Vectors::Raw(rows), {}, call);
}

std::vector<std::uint64_t> Nearest(client::Client& client, const std::string& index,
                                   std::uint64_t label) {
  const std::vector<std::byte> row(kRowBytes, static_cast<std::byte>(label));
  const auto found = client.Search(index, client::Vectors::Raw(row), {.k = 1}, {.deadline = 20s});
  EXPECT_TRUE(found.ok()) << found.status();
  return found.ok() ? found->ids : std::vector<std::uint64_t>{};
}

TEST(ServedDisk, FullAndFreedAgain) {
  const TestFolder folder("full_collection");
  const SmallDisk disk(folder.path().string(), "size=3m");
  if (!disk.mounted) GTEST_SKIP() << "no tmpfs here, or no right to mount one";
  CreateEmpty(folder / "c.live");
  ServerProgram server(folder / "c.live", {});
  client::Client client = Connected(server.address());
  std::uint64_t next = 0, there = 0;
  const auto more = [&] {
    std::vector<std::uint64_t> labels(100);
    for (std::uint64_t& label : labels) label = next++;
    return Put(client, "sample", labels);
  };
  absl::StatusOr<client::Written> put;
  for (put = more(); put.ok() && next < 100'000; put = more()) there += put->rows;
  EXPECT_TRUE(absl::IsResourceExhausted(put.status())) << put.status();
  EXPECT_THAT(std::string(put.status().message()),
              AllOf(HasSubstr("COLLECTION_FULL"), HasSubstr("free space on the disk"),
                    HasSubstr("retry after")));
  EXPECT_THAT(Nearest(client, "sample", 7), ElementsAre(7));
  EXPECT_EQ(client.Describe("sample")->n, there) << "nothing of the write that failed";
  // The merge lacks the space, too, and says so from then on.
  EXPECT_FALSE(client.Compact("sample", {.deadline = 20s}).ok());
  put = more();
  EXPECT_THAT(std::string(put.status().message()), HasSubstr("retry after")) << put.status();
  client::WriteStream stream = client.OpenWrites("sample", {.deadline = 60s});
  const std::vector<std::uint64_t> streamed = {1'000'000};
  const std::vector<std::byte> row(kRowBytes);
  ASSERT_TRUE(stream.Put(1, {.labels = streamed}, client::Vectors::Raw(row)).ok());
  std::this_thread::sleep_for(2s);  // it would have failed at once
  ASSERT_TRUE(disk.Resize("size=30m"));
  const auto written = stream.Receive();
  ASSERT_TRUE(written.ok() && written->has_value()) << written.status();
  EXPECT_TRUE((*written)->written.ok()) << (*written)->written.status();
  put = more();
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_EQ(client.Describe("sample")->n, there + 101);
}

/// A file system of its own, whose writes can be made to wait.
class FrozenDisk {
 public:
  FrozenDisk(const std::string& image, std::string path) : path_(std::move(path)) {
    std::filesystem::create_directory(path_);
    WriteFile(image, "");
    std::filesystem::resize_file(image, 32 << 20);
    mounted = RunProgram({"/sbin/mkfs.ext4", "-q", image}).exit_code == 0 &&
              RunProgram({"/bin/mount", "-o", "loop", image, path_}).exit_code == 0;
    folder_ = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  }
  ~FrozenDisk() {
    Thaw();
    close(folder_);
    if (mounted) umount2(path_.c_str(), MNT_DETACH);
  }
  FrozenDisk(const FrozenDisk&) = delete;
  FrozenDisk& operator=(const FrozenDisk&) = delete;

  /// For half a minute at most, also if this process is killed: what writes there cannot
  /// be ended meanwhile.
  bool Freeze() {
    thaws_ = std::make_unique<Program>(std::vector<std::string>{
        "/bin/sh", "-c", absl::StrCat("sleep 30; exec /sbin/fsfreeze -u ", path_)});
    return ioctl(folder_, FIFREEZE, 0) == 0;
  }
  bool Thaw() const { return ioctl(folder_, FITHAW, 0) == 0; }
  bool mounted = false;

 private:
  const std::string path_;
  int folder_ = -1;
  std::unique_ptr<Program> thaws_;
};

TEST(ServedDisk, OneThatHangsHoldsUpItsOwnCollection) {
  const TestFolder folder("hung_collection");
  FrozenDisk disk(folder / "image", folder / "disk");
  if (!disk.mounted) GTEST_SKIP() << "no loop device here, or no right to mount one";
  CreateEmpty(folder / "disk/c.live");
  CreateEmpty(folder / "other.live");
  ServerProgram server(folder / "disk/c.live",
                       {"--index", absl::StrCat("other=", folder / "other.live")});
  client::Client client = Connected(server.address());
  ASSERT_TRUE(client.WaitReady("other", {.deadline = 20s}).ok());
  ASSERT_TRUE(Put(client, "sample", {1, 2}).ok());
  ASSERT_TRUE(disk.Freeze());
  std::vector<std::thread> writers;  // more than threads that write to a collection
  for (std::uint64_t label = 100; label < 140; ++label) {
    writers.emplace_back([&, label] {
      const auto put = Put(client, "sample", {label}, {.deadline = 500ms});
      EXPECT_TRUE(absl::IsDeadlineExceeded(put.status())) << put.status();
    });
  }
  for (std::thread& writer : writers) writer.join();
  for (std::uint64_t label = 0; label < 20; ++label) {
    EXPECT_TRUE(Put(client, "other", {label}).ok());
    EXPECT_THAT(Nearest(client, "other", label), ElementsAre(label));
  }
  EXPECT_THAT(Nearest(client, "sample", 2), ElementsAre(2)) << "searches need no disk here";
  ASSERT_TRUE(disk.Thaw());
  EXPECT_TRUE(Put(client, "sample", {3}).ok());
  EXPECT_THAT(Nearest(client, "sample", 3), ElementsAre(3));
}

}  // namespace
}  // namespace hmann
