/// A small file of attributes, the rows it was made of, and a slow evaluation of filters.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "datasets/testing/temp_folder.h"
#include "index/attributes/attrs_writer.h"
#include "index/attributes/testing/reseal_attrs.h"
#include "index/base/random.h"

namespace hmann {

/// The values of one vector: by field, one or several.
using SampleRow = std::map<std::string, std::vector<FilterValue>>;

/// Rows with every type of field. Some have no value of a field.
inline std::vector<SampleRow> MakeSampleRows(std::uint64_t n, std::uint64_t seed) {
  std::vector<SampleRow> rows(n);
  for (std::uint64_t i = 0; i < n; ++i) {
    const auto any = [&](std::uint64_t stream, std::uint64_t below) {
      return static_cast<std::int64_t>(RandomBelow(seed + stream, i, below));
    };
    SampleRow& row = rows[i];
    if (any(1, 10) > 0) row["year"] = {any(2, 30) + 1990};
    if (any(3, 10) > 1) row["price"] = {static_cast<double>(any(4, 1000)) / 8 - 20};
    if (any(5, 10) > 2) row["sold"] = {any(6, 2) == 1};
    if (any(7, 10) > 2) row["made"] = {any(8, 1000) * 86'400'000'000};
    for (std::int64_t t = any(9, 4); t > 0; --t)
      row["tag"].push_back("t" + std::to_string(any(10 + static_cast<std::uint64_t>(t), 20)));
    for (std::int64_t t = any(20, 3); t > 0; --t)
      row["number"].push_back(any(20 + static_cast<std::uint64_t>(t), 50) - 25);
    for (auto& [field, values] : row) {
      std::sort(values.begin(), values.end());
      values.erase(std::unique(values.begin(), values.end()), values.end());
    }
  }
  return rows;
}

inline std::string SampleJson(const SampleRow& row) {
  const auto text = [](const FilterValue& value) {
    if (const auto* tag = std::get_if<std::string>(&value)) return '"' + *tag + '"';
    if (const auto* is = std::get_if<bool>(&value)) return std::string(*is ? "true" : "false");
    if (const auto* real = std::get_if<double>(&value)) return std::to_string(*real);
    return std::to_string(std::get<std::int64_t>(value));
  };
  std::string line;
  for (const auto& [field, values] : row) {
    const bool list = field == "tag" || field == "number";
    line += (line.empty() ? "\"" : ", \"") + field + "\": " + (list ? "[" : "");
    for (std::size_t i = 0; i < values.size(); ++i) line += (i > 0 ? ", " : "") + text(values[i]);
    line += list ? "]" : "";
  }
  return "{" + line + "}\n";
}

/// Whether a filter holds for a row, by its definition.
inline bool Holds(const FilterNode& node, const SampleRow& row) {
  using Kind = FilterNode::Kind;
  using Op = FilterNode::Op;
  const auto holds = [&](const FilterNode& child) { return Holds(child, row); };
  if (node.kind == Kind::kAnd)
    return std::all_of(node.children.begin(), node.children.end(), holds);
  if (node.kind == Kind::kOr) return std::any_of(node.children.begin(), node.children.end(), holds);
  if (node.kind == Kind::kNot) return !Holds(node.children[0], row);
  const auto found = row.find(node.field);
  if (node.kind == Kind::kNull) return found == row.end();
  if (found == row.end()) return false;
  const auto order = [](const FilterValue& a, const FilterValue& b) {
    const auto number = [](const FilterValue& value) {
      const auto* whole = std::get_if<std::int64_t>(&value);
      return whole != nullptr ? static_cast<long double>(*whole)
                              : static_cast<long double>(std::get<double>(value));
    };
    if (a.index() > 1 || b.index() > 1) return a < b ? -1 : a == b ? 0 : 1;
    return number(a) < number(b) ? -1 : number(a) == number(b) ? 0 : 1;
  };
  std::vector<FilterValue> values = node.values;
  for (FilterValue& value : values) {
    if (node.field == "made" && std::holds_alternative<std::string>(value))
      value = *ParseAttributeTime(std::get<std::string>(value));
  }
  const auto is_any = [&](const FilterValue& value) {
    return std::any_of(found->second.begin(), found->second.end(),
                       [&](const FilterValue& own) { return order(own, value) == 0; });
  };
  if (node.kind == Kind::kIn) return std::any_of(values.begin(), values.end(), is_any);
  if (node.kind == Kind::kHas) return std::all_of(values.begin(), values.end(), is_any);
  if (node.op == Op::kEqual) return is_any(values[0]);
  if (node.op == Op::kNotEqual) return !is_any(values[0]);
  const int side = order(found->second[0], values[0]);
  if (node.op == Op::kLess) return side < 0;
  if (node.op == Op::kLessEqual) return side <= 0;
  return node.op == Op::kGreater ? side > 0 : side >= 0;
}

/// Attributes of n vectors in a folder of their own. Row i belongs to label i and to id
/// `id_of[i]`.
struct SampleAttrs {
  static constexpr std::uint64_t kHash = 0x1234'5678'9abc'def0;

  explicit SampleAttrs(std::uint64_t n, std::uint64_t memory = 1 << 30, std::uint64_t seed = 1)
      : rows(MakeSampleRows(n, seed)), id_of(RandomPermutation(static_cast<std::uint32_t>(n), 7)) {
    std::ofstream out(folder / "rows.ndjson");
    for (const SampleRow& row : rows) out << SampleJson(row);
    out.close();
    const auto read = AttributeRows::Open(folder / "rows.ndjson", {{"made", AttributeType::kTime}});
    EXPECT_TRUE(read.ok()) << read.status();
    const absl::Status written = Write(**read, memory);
    EXPECT_TRUE(written.ok()) << written;
  }

  absl::Status Write(const AttributeRows& from, std::uint64_t memory) const {
    LabelIds ids(rows.size(), false);
    for (std::size_t i = 0; i < rows.size(); ++i) ids.Add(i, id_of[i]);
    ids.Sort();
    Progress quiet(Progress::Show::kNever);
    return WriteAttributes(from, ids, {path, rows.size(), kHash, memory}, quiet);
  }
  absl::StatusOr<std::shared_ptr<const Attributes>> Open() const {
    return Attributes::Open(path, rows.size(), kHash);
  }

  TempFolder folder;
  std::vector<SampleRow> rows;
  std::vector<std::uint32_t> id_of;
  std::string path = folder / "x.attrs";
};

inline void WriteAll(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

}  // namespace hmann
