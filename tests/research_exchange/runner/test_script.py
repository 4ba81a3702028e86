"""A script in its own folder, environment and process group."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from research_exchange.client import Run
from research_exchange.runner import script as script_module
from research_exchange.runner.environment import command_environment, named_variables, patch_of, revision_of, secrets_in
from research_exchange.runner.errors import CannotExecute
from research_exchange.runner.limits import Limits
from research_exchange.runner.script import FolderTooLarge, Script, copy_folder
from research_exchange.runner.work_folder import WorkFolder

ENVIRONMENT = {"PATH": os.environ["PATH"]}


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for(path: Path) -> str:
    deadline = time.monotonic() + 20
    while not (path.exists() and path.read_text().endswith("\n")):
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.02)
    return path.read_text()


def test_both_outputs_are_in_the_log_and_the_exit_code_is_told(tmp_path: Path) -> None:
    with Script("echo out; echo err >&2; exit 7", tmp_path, ENVIRONMENT, tmp_path / "log") as script:
        assert script.wait(20) == 7
    assert (tmp_path / "log").read_text() == "out\nerr\n"


def test_the_environment_is_exactly_what_was_given(tmp_path: Path) -> None:
    with Script("env", tmp_path, {"PATH": os.environ["PATH"], "A": "1"}, tmp_path / "log") as script:
        assert script.wait(20) == 0
    names = {line.partition("=")[0] for line in (tmp_path / "log").read_text().splitlines()}
    assert names - {"PWD", "SHLVL", "_", "OLDPWD"} == {"PATH", "A"}


def test_who_started_the_script_tells_it_nothing_of_the_runners_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Linux every process can read the environment of others of the same user, above all its parent's."""
    monkeypatch.setenv("SOMEBODYS_KEY", "not-for-a-script")
    with Script("cat /proc/$PPID/environ", tmp_path, ENVIRONMENT, tmp_path / "log") as script:
        assert script.wait(20) == 0
    assert "PATH=" in (tmp_path / "log").read_text()
    assert "not-for-a-script" not in (tmp_path / "log").read_text()


def test_leaving_ends_the_script_and_what_it_started(tmp_path: Path) -> None:
    with Script("sleep 300 & echo $! > child; wait", tmp_path, ENVIRONMENT, tmp_path / "log"):
        child = int(wait_for(tmp_path / "child"))
        assert is_alive(child)
    assert not is_alive(child)


def test_children_that_outlive_a_finished_script_have_ended_when_it_counts_as_ended(tmp_path: Path) -> None:
    with Script("sleep 300 & echo $! > child", tmp_path, ENVIRONMENT, tmp_path / "log") as script:
        assert script.wait(20) == 0
        assert not is_alive(int(wait_for(tmp_path / "child")))


def test_a_daemon_that_left_its_session_is_ended_too(tmp_path: Path) -> None:
    daemon = "import os, time; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); "
    daemon += "open('daemon', 'w').write(f'{os.getpid()}\\n'); time.sleep(300)"
    command = f'{sys.executable} -c "{daemon}"; while ! test -s daemon; do sleep 0.05; done'
    with Script(command, tmp_path, ENVIRONMENT, tmp_path / "log") as script:
        assert script.wait(20) == 0, (tmp_path / "log").read_text()
        assert not is_alive(int(wait_for(tmp_path / "daemon")))


def test_what_a_signal_ended_is_told_by_its_number(tmp_path: Path) -> None:
    for number in (signal.SIGKILL, signal.SIGSEGV):
        with Script(f"kill -{number.value} $$", tmp_path, ENVIRONMENT, tmp_path / "log") as script:
            assert script.wait(20) == -number


def test_a_command_reads_what_it_is_given_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "brief").write_text("the brief\n")
    with Script("cat", tmp_path, ENVIRONMENT, tmp_path / "log", given=tmp_path / "brief") as script:
        assert script.wait(20) == 0
    with Script("cat", tmp_path, ENVIRONMENT, tmp_path / "log") as script:
        assert script.wait(20) == 0
    assert (tmp_path / "log").read_text() == "the brief\n"


