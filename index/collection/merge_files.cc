#include "index/collection/merge_files.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "datasets/vector_writer.h"
#include "index/attributes/json_rows.h"
#include "index/base/errors.h"
#include "index/base/file.h"
#include "index/base/json_reader.h"
#include "index/base/parse_json.h"
#include "index/base/status_macros.h"
#include "index/construct/bounded.h"
#include "index/construct/jobs/work_folder.h"

namespace hmann {
namespace {

constexpr const char* kState = "/state.json";

const char* SuffixFor(DType dtype) {
  switch (dtype) {
    case DType::kU8:
      return ".u8bin";
    case DType::kI8:
      return ".i8bin";
    case DType::kF16:
      return ".f16bin";
    case DType::kF32:
      break;
  }
  return ".fbin";
}

/// The live rows of a moment.
class MergeRows {
 public:
  explicit MergeRows(const Moment& moment) : moment_(moment) {}

  absl::Status Open() {
    moment_.tail.ForLive([&](std::uint64_t row) { labels_.push_back(moment_.tail.Label(row)); });
    labels_.reserve(moment_.live());
    if (moment_.sealed.segment != nullptr) {
      HMANN_RETURN_IF_ERROR(moment_.sealed.segment->index()->ForLabels([&](auto ids, auto labels) {
        for (std::size_t i = 0; i < ids.size(); ++i)
          if (moment_.sealed.Has(ids[i])) labels_.push_back(labels[i]);
      }));
    }
    std::sort(labels_.begin(), labels_.end());
    return absl::OkStatus();
  }

  const std::vector<std::uint64_t>& labels() const { return labels_; }

  /// Copies the vectors of labels()[first .. first + rows) to `out`, reading the sealed
  /// index from end to end.
  absl::Status Copy(std::size_t first, std::size_t rows, std::byte* out) const {
    const auto begin = labels_.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = begin + static_cast<std::ptrdiff_t>(rows);
    const std::size_t bytes = moment_.shape->vector_bytes;
    const auto put = [&](std::uint64_t label, const std::byte* row) {
      const auto at = std::lower_bound(begin, end, label);
      if (at != end && *at == label)
        std::memcpy(out + (at - begin) * static_cast<std::ptrdiff_t>(bytes), row, bytes);
    };
    const Tail& tail = moment_.tail;
    tail.ForLive([&](std::uint64_t row) { put(tail.Label(row), tail.Row(row)); });
    if (moment_.sealed.segment == nullptr) return absl::OkStatus();
    return moment_.sealed.segment->index()->ForRows([&](auto ids, auto labels, auto found) {
      for (std::size_t i = 0; i < ids.size(); ++i)
        if (moment_.sealed.Has(ids[i])) put(labels[i], found.data() + i * bytes);
      return absl::OkStatus();
    });
  }

 private:
  const Moment& moment_;
  std::vector<std::uint64_t> labels_;  ///< of all live rows, ascending
};

}  // namespace

std::string MergeFiles::base(DType dtype) const { return folder_ + "/base" + SuffixFor(dtype); }

absl::StatusOr<MergeJob> MergeFiles::Read() const {
  const std::string path = folder_ + kState;
  HMANN_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, 1 << 16));
  const auto json = ParseJson(text);
  absl::Status status;
  JsonReader reader(json, path + ": ", absl::StatusCode::kDataLoss, &status);
  MergeJob job;
  reader.Whole("covered", 0, ~std::uint64_t{0}, &job.covered);
  reader.Whole("rows", 0, ~std::uint64_t{0}, &job.rows);
  reader.Whole("generation", 0, ~std::uint64_t{0}, &job.generation);
  reader.Text("types", &job.types);
  HMANN_RETURN_IF_ERROR(status);
  return job;
}

