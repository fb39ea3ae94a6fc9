"""The pages of help: complete, the same as the commands, and readable on one screen."""

import re

import pytest
from inline_snapshot import snapshot

from everlog.surfaces.cli import program
from everlog.surfaces.cli.catalogue import COMMANDS, GROUPS, SHARED_HELP, SUBGROUPS, hello, page


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")


def help_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert program.run([*words, "--help"]) == 0
    return capsys.readouterr().out


def test_the_page_of_all_commands(capsys: pytest.CaptureFixture[str]):
    assert help_of(capsys) == f"{page()}\n"
    assert page() == snapshot("""\
Usage: everlog [OPTIONS] COMMAND ...

Endless memory for any LLM app: every message is kept word for word, and views of
any length fit a budget and open back down to the words.

Talk:
  chat         Talk with a model that forgets nothing.
  serve        Stand in front of a server of models as a proxy.

Keep:
  import       Bring in conversations that other programs exported.
  threads      List the threads.
  show         Print the entries of a thread.
  export       Write threads as lines of JSON, one entry each.
  fork         Begin a thread that shares the start of another.

Remember:
  view         Print a whole thread within a budget.
  zoom         Open a line of a view: its two halves, or the message.
  read         Print one message, page by page.
  date         Print when a message was said.
  search       Find messages by their words: where, when and who, no text.
  context      Print what a past prompt was made of, what was left out, and why.
  pump         Build what is still missing of the trees.
  worker       Keep all trees current until it is stopped.
  rebuild      Drop the tree of a thread and build it again.

Look after:
  stats        Count what is in the database.
  verify       Prove that nothing is missing or changed.
  doctor       Check database, keys and pending work, or the memory of one thread.
  backup       Write a copy of the database while it is in use.
  restore      Make a database from a backup.
  config show  Print all settings, and who says so.
  db upgrade   Make or upgrade the tables of a server's database.

Protect:
  encrypt      Turn encryption on for a database that has text already.
  keys new     Make a master key.
  keys join    Write the master keys of several files into one, for a change of keys.
  keys rotate  Seal everything under new keys and the newest master key.
  keys retire  Show which master keys are in use no longer, and settle old erasures.
  keys create  Make a key for a caller of the proxy, and print it.
  keys list    List the keys of callers.
  keys revoke  Have a key of a caller open nothing from now on.
  erase        Erase a thread, a person or a tenant, and print the receipt.

Options, here or after any command:
  --db DATABASE
      A file, or postgresql://user@host/database. Else EVERLOG_DB, the settings, or everlog.db here.
  --tenant NAME
      Whose threads. Else EVERLOG_TENANT, the settings, or 'default'.
  --key-file FILE
      A file with master keys. Else EVERLOG_KEY_FILE, else the keys in EVERLOG_MASTER_KEY.
  --json
      Print JSON; errors too, on standard error.
  --debug
      Show where an unexpected error came from, as EVERLOG_DEBUG=1 does.
  --version
      Print the version.

`everlog COMMAND --help` shows examples.\
""")


def test_the_page_of_import(capsys: pytest.CaptureFixture[str]):
    assert help_of(capsys, "import") == snapshot("""\
Usage: everlog import [OPTIONS] FILE...

Bring in conversations that other programs exported.

The form of a file is seen by its content. What is in the log already is recognised and not stored
again, so a newer export can be imported over an older one, and an import that was stopped is
resumed by running it again. What was edited since becomes a fork. Without --thread the keys of
threads come from the files.

Arguments:
  FILE  Exports; zip archives as they are; - is standard input.

Options:
  --thread KEY     Put the conversation of the file into this thread.
  --format FORMAT  Instead of what is detected: beam, chatgpt, claude-ai, claude-code, codex,
                   everlog, locomo, openai.
  -h, --help       Show this message and exit.

Options of every command:
  --db DATABASE    A file, or postgresql://user@host/database. Else EVERLOG_DB, the settings, or
                   everlog.db here.
  --tenant NAME    Whose threads. Else EVERLOG_TENANT, the settings, or 'default'.
  --key-file FILE  A file with master keys. Else EVERLOG_KEY_FILE, else the keys in
                   EVERLOG_MASTER_KEY.
  --json           Print JSON; errors too, on standard error.
  --debug          Show where an unexpected error came from, as EVERLOG_DEBUG=1 does.

Examples:
  everlog import chatgpt-export.zip
  everlog import ~/.claude/projects/*/*.jsonl
  everlog import messages.jsonl --thread holiday
  my-program | everlog import - --thread holiday
""")


