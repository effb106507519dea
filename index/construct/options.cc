#include "hmann/build_options.h"
#include "index/base/errors.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/codes/code_layout.h"

namespace hmann {

std::string_view Name(BuildMethod method) {
  return method == BuildMethod::kPartition ? "partition" : "insertion";
}

absl::StatusOr<BuildMethod> ParseBuildMethod(std::string_view name) {
  for (const BuildMethod method : {BuildMethod::kInsertion, BuildMethod::kPartition}) {
    if (Name(method) == name) return method;
  }
  return InvalidArgument("method \"", std::string(name),
                         "\" found, insertion or partition expected");
}

BuildMethod DefaultMethod(DType dtype, Metric metric) {
  return metric == Metric::kInnerProduct && !IsFloat(dtype) ? BuildMethod::kInsertion
                                                            : BuildMethod::kPartition;
}

std::uint32_t DefaultM(DType dtype, std::uint32_t dim) {
  constexpr std::uint64_t kShort = 384;
  return dim * SizeOf(dtype) > kShort ? 24 : 16;
}

absl::Status BuildOptions::Validate() const {
  const bool in_memory = vectors.data != nullptr;
  if (from_index.empty() && base.empty() && !in_memory)
    return InvalidArgument("base: no vector file given");
  if (in_memory && !base.empty())
    return InvalidArgument("base: a vector file and vectors in memory: give one");
  if (!labels.empty() && !label_values.empty())
    return InvalidArgument("labels: a file and labels in memory: give one");
  if (!from_index.empty() &&
      !(base.empty() && !in_memory && labels.empty() && label_values.empty() &&
        from_hnswlib.empty() && from_faiss.empty())) {
    return InvalidArgument(
        "from_index has vectors, labels and links of its own: give no other input");
  }
  if (!from_index.empty() && dtype.has_value())
    return InvalidArgument("dtype: a finished index keeps that of its vectors");
  if (out.empty()) return InvalidArgument("out: no index file given");
  if (m.has_value() && (*m < 2 || *m > 512))
    return InvalidArgument("m: expected 2 to 512, found ", *m);
  if (ef_construction < 1 || ef_construction > 100000)
    return InvalidArgument("ef_construction: expected 1 to 100000, found ", ef_construction);
  if (!(alpha >= 1 && alpha <= 2)) return InvalidArgument("alpha: expected 1 to 2, found ", alpha);
  if (promote.has_value() && !(*promote > 0 && *promote < 1))
    return InvalidArgument("promote: expected a share between 0 and 1, found ", *promote);
  if (!from_hnswlib.empty() && !from_faiss.empty()) {
    return InvalidArgument("from_hnswlib and from_faiss both give a finished graph: give one");
  }
  if (bits.value_or(0) != 0 && !IsCodeBits(*bits))
    return InvalidArgument("bits: expected 0, 1, 2 or 4, found ", *bits);
  if (replicas.has_value() && (*replicas < 1 || *replicas > 2))
    return InvalidArgument("replicas: expected 1 or 2, found ", *replicas);
  if (memory > 0 && work.empty())
    return InvalidArgument("build-memory: needs a folder to work in (--work)");
  if (workers < 0 || workers > 1024 || (workers > 0 && (memory == 0 || worker_program.empty())))
    return InvalidArgument(
        "workers: up to 1024, for a build within bounded memory (--build-memory)");
  if (workers > 0 && method == BuildMethod::kInsertion)
    return InvalidArgument("workers: one process inserts node after node: leave them out");
  if (memory == 0 && !work.empty())
    return InvalidArgument("work: is for a build within bounded memory (--build-memory)");
  if (memory > 0 && !(from_hnswlib.empty() && from_faiss.empty()))
    return InvalidArgument(
        "build-memory: graphs of other libraries are read into memory: leave it out");
  if (memory > 0 && in_memory)
    return InvalidArgument("build-memory: bounds builds from a vector file");
  if (threads < 0 || threads > 1024)
    return InvalidArgument("threads: expected 0 to 1024, found ", threads);
  return absl::OkStatus();
}

absl::Status BuildOptions::CheckOut() const {
  HMANN_RETURN_IF_ERROR(CheckNotInput(out, {base, labels, from_hnswlib, from_faiss}));
  return AtomicFile::Create(out).status();
}

}  // namespace hmann
