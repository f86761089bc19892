"""What holds for the source tree as a whole: direction of imports, sizes, words, documentation."""

import ast
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import typer
from typer.models import OptionInfo

from precog import errors
from precog.cli.main import COMMANDS

MOST_LINES = 500
HEAVY = ("torch", "numpy", "faiss", "onnxruntime", "tokenizers", "sentencepiece", "typer", "rich", "safetensors")


def _sources(repository: Path) -> Iterator[Path]:
    yield from sorted((repository / "src" / "precog").rglob("*.py"))


def test_imports_point_down_and_heavy_dependencies_stay_in_their_rooms(repository: Path) -> None:
    tool = Path(sys.executable).with_name("lint-imports")
    run = subprocess.run([tool, "--no-cache"], cwd=repository, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_no_file_is_longer_than_it_may_be(repository: Path) -> None:
    files = [*_sources(repository), *(repository / "tests").rglob("*.py")]
    lengths = {str(path): path.read_text(encoding="utf-8").count("\n") for path in files}
    assert not {path: length for path, length in lengths.items() if length > MOST_LINES}


def test_no_file_is_named_after_nothing(repository: Path) -> None:
    nothing = {"utils", "util", "helpers", "helper", "common", "misc"}
    assert not [path for path in _sources(repository) if path.stem in nothing or path.parent.name in nothing]


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], []])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    program = (
        "import json, sys\n"
        "from precog.cli.main import main\n"
        "try:\n"
        "    main(json.loads(sys.argv[1]))\n"
        "except SystemExit:\n"
        "    pass\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, json.dumps(arguments)], capture_output=True, text=True, check=True
    )
    loaded = set(json.loads(run.stdout.splitlines()[-1]))
    assert "precog" in loaded
    assert not loaded.intersection(HEAVY)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    from precog.cli.main import main

    with pytest.raises(SystemExit) as end:
        main([name, "--help"])
    assert end.value.code == 0
    assert f"precog {name}" in capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_no_option_is_spelt_as_its_placeholder(name: str) -> None:
    """Some versions of typer make ``--NAME`` of a parameter ``name`` whose placeholder is NAME, where nothing else is
    declared.
    """
    module, _, attribute = COMMANDS[name][0].partition(":")
    found = getattr(import_module(module), attribute)
    functions = [found]
    if isinstance(found, typer.Typer):
        entries = [*found.registered_commands, *filter(None, [found.registered_callback])]
        functions = [entry.callback for entry in entries]
    assert functions
    for function in functions:
        for parameter in inspect.signature(function).parameters.values():
            for option in getattr(parameter.annotation, "__metadata__", ()):
                if isinstance(option, OptionInfo) and not str(option.default).startswith("--"):  # its first name
                    assert (option.metavar or "").lower() != parameter.name.replace("_", "-"), parameter.name


def test_every_public_error_says_when_it_is_raised(repository: Path) -> None:
    guide = (repository / "docs" / "architecture.md").read_text(encoding="utf-8")
    found = [
        (name, thing)
        for name, thing in inspect.getmembers(errors, inspect.isclass)
        if issubclass(thing, errors.PrecogError)
    ]
    assert len(found) > 10
    codes = [thing.code for _, thing in found]
    assert len(set(codes)) == len(codes)
    for name, thing in found:
        assert thing.__doc__, name
        assert f"`{thing.code}`" in guide, f"{name} ({thing.code}) is missing in docs/architecture.md"


def test_nothing_is_pickled_and_no_network_is_opened(repository: Path) -> None:
    banned_modules = {"pickle", "cPickle", "dill", "joblib", "marshal", "shelve", "requests", "httpx", "socket"}
    for path in _sources(repository):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names = {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names = {(node.module or "").partition(".")[0]}
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
                called = ast.unparse(node.func)
                assert called not in ("torch.save", "eval", "exec"), path
                if (
                    called == "torch.load"
                ):  # one file reads pickles of others, by the unpickler that builds tensors only
                    assert path.parts[-3:] == ("backbones", "rwkv7", "weights.py")
                    assert "weights_only=True" in [ast.unparse(word) for word in node.keywords], path
                pickled = [word for word in node.keywords if word.arg == "allow_pickle"]
                assert all(ast.unparse(word.value) == "False" for word in pickled), path
                continue
            else:
                continue
            if "server" in path.parts:  # it listens
                names -= {"socket"}
            assert not names & banned_modules, f"{path} imports {names & banned_modules}"
        assert "annotations" not in {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == "__future__"
            for alias in node.names
        }, path


def test_scripts_and_files_named_in_the_readme_exist(repository: Path) -> None:
    text = (repository / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\]\((?!https?:|#)([^)#]+)[^)]*\)", text))
    named |= set(re.findall(r"(?:^|`)((?:scripts|docs|demo|\.ci)/[\w./-]+)", text, re.MULTILINE))
    assert "scripts/demo" in named
    assert "scripts/test" in named
    missing = [name for name in sorted(named) if not (repository / name).exists()]
    assert not missing


def test_the_readme_begins_with_the_two_commands(repository: Path) -> None:
    blocks = re.findall(r"^```\w*\n(.*?)^```", (repository / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    words = [line.partition("#")[0].strip() for line in blocks[0].splitlines()]
    assert words[:2] == ["scripts/demo", "scripts/test"]


def test_demo_documents_and_questions_belong_together(repository: Path) -> None:
    folder = repository / "demo" / "documents"
    files = sorted(folder.iterdir())
    assert sum(path.stat().st_size for path in files) <= 2_000_000
    assert {".pdf", ".docx", ".html", ".csv"} <= {path.suffix for path in files}
    questions = json.loads((repository / "demo" / "questions.json").read_text(encoding="utf-8"))
    assert len(questions) == 8
    assert all((folder / entry["document"]).exists() and entry["answers"] for entry in questions)
    sources = (repository / "demo" / "SOURCES.md").read_text(encoding="utf-8")
    assert not [path.name for path in files if f"`{path.name}`" not in sources]
