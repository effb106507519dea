#include "index/construct/jobs/artefacts.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "index/base/status_macros.h"

namespace hmann {

absl::StatusOr<ArtefactWriter> ArtefactWriter::ToFile(const std::string& path) {
  ArtefactWriter writer;
  HMANN_ASSIGN_OR_RETURN(writer.file_, AtomicFile::Create(path));
  XXH3_64bits_reset(&writer.checksum_);
  return writer;
}

ArtefactWriter ArtefactWriter::ToMemory(ArtefactsInMemory& artefacts, std::string name) {
  ArtefactWriter writer;
  writer.artefacts_ = &artefacts;
  writer.name_ = std::move(name);
  writer.memory_ = std::make_shared<Buffer>();
  return writer;
}

absl::Status ArtefactWriter::Expect(std::uint64_t bytes) {
  if (artefacts_ == nullptr || bytes <= memory_->size()) return absl::OkStatus();
  return memory_->Resize(bytes);
}

absl::Status ArtefactWriter::Append(const void* data, std::size_t bytes) {
  if (artefacts_ == nullptr) {
    XXH3_64bits_update(&checksum_, data, bytes);
    bytes_ += bytes;
    return file_.Append(data, bytes);
  }
  if (bytes == 0) return absl::OkStatus();
  // Pages that nothing was written to take no memory.
  if (bytes_ + bytes > memory_->size())
    HMANN_RETURN_IF_ERROR(memory_->Resize(std::max(bytes_ + bytes, 2 * memory_->size())));
  std::memcpy(memory_->data() + bytes_, data, bytes);
  bytes_ += bytes;
  return absl::OkStatus();
}

absl::Status ArtefactWriter::Commit() {
  if (artefacts_ != nullptr) {
    HMANN_RETURN_IF_ERROR(memory_->Resize(bytes_));
    (*artefacts_)[name_] = std::move(memory_);
    return absl::OkStatus();
  }
  ArtefactFooter footer;
  footer.bytes = bytes_;
  footer.checksum = XXH3_64bits_digest(&checksum_);
  footer.own = footer.Own();
  HMANN_RETURN_IF_ERROR(file_.Append(&footer, sizeof(footer)));
  return file_.Commit();
}

absl::Status Artefacts::Write(const std::string& name, std::string_view bytes) const {
  HMANN_ASSIGN_OR_RETURN(ArtefactWriter writer, Create(name));
  HMANN_RETURN_IF_ERROR(writer.Append(bytes.data(), bytes.size()));
  return writer.Commit();
}

absl::StatusOr<Buffer> MemoryArtefacts::Map(const std::vector<std::string>& names) const {
  const auto found = names.size() == 1 ? artefacts_.find(names[0]) : artefacts_.end();
  if (found == artefacts_.end()) return NotFound(names.empty() ? "" : names[0], ": not made");
  return Buffer::Of(found->second);
}

void MemoryArtefacts::RemoveAll(std::string_view prefix) const {
  std::erase_if(artefacts_,
                [&](const auto& artefact) { return artefact.first.starts_with(prefix); });
}

}  // namespace hmann
