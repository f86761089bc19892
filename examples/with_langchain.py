"""PRECOG in LangChain. Usage: python with_langchain.py CORPUS"""

import sys

from precog.plugins.langchain import ChatPrecog, PrecogChatMessageHistory, PrecogRetriever

corpus, question = sys.argv[1], "Who was named king of Bhutan in 1907?"
for document in PrecogRetriever(corpus=corpus, k=2).invoke(question):
    print(document.metadata["source"], document.page_content[:60])

answer = ChatPrecog(corpus=corpus, always_answer=True).invoke(question)
print(answer.content, answer.response_metadata["confidence"])

history = PrecogChatMessageHistory("example-langchain")
history.add_user_message("Clara moved to Lisbon in May.")
print(ChatPrecog(user="example-langchain", always_answer=True).invoke("Where did Clara move?").content)
history.clear()
