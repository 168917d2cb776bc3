// A driver without a kernel, for the tests of the bench: it answers with stored codes, changed as the
// environment asks. fake_config.hpp, which the test writes, holds the signals and the layers.
//   FAKE_CODES     folder of NUMBER.bin: each signal's codes, int64, of the layers one after another
//   FAKE_CHANGE    "signal,row,index,delta": that code of the layer 0 is wrong by delta, wherever it
//                  is told; signal -1 is the stream of sums
//   FAKE_AGAIN     the same, but only where it is reported for the second time
//   FAKE_SILENT    "signal,row,index": never reported
//   FAKE_EXTRA     "signal,index": reported at the end; "row": one row too many
//   FAKE_EARLY     a signal is reported before the first row
//   FAKE_UNWRITTEN the last y is never written
//   FAKE_RESIDUAL  the kernel adds a residual
//   FAKE_WIDE      the kernel's signals may be wider than the vectors'
#ifndef FAKE_DRIVER_HPP
#define FAKE_DRIVER_HPP

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

void approx_trace_row();
void approx_trace(int signal, int index, long long code);

namespace driver {

struct Signal {
    const char *name;
    char level;
    int width;
    bool is_signed;
};

#include "fake_config.hpp"  // SIGNALS, SIGNAL_COUNT, DIGESTS, ROWS, DIM, LANES

extern const bool HAS_RESIDUAL;
const bool HAS_RESIDUAL = std::getenv("FAKE_RESIDUAL") != nullptr;

extern const bool EXACT_WIDTHS;
const bool EXACT_WIDTHS = std::getenv("FAKE_WIDE") == nullptr;

inline int layer_count() { return 2; }
inline const char *digest(int layer) { return DIGESTS[layer]; }
inline int dim(int) { return DIM; }

inline int find_layer(const char *text) {
    for (int i = 0; i < 2; ++i) {
        if (std::strcmp(text, DIGESTS[i]) == 0) return i;
    }
    return -1;
}

// Numbers of an environment variable; none if it is not set.
inline std::vector<long long> numbers(const char *name) {
    std::vector<long long> found;
    const char *text = std::getenv(name);
    while (text != nullptr && *text != '\0') {
        char *end;
        found.push_back(std::strtoll(text, &end, 10));
        text = *end == ',' ? end + 1 : "";
    }
    return found;
}

// What a change adds to a code.
inline long long change(const char *name, int layer, int signal, int row, int index) {
    const std::vector<long long> c = numbers(name);
    if (c.size() != 4 || layer != 0) return 0;
    return c[0] == signal && c[1] == row && c[2] == index ? c[3] : 0;
}

inline std::vector<long long> stored(int layer, int signal, int rows, int a_row) {
    std::vector<long long> codes(static_cast<std::size_t>(rows) * a_row);
    const std::string path = std::string(std::getenv("FAKE_CODES")) + "/" +
                             std::to_string(signal) + ".bin";
    std::ifstream file(path, std::ios::binary);
    file.seekg(layer == 0 ? 0 : static_cast<std::streamoff>(ROWS[0]) * a_row * 8);
    file.read(reinterpret_cast<char *>(codes.data()),
              static_cast<std::streamsize>(codes.size() * 8));
    if (!file) std::abort();
    return codes;
}

#ifdef APPROX_TRACE
inline void trace_signal(int layer, int signal, int row, int a_row, const long long *codes) {
    const std::vector<long long> silent = numbers("FAKE_SILENT");
    for (int i = 0; i < a_row; ++i) {
        if (silent.size() == 3 && silent[0] == signal && silent[1] == row && silent[2] == i) continue;
        const long long code = codes[i] + change("FAKE_CHANGE", layer, signal, row, i);
        approx_trace(signal, i, code);
        approx_trace(signal, i, code + change("FAKE_AGAIN", layer, signal, row, i));
    }
}

inline void trace_rows(int layer, int rows) {
    std::vector<std::vector<long long>> codes;
    for (int s = 0; s < SIGNAL_COUNT; ++s) {
        const char level = SIGNALS[s].level;
        codes.push_back(stored(layer, s, level == 'c' ? 0 : rows, level == 'e' ? DIM : 1));
    }
    if (std::getenv("FAKE_EARLY") != nullptr) approx_trace(0, 0, 0);
    for (int row = 0; row < rows; ++row) {
        approx_trace_row();
        for (int s = 0; s < SIGNAL_COUNT; ++s) {
            const int a_row = SIGNALS[s].level == 'e' ? DIM : 1;
            if (SIGNALS[s].level != 'c') trace_signal(layer, s, row, a_row, &codes[s][row * a_row]);
        }
    }
    const char *extra = std::getenv("FAKE_EXTRA");
    const std::vector<long long> two = numbers("FAKE_EXTRA");
    if (extra != nullptr && std::strcmp(extra, "row") == 0) approx_trace_row();
    if (two.size() == 2) approx_trace(static_cast<int>(two[0]), static_cast<int>(two[1]), 0);
}
#endif

inline void run_rows(int layer, const long long *x, const long long *residual, int rows,
                     long long *y, long long *sum) {
    const int count = rows * DIM;
    const std::vector<long long> y_codes = stored(layer, Y, rows, DIM);
    const std::vector<long long> x_codes = stored(layer, X, rows, DIM);
    if ((residual != nullptr) != HAS_RESIDUAL || (sum != nullptr) != HAS_RESIDUAL) std::abort();
    for (int i = 0; i < count; ++i) {
        const long long added = x[i] + (residual == nullptr ? 0 : residual[i]);
        if (added != x_codes[i]) std::abort();  // the bench gave other codes than those of the vectors
        if (sum != nullptr) sum[i] = added + change("FAKE_CHANGE", layer, -1, i / DIM, i % DIM);
        if (i == count - 1 && std::getenv("FAKE_UNWRITTEN") != nullptr) continue;
        y[i] = y_codes[i] + change("FAKE_CHANGE", layer, Y, i / DIM, i % DIM);
    }
#ifdef APPROX_TRACE
    trace_rows(layer, rows);
#endif
}

}  // namespace driver

#endif
