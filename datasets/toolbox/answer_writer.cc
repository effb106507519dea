#include "datasets/toolbox/answer_writer.h"

#include <limits>
#include <utility>

#include "datasets/ground_truth.h"
#include "datasets/row_layout.h"
#include "index/base/check.h"
#include "index/base/errors.h"
#include "index/base/json_reader.h"
#include "index/base/status_macros.h"

namespace hmann {

absl::Status CheckAnswerSuffix(const std::string& path) {
  if (path == "-") return FileToWrite(path).status();
  const std::string suffix = FormatSuffix(path);
  if (suffix == ".ibin" || suffix == ".gt" || suffix == ".jsonl") return absl::OkStatus();
  return InvalidArgument(path, ": suffix \"", suffix, "\" found, .ibin .gt or .jsonl expected");
}

absl::StatusOr<AnswerWriter> AnswerWriter::Create(const std::string& path, std::uint32_t n,
                                                  std::uint32_t k, LabelNames names) {
  HMANN_RETURN_IF_ERROR(CheckAnswerSuffix(path));
  const std::string suffix = FormatSuffix(path);
  AnswerWriter writer;
  writer.path_ = path;
  writer.names_ = std::move(names);
  writer.format_ = suffix == ".ibin" ? Format::kIds
                   : suffix == ".gt" ? Format::kIdsAndDistances
                                     : Format::kJsonLines;
  writer.n_ = n;
  writer.k_ = k;
  HMANN_ASSIGN_OR_RETURN(writer.file_, AtomicFile::Create(path));
  if (writer.format_ != Format::kJsonLines) {
    HMANN_RETURN_IF_ERROR(writer.file_.Append(&n, 4));
    HMANN_RETURN_IF_ERROR(writer.file_.Append(&k, 4));
  }
  return writer;
}

absl::Status AnswerWriter::Append(std::span<const std::uint64_t> labels,
                                  std::span<const float> distances) {
  HMANN_CHECK(labels.size() <= k_ && labels.size() == distances.size() && written_ < n_);
  if (format_ == Format::kJsonLines) return AppendLine(labels, distances);
  const std::uint64_t most = format_ == Format::kIds ? 0x7fffffff : 0xfffffffe;
  for (const std::uint64_t label : labels) {
    if (label > most) {
      return InvalidArgument(path_, ": query ", written_, ": label ", label, " found, at most ",
                             most, " expected in this format; .jsonl holds any label");
    }
  }
  for (std::uint32_t j = 0; j < k_; ++j) {
    const auto id = static_cast<std::uint32_t>(j < labels.size() ? labels[j] : kNoNeighbor);
    HMANN_RETURN_IF_ERROR(file_.Append(&id, 4));
    if (format_ == Format::kIdsAndDistances) {
      distances_.push_back(j < distances.size() ? distances[j]
                                                : std::numeric_limits<float>::infinity());
    }
  }
  ++written_;
  return absl::OkStatus();
}

absl::Status AnswerWriter::AppendLine(std::span<const std::uint64_t> labels,
                                      std::span<const float> distances) {
  nlohmann::ordered_json line;
  line["query"] = written_++;
  nlohmann::ordered_json& ids = line["ids"] = nlohmann::ordered_json::array();
  for (const std::uint64_t label : labels) {
    const auto name = names_.find(label);
    name == names_.end() ? ids.push_back(label) : ids.push_back(name->second);
  }
  line["distances"] = std::vector<float>(distances.begin(), distances.end());
  const std::string text = JsonText(line) + "\n";
  return file_.Append(text.data(), text.size());
}

absl::Status AnswerWriter::Commit() {
  HMANN_CHECK(written_ == n_);
  if (!distances_.empty())
    HMANN_RETURN_IF_ERROR(file_.Append(distances_.data(), 4 * distances_.size()));
  return file_.Commit();
}

}  // namespace hmann
