"""PRECOG in LlamaIndex. Usage: python with_llamaindex.py CORPUS"""

import sys

from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.query_engine import RetrieverQueryEngine

from precog.plugins.llamaindex import PrecogLLM, PrecogMemory, PrecogRetriever

corpus, question = sys.argv[1], "Who was named king of Bhutan in 1907?"
print(PrecogLLM(corpus=corpus, always_answer=True).complete(question).text)

engine = RetrieverQueryEngine.from_args(PrecogRetriever(corpus, similarity_top_k=1), llm=PrecogLLM())
print(engine.query(question).source_nodes[0].text[:60])

memory = PrecogMemory.from_defaults(user="example-llamaindex")
SimpleChatEngine.from_defaults(llm=PrecogLLM(), memory=memory).chat("Clara moved to Lisbon in May.")
print(memory.get("Where does Clara live?")[0].content)
memory.reset()
