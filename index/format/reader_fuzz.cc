/// libFuzzer over everything that reads an index file: opening, verifying, and a
/// traversal of every file that passes both. Seeded with the golden file.
///
/// Each input is read unchanged, then with correct checksums (Reseal), so that the checks
/// after the checksums are reached too. Canary: with HMANN_FUZZ_CANARY=1, the target
/// aborts as soon as such a file fails for a link to a missing node. A fuzzer that does
/// not find that within seconds is not fuzzing.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "index/base/check.h"
#include "index/format/reader.h"
#include "index/format/testing/reseal.h"
#include "index/format/verify.h"

namespace hmann {
namespace {

/// A file in memory.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const std::byte> bytes) : fd_(::memfd_create("reader_fuzz", 0)) {
    HMANN_CHECK(fd_ >= 0 &&
                ::write(fd_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

/// Touches what a search would touch: every list, and the record or row behind every
/// link.
std::uint64_t TraverseAll(const IndexFile& file) {
  const RecordLayout& records = file.records();
  std::uint64_t sum = 0;
  std::vector<NodeId> links(records.max_links);
  for (NodeId id = 0; id < file.layers().n(); ++id) {
    const std::byte* record = file.l0().data() + records.Offset(id);
    records.UnpackPadded(record + records.LinksOffset(id), links.data());
    for (const NodeId link : links) {
      if (link == kNoNode) break;
      const std::byte* row = link < file.layers().n1()
                                 ? file.fast_rows().data() + link * file.fast_row_stride()
                                 : file.l0().data() + records.Offset(link);
      sum += std::to_integer<std::uint64_t>(row[0]) +
             std::to_integer<std::uint64_t>(row[records.row_bytes - 1]);
    }
  }
  return sum;
}

void Read(std::span<const std::byte> bytes) {
  const MemoryFile memory(bytes);
  const auto file = IndexFile::Open(memory.path());
  if (!file.ok()) return;
  for (const Section& section : file->sections()) {
    const auto content = file->Bytes(section);
    HMANN_CHECK(content.data() >= file->file().bytes().data() &&
                content.data() + content.size() <= file->file().bytes().data() + bytes.size());
  }
  Progress silent(Progress::Show::kNever);
  const absl::Status status = VerifyIndex(memory.path(), silent);
  static const bool canary = std::getenv("HMANN_FUZZ_CANARY") != nullptr;
  HMANN_CHECK(!canary || !absl::StrContains(status.message(), "expected a node of this layer"));
  if (!status.ok()) return;
  volatile std::uint64_t sum = TraverseAll(*file);
  (void)sum;
}

}  // namespace
}  // namespace hmann

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> bytes(size);
  if (size > 0) std::memcpy(bytes.data(), data, size);
  hmann::Read(bytes);
  if (size >= hmann::kBlockBytes) {
    hmann::Reseal(bytes);
    hmann::Read(bytes);
  }
  return 0;
}
