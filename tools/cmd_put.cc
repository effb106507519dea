#include <algorithm>
#include <functional>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "datasets/vector_file.h"
#include "hmann/collection.h"
#include "index/attributes/json_rows.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "tools/build_flags.h"
#include "tools/collection_writer.h"
#include "tools/commands.h"
#include "tools/flags.h"
#include "tools/print.h"
#include "tools/write_target.h"

namespace hmann::tools {
namespace {

/// Rows of one write unless the user asks for others: a guess.
constexpr std::size_t kRowsAWrite = 1024;

struct WriteFlags {
  TargetFlags target;
  std::string base, labels;  ///< files
  MakeAttributesOptions attributes;
  std::uint64_t rows = 0, first = 0;
  std::size_t batch = kRowsAWrite;
  std::vector<std::string> of;  ///< labels to delete
  std::string filter;
  bool all = false;
  bool json = false;
};

/// Says what was written.
absl::Status ReportWrite(const WriteFlags& flags, WriteTarget& target, const char* what,
                         std::uint64_t rows) {
  HMANN_ASSIGN_OR_RETURN(const WriteTarget::Facts now, target.facts());
  if (flags.json) return PrintJson({{what, rows}, {"sequence", now.sequence}, {"live", now.live}});
  std::cout << absl::StrFormat("%s: %d vectors %s, sequence %d; it has %d\n", flags.target.name,
                               rows, what, now.sequence, now.live);
  if (flags.target.server.empty() && now.changed >= 10'000 && now.changed * 10 >= now.live) {
    std::cout << absl::StrFormat(
        "  %d rows differ from the sealed index: `hmann compact %s` makes searches faster\n",
        now.changed, flags.target.name);
  }
  return absl::OkStatus();
}

/// A row of attributes with a label, as JSON.
using LabeledTexts = absl::flat_hash_map<std::uint64_t, std::string>;

/// Reads rows with labels, in any order. Errors: INVALID_ARGUMENT for a row whose label
/// is none of `labels`.
absl::StatusOr<LabeledTexts> ReadLabeled(const AttributeRows& rows, const std::string& path,
                                         std::vector<std::uint64_t> labels) {
  std::sort(labels.begin(), labels.end());
  LabeledTexts texts;
  HMANN_RETURN_IF_ERROR(rows.ForEach([&](std::uint64_t row, std::uint64_t label, auto cells) {
    if (!std::binary_search(labels.begin(), labels.end(), label)) {
      return InvalidArgument(path, ": row ", row, ": label ", label,
                             ": no vector of --base has it; `hmann update` changes the attributes "
                             "of vectors that are there");
    }
    texts[label] = JsonOf(rows.fields(), cells);
    return absl::OkStatus();
  }));
  return texts;
}

absl::StatusOr<LabelList> LabelsOf(const WriteFlags& flags, std::uint64_t n) {
  constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
  LabelList labels;
  std::vector<std::uint64_t>& numbers = labels.numbers;
  if (!flags.labels.empty()) {
    HMANN_ASSIGN_OR_RETURN(labels, ReadLabelList(flags.labels, n));
    const auto none = std::find(numbers.begin(), numbers.end(), kNone);
    if (none == numbers.end()) return labels;
    return InvalidArgument(flags.labels, ": row ", none - numbers.begin(),
                           ": found label 2^64 - 1, expected a smaller one");
  }
  if (flags.first > kNone - n)
    return InvalidArgument("--first ", flags.first, ": with ", n, " rows, labels pass 2^64 - 2");
  labels.names.resize(n);
  numbers.resize(n);
  for (std::uint64_t row = 0; row < n; ++row) numbers[row] = flags.first + row;
  return labels;
}

absl::Status Put(const WriteFlags& flags) {
  HMANN_ASSIGN_OR_RETURN(const VectorFile base, VectorFile::Open(flags.base, flags.rows));
  HMANN_ASSIGN_OR_RETURN(const LabelList labels, LabelsOf(flags, base.n()));
  std::unique_ptr<AttributeRows> rows;
  LabeledTexts texts;
  if (const MakeAttributesOptions& of = flags.attributes; !of.from.empty()) {
    std::vector<AttributeField> types;
    if (!of.types.empty()) {
      HMANN_ASSIGN_OR_RETURN(types, ParseAttributeFields(of.types));
    }
    HMANN_ASSIGN_OR_RETURN(rows, AttributeRows::Open(of.from, types));
    if (rows->has_labels()) {
      HMANN_ASSIGN_OR_RETURN(texts, ReadLabeled(*rows, of.from, labels.numbers));
    } else if (rows->rows() != base.n()) {
      return InvalidArgument(of.from, ": rows for ", rows->rows(), " of the ", base.n(),
                             " vectors: expected one for each, or the key label");
    }
  }
  HMANN_ASSIGN_OR_RETURN(const auto target, WriteTarget::Open(flags.target));
  HMANN_ASSIGN_OR_RETURN(const WriteTarget::Facts facts, target->facts());
  HMANN_RETURN_IF_ERROR(base.CheckShape(facts.dim, facts.dtype, "the collection"));
  HMANN_RETURN_IF_ERROR(base.CheckFinite());
  CollectionWriter writer(*target, facts, flags.base + ": row", 0, base.n(), flags.batch);
  const auto put = [&](std::uint64_t row, const std::string& text) {
    HMANN_ASSIGN_OR_RETURN(WriteBatch* const batch,
                           writer.Room(base.row_bytes() + text.size() + labels.names[row].size()));
    batch->Put(labels.At(row), base.Row(row), base.row_bytes(), text);
    return absl::OkStatus();
  };
  if (rows != nullptr && !rows->has_labels()) {
    HMANN_RETURN_IF_ERROR(rows->ForEach([&](std::uint64_t row, std::uint64_t, auto cells) {
      return put(row, JsonOf(rows->fields(), cells));
    }));
  } else {
    for (std::uint64_t row = 0; row < base.n(); ++row) {
      const auto text = texts.find(labels.numbers[row]);
      HMANN_RETURN_IF_ERROR(put(row, text == texts.end() ? std::string() : text->second));
    }
  }
  HMANN_RETURN_IF_ERROR(writer.Flush());
  return ReportWrite(flags, *target, "put", writer.rows());
}

struct LabeledChange {
  std::uint64_t number = 0;
  std::string name, attributes;
};

/// The changes of a line: an object with a label. Errors: INVALID_ARGUMENT.
absl::StatusOr<LabeledChange> ReadChange(std::string_view line) {
  bool is_nested = false;
  const auto flat = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    is_nested |= depth > 2;
    return depth <= 2;
  };
  auto object = nlohmann::json::parse(line, flat, false);
  if (object.is_discarded() || is_nested || !object.is_object())
    return InvalidArgument("expected an object of values and lists of tags");
  const auto label = object.find("label");
  if (label == object.end() || !(label->is_number_unsigned() || label->is_string())) {
    return InvalidArgument(
        "expected a key \"label\" with a whole number of 0 to 2^64 - 2, or a string");
  }
  LabeledChange change;
  if (label->is_string()) {
    change.name = label->get<std::string>();
  } else {
    change.number = label->get<std::uint64_t>();
  }
  object.erase(label);
  change.attributes = JsonText(object);
  return change;
}

absl::Status Update(const WriteFlags& flags) {
  HMANN_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(flags.attributes.from));
  std::string_view rest(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  if (!rest.empty() && rest.ends_with('\n')) rest.remove_suffix(1);
  const std::uint64_t lines =
      rest.empty() ? 0 : 1 + static_cast<std::uint64_t>(std::count(rest.begin(), rest.end(), '\n'));
  HMANN_ASSIGN_OR_RETURN(const auto target, WriteTarget::Open(flags.target));
  HMANN_ASSIGN_OR_RETURN(const WriteTarget::Facts facts, target->facts());
  CollectionWriter writer(*target, facts, flags.attributes.from + ": line", 1, lines, flags.batch);
  for (std::uint64_t line = 0; line < lines; ++line) {
    const std::string_view text = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), text.size() + 1));
    const auto change = ReadChange(text);
    if (!change.ok()) {
      return InvalidArgument(flags.attributes.from, ": line ", line + 1, ": ",
                             change.status().message(), "; ", writer.done(), " lines are in");
    }
    HMANN_ASSIGN_OR_RETURN(WriteBatch* const batch,
                           writer.Room(change->attributes.size() + change->name.size()));
    batch->Update(change->name.empty() ? VectorLabel(change->number) : VectorLabel(change->name),
                  change->attributes);
  }
  HMANN_RETURN_IF_ERROR(writer.Flush());
  return ReportWrite(flags, *target, "updated", writer.rows());
}

