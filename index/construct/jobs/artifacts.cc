#include "index/construct/jobs/artifacts.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "index/base/status_macros.h"

namespace hmann {

absl::StatusOr<ArtifactWriter> ArtifactWriter::ToFile(const std::string& path) {
  ArtifactWriter writer;
  HMANN_ASSIGN_OR_RETURN(writer.file_, AtomicFile::Create(path));
  XXH3_64bits_reset(&writer.checksum_);
  return writer;
}

ArtifactWriter ArtifactWriter::ToMemory(ArtifactsInMemory& artifacts, std::string name) {
  ArtifactWriter writer;
  writer.artifacts_ = &artifacts;
  writer.name_ = std::move(name);
  writer.memory_ = std::make_shared<Buffer>();
  return writer;
}

absl::Status ArtifactWriter::Expect(std::uint64_t bytes) {
  if (artifacts_ == nullptr || bytes <= memory_->size()) return absl::OkStatus();
  return memory_->Resize(bytes);
}

absl::Status ArtifactWriter::Append(const void* data, std::size_t bytes) {
  if (artifacts_ == nullptr) {
    XXH3_64bits_update(&checksum_, data, bytes);
    bytes_ += bytes;
    return file_.Append(data, bytes);
  }
  if (bytes == 0) return absl::OkStatus();
  // Untouched pages take no memory.
  if (bytes_ + bytes > memory_->size())
    HMANN_RETURN_IF_ERROR(memory_->Resize(std::max(bytes_ + bytes, 2 * memory_->size())));
  std::memcpy(memory_->data() + bytes_, data, bytes);
  bytes_ += bytes;
  return absl::OkStatus();
}

absl::Status ArtifactWriter::Commit() {
  if (artifacts_ != nullptr) {
    HMANN_RETURN_IF_ERROR(memory_->Resize(bytes_));
    (*artifacts_)[name_] = std::move(memory_);
    return absl::OkStatus();
  }
  ArtifactFooter footer;
  footer.bytes = bytes_;
  footer.checksum = XXH3_64bits_digest(&checksum_);
  footer.own = footer.Own();
  HMANN_RETURN_IF_ERROR(file_.Append(&footer, sizeof(footer)));
  return file_.Commit();
}

absl::Status Artifacts::Write(const std::string& name, std::string_view bytes) const {
  HMANN_ASSIGN_OR_RETURN(ArtifactWriter writer, Create(name));
  HMANN_RETURN_IF_ERROR(writer.Append(bytes.data(), bytes.size()));
  return writer.Commit();
}

absl::StatusOr<Buffer> MemoryArtifacts::Map(const std::vector<std::string>& names) const {
  const auto found = names.size() == 1 ? artifacts_.find(names[0]) : artifacts_.end();
  if (found == artifacts_.end()) return NotFound(names.empty() ? "" : names[0], ": not made");
  return Buffer::Of(found->second);
}

void MemoryArtifacts::RemoveAll(std::string_view prefix) const {
  std::erase_if(artifacts_,
                [&](const auto& artifact) { return artifact.first.starts_with(prefix); });
}

}  // namespace hmann
