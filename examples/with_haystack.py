"""PRECOG in Haystack. Usage: HAYSTACK_TELEMETRY_ENABLED=false python with_haystack.py CORPUS"""

import sys

from haystack import Pipeline

from precog.plugins.haystack import PrecogAnswerer, PrecogRetriever

corpus, question = sys.argv[1], "Who was named king of Bhutan in 1907?"
pipeline = Pipeline()
pipeline.add_component("find", PrecogRetriever(corpus, top_k=2))
pipeline.add_component("answer", PrecogAnswerer(corpus, always_answer=True))
found = pipeline.run({"find": {"query": question}, "answer": {"query": question}})
print([document.meta["document"] for document in found["find"]["documents"]])
print(found["answer"]["answers"][0].data)
