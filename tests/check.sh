#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the commands given as arguments, each by a shell, and adds up what their tests say.  check.sh COMMAND...
# Counted are lines "NAME: N passed, N failed[, N skipped]" and Check's "N%: Checks: N, Failures: N, Errors: N". What
# fails without a failed test counts as one that failed, what says nothing of tests as one that passed. What failed is
# said once more at the end, where a reader of a long log looks first.
set -u
passed=0 failed=0 skipped=0
log=$(mktemp) again=$(mktemp)
trap 'rm -f "$log" "$again"' EXIT
for command; do
    { sh -c "$command" 2>&1; echo "status $?"; } | tee "$log" | grep --line-buffered -v '^status [0-9]*$'
    # shellcheck disable=SC2046 # three numbers
    set -- $(awk '
        /^[a-z]+: [0-9]+ passed, [0-9]+ failed/ { tests++; p += $2; f += $4; s += $6 }
        /^[0-9]+%: Checks: / { tests++; gsub(",", ""); p += $3 - $5 - $7; f += $5 + $7 }
        /^status / { status = $2 }
        END { if (status && !f) f = 1; else if (!tests) p = 1; print p + 0, f + 0, s + 0 }' "$log")
    passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
    [ "$2" -eq 0 ] || {
        echo "FAILED: $command"
        if grep -q '^| ' "$log"; then # a run of this script within this one has said it
            grep '^| ' "$log"
        else
            grep -A 25 -E '^(FAIL|ERROR)|:[FE]:|SUMMARY:|error:' "$log" | head -n 100
            echo "..."
            tail -n 5 "$log"
        fi
    } | sed 's/^/| /' >>"$again"
done
cat "$again"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
