// Runs the kernel on any codes: for comparing it with the model, code for code.
//
//   runner ROWS X_FILE Y_FILE [TRACE_FILE]
//
// X_FILE holds ROWS rows of codes, Y_FILE gets as many, both int64 of this machine. Compiled with
// -DAPPROX_TRACE, TRACE_FILE gets every named signal, one after the other in the order of
// driver::SIGNALS: rows x dim values of an element signal, rows of a row signal.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "bench_config.hpp"

static std::vector<std::vector<long long> > traced;
static long long trace_rows = -1;

#ifdef APPROX_TRACE
void approx_trace_row() { trace_rows++; }

void approx_trace(int signal, int index, long long code) {
    const bool element = driver::SIGNALS[signal].level == 'e';
    const long long width = element ? driver::dim(0) : 1;
    traced[signal][trace_rows * width + index] = code;
}
#endif

static void fail(const char *what, const char *path) {
    std::fprintf(stderr, "runner: %s %s\n", what, path);
    std::exit(2);
}

static std::vector<long long> read_codes(const char *path, size_t count) {
    std::vector<long long> codes(count);
    std::FILE *file = std::fopen(path, "rb");
    if (!file || std::fread(codes.data(), sizeof(long long), count, file) != count)
        fail("cannot read", path);
    std::fclose(file);
    return codes;
}

static void write_codes(std::FILE *file, const std::vector<long long> &codes, const char *path) {
    if (std::fwrite(codes.data(), sizeof(long long), codes.size(), file) != codes.size())
        fail("cannot write", path);
}

int main(int argc, char **argv) {
    if (argc < 4)
        fail("usage:", "ROWS X_FILE Y_FILE [TRACE_FILE]");
    const int rows = std::atoi(argv[1]), dim = driver::dim(0);
    const size_t count = (size_t)rows * dim;
    const std::vector<long long> x = read_codes(argv[2], count);
    std::vector<long long> y(count);
    for (int i = 0; i < driver::SIGNAL_COUNT; i++) {
        const char level = driver::SIGNALS[i].level;
        traced.push_back(std::vector<long long>(level == 'e' ? count : level == 'r' ? rows : 0));
    }
    driver::run_rows(0, x.data(), 0, rows, y.data(), 0);
    std::FILE *file = std::fopen(argv[3], "wb");
    if (!file)
        fail("cannot write", argv[3]);
    write_codes(file, y, argv[3]);
    std::fclose(file);
    if (argc > 4) {
        file = std::fopen(argv[4], "wb");
        if (!file)
            fail("cannot write", argv[4]);
        for (const std::vector<long long> &signal : traced)
            write_codes(file, signal, argv[4]);
        std::fclose(file);
    }
    return 0;
}
