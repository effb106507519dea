#include "index/format/upgrade.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/format/reader.h"
#include "index/format/verify.h"
#include "index/format/writer.h"

namespace hmann {
namespace {

std::span<const NodeId> Links(const IndexFile& file, std::uint32_t layer, NodeId id,
                              std::vector<NodeId>& list) {
  const RecordLayout& records = file.records();
  list.resize(file.layers().MaxDegree(layer));
  if (layer == 0) {
    records.UnpackPadded(file.l0().data() + records.ListOffset(id), list.data());
  } else {
    const std::size_t bytes = list.size() * sizeof(NodeId);
    std::memcpy(list.data(), file.upper_links(layer).data() + id * bytes, bytes);
  }
  return std::span(list).first(
      static_cast<std::size_t>(std::find(list.begin(), list.end(), kNoNode) - list.begin()));
}

template <typename T>
std::vector<T> Copy(std::span<const T> values) {
  return {values.begin(), values.end()};
}

}  // namespace

absl::StatusOr<IndexInfo> UpgradeIndex(const std::string& from, const std::string& out,
                                       Progress& progress, const std::atomic<bool>* cancelled) {
  HMANN_ASSIGN_OR_RETURN(const IndexFile file, IndexFile::Open(from, Formats::kAlsoOld));
  HMANN_RETURN_IF_ERROR(CheckNotInput(out, {from}));
  if (!file.is_old()) return InvalidArgument(from, ": is format ", file.info().version, " already");
  HMANN_RETURN_IF_ERROR(VerifyLists(file, progress));
  std::vector<NodeId> list;
  IndexContents contents;
  static_cast<IndexMetadata&>(contents) = file.metadata();
  contents.choose_scalar = false;
  contents.user_labels = file.info().user_labels;
  contents.links = [&](std::uint32_t layer, NodeId id) { return Links(file, layer, id, list); };
  contents.row = [&](NodeId id) { return file.Row(id); };
  contents.label = [&](NodeId id) { return file.Label(id); };
  contents.cells = Copy(file.cells());
  contents.second_centroids = Copy(file.second_centroids());
  contents.code_mean = Copy(file.code_mean());
  const std::span<const std::byte> codes = file.codes();
  contents.code = [&](NodeId id) {
    return codes.data() + std::size_t{id - file.layers().n1()} * file.info().codes.code_bytes;
  };
  return WriteIndex(out, contents, progress, cancelled);
}

}  // namespace hmann
