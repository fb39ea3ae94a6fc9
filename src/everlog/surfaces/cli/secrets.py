"""Commands about keys: encrypt, keys new, keys join, keys rotate, keys retire."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from everlog import MasterKeys, Mistake, SystemClock
from everlog.messages import JSON
from everlog.store.keys import new_master_key, write_key_file
from everlog.store.newfile import expanded
from everlog.store.rotation import Progress
from everlog.surfaces import opening
from everlog.surfaces.cli import health, session
from everlog.surfaces.cli.console import line, note
from everlog.surfaces.cli.output import count, document
from everlog.surfaces.cli.progress import bar


def encrypt(context: typer.Context) -> None:
    """Turn encryption on for a database that has text already.

    Can be stopped at any time; run again, it goes on. No plain copy is left in the file. A new database is encrypted
    from the start if there is a master key when it is made.

    Example:
      everlog keys new everlog.key
      everlog --key-file everlog.key encrypt
    """
    here = session.of(context)
    if opening.keys(here.settings) is None:
        raise Mistake("a master key is needed: `everlog keys new FILE` makes one, --key-file names it")
    with here.open(encrypting=True) as memory:
        already = health.encryption(memory) == "on"
        changed = 0 if already else _followed(memory.encrypt(), "encrypting")
    if here.json:
        document({"encryption": "on", "already": already, "rows": changed})
    elif already:
        line(f"{here.settings.shown} is encrypted already")
    else:
        line(
            f"{here.settings.shown} is encrypted: {count(changed, 'row')} sealed. Without the master key nothing opens."
        )


def new(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="Where to; only its owner may read it. Else it is printed.", show_default=False
        ),
    ] = None,
) -> None:
    """Make a master key.

    Keep it where the database is not, and keep a copy: without it nothing opens again.

    Examples:
      everlog keys new everlog.key
      export EVERLOG_MASTER_KEY=$(everlog keys new)
    """
    here = session.of(context)
    key = new_master_key(SystemClock())
    if file is None:
        line(key) if not here.json else document({"key": key})
        return
    write_key_file(file, key)
    name = MasterKeys.parse(key).name
    if here.json:
        document({"file": str(file), "name": name})
    else:
        line(f"{file}: master key {name}. Keep a copy of it; without it nothing opens again.")


def join(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to; it must not exist.")],
    files: Annotated[list[Path], typer.Argument(metavar="KEYFILE", help="The files of keys, the newest first.")],
) -> None:
    """Write the master keys of several files into one, for a change of keys.

    Only its owner may read it. The first key seals what is stored from then on, all of them open.

    Example:
      everlog keys join both.key new.key old.key
    """
    here = session.of(context)
    found = [key for one in files for key in MasterKeys.read(expanded(one)).keys]
    keys = MasterKeys(keys=list(dict.fromkeys(found)))
    write_key_file(expanded(file), keys.text())
    if here.json:
        document({"file": str(file), "name": keys.name, "keys": len(keys.keys)})
    else:
        line(f"{file}: {count(len(keys.keys), 'master key')}, of which {keys.name} seals")


def rotate(context: typer.Context) -> None:
    """Seal everything under new keys and the newest master key.

    To change the master key, give the new one before the old one, rotate, and then take the old one away.

    Example:
      everlog keys new new.key
      everlog keys join both.key new.key old.key
      everlog --key-file both.key keys rotate
    """
    here = session.of(context)
    with here.open() as memory:
        changed = _followed(memory.rotate_keys(), "rotating")
    given = opening.keys(here.settings)
    name = given.name if given is not None else ""
    older = len(given.keys) - 1 if given is not None else 0
    if here.json:
        document({"rows": changed, "master_key": name})
        return
    line(f"{count(changed, 'row')} sealed under new keys, which master key {name} opens")
    if older:
        note(f"the {count(older, 'older master key')} can be taken away now; then run `everlog keys retire`")


def retire(context: typer.Context) -> None:
    """Show which master keys are in use no longer, and settle old erasures.

    Run it with the newest master key alone, when the older ones are destroyed: erasures on a server that waited for
    that are final then.

    Example:
      everlog --key-file new.key keys retire
    """
    here = session.of(context)
    given = opening.keys(here.settings)
    if given is None:
        raise Mistake("give the master key that stays, by --key-file or EVERLOG_MASTER_KEY")
    if len(given.keys) > 1:
        raise Mistake("give the newest master key alone; the others are to be destroyed before they are retired")
    with here.open() as memory:
        if memory.store.wrappers() - {given.name}:
            raise Mistake("some tenants' keys are wrapped by an older master key; run `everlog keys rotate` with both")
        settled = health.settled(memory)
    done = sum(one.state == "done" for one in settled)
    if here.json:
        ids: list[JSON] = [one.id for one in settled if one.state == "done"]
        document({"master_key": given.name, "settled": ids, "pending": len(settled) - done})
    else:
        line(f"everything opens with master key {given.name} alone; {count(done, 'erasure')} settled")


def _followed(progress: Iterator[Progress], label: str) -> int:
    changed = 0
    with bar(label) as shown:
        for one in progress:
            changed = one.changed
            shown.to(one.owners, one.of)
    return changed
