"""The commands there are, by group, and the two pages that list them: light, so that help is there at once.

The module that holds a command is imported when that command is used. A test keeps the summaries here and the first
lines of the commands themselves the same.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """One command: where it is, and what it does."""

    name: str
    """As it is typed; two words for those of a group, `keys new`."""
    where: str
    """`module:function` in this package."""
    summary: str
    extra: str | None = None
    """What has to be installed beside Everlog for it: a name in brackets, as in `everlog[server]`."""


GROUPS: dict[str, tuple[Command, ...]] = {
    "Talk": (
        Command("chat", "chat:chat", "Talk with a model that forgets nothing."),
        Command("serve", "serve:serve", "Stand in front of a server of models as a proxy.", extra="server"),
    ),
    "Keep": (
        Command("import", "bring:import_files", "Bring in conversations that other programs exported."),
        Command("threads", "threads:list_threads", "List the threads."),
        Command("show", "threads:show", "Print the entries of a thread."),
        Command("export", "threads:export", "Write threads as lines of JSON, one entry each."),
        Command("fork", "threads:fork", "Begin a thread that shares the start of another."),
    ),
    "Remember": (
        Command("view", "tree:view", "Print a whole thread within a budget."),
        Command("zoom", "tree:zoom", "Open a line of a view: its two halves, or the message."),
        Command("read", "tree:read", "Print one message, page by page."),
        Command("date", "tree:date", "Print when a message was said."),
        Command("search", "search:search", "Find messages by their words: where, when and who, no text."),
        Command("context", "explain:explain", "Print what a past prompt was made of, what was left out, and why."),
        Command("pump", "tree:pump", "Build what is still missing of the trees."),
        Command("worker", "worker:worker", "Keep all trees current until it is stopped."),
        Command("rebuild", "tree:rebuild", "Drop the tree of a thread and build it again."),
    ),
    "Look after": (
        Command("stats", "care:stats", "Count what is in the database."),
        Command("verify", "care:verify", "Prove that nothing is missing or changed."),
        Command("doctor", "doctor:doctor", "Check database, keys and pending work, or the memory of one thread."),
        Command("backup", "copies:backup", "Write a copy of the database while it is in use."),
        Command("restore", "copies:restore", "Make a database from a backup."),
        Command("config show", "settings:show", "Print all settings, and who says so.", extra="server"),
        Command("db upgrade", "upgrade:upgrade", "Make or upgrade the tables of a server's database."),
    ),
    "Protect": (
        Command("encrypt", "secrets:encrypt", "Turn encryption on for a database that has text already."),
        Command("keys new", "secrets:new", "Make a master key."),
        Command("keys join", "secrets:join", "Write the master keys of several files into one, for a change of keys."),
        Command("keys rotate", "secrets:rotate", "Seal everything under new keys and the newest master key."),
        Command(
            "keys retire", "secrets:retire", "Show which master keys are in use no longer, and settle old erasures."
        ),
        Command("keys create", "callers:create", "Make a key for a caller of the proxy, and print it."),
        Command("keys list", "callers:list_keys", "List the keys of callers."),
        Command("keys revoke", "callers:revoke", "Have a key of a caller open nothing from now on."),
        Command("erase", "erase:erase", "Erase a thread, a person or a tenant, and print the receipt."),
    ),
}

SUBGROUPS = {
    "config": "Look at settings.",
    "db": "Look after the tables of a database.",
    "keys": "Master keys, which seal the database, and keys of callers, who ask through the proxy.",
}

COMMANDS = {command.name: command for group in GROUPS.values() for command in group}

SHARED_HELP = {
    "--db DATABASE": "A file, or postgresql://user@host/database. Else EVERLOG_DB, the settings, or everlog.db here.",
    "--tenant NAME": "Whose threads. Else EVERLOG_TENANT, the settings, or 'default'.",
    "--key-file FILE": "A file with master keys. Else EVERLOG_KEY_FILE, else the keys in EVERLOG_MASTER_KEY.",
    "--json": "Print JSON; errors too, on standard error.",
    "--debug": "Show where an unexpected error came from, as EVERLOG_DEBUG=1 does.",
}
"""The options that every command takes, before or after its name."""


def page() -> str:
    """Return the help of `everlog` itself."""
    lines = [
        "Usage: everlog [OPTIONS] COMMAND ...",
        "",
        "Endless memory for any LLM app: every message is kept word for word, and views of",
        "any length fit a budget and open back down to the words.",
    ]
    width = max(map(len, COMMANDS)) + 2
    for title, commands in GROUPS.items():
        lines += ["", f"{title}:", *(f"  {one.name:<{width}}{one.summary}" for one in commands)]
    lines += ["", "Options, here or after any command:"]
    lines += [f"  {name}\n      {text}" for name, text in SHARED_HELP.items()]
    lines += ["  --version\n      Print the version.", "", "`everlog COMMAND --help` shows examples."]
    return "\n".join(lines)


def hello(version: str) -> str:
    """Return what `everlog` says when nothing is asked of it."""
    return "\n".join(
        [
            f"Everlog {version}: endless memory for any LLM app.",
            "",
            "  everlog import FILE...             bring in an export of ChatGPT, Claude, Codex, JSON",
            "  everlog serve --upstream URL       stand in front of any model, and keep each talk",
            "  everlog chat --model NAME          talk with a model that forgets nothing",
            "  everlog threads                    list what is there",
            "  everlog view THREAD --bytes 4000   a whole thread at a glance; zoom opens its lines",
            "",
            "All commands: everlog --help",
        ]
    )
