"""PRECOG in llm, from Python; in a shell: llm -m precog "…" -o corpus DIR. Usage: python with_llm.py CORPUS"""

import sys

import llm

model = llm.get_model("precog")
answer = model.prompt("Who was named king of Bhutan in 1907?", corpus=sys.argv[1], always_answer=True)
for piece in answer:
    print(piece, end="", flush=True)
print("\n", answer.response_json["sources"][0]["document"])