def test_the_page_of_erase_has_a_tenant_of_its_own(capsys: pytest.CaptureFixture[str]):
    assert help_of(capsys, "erase") == snapshot("""\
Usage: everlog erase [OPTIONS]

Erase a thread, a person or a tenant, and print the receipt.

What is erased does not come back. A tombstone of each entry stays: position, kind and time. To
erase a thread or a user of another tenant than the default, put --tenant before `erase`.

Options:
  --thread KEY  A thread. Forks keep what they share.
  --user ID     All turns of an end user.
  --tenant ID   Everything of a tenant; only receipts stay.
  -y, --yes     Do not ask.
  -h, --help    Show this message and exit.

Options of every command:
  --db DATABASE    A file, or postgresql://user@host/database. Else EVERLOG_DB, the settings, or
                   everlog.db here.
  --key-file FILE  A file with master keys. Else EVERLOG_KEY_FILE, else the keys in
                   EVERLOG_MASTER_KEY.
  --json           Print JSON; errors too, on standard error.
  --debug          Show where an unexpected error came from, as EVERLOG_DEBUG=1 does.

Examples:
  everlog erase --thread holiday --yes
  everlog --tenant acme erase --user u-17
""")


def test_the_page_of_a_group(capsys: pytest.CaptureFixture[str]):
    assert help_of(capsys, "keys") == snapshot("""\
Usage: everlog keys [OPTIONS] COMMAND [ARGS]...

  Master keys, which seal the database, and keys of callers, who ask through the proxy.

Options:
  -h, --help  Show this message and exit.

Commands:
  new     Make a master key.
  join    Write the master keys of several files into one, for a change of keys.
  rotate  Seal everything under new keys and the newest master key.
  retire  Show which master keys are in use no longer, and settle old erasures.
  create  Make a key for a caller of the proxy, and print it.
  list    List the keys of callers.
  revoke  Have a key of a caller open nothing from now on.
""")


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_a_page_of_one_screen_with_an_example(name: str, capsys: pytest.CaptureFixture[str]):
    shown = help_of(capsys, *name.split())
    lines = shown.splitlines()
    assert lines[0].startswith(f"Usage: everlog {name} ")
    assert lines[2] == COMMANDS[name].summary
    assert len(lines) <= 48
    assert max(map(len, lines)) <= 100
    assert shown.isascii()
    *_, examples = re.split(r"^Examples?:\n", shown, flags=re.MULTILINE)
    assert examples != shown
    assert re.search(rf"^  .*\beverlog (--\S+ \S+ )*{name}\b", examples, re.MULTILINE)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_option_and_argument_of_a_command_is_explained(name: str, capsys: pytest.CaptureFixture[str]):
    shown = help_of(capsys, *name.split())
    explained = re.findall(r"^  (-\S.*?|[A-Z]\S*|\[\S+\])(?:  +|\n +)(\S.*)$", shown, re.MULTILINE)
    named = re.findall(r"^  ((?:-\w, )?--[a-z-]+(?: / --[a-z-]+)?)", shown, re.MULTILINE)
    options = {word for option in named for word in re.findall(r"--[a-z-]+", option)}
    assert {word for option, _ in explained for word in re.findall(r"--[a-z-]+", option)} == options
    assert {option.split()[0] for option in SHARED_HELP} - {"--tenant"} <= options
    assert "--tenant" in options


def test_every_command_has_a_group_and_one_word_or_two():
    assert sum(map(len, GROUPS.values())) == len(COMMANDS)
    assert {name.split()[0] for name in COMMANDS if " " in name} == SUBGROUPS.keys()


def test_the_first_words_of_the_program_fit_a_small_terminal():
    assert page().isascii()
    assert max(map(len, page().splitlines())) <= 104
    assert max(map(len, hello("1.0").splitlines())) <= 90


def test_the_page_of_a_group_says_all_of_what_each_command_does(capsys: pytest.CaptureFixture[str]):
    shown = " ".join(help_of(capsys, "keys").split())
    for name, command in COMMANDS.items():
        if name.startswith("keys "):
            assert command.summary in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_no_usage_has_more_dots_than_three(name: str, capsys: pytest.CaptureFixture[str]):
    assert "...." not in help_of(capsys, *name.split())
