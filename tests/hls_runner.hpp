// Rows of codes through one kernel, from a file into a file, with every signal. Included once for
// each kernel of a program, in a namespace of its own and after that kernel's source.
//
// A command is LAYER ROWS KIND and the codes of x (and of the residual); its answer is the codes of
// y (and of the sums), those of every signal, and two counts: reports that differ from an earlier
// one of the same place, and places without a report. All are int64.

static std::vector<std::vector<long long> > traced;
static std::vector<std::vector<bool> > told;
static long long at_row, row_dim, differing;

void approx_trace_row() { at_row++; }

void approx_trace(int signal, int index, long long code) {
    const bool of_elements = driver::SIGNALS[signal].level == 'e';
    const size_t at = of_elements ? at_row * row_dim + index : at_row;
    if (told[signal].at(at) && traced[signal].at(at) != code)
        differing++;
    traced[signal].at(at) = code;
    told[signal].at(at) = true;
}

static void clear_trace(long long rows, long long dim) {
    at_row = -1, row_dim = dim, differing = 0;
    traced.clear(), told.clear();
    for (int i = 0; i < driver::SIGNAL_COUNT; i++) {
        const char level = driver::SIGNALS[i].level;
        const size_t size = level == 'e' ? rows * dim : level == 'r' ? rows : 0;
        traced.push_back(std::vector<long long>(size));
        told.push_back(std::vector<bool>(size));
    }
}

static void write_trace(std::FILE *out) {
    long long missing = 0;
    for (size_t i = 0; i < traced.size(); i++) {
        put_codes(traced[i], out);
        for (const bool was_told : told[i])
            missing += !was_told;
    }
    put_codes({differing, missing}, out);
}

#ifndef RUN_KIND
#define RUN_KIND(kind, layer, x, residual, rows, y, sum) \
    driver::run_rows(layer, x, residual, rows, y, sum)
#endif

static int run(std::FILE *in, std::FILE *out) {
    for (std::vector<long long> head(3); get_codes(head, in);) {
        const int layer = head[0], rows = head[1];
        const size_t count = (size_t)rows * driver::dim(layer);
        std::vector<long long> x(count), residual(driver::HAS_RESIDUAL ? count : 0);
        std::vector<long long> y(count), sum(residual.size());
        if (!get_codes(x, in) || !get_codes(residual, in))
            return 2;
        clear_trace(rows, driver::dim(layer));
        RUN_KIND(head[2], layer, x.data(), residual.data(), rows, y.data(), sum.data());
        put_codes(y, out);
        put_codes(sum, out);
        write_trace(out);
    }
    return 0;
}
