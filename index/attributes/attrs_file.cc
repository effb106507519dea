#include "index/attributes/attrs_file.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "index/base/checksum.h"
#include "index/base/errors.h"
#include "index/base/json_reader.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

/// Whether a section is read to memory: numbers stay mapped.
bool InMemory(AttributeType type, int section) { return !IsNumber(type) || section >= 2; }

}  // namespace

std::uint64_t AttrsHeader::Checksum() const {
  return hmann::Checksum(this, sizeof(AttrsHeader) - sizeof(checksum));
}

absl::Status AttrsFile::Damaged(absl::string_view what) const {
  return DataLoss(path(), ": ", what, ": make the attributes again with hmann attrs");
}

absl::StatusOr<AttrsHeader> AttrsFile::ReadHeader(std::uint64_t n,
                                                  std::uint64_t content_hash) const {
  const std::span<const std::byte> bytes = file_.bytes();
  AttrsHeader header;
  if (bytes.size() < sizeof(header)) return Damaged("shorter than its header");
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != AttrsHeader::kMagic)
    return InvalidArgument(path(), ": not a file of attributes of hmann");
  if (header.version != AttrsHeader::kVersion) {
    return absl::UnimplementedError(
        absl::StrCat(path(), ": version ", header.version, " of the format, this program reads ",
                     AttrsHeader::kVersion, ": make the attributes again with hmann attrs"));
  }
  if (header.checksum != header.Checksum()) return Damaged("the header is damaged");
  const AttrsSection& directory = header.directory;
  if (directory.offset > bytes.size() || directory.bytes != bytes.size() - directory.offset)
    return Damaged(absl::StrCat("cut short: ", bytes.size(), " bytes"));
  if (Checksum(bytes.data() + directory.offset, directory.bytes) != directory.checksum)
    return Damaged("the directory is damaged");
  if (header.n != n || header.content_hash != content_hash) {
    return FailedPrecondition(path(), ": attributes of another index (of ", header.n,
                              " vectors): make them for this one with hmann attrs");
  }
  if (header.fields > AttrsHeader::kMostFields)
    return Damaged(absl::StrCat(header.fields, " fields"));
  return header;
}

absl::StatusOr<AttrsFile> AttrsFile::Open(const std::string& path, std::uint64_t n,
                                          std::uint64_t content_hash) {
  AttrsFile file;
  HMANN_ASSIGN_OR_RETURN(file.file_, MappedFile::Open(path));
  HMANN_ASSIGN_OR_RETURN(const AttrsHeader header, file.ReadHeader(n, content_hash));
  file.n_ = n;
  const std::byte* record = file.file_.bytes().data() + header.directory.offset;
  std::uint64_t left = header.directory.bytes;
  for (std::uint32_t i = 0; i < header.fields; ++i) {
    std::uint64_t taken = 0;
    HMANN_RETURN_IF_ERROR(file.ReadField(record, left, &taken));
    record += taken;
    left -= taken;
  }
  if (left != 0) return file.Damaged("the directory holds more than its fields");
  return file;
}

absl::Status AttrsFile::ReadField(const std::byte* record, std::uint64_t bytes,
                                  std::uint64_t* taken) {
  AttrsField field;
  if (bytes < sizeof(field.record)) return Damaged("the directory ends within a field");
  std::memcpy(&field.record, record, sizeof(field.record));
  const std::uint32_t name_bytes = field.record.name_bytes;
  *taken = sizeof(field.record) + RoundUp(name_bytes, 8);
  if (name_bytes == 0 || name_bytes > kMostNameBytes || *taken > bytes)
    return Damaged("the name of a field is damaged");
  std::string& name = field.info.field.name;
  name.assign(reinterpret_cast<const char*>(record) + sizeof(field.record), name_bytes);
  if (Utf8(name) != name) return Damaged("the name of a field is not UTF-8");
  if (!fields_.empty() && name <= fields_.back().info.field.name)
    return Damaged(absl::StrCat(name, ": fields are not in order of their names"));
  if (field.record.type < 1 || field.record.type > 6)
    return Damaged(absl::StrCat(name, ": of type ", field.record.type));
  field.info.field.type = static_cast<AttributeType>(field.record.type);
  field.info.rows = field.record.rows;
  field.info.values = field.record.values;
  HMANN_RETURN_IF_ERROR(CheckShape(field));
  HMANN_RETURN_IF_ERROR(Place(field));
  if (field.info.field.type == AttributeType::kTag) HMANN_RETURN_IF_ERROR(CheckEnds(field, 0));
  HMANN_RETURN_IF_ERROR(CheckEnds(field, 2));
  fields_.push_back(std::move(field));
  return absl::OkStatus();
}

