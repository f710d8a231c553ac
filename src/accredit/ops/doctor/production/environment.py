"""Checks of the gateway's environment: its store, its log, its processes. No I/O.

Each check is a function of the facts. Its name is that of its line in the checklist: `production.NAME`. Its docstring
says what must hold.
"""

from accredit.config.attest import own_key_file
from accredit.limits import CLOCK_SKEW_WARN_SECONDS
from accredit.ops.doctor.engine import MIGRATE, Result, Unknown, command_line, need, no, ok, unknown
from accredit.ops.doctor.production.facts import Facts

PRODUCTION_UNSENT_SECONDS = 3_600
"""How many seconds a log entry may wait for a sink: an entry that is nowhere else can be cut off unseen. A sink that is
tried again after a failure has all entries within a minute."""
PRODUCTION_DRILL_DAYS = 31
"""How many days ago the last `accredit drill` may be. If the configuration was changed since, the change has not been
tried."""
PRODUCTION_ROOM_BYTES = 1 << 30
"""How many bytes must be free where the store's file is: some 400,000 recorded calls."""
PRODUCTION_DESCRIPTORS = 4_096
"""How many files a gateway must be able to open: half of them are for clients (`MAX_CLIENT_CONNECTIONS`)."""


_DAY = 86_400
_FILE = "the store is a file of this machine"


def schema(facts: Facts) -> Result:
    """The tables have the schema version that this accredit needs."""
    database = need(facts.database)
    state = need(facts.file_schema) if database is None else database.schema
    if state is None:
        return ok("a store in memory has no tables")
    found, current, _ = state
    if database is None and (found is None or found < current):
        return ok("the gateway makes what is missing in the file when it opens it")
    if found == current:
        return ok(f"schema {found}, which is current")
    if found is not None and found > current:
        return no(f"schema {found} is of a newer accredit, and this one knows {current}", "install that one")
    return no(f"schema {found or 0}, and {current} is current", f"once all gateways are of this version, {MIGRATE}")


def synchronous(facts: Facts) -> Result:
    """Confirmed writes survive the loss of a disk or of the primary."""
    store = None if isinstance(facts.store, Unknown) else facts.store.as_database
    if store is None:
        return _elsewhere(facts, f"{_FILE}, with its disk: a backup is what is left without that")
    database = need(facts.database)
    if database is None:
        return unknown("the database was not asked")
    if not database.is_synced:
        return no("fsync or full_page_writes is off: what was confirmed may be gone", "set both to on in the server")
    if store.replicas != "required":
        what = 'store.replicas is "none": with the primary\'s disk it is forgotten what was spent'
        return no(what, 'have a standby confirm, and set store.replicas = "required" (docs: survive a failover)')
    if not database.standbys:
        return no("synchronous_standby_names is empty: no standby confirms", "name them in the server")
    return ok(f"confirmed by {database.standbys}")


def _elsewhere(facts: Facts, what: str) -> Result:
    """Return the result for a store that is not a database."""
    if need(facts.store).lasting is None:
        return no("a store in memory keeps nothing", 'set store.url = "sqlite:///accredit.db"')
    return ok(what)


def role(facts: Facts) -> Result:
    """The gateway's database user can append to the log, but not change it."""
    database = need(facts.database)
    if database is None:
        return _elsewhere(facts, f"{_FILE}: whoever may write it can take out records, and change none unseen")
    if database.powers:
        remedy = "make a user of its own: CREATE ROLE gw LOGIN IN ROLE accredit_gateway, and name it in store.url"
        return no(f"the user of store.url can do more than a gateway needs: {'; '.join(database.powers)}", remedy)
    return ok("it can add to the log, and change nothing of it")


def connections(facts: Facts) -> Result:
    """Not every user may connect to the database, only those to whom it was granted: whoever can connect can use up its
    connections and advisory locks."""
    database = need(facts.database)
    if database is None:
        return _elsewhere(facts, _FILE)
    if database.is_open:
        revoke = "REVOKE CONNECT ON DATABASE ... FROM PUBLIC"
        remedy = f"{revoke}, and grant it to accredit_gateway and accredit_admin (docs: the store)"
        return no("every user of the database's server may connect, and keep gateways waiting", remedy)
    return ok("only who was granted it may connect to the database")


