#!/bin/sh
# Tests and measures the CUDA backend of Millrace on a machine with a GPU. Needs no Rust and no network; of CUDA the driver,
# and for kernels of the device's own architecture libnvrtc. `cargo xtask gpu-machine` puts it beside what it runs.
#
#     sh run [--host] [FOLDER]
#
# Writes logs, report.json and report.txt into FOLDER ($OUT, or `report` beside this script). With --host everything runs on
# the host backend where there is no GPU: a trial of this script, no measurement.
set -u

here=$(cd "$(dirname "$0")" && pwd)
device=cuda
if [ "${1:-}" = --host ]; then
    device=host
    shift
fi
out=${1:-${OUT:-$here/report}}
mkdir -p "$out" || exit 1

# Where CUDA's libraries may be.
for folder in /usr/local/cuda/lib64 /usr/local/cuda/targets/x86_64-linux/lib /usr/lib/x86_64-linux-gnu; do
    [ -d "$folder" ] && LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder"
done
export LD_LIBRARY_PATH
PATH="$PATH:/usr/local/cuda/bin"

if [ "$device" = cuda ] && ! nvidia-smi -L > "$out/device.log" 2>&1; then
    echo "run: no GPU here: nvidia-smi finds none (sh run --host tries the host backend)" >&2
    exit 2
fi
[ "$device" = cuda ] || echo "no GPU: the host backend" > "$out/device.log"

: > "$out/steps"
failed=0

# step NAME SECONDS COMMAND...: runs a command, keeps what it says, goes on whatever becomes of it.
step() {
    name=$1 seconds=$2
    shift 2
    began=$(date +%s)
    timeout "$seconds" "$@" > "$out/$name.log" 2>&1
    status=$?
    took=$(($(date +%s) - began))
    echo "$name $status $took" >> "$out/steps"
    if [ "$status" = 0 ]; then
        echo "ok      $name ($took s)"
    else
        echo "FAILED  $name: status $status after $took s; see $out/$name.log"
        failed=1
    fi
}

[ "$device" = cuda ] && step calibrate 60 "$here/millrace-bench" gpu-calibrate --json "$out/calibrate.json"

for test in "$here"/tests/*; do
    step "test-$(basename "$test")" 120 "$test"
done

# The tests that run on the GPU itself, each a process of its own.
if [ "$device" = cuda ] && command -v compute-sanitizer > /dev/null; then
    for tool in memcheck racecheck; do
        step "$tool" 400 compute-sanitizer --tool "$tool" --target-processes all --error-exitcode 9 \
            "$here/tests/cuda" --test-threads 1 gpu::
    done
elif [ "$device" = cuda ]; then
    echo "left out: memcheck and racecheck (no compute-sanitizer)"
fi

patterns=
[ -f "$here/patterns" ] && patterns="--patterns $here/patterns"
# shellcheck disable=SC2086 # It is two words or none.
step figures 500 "$here/millrace-bench" gpu --device "$device" --json "$out" --svg "$out" $patterns

# One table for people, one file for programs.
{
    cat "$out/device.log"
    echo
    column -t "$out/steps" 2> /dev/null || cat "$out/steps"
    echo
    cat "$out/calibrate.log" "$out/figures.log" 2> /dev/null
} > "$out/report.txt"
{
    printf '{"device": "%s", "steps": [' "$(head -n 1 "$out/device.log" | tr -d '"\\')"
    sed 's/\(.*\) \(.*\) \(.*\)/{"step": "\1", "status": \2, "seconds": \3}/' "$out/steps" | paste -s -d , -
    printf '], "reports": ['
    first=1
    for file in "$out"/*.json; do
        case $file in */report.json) continue ;; esac
        [ -f "$file" ] || continue
        [ "$first" = 1 ] || printf ', '
        first=0
        cat "$file"
    done
    printf ']}\n'
} > "$out/report.json.part"
mv "$out/report.json.part" "$out/report.json"
echo "$out/report.txt, $out/report.json"
exit "$failed"
