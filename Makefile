# SPDX-License-Identifier: Apache-2.0
# The one task runner. Everything happens in .venv; pip and apt say what they are doing.
.PHONY: help venv packages lint docs check test demo demo-slurm rig-slurm rig-slurm-down rig-kubeflow rig-kubeflow-down
.PHONY: bench build clean
.DEFAULT_GOAL := help
SHELL := /bin/bash

BIN := .venv/bin
# What the tests start besides Covalent, as command:package of Debian.
PACKAGES := sbatch:slurm-client slurmctld:slurmctld slurmd:slurmd munged:munge sshd:openssh-server ssh:openssh-client \
	containerd:containerd runc:runc /usr/lib/cni/bridge:containernetworking-plugins debootstrap:debootstrap ip:iproute2 tmux:tmux

help:
	@echo 'make demo        live output of a local job in this terminal, with a Covalent server of its own'
	@echo 'make demo-slurm  the same on a private one-node Slurm (as root on Debian)'
	@echo 'make test        everything, against a real Covalent, sshd, Slurm and Kubeflow (as root on Debian, with Go)'
	@echo 'make check       format, lint, types, layers and the tests that need no server'
	@echo 'make bench       the figures, each beside a peer measured in the same run'
	@echo 'make rig-slurm   start the private Slurm and leave it running; make rig-slurm-down stops it'
	@echo 'make rig-kubeflow  the same for the private Kubeflow; make rig-kubeflow-down stops it'
	@echo 'make docs        write the tables of the joblog command into README'
	@echo 'make build       wheel and source archive in dist/'

venv: .venv/installed

# The stamp is touched last, so a half-made environment is made again.
.venv/installed: pyproject.toml constraints.txt
	python=$$(tools/find-python) && "$$python" -m venv .venv
	$(BIN)/python -m pip install --constraint constraints.txt --editable '.[dev]'
	touch $@

packages:
	tools/debian-packages $(PACKAGES)

lint: venv
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: venv
	$(BIN)/python -m tools.options

check: lint
	$(BIN)/python -m pytest -m 'not covalent and not slurm and not kubeflow'

test: lint packages
	$(BIN)/python -m tools.all_tests --durations=10

demo: venv
	$(BIN)/python -m tools.demo

demo-slurm: venv packages
	$(BIN)/python -m tools.demo --slurm

rig-slurm: venv packages
	$(BIN)/python -m tests.rigs.slurm up

rig-slurm-down: venv
	$(BIN)/python -m tests.rigs.slurm down

rig-kubeflow: venv packages
	$(BIN)/python -m tests.rigs.kubeflow up

rig-kubeflow-down: venv
	$(BIN)/python -m tests.rigs.kubeflow down

bench: venv packages
	$(BIN)/python -m bench

build: venv
	$(BIN)/python -m hatchling build

clean:
	rm -rf .venv build dist