def clock(facts: Facts) -> Result:
    """The clock is synchronized, and agrees with the database's."""
    if facts.database is not None and not isinstance(facts.database, Unknown):
        off = facts.database.clock_off
        if off > CLOCK_SKEW_WARN_SECONDS:
            return no(f"the database's clock and this machine's differ by {off:.1f} s", *_KEEP_TIME)
    if not need(facts.is_synchronised):
        return no("nothing keeps this machine's clock in step, says the kernel", *_KEEP_TIME)
    need(facts.database)
    return ok("kept in step")


_KEEP_TIME = ("run chrony or systemd-timesyncd on every machine", "timedatectl set-ntp true")


def room(facts: Facts) -> Result:
    """There is disk space for records: without it, calls are refused."""
    if isinstance(facts.disk_space, Unknown):
        is_here = isinstance(facts.store, Unknown) or facts.store.file is not None
        return unknown(facts.disk_space.why) if is_here else ok(facts.disk_space.why)
    free, size = facts.disk_space
    what = f"{free >> 20} MiB of {size >> 20} are free where the store is"
    if free < PRODUCTION_ROOM_BYTES:
        key = str(own_key_file(facts.loaded) or "gateway.key")
        prune = ("accredit", "log", "prune", "--before", "90d", "--key", key, "--config", str(facts.loaded.file))
        return no(what, "make room, or remove records that are older than you have to keep", command_line(*prune))
    return ok(what)


def shipping(facts: Facts) -> Result:
    """The log is copied elsewhere, and the copy is nearly up to date, so that an attacker on the store can only cut off
    what is not yet copied."""
    sinks = need(facts.sinks)
    following = ("accredit", "log", "follow", "--sink", "NAME", "--format", "jsonl", "--to", "FILE")
    follow = command_line(*following, "--config", str(facts.loaded.file))
    if not sinks:
        what = f"`{follow}`" if follow else "accredit log follow"
        return no("nobody has the log but the store", f"have a service run {what}, and send that on")
    late = [
        (each.name, facts.now - each.waiting_since)
        for each in sinks
        if each.waiting_since is not None and facts.now - each.waiting_since > PRODUCTION_UNSENT_SECONDS
    ]
    if late:
        name, behind = max(late, key=lambda each: each[1])
        return no(f"sink {name} is {behind // 60} minutes behind", "see whether its `accredit log follow` runs")
    return ok(f"sent to {', '.join(each.name for each in sinks)}")


def drill(facts: Facts) -> Result:
    """A recent drill has checked that the gateway refuses the calls that it must refuse."""
    drilled = need(facts.drilled)
    drilling = command_line("accredit", "drill", "--issuer", "KEY", "--config", str(facts.loaded.file))
    again = f"{drilling or 'accredit drill'}, with the key of one of proofs.roots"
    if drilled is None:
        return no("no drill is in the log", again)
    days = (facts.now - drilled) // _DAY
    if days > PRODUCTION_DRILL_DAYS:
        return no(f"the last drill was {days} days ago", again)
    when = f"{days} days ago" if days else "today"
    return ok(f"the last drill was {when}; what it found is in its own words alone")


def ready(facts: Facts) -> Result:
    """The gateway runs with the current configuration, and all its parts are well."""
    health = need(facts.health)
    parts = health.parts.items()
    broken = sorted(name for name, well in parts if not well and name != "schema")  # which has a line of its own
    if broken:
        return no(f"it says of itself that this is not well: {', '.join(broken)}", "see what it logs")
    if health.status != "ok":
        return no(f"it says of itself that it is {health.status}", "see what it logs")
    return ok("it runs, and all its parts are well")


def user(facts: Facts) -> Result:
    """The gateway runs as a user of its own, not as root."""
    processes = need(facts.processes)
    if any(each.user == 0 for each in processes):
        return no("it runs as root", "give it a user of its own, as deploy/systemd and deploy/kubernetes do")
    return ok(f"it runs as user {processes[0].user}")


def descriptors(facts: Facts) -> Result:
    """The limit of open files fits the number of clients."""
    least = min(each.descriptors for each in need(facts.processes))
    if least < PRODUCTION_DESCRIPTORS:
        return no(f"it may open {least} files, half of them for clients", "raise its limit: LimitNOFILE=65536")
    return ok(f"it may open {least} files")
