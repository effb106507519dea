#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "index/base/checksum.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/collection/delta_graph.h"

namespace hmann {
namespace {

struct Piece {
  std::array<NodeId, DeltaGraph::kPieceRows * TailChunk::kLinks> links;
  std::uint64_t checksum;
};

/// The checksum over the links of the piece and the rows from `first` on.
std::uint64_t ChecksumOf(const Piece& piece, const Tail& tail, std::size_t row_bytes,
                         std::uint64_t first) {
  std::vector<std::uint64_t> parts = {Checksum(piece.links.data(), sizeof(piece.links))};
  for (std::uint64_t row = first; row < first + DeltaGraph::kPieceRows; ++row) {
    parts.push_back(tail.Label(row));
    parts.push_back(Checksum(tail.Row(row), row_bytes));
  }
  return Checksum(parts.data(), parts.size() * sizeof(parts[0]));
}

}  // namespace

absl::Status DeltaGraph::Write(const Tail& tail, const Kernels& kernels,
                               const std::string& path) const {
  HMANN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  const auto piece = std::make_unique<Piece>();
  for (std::uint64_t row = first_; row + kPieceRows <= end(); row += kPieceRows) {
    for (std::uint64_t i = 0; i < piece->links.size(); ++i) {
      piece->links[i] = tail.Links(row + i / TailChunk::kLinks)[i % TailChunk::kLinks].load(
          std::memory_order_relaxed);
    }
    piece->checksum = ChecksumOf(*piece, tail, kernels.row_bytes, row);
    HMANN_RETURN_IF_ERROR(file.Append(piece.get(), sizeof(*piece)));
  }
  return file.Commit();
}

void DeltaGraph::Read(const Tail& tail, const Kernels& kernels, const std::string& path) {
  const absl::StatusOr<FileDescriptor> file = FileDescriptor::Open(path, O_RDONLY);
  if (!file.ok()) return;
  const auto piece = std::make_unique<Piece>();
  const std::uint64_t end = std::min(limit(), tail.end());
  std::uint64_t row = first_;
  for (; row + kPieceRows <= end; row += kPieceRows) {
    const auto at = static_cast<off_t>((row - first_) / kPieceRows * sizeof(*piece));
    if (::pread(file->fd(), piece.get(), sizeof(*piece), at) != sizeof(*piece) ||
        piece->checksum != ChecksumOf(*piece, tail, kernels.row_bytes, row))
      break;
    for (std::uint64_t i = 0; i < piece->links.size(); ++i) {
      tail.Links(row + i / TailChunk::kLinks)[i % TailChunk::kLinks].store(
          piece->links[i], std::memory_order_relaxed);
    }
  }
  // Links to rows that came after the last piece were made when these were inserted, as
  // they will be again.
  const auto nodes = static_cast<NodeId>(row - first_);
  std::vector<NodeId> links;
  for (NodeId node = 0; node < nodes; ++node) {
    ReadLinks(tail, node, nodes, &links);
    WriteLinks(tail, node, links);
  }
  nodes_.store(nodes, std::memory_order_release);
}

}  // namespace hmann
