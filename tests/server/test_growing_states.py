from pathlib import Path

from corpora_of import ANTARCTICA, ended, upload
from corpora_of import make as make_corpus
from served import client_of, services_of, settings_in

from precog.backbones.huggingface.tiny import make
from precog.encoders import Encoder
from precog.records import ModelChoice

QUESTION = "Who found radium?"


def test_a_model_whose_states_grow_answers_and_stores_nothing(tmp_path: Path, encoder: Encoder) -> None:
    folder = make("lfm2", tmp_path / "model", 0)
    chosen = ModelChoice(name=str(folder))
    chosen = ModelChoice(name=str(folder), loaded=chosen.load("once"))
    assert chosen.loaded is not None
    assert chosen.loaded.spec.grows
    with services_of(settings_in(tmp_path), chosen, encoder) as services, client_of(services) as client:
        sent = {"model": services.model_name, "input": QUESTION, "max_output_tokens": 3}
        made = client.post("/v1/responses", json=sent).json()
        assert made["store"] is False
        assert client.get(f"/v1/responses/{made['id']}").status_code == 404
        refused = client.post("/v1/responses", json={**sent, "store": True})
        assert refused.status_code == 400
        assert "states grow" in refused.json()["error"]["message"]
        said = {"role": "assistant", "content": "Yes."}
        asked = [{"role": "user", "content": "Is it?"}, said, {"role": "user", "content": "Why?"}]
        answer = client.post(
            "/v1/chat/completions", json={"model": services.model_name, "messages": asked, "max_tokens": 3}
        )
        assert answer.json()["usage"]["completion_tokens"] == 3


def test_a_corpus_has_states_with_room_for_its_own_chunks(tmp_path: Path, encoder: Encoder) -> None:
    folder = make("lfm2", tmp_path / "model", 0)
    chosen = ModelChoice(name=str(folder))
    chosen = ModelChoice(name=str(folder), loaded=chosen.load("once"))
    sizes = {}
    with services_of(settings_in(tmp_path), chosen, encoder) as services, client_of(services) as client:
        for name, tokens in (("short", 32), ("long", 400)):
            make_corpus(client, name, chunk_tokens=tokens)
            job = ended(client, upload(client, name, antarctica_txt=ANTARCTICA * 12))
            assert (job["state"], job["report"]["failures"]) == ("done", [])
            found = client.get(f"/v1/corpora/{name}").json()
            sizes[name] = found["state_bytes"]
            asked = client.post(f"/v1/corpora/{name}/ask", json={"question": QUESTION, "always_answer": True})
            assert asked.status_code == 200, asked.text
            proof = client.post(f"/v1/corpora/{name}/verify", json={"chunks": 1})
            assert proof.json()["violations"] == []
    assert sizes["long"] > 4 * sizes["short"]
