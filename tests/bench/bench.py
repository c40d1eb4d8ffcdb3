# SPDX-License-Identifier: MIT
"""make bench: measures the file system against others and against itself, and prints one table.

Only ratios within one run mean something: the repetitions of what is compared take turns, and the best of each counts."""
import os, sys, time
from place import Place, Skipped, private_namespace
import rows


def wanted(row, words):
    return not words or any(w == row.id or (not w.isdigit() and w in row.text) for w in words)


def show(r):
    sign = {"most": "<=", "least": ">="}
    ratio = "%.3g %s" % (r.value, r.unit) if r.unit else "%.2f" % r.value
    target = "%s %g" % (sign[r.kind], r.target) if r.kind else "-"
    ok = "" if not r.kind else "ok" if (r.value <= r.target if r.kind == "most" else r.value >= r.target) else "SHORT"
    return "%3s  %-62s %10s  %8s  %-5s  %s" % (r.id, r.text, ratio, target, ok, r.note)


def main():
    private_namespace()
    words = os.environ.get("ROWS", "").split()
    start = time.monotonic()
    print("%3s  %-62s %10s  %8s  %-5s  %s" % ("row", "figure", "measured", "target", "", "from"), flush=True)
    with Place() as place:
        for group in rows.GROUPS:
            mine = [r for r in group.rows if wanted(r, words)]
            if not mine:
                continue
            try:
                group.measure(place, mine)
            except Skipped as e:
                for r in mine:
                    r.why = str(e)
            for r in mine:
                print(show(r) if r.why is None else "%3s  %-62s skipped: %s" % (r.id, r.text, r.why), flush=True)
    print("%d s" % (time.monotonic() - start))


try:
    main()
except KeyboardInterrupt:
    sys.exit(130)
