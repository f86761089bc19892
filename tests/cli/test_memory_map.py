"""``precog memory map`` and ``emergent`` on the command line."""

from pathlib import Path

from ended import Run

TORQUING = [f"Roger, verb {n} noun, gyro torquing angles plus." for n in range(40)]


def test_map_and_emergent(run: Run, model: Path, tmp_path: Path) -> None:
    talk, user = tmp_path / "talk.txt", tmp_path.name
    talk.write_text("".join(f"Ana: {text}\n" for text in TORQUING))
    assert run("memory", "remember", "--file", talk, "--user", user, "--model", model).status == 0
    groups = run("memory", "emergent", "--user", user, "--json").json["emergent"]
    assert [(entry["domain"], len(entry["members"]) >= 20) for entry in groups] == [("factual", True)]
    for suffix, start in ((".png", b"\x89PNG"), (".svg", b"<?xml")):
        picture = tmp_path / f"map{suffix}"
        ended = run("memory", "map", "--user", user, "--out", picture, "--json")
        assert ended.status == 0, ended.err
        assert picture.read_bytes().startswith(start)
        assert sum(ended.json["deposits"].values()) == len(TORQUING)
        assert ended.json["emergent"] == [f"{entry['domain']} ▸ {entry['name']}" for entry in groups]
    [group] = groups
    ended = run("memory", "emergent", "--user", user, "--promote", group["name"], "--json")
    assert (ended.status, ended.json["promoted"]) == (0, group)
    assert ended.json["deposits"] >= 20
    listed = run("memory", "list", "--user", user, "--json").json["deposits"]
    assert sum(entry["subcluster"] == group["name"] for entry in listed) == ended.json["deposits"]
    ended = run("memory", "forget", "--user", user, "--id", group["members"][0], "--proof", "--json")
    assert (ended.status, ended.json["hits"]) == (0, 0)
    assert f"grouping factual ▸ {group['name']}" in ended.json["dropped"]
    ended = run("memory", "emergent", "--user", user, "--least", 40)
    assert ended.out == "no group of 40 deposits or more emerges\n"

    target = tmp_path / "none.png"
    for words, line in (
        (["map", "--out", tmp_path / "map.gif"], "a picture is a PNG or an SVG file"),
        (["map", "--out", tmp_path / "nowhere" / "map.png"], "there is no such folder"),
        (["map", "--out", target, "--domain", "weather"], "there is no such domain; given: weather"),
        (["map", "--out", target, "--method", "guess"], "there is no such projection"),
        (["map", "--out", target, "--user", "nobody"], "there is no memory of this user"),
        (["emergent", "--promote", "nothing"], "no group of that name emerges; given: nothing"),
        (["emergent", "--domain", "weather"], "there is no such domain; given: weather"),
    ):
        ended = run("memory", words[0], "--user", user, *words[1:])
        assert ended.status != 0
        [told] = ended.err.splitlines()
        assert line in told
    assert not target.exists()
