// The test bench: replays golden vectors through the kernel and compares every output code.
//
//   approx_rmsnorm_tb [VECTORS [RESIDUAL]]
//
// VECTORS    a folder of golden vectors; or a folder whose subfolders all are such, one for each
//            layer of a kernel with runtime ports, replayed in order of name. Default: the path
//            compiled in with -DVECTORS='"..."', else "vectors". C simulation and co-simulation in
//            Vitis run in another directory: run_hls.tcl passes the absolute path with -argv.
// RESIDUAL   where the kernel adds a residual: the folder of addends (residual.hpp), with a
//            subfolder for each layer where VECTORS has them. Default, where VECTORS is PATH/NAME:
//            PATH/residual/NAME, as exported projects have it.
//
// Compiled with -DAPPROX_TRACE, as the kernel then must be too, every named element and row signal
// is compared as well, each time it is reported.
//
// Returns 0 if all is equal; 1 on any difference, whose first one is told in a line that begins with
// MISMATCH; 2 if the files or arguments are not fit for use. A kernel that reads an empty stream
// aborts (hls_stream.h): hardware would wait for ever.
#include <cstdio>
#include <exception>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "compare.hpp"
#include "driver.hpp"
#include "files.hpp"
#include "residual.hpp"
#include "trace.hpp"
#include "vectors.hpp"

#ifndef VECTORS
#define VECTORS "vectors"
#endif

namespace {

const int DIFFERENT = 1, UNFIT = 2;

// A folder of vectors and that of their addends.
struct Job {
    std::string vectors, residual;
};

#ifdef APPROX_TRACE
bench::Trace *running = nullptr;

// The trace that the kernel reports to, also when a report ends in an exception.
struct Running {
    explicit Running(bench::Trace &trace) { running = &trace; }
    ~Running() { running = nullptr; }
};
#endif

// Where a kernel leaves a code unwritten, none may look as if it were right.
const long long UNWRITTEN = std::numeric_limits<long long>::min();

void run_kernel(const bench::VectorSet &set, const Job &job, bench::Comparison &comparison) {
    const bench::Codes &x = set.codes[set.x];
    bench::Codes y(set.words(), UNWRITTEN);
    if (driver::HAS_RESIDUAL) {
        if (bench::look_at(bench::join(job.residual, ".")) != bench::Found::folder) {
            throw bench::Error(job.residual + " is not a folder; give that of the addends of " +
                               job.vectors + " as the second argument");
        }
        const bench::Residual residual = bench::read_residual(job.residual, set);
        bench::Codes sum(set.words(), UNWRITTEN);
        driver::run_rows(set.layer, residual.a.data(), residual.b.data(), set.rows, y.data(),
                         sum.data());
        comparison.stream(set.x, sum, comparison.sums);
    } else {
        driver::run_rows(set.layer, x.data(), nullptr, set.rows, y.data(), nullptr);
    }
    comparison.stream(set.y, y, comparison.outputs);
}

std::set<int> replayed;  // numbers of the layers whose vectors were read

int replay(const Job &job) {
    const bench::VectorSet set = bench::VectorReader(job.vectors).read();
    replayed.insert(set.layer);
    bench::Comparison comparison(set);
#ifdef APPROX_TRACE
    bench::Trace trace(set, comparison);
    {
        const Running scope(trace);
        run_kernel(set, job, comparison);
    }
    trace.finish();
#else
    run_kernel(set, job, comparison);
#endif
    comparison.print_first();
    comparison.print_summary();
    return comparison.passed() ? 0 : DIFFERENT;
}

// The subfolders of a folder that has no manifest itself, one for each layer.
std::vector<Job> find_layers(const Job &given) {
    std::vector<Job> jobs;
    for (const std::string &name : bench::names_in(given.vectors)) {
        const Job job = {bench::join(given.vectors, name), bench::join(given.residual, name)};
        // A layer whose manifest is lost must not go unnoticed, so anything else is an error.
        const std::string manifest = bench::join(job.vectors, "manifest.json");
        const bool is_folder = bench::look_at(job.vectors) == bench::Found::folder;
        if (!is_folder || bench::look_at(manifest) == bench::Found::nothing) return {};
        jobs.push_back(job);
    }
    return jobs;
}

std::vector<Job> find_jobs(const Job &given) {
    // The folder that is given may itself be a link; nothing in it may.
    if (bench::look_at(bench::join(given.vectors, ".")) != bench::Found::folder) {
        throw bench::Error(given.vectors + " is not a folder; give one of golden vectors");
    }
    const std::string manifest = bench::join(given.vectors, "manifest.json");
    if (bench::look_at(manifest) != bench::Found::nothing) return {given};
    const std::vector<Job> jobs = find_layers(given);
    if (jobs.empty()) {
        throw bench::Error(manifest + " is missing; give a folder of golden vectors, or one whose"
                           " subfolders all are such");
    }
    return jobs;
}

// One set of vectors was asked for by name; a folder of sets must hold one of each layer.
void require_every_layer(const std::string &vectors) {
    for (int layer = 0; layer < driver::layer_count(); ++layer) {
        if (replayed.count(layer) == 0) {
            throw bench::Error(vectors + " has no vectors of the layer with the digest " +
                               driver::digest(layer) + "; each layer must be replayed");
        }
    }
}

std::string residual_of(std::string vectors) {
    while (vectors.size() > 1 && vectors.back() == '/') vectors.pop_back();
    const std::size_t slash = vectors.rfind('/');
    const std::size_t start = slash == std::string::npos ? 0 : slash + 1;
    return vectors.substr(0, start) + "residual/" + vectors.substr(start);
}

Job read_arguments(int argc, char **argv) {
    if (argc > 3) throw bench::Error("too many arguments; allowed: [VECTORS [RESIDUAL]]");
    const std::string vectors = argc > 1 ? argv[1] : VECTORS;
    return {vectors, argc > 2 ? argv[2] : residual_of(vectors)};
}

// 0, 1 or 2; what went wrong is printed.
template <typename Action>
int guarded(const Action &action) {
    try {
        return action();
    } catch (const bench::TraceError &error) {
        std::printf("ERROR %s\n", error.what());
        return DIFFERENT;
    } catch (const std::exception &error) {
        std::printf("ERROR %s\n", error.what());
        return UNFIT;
    }
}

}  // namespace

#ifdef APPROX_TRACE
void approx_trace_row() {
    if (running != nullptr) running->begin_row();
}

void approx_trace(int signal, int index, long long code) {
    if (running != nullptr) running->report(signal, index, code);
}
#endif

int main(int argc, char **argv) {
    const int worst = guarded([&] {
        const Job given = read_arguments(argc, argv);
        const std::vector<Job> jobs = find_jobs(given);
        int found = 0;
        for (const Job &job : jobs) {
            const int result = guarded([&] { return replay(job); });
            found = result > found ? result : found;
        }
        const bool is_one_set = jobs.front().vectors == given.vectors;
        if (found == 0 && !is_one_set) require_every_layer(given.vectors);
        return found;
    });
    std::fflush(stdout);
    return worst;
}
