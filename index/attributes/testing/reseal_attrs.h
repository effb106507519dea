#pragma once

#include <cstring>
#include <string>

#include "index/attributes/attrs_file.h"
#include "index/base/checksum.h"

namespace hmann {

/// Corrects every checksum of a file of attributes whose sizes hold. A file that is not
/// one stays as it is.
inline void ResealAttrs(std::string& bytes) {
  AttrsHeader header;
  if (bytes.size() < sizeof(header)) return;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const std::uint64_t end = bytes.size();
  std::uint64_t at = header.directory.offset;
  for (std::uint32_t f = 0; f < header.fields && at <= end && end - at >= sizeof(AttrsRecord);
       ++f) {
    AttrsRecord record;
    std::memcpy(&record, bytes.data() + at, sizeof(record));
    for (AttrsSection& section : record.sections) {
      if (section.offset <= end && section.bytes <= end - section.offset)
        section.checksum = Checksum(bytes.data() + section.offset, section.bytes);
    }
    std::memcpy(bytes.data() + at, &record, sizeof(record));
    at += sizeof(record) + (std::uint64_t{record.name_bytes} + 7) / 8 * 8;
  }
  if (header.directory.offset <= end && header.directory.bytes <= end - header.directory.offset) {
    header.directory.checksum =
        Checksum(bytes.data() + header.directory.offset, header.directory.bytes);
  }
  header.checksum = header.Checksum();
  std::memcpy(bytes.data(), &header, sizeof(header));
}

}  // namespace hmann
