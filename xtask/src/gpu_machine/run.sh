#!/bin/sh
# Tests and measures the CUDA backend of Millrace on a machine with a GPU. Needs no Rust and no network; of CUDA the driver,
# and for kernels of the device's own architecture libnvrtc. `cargo xtask gpu-machine` puts it beside the archive that it runs.
#
#     sh run [--host] [--only STEP,...] [--within SECONDS] [FOLDER]
#
# Steps, in this order: calibrate tests memcheck racecheck kernels batch applications sizes divergence router cores latency
# faults; `figures` stands for all from kernels on. Without --only all of them. No step begins or goes on after SECONDS
# (570 unless given, for such machines are often lent for ten minutes a command): what is left out is named at the end.
#
# FOLDER ($OUT, or `report` beside this script) has report.txt, report.json and parts.tar.gz (logs, reports, plots), written
# anew after each step: what is done is there, whatever becomes of the next one. With --host everything runs on the host backend:
# a trial of this script, no measurement. SETTINGS are more words for the figures, such as `--rounds 1`.
set -u

steps="calibrate tests memcheck racecheck"
figures="kernels batch applications sizes divergence router cores latency faults"

here=$(cd "$(dirname "$0")" && pwd)
device=cuda only= within=570
while [ $# -gt 0 ]; do
    case $1 in
        --host) device=host ;;
        --only) only=$(echo "${2:-}" | tr , ' '); [ $# -gt 1 ] && shift ;;
        --within) within=${2:-}; [ $# -gt 1 ] && shift ;;
        -*) echo "run: $1? See the head of $0" >&2; exit 2 ;;
        *) break ;;
    esac
    shift
done
case $within in '' | *[!0-9]*) echo "run: --within: a number of seconds, not '$within'" >&2; exit 2 ;; esac
wanted=
for step in ${only:-$steps figures}; do
    [ "$step" = figures ] && step=$figures
    case " $steps $figures " in
        *" $step "*) wanted="$wanted $step" ;;
        *) echo "run: no step '$step'; there are $steps $figures" >&2; exit 2 ;;
    esac
done
out=${1:-${OUT:-$here/report}}
mkdir -p "$out" || exit 1
rm -f "$out/report.txt" "$out/report.json" "$out/parts.tar.gz"

# Where CUDA's libraries may be.
for folder in /usr/local/cuda/lib64 /usr/local/cuda/targets/x86_64-linux/lib /usr/lib/x86_64-linux-gnu; do
    [ -d "$folder" ] && LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder"
done
export LD_LIBRARY_PATH
PATH="$PATH:/usr/local/cuda/bin"

if [ "$device" = host ]; then
    about="the host backend (--host)"
elif ! about=$(nvidia-smi -L 2> /dev/null); then
    echo "run: no GPU here: nvidia-smi finds none (sh run --host tries the host backend)" >&2
    exit 2
fi

# The programs and the data, and what the steps write.
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
tar -xzf "$here/pack.tar.gz" -C "$work" || exit 1
parts=$work/parts
mkdir "$parts"
[ -d "$work/routes" ] && export MILLRACE_ROUTES="$work/routes"
[ -d "$work/texts" ] && export MILLRACE_TEXTS="$work/texts"
patterns=
[ -f "$work/patterns" ] && patterns="--patterns $work/patterns"

started=$(date +%s)
failed=0
left=
: > "$work/steps"

# One table for people, one file for programs, and all parts: of the steps so far.
report() {
    {
        echo "$about"
        echo
        echo "step status seconds"
        cat "$work/steps"
        [ -z "$left" ] || echo "left out:$left"
        for log in calibrate $figures; do
            [ -f "$parts/$log.log" ] && echo && grep -v '^GPU sections run on' "$parts/$log.log"
        done
    } > "$work/report.txt"
    {
        printf '{"device": "%s", "steps": [' "$(echo "$about" | head -n 1 | tr -d '"\\')"
        sed 's/\(.*\) \(.*\) \(.*\)/{"step": "\1", "status": \2, "seconds": \3}/' "$work/steps" | paste -s -d , -
        printf '], "reports": ['
        first=1
        for file in "$parts"/*.json; do
            [ -f "$file" ] || continue
            [ "$first" = 1 ] || printf ', '
            first=0
            cat "$file"
        done
        printf ']}\n'
    } > "$work/report.json"
    tar -czf "$work/parts.tar.gz" -C "$parts" .
    for file in report.txt report.json parts.tar.gz; do
        cp "$work/$file" "$out/$file.part" && mv "$out/$file.part" "$out/$file"
    done
}

# step NAME SECONDS COMMAND...: runs a command, keeps what it says, goes on whatever becomes of it.
step() {
    name=$1 seconds=$2
    shift 2
    began=$(date +%s)
    rest=$((started + within - began))
    if [ "$rest" -lt 5 ]; then
        left="$left $name"
        return
    fi
    [ "$seconds" -gt "$rest" ] && seconds=$rest
    timeout "$seconds" "$@" > "$parts/$name.log" 2>&1
    status=$?
    took=$(($(date +%s) - began))
    echo "$name $status $took" >> "$work/steps"
    if [ "$status" = 0 ]; then
        echo "ok      $name ($took s)"
    else
        echo "FAILED  $name: status $status after $took s"
        tail -n 15 "$parts/$name.log"
        failed=1
    fi
    report
}

# The tests that run on the GPU itself, each a process of its own, under a tool of CUDA.
sanitize() {
    if [ "$device" = cuda ] && command -v compute-sanitizer > /dev/null; then
        step "$1" 400 compute-sanitizer --tool "$1" --target-processes all --error-exitcode 9 \
            "$work/tests/cuda" --test-threads 1 gpu::
    else
        echo "left out: $1 (needs a GPU and compute-sanitizer)"
    fi
}

for name in $wanted; do
    case $name in
        calibrate)
            if [ "$device" = cuda ]; then
                step calibrate 60 "$work/millrace-bench" gpu-calibrate --json "$parts/calibrate.json"
            else
                echo "left out: calibrate (needs a GPU)"
            fi
            ;;
        tests)
            for test in "$work"/tests/*; do
                step "test-$(basename "$test")" 120 "$test"
            done
            ;;
        memcheck | racecheck) sanitize "$name" ;;
        *)
            # shellcheck disable=SC2086 # Each is words or none.
            step "$name" 400 "$work/millrace-bench" gpu --device "$device" --only "$name" \
                --json "$parts" --svg "$parts" $patterns ${SETTINGS:-}
            ;;
    esac
done
report
[ -z "$left" ] || echo "left out, for $within s are over:$left (run --only, or --within)"
echo "$out/report.txt, $out/report.json"
exit "$failed"
