"""Commands and groups for click, built from the registry.

Global flags are accepted before and after a command's name and are checked before the command runs.
A command's module is imported only when that command is invoked: neither help nor completion of
names imports one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module

import click
from click.exceptions import NoSuchCommand
from click.shell_completion import CompletionItem

from omnigraph.cli import registry
from omnigraph.cli.advice import next_command, write_command
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import GlobalOption, complete_paths, flags_of, global_options
from omnigraph.cli.output import CommandError, explain_failure, print_error
from omnigraph.model.errors import GraphError

_TERM_COLUMNS_MAX = 34


class Command(click.Command):
    """A command that accepts the global flags; its function gets an `Invocation`."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command, if its flags are applicable."""
        entry = _entry_of(ctx)
        flags = flags_of(ctx)
        registry.require_applicable(entry, flags)
        environment: Mapping[str, str] = ctx.find_root().obj
        invocation = ctx.obj = Invocation(
            flags=flags,
            uri=ctx.params.get("uri"),
            is_json=ctx.params.get("is_json") is True,
            environment=environment,
        )
        try:
            return super().invoke(ctx)
        except (GraphError, CommandError, OSError) as error:
            # Standard error has the same error as text.
            if invocation.is_json:
                print_error(_error_body(error))
            if isinstance(error, GraphError):
                advice = next_command(
                    error, target=invocation.reached, servers=invocation.reached_servers
                )
                if advice is not None:
                    error.add_note(f"Try: {advice}")
            raise
        except KeyboardInterrupt as error:
            if not invocation.is_writing:
                raise
            look = write_command("log", target=invocation.reached)
            raise CommandError(
                f"interrupted; the operation may have completed\nTry: {look}"
            ) from error

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options and the applicable global options."""
        applicable = registry.applicable_flags(_entry_of(ctx))
        own, shared = [], []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None or isinstance(parameter, click.Argument):
                continue
            if not isinstance(parameter, GlobalOption):
                own.append(record)
            elif applicable.intersection(parameter.opts):
                shared.append(record)
        with formatter.section("Options"):
            formatter.write_dl(own)
        if shared:
            with formatter.section("Global options"):
                formatter.write_dl(shared)


class Group(click.Group):
    """The commands of the registry below the path of this group."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names that help and completion show."""
        return registry.list_names(_path_of(ctx))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name, imported now, or the group of that name."""
        path = (*_path_of(ctx), cmd_name)
        entry = registry.find_entry(path)
        if entry is not None:
            return _import_command(entry)
        return make_group(path) if registry.list_names(path) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or raise an error with similar names."""
        known = self.list_commands(ctx)
        if not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            raise NoSuchCommand(args[0], possibilities=known, ctx=ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command, without importing any, or a flag."""
        path = _path_of(ctx)
        names = [
            CompletionItem(name, help=registry.summary_of((*path, name)))
            for name in self.list_commands(ctx)
            if name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands of this group; those of the whole program by capability."""
        path = _path_of(ctx)
        if path:
            with formatter.section("Commands"):
                formatter.write_dl(
                    [(name, registry.summary_of((*path, name))) for name in self.list_commands(ctx)]
                )
            return
        with formatter.section("COMMANDS BY CAPABILITY"):
            for capability, meaning in registry.MEANING_BY_CAPABILITY.items():
                formatter.write_text(f"{capability} commands {meaning}:")
                formatter.indent()
                formatter.write_dl(_legend_rows(capability), col_max=_TERM_COLUMNS_MAX)
                formatter.dedent()


def _error_body(error: GraphError | CommandError | OSError) -> Mapping[str, object]:
    """An error as JSON, with the code that a server would respond with."""
    match error:
        case GraphError():
            # Imported by name, because only errors need it.
            problems = import_module("omnigraph.http.problems")
            body: Mapping[str, object] = problems.error_body(error, message=str(error))
            return body
        case CommandError():
            return {"error": str(error), "code": "bad_request"}
        case OSError():
            return {"error": explain_failure(error), "code": "unavailable"}


_OF_INVOCATION = frozenset({"uri", "is_json"})


def command(
    *shared: Callable[[click.Command], click.Command],
) -> Callable[[Callable[..., object]], Command]:
    """Make a function of an `Invocation` a `Command`; the registry defines its name.

    `shared` are options and arguments that several commands have; they follow those that decorate
    the function. The function does not get the URI and `--json`, which the invocation has.
    """

    def decorate(function: Callable[..., object]) -> Command:
        @wraps(function)
        def run(invocation: Invocation, **given: object) -> object:
            for name in _OF_INVOCATION:
                given.pop(name, None)
            return function(invocation, **given)

        made = click.command(cls=Command)(click.pass_obj(run))
        for add in shared:
            add(made)
        complete_paths(made.params)
        made.params.extend(global_options())
        return made

    return decorate


def make_group(path: tuple[str, ...]) -> Group:
    """The group of a path."""
    return Group(path[-1], params=global_options(), help=registry.summary_of(path))


def _path_of(context: click.Context) -> tuple[str, ...]:
    words: list[str] = []
    while context.parent is not None:
        words.append(context.info_name or "")
        context = context.parent
    return tuple(reversed(words))


def _entry_of(context: click.Context) -> registry.Entry:
    entry = registry.find_entry(_path_of(context))
    assert entry is not None, "a command that runs was found in the registry"
    return entry


def _import_command(entry: registry.Entry) -> Command:
    module, _, name = entry.location.partition(":")
    found = getattr(import_module(f"omnigraph.cli.commands.{module}"), name)
    assert isinstance(found, Command), f"{entry.location} is made with @command()"
    return found


def _legend_rows(capability: registry.Capability) -> list[tuple[str, str]]:
    """One row per command or group: `branch create|list`, and its summary."""
    names_by_word: dict[str, list[str]] = {}
    for entry in registry.ENTRIES:
        if entry.capability is capability and not entry.is_hidden:
            names_by_word.setdefault(entry.path[0], []).extend(entry.path[1:])
    return [
        (f"{word} {'|'.join(names)}".rstrip(), _legend_summary(word, names))
        for word, names in names_by_word.items()
    ]


def _legend_summary(word: str, names: list[str]) -> str:
    # A group with a single command of this capability is described by that command.
    return registry.summary_of((word, names[0]) if len(names) == 1 else (word,))
