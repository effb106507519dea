#include "datasets/toolbox/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <sys/stat.h>

#include <cerrno>
#include <memory>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "index/base/errors.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann {
namespace {

constexpr std::size_t kReadBytes = 1_MiB;

using Reader = std::unique_ptr<archive, decltype(&archive_read_free)>;

absl::Status Damaged(const std::string& path, archive* reader) {
  const char* detail = archive_error_string(reader);
  return DataLoss(path, ": damaged archive: ", detail == nullptr ? "unknown" : detail);
}

/// Returns true if `name` is relative and every part of it is a plain name.
bool StaysInside(std::string_view name) {
  if (name.empty() || name.front() == '/') return false;
  while (!name.empty()) {
    const std::size_t slash = name.find('/');
    if (name.substr(0, slash) == "..") return false;
    name = slash == std::string_view::npos ? std::string_view() : name.substr(slash + 1);
  }
  return true;
}

/// Makes the folders above folder/name and refuses to pass through a symbolic link.
absl::Status MakeFoldersAbove(const std::string& folder, const std::string& name) {
  for (std::size_t slash = name.find('/'); slash != std::string::npos;
       slash = name.find('/', slash + 1)) {
    const std::string path = absl::StrCat(folder, "/", name.substr(0, slash));
    if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST)
      return ErrnoError(errno, "mkdir", path);
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) return ErrnoError(errno, "stat", path);
    if (!S_ISDIR(status.st_mode))
      return InvalidArgument(path, ": not a folder, the archive needs one there");
  }
  return absl::OkStatus();
}

absl::Status UnpackFile(archive* reader, const std::string& path, const std::string& to,
                        std::uint64_t* left, Progress& progress) {
  HMANN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(to));
  std::string block(kReadBytes, '\0');
  for (;;) {
    const la_ssize_t bytes = archive_read_data(reader, block.data(), block.size());
    if (bytes == 0) return file.Commit();
    if (bytes < 0) return Damaged(path, reader);
    if (static_cast<std::uint64_t>(bytes) > *left)
      return InvalidArgument(path, ": unpacks to more than expected");
    *left -= static_cast<std::uint64_t>(bytes);
    HMANN_RETURN_IF_ERROR(file.Append(block.data(), static_cast<std::size_t>(bytes)));
    progress.Advance(static_cast<std::uint64_t>(bytes));
  }
}

}  // namespace

absl::StatusOr<std::vector<std::string>> UnpackArchive(const std::string& path,
                                                       const std::string& folder,
                                                       std::uint64_t most_bytes,
                                                       Progress& progress) {
  HMANN_RETURN_IF_ERROR(MappedFile::Open(path).status());
  const Reader reader(archive_read_new(), archive_read_free);
  archive_read_support_filter_all(reader.get());
  archive_read_support_format_all(reader.get());
  if (archive_read_open_filename(reader.get(), path.c_str(), kReadBytes) != ARCHIVE_OK)
    return Damaged(path, reader.get());
  std::vector<std::string> unpacked;
  std::uint64_t left = most_bytes;
  progress.Start(absl::StrCat("unpack ", path.substr(path.rfind('/') + 1)), 0, "B");
  for (;;) {
    archive_entry* entry = nullptr;
    const int result = archive_read_next_header(reader.get(), &entry);
    if (result == ARCHIVE_EOF) break;
    if (result != ARCHIVE_OK) return Damaged(path, reader.get());
    const char* raw_name = archive_entry_pathname(entry);
    std::string name = raw_name == nullptr ? "" : raw_name;
    if (name.starts_with("./")) name.erase(0, 2);
    const auto kind = archive_entry_filetype(entry);
    if (kind == AE_IFDIR) continue;
    if (!StaysInside(name))
      return InvalidArgument(path, ": entry \"", name, "\" leads out of the folder");
    if (kind != AE_IFREG || archive_entry_hardlink(entry) != nullptr) {
      return InvalidArgument(path, ": entry \"", name, "\" is not a regular file");
    }
    HMANN_RETURN_IF_ERROR(MakeFoldersAbove(folder, name));
    HMANN_RETURN_IF_ERROR(
        UnpackFile(reader.get(), path, absl::StrCat(folder, "/", name), &left, progress));
    unpacked.push_back(name);
  }
  progress.Finish();
  return unpacked;
}

}  // namespace hmann