absl::Status Delete(const WriteFlags& flags) {
  HMANN_ASSIGN_OR_RETURN(const LabelList labels, flags.labels.empty()
                                                     ? ParseLabels(flags.of, "LABEL")
                                                     : ReadLabelList(flags.labels));
  HMANN_ASSIGN_OR_RETURN(const auto target, WriteTarget::Open(flags.target));
  if (!flags.filter.empty() || flags.all) {
    HMANN_ASSIGN_OR_RETURN(const Written written, target->DeleteMatching(flags.filter, flags.all));
    return ReportWrite(flags, *target, "deleted", written.rows);
  }
  HMANN_ASSIGN_OR_RETURN(const WriteTarget::Facts facts, target->facts());
  const std::string from = flags.labels.empty() ? "label" : flags.labels + ": row";
  CollectionWriter writer(*target, facts, from, 0, labels.names.size(), WriteBatch::kMostRows);
  for (std::size_t i = 0; i < labels.names.size(); ++i) {
    HMANN_ASSIGN_OR_RETURN(WriteBatch* const batch, writer.Room(labels.names[i].size()));
    batch->Delete(labels.At(i));
  }
  HMANN_RETURN_IF_ERROR(writer.Flush());
  return ReportWrite(flags, *target, "deleted", writer.rows());
}