@pytest.mark.parametrize(
    ("limits", "command", "sign"),
    [
        (Limits(memory=0.25), "bytearray(2**29)", "MemoryError"),
        (Limits(file=1e-3), "open('large', 'wb', 0).write(bytes(2**21)) < 2**21 or 1/0; print('cut')", "cut"),
        (Limits(files=20), "[open('/dev/null') for _ in range(30)]", "Too many open files"),
        (Limits(), "import resource; print('core', resource.getrlimit(resource.RLIMIT_CORE))", "core (0, 0)"),
    ],
)
def test_limits_hold_in_a_script(tmp_path: Path, limits: Limits, command: str, sign: str) -> None:
    (tmp_path / "use.py").write_text(command)
    with Script(f"{sys.executable} use.py", tmp_path, ENVIRONMENT, tmp_path / "log", limits=limits) as script:
        assert script.wait(20) is not None
    assert sign in (tmp_path / "log").read_text()


def test_processor_time_is_limited(tmp_path: Path) -> None:
    command = f"exec {sys.executable} -c 'while True: pass'"
    with Script(command, tmp_path, ENVIRONMENT, tmp_path / "log", limits=Limits(cpu=1 / 60)) as script:
        assert script.wait(20) in (-signal.SIGKILL, -signal.SIGXCPU)


