"""The shell on a terminal: editing, history, completion and the prompt.

An error ends a statement and never the shell. Only the owner can read the history file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent

from omnigraph.cli.output import CommandError, print_note
from omnigraph.cli.shell.completion import complete
from omnigraph.cli.shell.session import Session
from omnigraph.compiler.statements import is_finished, split_statements
from omnigraph.model.errors import GraphError

HISTORY_FILE = "shell_history"


def run_prompt(session: Session, *, home: Path) -> None:
    """Read statements and run them until the user quits."""
    prompts: PromptSession[str] = PromptSession(
        history=FileHistory(str(_prepare_history(home))),
        completer=_Names(session),
        complete_while_typing=False,
        multiline=True,
        prompt_continuation=_continue,
        key_bindings=_keys(),
    )
    while not session.is_over:
        try:
            text = prompts.prompt(session.prompt)
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        _run_all(session, text)


def _run_all(session: Session, text: str) -> None:
    for statement in split_statements(text):
        try:
            session.run(statement)
        except (GraphError, CommandError, OSError) as error:
            print_note(f"Error: {error}")
            return
        except KeyboardInterrupt:
            print_note("interrupted")
            return
        if session.is_over:
            return


class _Names(Completer):
    """Completes with the names of the session's graph."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        """The words that fit at the cursor; none if the graph is not available."""
        del complete_event
        try:
            vocabulary = self._session.vocabulary()
        except GraphError:
            return
        for each in complete(document.text_before_cursor, vocabulary):
            yield Completion(each.text, start_position=-each.replaced, display_meta=each.meaning)


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion:
            buffer.complete_state = None
        elif is_finished(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return keys


def _continue(width: int, line_number: int, wrap_count: int) -> str:
    del line_number
    return "" if wrap_count else f"{'...':>{max(width - 1, 3)}} "


def _prepare_history(home: Path) -> Path:
    """The history file, created so that only its owner can read it."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = home / HISTORY_FILE
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    path.chmod(0o600)
    return path