std::shared_ptr<WriteFlags> AddWriteFlags(CLI::App& app) {
  auto flags = std::make_shared<WriteFlags>();
  AddTargetFlags(app, &flags->target);
  app.add_flag("--json", flags->json, "print one JSON object on stdout");
  return flags;
}

void AddBatchFlag(CLI::App& app, WriteFlags* flags) {
  app.add_option("--batch", flags->batch, "rows of one write, which happens or does not")
      ->check(CLI::Range(std::size_t{1}, WriteBatch::kMostRows))
      ->capture_default_str();
}

}  // namespace

CommandAction SetupPut(CLI::App& app) {
  const std::shared_ptr<WriteFlags> flags = AddWriteFlags(app);
  app.add_option("--base,BASE", flags->base,
                 "vector file: .npy .fvecs .bvecs .fbin .f16bin .u8bin .i8bin .csv .hdf5")
      ->required();
  CLI::Option* labels =
      app.add_option("--labels", flags->labels,
                     "file of the vectors' 64-bit labels (.npy, raw u64, .ivecs or .ibin), or of "
                     "strings (.txt, one a line), instead of row numbers; of several rows with "
                     "one label, the last one counts");
  app.add_option("--first", flags->first, "label of the first row, without --labels")
      ->excludes(labels);
  app.add_option("--rows", flags->rows, "use only the first rows (0: all)");
  AddRowsFlags(app, "--attrs", "their key label, if they have one, may be in any order",
               &flags->attributes);
  AddBatchFlag(app, flags.get());
  return [flags] { return Put(*flags); };
}

CommandAction SetupUpdate(CLI::App& app) {
  const std::shared_ptr<WriteFlags> flags = AddWriteFlags(app);
  app.add_option("--attrs,ROWS", flags->attributes.from,
                 "file with a JSON object on each line: the label of a vector under \"label\", and "
                 "the attributes to change; null removes one")
      ->required();
  AddBatchFlag(app, flags.get());
  return [flags] { return Update(*flags); };
}

CommandAction SetupDelete(CLI::App& app) {
  const std::shared_ptr<WriteFlags> flags = AddWriteFlags(app);
  CLI::Option* of = app.add_option("LABEL", flags->of, "labels of vectors to delete");
  CLI::Option* labels = app.add_option(
      "--labels", flags->labels, "file of labels instead (.npy, raw u64, .ivecs, .ibin or .txt)");
  labels->excludes(of);
  AddFilterFlag(app, &flags->filter,
                "delete the vectors whose attributes satisfy this, at one moment")
      ->excludes(of)
      ->excludes(labels);
  app.add_flag("--all", flags->all, "delete all vectors, also by a filter that holds for all")
      ->excludes(of)
      ->excludes(labels);
  app.callback([flags] {
    if (flags->of.empty() && flags->labels.empty() && flags->filter.empty() && !flags->all)
      throw CLI::RequiredError("LABEL, --labels, --filter or --all");
  });
  return [flags] { return Delete(*flags); };
}

}  // namespace hmann::tools