def test_kill_9_of_the_guard_leaves_nobody_behind(tmp_path: Path) -> None:
    command = "sleep 300 & echo $! > child; echo $$ > shell; wait"
    with Script(command, tmp_path, ENVIRONMENT, tmp_path / "log") as script:
        shell, child = (int(wait_for(tmp_path / name)) for name in ("shell", "child"))
        parent = int(Path(f"/proc/{shell}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(parent, signal.SIGKILL)
        assert script.wait(20) == -signal.SIGKILL
    for pid in (shell, child):
        wait_until_gone(pid)


def test_one_at_a_time_executes_a_run_until_the_last_child_has_gone(tmp_path: Path) -> None:
    work = WorkFolder(tmp_path / "run_0000000000")
    command = "trap 'sleep 1; exit' TERM; echo > on; sleep 300 & wait"
    with work.occupied() as lock:
        script = Script(command, tmp_path, ENVIRONMENT, tmp_path / "log", holds=(lock,))
        wait_for(tmp_path / "on")
        with pytest.raises(CannotExecute, match="run_0000000000 is being executed on this machine"), work.occupied():
            pass
    with pytest.raises(CannotExecute), work.occupied():
        pass
    with script, pytest.raises(CannotExecute), work.occupied(wait=0.3):
        pass
    with work.occupied():
        pass


PREPARES = """
import pathlib, sys
from research_exchange.runner.work_folder import WorkFolder
with WorkFolder.prepared(pathlib.Path(sys.argv[1])) as made:
    print(made.path, flush=True)
    sys.stdin.read()
"""


def test_what_a_killed_process_prepared_is_removed_and_what_a_living_one_prepares_is_not(tmp_path: Path) -> None:
    def prepare() -> tuple["subprocess.Popen[str]", Path]:
        command = [sys.executable, "-c", PREPARES, str(tmp_path)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        return process, Path(process.stdout.readline().strip())

    def kill(process: "subprocess.Popen[str]") -> None:
        process.kill()
        process.communicate()

    (dead, left), (living, filled) = prepare(), prepare()
    kill(dead)
    with WorkFolder.prepared(tmp_path) as made:
        assert {left, filled, made.path} == set((tmp_path / "work").iterdir())
    kill(living)
    with WorkFolder.prepared(tmp_path) as made:
        assert [made.path] == list((tmp_path / "work").iterdir())
    assert not list((tmp_path / "work").iterdir())


def wait_until_gone(pid: int, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while is_alive(pid):
        assert time.monotonic() < deadline, f"{pid} is still there"
        time.sleep(0.05)


def test_a_script_that_ignores_being_asked_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_module, "STOP_SECONDS", 0.5)
    command = "trap '' TERM; echo $$ > pid; while true; do sleep 0.1; done"
    with Script(command, tmp_path, ENVIRONMENT, tmp_path / "log"):
        pid = int(wait_for(tmp_path / "pid"))
    assert not is_alive(pid)


def test_the_copy_leaves_hidden_files_and_caches_behind(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "__pycache__").mkdir(parents=True)
    for name in ("train.py", ".env", "__pycache__/train.pyc"):
        (source / name).write_text("x")
    copy_folder(source, tmp_path / "copy")
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["train.py"]


def test_a_folder_that_is_no_experiment_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_module, "LARGEST_FOLDER_BYTES", 10)
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "data").write_bytes(b"x" * 11)
    with pytest.raises(FolderTooLarge, match="give the spec a folder of its own"):
        copy_folder(tmp_path / "source", tmp_path / "copy")


def test_only_named_variables_reach_a_script() -> None:
    run = Run("http://127.0.0.1:1", "run_0123456789", "rxr_secret")
    mine = {"HOME": "/home/me", "LANG": "C", "PATH": "/bin", "RX_ADMIN_TOKEN": "rxa_x", "AGENT_KEY": "y"}
    options: dict[str, Any] = {"state": Path("state"), "is_resumed": False, "environment": mine}
    given = command_environment(run, {"TINKER_API_KEY": "tml-k"}, passed={}, **options)
    ours = {"RX_URL", "RX_RUN_ID", "RX_RUN_TOKEN", "RX_WORK"}
    assert set(given) == {"HOME", "LANG", "PATH", "PYTHONUNBUFFERED", "TINKER_API_KEY"} | ours
    assert given["RX_URL"] == "http://127.0.0.1:1"
    assert given["PATH"].endswith(":/bin")
    passed = named_variables(["AGENT_KEY"], mine)
    more = command_environment(run, {}, passed=passed, **options | {"is_resumed": True}, revision="abc")
    assert set(more) - set(given) == {"AGENT_KEY", "RX_CODE_REVISION", "RX_RESUME"}
    assert secrets_in({"HF_TOKEN": "long enough", "KEY": "short", "HOME": "/home/somebody"}) == [b"long enough"]
    with pytest.raises(KeyError, match="ABSENT"):
        named_variables(["AGENT_KEY", "ABSENT"], mine)


def test_the_revision_names_the_commit_and_says_when_files_differ(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        identity = "-c user.name=t -c user.email=t@example.org"
        command = f"git {identity} {' '.join(arguments)}"
        with Script(command, tmp_path, {**ENVIRONMENT, "HOME": str(tmp_path)}, tmp_path.parent / "git.log") as script:
            assert script.wait(20) == 0, (tmp_path.parent / "git.log").read_text()

    assert revision_of(tmp_path) == "unversioned"
    (tmp_path / "train.py").write_text("1\n")
    git("init", "-q")
    git("add", "train.py")
    git("commit", "-q", "-m", "one")
    clean = revision_of(tmp_path)
    assert len(clean) == 40
    assert patch_of(tmp_path) == b""
    (tmp_path / "train.py").write_bytes(b"2 # caf\xe9 in Latin 1\n")
    assert revision_of(tmp_path) == f"{clean}-dirty"
    assert b"+2 # caf\xe9" in patch_of(tmp_path)


def test_links_that_lead_nowhere_or_in_circles_are_left_out_and_others_are_followed(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rows").write_text("1\n")
    (source / "data").symlink_to(tmp_path / "data")
    (source / "broken").symlink_to("nothing")
    (source / "deep" / "circle").symlink_to(source)
    os.mkfifo(source / "pipe")
    copy_folder(source, tmp_path / "copy")
    copied = {str(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy").rglob("*")}
    assert copied == {"data", "data/rows", "deep"}
    assert not (tmp_path / "copy" / "data").is_symlink()


def test_what_is_not_copied_does_not_make_a_folder_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_module, "LARGEST_FOLDER_BYTES", 10)
    (tmp_path / "source" / ".venv").mkdir(parents=True)
    (tmp_path / "source" / ".venv" / "large").write_bytes(bytes(11))
    copy_folder(tmp_path / "source", tmp_path / "copy")
