#include "tools/collection_writer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "datasets/labels.h"
#include "index/base/errors.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"

namespace hmann::tools {

absl::StatusOr<std::shared_ptr<Collection>> OpenFolder(const std::string& folder,
                                                       const OpenCollection& options,
                                                       Progress& progress) {
  if (!Collection::Is(folder)) {
    return NotFound(folder,
                    ": no collection: expected a folder with a file MANIFEST, as `hmann "
                    "create` makes it and `hmann backup` copies it");
  }
  return Collection::Open(folder, options, &progress);
}

absl::StatusOr<LabelList> ParseLabels(std::vector<std::string> words, const std::string& from) {
  LabelList labels{std::vector<std::uint64_t>(words.size()), std::move(words)};
  for (std::size_t i = 0; i < labels.names.size(); ++i) {
    std::string& name = labels.names[i];
    const bool is_number =
        !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
    if (!is_number) {
      labels.numbers[i] = VectorLabel(name).number();
    } else if (absl::SimpleAtoi(name, &labels.numbers[i])) {
      name.clear();
    } else {
      return InvalidArgument(from, ": label ", name, ": expected a number below 2^64 - 1");
    }
  }
  return labels;
}

absl::StatusOr<LabelList> ReadLabelList(const std::string& path, std::optional<std::uint64_t> n) {
  LabelList labels;
  if (!path.ends_with(".txt")) {
    HMANN_ASSIGN_OR_RETURN(labels.numbers, ReadLabels(path, n));
    labels.names.resize(labels.numbers.size());
    return labels;
  }
  HMANN_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  std::vector<std::string> lines;
  for (std::size_t at = 0, end = 0; at < text.size(); at = end + 1) {
    end = std::min(text.find('\n', at), text.size());
    lines.emplace_back(text.substr(at, end - at));
    if (lines.back().ends_with('\r')) lines.back().pop_back();
    if (lines.back().empty()) return InvalidArgument(path, ": line ", lines.size(), " is empty");
  }
  if (n.has_value() && *n != lines.size())
    return InvalidArgument(path, ": has ", lines.size(), " lines, expected ", *n, " labels");
  return ParseLabels(std::move(lines), path);
}

absl::StatusOr<LabelNames> NamesOf(const Collection& collection,
                                   const std::vector<std::uint64_t>& labels) {
  LabelNames named;
  HMANN_ASSIGN_OR_RETURN(std::vector<std::string> names, collection.Names(labels));
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (!names[i].empty()) named[labels[i]] = std::move(names[i]);
  return named;
}

}  // namespace hmann::tools