absl::Status MergeFiles::Write(const Moment& moment, MergeJob* job, std::uint64_t memory,
                               const std::atomic<bool>& cancelled, Progress& progress) const {
  Remove();
  HMANN_RETURN_IF_ERROR(MakeFolders(folder_));
  MergeRows rows(moment);
  HMANN_RETURN_IF_ERROR(rows.Open());
  const CollectionShape& shape = *moment.shape;
  const std::vector<std::uint64_t>& labels = rows.labels();
  // The base, the new index, and the work of its build: a guess.
  const std::uint64_t need = labels.size() * (shape.vector_bytes * 3 + 300);
  HMANN_RETURN_IF_ERROR(CheckDiskRoom(folder_, "a merge", need));
  if (!labels.empty()) {
    HMANN_ASSIGN_OR_RETURN(VectorWriter base, VectorWriter::Create(this->base(shape.kernels.dtype),
                                                                   shape.kernels.dim));
    const std::size_t at_once =
        std::clamp<std::size_t>(memory / shape.vector_bytes, 4096, labels.size() + 4096);
    std::vector<std::byte> window;
    progress.Start("collect vectors", labels.size(), "vectors");
    for (std::size_t first = 0; first < labels.size(); first += at_once) {
      if (cancelled) return absl::CancelledError("stopped");
      const std::size_t some = std::min(at_once, labels.size() - first);
      window.resize(some * shape.vector_bytes);
      HMANN_RETURN_IF_ERROR(rows.Copy(first, some, window.data()));
      HMANN_RETURN_IF_ERROR(base.Append(window.data(), some));
      progress.Advance(some);
    }
    progress.Finish();
    HMANN_RETURN_IF_ERROR(base.Commit());
    HMANN_RETURN_IF_ERROR(WriteTextFile(
        this->labels(), {reinterpret_cast<const char*>(labels.data()), labels.size() * 8}));
    if (!moment.fields->empty()) HMANN_RETURN_IF_ERROR(WriteAttributes(moment, &job->types));
  }
  const nlohmann::ordered_json state = {{"covered", job->covered},
                                        {"rows", job->rows},
                                        {"generation", job->generation},
                                        {"types", job->types}};
  return WriteTextFile(folder_ + kState, JsonText(state) + "\n");
}

absl::Status MergeFiles::WriteAttributes(const Moment& moment, std::string* types) const {
  HMANN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(attributes()));
  const std::vector<AttributeField>& fields = *moment.fields;
  std::vector<bool> is_used(fields.size());
  const auto write = [&](std::uint64_t label, const AttributeCells& cells) {
    for (const AttributeCell& cell : cells) is_used[cell.field] = true;
    // JsonOf gives "{}" or "{...": the label goes first.
    const std::string row = JsonOf(fields, cells);
    const std::string line = absl::StrCat("{\"label\":", label, cells.empty() ? "" : ",",
                                          absl::string_view(row).substr(1), "\n");
    return file.Append(line.data(), line.size());
  };
  if (moment.sealed.segment != nullptr) {
    const Index& index = *moment.sealed.segment->index();
    std::vector<std::uint64_t> label_of(index.info().n);
    HMANN_RETURN_IF_ERROR(index.ForLabels([&](auto ids, auto labels) {
      for (std::size_t i = 0; i < ids.size(); ++i) label_of[ids[i]] = labels[i];
    }));
    HMANN_RETURN_IF_ERROR(
        moment.sealed.segment->ForCells(fields, [&](std::uint32_t id, const AttributeCells& cells) {
          return moment.sealed.Has(id) ? write(label_of[id], cells) : absl::OkStatus();
        }));
  }
  absl::Status written;
  moment.tail.ForLive([&](std::uint64_t row) {
    if (written.ok()) written = write(moment.tail.Label(row), moment.tail.Cells(row));
  });
  HMANN_RETURN_IF_ERROR(written);
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (!is_used[i]) continue;
    absl::StrAppend(types, types->empty() ? "" : ",", fields[i].name, ":",
                    std::string(AttributeTypeName(fields[i].type)));
  }
  return file.Commit();
}

void MergeFiles::Remove() const {
  std::error_code error;
  WorkFolder::Remove(work());
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error))
    if (IsTemporaryName(entry.path().filename().string())) RemoveIfDead(entry.path().string());
  for (const DType dtype : {DType::kU8, DType::kI8, DType::kF16, DType::kF32})
    std::filesystem::remove(base(dtype), error);
  for (const std::string& file : {labels(), attributes(), folder_ + kState})
    std::filesystem::remove(file, error);
  std::filesystem::remove(folder_, error);  // if nothing else is in it
}

}  // namespace hmann
