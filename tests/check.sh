#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the make targets named as arguments and adds up what their tests say.  check.sh TARGET...
# Counted are lines "NAME: N passed, N failed[, N skipped]" and Check's "N%: Checks: N, Failures: N, Errors: N".
# A target that fails without a failed test counts as one.
set -u
passed=0 failed=0 skipped=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for target; do
    { "${MAKE:-make}" --no-print-directory "$target" 2>&1; echo "status $?"; } | tee "$log" | grep -v '^status [0-9]*$'
    # shellcheck disable=SC2046 # three numbers
    set -- $(awk '
        / passed, [0-9]+ failed/ { for (i = 2; i <= NF; i++) { if ($i ~ /^passed/) p += $(i-1); if ($i ~ /^failed/) f += $(i-1); if ($i ~ /^skipped/) s += $(i-1) } }
        /^[0-9]+%: Checks: / { gsub(",", ""); p += $3 - $5 - $7; f += $5 + $7 }
        /^status / { status = $2 }
        END { if (status && !f) f = 1; print p + 0, f + 0, s + 0 }' "$log")
    passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
