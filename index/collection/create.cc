#include <sys/random.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "datasets/vector_file.h"
#include "index/base/check.h"
#include "index/base/errors.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/collection/collection_impl.h"

namespace hmann {
namespace {

/// Links a file, or copies it from another file system.
absl::Status LinkFile(const std::string& from, const std::string& to) {
  std::error_code error;
  std::filesystem::create_hard_link(std::filesystem::canonical(from, error), to, error);
  if (!error) return absl::OkStatus();
  std::filesystem::copy_file(from, to, error);
  return error ? ErrnoError(error.value(), "copy", from) : SyncPath(to);
}

/// Links an index and what belongs to it.
absl::Status LinkIndex(const std::string& from, const std::string& to) {
  HMANN_RETURN_IF_ERROR(LinkFile(from, to));
  for (const char* suffix : {".tuned", ".attrs"}) {
    std::error_code error;
    if (std::filesystem::exists(from + suffix, error))
      HMANN_RETURN_IF_ERROR(LinkFile(from + suffix, to + suffix));
  }
  return absl::OkStatus();
}

/// The share that gives an index as many promoted nodes; absent: the default does.
std::optional<double> ShareOf(const IndexInfo& info) {
  const std::uint64_t promoted = info.layers.size() > 1 ? info.layers[1].nodes : 0;
  const auto n = static_cast<double>(info.n);
  if (static_cast<std::uint64_t>(n * kDefaultPromote) == promoted) return std::nullopt;
  return (static_cast<double>(promoted) + 0.5) / n;
}

std::string NewId() {
  std::array<std::uint64_t, 2> random{};
  HMANN_CHECK(::getrandom(random.data(), sizeof(random), 0) == sizeof(random));
  return absl::StrFormat("%016x%016x", random[0], random[1]);
}

absl::Status CheckLabelsDiffer(const Index& index) {
  if (!index.info().user_labels) return absl::OkStatus();
  std::vector<std::uint64_t> all;
  all.reserve(index.info().n);
  HMANN_RETURN_IF_ERROR(index.ForLabels(
      [&](auto, auto labels) { all.insert(all.end(), labels.begin(), labels.end()); }));
  std::sort(all.begin(), all.end());
  const auto twice = std::adjacent_find(all.begin(), all.end());
  if (twice != all.end()) {
    return InvalidArgument("label ", *twice,
                           ": several vectors have it; in a collection, a label "
                           "has one vector");
  }
  if (!all.empty() && all.back() == ~std::uint64_t{0})
    return InvalidArgument("label 2^64 - 1 is no label of a collection");
  return absl::OkStatus();
}

/// Takes over a finished index, its parameters and its attributes.
absl::Status Adopt(const std::string& from, const std::string& folder, Manifest* manifest,
                   std::vector<AttributeField>* fields) {
  HMANN_ASSIGN_OR_RETURN(const std::shared_ptr<const Index> index,
                         Index::Open(from, {.fast = "mapped", .sq_bits = 0}));
  HMANN_RETURN_IF_ERROR(CheckLabelsDiffer(*index));
  const IndexInfo& info = index->info();
  BuildOptions& build = manifest->build;
  manifest->dtype = info.dtype;
  manifest->dim = info.dim;
  build.metric = info.metric;
  build.m = info.m;
  build.ef_construction = info.ef_construction;
  build.alpha = info.alpha;
  build.seed = info.seed;
  build.bits = info.codes.bits;
  build.replicas = std::max(info.codes.replicas, 1u);
  build.promote = ShareOf(info);
  manifest->generation = 1;
  manifest->rows = info.n;
  manifest->content_hash = info.content_hash;
  const auto attributes = index->attributes();
  if (!attributes.ok() && !absl::IsNotFound(attributes.status())) return attributes.status();
  if (!attributes.ok()) return LinkIndex(from, manifest->Sealed(folder));
  for (const AttributeFieldInfo& info_of : (*attributes)->fields()) {
    const AttributeField& field = info_of.field;
    for (const AttributeField& given : *fields) {
      if (given.name == field.name && given.type != field.type) {
        return InvalidArgument("types: ", field.name, " is of type ",
                               std::string(AttributeTypeName(field.type)), " in ", from);
      }
    }
    if (std::find(fields->begin(), fields->end(), field) == fields->end()) fields->push_back(field);
  }
  return LinkIndex(from, manifest->Sealed(folder));
}

absl::Status CopyQueries(const std::string& from, const std::string& folder, Manifest* manifest) {
  HMANN_ASSIGN_OR_RETURN(VectorFile queries, VectorFile::Open(from));
  HMANN_RETURN_IF_ERROR(queries.CheckShape(manifest->dim, manifest->dtype, "the collection"));
  manifest->queries = "queries" + std::filesystem::path(from).extension().string();
  std::error_code error;
  const std::string to = folder + "/" + manifest->queries;
  std::filesystem::copy_file(from, to, error);
  return error ? ErrnoError(error.value(), "copy", from) : SyncPath(to);
}

}  // namespace

absl::Status Collection::Create(const std::string& folder, const CreateCollection& options) {
  HMANN_ASSIGN_OR_RETURN(NewFolder made, NewFolder::Make(folder));
  Manifest manifest;
  manifest.id = NewId();
  manifest.build = options.build;
  std::vector<AttributeField> fields;
  if (!options.types.empty()) {
    HMANN_ASSIGN_OR_RETURN(fields, ParseAttributeFields(options.types));
  }
  if (options.from.empty()) {
    manifest.dtype = options.dtype;
    manifest.dim = options.dim;
    manifest.build.m = options.build.m.value_or(DefaultM(options.dtype, options.dim));
    BuildOptions check = options.build;
    check.base = check.out = "-";
    HMANN_RETURN_IF_ERROR(check.Validate());
    HMANN_RETURN_IF_ERROR(ChooseKernels(options.dtype, options.build.metric, options.dim).status());
  } else {
    HMANN_RETURN_IF_ERROR(Adopt(options.from, made.temporary(), &manifest, &fields));
  }
  if (!options.queries.empty())
    HMANN_RETURN_IF_ERROR(CopyQueries(options.queries, made.temporary(), &manifest));
  HMANN_RETURN_IF_ERROR(Journal::Create(made.temporary(), manifest.id, fields));
  HMANN_RETURN_IF_ERROR(manifest.Write(made.temporary()));
  return made.Commit();
}

absl::StatusOr<std::uint64_t> CollectionImpl::Backup(const std::string& folder) {
  HMANN_ASSIGN_OR_RETURN(NewFolder made, NewFolder::Make(folder));
  const std::scoped_lock no_prune(prune_mutex_);
  std::uint64_t covered = 0;
  {
    const std::scoped_lock lock(writing_);
    HMANN_RETURN_IF_ERROR(manifest_.Write(made.temporary()));
    covered = manifest_.covered;
    if (manifest_.rows > 0)
      HMANN_RETURN_IF_ERROR(
          LinkIndex(manifest_.Sealed(folder_), manifest_.Sealed(made.temporary())));
  }
  if (!manifest_.queries.empty()) {
    HMANN_RETURN_IF_ERROR(
        LinkFile(folder_ + "/" + manifest_.queries, made.temporary() + "/" + manifest_.queries));
  }
  // Readers of the journal hold no writer up.
  HMANN_ASSIGN_OR_RETURN(const std::unique_ptr<Journal> journal,
                         Journal::Open(folder_, manifest_.id, false));
  HMANN_RETURN_IF_ERROR(journal->CopyTo(Journal::PathIn(made.temporary())));
  HMANN_RETURN_IF_ERROR(SyncPath(Journal::PathIn(made.temporary())));
  HMANN_ASSIGN_OR_RETURN(const std::unique_ptr<Journal> copy,
                         Journal::Open(made.temporary(), manifest_.id, true));
  HMANN_ASSIGN_OR_RETURN(const std::uint64_t last, copy->Last());
  HMANN_RETURN_IF_ERROR(made.Commit());
  return std::max(last, covered);
}

}  // namespace hmann
