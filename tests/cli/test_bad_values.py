"""Values that no option, variable or file can have: one clear line, and nothing is made."""

from pathlib import Path

import pytest
from ended import Run

HUGE = str(10**30)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ask", "Who?", "--corpus", ""], "is a variable unset?"),
        (["index", "", "--corpus", "new"], "is a variable unset?"),
        (["index", "~nouser/x", "--corpus", "new"], "there is no home folder of this user"),
        (["index", ".", "--corpus", "~nouser/x"], "there is no home folder of this user"),
        (["ask", "Who?", "--mode", "none", "--model", "~nouser/x"], "there is no home folder of this user"),
        (["ask", "Who?", "--corpus", "new", "--threads", "2147483648"], "1 to 4096"),
        (["ask", "Who?", "--corpus", "new", "--device", "cpu:x"], "auto, cpu"),
        (["ask", "Who?", "--corpus", "new", "--free", "--seed", HUGE], "--seed"),
        (["ask", "Who?", "--corpus", "new", "--temperature", "1.0"], "add --free"),
        (["ask", "Who?", "--corpus", "new", "--compose", "soup"], "--compose: no such rule"),
        (["ask", "Who?", "--corpus", "new", "--compose-renorm", "row"], "--compose-renorm: no such choice"),
    ],
)
def test_a_value_out_of_range(
    words: list[str], said: str, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = run(*words)
    assert ended.status == 2
    [line] = ended.err.splitlines()
    assert said in line
    assert "Sampling(" not in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("variable", ["PRECOG_HOME", "PRECOG_CORPUS"])
def test_the_home_of_nobody_in_a_variable(variable: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "~nouser/x")
    ended = run("list")
    assert ended.status == 2
    [line] = ended.err.splitlines()
    assert "~nouser/x" in line


def test_a_file_is_no_corpus(tmp_path: Path, run: Run) -> None:
    (tmp_path / "file").write_text("words")
    for words in (["list"], ["index", tmp_path], ["ask", "Who?"]):
        ended = run(*words, "--corpus", tmp_path / "file")
        assert ended.status == 1
        [line] = ended.err.splitlines()
        assert "it is a file" in line


@pytest.mark.parametrize("text", ["threads = 1e999", "threads = " + "[" * 100_000, f"threads = {HUGE}"])
def test_a_config_file_beyond_reason(text: str, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.toml").write_text(text)
    monkeypatch.setenv("PRECOG_HOME", str(tmp_path))
    ended = run("list")
    assert ended.status == 2
    [line] = ended.err.splitlines()
    assert "config" in line
    assert len(line) < 1_000


def test_what_is_counted(corpus: Path, docs: Path, run: Run) -> None:
    (docs / "empty.txt").write_text("")
    (docs / "mill.txt").unlink()
    (docs / "id_rsa").write_text("key")
    told = run("index", docs, "--corpus", corpus, "--json").json
    assert told["passed_over"] == [{"document": str(docs / "id_rsa"), "reason": "key or password file"}]
    ended = run("index", docs, "--corpus", corpus, "--prune")
    assert "1 unchanged, 1 failed, 1 pruned" in ended.out
    assert "1 chunk\n" in run("list", "--corpus", corpus).out
    assert "2, 1 of them failed" in run("info", "--corpus", corpus).out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        *[(["memory", "remember", "x", "--importance", value], "--importance") for value in ("nan", "inf", "1e309")],
        *[(["memory", "remember", "x", "--alpha", value], "--alpha") for value in ("nan", "0", "inf")],
        *[(["chat", "--min-confidence", value], "--min-confidence") for value in ("2", "nan", "-inf")],
        (["chat", "--compose-temperature", "nan"], "--compose-temperature"),
        (["chat", "--baseline", "nan"], "share of the semantic state"),
    ],
)
def test_a_number_that_a_memory_cannot_use(
    words: list[str], said: str, model: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRECOG_HOME", str(tmp_path))
    ended = run(*words, "--user", "ana", "--model", model)
    assert ended.status == 2
    [line] = ended.err.splitlines()
    assert said in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["squad", "--compose-temperature", "nan"], "--compose-temperature"),
        (["squad", "--top-p", "nan"], "--top-p"),
        (["squad", "--beam", "0"], "sizes are out of range"),
        (["composition", "--rules", "mean@nan"], "--compose-temperature"),
        (["composition", "--chunks", "1"], "--chunks"),
        (["locomo", "--probes", "-1"], "--probes"),
        (["temperature", "--temperatures", "nan"], "--compose-temperature"),
        (["temperature", "--top-k", "1"], "--top-k"),
        (["hotpot", "--rules", "mean@0"], "--compose-temperature"),
        (["hotpot", "--rules", "mean:1"], "--rules"),
        (["hotpot", "--top-k", "0"], "--top-k"),
        (["nq", "--chunk-tokens", "4"], "--chunk-tokens"),
        (["long", "--most-tokens", "900"], "--most-tokens"),
    ],
)
def test_a_number_that_an_evaluation_cannot_use_is_refused_before_anything_is_read(
    words: list[str], said: str, tmp_path: Path, run: Run
) -> None:
    ended = run("eval", *words, "--data", tmp_path / "missing.json", "--model", tmp_path / "missing")
    assert ended.status == 2
    [line] = ended.err.splitlines()
    assert said in line


def test_a_deposit_of_a_number_that_none_can_have(
    model: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRECOG_HOME", str(tmp_path))
    assert run("memory", "remember", "A red boat.", "--user", "ana", "--model", model).status == 0
    for words in (
        ["forget", "--id", HUGE, "--model", model],
        ["supersede", HUGE, "1"],
        ["supersede", "1", HUGE],
        ["show", HUGE],
    ):
        ended = run("memory", *words, "--user", "ana")
        assert ended.status == 1
        [line] = ended.err.splitlines()
        assert f"there is no such deposit; given: {HUGE}" in line
