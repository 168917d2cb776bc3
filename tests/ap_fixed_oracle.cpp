// Converts codes with Xilinx's own ap_fixed, so that tests can compare code for code.
//
// The build writes shapes.inc beside this program: one SHAPE(w1, i1, s1, w2, i2, s2) a conversion
// from ap_fixed<w1,i1> (s1: signed) to w2, i2, s2, and one FLOAT(w2, i2, s2) a conversion from
// float. Each shape becomes 28 cases, one for each rounding and overflow mode.
//
// stdin:  any number of requests: case, count, then count codes (or float bits), all int64.
// stdout: count codes of the target for each request, all int64.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "ap_fixed.h"

typedef void (*Convert)(int64_t *codes, size_t count);

template <bool SIGNED, int W, int I, ap_q_mode Q = AP_TRN, ap_o_mode O = AP_WRAP> struct Fixed {
    typedef ap_fixed<W, I, Q, O> type;
};
template <int W, int I, ap_q_mode Q, ap_o_mode O> struct Fixed<false, W, I, Q, O> {
    typedef ap_ufixed<W, I, Q, O> type;
};

// The code is the number's bits read as an integer; V is the integer that holds them.
template <class T> int64_t code_of(const T &value) { return (int64_t)value.V; }

template <class FROM, class TO> void convert_codes(int64_t *codes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        FROM from;
        from.V = codes[i];
        TO to = from;
        codes[i] = code_of(to);
    }
}

template <class TO> void convert_floats(int64_t *codes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)codes[i];
        float from;
        std::memcpy(&from, &bits, sizeof from);
        TO to = from;
        codes[i] = code_of(to);
    }
}

#define EACH_OVERFLOW(M, Q, ...) \
    M(Q, AP_WRAP, __VA_ARGS__), M(Q, AP_SAT, __VA_ARGS__), M(Q, AP_SAT_ZERO, __VA_ARGS__), \
        M(Q, AP_SAT_SYM, __VA_ARGS__)
#define EACH_MODE(M, ...) \
    EACH_OVERFLOW(M, AP_TRN, __VA_ARGS__), EACH_OVERFLOW(M, AP_TRN_ZERO, __VA_ARGS__), \
        EACH_OVERFLOW(M, AP_RND, __VA_ARGS__), EACH_OVERFLOW(M, AP_RND_ZERO, __VA_ARGS__), \
        EACH_OVERFLOW(M, AP_RND_MIN_INF, __VA_ARGS__), \
        EACH_OVERFLOW(M, AP_RND_INF, __VA_ARGS__), EACH_OVERFLOW(M, AP_RND_CONV, __VA_ARGS__)

#define CODES(Q, O, w1, i1, s1, w2, i2, s2) \
    &convert_codes<Fixed<s1, w1, i1>::type, Fixed<s2, w2, i2, Q, O>::type>
#define FLOATS(Q, O, w2, i2, s2) &convert_floats<Fixed<s2, w2, i2, Q, O>::type>
#define SHAPE(...) EACH_MODE(CODES, __VA_ARGS__),
#define FLOAT(...) EACH_MODE(FLOATS, __VA_ARGS__),

static const Convert CASES[] = {
#include "shapes.inc"
};

int main() {
    int64_t request[2];
    while (std::fread(request, sizeof(int64_t), 2, stdin) == 2) {
        if (request[0] < 0 || (size_t)request[0] >= sizeof CASES / sizeof *CASES) return 2;
        std::vector<int64_t> codes(request[1]);
        if (std::fread(codes.data(), sizeof(int64_t), codes.size(), stdin) != codes.size()) return 3;
        CASES[request[0]](codes.data(), codes.size());
        std::fwrite(codes.data(), sizeof(int64_t), codes.size(), stdout);
    }
    return 0;
}
