#include "index/construct/jobs/work_folder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "index/base/json_reader.h"
#include "index/base/parse_json.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;

constexpr int kVersion = 5;
constexpr char kFormat[] = "hmann work folder";
constexpr char kManifest[] = "manifest.json", kLock[] = "lock", kSuffix[] = ".part";
/// Reads the footer of a file that is whole, to judge by its size.
std::optional<ArtifactFooter> ReadFooter(const std::string& path) {
  const auto file = FileDescriptor::Open(path, O_RDONLY | O_NONBLOCK);
  if (!file.ok()) return std::nullopt;
  ArtifactFooter footer;
  const off_t size = ::lseek(file->fd(), 0, SEEK_END);
  const bool read = size >= static_cast<off_t>(sizeof(footer)) &&
                    ::pread(file->fd(), &footer, sizeof(footer),
                            size - static_cast<off_t>(sizeof(footer))) == sizeof(footer);
  const bool whole = read && footer.magic == ArtifactFooter::kMagic && footer.own == footer.Own() &&
                     footer.bytes + sizeof(footer) == static_cast<std::uint64_t>(size);
  return whole ? std::optional(footer) : std::nullopt;
}

absl::Status Damaged(const std::string& path) {
  return Unavailable(
      path,
      ": an artifact of the build is missing, short or damaged; the same command makes it "
      "again");
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkFolder>> WorkFolder::Open(const std::string& path,
                                                             const std::string& identity) {
  std::error_code error;
  HMANN_RETURN_IF_ERROR(MakeFolders(path));
  std::unique_ptr<WorkFolder> folder(new WorkFolder(path));
  HMANN_RETURN_IF_ERROR(folder->Lock());
  const std::string manifest = absl::StrCat(path, "/", kManifest);
  if (!fs::exists(manifest, error)) {
    const nlohmann::ordered_json begun = {{"format", kFormat},
                                          {"version", kVersion},
                                          {"of", nlohmann::ordered_json::parse(identity)}};
    HMANN_RETURN_IF_ERROR(WriteTextFile(manifest, JsonText(begun, 2) + "\n"));
  }
  HMANN_RETURN_IF_ERROR(folder->CheckIdentity(identity));
  folder->CheckArtifacts();
  return folder;
}

absl::Status WorkFolder::Lock() {
  const std::string path = absl::StrCat(path_, "/", kLock);
  // Detects foreign files before the first of ours is made.
  std::error_code error;
  const bool ours = fs::exists(absl::StrCat(path_, "/", kManifest), error) ||
                    fs::exists(path, error) || fs::is_empty(path_, error);
  if (!ours) {
    return FailedPrecondition(
        path_, ": the work folder holds other files: give an empty one, or one that is not there");
  }
  absl::StatusOr<FileLock> lock = FileLock::Take(path);
  if (lock.ok()) {
    lock_ = *std::move(lock);
    return absl::OkStatus();
  }
  if (!absl::IsUnavailable(lock.status())) return lock.status();
  return Unavailable(path_, ": another build is at work in this folder: try again later");
}

absl::StatusOr<std::string> WorkFolder::IdentityOf(const std::string& path) {
  const std::string manifest = absl::StrCat(path, "/", kManifest);
  if (std::error_code error; !fs::exists(manifest, error)) {
    return NotFound(path,
                    ": no build is under way in this work folder: it has not begun, or it has "
                    "finished and removed its files (--keep-work keeps them)");
  }
  HMANN_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(manifest, 1 << 20));
  const auto found = ParseJson<nlohmann::ordered_json>(text);
  const auto at = [&](const char* key) {
    return found.is_object() && found.contains(key) ? found[key] : nlohmann::ordered_json();
  };
  if (at("format") == kFormat && at("version") != kVersion) {
    return FailedPrecondition(path,
                              ": the work folder is of another version: ", JsonText(at("version")),
                              ", and this program's is ", kVersion, "; remove the folder");
  }
  if (at("format") != kFormat || !at("of").is_object())
    return FailedPrecondition(manifest, ": not the manifest of a work folder; remove the folder");
  return JsonText(at("of"));
}

absl::StatusOr<std::unique_ptr<WorkFolder>> WorkFolder::Join(const std::string& path,
                                                             const std::string& identity) {
  std::unique_ptr<WorkFolder> folder(new WorkFolder(path));
  HMANN_RETURN_IF_ERROR(folder->CheckIdentity(identity));
  return folder;
}

absl::Status WorkFolder::CheckIdentity(const std::string& identity) const {
  HMANN_ASSIGN_OR_RETURN(const std::string text, IdentityOf(path_));
  const auto found = nlohmann::ordered_json::parse(text);
  const auto now = nlohmann::ordered_json::parse(identity);
  for (const auto& [key, value] : now.items()) {
    const auto there = found.value(key, nlohmann::ordered_json());
    if (there == value) continue;
    return FailedPrecondition(path_, ": the work folder was begun with another ", key, ": ",
                              JsonText(there), ", and now ", JsonText(value),
                              "; give another folder, or remove this one");
  }
  return absl::OkStatus();
}

