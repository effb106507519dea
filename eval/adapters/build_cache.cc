#include "eval/adapters/build_cache.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "index/base/checksum.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann::eval {
namespace {

namespace fs = std::filesystem;

/// A hash of 64 rows spread over the file. It identifies the data without reading all of
/// it.
std::uint64_t RowsHash(const VectorFile& base) {
  std::uint64_t hash = 0;
  for (std::uint64_t i = 0; i < 64; ++i)
    hash = hash * 31 + Checksum(base.Row(i * (base.n() - 1) / 63), base.row_bytes());
  return hash;
}

std::uint64_t ExecutableHash() {
  const absl::StatusOr<MappedFile> self = MappedFile::Open("/proc/self/exe");
  return self.ok() ? Checksum(self->bytes().data(), self->bytes().size()) : 0;
}

std::string FiguresPath(const std::string& index_path) { return absl::StrCat(index_path, ".json"); }

}  // namespace

std::string FileName(const std::string& name) {
  std::string file = name;
  std::replace_if(
      file.begin(), file.end(),
      [](unsigned char c) { return !absl::ascii_isalnum(c) && c != '-' && c != '.'; }, '_');
  return file;
}

std::string FileKey(const std::string& path) {
  std::error_code ignored;
  const std::string file = fs::exists(path, ignored) ? path : path.substr(0, path.rfind(':'));
  return absl::StrCat(fs::absolute(file, ignored).string(), "|", fs::file_size(file, ignored), "|",
                      fs::last_write_time(file, ignored).time_since_epoch().count(), "|");
}

absl::StatusOr<std::string> KeptIndexPath(const AdapterInput& job, const VectorFile& base,
                                          const std::string& library) {
  if (job.work.empty())
    return InvalidArgument("--work: expected a folder for the index, found nothing");
  HMANN_RETURN_IF_ERROR(MakeFolders(job.work));
  const std::string key =
      absl::StrCat(library, "|", FileKey(job.base), base.n(), "|", base.dim(), "|", RowsHash(base),
                   "|", std::string(Name(job.metric)), "|", job.m, "|", job.ef_construction, "|",
                   job.threads, "|", JsonText(job.build), "|", ExecutableHash());
  return absl::StrFormat("%s/%s-%016x.index", job.work, FileName(library),
                         Checksum(key.data(), key.size()));
}

std::optional<BuildFigures> KeptFigures(const std::string& index_path) {
  std::error_code ignored;
  const absl::StatusOr<std::string> text = ReadTextFile(FiguresPath(index_path), 1_MiB);
  if (!text.ok() || !fs::exists(index_path, ignored)) return std::nullopt;
  BuildFigures figures = BuildFigures::parse(*text, nullptr, false);
  return figures.is_object() ? std::optional(std::move(figures)) : std::nullopt;
}

absl::Status KeepIndex(const std::string& index_path,
                       const std::function<absl::Status(const std::string& path)>& save,
                       const BuildFigures& figures) {
  HMANN_ASSIGN_OR_RETURN(const std::string file, FileToWrite(index_path));
  const std::string temporary = UniqueName(file + ".tmp");
  std::error_code ignored;
  if (absl::Status status = save(temporary); !status.ok()) {
    fs::remove(temporary, ignored);
    return status;
  }
  if (fs::exists(temporary, ignored) && std::rename(temporary.c_str(), file.c_str()) != 0)
    return ErrnoError(errno, "rename", file);
  return WriteTextFile(FiguresPath(index_path), JsonText(figures, 2) + "\n");
}

}  // namespace hmann::eval
