// Runs every mutant of a kernel on the same rows, and counts what each of them gets wrong.
//
//   mutation_runner ROWS X_FILE EXPECTED_FILE MUTANTS ENTRIES_FILE
//
// X_FILE holds rows x dim codes; EXPECTED_FILE every named element and row signal of those rows, in
// the order of driver::SIGNALS, y last; both int64. ENTRIES_FILE: lines "table entry delta".
// Prints a line for each mutant: its number, how many codes of y differ, how many of all signals, and
// "ran" or how it ended; first the kernel itself, as number 0, then 1 .. MUTANTS, then the entries.
//
// A mutant may read an empty stream or never end, so each runs in a process of its own.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "bench_config.hpp"

int approx_mutant = 0;
void approx_change_entry(int table, int entry, int delta);

typedef std::vector<long long> Codes;

static const unsigned SECONDS = 60;  // a mutant that runs longer hangs
static std::vector<Codes> expected;
static long long row_now, wrong;

void approx_trace_row() { row_now++; }

void approx_trace(int signal, int index, long long code) {
    const long long width = driver::SIGNALS[signal].level == 'e' ? driver::dim(0) : 1;
    const long long place = row_now * width + index;
    if (index >= width || place >= (long long)expected[signal].size() ||
        expected[signal][place] != code)
        wrong++;
}

static Codes read_codes(std::FILE *file, size_t count) {
    Codes codes(count);
    if (!file || std::fread(codes.data(), sizeof(long long), count, file) != count) {
        std::fprintf(stderr, "mutation_runner: a file is short\n");
        std::exit(2);
    }
    return codes;
}

static void run(int number, const Codes &x, int rows) {
    Codes y(x.size());
    row_now = -1;
    wrong = 0;
    driver::run_rows(0, x.data(), 0, rows, y.data(), 0);
    const Codes &right = expected[driver::SIGNAL_COUNT - 1];
    long long outputs = 0;
    for (size_t i = 0; i < y.size(); i++)
        outputs += y[i] != right[i];
    std::printf("%d %lld %lld ran\n", number, outputs, wrong + outputs);
}

static void run_alone(int number, const Codes &x, int rows) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        alarm(SECONDS);
        if (!std::freopen("/dev/null", "w", stderr))
            std::exit(2);
        approx_mutant = number;
        run(number, x, rows);
        std::fflush(stdout);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
        std::printf("%d -1 -1 %s\n", number, WTERMSIG(status) == SIGALRM ? "hung" : "stopped");
    else if (WEXITSTATUS(status) != 0)
        std::printf("%d -1 -1 stopped\n", number);
}

int main(int argc, char **argv) {
    if (argc != 6) {
        std::fprintf(stderr, "mutation_runner: five arguments are needed\n");
        return 2;
    }
    const int rows = std::atoi(argv[1]), mutants = std::atoi(argv[4]);
    const size_t count = (size_t)rows * driver::dim(0);
    const Codes x = read_codes(std::fopen(argv[2], "rb"), count);
    std::FILE *file = std::fopen(argv[3], "rb");
    for (int i = 0; i < driver::SIGNAL_COUNT; i++) {
        const char level = driver::SIGNALS[i].level;
        expected.push_back(read_codes(file, level == 'e' ? count : level == 'r' ? rows : 0));
    }
    for (int number = 0; number <= mutants; number++)
        run_alone(number, x, rows);
    std::FILE *entries = std::fopen(argv[5], "r");
    int table, entry, delta;
    for (int number = mutants + 1;
         entries && std::fscanf(entries, "%d %d %d", &table, &entry, &delta) == 3; number++) {
        approx_change_entry(table, entry, delta);
        run_alone(number, x, rows);
        approx_change_entry(table, entry, -delta);
    }
    return 0;
}
