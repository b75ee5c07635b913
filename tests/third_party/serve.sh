#!/bin/sh
# Serves the tiny model: serve.sh VIRTUAL_ENVIRONMENT PORT
#
# On the loopback only, from the files that make_tiny_model.py wrote; nothing is fetched from anywhere.
set -eu
environment=$1
port=$2
export HF_HOME="${THIRD_PARTY_MODEL:-$environment/model}" HF_HUB_OFFLINE=1 HF_HUB_DISABLE_TELEMETRY=1
# One thread is quickest for a model this small, and leaves the machine to others.
export OMP_NUM_THREADS=1
exec "$environment/bin/transformers" serve --host 127.0.0.1 --port "$port"
