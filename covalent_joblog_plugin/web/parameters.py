# SPDX-License-Identifier: Apache-2.0
"""What the routes take, each with its limits; FastAPI reads these at run time."""

from typing import Annotated

from fastapi import Header, Path, Query

MOST_PIECE_BYTES = 1 << 20
_FAR = 1 << 62

DispatchId = Annotated[str, Path(pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
NodeId = Annotated[int, Path(ge=0, lt=1 << 31)]
File = Annotated[str, Query(max_length=4096, description="Which output, by its name")]
Files = Annotated[list[str], Query(max_length=256, description="Which outputs, by their names")]
Cursor = Annotated[
    int | None,
    Query(ge=-_FAR, le=_FAR, description="The first byte; a negative one counts back from the end"),
]
Since = Annotated[
    float | None,
    Query(
        ge=0, allow_inf_nan=False, description="From what arrived then on, Unix seconds; or a little before"
    ),
]
Texts = Annotated[list[str], Query(description="A text, or several")]
Size = Annotated[int, Query(ge=1, le=MOST_PIECE_BYTES, description="Most bytes")]
LastEventId = Annotated[str | None, Header(pattern=r"^\d{1,18}(,\d{1,18})*$")]
Severity = Annotated[str | None, Query(max_length=20, description="That one or worse")]
Before = Annotated[int | None, Query(ge=0, le=_FAR, description="Backwards from this one on")]
Most = Annotated[int, Query(ge=1, le=1000, description="Most lines")]
