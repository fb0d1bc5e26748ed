#!/usr/bin/env bash
# Sourced by the batch scripts in this folder before all else: prepares a job, runs its ranks, passes stop requests on
# to them, and has Slurm start the job again where that helps.
#
#   needs_something_to_train "$@"   ends the job unless the arguments, or a dtrain.yaml, say what to train
#   run_ranks NAME COMMAND...       starts the ranks of the run NAME, by srun or mpirun: these forward SIGUSR1 to them
#
# The job is requeued
# - when its ranks have saved and left with 75, or when SIGUSR1 ended them (138) before they had anything to save; one
#   that was stopped in the evaluation or the test that an earlier job was stopped in too counts as one that died, if
#   the run folder is found;
# - when a rank died or hung (76) or was killed (128 and more), or srun or mpirun failed (1; mpirun that lost a node:
#   205): at most 10 times, and at most 3 times without a new checkpoint. `scontrol show job` shows the count as the
#   comment of the job.
# All other exit codes are returned as they are: wrong settings and damaged data would be as wrong the next time.
set -euo pipefail

# Slurm sends USR1 as --signal says: before the time limit, and at a preemption with a time of grace where the cluster
# has preempt_send_user_signal. It sends TERM to all processes of a job that it ends: scancel, `scontrol requeue`, a
# preemption without grace, a lost node. Ranks save on TERM too, and have KillWait (30 s) for it. Whether such a job
# starts again is up to Slurm.
stop='' ended=''
trap 'stop=requested' USR1
trap 'stop=${stop:-requested} ended=yes' TERM

[ -n "${SLURM_JOB_ID:-}" ] || { echo "$0: this is not a job of Slurm: submit it with sbatch" >&2; exit 64; }
# shellcheck source=/dev/null
. "$DTRAIN_PREFIX/env.sh"

# Of the last task of an array, SLURM_JOB_ID is the number of the whole array, all of whose tasks would be requeued.
job=$SLURM_JOB_ID
[ -z "${SLURM_ARRAY_TASK_ID:-}" ] || job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID

# The bridges of container engines are not routed between nodes: MPI and NCCL must not use them.
export OMPI_MCA_btl_tcp_if_exclude=${OMPI_MCA_btl_tcp_if_exclude:-lo,docker0}
export NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-^lo,docker0}

# Since Slurm 22.05, srun does not take --cpus-per-task over from the job: a rank would have one core.
export SRUN_CPUS_PER_TASK=${SRUN_CPUS_PER_TASK:-${SLURM_CPUS_PER_TASK:-1}}

# Ranks wait until dist.timeout for one that was killed, and srun does not tell them. Ranks that leave by themselves do so
# together, so srun may end those that are left this many seconds after the first.
export SLURM_WAIT=${SLURM_WAIT:-60}

# When Slurm ends the job, mpirun gets SIGTERM as well, and gives its ranks twice this time: by default 2 s in all. But
# it also waits that long, on its own node and then on the others, after ranks that saved and left with 75.
export OMPI_MCA_odls_base_sigkill_timeout=${OMPI_MCA_odls_base_sigkill_timeout:-5}

say() { echo "dtrain job $job: $*"; }

# A requeued job gives a name and --resume auto: something else has to say what to train.
needs_something_to_train() {
  if [ $# = 0 ] && [ ! -e dtrain.yaml ]; then
    say "name what to train: CONFIG.yaml, --task NAME or --dataset NAME (there is no dtrain.yaml here)" >&2
    exit 64
  fi
}

# Whether the words, or the config file that they name, say where metrics are served. No other key is called bind.
sets_bind() {
  local word before='' config=dtrain.yaml
  for word in "$@"; do
    case $word in
      --metrics.bind | --metrics.bind=*) return 0 ;;
      -*) ;;
      *.yaml | *.yml) config=$word ;;
      *) [ "$before" != train ] || config=$word ;;
    esac
    before=$word
  done
  [ -r "$config" ] && grep -Eq '^([^#]*[^#[:alnum:]_])?bind["'\'']?[[:space:]]*:' "$config"
}