void WorkFolder::CheckArtifacts() {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(kSuffix) && !IsTemporaryName(name)) continue;
    goes_on_ = true;
    bool whole = false;
    if (const std::optional<ArtifactFooter> footer = ReadFooter(entry.path().string());
        footer.has_value() && !IsTemporaryName(name)) {
      const absl::StatusOr<MappedFile> file = MappedFile::Open(entry.path().string());
      if (file.ok()) {
        file->Advise(MappedFile::Access::kSequential, 0, file->bytes().size());
        whole = Checksum(file->bytes().data(), footer->bytes) == footer->checksum;
      }
    }
    if (whole) continue;
    // A temporary name is no damage: a process writes it, or ended while writing.
    if (IsTemporaryName(name)) {
      RemoveIfDead(entry.path().string());
      continue;
    }
    damaged_.emplace_back(absl::StripSuffix(name, kSuffix));
    fs::remove(entry.path(), error);
  }
}

std::string WorkFolder::PathOf(const std::string& name) const {
  return absl::StrCat(path_, "/", name, kSuffix);
}

bool WorkFolder::Has(const std::string& name) const { return ReadFooter(PathOf(name)).has_value(); }

absl::StatusOr<ArtifactWriter> WorkFolder::Create(const std::string& name) const {
  return ArtifactWriter::ToFile(PathOf(name));
}

absl::StatusOr<Buffer> WorkFolder::Map(const std::vector<std::string>& names) const {
  std::vector<std::uint64_t> sizes;
  std::uint64_t total = 0;
  for (const std::string& name : names) {
    const std::optional<ArtifactFooter> footer = ReadFooter(PathOf(name));
    if (!footer.has_value() || total % 4096 != 0) return Damaged(PathOf(name));
    sizes.push_back(footer->bytes);
    total += footer->bytes;
  }
  HMANN_ASSIGN_OR_RETURN(Buffer room, Buffer::Reserve(total));
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < names.size(); at += sizes[i++]) {
    if (sizes[i] == 0) continue;
    const std::string path = PathOf(names[i]);
    HMANN_ASSIGN_OR_RETURN(const FileDescriptor file, FileDescriptor::Open(path, O_RDONLY));
    void* const mapped = ::mmap(room.data() + at, sizes[i], PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file.fd(), 0);
    if (mapped == MAP_FAILED) return ErrnoError(errno, "map", path);
  }
  return room;
}

absl::StatusOr<Buffer> WorkFolder::Scratch(std::size_t bytes) const {
  if (bytes == 0) return Buffer();
  HMANN_ASSIGN_OR_RETURN(Buffer room, Buffer::Reserve(bytes));
  const std::string path = UniqueName(absl::StrCat(path_, "/scratch.tmp"));
  HMANN_ASSIGN_OR_RETURN(const FileDescriptor file,
                         FileDescriptor::Open(path, O_RDWR | O_CREAT | O_EXCL, 0600));
  ::unlink(path.c_str());
  // A page of a file that has no block yet could not be written on a full disk.
  if (const int error = ::posix_fallocate(file.fd(), 0, static_cast<off_t>(bytes)); error != 0)
    return ErrnoError(error, "reserve", path);
  void* const mapped =
      ::mmap(room.data(), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file.fd(), 0);
  if (mapped == MAP_FAILED) return ErrnoError(errno, "map", path);
  room.AdviseRandom(true);
  scratch_bytes_ += bytes;
  return Buffer::Of(std::shared_ptr<Buffer>(new Buffer(std::move(room)), [this](Buffer* gone) {
    MostBytes();
    scratch_bytes_ -= gone->size();
    delete gone;
  }));
}

void WorkFolder::RemoveAll(std::string_view prefix) const {
  MostBytes();
  std::error_code error;
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(kSuffix)) paths.push_back(entry.path());
  }
  for (const fs::path& path : paths) fs::remove(path, error);
}

std::uint64_t WorkFolder::BytesOf(const std::string& path) {
  std::error_code error;
  std::uint64_t bytes = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    const std::uint64_t size = entry.file_size(error);
    if (!error) bytes += size;
  }
  return bytes;
}

std::uint64_t WorkFolder::MostBytes() const {
  return most_bytes_ = std::max(most_bytes_, Bytes() + scratch_bytes_);
}

void WorkFolder::Remove(const std::string& path) {
  std::error_code error;
  WorkFolder(path).RemoveAll("");
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    if (IsTemporaryName(entry.path().filename().string())) RemoveIfDead(entry.path().string());
  }
  fs::remove(absl::StrCat(path, "/", kManifest), error);
  fs::remove(absl::StrCat(path, "/", kLock), error);
  ::rmdir(path.c_str());  // if nothing else is in it, and it is no link
}

}  // namespace hmann
