#include "eval/adapters/build_cache.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "index/base/checksum.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;

/// Identifies the data without reading all of it: size, time of the last change, and 64
/// rows spread over the file.
std::string DataKey(const AdapterJob& job, const VectorFile& base) {
  std::error_code ignored;
  const std::string path = job.base.substr(0, job.base.rfind(':'));  // x.hdf5:train
  const std::string file = fs::exists(job.base, ignored) ? job.base : path;
  std::uint64_t hash = 0;
  for (std::uint64_t i = 0; i < 64; ++i)
    hash = hash * 31 + Checksum(base.Row(i * (base.n() - 1) / 63), base.row_bytes());
  return absl::StrCat(fs::absolute(file, ignored).string(), "|", fs::file_size(file, ignored), "|",
                      fs::last_write_time(file, ignored).time_since_epoch().count(), "|", base.n(),
                      "|", base.dim(), "|", hash);
}

std::uint64_t ExecutableHash() {
  const absl::StatusOr<MappedFile> self = MappedFile::Open("/proc/self/exe");
  return self.ok() ? Checksum(self->bytes().data(), self->bytes().size()) : 0;
}

std::string Slug(const std::string& text) {
  std::string slug;
  for (const char c : text) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.')
      slug += c;
    else if (!slug.empty() && slug.back() != '-')
      slug += '-';
  }
  return slug;
}

std::string FiguresPath(const std::string& index_path) { return absl::StrCat(index_path, ".json"); }

}  // namespace

absl::StatusOr<BuildCache> BuildCache::Open(const AdapterJob& job, const VectorFile& base,
                                            const std::string& library) {
  BuildCache cache;
  std::string folder = job.work;
  std::error_code error;
  if (folder.empty()) {
    folder = (fs::temp_directory_path(error) / absl::StrCat("hmann-adapter-", ::getpid())).string();
    cache.temporary_folder_ = folder;
  }
  fs::create_directories(folder, error);
  if (error) return ErrnoError(error.value(), "mkdir", folder);
  const std::string key = absl::StrCat(
      library, "|", DataKey(job, base), "|", std::string(Name(job.metric)), "|", job.m, "|",
      job.ef_construction, "|", job.threads, "|", job.build.dump(), "|", ExecutableHash());
  cache.index_path_ =
      absl::StrFormat("%s/%s-%016x.index", folder, Slug(library), Checksum(key.data(), key.size()));
  return cache;
}

BuildCache::BuildCache(BuildCache&& other) noexcept
    : index_path_(std::move(other.index_path_)),
      temporary_folder_(std::exchange(other.temporary_folder_, std::string())) {}

BuildCache::~BuildCache() {
  std::error_code ignored;
  if (!temporary_folder_.empty()) fs::remove_all(temporary_folder_, ignored);
}

std::optional<BuildFigures> BuildCache::Find() const {
  std::error_code ignored;
  if (!fs::exists(index_path_, ignored)) return std::nullopt;
  const absl::StatusOr<std::string> text = ReadTextFile(FiguresPath(index_path_), 1_MiB);
  if (!text.ok()) return std::nullopt;
  const auto json = nlohmann::ordered_json::parse(*text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  BuildFigures figures;
  for (const auto& [key, value] : json.items()) {
    if (key == "phases" && value.is_object()) {
      for (const auto& [phase, seconds] : value.items()) {
        if (seconds.is_number()) figures.phases.emplace_back(phase, seconds.get<double>());
      }
    } else if (value.is_number()) {
      if (key == "build_seconds") figures.seconds = value.get<double>();
      if (key == "build_cpu_seconds") figures.cpu_seconds = value.get<double>();
      if (key == "index_bytes") figures.index_bytes = value.get<std::uint64_t>();
    }
  }
  return figures.seconds > 0 ? std::optional(figures) : std::nullopt;
}

absl::Status BuildCache::Keep(const std::function<absl::Status(const std::string& path)>& save,
                              const BuildFigures& figures) const {
  const std::string temporary = absl::StrCat(index_path_, ".tmp.", ::getpid());
  std::error_code ignored;
  if (absl::Status status = save(temporary); !status.ok()) {
    fs::remove(temporary, ignored);
    return status;
  }
  if (fs::exists(temporary, ignored) && std::rename(temporary.c_str(), index_path_.c_str()) != 0) {
    return ErrnoError(errno, "rename", index_path_);
  }
  nlohmann::ordered_json phases = nlohmann::ordered_json::object();
  for (const auto& [name, seconds] : figures.phases) phases[name] = seconds;
  const nlohmann::ordered_json json = {{"build_seconds", figures.seconds},
                                       {"build_cpu_seconds", figures.cpu_seconds},
                                       {"index_bytes", figures.index_bytes},
                                       {"phases", phases}};
  return WriteTextFile(FiguresPath(index_path_), json.dump(2) + "\n");
}

}  // namespace hmann
