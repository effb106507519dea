#include "tools/run_commands.h"

namespace hmann::tools {
namespace {

constexpr Command kCommands[] = {
    {"data", "List, fetch, generate and convert data sets; compute exact neighbors",
     "hmann data info datasets/sample/base.u8bin", SetupData},
    {"build", "Build an index from a vector file",
     "hmann build --base datasets/sample/base.u8bin --out sample.hmann", SetupBuild,
     "--base --out --metric --labels --attrs --build-memory --work --json"},
    {"build-job", "Run some jobs of one stage of a build with --work",
     "hmann build --base datasets/sample/base.u8bin --out sample.hmann --build-memory 160MiB "
     "--work "
     "build/work --keep-work && hmann build-job --work build/work --stage l0-final --jobs 0-0",
     SetupBuildJob},
    {"promote",
     "Rebuild the upper layers and codes of a finished index, for another fast memory size",
     "hmann promote sample.hmann --promote 0.1 --out promoted.hmann", SetupPromote,
     "--promote --bits --out --fast-memory --json"},
    {"profile", "Measure this machine's memory: latency, lines in flight, bandwidth",
     "hmann profile --out build/device.json", SetupProfile},
    {"plan", "Plan what to keep in a given fast memory, and what building it takes",
     "hmann plan --rows 1000000000 --dim 128 --dtype u8 --fast-memory 96GiB", SetupPlan,
     "--base --rows --dim --dtype --fast-memory --slow --json"},
    {"tune",
     "Find the parameters that reach a recall or latency, by model and measurement; store them "
     "next to the index",
     "hmann tune sample.hmann --queries datasets/sample/query.u8bin --groundtruth "
     "datasets/sample/query.gt100",
     SetupTune, "--queries --groundtruth --k --recall --latency --slow --sq --json"},
    {"info",
     "Show what an index or a collection holds; of an index, its bytes next to the formulas",
     "hmann info sample.hmann", SetupInfo},
    {"attrs", "Give the vectors of an index attributes, which filters select by",
     "hmann attrs sample.hmann --from datasets/sample/attributes.csv", SetupAttrs},
    {"verify", "Check every checksum and invariant of an index or a collection",
     "hmann verify sample.hmann", SetupVerify},
    {"upgrade", "Convert an index of format 3 to the current format, without building it anew",
     "hmann upgrade old.hmann --out new.hmann", SetupUpgrade},
    {"search", "Search an index or a collection in this process",
     "hmann search sample.hmann --queries datasets/sample/query.u8bin --groundtruth "
     "datasets/sample/query.gt100",
     SetupSearch, "--queries --k --recall --filter --groundtruth --out --stats --slow --json"},
    {"get", "Fetch vectors of an index or a collection by label",
     "hmann get sample.hmann --labels 17,3 --json", SetupGet},
    {"create", "Create a collection: a folder of vectors that change while they are searched",
     "hmann create sample.live --from sample.hmann", SetupCreate,
     "--dim --dtype --metric --from --queries --types --json"},
    {"put", "Insert vectors into a collection, or replace those with the same labels",
     "hmann put sample.live --base datasets/sample/base.u8bin --rows 1000", SetupPut},
    {"update", "Change attributes of vectors in a collection",
     "echo '{\"label\": 17, \"seen\": true}' > build/seen.ndjson && hmann update sample.live "
     "--attrs build/seen.ndjson",
     SetupUpdate},
    {"delete", "Delete vectors of a collection", "hmann delete sample.live 17 3", SetupDelete},
    {"compact", "Merge what has changed in a collection into a new sealed index",
     "hmann compact sample.live", SetupCompact},
    {"backup", "Copy a collection as it is at one moment, also while others write",
     "hmann backup sample.live build/sample.live", SetupBackup},
    {"serve", "Serve indexes over gRPC",
     "hmann serve --index sample=sample.hmann --listen 127.0.0.1:50051", SetupServe,
     "--index --config --listen --tls-cert --tls-key --tokens --http --slow"},
    {"query", "Search an index through a server",
     "hmann query --server 127.0.0.1:50051 --index sample --queries datasets/sample/query.u8bin",
     SetupQuery, "--server --index --queries --k --recall --token --ca --json"},
    {"admin", "Change what a running server serves: load, swap, unload; check it",
     "hmann admin status 127.0.0.1:50051 --token my-token", SetupAdmin},
    EvalRow(SetupEval),
    {"completion", "Print a shell completion script", "source <(hmann completion bash)",
     SetupCompletion},
    {"man", "Write the manual pages", "hmann man --out build/man1", SetupMan},
};

}  // namespace
}  // namespace hmann::tools

int main(int argc, char** argv) {
  return hmann::tools::RunCommands(hmann::tools::kCommands, argc, argv);
}
