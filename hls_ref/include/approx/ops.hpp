// The integer operations of a datapath, on ap_int and ap_uint of any width.
//
// Each is exact. R is the type of the result; it holds every value that the operation can give, as
// the signal's interval has shown, so that no conversion below ever loses a bit unless its name
// says so (round_shift, limit, bits).
#ifndef APPROX_OPS_HPP
#define APPROX_OPS_HPP

#include <ap_fixed.h>
#include <ap_int.h>

namespace approx {

// |value|: of the most negative code too, as R has the bit for it.
template <class R, class V> R absolute(const V &value) {
#pragma HLS INLINE
    const ap_int<V::width + 2> wide = value;
    return wide < 0 ? R(-wide) : R(wide);
}

// if_one where the condition is 1, if_zero where it is 0.
template <class R, class A, class B>
R select(const ap_uint<1> &condition, const A &if_one, const B &if_zero) {
#pragma HLS INLINE
    return condition == 1 ? R(if_one) : R(if_zero);
}

// The smaller and the larger of two, compared in W, which holds either: comparisons of a signed
// with an unsigned type are not dependable.
template <class R, class W = R, class A, class B> R minimum(const A &a, const B &b) {
#pragma HLS INLINE
    return W(a) < W(b) ? R(a) : R(b);
}

template <class R, class W = R, class A, class B> R maximum(const A &a, const B &b) {
#pragma HLS INLINE
    return W(a) < W(b) ? R(b) : R(a);
}

// The bit field value[HIGH:LOW] of the two's complement, as an unsigned number.
template <class R, int HIGH, int LOW, class V> R bits(const V &value) {
#pragma HLS INLINE
    const ap_int<(V::width > HIGH ? V::width : HIGH) + 2> wide = value;
    const ap_uint<HIGH - LOW + 1> field = wide >> LOW;
    return R(field);
}

// The position of the leading one: floor(log2(value)); 0 for value = 0.
template <class R, class V> R leading_one(const V &value) {
#pragma HLS INLINE
    R position = 0;
    for (int i = 1; i < V::width; i++) {
#pragma HLS UNROLL
        if (value[i] == 1)
            position = i;
    }
    return position;
}

// value shifted so that its leading one has F bits below it; what falls below them is cut off.
// value = 0 gives the same as 1.
template <class R, int F, class V> R leading_mantissa(const V &value) {
#pragma HLS INLINE
    enum { TOP = V::width > F + 1 ? V::width : F + 1 };
    const ap_uint<TOP> wide = value;
    const int lead = leading_one<ap_uint<16> >(wide);
    ap_uint<TOP> aligned = wide << (TOP - 1 - lead);
    aligned[TOP - 1] = 1;
    return R(aligned >> (TOP - 1 - F));
}

// floor(sqrt(value)), a bit of the root an iteration.
template <class R, class V> R integer_sqrt(const V &value) {
#pragma HLS INLINE
    enum { PAIRS = (V::width + 1) / 2 };
    ap_uint<PAIRS> root = 0;
    ap_uint<PAIRS + 2> rest = 0;
    const ap_uint<2 * PAIRS> wide = value;
    for (int i = PAIRS - 1; i >= 0; i--) {
#pragma HLS UNROLL
        const ap_uint<PAIRS + 4> trial_rest = (ap_uint<PAIRS + 4>(rest) << 2) |
                                              ap_uint<PAIRS + 4>(ap_uint<2>(wide >> (2 * i)));
        const ap_uint<PAIRS + 4> trial = (ap_uint<PAIRS + 4>(root) << 2) | ap_uint<PAIRS + 4>(1);
        const bool fits = trial_rest >= trial;
        rest = fits ? ap_uint<PAIRS + 4>(trial_rest - trial) : trial_rest;
        root = (root << 1) | ap_uint<PAIRS>(fits ? 1 : 0);
    }
    return R(root);
}

// floor(a / b) for a >= 0 and b >= 1. Both in one type: a division of mixed types is not dependable.
template <class R, class A, class B> R divide(const A &a, const B &b) {
#pragma HLS INLINE
    typedef ap_uint<(A::width > B::width ? int(A::width) : int(B::width))> wide;
    return R(wide(a) / wide(b));
}

// value / 2**amount, rounded and then limited as F says: an ap_fixed or ap_ufixed without fraction
// bits, whose own assignment does both. A negative amount shifts left, exactly.
//
// Only two bits below the unit matter to any rounding mode: the half, and whether anything is left
// below it. LEFT and RIGHT are the largest shifts: past LEFT every value but 0 has left F, past
// RIGHT every one is less than a half.
template <class R, class F, int LEFT, int RIGHT, class V, class A>
R round_shift(const V &value, const A &amount) {
#pragma HLS INLINE
    enum { W = V::width + LEFT + 2 };  // a sign for unsigned values, and the half
    const ap_int<A::width + 2> wanted = amount;  // may be more than an int holds
    const int shift = wanted < -LEFT ? -LEFT : (wanted > RIGHT ? RIGHT : wanted.to_int());
    const int up = shift < 0 ? -shift : 0;
    const int down = shift > 0 ? shift : 0;
    const ap_int<W> halves = (ap_int<W>(value) << 1) << up;
    const ap_int<W> kept = halves >> down;
    const ap_int<W> again = kept << down;
    ap_fixed<W + 1, W - 1> exact;
    exact.range(W, 1) = kept;
    exact.range(0, 0) = ap_uint<1>(again != halves ? 1 : 0);
    const F limited = exact;
    return R(ap_int<F::width + 1>(limited));
}

// A value brought into [low, high], limits that are no format's own.
template <ap_o_mode O, class R, class V>
R limit(const V &value, const long long low, const long long high) {
#pragma HLS INLINE
    if (O == AP_WRAP) {  // high - low + 1 is a power of two
        const ap_int<(V::width > 64 ? V::width : 64) + 2> from_low = value - ap_int<64>(low);
        return R(ap_int<65>(ap_int<65>(from_low & ap_int<64>(high - low)) + ap_int<64>(low)));
    }
    if (value < ap_int<64>(low))
        return O == AP_SAT_ZERO ? R(0) : R(low);
    if (value > ap_int<64>(high))
        return O == AP_SAT_ZERO ? R(0) : R(high);
    return R(value);
}

// The codes of one lane of a beat: lane 0 is in the low bits.
template <class T, class BEAT> T lane_of(const BEAT &beat, int lane) {
#pragma HLS INLINE
    T code;
    code.range(T::width - 1, 0) = beat.range((lane + 1) * T::width - 1, lane * T::width);
    return code;
}

template <class T, class BEAT> void set_lane(BEAT &beat, int lane, const T &code) {
#pragma HLS INLINE
    beat.range((lane + 1) * T::width - 1, lane * T::width) = code.range(T::width - 1, 0);
}

// value takes its place among the largest so far, largest first.
template <int K, class T> void insert_largest(T largest[K], const T &value) {
#pragma HLS INLINE
    T rest = value;
    for (int i = 0; i < K; i++) {
#pragma HLS UNROLL
        const T kept = largest[i];
        largest[i] = kept < rest ? rest : kept;
        rest = kept < rest ? kept : rest;
    }
}

}  // namespace approx

#endif
