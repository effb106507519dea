#include "index/format/section_writer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "index/base/buffer.h"
#include "index/base/status_macros.h"

namespace hmann {

absl::Status SectionWriter::Append(const void* data, std::size_t bytes) {
  if (pending_zeros_ > 0) {
    checksum_.AppendZeros(pending_zeros_);
    HMANN_RETURN_IF_ERROR(WriteZeros(std::exchange(pending_zeros_, 0)));
  }
  checksum_.Append(data, bytes);
  return file_.Append(data, bytes);
}

absl::Status SectionWriter::Finish(std::uint64_t granule) {
  checksum_.AppendZeros(pending_zeros_);
  const std::uint64_t end = file_.size() + std::exchange(pending_zeros_, 0);
  return WriteZeros(RoundUp(end, granule) - file_.size());
}

absl::Status SectionWriter::WriteZeros(std::uint64_t bytes) {
  static constexpr std::array<std::byte, 4096> kZeros{};
  constexpr std::uint64_t kWorthAHole = 64_KiB;
  if (bytes >= kWorthAHole) return file_.ExtendTo(file_.size() + bytes);
  for (std::uint64_t part; bytes > 0; bytes -= part) {
    part = std::min<std::uint64_t>(bytes, kZeros.size());
    HMANN_RETURN_IF_ERROR(file_.Append(kZeros.data(), part));
  }
  return absl::OkStatus();
}

}  // namespace hmann
