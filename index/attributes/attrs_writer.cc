#include "index/attributes/attrs_writer.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "index/attributes/attrs_file.h"
#include "index/attributes/bitmap.h"
#include "index/base/checksum.h"
#include "index/base/errors.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

/// Writes sections one after another.
class SectionStream {
 public:
  explicit SectionStream(AtomicFile& file) : file_(file) {}

  absl::Status Begin() {
    const std::uint64_t gap = RoundUp(file_.size(), kAttrsAlignment) - file_.size();
    const std::byte zeros[kAttrsAlignment] = {};
    HMANN_RETURN_IF_ERROR(file_.Append(zeros, gap));
    section_ = {.offset = file_.size()};
    XXH3_64bits_reset(&state_);
    return absl::OkStatus();
  }
  absl::Status Append(const void* data, std::size_t bytes) {
    XXH3_64bits_update(&state_, data, bytes);
    section_.bytes += bytes;
    return file_.Append(data, bytes);
  }
  template <typename T>
  absl::Status Append(const std::vector<T>& values) {
    return Append(values.data(), values.size() * sizeof(T));
  }
  AttrsSection End() {
    section_.checksum = XXH3_64bits_digest(&state_);
    return section_;
  }
  template <typename T>
  absl::StatusOr<AttrsSection> Write(const std::vector<T>& values) {
    HMANN_RETURN_IF_ERROR(Begin());
    HMANN_RETURN_IF_ERROR(Append(values));
    return End();
  }
  std::uint64_t bytes() const { return section_.bytes; }
  AtomicFile& file() { return file_; }

 private:
  AtomicFile& file_;
  AttrsSection section_;
  XXH3_state_t state_;
};

/// A field that is being written.
struct WrittenField {
  AttributeField field;
  AttrsRecord record;
  /// The tags, ascending, of kTag or kIntTag, and how many rows have each.
  std::vector<std::string> strings;
  std::vector<std::int64_t> numbers;
  std::vector<std::uint64_t> counts;
  std::unordered_map<std::string, std::uint32_t> number_of;
  std::unordered_map<std::int64_t, std::uint32_t> number_of_int;
  std::vector<std::uint64_t> ends;     ///< of its bitmaps
  std::vector<std::uint64_t> present;  ///< a bit for each id

  bool is_number() const { return IsNumber(field.type); }
  /// The place of a tag; of bool, 1 is true.
  std::uint32_t NumberOf(const FilterValue& value) const {
    if (field.type == AttributeType::kBool) return std::get<bool>(value) ? 1 : 0;
    return field.type == AttributeType::kTag ? number_of.at(std::get<std::string>(value))
                                             : number_of_int.at(std::get<std::int64_t>(value));
  }
};

/// A part of a field that one pass over the rows collects: the values of the ids, or the
/// ids with the tags, [first, last).
struct Part {
  std::uint32_t field = 0;
  std::uint64_t first = 0, last = 0, bytes = 0;
  bool begins = false, ends = false;           ///< the field's first part, its last one
  std::vector<std::byte> values = {};          ///< of numbers, 8 bytes each
  std::vector<std::uint64_t> ids_of_tag = {};  ///< tag << 32 | id
};

class AttrsWriter {
 public:
  AttrsWriter(const AttributeRows& rows, const LabelIds& ids, const AttrsTarget& target,
              Progress& progress)
      : rows_(rows), ids_(ids), target_(target), progress_(progress) {}

