// How a test bench drives the kernel; bench_config.hpp, beside this file, fills it in.
#ifndef APPROX_DRIVER_HPP
#define APPROX_DRIVER_HPP

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <ap_int.h>
#include <hls_stream.h>

namespace driver {

struct Signal {
    const char *name;
    char level;  // 'e' one of each element, 'r' one of each row, 'c' one of each channel
    int width;
    bool is_signed;
};

extern const Signal SIGNALS[];  // in the order of computation; an index is a signal's number
extern const int SIGNAL_COUNT;
extern const char *const TOP;
extern const int LANES;
extern const bool HAS_RESIDUAL;
extern const bool EXACT_WIDTHS;  // false with run-time ports: signals are as wide as any layer asks

// Layers that the kernel can compute: one, or with run-time ports as many as were exported.
int layer_count();
int find_layer(const char *digest);  // -1: none has this digest
const char *digest(int layer);
int dim(int layer);

// rows x dim codes through the kernel's streams, in one call of the kernel. residual and sum are
// null for a kernel without residual add.
void run_rows(int layer, const long long *x, const long long *residual, int rows, long long *y,
              long long *sum);

// Rows of codes as beats; lanes past a row's end hold `padding` codes, which no kernel may use.
template <class T, class BEAT>
void send_rows(hls::stream<BEAT> &stream, const long long *codes, int rows, int dim, int lanes,
               long long padding) {
    for (int row = 0; row < rows; row++) {
        for (int start = 0; start < dim; start += lanes) {
            BEAT beat = 0;
            for (int lane = 0; lane < lanes; lane++) {
                const int index = start + lane;
                const T code = index < dim ? codes[(long long)row * dim + index] : padding;
                beat.range((lane + 1) * T::width - 1, lane * T::width) =
                    code.range(T::width - 1, 0);
            }
            stream.write(beat);
        }
    }
}

template <class T, class BEAT>
void receive_rows(hls::stream<BEAT> &stream, long long *codes, int rows, int dim, int lanes) {
    for (int row = 0; row < rows; row++) {
        for (int start = 0; start < dim; start += lanes) {
            const BEAT beat = stream.read();
            for (int lane = 0; lane < lanes && start + lane < dim; lane++) {
                T code;
                code.range(T::width - 1, 0) =
                    beat.range((lane + 1) * T::width - 1, lane * T::width);
                codes[(long long)row * dim + start + lane] = code.to_int64();
            }
        }
    }
}

// A beat too few makes the stream's read fail; one too many is found here.
template <class BEAT> void require_empty(hls::stream<BEAT> &stream, const char *name) {
    if (stream.empty())
        return;
    std::printf("FAIL: beats are left in the stream %s\n", name);
    std::exit(1);
}

}  // namespace driver

#endif
