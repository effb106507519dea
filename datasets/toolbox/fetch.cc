#include "datasets/toolbox/fetch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "datasets/ground_truth.h"
#include "datasets/hdf5_file.h"
#include "datasets/toolbox/archive.h"
#include "datasets/toolbox/download.h"
#include "datasets/toolbox/manifest.h"
#include "index/base/errors.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

bool Exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

/// `url` with scheme and host replaced.
std::string AddressOf(const std::string& url, const std::string& base_url) {
  if (base_url.empty()) return url;
  const std::size_t path = url.find('/', url.find("://") + 3);
  return absl::StrCat(base_url.ends_with('/') ? base_url.substr(0, base_url.size() - 1) : base_url,
                      url.substr(path));
}

/// Compares the header of a downloaded vector file with the catalog, then rewrites its
/// number of vectors.
absl::Status RewriteHeader(const RemoteFile& file, const std::string& path) {
  std::uint32_t header[2] = {0, 0};
  HMANN_ASSIGN_OR_RETURN(const FileDescriptor its, FileDescriptor::Open(path, O_RDWR));
  const auto rows = static_cast<std::uint32_t>(file.rows);
  if (::pread(its.fd(), header, sizeof(header), 0) != sizeof(header))
    return DataLoss(path, ": a header of 8 bytes expected");
  if ((header[0] != file.n && header[0] != rows) || header[1] != file.dim) {
    return InvalidArgument(path, ": offset 0: n = ", header[0], ", dim = ", header[1],
                           " found, n = ", file.n, ", dim = ", file.dim, " expected from ",
                           file.url);
  }
  if (header[0] != rows &&
      (::pwrite(its.fd(), &rows, sizeof(rows), 0) != sizeof(rows) || ::fsync(its.fd()) != 0))
    return ErrnoError(errno, "write", path);
  return absl::OkStatus();
}

absl::Status CheckTruthHeader(const RemoteFile& file, const std::string& path) {
  HMANN_ASSIGN_OR_RETURN(const GroundTruth truth, ReadGroundTruth(path));
  if (truth.n == file.n && truth.k == file.dim) return absl::OkStatus();
  return InvalidArgument(path, ": ", truth.n, " queries with ", truth.k, " neighbors found, ",
                         file.n, " with ", file.dim, " expected");
}

absl::Status CheckHdf5(const RemoteFile& file, const std::string& path) {
  const auto vectors = ReadHdf5Vectors(path, "train", 1);
  if (absl::IsUnimplemented(vectors.status()))
    return absl::OkStatus();  // built without HDF5: the file can still be fetched
  HMANN_RETURN_IF_ERROR(vectors.status());
  if (vectors->layout.dim == file.dim) return absl::OkStatus();
  return InvalidArgument(path, ": dimension ", vectors->layout.dim, " found, ", file.dim,
                         " expected");
}

class Fetcher {
 public:
  Fetcher(const Selection& selection, const FetchOptions& options, std::string folder,
          Progress& progress)
      : selection_(selection), options_(options), folder_(std::move(folder)), progress_(progress) {}

  absl::StatusOr<std::vector<FetchedFile>> Run() {
    HMANN_RETURN_IF_ERROR(MakeFolders(folder_));
    HMANN_ASSIGN_OR_RETURN(manifest_, DataManifest::Read(folder_));
    for (const RemoteFile& file : selection_.files) {
      HMANN_RETURN_IF_ERROR(file.content == Content::kArchive ? BringArchive(file)
                                                              : BringFile(file));
    }
    return std::move(fetched_);
  }

 private:
  std::string PathOf(const std::string& name) const { return absl::StrCat(folder_, "/", name); }

  absl::Status DownloadTo(const RemoteFile& file, const std::string& part) {
    return Download({.url = AddressOf(file.url, options_.base_url),
                     .path = part,
                     .total_bytes = file.total_bytes,
                     .wanted_bytes = file.wanted_bytes == file.total_bytes ? 0 : file.wanted_bytes,
                     .attempts = options_.attempts,
                     .pause_ms = options_.pause_ms},
                    progress_);
  }