/// Sections lie within the file and have the sizes that the numbers of rows and values
/// give.
absl::Status AttrsFile::CheckShape(const AttrsField& field) const {
  const AttributeType type = field.info.field.type;
  const std::uint64_t values = field.record.values, rows = field.record.rows,
                      size = file_.bytes().size();
  const auto damaged = [&](absl::string_view what) {
    return Damaged(absl::StrCat(field.info.field.name, ": ", what));
  };
  if (rows > n_) return damaged("more rows than vectors");
  if (values > (IsTag(type) ? size : 0)) return damaged("more tags than there can be");
  const std::array<AttrsSection, 4>& sections = field.record.sections;
  for (const AttrsSection& section : sections) {
    if (section.offset % kAttrsAlignment != 0 || section.offset > size ||
        section.bytes > size - section.offset)
      return damaged("a section lies outside the file");
  }
  const std::uint64_t first = IsTag(type) ? values * 8 : IsNumber(type) ? n_ * 8 : 0;
  if (sections[0].bytes != first || sections[2].bytes != BitmapsOf(type, values) * 8 ||
      (IsNumber(type) && sections[1].bytes != rows * 4))
    return damaged("a section has not the size of its values");
  return absl::OkStatus();
}

absl::Status AttrsFile::Place(AttrsField& field) {
  for (int s = 0; s < 4; ++s) {
    const auto i = static_cast<std::size_t>(s);
    const AttrsSection& section = field.record.sections[i];
    const std::span<const std::byte> mapped = file_.bytes().subspan(section.offset, section.bytes);
    if (!InMemory(field.info.field.type, s)) {
      field.data[i] = mapped;
      mapped_bytes_ += section.bytes;
      continue;
    }
    if (section.bytes == 0) continue;
    HMANN_ASSIGN_OR_RETURN(Buffer memory, Buffer::Allocate(section.bytes));
    std::memcpy(memory.data(), mapped.data(), section.bytes);
    if (Checksum(memory.data(), section.bytes) != section.checksum)
      return Damaged(absl::StrCat(field.info.field.name, ": section ", s, " is damaged"));
    field.data[i] = {memory.data(), section.bytes};
    memory_.push_back(std::move(memory));
    memory_bytes_ += section.bytes;
  }
  return absl::OkStatus();
}

/// The ends of pieces ascend and lie within the section of the pieces.
absl::Status AttrsFile::CheckEnds(const AttrsField& field, int ends) const {
  std::uint64_t end = 0;
  const std::uint64_t count = field.data[static_cast<std::size_t>(ends)].size() / 8;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto next = field.At<std::uint64_t>(ends, i);
    if (next < end || next > field.data[static_cast<std::size_t>(ends) + 1].size())
      return Damaged(
          absl::StrCat(field.info.field.name, ": piece ", i, " ends outside its section"));
    end = next;
  }
  return absl::OkStatus();
}

absl::Status AttrsFile::BadBitmap(const AttrsField& field, std::uint64_t i,
                                  absl::string_view fault) const {
  return DataLoss(path(), ": ", field.info.field.name, ": bitmap ", i, ": ", fault);
}

absl::Status AttrsFile::CheckMapped() const {
  for (const AttrsField& field : fields_) {
    for (std::size_t s = 0; s < 4; ++s) {
      if (!field.data[s].empty() &&
          Checksum(field.data[s].data(), field.data[s].size()) != field.record.sections[s].checksum)
        return Damaged(absl::StrCat(field.info.field.name, ": section ", s, " is damaged"));
    }
  }
  return absl::OkStatus();
}

}  // namespace hmann
