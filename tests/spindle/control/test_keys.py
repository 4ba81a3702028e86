import stat
from pathlib import Path

import pytest

from spindle.control.keys import KeyProblemError, api_key
from spindle.control.lock import DataInUseError, exclusive


def test_a_key_is_made_once_and_readable_by_its_owner_alone(tmp_path: Path) -> None:
    data = tmp_path / "new" / "folder"
    key = api_key(data, {})
    assert key.startswith("tml-")
    assert len(key) > 40
    assert api_key(data, {}) == key
    assert stat.S_IMODE((data / "api-key").stat().st_mode) == 0o600
    assert [path.name for path in data.iterdir()] == ["api-key"]
    assert api_key(tmp_path / "other", {}) != key


def test_the_environment_gives_the_key_and_nothing_is_written(tmp_path: Path) -> None:
    assert api_key(tmp_path, {"SPINDLE_API_KEY": "tml-from-the-environment"}) == "tml-from-the-environment"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("key", ["", "secret-without-prefix", "tml-short"])
def test_a_key_that_clients_would_not_send_is_refused_without_showing_it(tmp_path: Path, key: str) -> None:
    with pytest.raises(KeyProblemError, match="must start with tml-") as problem:
        api_key(tmp_path, {"SPINDLE_API_KEY": key})
    assert not key or key not in str(problem.value)


@pytest.mark.parametrize("content", ["", "\n", "tml-", "secret-without-prefix"])
def test_a_key_file_without_a_key_is_refused_and_lets_nobody_in(tmp_path: Path, content: str) -> None:
    (tmp_path / "api-key").write_text(content)
    with pytest.raises(KeyProblemError, match=r"must start with tml-.*delete the file"):
        api_key(tmp_path, {})


def test_a_data_folder_serves_one_process(tmp_path: Path) -> None:
    with exclusive(tmp_path), pytest.raises(DataInUseError, match="Another spindle serves"), exclusive(tmp_path):
        pass
    with exclusive(tmp_path):
        pass
