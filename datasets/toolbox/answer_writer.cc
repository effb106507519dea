#include "datasets/toolbox/answer_writer.h"

#include <limits>
#include <utility>

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
  AnswerWriter writer;
  writer.path_ = path;
  writer.names_ = std::move(names);
  writer.lines_ = FormatSuffix(path) == ".jsonl";
  writer.answers_.n = n;
  writer.answers_.k = k;
  HMANN_ASSIGN_OR_RETURN(writer.file_, AtomicFile::Create(path));
  return writer;
}

absl::Status AnswerWriter::Append(std::span<const std::uint64_t> labels,
                                  std::span<const float> distances) {
  GroundTruth& all = answers_;
  HMANN_CHECK(labels.size() <= all.k && labels.size() == distances.size() && written_ < all.n);
  if (lines_) return AppendLine(labels, distances);
  all.ids.insert(all.ids.end(), labels.begin(), labels.end());
  all.distances.insert(all.distances.end(), distances.begin(), distances.end());
  ++written_;
  all.ids.resize(std::size_t{written_} * all.k, kNoNeighbor);
  all.distances.resize(all.ids.size(), std::numeric_limits<float>::infinity());
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
  HMANN_CHECK(written_ == answers_.n);
  return lines_ ? file_.Commit() : WriteGroundTruth(path_, answers_);
}

}  // namespace hmann
