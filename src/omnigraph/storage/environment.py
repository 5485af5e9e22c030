"""What the environment adds to locations: S3 settings, as storage options, and home folders.

Lance and obstore read credentials, the region and other settings from the environment themselves.
This module adds what they omit: an S3 endpoint takes precedence over a general one, an `http://`
endpoint is used without TLS, and buckets are addressed in the path if requested. The options
contain no secret, so they may be sent to executors. The variables are an argument and are not read
here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_YES = frozenset({"1", "true", "yes", "on"})

# The option names, without the optional prefix `aws_`.
_ENDPOINT_NAMES = frozenset({"endpoint", "endpoint_url", "endpoint_url_s3"})
_HTTP_NAME = "allow_http"
_HOSTED_NAME = "virtual_hosted_style_request"


def expand_home(path: str | os.PathLike[str]) -> Path:
    """A path with `~` expanded, which shells do not do in `--flag=~/file`."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        # There is no user of that name, so it is the name of a file.
        return Path(path)


def make_storage_options(
    environment: Mapping[str, str], given: Mapping[str, str]
) -> dict[str, str]:
    """The options of the caller, completed with those of the environment."""
    options = dict(given)
    named = {name.lower().removeprefix("aws_"): value for name, value in given.items()}
    endpoint = next((named[name] for name in _ENDPOINT_NAMES if name in named), None)
    if endpoint is None:
        values = (environment.get(name, "").strip() for name in _ENDPOINTS)
        endpoint = next(filter(None, values), None)
        if endpoint is not None:
            options["aws_endpoint"] = endpoint
    # An endpoint that only the libraries read is used as well.
    reached = endpoint or environment.get("AWS_ENDPOINT", "")
    is_plain = reached.strip().lower().startswith("http://")
    if _HTTP_NAME not in named and (is_plain or _is_yes(environment, "AWS_ALLOW_HTTP")):
        options[_HTTP_NAME] = "true"
    if _HOSTED_NAME not in named and _is_yes(environment, "AWS_S3_FORCE_PATH_STYLE"):
        options[f"aws_{_HOSTED_NAME}"] = "false"
    return options


def _is_yes(environment: Mapping[str, str], name: str) -> bool:
    return environment.get(name, "").strip().lower() in _YES