run_ranks() {
  local name=$1 rc=0 pause=2 run before word served=()
  run=${DTRAIN_RUNS:-runs}/$name
  before=$(newest_checkpoint "$run")
  shift
  for word in "$@"; do
    case $word in
      --name | --name=* | --run.name | --run.name=*)
        say "${word%%=*}: the job names its run, here $name; DTRAIN_NAME=NAME in the environment of sbatch gives it another name" >&2
        exit 64 ;;
    esac
  done
  # The default is 127.0.0.1, which Prometheus on another node cannot read.
  sets_bind "$@" || served=(--metrics.bind 0.0.0.0)
  "$@" --name "$name" --resume auto "${served[@]}" &
  local ranks=$!
  while kill -0 "$ranks" 2>/dev/null; do
    if [ -z "$stop" ]; then
      wait "$ranks" || true # a signal ends the wait, and the ranks still run
    else
      # Again and again: srun and mpirun lose a signal that comes before all ranks have started. Ranks may get several.
      [ $stop = passed ] || say "stop requested; the ranks save and exit"
      kill -USR1 "$ranks" 2>/dev/null || true
      stop=passed
      sleep $pause &
      pause=$((pause * 2))
      wait -n "$ranks" $! || true
    fi
  done
  wait "$ranks" || rc=$?
  if [ $rc = 75 ] && [ ! -d "$run" ]; then
    # Elsewhere the job may have saved: it would be counted as a crash at each time limit.
    say "there is no run folder $run to look for checkpoints in: if run.folder is not ${DTRAIN_RUNS:-runs}, set DTRAIN_RUNS to it" >&2
    requeue "stopped on request"
  elif [ $rc = 75 ] && [ "$(newest_checkpoint "$run")" = "$before" ]; then
    requeue_counted "$run" "$rc" "stopped on request in an evaluation that this job did not finish either"
  elif [ $rc = 75 ] || [ $rc = 138 ]; then
    requeue "stopped on request"
  elif [ $rc = 1 ] || [ $rc = 76 ] || [ $rc -ge 128 ]; then
    requeue_counted "$run" "$rc" "a rank, a node or the launcher failed (exit code $rc)"
  fi
  exit "$rc"
}

requeue() {
  if [ -n "$ended" ]; then
    say "$1; Slurm ended the job, and starts it again if it was requeued"
  elif scontrol requeue "$job"; then
    say "$1; the job is requeued"
  else
    say "$1; not requeued: scontrol requeue failed" >&2
  fi
}

newest_checkpoint() { # of a run folder; their names sort by step
  local folder newest=none
  for folder in "$1"/checkpoints/step_*; do
    [ ! -e "$folder" ] || newest=${folder##*/}
  done
  echo "$newest"
}

# requeue_counted RUN_FOLDER EXIT_CODE WHY: as long as that helps.
requeue_counted() {
  local comment crashes=0 idle=0 before='' newest
  [ -z "$ended" ] || return 0
  # Without the count, a job that always crashes would be requeued forever.
  if ! comment=$(scontrol show job "$job" | sed -n 's/^ *Comment=//p'); then
    say "exit code $2; not requeued: scontrol show failed, so its crashes are not known" >&2
    return
  fi
  if [[ $comment =~ ^dtrain:\ ([0-9]+)\ crashes,\ ([0-9]+)\ since\ (.*)$ ]]; then
    crashes=${BASH_REMATCH[1]} idle=${BASH_REMATCH[2]} before=${BASH_REMATCH[3]}
  fi
  newest=$(newest_checkpoint "$1")
  [ "$newest" = "$before" ] || idle=0
  crashes=$((crashes + 1)) idle=$((idle + 1))
  if [ $crashes -gt 10 ] || [ $idle -gt 3 ]; then
    say "exit code $2; not requeued: this was crash $crashes, and number $idle since the checkpoint $newest" >&2
    return
  fi
  if ! scontrol update "JobId=$job" "Comment=dtrain: $crashes crashes, $idle since $newest"; then
    say "exit code $2; not requeued: scontrol update failed, so this crash would not be counted" >&2
    return
  fi
  requeue "$3"
}