  absl::Status Write() {
    HMANN_RETURN_IF_ERROR(Count());
    if (target_.out.empty()) return absl::OkStatus();
    HMANN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(target_.out));
    AttrsHeader header;
    HMANN_RETURN_IF_ERROR(file.Append(&header, sizeof(header)));
    SectionStream sections(file);
    std::vector<Part> parts = Parts();
    for (std::size_t first = 0, last = 0; first < parts.size(); first = last) {
      std::uint64_t bytes = 0;
      while (last < parts.size() && (last == first || bytes + parts[last].bytes <= target_.memory))
        bytes += parts[last++].bytes;
      const std::span<Part> some(parts.data() + first, last - first);
      HMANN_RETURN_IF_ERROR(Collect(some));
      for (Part& part : some) HMANN_RETURN_IF_ERROR(WritePart(part, sections));
    }
    HMANN_RETURN_IF_ERROR(WriteDirectory(header, sections));
    header.checksum = header.Checksum();
    HMANN_RETURN_IF_ERROR(file.WriteAt(0, &header, sizeof(header)));
    return file.Commit();
  }

 private:
  absl::Status ForRows(const std::string& phase, const AttributeRows::Visit& visit) {
    progress_.Start(phase, rows_.rows(), "rows");
    const absl::Status status =
        rows_.ForEach([&](std::uint64_t row, std::uint64_t label, auto cells) -> absl::Status {
          if (target_.cancel != nullptr && *target_.cancel)
            return absl::CancelledError("cancelled");
          progress_.Advance(1);
          return visit(row, label, cells);
        });
    progress_.Finish();
    return status;
  }

  /// Checks that rows and vectors are the same, and counts values.
  absl::Status Count() {
    if (ids_.own_labels() && !rows_.has_labels()) {
      return InvalidArgument(
          "the index has labels of its own, and the rows have none: add a \"label\" to each");
    }
    for (const AttributeField& field : rows_.fields()) {
      fields_.emplace_back().field = field;
      fields_.back().present.resize((target_.n + 63) / 64);
    }
    std::vector<bool> has_row(target_.n);
    std::uint64_t covered = 0;
    std::vector<std::unordered_map<std::string, std::uint64_t>> strings(fields_.size());
    std::vector<std::unordered_map<std::int64_t, std::uint64_t>> numbers(fields_.size());
    HMANN_RETURN_IF_ERROR(ForRows(
        "check rows",
        [&](std::uint64_t row, std::uint64_t label,
            std::span<const AttributeCell> cells) -> absl::Status {
          bool twice = false;
          std::uint64_t copies = 0;
          const bool found = ids_.ForEach(label, [&](std::uint32_t id) {
            twice = twice || has_row[id];
            has_row[id] = true;
            ++copies;
          });
          if (!found)
            return InvalidArgument("row ", row, ": no vector of the index has label ", label);
          if (twice) return InvalidArgument("row ", row, ": label ", label, " had a row before");
          covered += copies;
          for (const AttributeCell& cell : cells) {
            const AttributeType type = fields_[cell.field].field.type;
            if (type == AttributeType::kTag)
              strings[cell.field][std::get<std::string>(cell.value)] += copies;
            if (type == AttributeType::kIntTag)
              numbers[cell.field][std::get<std::int64_t>(cell.value)] += copies;
          }
          return absl::OkStatus();
        }));
    if (covered != target_.n) {
      return InvalidArgument("rows for ", covered, " of the ", target_.n,
                             " vectors of the index: every vector needs one");
    }
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      TakeTags(strings[f], fields_[f].strings, fields_[f].number_of, fields_[f]);
      TakeTags(numbers[f], fields_[f].numbers, fields_[f].number_of_int, fields_[f]);
    }
    return absl::OkStatus();
  }

  template <typename Tag>
  static void TakeTags(std::unordered_map<Tag, std::uint64_t>& counted, std::vector<Tag>& tags,
                       std::unordered_map<Tag, std::uint32_t>& number_of, WrittenField& field) {
    for (const auto& [tag, count] : counted) tags.push_back(tag);
    std::sort(tags.begin(), tags.end());
    for (std::uint32_t i = 0; i < tags.size(); ++i) {
      number_of[tags[i]] = i;
      field.counts.push_back(counted[tags[i]]);
    }
    field.record.values += tags.size();
    counted.clear();
  }

  /// The parts of all fields, in the order in which they are written.
  std::vector<Part> Parts() const {
    std::vector<Part> parts;
    for (std::uint32_t f = 0; f < fields_.size(); ++f) {
      const WrittenField& field = fields_[f];
      const std::size_t begin = parts.size();
      if (field.is_number()) {
        const std::uint64_t most = std::max<std::uint64_t>(target_.memory / 8, 1 << 16);
        for (std::uint64_t first = 0; first < target_.n; first += most) {
          const std::uint64_t last = std::min(target_.n, first + most);
          parts.push_back({.field = f, .first = first, .last = last, .bytes = (last - first) * 8});
        }
      } else if (!IsTag(field.field.type)) {
        parts.push_back({.field = f, .first = 0, .last = 2, .bytes = target_.n * 8});
      } else {
        Part part{.field = f};
        for (std::uint64_t tag = 0; tag < field.counts.size(); ++tag) {
          const std::uint64_t bytes = field.counts[tag] * 8;
          if (part.bytes > 0 && part.bytes + bytes > target_.memory)
            parts.push_back(std::exchange(part, {.field = f, .first = tag}));
          part.last = tag + 1;
          part.bytes += bytes;
        }
        parts.push_back(part);
      }
      if (begin == parts.size()) continue;
      parts[begin].begins = true;
      parts.back().ends = true;
    }
    return parts;
  }

  /// Fills the parts with one pass over the rows.
  absl::Status Collect(std::span<Part> parts) {
    std::multimap<std::uint32_t, Part*> by_field;
    for (Part& part : parts) {
      by_field.emplace(part.field, &part);
      if (fields_[part.field].is_number()) part.values.resize((part.last - part.first) * 8);
      if (!fields_[part.field].is_number()) part.ids_of_tag.reserve(part.bytes / 8);
    }
    return ForRows("read rows",
                   [&](std::uint64_t, std::uint64_t label, std::span<const AttributeCell> cells) {
                     ids_.ForEach(label, [&](std::uint32_t id) {
                       for (const AttributeCell& cell : cells) {
                         const auto [begin, end] = by_field.equal_range(cell.field);
                         for (auto at = begin; at != end; ++at) Put(cell.value, id, *at->second);
                       }
                     });
                     return absl::OkStatus();
                   });
  }

  void Put(const FilterValue& value, std::uint32_t id, Part& part) {
    WrittenField& field = fields_[part.field];
    const std::uint64_t at = field.is_number() ? id : field.NumberOf(value);
    if (at < part.first || at >= part.last) return;
    field.present[id / 64] |= std::uint64_t{1} << id % 64;
    if (!field.is_number()) return part.ids_of_tag.push_back(at << 32 | id);
    std::byte* place = part.values.data() + (at - part.first) * 8;
    if (const auto* real = std::get_if<double>(&value); real != nullptr)
      std::memcpy(place, real, 8);
    else
      std::memcpy(place, &std::get<std::int64_t>(value), 8);
  }

  absl::Status WritePart(Part& part, SectionStream& sections) {
    WrittenField& field = fields_[part.field];
    if (part.begins) HMANN_RETURN_IF_ERROR(BeginField(field, sections));
    if (field.is_number()) {
      HMANN_RETURN_IF_ERROR(sections.Append(part.values));
      part.values = {};
      if (part.ends) HMANN_RETURN_IF_ERROR(WriteOrder(field, sections));
    } else {
      HMANN_RETURN_IF_ERROR(WriteBitmaps(part, field, sections));
    }
    return part.ends ? EndField(field, sections) : absl::OkStatus();
  }

  /// Writes the dictionary and begins the section that the parts follow.
  static absl::Status BeginField(WrittenField& field, SectionStream& sections) {
    if (field.field.type == AttributeType::kTag) {
      std::vector<std::uint64_t> ends(field.strings.size());
      std::transform_inclusive_scan(field.strings.begin(), field.strings.end(), ends.begin(),
                                    std::plus<>(),
                                    [](const std::string& tag) { return tag.size(); });
      HMANN_ASSIGN_OR_RETURN(field.record.sections[0], sections.Write(ends));
      HMANN_RETURN_IF_ERROR(sections.Begin());
      for (const std::string& tag : field.strings)
        HMANN_RETURN_IF_ERROR(sections.Append(tag.data(), tag.size()));
      field.record.sections[1] = sections.End();
    }
    if (field.field.type == AttributeType::kIntTag) {
      HMANN_ASSIGN_OR_RETURN(field.record.sections[0], sections.Write(field.numbers));
    }
    return sections.Begin();
  }

  static absl::Status AppendBitmap(const Roaring& bitmap, WrittenField& field,
                                   SectionStream& sections) {
    HMANN_RETURN_IF_ERROR(sections.Append(BitmapBytes(*bitmap)));
    field.ends.push_back(sections.bytes());
    return absl::OkStatus();
  }

  static absl::Status WriteBitmaps(Part& part, WrittenField& field, SectionStream& sections) {
    std::vector<std::uint64_t>& all = part.ids_of_tag;
    std::sort(all.begin(), all.end());
    const bool is_bool = field.field.type == AttributeType::kBool;
    std::vector<std::uint32_t> ids;
    auto at = all.begin();
    for (std::uint64_t tag = part.first; tag < part.last; ++tag) {
      ids.clear();
      for (; at != all.end() && *at >> 32 == tag; ++at)
        ids.push_back(static_cast<std::uint32_t>(*at));
      if (is_bool && tag == 0) continue;
      const Roaring bitmap(roaring_bitmap_of_ptr(ids.size(), ids.data()));
      HMANN_RETURN_IF_ERROR(AppendBitmap(bitmap, field, sections));
    }
    all = {};
    return absl::OkStatus();
  }

  /// Ends the column and writes the order of its values.
  absl::Status WriteOrder(WrittenField& field, SectionStream& sections) const {
    field.record.sections[0] = sections.End();
    HMANN_ASSIGN_OR_RETURN(const std::string path, sections.file().Written());
    HMANN_ASSIGN_OR_RETURN(const MappedFile mapped, MappedFile::Open(path));
    const std::byte* column = mapped.bytes().data() + field.record.sections[0].offset;
    HMANN_RETURN_IF_ERROR(sections.Begin());
    HMANN_RETURN_IF_ERROR(field.field.type == AttributeType::kFloat64
                              ? AppendOrder<double>(column, field, sections)
                              : AppendOrder<std::int64_t>(column, field, sections));
    field.record.sections[1] = sections.End();
    return sections.Begin();  // of the bitmap
  }

  /// Appends the ids with a value in order of (value, id): as many at a time as fit in
  /// memory, which are those between two values of a sample.
  template <typename T>
  absl::Status AppendOrder(const std::byte* column, const WrittenField& field,
                           SectionStream& sections) const {
    const auto for_each = [&](const auto& take) {
      for (std::uint64_t id = 0; id < target_.n; ++id) {
        if ((field.present[id / 64] >> id % 64 & 1) == 0) continue;
        T value;
        std::memcpy(&value, column + id * 8, sizeof(value));
        take(value, static_cast<std::uint32_t>(id));
      }
    };
    using Entry = std::pair<T, std::uint32_t>;
    constexpr std::uint64_t kSample = 1 << 16;
    const std::uint64_t most = std::max<std::uint64_t>(target_.memory / sizeof(Entry), kSample),
                        step = target_.n / kSample + 1;
    std::vector<T> sample;
    for_each([&](T value, std::uint32_t id) {
      if (id % step == 0) sample.push_back(value);
    });
    std::sort(sample.begin(), sample.end());
    std::optional<T> low;
    for (std::size_t next = 0; next <= sample.size();) {
      next += std::max<std::uint64_t>(1, most / step / 2);
      const std::optional<T> high =
          target_.n > most && next < sample.size() ? std::optional(sample[next]) : std::nullopt;
      if (!high.has_value()) next = sample.size() + 1;
      std::vector<Entry> some;
      for_each([&](T value, std::uint32_t id) {
        if ((!low.has_value() || value >= *low) && (!high.has_value() || value < *high))
          some.emplace_back(value, id);
      });
      std::sort(some.begin(), some.end());
      std::vector<std::uint32_t> ids(some.size());
      std::transform(some.begin(), some.end(), ids.begin(),
                     [](const Entry& entry) { return entry.second; });
      HMANN_RETURN_IF_ERROR(sections.Append(ids));
      low = high;
    }
    return absl::OkStatus();
  }

  static absl::Status EndField(WrittenField& field, SectionStream& sections) {
    const Roaring present = BitmapOfWords(field.present);
    field.record.rows = roaring_bitmap_get_cardinality(present.get());
    HMANN_RETURN_IF_ERROR(AppendBitmap(present, field, sections));
    field.record.sections[3] = sections.End();
    HMANN_ASSIGN_OR_RETURN(field.record.sections[2], sections.Write(field.ends));
    field.present = {};
    return absl::OkStatus();
  }

  absl::Status WriteDirectory(AttrsHeader& header, SectionStream& sections) {
    std::map<std::string, const WrittenField*> by_name;
    for (WrittenField& field : fields_) {
      field.record.type = static_cast<std::uint32_t>(field.field.type);
      field.record.name_bytes = static_cast<std::uint32_t>(field.field.name.size());
      by_name[field.field.name] = &field;
    }
    HMANN_RETURN_IF_ERROR(sections.Begin());
    for (const auto& [name, field] : by_name) {
      std::string padded = name;
      padded.resize(RoundUp(name.size(), 8));
      HMANN_RETURN_IF_ERROR(sections.Append(&field->record, sizeof(field->record)));
      HMANN_RETURN_IF_ERROR(sections.Append(padded.data(), padded.size()));
    }
    header.fields = static_cast<std::uint32_t>(fields_.size());
    header.n = target_.n;
    header.content_hash = target_.content_hash;
    header.directory = sections.End();
    return absl::OkStatus();
  }

  const AttributeRows& rows_;
  const LabelIds& ids_;
  const AttrsTarget& target_;
  Progress& progress_;
  std::vector<WrittenField> fields_;
};

}  // namespace

absl::Status WriteAttributes(const AttributeRows& rows, const LabelIds& ids,
                             const AttrsTarget& target, Progress& progress) {
  return AttrsWriter(rows, ids, target, progress).Write();
}

}  // namespace hmann
