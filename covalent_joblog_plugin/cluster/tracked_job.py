# SPDX-License-Identifier: Apache-2.0
"""When to ask Slurm for a job's state: often while something is about to happen, else seldom."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .slurm_states import Meaning, meaning

if TYPE_CHECKING:
    from .slurm_job import Job, JobEnd

log = logging.getLogger(__name__)

HURRY = 0.5
"""Seconds to the second question about a job that begins or ends; they double from there."""
ENDING_PACE = 3.0
"""Longest time between two questions about a job that ends."""
UNSEEN_AFTER = 60.0
"""Seconds a job may run without its first sign of life in its folder."""


@dataclass(slots=True, eq=False)
class TrackedJob:
    """A job and when to ask for its state.

    Attributes:
        job: The job.
        end: How it ended.
        due: When to ask next, in monotonic seconds.
        pace: Seconds to the question after that.
        execution: The start of it that was known of last.
        warned: What the log has been told.
        answered: Set by every good answer.
    """

    job: Job
    end: asyncio.Future[JobEnd]
    due: float
    pace: float = HURRY
    execution: int = 0
    warned: set[str] = field(default_factory=set)
    answered: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def ending(self) -> bool:
        """Whether it is about to end or to leave the queue."""
        completing = self.job.row is not None and self.job.row.state == "COMPLETING"
        return self.job.leaving or completing or self.job.execution in self.job.exits

    def next_pace(self, interval: float) -> float:
        """Seconds to the next question, after one that settled nothing."""
        if self.ending:
            return min(interval, ENDING_PACE, self.pace * 2)
        return interval if self.job.started else min(interval, self.pace * 2)

    def warn_once(self) -> None:
        """Tell the log what is strange about the job."""
        row = self.job.row
        if row is None:
            return
        if meaning(row.state) is Meaning.UNKNOWN:
            self._warn(f"state {row.state!r} is not known here; taken as running")
        unseen = row.state == "RUNNING" and not self.job.started
        if unseen and time.monotonic() - self.job.first["RUNNING"] > UNSEEN_AFTER:
            self._warn(f"it runs, but nothing is seen of it in {self.job.path}: use a folder the nodes share")

    def _warn(self, text: str) -> None:
        if text not in self.warned:
            self.warned.add(text)
            log.warning("job %s: %s", self.job.job_id, text)