  absl::Status BringFile(const RemoteFile& file) {
    HMANN_ASSIGN_OR_RETURN(const std::string path, FileToWrite(PathOf(file.name)));
    HMANN_ASSIGN_OR_RETURN(const std::string part, FileToWrite(path + ".part"));
    if (Exists(path)) {
      HMANN_RETURN_IF_ERROR(manifest_.CheckOrPin(path, file.name, file.url, progress_));
      fetched_.push_back({path, file.content, true});
      return absl::OkStatus();
    }
    HMANN_RETURN_IF_ERROR(DownloadTo(file, part));
    if (const absl::Status status = CheckContent(file, part); !status.ok()) {
      RemovePart(part);  // complete and wrong: the next call starts anew
      return status;
    }
    if (std::rename(part.c_str(), path.c_str()) != 0) return ErrnoError(errno, "rename", part);
    RemovePart(part);
    fetched_.push_back({path, file.content, false});
    return absl::OkStatus();
  }

  absl::Status CheckContent(const RemoteFile& file, const std::string& part) {
    if (file.content == Content::kVectors) HMANN_RETURN_IF_ERROR(RewriteHeader(file, part));
    if (file.content == Content::kGroundTruth) HMANN_RETURN_IF_ERROR(CheckTruthHeader(file, part));
    if (file.content == Content::kHdf5) HMANN_RETURN_IF_ERROR(CheckHdf5(file, part));
    return manifest_.CheckOrPin(part, file.name, file.url, progress_);
  }

  static void RemovePart(const std::string& part) {
    ::unlink((part + ".from").c_str());
    ::unlink(part.c_str());
  }

  bool AllMembersThere() const {
    for (const Member& member : selection_.members) {
      if (!Exists(PathOf(member.path)) || manifest_.Find(member.path) == nullptr) return false;
    }
    return true;
  }

  absl::Status BringArchive(const RemoteFile& file) {
    const bool was_there = AllMembersThere();
    if (!was_there) {
      HMANN_ASSIGN_OR_RETURN(const std::string part, FileToWrite(PathOf(file.name) + ".part"));
      HMANN_RETURN_IF_ERROR(DownloadTo(file, part));
      if (const absl::Status status = manifest_.CheckOrPin(part, file.name, file.url, progress_);
          !status.ok()) {
        RemovePart(part);
        return status;
      }
      // An archive holds other files, too (a learning set, a note). Allow as much again,
      // and no more.
      std::uint64_t most_bytes = 1 << 20;
      for (const Member& member : selection_.members) most_bytes += 2 * member.bytes;
      HMANN_RETURN_IF_ERROR(UnpackArchive(part, folder_, most_bytes, progress_).status());
      for (const Member& member : selection_.members) HMANN_RETURN_IF_ERROR(CheckSize(member));
      RemovePart(part);
    }
    for (const Member& member : selection_.members) {
      HMANN_RETURN_IF_ERROR(
          manifest_.CheckOrPin(PathOf(member.path), member.path, file.url, progress_));
      fetched_.push_back(
          {PathOf(member.path),
           member.path.ends_with(".ivecs") ? Content::kGroundTruth : Content::kVectors, was_there});
    }
    return absl::OkStatus();
  }

  absl::Status CheckSize(const Member& member) const {
    HMANN_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(PathOf(member.path)));
    if (file.bytes().size() == member.bytes) return absl::OkStatus();
    return InvalidArgument(PathOf(member.path), ": ", file.bytes().size(), " bytes found, ",
                           member.bytes, " expected");
  }

  const Selection& selection_;
  const FetchOptions& options_;
  const std::string folder_;
  Progress& progress_;
  DataManifest manifest_;
  std::vector<FetchedFile> fetched_;
};

}  // namespace

absl::StatusOr<std::vector<FetchedFile>> Fetch(const Selection& selection,
                                               const FetchOptions& options, Progress& progress) {
  const std::string folder =
      options.folder.empty() ? absl::StrCat("data/", selection.folder) : options.folder;
  return Fetcher(selection, options, folder, progress).Run();
}

}  // namespace hmann
